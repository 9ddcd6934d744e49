# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look ends in time, whatever hangs, and says what that was."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import bounded

LONG_S, SOON_S = 600, 60
# What hangs must have begun by then: a second is enough but where the processor is somebody else's.
LIMITS_S = (1, 20)


def hangs(at):
    at("the GPUs")
    # As a program in the kernel does, it ignores who would end it gently.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(LONG_S)


def breaks(at):
    at("the rails")
    raise TypeError("no mapping")


def dies(at):
    at("the rails")
    os.kill(os.getpid(), signal.SIGKILL)


def ended(pid):
    """Tell whether a process has ended, at the latest in a minute; a killed one may wait for a processor."""
    until = time.monotonic() + SOON_S
    while time.monotonic() < until:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize(
    ("work", "why"),
    [(breaks, "it failed: TypeError: no mapping"), (dies, "it was killed at the rails")],
)
def test_work_that_gives_nothing_is_reported_with_its_place(work, why):
    assert bounded.call(work, SOON_S) == (None, why)


def test_work_that_hangs_is_reported_with_its_place():
    begun = time.monotonic()
    for limit_s in LIMITS_S:
        told, why = bounded.call(hangs, limit_s)
        if "its start" not in why:
            break
    assert (told, why) == (None, f"not done within {limit_s} s: it hung at the GPUs")
    assert time.monotonic() - begun < sum(LIMITS_S) + SOON_S


def test_what_is_returned_comes_completely_and_what_is_printed_does_not_come(capfd):
    def work(at):
        at("a start")
        os.write(1, b"noise")
        return {"words": ["x" * 200_000, "é"]}

    assert bounded.call(work, 30.0) == ({"words": ["x" * 200_000, "é"]}, "")
    assert capfd.readouterr().out == ""


def test_what_a_hanging_look_has_started_ends_with_it(tmp_path):
    def work(at):
        at("a program")
        started = bounded.start(["sleep", str(LONG_S)])
        pids.write_text(f"{started.pid}\n")
        time.sleep(LONG_S)
        return {}

    pids = tmp_path / "pid"
    for limit_s in LIMITS_S:
        assert bounded.call(work, limit_s)[0] is None
        if pids.exists() and pids.read_text():
            break
    assert ended(int(pids.read_text()))


def test_a_program_that_hangs_or_is_not_there_is_reported():
    begun = time.monotonic()
    started = bounded.start(["sleep", str(LONG_S)])
    with pytest.raises(bounded.ToolError, match="sleep: no answer within 1 s") as hung:
        bounded.finish(started, "sleep", 1.0)
    assert time.monotonic() - begun < SOON_S
    assert ended(started.pid)
    with pytest.raises(bounded.ToolError, match="no-such-tool: not found") as gone:
        bounded.ask(["no-such-tool"], 5)
    assert (hung.value.absent, gone.value.absent) == (False, True)
    assert bounded.ask(["sh", "-c", "echo out; echo err >&2; exit 4"], SOON_S) == (4, "out\nerr\n")


def test_a_program_that_ended_while_this_process_was_held_up_has_answered(monkeypatch):
    """`nvidia-smi: no answer within 10 s` was reported with the answer in the pipe."""
    started = bounded.start(["echo", "word"])
    communicate, turns = started.communicate, []

    def held_up(timeout):
        turns.append(started.wait(SOON_S))
        if len(turns) == 1:
            raise subprocess.TimeoutExpired("echo", timeout)
        return communicate(timeout=timeout)

    monkeypatch.setattr(started, "communicate", held_up)
    assert bounded.finish(started, "echo", 0.1) == (0, "word\n")


def test_a_program_is_never_taken_from_the_folder_that_we_are_in(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho mine\n")
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bounded, "PATH", "/nowhere")
    monkeypatch.delenv("PATH")
    with pytest.raises(bounded.ToolError, match="not found"):
        bounded.ask(["nvidia-smi"], 5)
