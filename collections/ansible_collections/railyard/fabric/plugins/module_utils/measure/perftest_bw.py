# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure RDMA bandwidth with perftest in duration mode, and check whether its numbers agree.

With `-D duration -f margin` the program sends all the time and counts in the window between two margins. At
least its count times the message size crossed the rail; at most duration / window times as much.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .base import Finished, Reading, ToolSession
from .perftest import Perftest, leave_s
from .proof import RDMA_HEADER_BYTES, Claim

# perftest's default: messages posted and not yet completed, which are sent after the end too.
_TX_DEPTH = 128
# The tolerance between a bandwidth and iterations x size / window. It may be lower by more, since the alarm
# that ends the window comes late on a busy CPU and never early.
_CLAIM_SLACK = 0.10
_LATE_S = 3.0
# Rounding of two decimals of MiB/s and six of the message rate.
_HALF_DIGIT_GBPS = 0.005 * 2**20 * 8 / 1e9
_HALF_DIGIT_MPPS = 0.5e-6


class Bandwidth(Perftest):
    """Bandwidth from client to server; read fetches it the other way, `bi` sends both ways."""

    # To start, register memory, exchange keys and end, on a node with one CPU.
    margin_s = 25.0

    def __init__(
        self, name: str, bi: bool = False, pinned: bool = True, check: str = "rdma_bandwidth"
    ) -> None:
        super().__init__(name, pinned, check)
        self._bi = bi
        self._read = name.startswith("ib_read")

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test, including its margins."""
        return float(policy["rdma_duration_s"])

    def options(self, policy: Mapping[str, Any]) -> list[str]:
        """Return the options that must be equal on both ends."""
        words = ["-s", str(policy["rdma_message_bytes"]), "-q", str(policy["rdma_qps"])]
        words += ["-D", str(policy["rdma_duration_s"]), "-f", str(policy["rdma_margin_s"])]
        return [*words, "-b"] if self._bi else words

    def open(self, session: ToolSession) -> None:
        """Start the server."""
        self._argv = self.command(session, self.options(session.policy), server=True)
        session.serve(self._argv, self.limit_s(session.policy) + self.margin_s)

    def client(self, session: ToolSession) -> Reading:
        """Send, and read the client's table."""
        self._argv = self.command(session, self.options(session.policy), server=False)
        done = session.run(self._argv, self.limit_s(session.policy), connection=True)
        reading = self._reading(session, done)
        return reading._replace(
            window_s=window_s(done, session.policy), sending_s=sending_s(done, session.policy)
        )

    def close(self, session: ToolSession) -> Reading:
        """Read the server's table once it has ended."""
        return self._reading(session, session.served(leave_s(session)))

    def claim(self, client: Claim | None, server: Claim | None) -> Claim | None:
        """Return the client's claim; with `bi` each end's for what it sent."""
        if not self._bi or client is None or server is None:
            return client
        return client._replace(back_at_least=server.at_least, back_at_most=server.at_most)

    def doubt(self, reading: Reading, claim: Claim | None, policy: Mapping[str, Any]) -> str | None:
        """Return how a bandwidth contradicts the iterations of its table, or None."""
        claimed_gbps = reading.metrics.get("bandwidth_gbps")
        count = claim if self._bi else reading.claim
        if claimed_gbps is None or count is None:
            return None
        moved_gbit = (count.at_least + count.back_at_least) * 8 / 1e9
        seconds = measured_s(policy)
        most = moved_gbit / seconds * (1 + _CLAIM_SLACK) + _HALF_DIGIT_GBPS
        least = moved_gbit / (seconds + _LATE_S) * (1 - _CLAIM_SLACK) - _HALF_DIGIT_GBPS
        if not least <= claimed_gbps <= most:
            return (
                f"{self.name} claims {claimed_gbps:g} Gbit/s, but its iterations are {moved_gbit:g} Gbit in "
                f"{seconds:g} s"
            )
        rate_mpps = reading.metrics["message_rate_mpps"]
        by_rate_gbps = rate_mpps * float(policy["rdma_message_bytes"]) * 8 / 1e3
        open_gbps = _HALF_DIGIT_GBPS + _HALF_DIGIT_MPPS * float(policy["rdma_message_bytes"]) * 8 / 1e3
        if abs(by_rate_gbps - claimed_gbps) > 0.01 * claimed_gbps + open_gbps:
            return f"{self.name} claims {claimed_gbps:g} Gbit/s and {rate_mpps:g} million messages a second"
        return None

    def _reading(self, session: ToolSession, done: Finished) -> Reading:
        policy = session.policy
        output = self.read(session, done, {"bidirectional": self._bi, "qps": policy["rdma_qps"]})
        extra = self.port_fields(session, output, self._argv)
        size = int(policy["rdma_message_bytes"])
        if not output["rows"]:
            return Reading({}, None, None, size, extra)
        row = output["rows"][0]
        if row["message_bytes"] != size:
            raise self.mismatch(session, "message_bytes", row["message_bytes"], size)
        metrics = {
            "bandwidth_gbps": row["bandwidth_average_gbps"],
            "message_rate_mpps": row["message_rate_mpps"],
        }
        extra["iterations"] = row["iterations"]
        if self._bi:
            extra["bandwidth_is"] = "sum_of_both"
        claim = self._claim(policy, row["iterations"], output["mtu_bytes"])
        return Reading(metrics, claim, None, size, extra)

    def _claim(self, policy: Mapping[str, Any], iterations: int, packet_bytes: int) -> Claim:
        size, queued = int(policy["rdma_message_bytes"]), _TX_DEPTH * int(policy["rdma_qps"])
        sent = iterations * float(policy["rdma_duration_s"]) / measured_s(policy) + queued
        on_the_wire = sent * (size + math.ceil(size / packet_bytes) * RDMA_HEADER_BYTES)
        payload = float(iterations * size)
        if self._read:
            return Claim("bytes", 0.0, 0.0, payload, on_the_wire, packet_bytes)
        return Claim("bytes", payload, on_the_wire, packet_bytes=packet_bytes)


def measured_s(policy: Mapping[str, Any]) -> float:
    """Return the length of perftest's window in seconds."""
    return float(policy["rdma_duration_s"]) - 2.0 * float(policy["rdma_margin_s"])


def window_s(done: Finished, policy: Mapping[str, Any]) -> list[float]:
    """Return the estimated window, in seconds after the test's start.

    perftest does not print it. It sends for the duration at some time between its connection and its end; the
    rest is its start and end. Assuming half of the rest before the first margin is wrong by less than the
    margin, so there is traffic in all of the window.
    """
    begun_s, left_s = _time_left(done, policy)
    begin_s = begun_s + left_s / 2 + float(policy["rdma_margin_s"])
    return [round(begin_s, 4), round(begin_s + measured_s(policy), 4)]


def sending_s(done: Finished, policy: Mapping[str, Any]) -> list[float]:
    """Return the latest begin and the earliest end of sending.

    Where its start and end took longer than the duration the second comes before the first.
    """
    begun_s, left_s = _time_left(done, policy)
    return [round(begun_s + left_s, 4), round(begun_s + float(policy["rdma_duration_s"]), 4)]


def sending_seen_s(
    bounds_s: list[float], claim: Claim | None, samples: Mapping[str, list[float]], policy: Mapping[str, Any]
) -> list[float]:
    """Narrow `sending_s` down with the counters of a driver that counts immediately.

    An emulated node takes seconds to start and end perftest, and then the interval is too short to add up
    rails. The counter shows the begin of the data: at the first sample with at least half of the claimed rate
    perftest was sending, and two samples before it was not yet. It sends for the duration.
    """
    rate = claim.at_least / measured_s(policy) / 2 if claim is not None else 0.0
    times, sent = samples["t_s"], samples["tx_bytes"]
    for index in range(1, len(times)):
        if rate > 0 and sent[index] - sent[index - 1] >= rate * (times[index] - times[index - 1]):
            end_s = times[max(index - 2, 0)] + float(policy["rdma_duration_s"])
            return [min(bounds_s[0], times[index]), max(bounds_s[1], round(end_s, 4))]
    return bounds_s


def _time_left(done: Finished, policy: Mapping[str, Any]) -> tuple[float, float]:
    """Return when it connected, and the seconds until its end in which it did not send."""
    begun_s = done.connected_s
    return begun_s, max(done.ended_s - begun_s - float(policy["rdma_duration_s"]), 0.0)
