# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ping: the round-trip time of a rail, and the largest packet that passes it unbroken there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.measure import path_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    Finished,
    Reading,
    Tool,
    ToolSession,
    failed,
    parsed,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import capture, ping

# It binds itself to a netdev; and only root may ping as often, or send as much at once, as is asked for.
_CAPABILITIES = "CAP_NET_RAW"
# What the paced packets seem to lose is decided by so many that are waited for.
_DECIDING = 300
# Large enough that the counters show whether one is missing; any Ethernet carries them.
_DECIDING_BYTES = 1428
_LARGEST_BYTES = 9216


def paced_argv(play: ToolSession, count: int) -> list[str]:
    """Return the command line for small packets one after the other, for their times.

    iputils waits for the last replies only as long as its interval, or twice the longest time: where some are
    missing, nothing is known of them.
    """
    return _argv(play, count, "-i", "{:g}".format(float(play.policy["ping_interval_s"])))


def patient_argv(play: ToolSession, count: int, size_bytes: int, unbroken: bool) -> list[str]:
    """Return the command line for packets of a size that are sent at once, for their number.

    Its interval is what iputils waits for the last reply, `-W` while none has come; with all it ends at once.
    """
    whole = ["-M", "do"] if unbroken else []
    payload_bytes = size_bytes - path_mtu.header_bytes(play.peer_address)
    words = ["-s", str(payload_bytes), "-l", str(count), "-i", f"{path_mtu.LOST_AFTER_S:g}"]
    return _argv(play, count, *whole, *words)


def _argv(play: ToolSession, count: int, *words: str) -> list[str]:
    family = "-6" if ":" in play.peer_address else "-4"
    wait = ["-W", f"{path_mtu.LOST_AFTER_S:g}"]
    return ["ping", family, "-n", "-I", play.own.netdev, *words, "-c", str(count), *wait, play.peer_address]


def _replies(
    play: ToolSession, count: int, size_bytes: int, limit_s: float, unbroken: bool
) -> tuple[int, int]:
    """Send packets of a size and wait for them; return how many were sent and how many came back."""
    sent = received = 0
    for at_once in path_mtu.batches(count, size_bytes):
        done = play.run(patient_argv(play, at_once, size_bytes, unbroken), limit_s)
        sent += at_once
        received += int(_output(play, done).get("received") or 0)
        if not received:
            break  # what is left would only be waited for
    return sent, received


class PingRtt(Tool):
    """Round-trip time of small packets, and whether any are lost."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets, of those that decide about a loss, and some."""
        count = int(policy["ping_count"])
        return self.planned_s(policy) + _patience_s(max(count, _DECIDING), _DECIDING_BYTES) + 10.0

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets."""
        return float(policy["ping_count"]) * float(policy["ping_interval_s"])

    def client(self, play: ToolSession) -> Reading:
        """Ping and read the times; where replies are missing, see whether packets are lost."""
        count, limit_s = int(play.policy["ping_count"]), self.limit_s(play.policy)
        done = play.run(paced_argv(play, count), limit_s)
        output = _output(play, done)
        if not output.get("received"):
            raise failed(play, "ping", f"no reply from {play.peer_address} in {count} packets")
        names = ("rtt_average_us", "rtt_min_us", "rtt_max_us", "rtt_mdev_us", "loss_percent")
        metrics = {name: output.get(name) for name in names}
        came = int(output["received"])
        if came >= count:
            return Reading(metrics, Claim("packets", float(came), float(count)), done.window_s)
        size_bytes = min(_DECIDING_BYTES, play.mtu_bytes)
        sent, received = _replies(play, max(count, _DECIDING), size_bytes, limit_s, unbroken=False)
        metrics["loss_percent"] = round(100.0 * (sent - received) / sent, 3)
        metrics.update({"sent": sent, "received": received, "packet_bytes": size_bytes})
        return Reading(metrics, Claim("packets", float(came + received), float(count + sent)), done.window_s)


class PathMtu(Tool):
    """The largest packet that passes there and back; asked at the planned MTU, searched for only below it."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of the search, which a healthy rail does not need."""
        # Whole batches are sent three times at most; the sizes in between are tried by a few packets each.
        return 45.0 + 3 * _patience_s(int(policy["path_mtu_probes"]), _LARGEST_BYTES)

    def client(self, play: ToolSession) -> Reading:
        """Find the path MTU."""
        counts = {"sent": 0, "received": 0}

        def probe(size_bytes: int, count: int) -> int:
            sent, received = _replies(play, count, size_bytes, self.limit_s(play.policy), unbroken=True)
            counts["sent"] += sent
            counts["received"] += received
            return received

        found = path_mtu.search(probe, play.mtu_bytes, int(play.policy["path_mtu_probes"]))
        if found is None:
            raise failed(play, "ping", f"no reply from {play.peer_address} at any packet size")
        claim = Claim("packets", float(counts["received"]), float(counts["sent"]))
        metrics = {"path_mtu_bytes": found.size_bytes, "sent": found.sent, "received": found.received}
        return Reading(metrics, claim)


def _patience_s(count: int, size_bytes: int) -> float:
    """Return the time of so many packets of which each batch loses some."""
    return len(list(path_mtu.batches(count, size_bytes))) * (path_mtu.LOST_AFTER_S + 0.5)


def _output(play: ToolSession, done: Finished) -> dict[str, Any]:
    """Return ping's summary; a ping without any reply is a result too, not a failure of the tool."""
    try:
        return parsed(play, "ping", done.text, lambda text: capture.read(ping.parse, text))
    except MeasurementError as obstacle:
        if obstacle.error_class == "tool_failed" and "packets transmitted" in done.text:
            return {"received": 0}
        if "message too long" in done.text.lower() or "100% packet loss" in done.text:
            return {"received": 0}
        # Without its statistics ping did not get to probe (no permission, an option that it lacks): that is
        # no finding about the path.
        raise MeasurementError("tool_garbage", obstacle.message, obstacle.host, obstacle.fix) from obstacle
