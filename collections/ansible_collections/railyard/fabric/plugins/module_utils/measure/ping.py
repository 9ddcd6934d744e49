# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run ping: the round-trip time of a rail, and the largest packet that passes unfragmented both ways."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError
from ..parsers import capture, ping
from . import path_mtu
from .base import Finished, Reading, Tool, ToolSession, parse_output, tool_failed
from .proof import Claim

# To bind to a netdev, for short intervals and for bursts.
_CAPABILITIES = "CAP_NET_RAW"
# Where paced packets seem to be lost, this many packets with a longer wait decide.
_DECIDING = 300
# Large enough that the counters show a missing one; any Ethernet carries them.
_DECIDING_BYTES = 1428
_LARGEST_BYTES = 9216


def paced_argv(session: ToolSession, count: int) -> list[str]:
    """Return the command line for small packets one after the other, for their times.

    iputils waits for the last replies only for its interval or twice the longest time, so missing replies do
    not prove a loss.
    """
    return _argv(session, count, "-i", "{:g}".format(float(session.policy["ping_interval_s"])))


def patient_argv(session: ToolSession, count: int, size_bytes: int, unbroken: bool) -> list[str]:
    """Return the command line for a burst of packets of a size, to count the replies.

    iputils waits for the last reply for its interval (`-W` while none has come), and ends once all have come.
    """
    unfragmented = ["-M", "do"] if unbroken else []
    payload_bytes = size_bytes - path_mtu.header_bytes(session.peer_address)
    options = ["-s", str(payload_bytes), "-l", str(count), "-i", f"{path_mtu.LOST_AFTER_S:g}"]
    return _argv(session, count, *unfragmented, *options)


def _argv(session: ToolSession, count: int, *options: str) -> list[str]:
    family = "-6" if ":" in session.peer_address else "-4"
    argv = ["ping", family, "-n", "-I", session.own.netdev, *options, "-c", str(count)]
    return [*argv, "-W", f"{path_mtu.LOST_AFTER_S:g}", session.peer_address]


def _replies(
    session: ToolSession, count: int, size_bytes: int, limit_s: float, unbroken: bool
) -> tuple[int, int]:
    """Send packets of a size and wait for the replies; return how many were sent and received."""
    sent = received = 0
    for at_once in path_mtu.batches(count, size_bytes):
        done = session.run(patient_argv(session, at_once, size_bytes, unbroken), limit_s)
        sent += at_once
        received += int(_output(session, done).get("received") or 0)
        if not received:
            break  # the rest would only take time
    return sent, received


class PingRtt(Tool):
    """Round-trip time of small packets, and whether any are lost."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets, of those that decide about a loss, and a margin."""
        count = int(policy["ping_count"])
        return self.planned_s(policy) + _patience_s(max(count, _DECIDING), _DECIDING_BYTES) + 10.0

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets."""
        return float(policy["ping_count"]) * float(policy["ping_interval_s"])

    def client(self, session: ToolSession) -> Reading:
        """Measure the times; where replies are missing, check whether packets are lost."""
        count, limit_s = int(session.policy["ping_count"]), self.limit_s(session.policy)
        done = session.run(paced_argv(session, count), limit_s)
        output = _output(session, done)
        if not output.get("received"):
            raise tool_failed(session, "ping", f"no reply from {session.peer_address} in {count} packets")
        names = ("rtt_average_us", "rtt_min_us", "rtt_max_us", "rtt_mdev_us", "loss_percent")
        metrics = {name: output.get(name) for name in names}
        replies = int(output["received"])
        if replies >= count:
            return Reading(metrics, Claim("packets", float(replies), float(count)), done.window_s)
        size_bytes = min(_DECIDING_BYTES, session.mtu_bytes)
        sent, received = _replies(session, max(count, _DECIDING), size_bytes, limit_s, unbroken=False)
        metrics["loss_percent"] = round(100.0 * (sent - received) / sent, 3)
        metrics.update({"sent": sent, "received": received, "packet_bytes": size_bytes})
        return Reading(
            metrics, Claim("packets", float(replies + received), float(count + sent)), done.window_s
        )


class PathMtu(Tool):
    """The largest packet that passes in both directions; first the planned MTU, then a search below it."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of the search, which a healthy rail does not need."""
        # Complete bursts are sent three times at most; sizes in between are tried with a few packets each.
        return 45.0 + 3 * _patience_s(int(policy["path_mtu_probes"]), _LARGEST_BYTES)

    def client(self, session: ToolSession) -> Reading:
        """Find the path MTU."""
        counts = {"sent": 0, "received": 0}

        def probe(size_bytes: int, count: int) -> int:
            sent, received = _replies(session, count, size_bytes, self.limit_s(session.policy), unbroken=True)
            counts["sent"] += sent
            counts["received"] += received
            return received

        found = path_mtu.search(probe, session.mtu_bytes, int(session.policy["path_mtu_probes"]))
        if found is None:
            raise tool_failed(session, "ping", f"no reply from {session.peer_address} at any packet size")
        claim = Claim("packets", float(counts["received"]), float(counts["sent"]))
        metrics = {"path_mtu_bytes": found.size_bytes, "sent": found.sent, "received": found.received}
        return Reading(metrics, claim)


def _patience_s(count: int, size_bytes: int) -> float:
    """Return the time of `count` packets if each burst loses some."""
    return len(list(path_mtu.batches(count, size_bytes))) * (path_mtu.LOST_AFTER_S + 0.5)


def _output(session: ToolSession, done: Finished) -> dict[str, Any]:
    """Parse ping's summary; no reply at all is a result, not a failure of the tool."""
    try:
        return parse_output(session, "ping", done.text, lambda text: capture.read(ping.parse, text))
    except MeasurementError as failure:
        if failure.error_class == "tool_failed" and "packets transmitted" in done.text:
            return {"received": 0}
        if "message too long" in done.text.lower() or "100% packet loss" in done.text:
            return {"received": 0}
        # Without statistics ping has sent nothing (no permission, an unknown option), which is no result.
        raise MeasurementError("tool_garbage", failure.message, failure.host, failure.fix) from failure
