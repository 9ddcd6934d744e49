# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sweeps in which all is well, as the benchmark of the judge makes them, their rows and their verdicts."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.passing_tests import PassingTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from railyard.base.paths import repo_root

sys.path.insert(0, str(repo_root() / "benchmarks" / "judge"))
sound_run = importlib.import_module("sound_run")

Row = dict[str, Any]


def build_sweep(place: Path, rules: Row | None = None, **changes: Any) -> RunFolder:
    """Return a sweep of three nodes with two rails, all of whose rails are tested at once."""
    folder, rules = place / "made" / sound_run.RUN, {"questions": "together", **(rules or {})}
    return RunFolder(sound_run.build(folder, 3, 2, rules=rules, **changes))


def lines_of(folder: RunFolder, name: str = "results") -> list[Row]:
    """Return the rows of a file as they are written, packed ones too."""
    return [json.loads(line) for line in (folder.path / f"{name}.jsonl").open(encoding="utf-8")]


def judge_lines(folder: RunFolder) -> tuple[list[str], rejudge.Judged]:
    """Return the verdicts as they are written, and what came out."""
    judged = rejudge.judge_folder(folder.path)
    return [run_folder.line(one) for one in judged.verdicts], judged


def record_passing(monkeypatch: pytest.MonkeyPatch) -> list[PassingTests]:
    """Return the list into which goes what each judgement finds to pass by the columns."""
    found: list[PassingTests] = []
    find = verdict.passing_tests.find_passing

    def seen(*given: Any) -> PassingTests:
        found.append(find(*given))
        return found[-1]

    monkeypatch.setattr(verdict.passing_tests, "find_passing", seen)
    return found
