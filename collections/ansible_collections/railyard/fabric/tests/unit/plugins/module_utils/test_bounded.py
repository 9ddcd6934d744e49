# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look ends in time, whatever hangs, and says what that was."""

from __future__ import annotations

import os
import signal
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import bounded


def hangs(at):
    at("the GPUs")
    # As a program in the kernel does, it ignores who would end it gently.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(60)


def breaks(at):
    at("the rails")
    raise TypeError("no mapping")


def dies(at):
    at("the rails")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (hangs, "not done within 1 s: it hung at the GPUs"),
        (breaks, "it broke down: TypeError: no mapping"),
        (dies, "it was killed at the rails"),
    ],
)
def test_work_that_gives_nothing_is_told_with_its_place(work, why):
    begun = time.monotonic()
    assert bounded.call(work, 1.0) == (None, why)
    assert time.monotonic() - begun < 5


def test_what_is_returned_comes_whole_and_what_is_printed_does_not_come(capfd):
    def work(at):
        at("a start")
        os.write(1, b"noise")
        return {"words": ["x" * 200_000, "é"]}

    assert bounded.call(work, 30.0) == ({"words": ["x" * 200_000, "é"]}, "")
    assert capfd.readouterr().out == ""


def test_what_a_hanging_look_has_started_ends_with_it(tmp_path):
    def work(at):
        at("a program")
        started = bounded.start(["sleep", "60"])
        (tmp_path / "pid").write_text(str(started.pid))
        time.sleep(60)
        return {}

    assert bounded.call(work, 1.0)[0] is None
    pid = int((tmp_path / "pid").read_text())
    until = time.monotonic() + 5
    while time.monotonic() < until and os.path.exists(f"/proc/{pid}"):
        time.sleep(0.05)
    assert not os.path.exists(f"/proc/{pid}")


def test_a_program_that_hangs_or_is_not_there_is_told(tmp_path):
    begun = time.monotonic()
    with pytest.raises(bounded.ToolError, match="sh: no answer within 2 s") as hung:
        bounded.ask(["sh", "-c", f"echo $$ > {tmp_path}/pid; exec sleep 60"], 2.0)
    assert time.monotonic() - begun < 8
    assert not os.path.exists(f"/proc/{(tmp_path / 'pid').read_text().strip()}")
    with pytest.raises(bounded.ToolError, match="no-such-tool: not found") as gone:
        bounded.ask(["no-such-tool"], 5)
    assert (hung.value.absent, gone.value.absent) == (False, True)
    assert bounded.ask(["sh", "-c", "echo out; echo err >&2; exit 4"], 30) == (4, "out\nerr\n")


def test_a_program_is_never_taken_from_the_folder_that_we_are_in(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bounded, "PATH", "/nowhere")
    monkeypatch.delenv("PATH")
    with pytest.raises(bounded.ToolError, match="not found"):
        bounded.ask(["nvidia-smi"], 5)
