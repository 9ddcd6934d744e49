# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One test at one end: both ends walk through the same steps, and each writes a row that knows the other's.

begin (both: what stands in the way?), ready (server), go (client), done (client), result (server), row (both)

The clients of a group say `go` and let their tools begin at one moment, once every one of them is started.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import (
    UNKNOWN_CONNECTION,
    MeasurementError,
    error_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Channel, ChannelClosed
from ansible_collections.railyard.fabric.plugins.module_utils.measure import (
    base,
    counters,
    perftest_bw,
    proof,
    rdma_port,
    registry,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OF_ASKED, Reading
from ansible_collections.railyard.fabric.plugins.module_utils.runner.barrier import (
    TELL_S,
    Moment,
    StartBarrier,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner.counters import Watch
from ansible_collections.railyard.fabric.plugins.module_utils.runner.session import Session
from ansible_collections.railyard.fabric.plugins.module_utils.runner.tool_session import RailToolSession

_CLOSE_ANSWER_S = 15.0
# How often a server is started where somebody unknown connects before it hears its partner alone.
_OPENINGS = 3

Row = dict[str, Any]


class Step:
    """One end of one test: what it needs while it runs, and the row it makes of it."""

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
        self.play = RailToolSession(session, channel, test, port, self.tool.capabilities)
        self.sampler: counters.Sampler | None = None

    def watch(self) -> Watch:
        """Read all counters, before the test."""
        return Watch(self.run_context, self.test, self.group, self.tool.rdma)

    def sample(self, watch: Watch) -> None:
        """Begin to sample the rail, where what it carried in the test's own window is asked for."""
        if self.tool.sampled or (self.test["group"] and "bandwidth" in str(self.test["check"])):
            rail, begun = self.session.place.rail, self.play.moment.monotonic
            self.sampler = counters.Sampler(rail, begun, watch.read_bytes)

    def sending_s(self, reading: Reading, watch: Watch) -> list[float] | None:
        """Return between which moments a tool of RDMA was surely sending; None where it failed."""
        if reading.sending_s is None or self.sampler is None or watch.driver is not rdma_counters.SOFT_ROCE:
            return reading.sending_s  # a card's counters may come a second late
        samples = self.sampler.so_far()
        return perftest_bw.sending_seen_s(reading.sending_s, reading.claim, samples, self.run_context.policy)

    def least_window_s(self) -> float:
        """Return how long a time that all rails share must be; what is shorter is not what was asked."""
        return perftest_bw.measured_s(self.run_context.policy) * LEAST_OF_ASKED

    def row(self, end: str, watch: Watch | None, reading: Reading, claim: proof.Claim | None) -> Row:
        """Return this end's row of a measured test, proven or not, before the other end's part is in."""
        row = self.run_context.blank_row(self.test)
        metrics = dict(reading.metrics)
        if watch is not None:
            verdict, reason = watch.prove(claim, end, self.run_context.policy)
            doubt = self.tool.doubt(reading, claim, self.run_context.policy)
            if doubt:
                verdict, reason = proof.UNPROVEN, doubt
            if "bandwidth" in str(self.test["check"]) and metrics:
                metrics["node_cpu_percent"] = watch.node_cpu_percent
            row.update({"counters": watch.own(), "other_rails": watch.others(), "proof": verdict})
            row.update({"proof_reason": reason, "link_errors": watch.link_errors()})
            row["idle_bytes_per_s"] = round(watch.idle_bytes_per_s(self.run_context.policy))
        row.update({"status": "measured", "metrics": metrics, "window_s": reading.window_s})
        # What bytes there had to be follows from the metrics, and the judge reckons them by itself.
        told = claim if claim is None or claim.unit != "bytes" else None
        row.update({"message_bytes": reading.message_bytes, "claim": proof.as_record(told)})
        row.update(reading.extra or {})
        return row

    def finish_row(self, row: Row, obstacle: MeasurementError | None) -> Row:
        """Add what every row of a test that was begun carries."""
        play = self.play
        row["started"] = play.moment.text or row["started"]
        row["argv"] = play.argvs
        row["exit_status"] = play.exit_status
        exchange = self.session.exchange()
        if exchange is not None:
            row["exchange"] = exchange
        if self.sampler is not None:
            samples, self.sampler = self.sampler.stop(), None
            # What a rail carried is told by who received it, so its sender's samples say nothing more.
            if row["end"] == "server" or row["direction"] == "bi":
                row["samples"] = counters.received(samples, row["window_s"])
        if play.argvs or self.test["tool"] == "udp_probe":
            row["raw"] = self.run_context.record.raw_reference(self.test)
        if obstacle is not None:
            row.update({"status": obstacle.status, "error": error_of(obstacle), "proof": None})
        return row

    def swap_rows(self, row: Row) -> Row:
        """Tell the other end what this one found, and take its part into the row."""
        keys = ("host", "status", "proof", "metrics", "counters", "error")
        self.channel.send(
            {"t": "row", "boot_id": self.run_context.boot_id, **{key: row[key] for key in keys}}
        )
        theirs = self.channel.expect("row", _CLOSE_ANSWER_S)
        row["other_end"] = {key: theirs.get(key) for key in (*keys, "boot_id")}
        return row


def own_obstacle(session: Session, test: Mapping[str, Any]) -> MeasurementError | None:
    """Return what stands in this end's way before the test begins."""
    run_context = session.run_context
    if session.obstacle:
        return session.obstacle
    if session.busy:
        return session.busy
    tool = registry.TOOL_OF_CHECK[str(test["check"])]()
    if session.place.management and not tool.rdma:
        return MeasurementError(
            "no_address",
            f"{test['rail']} of {run_context.node} has no address in the plan, and "
            f"{test['check']} needs IP on it",
            run_context.node,
            "give the rail a subnet (IPoIB), or leave it: the verdict is not_applicable",
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
        except MeasurementError as obstacle:
            return obstacle
    return None


def client_end(step: Step, gate: StartBarrier) -> Row:
    """Play the client's end.

    Raises:
        rendezvous.ChannelClosed: the partner went away; rendezvous.Cancelled: the runner was told to stop.
    """
    channel, play, waits = step.channel, step.play, step.run_context.waits
    reading = Reading({})
    obstacle: MeasurementError | None = None
    ready = channel.expect("ready", waits.ready_s)
    if ready.get("error"):
        return step.finish_row(
            step.row("client", None, reading, None), MeasurementError.from_error(ready["error"])
        )
    play.port = int(ready["port"])
    watch = step.watch()
    start = _Start(step, gate, watch)
    if step.test["group"]:
        play.together = start.begin
    else:
        start.begin()
    try:
        reading = step.tool.client(play)
    except MeasurementError as found:
        obstacle = found
    start.mend()
    watch.finish()
    watch.finish_processor()
    if step.test["group"] and step.tool.rdma:
        # All rails together are added up over a time in which all of them were sending.
        sending_s = step.sending_s(reading, watch)
        shared = gate.common(str(step.test["rail"]), sending_s, step.least_window_s(), step.limit_s)
        reading = reading._replace(window_s=shared or reading.window_s)
    channel.send(
        {
            "t": "done",
            "at_s": play.moment.now_s(),
            "error": error_of(obstacle),
            "claim": proof.as_record(reading.claim),
            "metrics": reading.metrics,
            "window_s": reading.window_s,
        }
    )
    theirs = channel.expect("result", waits.answer_s)
    intruded = (theirs.get("error") or {}).get("class") == UNKNOWN_CONNECTION
    if theirs.get("error") and (obstacle is None or intruded):
        obstacle = MeasurementError.from_error(theirs["error"])
    claim = step.tool.claim(reading.claim, proof.from_record(theirs.get("claim")))
    row = step.finish_row(step.row("client", watch, reading, claim), obstacle)
    return step.swap_rows(row)


class _Start:
    """The client's word to the server that it begins, said once and at the group's common moment."""

    def __init__(self, step: Step, gate: StartBarrier, watch: Watch) -> None:
        self._step = step
        self._gate = gate
        self._watch = watch
        self._said = False

    def begin(self, release: Callable[[], None] = lambda: None) -> None:
        """Wait for the others of the group, say `go` and let the tool begin.

        Raises:
            ChannelClosed: the server is gone; SendTimeout: it does not take the word.
        """
        step = self._step
        patience_s = step.run_context.waits.ready_s
        step.play.moment = self._gate.start(str(step.test["rail"]), patience_s, self._say, release)
        self._watch.begin_processor()
        step.sample(self._watch)

    def mend(self) -> None:
        """Say `go` where the tool failed before it came to begin: the server waits for it.

        Raises:
            ChannelClosed, SendTimeout: as `begin`.
        """
        if self._said:
            return
        self._gate.leave(str(self._step.test["rail"]))
        self._step.play.moment = Moment.now()
        self._say(self._step.play.moment, TELL_S)

    def _say(self, moment: Moment, within_s: float) -> None:
        self._said = True
        self._step.channel.send({"t": "go", "at_s": moment.now_s()}, within_s)


def server_end(step: Step, gate: StartBarrier) -> Row:
    """Play the server's end; `gate` gives the group's common start.

    Raises:
        rendezvous.ChannelClosed, rendezvous.Cancelled: as `client_end`.
    """
    play = step.play
    try:
        return _server_end(step, gate)
    finally:
        play.release()


def _server_end(step: Step, gate: StartBarrier) -> Row:
    channel, play = step.channel, step.play
    reading = Reading({})
    obstacle: MeasurementError | None = None
    try:
        _open(step)
    except MeasurementError as found:
        channel.send({"t": "ready", "error": error_of(found)})
        return step.finish_row(step.row("server", None, reading, None), found)
    watch = step.watch()
    channel.send({"t": "ready", "port": play.port, "error": None})
    go = channel.expect("go", 2 * step.run_context.waits.ready_s)
    zero = _zero(go)
    play.moment = gate.moment()
    watch.begin_processor()
    step.sample(watch)
    done = _attend(step)
    if step.test["group"]:
        # What all rails carry is added up by this clock. A word is read late where the traffic that begins
        # with it takes the processor, and never early: of the two the earlier tells better.
        zero = min(zero, _zero(done))
    play.peer_failed = bool(done.get("error"))
    try:
        reading = step.tool.learn(step.tool.close(play), done.get("metrics") or {})
    except MeasurementError as found:
        obstacle = found
    watch.finish()
    watch.finish_processor()
    said = error_of(play.intruded or obstacle)
    channel.send({"t": "result", "error": said, "claim": proof.as_record(reading.claim)})
    if done.get("error"):
        # The client saw it first; what the server says of itself is the consequence more often than the
        # cause.
        obstacle = MeasurementError.from_error(done["error"])
    obstacle = play.intruded or obstacle
    claim = step.tool.claim(proof.from_record(done.get("claim")), reading.claim)
    if done.get("window_s"):
        offset = zero - play.moment.monotonic
        reading = reading._replace(window_s=[round(at + offset, 4) for at in done["window_s"]])
    row = step.finish_row(step.row("server", watch, reading, claim), obstacle)
    return step.swap_rows(row)


def _open(step: Step) -> None:
    """Start the server; once more, at another port, where somebody unknown was quicker than the filter.

    Raises:
        MeasurementError: it cannot be started, or somebody unknown is quicker each time.
    """
    play = step.play
    for left in reversed(range(_OPENINGS)):
        # The client hears of the port with `ready`.
        play.port = rail_socket.past_closing(play.own.address, play.port)
        try:
            step.tool.open(play)
            return
        except MeasurementError as found:
            if found.error_class != UNKNOWN_CONNECTION or not left:
                raise
            play.note(f"# {found.message}\n")
            play.release()


def _zero(message: Mapping[str, Any]) -> float:
    """Return when the client's clock showed 0, by a message of it; `go` may come after its group's start."""
    return time.monotonic() - float(message.get("at_s") or 0.0)


def _attend(step: Step) -> dict[str, Any]:
    """Answer what the client asks until it is done.

    Raises:
        ChannelClosed: it was not done in the time that its tool has, however much it asked; or it spoke of
            another thing.
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
            told = step.tool.answer(step.play, message)
        except MeasurementError as obstacle:
            told = {"error": obstacle.as_error()}
        step.channel.send({**told, "t": "told"})
