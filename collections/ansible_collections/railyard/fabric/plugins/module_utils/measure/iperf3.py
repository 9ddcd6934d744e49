# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure TCP bandwidth with iperf3: several streams, the JSON of both ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..parsers import capture, json_text
from ..parsers.iperf3 import output as iperf3
from .base import Finished, Reading, Tool, ToolSession, parse_output, tool_failed
from .proof import Claim

BLOCK_BYTES = 131072
# A receiver acknowledges about every second segment in a separate packet.
_ACKNOWLEDGED = 0.05


class Iperf3(Tool):
    """TCP bandwidth from client to server, or both ways at once.

    Args:
        bi: both directions at once.
    """

    name = "iperf3"
    package = "iperf3"
    # On an emulated node with a busy CPU the end of a test takes longer than the test.
    margin_s = 20.0
    sampled = True

    def __init__(self, bi: bool = False) -> None:
        self._bi = bi

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test, including the omitted start."""
        return float(policy["iperf3_duration_s"]) + float(policy["iperf3_omit_s"])

    def server_argv(self, session: ToolSession) -> list[str]:
        """Return the server's command line: one test on the rail's address, then it ends."""
        return ["iperf3", "-s", "-1", "-J", "-B", session.own.address, "-p", str(session.port)]

    def client_argv(self, session: ToolSession) -> list[str]:
        """Return the client's command line."""
        policy = session.policy
        argv = ["iperf3", "-c", session.peer_address, "-B", session.own.address, "-p", str(session.port)]
        argv += ["-J", "-t", str(policy["iperf3_duration_s"]), "-O", str(policy["iperf3_omit_s"])]
        argv += ["-P", str(policy["iperf3_streams"]), "-l", str(BLOCK_BYTES)]
        return [*argv, "--bidir"] if self._bi else argv

    def open(self, session: ToolSession) -> None:
        """Start the server."""
        session.serve(self.server_argv(session), self.limit_s(session.policy) + self.margin_s)

    def client(self, session: ToolSession) -> Reading:
        """Send, and read the client's JSON."""
        done = session.run(self.client_argv(session), self.limit_s(session.policy), connection=True)
        reading = self._read(session, done, server=False)
        for name in ("forward_gbps", "reverse_gbps") if self._bi else ("bandwidth_gbps",):
            if not reading.metrics[name]:
                raise tool_failed(session, "iperf3", f"no bytes arrived ({name} is 0)")
        omit_s = float(session.policy["iperf3_omit_s"])
        begin_s = done.connected_s + omit_s
        window = [
            round(begin_s, 4),
            round(min(begin_s + duration_s(done.text, session.policy), done.ended_s), 4),
        ]
        return reading._replace(window_s=window)

    def close(self, session: ToolSession) -> Reading:
        """Read the server's JSON once it has ended."""
        return self._read(
            session, session.served(patience_s=1.0 if session.peer_failed else 6.0), server=True
        )

    def claim(self, client: Claim | None, server: Claim | None) -> Claim | None:
        """Return the receiver's count as the least that passed, the sender's as the most.

        The sender's includes what was still in its buffer at the end, much of which the receiver's kernel may
        have received without its iperf3 reading it.
        """
        if client is None or server is None:
            return None if self._bi else server or client
        forward, back = server.at_least, client.back_at_least
        most, back_most = max(forward, client.at_most), max(back, server.back_at_most)
        if not self._bi:
            return Claim("bytes", forward, most)
        return Claim(
            "bytes", forward, most + _ACKNOWLEDGED * back_most, back, back_most + _ACKNOWLEDGED * most
        )

    def learn(self, reading: Reading, client: Mapping[str, Any]) -> Reading:
        """Take from the client how much arrived of what this server sent."""
        arrived = client.get("reverse_gbps")
        if not self._bi or not isinstance(arrived, (int, float)) or isinstance(arrived, bool):
            return reading
        metrics = dict(reading.metrics)
        metrics["reverse_sent_gbps"] = metrics["reverse_gbps"]
        metrics["reverse_gbps"] = float(arrived)
        metrics["bandwidth_gbps"] = metrics["forward_gbps"] + metrics["reverse_gbps"]
        return reading._replace(metrics=metrics)

    def _read(self, session: ToolSession, done: Finished, server: bool) -> Reading:
        output = parse_output(session, "iperf3", done.text, _parse)
        if done.exit_status != 0:
            raise tool_failed(
                session, "iperf3", f"it printed a result and ended with status {done.exit_status}"
            )
        if output.get("protocol") != "TCP":
            raise tool_failed(session, "iperf3", "it ran {!r} instead of TCP".format(output.get("protocol")))
        ways = {way["direction"]: way for way in output.get("directions") or []}
        if set(ways) != ({"forward", "reverse"} if self._bi else {"forward"}):
            raise tool_failed(
                session, "iperf3", f"it ran the directions {sorted(ways)}, which were not planned"
            )
        wanted, streams = int(session.policy["iperf3_streams"]), count_streams(done.text, len(ways))
        if streams is None:
            raise tool_failed(
                session, "iperf3", f"its output does not show its streams, {wanted} were configured"
            )
        if streams != wanted:
            raise tool_failed(
                session, "iperf3", f"{streams} of its streams moved data, {wanted} were configured"
            )
        way, back = ways["forward"], ways.get("reverse", {})
        cpu_percent = output.get("cpu_host_percent")
        metrics = {
            "bandwidth_gbps": way.get("received_gbps"),
            "sent_gbps": way.get("sent_gbps"),
            "retransmits": way.get("retransmits"),
            "cpu_percent": None if cpu_percent is None else round(cpu_percent, 2),
        }
        extra: dict[str, Any] = {"streams": streams}
        if self._bi:
            # A server does not know how much of its data arrived.
            reverse_gbps = back.get("sent_gbps" if server else "received_gbps")
            both = (way.get("received_gbps"), reverse_gbps)
            del metrics["sent_gbps"]
            metrics.update({"forward_gbps": both[0], "reverse_gbps": both[1]})
            metrics["bandwidth_gbps"] = sum(both) if None not in both else None
            metrics["retransmits"] = (back if server else way).get("retransmits")
            extra["bandwidth_is"] = "sum_of_both"
        moved, moved_back = moved_bytes(done.text), moved_bytes(done.text, json_text.REPEATED)
        claim = None
        if moved is not None:
            claim = Claim("bytes", moved, moved, moved_back or 0.0, moved_back or 0.0)
        return Reading(metrics, claim, None, BLOCK_BYTES, extra)


def moved_bytes(text: str, suffix: str = "") -> float | None:
    """Return the bytes of all intervals in the JSON, including the omitted ones, which crossed the rail too.

    The summary leaves out the omitted start, which the kernel's counters include.

    Args:
        text: what iperf3 printed.
        suffix: of the key `sum`; `json_text.REPEATED` for the reverse half of a bidirectional test.
    """
    try:
        intervals = json_text.find_objects(text).objects[0]["intervals"]
        return float(sum(interval["sum" + suffix]["bytes"] for interval in intervals)) or None
    except (IndexError, KeyError, TypeError):
        return None


def count_streams(text: str, ways: int) -> int | None:
    """Count the streams that moved data, in the direction with the fewest; None where it is not shown.

    Args:
        text: what iperf3 printed.
        ways: how many directions it ran.
    """
    moving: dict[object, int] = {}
    try:
        streams = json_text.find_objects(text).objects[0]["end"]["streams"]
        for sender, receiver in ((one["sender"], one["receiver"]) for one in streams):
            # The other end's half may be 0; `sender` shows the direction.
            if sender["bytes"] or receiver["bytes"]:
                moving[sender.get("sender")] = moving.get(sender.get("sender"), 0) + 1
    except (AttributeError, IndexError, KeyError, TypeError):
        return None
    return min(moving.values()) if len(moving) == ways else 0


def duration_s(text: str, policy: Mapping[str, Any]) -> float:
    """Return the duration of the measured part from the JSON, or from the policy."""
    try:
        return float(json_text.find_objects(text).objects[0]["end"]["sum_received"]["seconds"])
    except (IndexError, KeyError, TypeError, ValueError):
        return float(policy["iperf3_duration_s"])


def _parse(text: str) -> dict[str, Any]:
    """Parse; the result of a server that also sent is valid without the amount that arrived."""
    result: dict[str, Any] = capture.read(iperf3.parse, text)
    outputs = result["outputs"]
    both = len(outputs) == 1 and len(outputs[0]["directions"]) == 2
    return {**result, "valid": True} if both and result["error"] is None else result
