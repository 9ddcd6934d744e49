# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner that no systemd watches: found and ended by its pid."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import process as runner_process

RUN = "20261121T101500Z-3f2a"


def test_a_direct_runner_that_ends_just_now_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = runner_process.DirectProcess(RUN, str(tmp_path), lambda _argv: (0, "", ""))
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    # It was there when it was looked for, and is gone when the signal is sent.
    pids = [gone.pid, gone.pid]
    monkeypatch.setattr(process, "_pid", lambda: pids.pop() if pids else None)
    process.stop()
    assert pids == []


def test_a_direct_runner_is_found_by_pid_and_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    process = runner_process.process("direct", RUN, str(folder), lambda _argv: (0, "", ""))
    assert process.running() is False
    process.start([sys.executable, "-c", "import time; time.sleep(30)", str(folder)], 60)
    assert process.running() is True
    pid = int((folder / "runner.pid").read_text())
    os.kill(pid, 0)
    os.waitpid(pid, os.WNOHANG)
    os.kill(pid, signal.SIGTERM)
    os.waitpid(pid, 0)
    assert process.running() is False
    # A pid that the kernel has given to another process is not the runner's.
    (folder / "runner.pid").write_text("1")
    assert process.running() is False
