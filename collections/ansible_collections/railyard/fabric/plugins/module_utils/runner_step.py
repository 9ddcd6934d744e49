# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One test at one end: both ends walk through the same steps, and each writes a row that knows the other's.

begin (both: what stands in the way?), ready (server), go (client), done (client), result (server), row (both)
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import (
    counters,
    proof,
    rail_socket,
    tool_base,
    tools,
)
from ansible_collections.railyard.fabric.plugins.module_utils.obstacle import Obstacle, error_of
from ansible_collections.railyard.fabric.plugins.module_utils.rendezvous import Channel
from ansible_collections.railyard.fabric.plugins.module_utils.runner_bench import Bench, Gate
from ansible_collections.railyard.fabric.plugins.module_utils.runner_meeting import Session
from ansible_collections.railyard.fabric.plugins.module_utils.runner_play import RailPlay
from ansible_collections.railyard.fabric.plugins.module_utils.tool_base import Reading

# The partner may still be held up by a test on another rail.
BEGIN_WAIT_S = 50.0
# A server has at most so long to listen, and in a group the slowest of them decides.
READY_WAIT_S = 15.0
_ANSWER_S = 15.0
# Drivers of hardware NICs read their counters from the card now and then, not at every byte.
_COUNTERS_SETTLE_S = 0.7

Row = dict[str, Any]


class Watch:
    """The kernel's counters around one test, of its own rail and of those that ought to be idle."""

    def __init__(self, bench: Bench, test: Mapping[str, Any], group_rails: tuple[str, ...]) -> None:
        self._rail = str(test["rail"])
        netdevs = {name: place.netdev for name, place in bench.places.items()}
        self._netdevs = {
            name: netdev for name, netdev in netdevs.items() if name == self._rail or name not in group_rails
        }
        self._before = counters.read_all(self._netdevs)
        self._after = self._before
        self._ticks = counters.read_processor_ticks()
        self._begun = time.monotonic()
        self._ended = self._begun
        self.node_cpu_percent: float | None = None

    def finish(self) -> None:
        """Read the counters again; may be done once more when a driver counts late."""
        self._after = counters.read_all(self._netdevs)
        self._ended = time.monotonic()

    def finish_processor(self) -> None:
        """Note how busy the node was until now."""
        self.node_cpu_percent = counters.node_cpu_percent(self._ticks, counters.read_processor_ticks())

    def own(self) -> dict[str, Any]:
        """Return the rail's counters as a row carries them."""
        return counters.spans(self._before[self._rail], self._after[self._rail])

    def others(self) -> dict[str, Any]:
        """Return the byte counters of the rails that ought to be idle."""
        return {
            rail: counters.spans(self._before[rail], self._after[rail], ("tx_bytes", "rx_bytes"))
            for rail in self._netdevs
            if rail != self._rail
        }

    def prove(self, claim: proof.Claim | None, end: str, policy: Mapping[str, Any]) -> tuple[str, str | None]:
        """Return the proof and its reason; waits a moment for counters that fall short."""
        deadline = time.monotonic() + _COUNTERS_SETTLE_S
        while proof.falls_short(claim, end, self.own()) and time.monotonic() < deadline:
            time.sleep(0.1)
            self.finish()
        allowance = proof.Allowance(float(policy["idle_bytes_per_s"]), self._ended - self._begun)
        return proof.prove(claim, end, self.own(), self.others(), allowance)


class Step:
    """One end of one test: what it needs while it runs, and the row it makes of it."""

    def __init__(
        self,
        bench: Bench,
        session: Session,
        channel: Channel,
        test: Mapping[str, Any],
        group: tuple[str, ...],
    ) -> None:
        self.bench = bench
        self.session = session
        self.channel = channel
        self.test = test
        self.group = group
        self.tool = tools.TOOL_OF_CHECK[str(test["check"])]()
        self.limit_s = self.tool.limit_s(bench.policy)
        rail = bench.rails[session.place.rail]
        port = tools.tool_port(
            int(bench.policy["base_port"]),
            int(test["round"]),
            int(rail["index"]),
            len(bench.rails),
            str(test["check"]),
        )
        self.play = RailPlay(bench, session, channel, test, port)
        self.sampler: counters.Sampler | None = None

    def sample(self) -> None:
        """Begin to sample the rail, in a group."""
        if self.test["group"]:
            self.sampler = counters.Sampler(self.session.place.netdev, self.play.moment.monotonic)

    def row(self, end: str, watch: Watch | None, reading: Reading, claim: proof.Claim | None) -> Row:
        """Return this end's row of a measured test, proven or not, before the other end's part is in."""
        record = self.bench.record
        row = record.blank_row(self.test, self.bench.rails[self.session.place.rail], self._version())
        metrics = dict(reading.metrics)
        if watch is not None:
            verdict, reason = watch.prove(claim, end, self.bench.policy)
            if str(self.test["check"]).startswith("tcp_bandwidth"):
                metrics["node_cpu_percent"] = watch.node_cpu_percent
            row.update({"counters": watch.own(), "other_rails": watch.others(), "proof": verdict})
            row["proof_reason"] = reason
        row.update({"status": "measured", "metrics": metrics, "window_s": reading.window_s})
        row.update({"message_bytes": reading.message_bytes, "claim": proof.as_record(claim)})
        row.update(reading.extra or {})
        return row

    def finish_row(self, row: Row, obstacle: Obstacle | None) -> Row:
        """Add what every row of a test that was begun carries."""
        play = self.play
        row["started"] = play.moment.text or row["started"]
        row["argv"] = play.argvs
        row["exit_status"] = play.exit_status
        row["versions"] = {self.bench.node: self._version(), self.session.peer: self._peer_version()}
        if self.sampler is not None:
            row["samples"] = self.sampler.stop()
            self.sampler = None
        if play.argvs or self.test["tool"] == "udp_probe":
            row["raw"] = self.bench.record.raw_reference(self.test)
        if obstacle is not None:
            row.update({"status": obstacle.status, "error": error_of(obstacle), "proof": None})
        return row

    def swap_rows(self, row: Row) -> Row:
        """Tell the other end what this one found, and take its part into the row."""
        keys = ("host", "status", "proof", "metrics", "counters", "error")
        self.channel.send({"t": "row", "boot_id": self.bench.boot_id, **{key: row[key] for key in keys}})
        theirs = self.channel.expect("row", _ANSWER_S)
        row["other_end"] = {key: theirs.get(key) for key in (*keys, "boot_id")}
        return row

    def _version(self) -> str | None:
        return self.bench.version_of(self.test)

    def _peer_version(self) -> str | None:
        versions = self.session.hello.get("versions") or {}
        return versions.get(str(self.test["tool"]))


def own_obstacle(bench: Bench, session: Session, test: Mapping[str, Any]) -> Obstacle | None:
    """Return what stands in this end's way before the test begins."""
    if session.obstacle:
        return session.obstacle
    if session.busy:
        return session.busy
    tool = tools.TOOL_OF_CHECK[str(test["check"])]()
    needs_it = tool.package is not None and not (tool.name == "ping" and test["peer"] == bench.node)
    if needs_it and bench.version_of(test) is None:
        return tool_base.missing(tool, bench.node)
    return None


def client_end(step: Step, gate: Gate) -> Row:
    """Play the client's end.

    Raises:
        rendezvous.Broken: the partner went away; rendezvous.Stopped: the runner was told to stop.
    """
    channel, play, at_gate = step.channel, step.play, False
    reading = Reading({})
    obstacle: Obstacle | None = None
    try:
        ready = channel.expect("ready", READY_WAIT_S)
        if ready.get("error"):
            return step.finish_row(
                step.row("client", None, reading, None), Obstacle.from_error(ready["error"])
            )
        play.port = int(ready["port"])
        at_gate = True
        play.moment = gate.start(READY_WAIT_S)
    finally:
        if not at_gate:
            gate.leave()
    watch = Watch(step.bench, step.test, step.group)
    step.sample()
    channel.send({"t": "go"})
    try:
        reading = step.tool.client(play)
    except Obstacle as found:
        obstacle = found
    watch.finish()
    watch.finish_processor()
    channel.send(
        {
            "t": "done",
            "error": error_of(obstacle),
            "claim": proof.as_record(reading.claim),
            "window_s": reading.window_s,
        }
    )
    theirs = channel.expect("result", _ANSWER_S)
    if theirs.get("error") and obstacle is None:
        obstacle = Obstacle.from_error(theirs["error"])
    claim = step.tool.claim(reading.claim, proof.from_record(theirs.get("claim")))
    row = step.finish_row(step.row("client", watch, reading, claim), obstacle)
    return step.swap_rows(row)


def server_end(step: Step, gate: Gate) -> Row:
    """Play the server's end; `gate` gives the group's common start.

    Raises:
        rendezvous.Broken, rendezvous.Stopped: as `client_end`.
    """
    play = step.play
    try:
        return _server_end(step, gate)
    finally:
        play.release()


def _server_end(step: Step, gate: Gate) -> Row:
    channel, play = step.channel, step.play
    reading = Reading({})
    obstacle: Obstacle | None = None
    # The client hears of the port with `ready`.
    play.port = rail_socket.past_closing(play.own.address, play.port)
    try:
        step.tool.open(play)
    except Obstacle as found:
        channel.send({"t": "ready", "error": error_of(found)})
        return step.finish_row(step.row("server", None, reading, None), found)
    watch = Watch(step.bench, step.test, step.group)
    channel.send({"t": "ready", "port": play.port, "error": None})
    channel.expect("go", 2 * READY_WAIT_S)
    went = time.monotonic()
    play.moment = gate.moment()
    step.sample()
    done = _attend(step)
    try:
        reading = step.tool.close(play)
    except Obstacle as found:
        obstacle = found
    watch.finish()
    watch.finish_processor()
    channel.send({"t": "result", "error": error_of(obstacle), "claim": proof.as_record(reading.claim)})
    if done.get("error"):
        # The client saw it first; what the server says of itself is the consequence more often than the
        # cause.
        obstacle = Obstacle.from_error(done["error"])
    claim = step.tool.claim(proof.from_record(done.get("claim")), reading.claim)
    if done.get("window_s"):
        offset = went - play.moment.monotonic
        reading = reading._replace(window_s=[round(at + offset, 4) for at in done["window_s"]])
    row = step.finish_row(step.row("server", watch, reading, claim), obstacle)
    return step.swap_rows(row)


def _attend(step: Step) -> dict[str, Any]:
    """Answer what the client asks until it is done."""
    deadline = time.monotonic() + step.limit_s + _ANSWER_S
    while True:
        message = step.channel.receive(max(deadline - time.monotonic(), 0.1))
        if message.get("t") == "done":
            return message
        if message.get("t") == "ask":
            step.channel.send({**step.tool.answer(step.play, message), "t": "told"})
