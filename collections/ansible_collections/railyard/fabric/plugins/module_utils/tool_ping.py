# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ping: the round-trip time of a rail, and the largest packet that passes it unbroken there and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import parsers, path_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.obstacle import Obstacle
from ansible_collections.railyard.fabric.plugins.module_utils.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.tool_base import (
    Finished,
    Play,
    Reading,
    Tool,
    failed,
    parsed,
)

_REPLY_WAIT_S = 1
# It binds itself to a netdev; and only root may ping as often as the policy asks for.
_CAPABILITIES = "CAP_NET_RAW"


def ping_argv(play: Play, count: int, payload_bytes: int | None) -> list[str]:
    """Return the command line, bound to the rail's netdev; with a payload fragments are forbidden."""
    argv = ["ping", "-6" if ":" in play.peer_address else "-4", "-n", "-I", play.own.netdev]
    if payload_bytes is not None:
        argv += ["-M", "do", "-s", str(payload_bytes)]
    interval_s = float(play.policy["ping_interval_s"])
    argv += ["-c", str(count), "-i", f"{interval_s:g}", "-W", str(_REPLY_WAIT_S)]
    return [*argv, play.peer_address]


class PingRtt(Tool):
    """Round-trip time of small packets."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets, and some."""
        return self.planned_s(policy) + _REPLY_WAIT_S + 8

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of all packets."""
        return float(policy["ping_count"]) * float(policy["ping_interval_s"])

    def client(self, play: Play) -> Reading:
        """Ping and read the times."""
        count = int(play.policy["ping_count"])
        done = play.run(ping_argv(play, count, None), self.limit_s(play.policy))
        output = _output(play, done)
        if not output.get("received"):
            raise failed(play, "ping", f"no reply from {play.peer_address} in {count} packets")
        names = ("rtt_average_us", "rtt_min_us", "rtt_max_us", "rtt_mdev_us", "loss_percent")
        claim = Claim("packets", float(output["received"]), float(count))
        return Reading({name: output.get(name) for name in names}, claim, _window(done))


class PathMtu(Tool):
    """The largest packet that passes there and back; asked at the planned MTU, searched for only below it."""

    name = "ping"
    package = "iputils-ping"
    capabilities = _CAPABILITIES

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of the search, which a healthy rail does not need."""
        # Whole batches are sent three times at most; the sizes in between are tried by a few packets each.
        return 45.0 + 3 * float(policy["path_mtu_probes"]) * float(policy["ping_interval_s"])

    def client(self, play: Play) -> Reading:
        """Find the path MTU."""
        counts = {"sent": 0, "received": 0}

        def probe(size_bytes: int, count: int) -> int:
            payload = size_bytes - path_mtu.header_bytes(play.peer_address)
            done = play.run(ping_argv(play, count, payload), self.limit_s(play.policy))
            received = int(_output(play, done).get("received") or 0)
            counts["sent"] += count
            counts["received"] += received
            return received

        found = path_mtu.search(probe, play.mtu_bytes, int(play.policy["path_mtu_probes"]))
        if found is None:
            raise failed(play, "ping", f"no reply from {play.peer_address} at any packet size")
        claim = Claim("packets", float(counts["received"]), float(counts["sent"]))
        metrics = {"path_mtu_bytes": found.size_bytes, "sent": found.sent, "received": found.received}
        return Reading(metrics, claim)


def _output(play: Play, done: Finished) -> dict[str, Any]:
    """Return ping's summary; a ping without any reply is a result too, not a failure of the tool."""
    try:
        return parsed(play, "ping", done.text, _parse)
    except Obstacle as obstacle:
        if obstacle.error_class == "tool_failed" and "packets transmitted" in done.text:
            return {"received": 0}
        if "message too long" in done.text.lower() or "100% packet loss" in done.text:
            return {"received": 0}
        # Without its statistics ping did not get to probe (no permission, an option that it lacks): that is
        # no finding about the path.
        raise Obstacle("tool_garbage", obstacle.message, obstacle.host, obstacle.fix) from obstacle


def _parse(text: str) -> dict[str, Any]:
    result: dict[str, Any] = parsers.parse("ping", text)
    return result


def _window(done: Finished) -> list[float]:
    return [round(done.begun_s, 4), round(done.ended_s, 4)]
