"""The parts of the test suite side by side, with parts of a line or two: how each ends, the report."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from railyard.base.paths import repo_root
from railyard.lab.process import state_of
from support.programs import wait_until

TOOLS = repo_root() / "tools"
LONG_S = 600  # a part that is ended would sleep so long


class Plan:
    """A command with a branch for each part, and the runner that is called with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **parts: str) -> subprocess.Popen[str]:
        script = self.folder / "parts"
        branches = "".join(f"{name}) {shell} ;;\n" for name, shell in parts.items())
        script.write_text(f"#!/bin/bash\ncd {self.folder}\ncase $1 in\n{branches}esac\n", encoding="utf-8")
        script.chmod(0o755)
        process = subprocess.Popen(
            # Under nohup the hang-up comes ignored, and bash cannot trap what it was started with ignored.
            ["env", "--default-signal=HUP", TOOLS / "side_by_side", *arguments, "--", script],
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "RAILYARD_LABS_LOCK": str(self.folder / "lock"),
                "RAILYARD_LABS_LOCK_HELD": "",
            },
            # As a terminal gives each job one, so that Ctrl-C reaches no test.
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, **parts: str) -> tuple[int, str]:
        process = self.start(*arguments, **parts)
        out, _ = process.communicate(timeout=LONG_S)
        return process.returncode, out

    def pid(self, name: str) -> int:
        """Wait until a part has written its process id; return it."""
        file = self.folder / name
        assert wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())

    def pid_if_begun(self, name: str) -> int:
        """Return the process id of a part, or 0: one that has no budget may be ended before it begins."""
        file = self.folder / name
        return int(file.read_text() or 0) if file.exists() else 0


@pytest.fixture
def plan(tmp_path):
    made = Plan(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            for number in (signal.SIGINT, signal.SIGKILL):
                process.send_signal(number)
                time.sleep(2)


def alive(pid: int) -> bool:
    # A process that has ended and that no one has waited for is none.
    return pid != 0 and state_of(pid) not in ("", "Z")


def rows(out: str) -> dict[str, str]:
    """Part → verdict, as the table at the end says."""
    table = out.rpartition(" s in all\n")[2]
    return dict(re.findall(r"^(\S+) +(\S.*?) +[0-9]+ s of [0-9]+ min$", table, re.M))


def test_rows_run_at_the_same_time_and_a_stage_waits_for_all_of_them(plan):
    # `a` and `b` wait for each other; `c` would fail were it not behind `b`, and `d` beside them.
    status, out = plan.run(
        "a=1 | b=1 c=1",
        "d=1 e=1",
        "--only",
        "a b c d",
        a="touch a; until [[ -e b ]]; do sleep 0.05; done; sleep 0.5; touch a-ended",
        b="touch b; until [[ -e a ]]; do sleep 0.05; done; touch b-ended",
        c="[[ -e b-ended ]] && echo row $SIDE_BY_SIDE_ROW",
        d="[[ -e a-ended ]]",
    )
    assert status == 0, out
    assert rows(out) == dict.fromkeys("abcd", "passed")
    assert out.endswith("parts: 4 passed, 0 failed\n")
    assert re.search(r"^=== c: passed after \d+ s\nrow 2\n", out, re.M)


def test_a_row_with_a_plus_goes_on_beside_the_stages_that_follow(plan):
    # `low`, the second of its row, ends when `d`, two stages later, has begun, and `d` when `low` has ended.
    status, out = plan.run(
        "a=1 | +first=1 low=1 e=1",
        "b=1",
        "d=1",
        a="true",
        b="[[ ! -e low-ended ]]",
        d="touch d; until [[ -e low-ended ]]; do sleep 0.05; done",
        first="true",
        low="until [[ -e d ]]; do sleep 0.05; done; touch low-ended",
        e="sleep 1; touch e-ended",
    )
    assert status == 0, out
    assert rows(out) == dict.fromkeys(("a", "first", "low", "e", "b", "d"), "passed")
    assert (plan.folder / "e-ended").exists()
    # What runs beside another is printed when it has ended, and not mixed with it.
    assert "\n=== d: passed after " in out


def test_a_row_with_a_plus_that_is_all_there_is_is_shown_at_once(plan):
    process = plan.start(
        "a=1 | +b=1", "c=1", "--only", "b", b="echo begun; until [[ -e seen ]]; do sleep 0.05; done"
    )
    assert any(line == "begun\n" for line in process.stdout)
    (plan.folder / "seen").touch()
    out, _ = process.communicate(timeout=LONG_S)
    assert rows(out) == {"b": "passed"}


def test_an_interrupt_ends_what_goes_on_beside_later_stages(plan):
    wait = f"trap 'echo cleaned up; exit 0' INT; echo $$ >$1-pid; sleep {LONG_S} & wait"
    process = plan.start("a=1 | +b=1 never=1", "c=1", a="true", b=wait, c=wait, never="true")
    pids = [plan.pid(f"{part}-pid") for part in "bc"]
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == 130
    assert rows(out) == {"a": "passed", "b": "interrupted", "never": "not run", "c": "interrupted"}
    assert out.count("\ncleaned up\n") == 2
    assert wait_until(lambda: not any(alive(pid) for pid in pids))


def test_what_goes_on_beside_later_stages_has_its_budget_to_the_end(plan):
    status, out = plan.run(
        "a=1 | +b=0", "c=1", a="true", b=f"trap 'exit 0' INT; sleep {LONG_S} & wait", c="true"
    )
    assert status == 1
    assert rows(out) == {"a": "passed", "b": "FAILED (over its budget)", "c": "passed"}


def test_a_part_that_fails_fails_the_run_and_stops_no_other(plan):
    status, out = plan.run("a=1 b=1 | c=1", "d=1", a="exit 3", b="true", c="kill -KILL $$", d="true")
    assert status == 1
    assert rows(out) == {"a": "FAILED (3)", "b": "passed", "c": "FAILED (137)", "d": "passed"}
    assert "failed: a c\nparts: 2 passed, 2 failed\n" in out


def test_what_parts_write_side_by_side_is_not_mixed(plan):
    count = "for i in {1..30}; do echo $1; echo $1 >&2; sleep 0.02; done; printf 'no end of line'"
    _, out = plan.run("a=1 | b=1", a=count, b=count)
    assert sorted(re.findall(r"passed after \d+ s\n((?:[ab]\n)+)no end of line\n", out)) == [
        "a\n" * 60,
        "b\n" * 60,
    ]


def test_the_last_lines_say_why_each_failed_part_failed(plan):
    # As molecule frames, colours and wraps what a failed task says; what came before it is no reason.
    task = [
        "TASK [rail : Look]",
        "  ****",
        "ok: [n1]",
        "TASK [rail : Set]",
        "fatal: [n1]: FAILED! => {",
        '  "msg": "no link"}',
    ]
    framed = "".join(
        f"  \033[2m│\033[0m \033[31m{line}\033[0m\n" for line in [*task, "PLAY RECAP", "n1: failed=1"]
    )
    many = "for i in {1..40}; do echo ERROR: line $i; done; echo 1 failed; false"
    told = "seq 40; exit 3"
    status, out = plan.run(
        "a=1 | b=1 | ok=1", "c=1", a=f"printf '%b' '{framed}'; exit 2", b=many, ok="true", c=told
    )
    assert status == 1
    assert out.partition("ok               passed")[2].splitlines()[2:] == [
        "--- a: FAILED (2), since:",
        "TASK [rail : Set]",
        'fatal: [n1]: FAILED! => { "msg": "no link"}',
        "--- b: FAILED (1), since:",
        *(f"ERROR: line {number}" for number in (38, 39, 40)),
        "1 failed",
        "--- c: FAILED (3), since:",
        *map(str, range(37, 41)),
        "failed: a b c",
        "parts: 1 passed, 3 failed",
    ]


def test_of_a_part_with_parts_of_its_own_the_last_lines_name_those_that_failed(plan):
    parts = "[[ $0 == good ]] || { echo FAILED test_x; exit 1; }"
    inner = f"{TOOLS}/side_by_side 'good=1 | bad=1' -- bash -c '{parts}'"
    _, out = plan.run("a=1 | b=1", a=inner, b="true")
    assert "FAILED test_x\nfailed: bad\nparts: 1 passed, 1 failed\nfailed: a\n" in out


def test_what_a_part_writes_that_has_its_stage_for_itself_is_shown_at_once(plan):
    process = plan.start("a=1", a="echo begun; until [[ -e seen ]]; do sleep 0.05; done; echo ended")
    assert any(line == "begun\n" for line in process.stdout)
    (plan.folder / "seen").touch()
    out, _ = process.communicate(timeout=LONG_S)
    assert out.startswith("ended\n")


def test_a_part_over_its_budget_is_ended_and_named(plan):
    # It says that all went well, as a program may that has to stop.
    parts = {"a": f"trap 'exit 0' INT; echo $$ >pid; sleep {LONG_S} & wait", "b": "true"}
    status, out = plan.run("a=0 | b=1", **parts)
    assert status == 1
    assert rows(out) == {"a": "FAILED (over its budget)", "b": "passed"}
    assert not alive(plan.pid_if_begun("pid"))


def test_a_part_that_heeds_no_signal_is_ended_all_the_same(plan):
    # Its child has a session of its own, which a signal to the group does not reach.
    part = f"trap '' INT TERM; echo $$ >pid; setsid bash -c 'echo $$ >child; sleep {LONG_S}'; true"
    plan.run("--grace", "0", "a=0", a=part)
    assert wait_until(lambda: not alive(plan.pid_if_begun("pid")) and not alive(plan.pid_if_begun("child")))


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_lets_parts_clean_up_and_leaves_no_child(plan, number, status):
    child = f"(trap '' INT; echo $BASHPID >$1-child; exec sleep {LONG_S}) & "
    clean = child + "trap 'echo cleaned up; exit 0' INT; echo $$ >$1-pid; wait"
    process = plan.start("a=1 c=1 | b=1", a=clean, b=clean, c="true")
    pids = [plan.pid(f"{part}-{which}") for part in "ab" for which in ("pid", "child")]
    process.send_signal(number)
    out, _ = process.communicate(timeout=LONG_S)
    assert process.returncode == status
    assert re.search(rf"{number.name}: stopping, labs are taken down: a \(\d+ s\), b \(\d+ s\)\n", out)
    assert out.count("\ncleaned up\n") == 2
    assert rows(out) == {"a": "interrupted", "b": "interrupted", "c": "not run"}
    assert wait_until(lambda: not any(alive(pid) for pid in pids))


def test_a_second_interrupt_ends_it_at_once(plan):
    for turn in range(4):
        process = plan.start("a=1", a=f"trap '' INT; echo $$ >pid-{turn}; sleep {LONG_S}")
        pid = plan.pid(f"pid-{turn}")
        process.send_signal(signal.SIGINT)
        assert any("stopping" in line for line in process.stdout)
        # The same signal again within a second is `make`, which handed it on; this process may be held up.
        process.send_signal(signal.SIGINT)
        time.sleep(0.6)
        if alive(pid):
            break
    assert alive(pid)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=LONG_S)
    assert (process.returncode, rows(out)) == (130, {"a": "interrupted"})
    assert not alive(pid)


def test_a_terminal_that_is_gone_keeps_no_part_from_cleaning_up(plan):
    clean = f"trap 'sleep 1; touch cleaned; exit 0' INT; echo $$ >pid; sleep {LONG_S} & wait"
    process = plan.start("a=1 | b=1", a=clean, b="true")
    plan.pid("pid")
    process.stdout.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=LONG_S) == 129
    assert (plan.folder / "cleaned").exists()


def test_a_run_with_labs_waits_for_another_says_whose_and_holds_the_lock(plan):
    look = f"echo held=$RAILYARD_LABS_LOCK_HELD; flock -n {plan.folder}/lock true && echo free || echo taken"
    lock = plan.folder / "lock"
    with lock.open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        other.write("process 1 in /somewhere, since 10:00:00\n")
        other.flush()
        process = plan.start("a=1", "b=1", "c=1", "--labs", "b", a="echo not yet", b=look, c=look)
        said = "another test run has the labs of this machine (process 1 in /somewhere, since 10:00:00)"
        assert f"waiting: {said}\n" in process.stdout
    out, _ = process.communicate(timeout=LONG_S)
    assert re.findall(r"^(?:held=.*|free|taken)$", out, re.M) == ["held=1", "taken"] * 2
    assert lock.read_text().startswith(f"process {process.pid} in ")


def test_an_interrupt_ends_the_waiting_for_labs(plan):
    with (plan.folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = plan.start("a=1", "--labs", "a", a="true")
        assert any("waiting: " in line for line in process.stdout)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LONG_S)
    assert (process.returncode, rows(out)) == (130, {"a": "not run"})


def test_an_interrupt_while_waiting_for_labs_ends_what_goes_on_beside_them(plan):
    wait = f"trap 'echo cleaned up; exit 0' INT; echo $$ >pid; sleep {LONG_S} & wait"
    with (plan.folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = plan.start("+b=1", "a=1", "--labs", "a", a="true", b=wait)
        assert any("waiting: " in line for line in process.stdout)
        pid = plan.pid("pid")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=LONG_S)
    assert (process.returncode, rows(out)) == (130, {"b": "interrupted", "a": "not run"})
    assert "\ncleaned up\n" in out
    assert not alive(pid)


def test_the_waiting_for_labs_has_an_end(plan, monkeypatch):
    monkeypatch.setenv("RAILYARD_LABS_PATIENCE_S", "1")
    with (plan.folder / "lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        process = plan.start("a=1", "--labs", "a", a="true")
        out, _ = process.communicate(timeout=LONG_S)
    assert f"gave up after 1 s: {plan.folder}/lock is still locked" in out
    assert process.returncode != 0


def test_every_part_of_the_suite_is_in_one_stage():
    text = (TOOLS / "test").read_text(encoding="utf-8")
    stages = re.search(r"^stages=\(\n(.*?)^\)$", text, re.M | re.S)
    parts = re.findall(r"(\w+)=\d+", stages[1])
    assert len(parts) > 10
    assert sorted(re.findall(r"^(\w+)\(\) \{", text, re.M)) == sorted(parts)


def test_every_test_file_with_labs_is_run_by_one_part():
    text = (TOOLS / "test").read_text(encoding="utf-8")
    for folder in ("e2e", "drivers"):
        for path in (repo_root() / "tests" / folder).glob("test_*.py"):
            file = f"tests/{folder}/{path.name}"
            # Of one file two parts may run what matches a word in its name, and all else.
            but = re.search(rf'-k "not (\w+)" {re.escape(file)}', text)
            assert text.count(file) == (2 if but else 1), path.name
            assert but is None or f"-k {but[1]} {file}" in text, path.name


def test_what_is_no_part_is_refused():
    done = subprocess.run([TOOLS / "test", "nonsense"], text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert 'no part is called "nonsense"' in done.stderr
