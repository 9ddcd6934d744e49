# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the judgement prints is read on a terminal, and part of it was written by nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, stored_judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import FakeRun


def judged(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> tuple[dict[str, Any], list[str]]:
    """Return what the action returns, and what it prints."""
    printed: list[str] = []
    options = {"judgement": "", "keep": False, **given}
    monkeypatch.setattr(fabric_judge.display, "display", printed.append)
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_kwargs: {})
    arguments: dict[str, Any] = {"folder": str(folder.path), "reason": "completed", **options}
    monkeypatch.setattr(
        fabric_judge.ActionModule, "validate_argument_spec", lambda *_args: (None, arguments), raising=False
    )
    return fabric_judge.ActionModule.__new__(fabric_judge.ActionModule).run(), printed


def test_a_nodes_words_are_only_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = FakeRun()
    identity = run.ids("tcp_bandwidth")[0]
    row = run.rows(identity, "client")[0]
    said = "\x1b[2J\x1b]0;mine\x07all 1 asked checks measured and proven\nhost: \u202eok\x9b1m"
    row.update(status="failed", error={"class": "tool_failed", "message": said, "host": "x", "fix": said})
    folder = write(run, tmp_path)
    result, printed = judged(folder, monkeypatch)
    assert result["exit_status"] == 3
    assert any("all 1 asked checks" in line for line in printed)
    assert not any(line.startswith(("all 1", "host:")) for line in printed)
    assert not [line for line in (*printed, *result["lines"]) if not line.isprintable()]


def test_a_report_that_cannot_be_written_is_reported_and_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(FakeRun(), tmp_path)
    (folder.path / "report.md").mkdir()
    result, printed = judged(folder, monkeypatch)
    assert (result["exit_status"], result["failed"]) == (0, False)
    assert (folder.path / "verdicts.jsonl").stat().st_size
    assert [line for line in printed if "the report was not written" in line and "report.md" in line]


def test_a_kept_judgement_is_reported_and_nothing_is_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write(FakeRun(), tmp_path)
    first, _printed = judged(folder, monkeypatch, keep=True)
    told = (folder.path / "verdicts.jsonl").read_bytes(), (folder.path / "report.md").read_bytes()
    assert len(first["judgement"]) == 64
    monkeypatch.setattr(rejudge, "judge_folder", None)
    again, _printed = judged(folder, monkeypatch, judgement=first["judgement"], keep=True)
    assert again == first
    assert ((folder.path / "verdicts.jsonl").read_bytes(), (folder.path / "report.md").read_bytes()) == told
    last, _printed = judged(folder, monkeypatch, judgement=first["judgement"])
    assert last == {**first, "judgement": ""}
    assert not (folder.path / stored_judgement.FILE).exists()


@pytest.mark.parametrize("given", ["", "0" * 64])
def test_what_a_killed_controller_kept_is_removed_and_the_folder_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    run = FakeRun()
    folder = write(run, tmp_path)
    stored_judgement.store(folder, rejudge.Judged([], 0), stored_judgement.digest_files(folder))
    result, _printed = judged(folder, monkeypatch, judgement=given)
    assert sum(result["counts"].values()) == len(run.judge())
    assert not (folder.path / stored_judgement.FILE).exists()
