#!/usr/bin/env python3
"""Runs the parts of a test suite in stages, rows of parts side by side, each part within a budget of minutes.

    side_by_side.py --stage 'lint types | unit' --budget lint=3 ... [--want lint ...] -- COMMAND...

A stage's rows are parted by `|` and run at the same time, a row's parts one after the other; the next stage
begins when all rows have ended. COMMAND gets a part's name as its last argument, and its row's number, from
1, in SIDE_BY_SIDE_ROW. A part that fails does not stop the others: one run shows all that is broken.

A part that has its stage for itself writes to the terminal. What parts side by side write is kept, and is
printed whole when the part has ended. A part that takes twice its budget counts as hung and is ended, with
all that it started; so is everything at Ctrl-C, SIGTERM or a lost terminal.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO

import labs_lock

_POLL_S = 0.2
# `make` hands a SIGTERM on that the whole group may have had already: that is no second wish.
_SAME_SIGNAL_S = 1.0
_TERMINATE_GRACE_S = 15.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PASSED = "passed"

Stage = list[list[str]]  # rows, each of parts


class PlanError(Exception):
    """The stages, budgets and wishes do not fit together."""


@dataclass
class Settings:
    """How the parts are run.

    Attributes:
        command: argv that gets a part's name as its last argument.
        budgets_min: part → minutes that it should take.
        labs: parts that make lab nodes: from the first of them on no other run on this machine has labs.
        noun: what the parts are called in the last line.
        say_every_s: seconds between two lines about what is under way.
        grace_s: seconds that an interrupted part has to clean up, such as to take its lab down.
    """

    command: list[str]
    budgets_min: dict[str, float]
    labs: frozenset[str] = frozenset()
    noun: str = "parts"
    say_every_s: float = 60.0
    grace_s: float = 120.0


@dataclass
class Running:
    """A part that is under way.

    Attributes:
        log: what it writes; None when that goes to the terminal.
        reason: why it was told to end; empty while it may run.
        told_at: when it was told first; with `told_twice`, SIGTERM followed SIGINT.
    """

    part: str
    process: subprocess.Popen[bytes]
    began: float
    log: IO[bytes] | None
    reason: str = ""
    told_at: float = 0.0
    told_twice: bool = False


class Suite:
    """All stages of one call."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.results: dict[str, tuple[str, float]] = {}  # part → verdict, seconds
        self.running: dict[int, Running] = {}
        self.signal = 0
        self._stops = 0
        self._stopped_at = 0.0
        self._said_at = 0.0
        self._lock: int | None = None

    def run(self, stages: Sequence[Stage]) -> int:
        """Run the stages and print a row for each part; return the exit status."""
        began = time.monotonic()
        handlers = {number: signal.signal(number, self._asked_to_stop) for number in _STOP_SIGNALS}
        try:
            for stage in stages:
                self._take_labs(stage)
                self._run_stage(stage)
        finally:
            # Whatever went wrong here, such as a terminal that is gone: nothing may outlive us.
            for running in self.running.values():
                end_tree(running.process)
                running.process.wait()
            for number, handler in handlers.items():
                signal.signal(number, handler)
            if self._lock is not None:
                os.close(self._lock)
        return self._summary([part for stage in stages for row in stage for part in row], began)

    def _asked_to_stop(self, number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if not self._stops or now - self._stopped_at > _SAME_SIGNAL_S:
            self._stops += 1
            self._stopped_at = now
        self.signal = number

    def _take_labs(self, stage: Stage) -> None:
        if self._lock is None and any(self.settings.labs.intersection(row) for row in stage):
            self._lock = labs_lock.take(say, stopped=lambda: self._stops > 0)

    def _run_stage(self, stage: Stage) -> None:
        queues = [deque(row) for row in stage]
        alone = len(queues) == 1
        self._said_at = time.monotonic()
        while True:
            for row, queue in enumerate(queues, start=1):
                if queue and row not in self.running and not self._stops:
                    self._start(queue.popleft(), row, alone=alone)
            if not self.running:
                return
            self._look()
            if not alone and time.monotonic() - self._said_at >= self.settings.say_every_s:
                self._say_under_way("under way")
            time.sleep(_POLL_S)

    def _start(self, part: str, row: int, *, alone: bool) -> None:
        budget = f"budget {self.settings.budgets_min[part]:g} min"
        say(f"\n=== {part} ({budget})" if alone else f"--- {part} begins ({budget})")
        environment = {**os.environ, "SIDE_BY_SIDE_ROW": str(row)}
        if self._lock is not None:
            environment[labs_lock.HELD] = "1"
        # It has no name, so that nothing of it is left even after a kill.
        log = None if alone else tempfile.TemporaryFile(prefix="railyard-part-")  # noqa: SIM115 - as long as it runs
        process = subprocess.Popen(
            [*self.settings.command, part],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            # A process group that can be signalled as a terminal would, and no terminal to ask passwords at.
            start_new_session=True,
        )
        self.running[row] = Running(part, process, time.monotonic(), log)

    def _look(self) -> None:
        """Take up those that have ended, and see to it that those end that should."""
        if self._stops and any(not one.reason for one in self.running.values()):
            self._say_under_way(f"{signal.Signals(self.signal).name}: stopping, labs are taken down")
        for row, running in list(self.running.items()):
            status = running.process.poll()
            if status is not None:
                del self.running[row]
                self._ended(running, status)
                continue
            if running.reason:
                self._press(running)
            elif self._stops:
                self._tell(running, "interrupted")
            elif time.monotonic() - running.began > 2 * 60 * self.settings.budgets_min[running.part]:
                self._tell(running, "FAILED (hung)")

    def _tell(self, running: Running, reason: str) -> None:
        """Interrupt a part as the terminal's Ctrl-C does: on SIGTERM pytest would leave its labs up."""
        running.reason, running.told_at = reason, time.monotonic()
        signal_group(running.process, signal.SIGINT)

    def _press(self, running: Running) -> None:
        waited_s = time.monotonic() - running.told_at
        if self._stops > 1 or waited_s > self.settings.grace_s + _TERMINATE_GRACE_S:
            end_tree(running.process)
        elif waited_s > self.settings.grace_s and not running.told_twice:
            running.told_twice = True
            signal_group(running.process, signal.SIGTERM)

    def _ended(self, running: Running, status: int) -> None:
        if running.reason:
            # Its exit status says nothing then; and what did not heed the signal has nobody left to end it.
            signal_group(running.process, signal.SIGKILL)
            verdict = running.reason
        elif status < 0:
            verdict = f"FAILED ({signal.Signals(-status).name})"
        else:
            verdict = f"FAILED ({status})" if status else PASSED
        took_s = time.monotonic() - running.began
        self.results[running.part] = (verdict, took_s)
        if running.log is None:
            return
        say(f"\n=== {running.part}: {verdict} after {took_s:.0f} s")
        with running.log as log:
            if not log.seek(0, os.SEEK_END):
                say("(it printed nothing)")
                return
            log.seek(0)
            show(log)
            log.seek(-1, os.SEEK_END)
            say("" if log.read() == b"\n" else "\n", end="")

    def _say_under_way(self, what: str) -> None:
        self._said_at = now = time.monotonic()
        parts = ", ".join(f"{one.part} ({now - one.began:.0f} s)" for one in self.running.values())
        say(f"--- {time.strftime('%H:%M:%S')} {what}: {parts}")

    def _summary(self, parts: Sequence[str], began: float) -> int:
        say(f"\n=== {time.monotonic() - began:.0f} s in all")
        bad = []
        for part in parts:
            verdict, took_s = self.results.get(part, ("not run", 0.0))
            say(f"{part:<16} {verdict:<18} {took_s:5.0f} s of {self.settings.budgets_min[part]:g} min")
            if verdict != PASSED:
                bad.append(part)
        if bad:
            say(f"failed: {' '.join(bad)}")
        say(f"{self.settings.noun}: {len(parts) - len(bad)} passed, {len(bad)} failed")
        return 128 + self.signal if self.signal else int(bool(bad))


def say(text: str, end: str = "\n") -> None:
    """Print at once: what parts write to the same terminal must come in its order."""
    try:
        print(text, end=end, flush=True)
    except OSError:
        _nobody_listens()


def show(log: IO[bytes]) -> None:
    """Print what a part wrote, byte by byte as it was."""
    try:
        shutil.copyfileobj(log, sys.stdout.buffer)
        sys.stdout.flush()
    except OSError:
        _nobody_listens()


def _nobody_listens() -> None:
    """Go on in silence: the terminal is gone, and labs have still to be taken down."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - until the end


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Send a signal to the part's process group; it may have none left."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill the part and all that descends from it, also what has a session of its own."""
    doomed = descendants(process.pid)
    signal_group(process, signal.SIGKILL)
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def descendants(pid: int) -> list[int]:
    """Return the processes below this one."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            # PID (NAME) STATE PARENT; the name may hold anything.
            parent = int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry.name))
    found = list(children.get(pid, []))
    for one in found:  # it grows while we walk
        found.extend(children.get(one, []))
    return found


def read_plan(texts: Iterable[str], wanted: Sequence[str], budgets_min: Mapping[str, float]) -> list[Stage]:
    """Return the stages with the wanted parts only (all, when none is named).

    Raises:
        PlanError: a part stands twice, has no budget, or is wanted and stands nowhere.
    """
    whole = [[row.split() for row in text.split("|")] for text in texts]
    parts = [part for stage in whole for row in stage for part in row]
    twice = sorted({part for part in parts if parts.count(part) > 1})
    if twice:
        raise PlanError(f"in the stages twice: {', '.join(twice)}")
    unbudgeted = [part for part in parts if budgets_min.get(part, 0) <= 0]
    if unbudgeted:
        raise PlanError(f"no budget: {', '.join(unbudgeted)}")
    missing = [part for part in wanted if part not in parts]
    if missing:
        raise PlanError(f"wanted, and in no stage: {', '.join(missing)}")
    chosen = set(wanted or parts)
    stages = [
        [kept for row in stage if (kept := [part for part in row if part in chosen])] for stage in whole
    ]
    stages = [stage for stage in stages if stage]
    if not stages:
        raise PlanError("there is nothing to run")
    return stages


def budget(text: str) -> tuple[str, float]:
    """Read `PART=MINUTES`."""
    part, _, minutes = text.partition("=")
    return part, float(minutes)


def main(argv: Sequence[str]) -> int:
    """Run the plan that the command line tells."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--stage", action="append", default=[], metavar="'PART... | PART...'", required=True)
    parser.add_argument("--budget", action="append", default=[], type=budget, metavar="PART=MINUTES")
    parser.add_argument("--want", action="append", default=[], metavar="PART", help="this part, not all")
    parser.add_argument("--labs", action="append", default=[], metavar="PART", help="this part makes labs")
    parser.add_argument("--noun", default="parts")
    parser.add_argument("--say-every-s", type=float, default=60.0)
    parser.add_argument("--grace-s", type=float, default=120.0)
    parser.add_argument("command", nargs="+")
    given = parser.parse_args(argv)
    budgets_min = dict(given.budget)
    try:
        stages = read_plan(given.stage, given.want, budgets_min)
    except PlanError as error:
        print(f"side_by_side: {error}", file=sys.stderr)
        return 2
    settings = Settings(
        given.command,
        budgets_min,
        frozenset(given.labs),
        given.noun,
        given.say_every_s,
        given.grace_s,
    )
    return Suite(settings).run(stages)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
