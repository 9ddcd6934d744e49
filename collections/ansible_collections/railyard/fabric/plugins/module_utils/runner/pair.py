# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one meeting of two nodes: every test of the pair gets a row, whatever happens.

At its end both agree which tests to measure again (`confirm`), in separate meetings after all others.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..channel import rendezvous
from ..channel.errors import CLOCK_LOST, MeasurementError
from ..channel.rail_socket import no_management
from ..schedule import work_order
from ..schedule.rounds import Meeting
from . import busy, confirm, port_proof
from .barrier import StartBarrier
from .context import RunContext, link_state
from .listener import Listener
from .record import attempt_of, end_of
from .session import MeetingDeadline, Session, meet, open_session
from .step import Row, Step, client_end, find_failure, server_end

Test = Mapping[str, Any]
# How often a test is run whose tool lost its clock; both ends detect it and count alike.
_TRIES = 4
# Replaces a test's number when all tests of a meeting are over.
_ALL_OVER = 1 << 60


class PairRun:
    """This node's side of one meeting.

    Attributes:
        again: the tests that both ends measure again after the meeting.
        rows: this end's rows of the tests that are over.
    """

    def __init__(
        self, run_context: RunContext, listener: Listener, meeting: Meeting, tests: Sequence[Test]
    ) -> None:
        self._context = run_context
        self._listener = listener
        self._meeting = meeting
        self._tests = tests
        self._peer = meeting.peer if meeting.node == run_context.node else meeting.node
        self._sessions: dict[str, Session] = {}
        self._no_session: dict[str, MeasurementError] = {}
        self.rows: list[Row] = []
        self.again: list[Test] = []

    def run(self) -> None:
        """Run all tests; raises only `Cancelled`, which leaves the remaining tests without a row."""
        if self._peer in set(self._context.order["absent"]):
            self._refuse_all(_absent(self._peer))
            return
        self._open()
        try:
            for tests in _batches(self._tests):
                self._context.record.begin(list(tests))
                self._until_timed(tests)
            self.again = self._agree()
        finally:
            for session in self._sessions.values():
                session.drop()

    def _refuse_all(self, failure: MeasurementError) -> None:
        for test in self._tests:
            self._refuse(test, failure)

    def _refuse(self, test: Test, failure: MeasurementError) -> None:
        self.rows.append(self._context.refuse(test, failure))

    def _agree(self) -> list[Test]:
        """Return which tests both nodes measure again; none where they cannot exchange it.

        Each sends what it wants and its time budget, on the first rail where they are still connected.
        """
        run_context = self._context
        if not run_context.policy["confirm"] or any(attempt_of(test) > 1 for test in self._tests):
            return []
        wanted = confirm.suspects(self.rows, run_context.bounds, run_context.policy)
        left_s = run_context.confirm_left_s
        for rail in dict.fromkeys(str(test["rail"]) for test in self._tests):
            session = self._sessions.get(rail)
            channel = session.channel if session else None
            if session is None or channel is None:
                continue
            try:
                channel.send(
                    {"t": "begin", "number": _ALL_OVER, "error": None, "again": wanted, "left_s": left_s}
                )
                theirs = session.pending_begin or channel.expect("begin", run_context.waits.begin_s)
                while int(theirs["number"]) < _ALL_OVER:
                    theirs = channel.expect("begin", run_context.waits.begin_s)
                both = {*wanted, *map(str, theirs["again"])}
                least_s = min(left_s, float(theirs["left_s"]))
            except (rendezvous.ChannelClosed, KeyError, TypeError, ValueError):
                session.drop()
                continue
            return run_context.measure_again(self._tests, both, least_s)
        return []

    def _open(self) -> None:
        """Meet on all rails at once, and meanwhile check whether rails and node are idle."""
        wait = MeetingDeadline(self._context)
        peer_rails = work_order.rails_of(self._context.order, self._peer)
        rails = list(dict.fromkeys(str(test["rail"]) for test in self._tests))
        busy_rails: dict[str, MeasurementError | None] = {}
        jobs: list[Callable[[], None]] = []
        for rail in rails:
            failure = self._context.failures.get(rail) or self._listener.failures.get(rail)
            failure = failure or self._unreachable(rail, peer_rails[rail])
            if failure is not None:
                self._no_session[rail] = failure
                continue
            jobs.append(lambda rail=rail: self._meet_on(rail, peer_rails[rail], wait))  # type: ignore[misc]
            jobs.append(lambda rail=rail: busy_rails.update(self._busy(rail)))  # type: ignore[misc]
        _all_at_once(jobs)
        rendezvous.raise_if_stopped(self._context.stop)
        node_busy = busy.node_is_busy(self._context.node, self._context.policy)
        for rail, session in self._sessions.items():
            session.busy = node_busy or busy_rails.get(rail)

    def _unreachable(self, rail: str, peer_rail: Mapping[str, Any]) -> MeasurementError | None:
        """Return why the two cannot meet on this rail for lack of an address, or None."""
        if self._context.places[rail].management and "management" in peer_rail:
            if peer_rail["management"]:
                return None
            return no_management(self._peer, rail, str(peer_rail["why_not"]))
        if peer_rail["ip"] and not self._context.places[rail].management:
            return None
        without = self._context.node if peer_rail["ip"] else self._peer
        return MeasurementError(
            "no_address",
            f"{rail} of {without} has no address in the plan",
            without,
            "give the rail a subnet in the inventory",
        )

    def _meet_on(self, rail: str, peer_rail: Mapping[str, Any], wait: MeetingDeadline) -> None:
        try:
            session = Session(self._context, self._listener, self._meeting, rail, peer_rail)
            open_session(session, wait)
            self._sessions[rail] = session
        except rendezvous.Cancelled:
            pass
        except Exception as error:
            self._no_session[rail] = self._context.fault(error)

    def _busy(self, rail: str) -> dict[str, MeasurementError | None]:
        place, hca = self._context.places[rail], self._context.rails[rail]["hca"]
        rate = self._context.background_bytes_per_s[rail] = busy.background_bytes_per_s(place, hca)
        return {rail: busy.rail_is_busy(place, self._context.policy, rate, hca)}

    def _until_timed(self, tests: Sequence[Test]) -> None:
        """Run a test, or all tests of a group at once; repeat while a tool loses its clock."""
        first: dict[str, Row] = {}
        for attempt in range(1, _TRIES + 1):
            rows = (
                [self._run_guarded(tests[0], StartBarrier(1), ())]
                if len(tests) == 1
                else self._run_group(tests)
            )
            measured = [row for row in rows if row is not None]
            for row in measured:
                row["tries"] = attempt
                _span_errors(first.setdefault(str(row["id"]), row), row)
            # After any other error the rows of a group stay as they are: the failed ones are already written.
            if attempt == _TRIES or len(measured) < len(rows) or not any(map(_lost_clock, measured)):
                self._context.record.add(measured)
                self.rows += measured
                return

    def _run_group(self, tests: Sequence[Test]) -> list[Row | None]:
        """Run a group: one thread per rail, one common start."""
        gate = StartBarrier(len(tests))
        rails = tuple(str(test["rail"]) for test in tests)
        rows: dict[str, Row | None] = {}
        _all_at_once([functools.partial(self._in_group, test, gate, rails, rows) for test in tests])
        rendezvous.raise_if_stopped(self._context.stop)
        return [rows.get(str(test["id"])) for test in tests]

    def _in_group(
        self, test: Test, gate: StartBarrier, rails: tuple[str, ...], rows: dict[str, Row | None]
    ) -> None:
        with contextlib.suppress(rendezvous.Cancelled):
            rows[str(test["id"])] = self._run_guarded(test, gate, rails)

    def _run_guarded(self, test: Test, gate: StartBarrier, rails: tuple[str, ...]) -> Row | None:
        """Run one test and return its row; None after an error, whose row is then written."""
        rail = str(test["rail"])
        session = self._sessions.get(rail)
        try:
            if session is None:
                raise self._no_session.get(rail) or self._context.fault(RuntimeError("no session"))
            return self._run_test(session, test, gate, rails)
        except MeasurementError as failure:
            # Let the others begin before the row is written to disk.
            gate.leave(rail)
            self._refuse(test, failure)
        except rendezvous.ChannelClosed as error:
            gate.leave(rail)
            if session is not None:
                session.drop()
            why = _deaf if isinstance(error, rendezvous.SendTimeout) else _lost
            self._refuse(test, why(self._peer, f"{error}{self._describe_link(rail)}"))
        except rendezvous.Cancelled:
            raise
        except Exception as error:
            # A bug must cost one test, not the run.
            if session is not None:
                session.drop()
            self._refuse(test, self._context.fault(error))
        finally:
            gate.leave(rail)
        return None

    def _describe_link(self, rail: str) -> str:
        place = self._context.places.get(rail)
        if place is None or place.management:
            return ""
        return f" ({place.netdev} of {place.host} is {link_state(place.netdev)})"

    def _run_test(self, session: Session, test: Test, gate: StartBarrier, rails: tuple[str, ...]) -> Row:
        mine = find_failure(session, test)
        channel = self._channel(session, mine)
        theirs = self._begin(session, channel, test, mine)
        if theirs is None:
            raise _lost(self._peer, "it continued with a later test after the connection broke")
        if mine or theirs.get("error"):
            raise mine or MeasurementError.from_error(theirs["error"])
        if session.place.management:
            session.ports = {}
            session.ports = port_proof.exchange(session, channel)
        step = Step(session, channel, test, rails)
        play_end = client_end if end_of(test, self._context.node) == "client" else server_end
        try:
            return play_end(step, gate)
        finally:
            if step.sampler is not None:
                step.sampler.stop()

    def _channel(self, session: Session, mine: MeasurementError | None) -> rendezvous.Channel:
        """Return the session's channel; after a break reconnect for the next test."""
        if session.channel is not None:
            return session.channel
        if mine is not None:
            raise mine
        if session.reconnects_left > 0:
            session.reconnects_left -= 1
            try:
                meet(session, MeetingDeadline(self._context, again=True))
            except MeasurementError as failure:
                session.failure = failure
                raise
        if session.channel is None:
            session.failure = _lost(self._peer, "the connection broke repeatedly")
            raise session.failure
        return session.channel

    def _begin(
        self, session: Session, channel: rendezvous.Channel, test: Test, mine: MeasurementError | None
    ) -> dict[str, Any] | None:
        """Exchange which test is next and what prevents it; return None when the partner is past it."""
        number = int(str(test["id"])[1:])
        channel.send({"t": "begin", "number": number, "error": mine.as_error() if mine else None})
        wait_s = self._context.waits.begin_s
        theirs = session.pending_begin or channel.expect("begin", wait_s)
        session.pending_begin = None
        while int(theirs["number"]) < number:
            theirs = channel.expect("begin", wait_s)
        if int(theirs["number"]) > number:
            session.pending_begin = theirs
            return None
        return theirs


def _span_errors(first: Row, last: Row) -> None:
    """Start a row's error counters at the first try, so that errors of discarded tries count."""
    before, after = first.get("link_errors"), last.get("link_errors")
    if before and after and first is not last:
        last["link_errors"] = {name: [before.get(name, span)[0], span[1]] for name, span in after.items()}


def _lost_clock(row: Row) -> bool:
    """Return whether a tool of either end lost its clock; the ends have exchanged that."""
    errors = (row.get("error"), (row.get("other_end") or {}).get("error"))
    return any(error is not None and error.get("class") == CLOCK_LOST for error in errors)


def _batches(tests: Sequence[Test]) -> list[list[Test]]:
    """Split tests into batches of one group each; a test without a group is a batch of one."""
    batches: list[list[Test]] = []
    for test in tests:
        if test["group"] and batches and batches[-1][0]["group"] == test["group"]:
            batches[-1].append(test)
        else:
            batches.append([test])
    return batches


def _all_at_once(jobs: list[Callable[[], Any]]) -> None:
    threads = [threading.Thread(target=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _absent(peer: str) -> MeasurementError:
    return MeasurementError(
        "peer_absent",
        f"{peer} could not be reached when the run was made",
        peer,
        f"bring {peer} back (ansible -m ping {peer}), then validate again",
    )


def _lost(peer: str, why: str) -> MeasurementError:
    return MeasurementError(
        "peer_failed",
        f"the connection with {peer} broke during the test: {why}",
        peer,
        f"see the row of {peer} and its runner.log in the raw archive",
    )


def _deaf(peer: str, why: str) -> MeasurementError:
    return MeasurementError(
        "peer_deaf",
        f"{peer} did not read the message to continue: {why}",
        peer,
        f"check what delays the runner of {peer} (CPU load, a stalled disk, a rail that drops acknowledged "
        "packets) and its runner.log in the raw archive; then validate again",
    )
