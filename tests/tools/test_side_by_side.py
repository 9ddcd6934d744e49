"""The parts of the test suite side by side, here with parts of a line or two: who ends, how, what is said."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import labs_lock
import pytest
import side_by_side
from railyard.base.paths import repo_root

PROGRAM = repo_root() / "tools" / "side_by_side.py"
LONG_S = 120  # a part that is ended would sleep so long


class Plan:
    """A command with a branch for each part, and the runner that is called with it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.parts: dict[str, str] = {}
        self.started: list[subprocess.Popen[str]] = []

    def part(self, name: str, shell: str) -> None:
        self.parts[name] = shell

    def argv(self, *arguments: str, budget_min: float = 1) -> list[str]:
        script = self.folder / "parts"
        branches = "".join(f"{name}) {shell} ;;\n" for name, shell in self.parts.items())
        script.write_text(
            f"#!/usr/bin/env bash\ncd {self.folder}\ncase $1 in\n{branches}esac\n", encoding="utf-8"
        )
        script.chmod(0o755)
        budgets = [word for name in self.parts for word in ("--budget", f"{name}={budget_min}")]
        # Its own come first: the last one of two counts.
        return [sys.executable, str(PROGRAM), *budgets, *arguments, "--", str(script)]

    def start(self, *arguments: str, budget_min: float = 1) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.argv(*arguments, budget_min=budget_min),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, labs_lock.HELD: "1"},
            # As a terminal gives each job one, so that Ctrl-C reaches no test.
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def run(self, *arguments: str, budget_min: float = 1) -> tuple[int, str]:
        process = self.start(*arguments, budget_min=budget_min)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out

    def pid(self, name: str) -> int:
        """Wait until a part has written its process id; return it."""
        file = self.folder / name
        wait_until(lambda: file.exists() and file.read_text().endswith("\n"))
        return int(file.read_text())


@pytest.fixture
def plan(tmp_path):
    made = Plan(tmp_path)
    yield made
    for process in made.started:
        if process.poll() is None:
            side_by_side.end_tree(process)
            process.wait()


def wait_until(there: Callable[[], bool], seconds: float = 20) -> None:
    until = time.monotonic() + seconds
    while not there():
        assert time.monotonic() < until
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        # A process that has ended and that nobody has asked for is none.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def rows(out: str) -> dict[str, str]:
    """Part → verdict, as the table at the end says."""
    table = out.rpartition(" s in all\n")[2]
    found = re.findall(r"^(\S+) +(\S.*?) +[0-9]+ s of [0-9.]+ min$", table, re.M)
    return dict(found)


def test_all_passed_is_0_and_each_part_has_its_row(plan):
    plan.part("lint", "echo clean")
    plan.part("unit", "true")
    status, out = plan.run("--stage", "lint | unit")
    assert status == 0, out
    assert rows(out) == {"lint": "passed", "unit": "passed"}
    assert out.endswith("parts: 2 passed, 0 failed\n")


def test_a_part_that_fails_fails_the_run_and_stops_no_other(plan):
    plan.part("lint", "exit 3")
    plan.part("types", "true")
    plan.part("unit", "true")
    plan.part("e2e", "true")
    status, out = plan.run("--stage", "lint types | unit", "--stage", "e2e")
    assert status == 1
    assert rows(out) == {"lint": "FAILED (3)", "types": "passed", "unit": "passed", "e2e": "passed"}
    assert "failed: lint\nparts: 3 passed, 1 failed\n" in out


def test_a_part_that_is_killed_has_failed(plan):
    plan.part("lint", "kill -KILL $$")
    plan.part("unit", "true")
    status, out = plan.run("--stage", "lint | unit")
    assert status == 1
    assert rows(out) == {"lint": "FAILED (SIGKILL)", "unit": "passed"}


def test_rows_run_at_the_same_time_and_parts_of_a_row_in_their_order(plan):
    # Each of the first waits for the other; the last would end at once were it not behind its row's first.
    plan.part("a", "touch a; until [[ -e b ]]; do sleep 0.05; done")
    plan.part("b", "touch b; until [[ -e a ]]; do sleep 0.05; done; sleep 0.3; touch b-ended")
    plan.part("c", "[[ -e b-ended ]]")
    status, out = plan.run("--stage", "a | b c")
    assert status == 0, out


def test_the_next_stage_waits_for_all_rows(plan):
    plan.part("slow", "sleep 0.5; touch slow-ended")
    plan.part("quick", "true")
    plan.part("after", "[[ -e slow-ended ]]")
    status, out = plan.run("--stage", "slow | quick", "--stage", "after")
    assert status == 0, out


def test_what_parts_write_side_by_side_is_not_mixed(plan):
    count = "for i in {1..30}; do echo $0 $1 line $i; echo $1 error >&2; sleep 0.02; done"
    plan.part("a", count)
    plan.part("b", count + "; printf 'no end of line'")
    status, out = plan.run("--stage", "a | b")
    assert status == 0
    order = re.findall(r"^=== (\w): passed|^\S+ (\w) line|^(\w) error|^(---) ", out, re.M)
    words = ["".join(one) for one in order]
    assert words[:2] == ["---", "---"]
    assert sorted(("".join(words[2:63]), "".join(words[63:]))) == ["a" * 61, "b" * 61]
    assert "no end of line\n\n=== " in out


def test_a_part_that_prints_nothing_says_so(plan):
    plan.part("a", "true")
    plan.part("b", "echo something")
    _, out = plan.run("--stage", "a | b")
    assert re.search(r"^=== a: passed after 0 s\n\(it printed nothing\)\n", out, re.M)


def test_what_is_under_way_is_said_from_time_to_time(plan):
    plan.part("a", "sleep 1")
    plan.part("b", "sleep 1")
    _, out = plan.run("--stage", "a | b", "--say-every-s", "0.3")
    assert re.search(r"^--- \d\d:\d\d:\d\d under way: a \(\d s\), b \(\d s\)$", out, re.M)


def test_a_part_that_has_its_stage_for_itself_writes_at_once(plan):
    plan.part("a", f"trap 'touch ended; exit 1' INT; echo here; sleep {LONG_S} & wait")
    process = plan.start("--stage", "a", budget_min=0.1)
    assert process.stdout is not None
    assert "here\n" in process.stdout
    assert not (plan.folder / "ended").exists()


def test_a_part_that_takes_twice_its_budget_is_ended_and_has_failed(plan):
    # It says that all went well, as a program may that is told to stop.
    plan.part("a", f"trap 'exit 0' INT; echo $$ >pid; sleep {LONG_S} & wait")
    plan.part("b", "true")
    began = time.monotonic()
    status, out = plan.run("--stage", "a | b", budget_min=0.01)
    assert 1.2 <= time.monotonic() - began < 15
    assert status == 1
    assert rows(out) == {"a": "FAILED (hung)", "b": "passed"}
    assert not alive(plan.pid("pid"))


def test_a_part_that_heeds_no_signal_is_ended_all_the_same(plan, monkeypatch):
    monkeypatch.setattr(side_by_side, "_TERMINATE_GRACE_S", 0.3)
    # Its child has a session of its own, which a signal to the group does not reach.
    plan.part("a", f"trap '' INT TERM; echo $$ >pid; setsid bash -c 'echo $$ >child; sleep {LONG_S}'; true")
    argv = plan.argv("--stage", "a", "--grace-s", "0.3", budget_min=0.01)
    monkeypatch.setenv(labs_lock.HELD, "1")
    assert side_by_side.main(argv[2:]) == 1
    wait_until(lambda: not alive(plan.pid("pid")) and not alive(plan.pid("child")))


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_an_interrupt_ends_what_is_under_way_and_says_what_it_was(plan, number, status):
    clean = f"trap 'echo cleaned up; exit 0' INT; echo $$ >$1-pid; sleep {LONG_S} & wait"
    plan.part("a", clean)
    plan.part("b", clean)
    plan.part("c", "true")
    process = plan.start("--stage", "a c | b")
    pids = [plan.pid("a-pid"), plan.pid("b-pid")]
    process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == status
    assert re.search(rf"{number.name}: stopping, labs are taken down: a \(\d s\), b \(\d s\)\n", out)
    assert out.count("\ncleaned up\n") == 2
    assert rows(out) == {"a": "interrupted", "b": "interrupted", "c": "not run"}
    assert "parts: 0 passed, 3 failed" in out
    assert [alive(pid) for pid in pids] == [False, False]


def test_what_an_interrupted_part_leaves_in_its_group_is_ended(plan):
    plan.part(
        "a",
        f"(trap '' INT; echo $BASHPID >child; exec sleep {LONG_S}) & trap 'exit 1' INT; echo $$ >pid; wait",
    )
    process = plan.start("--stage", "a")
    plan.pid("pid")
    child = plan.pid("child")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    wait_until(lambda: not alive(child))


def test_a_second_interrupt_ends_it_at_once(plan):
    plan.part("a", f"trap '' INT; echo $$ >pid; sleep {LONG_S}")
    process = plan.start("--stage", "a")
    pid = plan.pid("pid")
    process.send_signal(signal.SIGINT)
    # The same signal again within a second is `make`, which handed it on.
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.6)
    assert alive(pid)
    time.sleep(0.6)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert rows(out) == {"a": "interrupted"}
    assert not alive(pid)


def test_a_terminal_that_is_gone_keeps_no_part_from_cleaning_up(plan):
    plan.part("a", f"trap 'sleep 1; touch cleaned; exit 0' INT; echo $$ >pid; sleep {LONG_S} & wait")
    plan.part("b", "true")
    process = plan.start("--stage", "a | b")
    plan.pid("pid")
    assert process.stdout is not None
    process.stdout.close()
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=30) == 129
    assert (plan.folder / "cleaned").exists()


def test_only_what_is_wanted_runs_in_the_stages_order(plan):
    for name in ("a", "b", "c", "d"):
        plan.part(name, f"echo {name} >>order")
    status, out = plan.run("--stage", "a | b", "--stage", "c d", "--want", "d", "--want", "a")
    assert status == 0
    assert list(rows(out)) == ["a", "d"]
    assert (plan.folder / "order").read_text() == "a\nd\n"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--stage", "a", "--want", "e2e"], "wanted, and in no stage: e2e"),
        (["--stage", "a nobody"], "no budget: nobody"),
        (["--stage", "a", "--stage", "b | a"], "in the stages twice: a"),
        (["--stage", " | "], "there is nothing to run"),
    ],
)
def test_a_plan_with_a_hole_runs_nothing(plan, arguments, complaint):
    plan.part("a", "touch ran")
    plan.part("b", "touch ran")
    status, out = plan.run(*arguments)
    assert (status, out) == (2, f"side_by_side: {complaint}\n")
    assert not (plan.folder / "ran").exists()


def holding(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, b"process 1 in /somewhere, since 10:00:00\n")
    return handle


def test_a_second_run_with_labs_waits_and_says_for_whom(tmp_path, monkeypatch):
    monkeypatch.delenv(labs_lock.HELD, raising=False)
    path = tmp_path / "lock"
    other = holding(path)
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        os.close(other)

    mine = labs_lock.take(say, path=path)
    assert mine is not None
    assert said == [
        "waiting: another test run has the labs of this machine (process 1 in /somewhere, since 10:00:00)"
    ]
    assert path.read_text().startswith(f"process {os.getpid()} in ")
    with path.open() as again, pytest.raises(BlockingIOError):
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(mine)


def test_an_interrupt_ends_the_waiting_for_labs(plan, tmp_path, monkeypatch):
    monkeypatch.delenv(labs_lock.HELD, raising=False)
    path = tmp_path / "lock"
    other = holding(path)
    asked = iter([False, True])
    assert labs_lock.take(lambda text: None, path=path, stopped=lambda: next(asked)) is None
    os.close(other)


def test_a_run_with_labs_holds_the_lock_until_its_end_and_its_children_know(
    plan, tmp_path, monkeypatch, capfd
):
    monkeypatch.delenv(labs_lock.HELD, raising=False)
    path = tmp_path / "lock"
    take = labs_lock.take
    monkeypatch.setattr(labs_lock, "take", lambda say, **words: take(say, **words, path=path))
    look = f"echo held=${labs_lock.HELD}; flock --nonblock {path} true && echo free || echo taken"
    for name in ("a", "b", "c"):
        plan.part(name, look)
    argv = plan.argv("--stage", "a", "--stage", "b", "--stage", "c", "--labs", "b")
    assert side_by_side.main(argv[2:]) == 0
    said = re.findall(r"^(held=.*|free|taken)$", capfd.readouterr().out, re.M)
    assert said == ["held=", "free", "held=1", "taken", "held=1", "taken"]
    with path.open() as again:
        fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)


def suite() -> tuple[list[str], set[str], list[str]]:
    """The stages of tools/test, the parts that have a budget, and the names of its functions."""
    text = (repo_root() / "tools" / "test").read_text(encoding="utf-8")
    stages = re.search(r"^stages=\(\n(.*?)^\)$", text, re.M | re.S)
    assert stages is not None
    budgets = set(re.findall(r"\[(\w+)\]=\d+", text))
    return re.findall(r'"(.+)"', stages[1]), budgets, re.findall(r"^(\w+)\(\) \{", text, re.M)


def test_every_part_of_the_suite_stands_in_one_stage():
    stages, budgets, functions = suite()
    assert len(stages) > 3
    assert sorted(word for stage in stages for word in stage.split() if word != "|") == sorted(budgets)
    assert sorted(functions) == sorted(budgets)


def test_every_test_file_with_labs_is_run_by_one_part():
    text = (repo_root() / "tools" / "test").read_text(encoding="utf-8")
    for folder in ("e2e", "drivers"):
        for path in (repo_root() / "tests" / folder).glob("test_*.py"):
            assert text.count(f"tests/{folder}/{path.name}") == 1, path.name


def test_what_is_no_part_is_refused():
    done = subprocess.run(
        [repo_root() / "tools" / "test", "nonsense"], text=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert 'no part is called "nonsense"' in done.stderr
