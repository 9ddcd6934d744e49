# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A killed controller's secret goes with the next run; that of a living one stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import stale_secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

NEW = "20261121T120000Z-0001"
OLD = "20261121T110000Z-0002"
DAY_S = 86400


def make(tmp_path: Path, run: str, **manifest: Any) -> RunFolder:
    return run_folder.create(tmp_path, "lab", run, manifest)


def kept(folder: RunFolder) -> bool:
    return (folder.path / ".secret").exists()


def age(folder: RunFolder, seconds: float) -> None:
    secret = folder.path / ".secret"
    then = secret.stat().st_mtime - seconds
    os.utime(secret, (then, then))


def test_a_killed_controllers_secret_goes(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        old = make(tmp_path, OLD, controller=stale_secrets.controller(process.pid))
        new = make(tmp_path, NEW)
        assert stale_secrets.forget_secrets(tmp_path, NEW) == []
        assert kept(old)
        process.kill()
    assert stale_secrets.forget_secrets(tmp_path, NEW) == [OLD]
    assert (kept(old), kept(new)) == (False, True)


def test_another_clusters_secret_goes_as_well(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        mark = stale_secrets.controller(process.pid)
        process.kill()
    other = run_folder.create(tmp_path, "other", OLD, {"controller": mark})
    make(tmp_path, NEW)
    assert stale_secrets.forget_secrets(tmp_path, NEW) == [OLD]
    assert not kept(other)


def test_a_pid_that_was_given_again_is_not_the_controller(tmp_path: Path) -> None:
    mark = stale_secrets.controller(os.getpid())
    old = make(tmp_path, OLD, controller={**mark, "started_ticks": mark["started_ticks"] - 1})
    assert stale_secrets.forget_secrets(tmp_path, NEW) == [OLD]
    assert not kept(old)


def test_a_run_that_has_ended_needs_no_secret(tmp_path: Path) -> None:
    old = make(tmp_path, OLD, controller=stale_secrets.controller(os.getpid()))
    old.finish("interrupted")
    assert stale_secrets.forget_secrets(tmp_path, NEW) == [OLD]


@pytest.mark.parametrize("mark", [None, "who", {"boot_id": "another", "pid": 1, "started_ticks": 1}])
def test_a_controller_that_cannot_be_seen_has_a_day(tmp_path: Path, mark: object) -> None:
    old = make(tmp_path, OLD, controller=mark)
    age(old, DAY_S - 600)
    assert stale_secrets.forget_secrets(tmp_path, NEW) == []
    age(old, 1200)
    assert stale_secrets.forget_secrets(tmp_path, NEW) == [OLD]


def test_a_folder_that_is_being_made_is_left_alone(tmp_path: Path) -> None:
    old = make(tmp_path, OLD)
    (old.path / "manifest.json").unlink()
    assert stale_secrets.forget_secrets(tmp_path, NEW) == []
    assert kept(old)
