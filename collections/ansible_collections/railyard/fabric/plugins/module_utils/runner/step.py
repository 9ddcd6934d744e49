# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run one end of one test: both ends go through the same steps, and each row has the other end's result.

begin (both: what prevents the test?), ready (server), go (client), done (client), result (server), row (both)

The clients of a group send `go` and release their tools at the same moment, once all are started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ..catalogue import rdma_counters
from ..channel import rail_socket
from ..channel.errors import UNKNOWN_CONNECTION, MeasurementError, error_of
from ..channel.rendezvous import Channel, ChannelClosed
from ..measure import base, counters, perftest_bw, proof, rdma_port, registry
from ..measure.base import LEAST_OF_ASKED, Reading
from .barrier import NOTIFY_S, Moment, StartBarrier
from .counters import Watch
from .session import Session
from .tool_session import RailToolSession

_CLOSE_ANSWER_S = 15.0
# How often a server is started where an unknown host connects before the peer filter is active.
_OPENINGS = 3

Row = dict[str, Any]


class Step:
    """One end of one test: what it needs while it runs, and its row."""

    def __init__(
        self, session: Session, channel: Channel, test: Mapping[str, Any], group: tuple[str, ...]
    ) -> None:
        self.run_context = run_context = session.run_context
        self.session = session
        self.channel = channel
        self.test = test
        self.group = group
        self.tool = registry.TOOL_OF_CHECK[str(test["check"])]()
        self.limit_s = self.tool.limit_s(run_context.policy)
        rail = run_context.rails[session.place.rail]
        port = registry.tool_port(
            int(run_context.policy["base_port"]),
            int(test["round"]),
            int(rail["index"]),
            len(run_context.rails),
            str(test["check"]),
        )
        self.tool_session = RailToolSession(session, channel, test, port, self.tool.capabilities)
        self.sampler: counters.Sampler | None = None

    def watch(self) -> Watch:
        """Read all counters, before the test."""
        return Watch(self.run_context, self.test, self.group, self.tool.rdma)

    def sample(self, watch: Watch) -> None:
        """Start to sample the rail, where its traffic within the test's window is needed."""
        if self.tool.sampled or (self.test["group"] and "bandwidth" in str(self.test["check"])):
            rail, begun = self.session.place.rail, self.tool_session.moment.monotonic
            self.sampler = counters.Sampler(rail, begun, watch.read_bytes)

    def sending_s(self, reading: Reading, watch: Watch) -> list[float] | None:
        """Return the interval in which an RDMA tool was certainly sending; None where it failed."""
        if reading.sending_s is None or self.sampler is None or watch.driver is not rdma_counters.SOFT_ROCE:
            return reading.sending_s  # a card's counters may come a second late
        samples = self.sampler.so_far()
        return perftest_bw.sending_seen_s(reading.sending_s, reading.claim, samples, self.run_context.policy)

    def least_window_s(self) -> float:
        """Return the shortest common window of all rails that counts, in seconds."""
        return perftest_bw.measured_s(self.run_context.policy) * LEAST_OF_ASKED

    def row(self, end: str, watch: Watch | None, reading: Reading, claim: proof.Claim | None) -> Row:
        """Return this end's row of a measured test, proven or not, without the other end's part."""
        row = self.run_context.blank_row(self.test)
        metrics = dict(reading.metrics)
        if watch is not None:
            verdict, reason = watch.prove(claim, end, self.run_context.policy)
            doubt = self.tool.doubt(reading, claim, self.run_context.policy)
            if doubt:
                verdict, reason = proof.UNPROVEN, doubt
            if "bandwidth" in str(self.test["check"]) and metrics:
                metrics["node_cpu_percent"] = watch.node_cpu_percent
            row.update(
                {"counters": watch.rail_counters(), "other_rails": watch.idle_counters(), "proof": verdict}
            )
            row.update({"proof_reason": reason, "link_errors": watch.link_errors()})
            row["idle_bytes_per_s"] = round(watch.idle_bytes_per_s(self.run_context.policy))
        row.update({"status": "measured", "metrics": metrics, "window_s": reading.window_s})
        # The judge calculates a claim in bytes from the metrics.
        written = claim if claim is None or claim.unit != "bytes" else None
        row.update({"message_bytes": reading.message_bytes, "claim": proof.as_record(written)})
        row.update(reading.extra or {})
        return row

    def finish_row(self, row: Row, failure: MeasurementError | None) -> Row:
        """Add what every row of a started test has."""
        tool_session = self.tool_session
        row["started"] = tool_session.moment.text or row["started"]
        row["argv"] = tool_session.argvs
        row["exit_status"] = tool_session.exit_status
        exchange = self.session.exchange()
        if exchange is not None:
            row["exchange"] = exchange
        if self.sampler is not None:
            samples, self.sampler = self.sampler.stop(), None
            # The receiver's samples show what a rail carried; the sender's add nothing.
            if row["end"] == "server" or row["direction"] == "bi":
                row["samples"] = counters.received(samples, row["window_s"])
        if tool_session.argvs or self.test["tool"] == "udp_probe":
            row["raw"] = self.run_context.record.raw_reference(self.test)
        if failure is not None:
            row.update({"status": failure.status, "error": error_of(failure), "proof": None})
        return row

    def swap_rows(self, row: Row) -> Row:
        """Send this end's result to the other end, and add the other's to the row."""
        keys = ("host", "status", "proof", "metrics", "counters", "error")
        self.channel.send(
            {"t": "row", "boot_id": self.run_context.boot_id, **{key: row[key] for key in keys}}
        )
        theirs = self.channel.expect("row", _CLOSE_ANSWER_S)
        row["other_end"] = {key: theirs.get(key) for key in (*keys, "boot_id")}
        return row


def find_failure(session: Session, test: Mapping[str, Any]) -> MeasurementError | None:
    """Return the error that keeps this end from running the test, or None."""
    run_context = session.run_context
    if session.failure:
        return session.failure
    if session.busy:
        return session.busy
    tool = registry.TOOL_OF_CHECK[str(test["check"])]()
    if session.place.management and not tool.rdma:
        return MeasurementError(
            "no_address",
            f"{test['rail']} of {run_context.node} has no address in the plan, and "
            f"{test['check']} needs IP on it",
            run_context.node,
            "give the rail a subnet (IPoIB), or ignore it: the verdict is not_applicable",
        )
    needs_it = tool.package is not None and not (tool.name == "ping" and test["peer"] == run_context.node)
    own_version = run_context.version_of(test)
    if needs_it and own_version is None:
        return tool.missing(run_context.node)
    too_old = tool.refuses(session.place.address, own_version, run_context.node)
    if too_old:
        return too_old
    theirs = (session.hello.get("versions") or {}).get(tool.program(run_context.policy))
    if tool.same_version and theirs is not None and theirs != own_version:
        return base.version_differs(tool.name, own_version, run_context.node, theirs, session.peer)
    if tool.rdma:
        try:
            rdma_port.find(session.place, run_context.rails[session.place.rail]["hca"])
        except MeasurementError as failure:
            return failure
    return None


def client_end(step: Step, gate: StartBarrier) -> Row:
    """Run the client's end and return its row.

    Raises:
        rendezvous.ChannelClosed: the partner disconnected; rendezvous.Cancelled: the runner has to stop.
    """
    channel, tool_session, waits = step.channel, step.tool_session, step.run_context.waits
    reading = Reading({})
    failure: MeasurementError | None = None
    ready = channel.expect("ready", waits.ready_s)
    if ready.get("error"):
        return step.finish_row(
            step.row("client", None, reading, None), MeasurementError.from_error(ready["error"])
        )
    tool_session.port = int(ready["port"])
    watch = step.watch()
    start = _Start(step, gate, watch)
    if step.test["group"]:
        tool_session.together = start.begin
    else:
        start.begin()
    try:
        reading = step.tool.client(tool_session)
    except MeasurementError as found:
        failure = found
    start.ensure_sent()
    watch.finish()
    watch.finish_cpu_count()
    if step.test["group"] and step.tool.rdma:
        # The rates of all rails are added up over a time in which all of them were sending.
        sending_s = step.sending_s(reading, watch)
        shared = gate.await_overlap(str(step.test["rail"]), sending_s, step.least_window_s(), step.limit_s)
        reading = reading._replace(window_s=shared or reading.window_s)
    channel.send(
        {
            "t": "done",
            "at_s": tool_session.moment.elapsed_s(),
            "error": error_of(failure),
            "claim": proof.as_record(reading.claim),
            "metrics": reading.metrics,
            "window_s": reading.window_s,
        }
    )
    theirs = channel.expect("result", waits.answer_s)
    intruded = (theirs.get("error") or {}).get("class") == UNKNOWN_CONNECTION
    if theirs.get("error") and (failure is None or intruded):
        failure = MeasurementError.from_error(theirs["error"])
    claim = step.tool.claim(reading.claim, proof.from_record(theirs.get("claim")))
    row = step.finish_row(step.row("client", watch, reading, claim), failure)
    return step.swap_rows(row)


class _Start:
    """The client's `go` message to the server, sent once and at the group's common start."""

    def __init__(self, step: Step, gate: StartBarrier, watch: Watch) -> None:
        self._step = step
        self._gate = gate
        self._watch = watch
        self._sent = False

    def begin(self, release: Callable[[], None] = lambda: None) -> None:
        """Wait for the others of the group, send `go` and release the tool.

        Raises:
            ChannelClosed: the server is gone; SendTimeout: it does not read the message.
        """
        step = self._step
        patience_s = step.run_context.waits.ready_s
        step.tool_session.moment = self._gate.start(str(step.test["rail"]), patience_s, self._send, release)
        self._watch.restart_cpu_count()
        step.sample(self._watch)

    def ensure_sent(self) -> None:
        """Send `go` where the tool failed before its start: the server waits for it.

        Raises:
            ChannelClosed, SendTimeout: as `begin`.
        """
        if self._sent:
            return
        self._gate.leave(str(self._step.test["rail"]))
        self._step.tool_session.moment = Moment.now()
        self._send(self._step.tool_session.moment, NOTIFY_S)

    def _send(self, moment: Moment, within_s: float) -> None:
        self._sent = True
        self._step.channel.send({"t": "go", "at_s": moment.elapsed_s()}, within_s)


def server_end(step: Step, gate: StartBarrier) -> Row:
    """Run the server's end and return its row; `gate` gives the group's common start.

    Raises:
        rendezvous.ChannelClosed, rendezvous.Cancelled: as `client_end`.
    """
    tool_session = step.tool_session
    try:
        return _server_end(step, gate)
    finally:
        tool_session.release()


def _server_end(step: Step, gate: StartBarrier) -> Row:
    channel, tool_session = step.channel, step.tool_session
    reading = Reading({})
    failure: MeasurementError | None = None
    try:
        _open(step)
    except MeasurementError as found:
        channel.send({"t": "ready", "error": error_of(found)})
        return step.finish_row(step.row("server", None, reading, None), found)
    watch = step.watch()
    channel.send({"t": "ready", "port": tool_session.port, "error": None})
    go = channel.expect("go", 2 * step.run_context.waits.ready_s)
    zero = _zero(go)
    tool_session.moment = gate.moment()
    watch.restart_cpu_count()
    step.sample(watch)
    done = _attend(step)
    if step.test["group"]:
        # The traffic of all rails is added up by this clock. A message may be read late, where the traffic
        # that begins with it takes the CPU, but never early: the earlier of the two is more accurate.
        zero = min(zero, _zero(done))
    tool_session.peer_failed = bool(done.get("error"))
    try:
        reading = step.tool.learn(step.tool.close(tool_session), done.get("metrics") or {})
    except MeasurementError as found:
        failure = found
    watch.finish()
    watch.finish_cpu_count()
    result = {"error": error_of(tool_session.intruded or failure), "claim": proof.as_record(reading.claim)}
    channel.send({"t": "result", **result})
    if done.get("error"):
        # The client saw it first; the server's error is usually its consequence.
        failure = MeasurementError.from_error(done["error"])
    failure = tool_session.intruded or failure
    claim = step.tool.claim(proof.from_record(done.get("claim")), reading.claim)
    if done.get("window_s"):
        offset = zero - tool_session.moment.monotonic
        reading = reading._replace(window_s=[round(at + offset, 4) for at in done["window_s"]])
    row = step.finish_row(step.row("server", watch, reading, claim), failure)
    return step.swap_rows(row)


def _open(step: Step) -> None:
    """Start the server; again, at another port, where an unknown host connected before the filter was active.

    Raises:
        MeasurementError: it cannot be started, or an unknown host connected each time.
    """
    tool_session = step.tool_session
    for left in reversed(range(_OPENINGS)):
        # The client gets the port with `ready`.
        tool_session.port = rail_socket.past_closing(tool_session.own.address, tool_session.port)
        try:
            step.tool.open(tool_session)
            return
        except MeasurementError as found:
            if found.error_class != UNKNOWN_CONNECTION or not left:
                raise
            tool_session.note(f"# {found.message}\n")
            tool_session.release()


def _zero(message: Mapping[str, Any]) -> float:
    """Return when the client's clock showed 0; `go` may come after its group's start."""
    return time.monotonic() - float(message.get("at_s") or 0.0)


def _attend(step: Step) -> dict[str, Any]:
    """Answer the client's requests until it is done, and return its last message.

    Raises:
        ChannelClosed: it was not done within the time limit of its tool, or it sent another message.
    """
    within_s = step.limit_s + step.run_context.waits.answer_s
    deadline = time.monotonic() + within_s
    while True:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ChannelClosed(f"the client was not done after {within_s:.0f} s")
        message = step.channel.receive(left_s)
        if message.get("t") == "done":
            return message
        if message.get("t") != "ask":
            raise ChannelClosed("the client sent {!r} where `ask` or `done` was due".format(message.get("t")))
        try:
            answer = step.tool.answer(step.tool_session, message)
        except MeasurementError as failure:
            answer = {"error": failure.as_error()}
        step.channel.send({**answer, "t": "answer"})
