# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node-side program: test schedule in, result rows out. Run as `python runner.pyz WORK_ORDER [...]`."""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import itertools
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..channel.errors import MeasurementError
from ..channel.rendezvous import Cancelled, raise_if_stopped
from ..measure import registry
from ..records.asked import AskedLine
from ..schedule import cable_checks, node_tests, rounds, work_order
from . import confirm, context
from . import launcher as units
from .cabling import Cabling
from .context import RunContext
from .eta import Pace, process_age_s
from .lease import Lease
from .listener import Listener
from .node_tests import NodeTests
from .pair import PairRun
from .record import Record
from .tally import Tally

_OVERHEAD_S = 6.0
# How often the lease and the deadline are checked; each check costs CPU time of the node under test.
_GUARD_S = 2.0
# More than any run has; the rounds of a repetition come after those of the attempt before.
_ROUNDS_OF_AN_ATTEMPT = 1 << 24
_AFTER_ALL = 1 << 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one node's share of a run; return 0 when complete, 1 when stopped, 2 for an invalid schedule."""
    parser = argparse.ArgumentParser(prog="runner.pyz", description="Railyard's node-side runner")
    parser.add_argument("order", help="this node's test schedule (JSON, mode 0600: it has the run's secret)")
    parser.add_argument("--folder", required=True, help="the run's folder on this node")
    parser.add_argument("--launcher", required=True, choices=sorted(units.LAUNCHERS))
    parser.add_argument("--lease", help="folder of the node's lease; without it no lease is checked")
    options = parser.parse_args(arguments)
    faulthandler.register(signal.SIGUSR1)
    try:
        order = work_order.load(options.order)
        launcher = units.launcher(options.launcher, str(order["run"]), str(order["node"]))
    except (work_order.WorkOrderError, MeasurementError) as error:
        sys.stderr.write(f"runner: {error}\n")
        return 2
    status = Runner(order, options.folder, launcher, options.lease).run()
    if status != 0:
        # It is not started again, and a controller that died does not remove the secret in it.
        with contextlib.suppress(OSError):
            os.unlink(options.order)
    return status


class Runner:
    """Runs the node's meetings; every test of its share gets a row."""

    def __init__(
        self, order: Mapping[str, Any], folder: str, launcher: units.Launcher, lease_folder: str | None
    ) -> None:
        self._order = order
        record = Record(folder, order, sum(1 for _line in iter_planned(order)), build_pace(order))
        self._stop = threading.Event()
        self._context = RunContext(order, record, launcher, self._stop)
        self._lease = Lease(lease_folder) if lease_folder else None
        self._tally = Tally(order)

    def run(self) -> int:
        """Run to the end or until the runner has to stop; return the exit status."""
        run_context = self._context
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(
                number, lambda number, _frame: run_context.halt(f"it was stopped by signal {number}")
            )
        threading.Thread(target=self._guard, daemon=True, name="guard").start()
        opened: list[Listener | Cabling] = []
        try:
            listener = Listener(self._order, run_context.places, self._stop)
            opened.append(listener)
            listener.start()
            cables = Cabling(run_context)
            opened.append(cables)
            cables.start()
            self._meet_all(listener)
        except Cancelled:
            pass
        except Exception:
            # The traceback goes into the log; the missing rows are written below.
            traceback.print_exc()
            run_context.halt(f"the runner failed: {sys.exc_info()[1]}")
        finally:
            for one in opened:
                one.close()
        stopped = self._stop.is_set()
        if stopped:
            self._write_missing_rows()
        run_context.record.finish(run_context.stop_reason if stopped else "completed")
        self._stop.set()
        return 1 if stopped else 0

    def _meet_all(self, listener: Listener) -> None:
        share = rounds.Share(self._order)
        suspects = []
        for meeting in rounds.meetings(self._order, self._context.node):
            pair = self._meet(listener, meeting, list(share.tests(meeting)))
            suspects += [(meeting, pair.again)] if pair.again else []
            self._tally.over(meeting, pair.rows)
            self._context.record.update_status(self._tally.summarize())
        self._measure_again(listener, suspects)
        # Notify partners that lag behind.
        listener.enter_round(_AFTER_ALL)
        NodeTests(self._context).run()

    def _meet(
        self, listener: Listener, meeting: rounds.Meeting, tests: Sequence[Mapping[str, Any]]
    ) -> PairRun:
        """Run a meeting with a partner and return it."""
        raise_if_stopped(self._stop)
        listener.enter_round(meeting.round)
        sys.stderr.write(f"runner: round {meeting.round}: {meeting.node} and {meeting.peer}\n")
        pair = PairRun(self._context, listener, meeting, tests)
        pair.run()
        return pair

    def _measure_again(
        self, listener: Listener, suspects: Sequence[tuple[rounds.Meeting, Sequence[Mapping[str, Any]]]]
    ) -> None:
        """Repeat the tests that looked bad, in separate rounds after all others."""
        if not suspects:
            return
        self._stop.wait(confirm.PAUSE_S)
        for attempt in range(2, 2 + int(self._order["policy"]["confirm"])):
            for meeting, tests in suspects:
                later = meeting._replace(round=meeting.round + (attempt - 1) * _ROUNDS_OF_AN_ATTEMPT)
                self._meet(listener, later, [{**test, "attempt": attempt} for test in tests])

    def _write_missing_rows(self) -> None:
        failure = self._context.interrupted()
        record = self._context.record
        rest = (
            self._context.build_failed_row(test, failure)
            for test in iter_planned(self._order)
            if not record.has(test["id"])
        )
        while True:
            chunk = list(itertools.islice(rest, 500))
            if not chunk:
                return
            record.add(chunk)

    def _guard(self) -> None:
        """Stop the run when its lease is lost or its deadline has passed."""
        deadline = time.monotonic() + worst_case_s(self._order)
        while not self._stop.wait(_GUARD_S):
            lost = self._lease.lost_by(str(self._order["run"])) if self._lease else None
            if lost:
                self._context.halt(lost)
            elif time.monotonic() > deadline:
                self._context.halt("the run's deadline has passed")


def iter_planned(order: Mapping[str, Any]) -> Iterator[AskedLine]:
    """Yield the node's test plan: cable checks, tests with partners, tests of the node alone."""
    node = str(order["node"])
    yield from cable_checks.asked_lines(order, node)
    yield from iter_tests(order)


def iter_tests(order: Mapping[str, Any]) -> Iterator[AskedLine]:
    """Yield the tests of the schedule's node: with partners, then of the node alone."""
    node = str(order["node"])
    yield from rounds.asked_tests(order, node)
    yield from node_tests.asked_lines(order, node)


def build_pace(order: Mapping[str, Any]) -> Pace:
    """Build the estimate of how long the tests of this node take."""
    planned_s = {check: registry.planned_s(check, order["policy"]) for check in registry.CHECKS}
    return Pace(planned_s, iter_tests(order), process_age_s())


def worst_case_s(order: Mapping[str, Any]) -> float:
    """Calculate after how many seconds a run on this node is certainly over: all waits and time limits."""
    policy = order["policy"]
    limits: dict[str, float] = {
        check: tool().limit_s(policy) for check, tool in registry.TOOL_OF_CHECK.items()
    }
    waits = context.Waits.from_policy(policy)
    overhead_s = _OVERHEAD_S + waits.ready_s
    total = work_order.first_wait_s(order) + 30.0
    groups, pairs = set(), set()
    for test in rounds.asked_tests(order, str(order["node"])):
        pairs.add(test["round"])
        if test["group"] is None or test["group"] not in groups:
            groups.add(test["group"])
            total += limits[str(test["check"])] + overhead_s
            # A group also waits until the last tool is started.
            total += waits.listening_s if test["group"] else 0.0
    total += len(pairs) * (2 * float(policy["rendezvous_timeout_s"]) + 10.0)
    # Every test could look bad and be measured again.
    total = total * (1 + int(policy["confirm"])) + confirm.PAUSE_S
    alone = node_tests.asked_lines(order, str(order["node"]))
    return total + sum(
        registry.NODE_TOOLS[str(test["check"])]().limit_s(policy) + _OVERHEAD_S for test in alone
    )


if __name__ == "__main__":
    # The zipapp's entry, no module: the status is for systemd.
    sys.exit(main())  # pylint: disable=ansible-bad-function
