# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What srun brings is data, and each line the word of the task that srun marks it with."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import srun
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.srun import Message, SrunError

NODES = ("gpu1", "gpu2")
MOST_BYTES = 4096


def labelled(task: int, kind: str, data: bytes) -> list[str]:
    return [f"{task}: {line}" for line in frames.lines(kind, data)]


def heard(lines: list[str], errors: str = "") -> tuple[list[Message], srun.Step]:
    """Return what comes of an srun that prints so."""
    program = "import sys; sys.stdout.write(sys.argv[1]); sys.stderr.write(sys.argv[2])"
    argv = [sys.executable, "-c", program, "".join(f"{line}\n" for line in lines), errors]
    with srun.Step(argv, NODES, lambda _name: MOST_BYTES) as step:
        said = list(step.messages(60.0))
    assert step.ended
    return said, step


def test_messages_of_nodes_that_speak_at_once_are_distinguished():
    one, other = labelled(0, "facts", b"x" * 2000), labelled(1, "facts", b"y" * 2000)
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    said, _step = heard(["1: Last login: today", "", *mixed])
    assert said == [Message("gpu1", "facts", b"x" * 2000), Message("gpu2", "facts", b"y" * 2000)]
    assert max(map(len, mixed)) < 1000, "srun cuts longer ones"


def test_what_has_come_is_reported_after_a_delay(monkeypatch: pytest.MonkeyPatch):
    """Of two nodes that had ended, with all that they had measured, the second was called silent."""

    class Held:
        now_s = 0.0

        def monotonic(self) -> float:
            self.now_s += 10.0
            return self.now_s

    lines = [*labelled(0, "bye", b""), *labelled(1, "bye", b"")]
    argv = [sys.executable, "-c", "import sys; print(sys.argv[1])", "\n".join(lines)]
    with srun.Step(argv, NODES, lambda _name: MOST_BYTES) as step:
        while list(step._lines.queue).count(None) < 2:
            time.sleep(0.02)
        monkeypatch.setattr(srun, "time", Held())
        assert list(step.messages(5.0)) == [Message("gpu1", "bye", b""), Message("gpu2", "bye", b"")]
        monkeypatch.undo()


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        (labelled(0, "facts", b"x" * 2000)[1:], "damaged"),
        (["0: railyard+ %%%", *labelled(0, "facts", b"x")], "damaged"),
        (labelled(0, "facts", b"x" * (MOST_BYTES + 1)), "longer than 4096 bytes"),
    ],
)
def test_a_message_that_is_not_complete_costs_that_node_alone(lines: list[str], wrong: str):
    said, _step = heard([*lines, *labelled(1, "facts", b"y"), *labelled(0, "bye", b"")])
    assert wrong in said[0].wrong
    assert said[1:] == [Message("gpu2", "facts", b"y"), Message("gpu1", "bye", b"")]


def test_no_node_speaks_for_another_in_the_rest_of_a_long_line():
    forged = f"0: {'x' * (srun._MOST_LINE_CHARACTERS - 3)}{labelled(1, 'bye', b'')[0]}"
    said, _step = heard([forged, *labelled(0, "bye", b"")])
    assert said == [Message("gpu1", "bye", b"")]


def test_the_cause_of_an_end_is_what_srun_and_the_node_printed_last():
    errors = (
        "srun: cluster configuration lacks support for cpu binding\n"
        "0: sudo: a password is required\n"
        "7: nobody has this number\n"
        "srun: error: gpu[1-2]: tasks 0-1: Exited with exit code 1\n"
    )
    _said, step = heard([], errors)
    assert step.gone == set(NODES)
    assert step.last_output("gpu1") == "sudo: a password is required"
    assert "Exited with exit code 1" in step.last_output("gpu2")
    assert "cpu binding" not in step.last_output("gpu2")


def test_an_srun_that_does_not_end_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(srun, "_END_S", 0.5)
    deaf = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('0: up', flush=True); time.sleep(600)"
    )
    with srun.Step([sys.executable, "-c", deaf], NODES, lambda _name: MOST_BYTES) as step:
        step.send(b"x" * 2**20)  # more than a pipe holds, and nothing reads it
        while not step.last_output("gpu1"):
            list(step.messages(0.1))
    assert step._process.returncode == -9


@pytest.fixture
def cluster(tmp_path: Path):
    """Slurm's programs, as scripts; return the environment of a process in job 614."""
    scripts = {
        "srun": "",
        "squeue": '[ "$2" = --jobs=614 ] && echo "gpu[1-2]" || { echo Invalid job id >&2; exit 1; }',
        "scontrol": '[ "$*" = "show hostnames gpu[1-2]" ] && printf "gpu1\\ngpu2\\n"',
    }
    for name, text in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    return {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SLURM_JOB_ID": "614"}


def test_the_allocation_is_the_running_job_of_this_process(cluster, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", cluster["PATH"])
    held = srun.allocation(cluster)
    assert held == ("614", NODES)
    assert [held.name_of(name) for name in ("gpu1", "gpu2.example.com", "gpu3")] == ["gpu1", "gpu2", None]
    for environment, words in (
        ({**cluster, "SLURM_JOB_ID": ""}, "not inside a Slurm allocation.*salloc --exclusive"),
        ({**cluster, "SLURM_JOB_ID": "9"}, "Invalid job id"),
        ({**cluster, "PATH": "/nonexistent"}, "there is no srun here"),
    ):
        with pytest.raises(SrunError, match=words):
            srun.allocation(environment)


def test_no_node_ends_another_and_each_has_all_of_its_processors():
    argv = srun.command("614", NODES, 9, "measure")
    assert {"--jobid=614", "--label", "--cpu-bind=none", "--kill-on-bad-exit=0", "--wait=0"} <= set(argv)
    assert "--nodelist=gpu1,gpu2" in argv
    # Its own options for srun, in the environment of a job, would change the request.
    given = {"SLURM_NTASKS": "8", "SRUN_CPUS_PER_TASK": "1", "SLURM_CONF": "/etc/x", "PATH": "/bin"}
    assert srun.environment(given) == {"SLURM_CONF": "/etc/x", "PATH": "/bin"}
