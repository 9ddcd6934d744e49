# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3 over TCP: several streams from client to server, both ends' JSON read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import parsers
from ansible_collections.railyard.fabric.plugins.module_utils.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.tool_base import (
    Finished,
    Play,
    Reading,
    Tool,
    failed,
    parsed,
)

BLOCK_BYTES = 131072
_MARGIN_S = 8.0


class Iperf3(Tool):
    """TCP bandwidth from client to server."""

    name = "iperf3"
    package = "iperf3"

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test, the omitted start included, and a margin."""
        return float(policy["iperf3_duration_s"]) + float(policy["iperf3_omit_s"]) + _MARGIN_S

    def server_argv(self, play: Play) -> list[str]:
        """Return the server's command line: one test on the rail's own address, then it ends by itself."""
        return ["iperf3", "-s", "-1", "-J", "-B", play.own.address, "-p", str(play.port)]

    def client_argv(self, play: Play) -> list[str]:
        """Return the client's command line."""
        policy = play.policy
        argv = ["iperf3", "-c", play.peer_address, "-B", play.own.address, "-p", str(play.port), "-J"]
        argv += ["-t", str(policy["iperf3_duration_s"]), "-O", str(policy["iperf3_omit_s"])]
        return [*argv, "-P", str(policy["iperf3_streams"]), "-l", str(BLOCK_BYTES)]

    def open(self, play: Play) -> None:
        """Start the server."""
        play.serve(self.server_argv(play), self.limit_s(play.policy) + _MARGIN_S)

    def client(self, play: Play) -> Reading:
        """Send, and read the client's JSON."""
        done = play.run(self.client_argv(play), self.limit_s(play.policy), connection=True)
        reading = _read(play, done, "cpu_host_percent")
        if not reading.metrics["bandwidth_gbps"]:
            raise failed(play, "iperf3", f"no byte arrived at {play.peer_address}")
        omit_s = float(play.policy["iperf3_omit_s"])
        begin_s = (done.connected_s if done.connected_s is not None else done.begun_s) + omit_s
        window = [
            round(begin_s, 4),
            round(min(begin_s + duration_s(done.text, play.policy), done.ended_s), 4),
        ]
        return reading._replace(window_s=window)

    def close(self, play: Play) -> Reading:
        """Read the server's JSON once it has ended."""
        return _read(play, play.served(patience_s=3.0), "cpu_host_percent")

    def claim(self, client: Claim | None, server: Claim | None) -> Claim | None:
        """Return the receiver's count: the sender's includes what was still in its buffer at the end."""
        return server or client


def _read(play: Play, done: Finished, cpu: str) -> Reading:
    output = parsed(play, "iperf3", done.text, _parse)
    if output.get("protocol") != "TCP":
        raise failed(play, "iperf3", "it ran {!r}, asked was TCP".format(output.get("protocol")))
    ways = [way for way in output.get("directions") or [] if way.get("direction") == "forward"]
    way: dict[str, Any] = ways[0] if ways else {}
    metrics = {
        "bandwidth_gbps": way.get("received_gbps"),
        "sent_gbps": way.get("sent_gbps"),
        "retransmits": way.get("retransmits"),
        "cpu_percent": output.get(cpu),
    }
    moved = moved_bytes(done.text)
    claim = None if moved is None else Claim("bytes", moved, moved)
    return Reading(metrics, claim, None, BLOCK_BYTES)


def moved_bytes(text: str) -> float | None:
    """Return all bytes of a JSON's intervals, the omitted ones too: they crossed the rail like the others.

    The summary leaves the omitted start out, and the counters do not.
    """
    try:
        intervals = json.loads(text[text.index("{") :])["intervals"]
        return float(sum(interval["sum"]["bytes"] for interval in intervals)) or None
    except (ValueError, KeyError, TypeError):
        return None


def duration_s(text: str, policy: Mapping[str, Any]) -> float:
    """Return how long the measured part lasted by the JSON, or by the policy where it does not say."""
    try:
        return float(json.loads(text[text.index("{") :])["end"]["sum_received"]["seconds"])
    except (ValueError, KeyError, TypeError):
        return float(policy["iperf3_duration_s"])


def _parse(text: str) -> dict[str, Any]:
    result: dict[str, Any] = parsers.parse("iperf3", text)
    return result
