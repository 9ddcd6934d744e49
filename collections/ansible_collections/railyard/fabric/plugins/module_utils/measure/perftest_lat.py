# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure RDMA latency with perftest: a short probe sets the iterations, so that no test takes long.

A write takes 1 us on a NIC and 24 ms on an emulated CPU: no number of iterations suits both. Each of the two
runs has a separate server; the client requests the second one from the server's end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .base import Finished, Reading, ToolSession
from .perftest import Perftest, leave_s
from .proof import Claim

PROBE = 20
LEAST, MOST = 20, 100000
LONGEST_S = 10.0
_MARGIN_S = 25.0
#: (metric of a row, field of the parser)
FIELDS = (
    ("latency_average_us", "average_us"),
    ("latency_p50_us", "typical_us"),
    ("latency_p99_us", "p99_us"),
    ("latency_p999_us", "p999_us"),
    ("latency_min_us", "min_us"),
    ("latency_max_us", "max_us"),
    ("observations", "iterations"),
)


class Latency(Perftest):
    """Latency of small messages: one-way for write and send, round-trip for read."""

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of probe and test, including their starts."""
        return 2 * (LONGEST_S + _MARGIN_S)

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return about how long the iterations take."""
        return float(policy["rdma_latency_s"])

    def options(self, policy: Mapping[str, Any], iterations: int) -> list[str]:
        """Return the options that must be equal on both ends."""
        return ["-s", str(policy["sockperf_message_bytes"]), "-n", str(iterations)]

    def open(self, session: ToolSession) -> None:
        """Start the probe's server."""
        self._serve(session, PROBE)

    def client(self, session: ToolSession) -> Reading:
        """Probe, request another server, measure."""
        probe = self._run(session, PROBE)
        trips = 1 if probe["latency_is"] == "round_trip" else 2
        iterations = choose_iterations(float(probe["rows"][0]["average_us"]) * trips, session.policy)
        session.port = int(session.ask({"iterations": iterations})["port"])
        output = self._run(session, iterations)
        done = self._done
        row = output["rows"][0]
        metrics = {name: row[field] for name, field in FIELDS}
        extra = {**self.port_fields(session, output, self._argv), "latency_is": output["latency_is"]}
        claim = Claim(
            "packets", float(iterations), float(iterations + PROBE), packet_bytes=output["mtu_bytes"]
        )
        window = [round(done.connected_s, 4), round(done.ended_s, 4)]
        return Reading(metrics, claim, window, row["message_bytes"], extra)

    def answer(self, session: ToolSession, question: Mapping[str, Any]) -> dict[str, Any]:
        """Read the probe's server to its end and start the test's."""
        iterations = question.get("iterations")
        if not isinstance(iterations, int) or not LEAST <= iterations <= MOST:
            raise session.own.error("internal", f"{iterations!r} iterations were requested", "report this")
        session.served(leave_s(session))
        self._serve(session, iterations)
        return {"port": session.port}

    def close(self, session: ToolSession) -> Reading:
        """Read the server's table; only the client's numbers count."""
        output = self.read(session, session.served(leave_s(session)), {})
        extra = {**self.port_fields(session, output, self._argv), "latency_is": output["latency_is"]}
        return Reading({}, None, None, int(session.policy["sockperf_message_bytes"]), extra)

    def _serve(self, session: ToolSession, iterations: int) -> None:
        self._argv = self.command(session, self.options(session.policy, iterations), server=True)
        session.serve(self._argv, 2 * self.limit_s(session.policy))

    def _run(self, session: ToolSession, iterations: int) -> dict[str, Any]:
        self._argv = self.command(session, self.options(session.policy, iterations), server=False)
        self._done: Finished = session.run(self._argv, LONGEST_S + _MARGIN_S, connection=True)
        output = self.read(session, self._done, {})
        if not output["rows"]:
            raise self.mismatch(session, "rows", 0, 1)
        row = output["rows"][0]
        for field, value in (
            ("iterations", iterations),
            ("message_bytes", int(session.policy["sockperf_message_bytes"])),
        ):
            if row[field] != value:
                raise self.mismatch(session, field, row[field], value)
        return output


def choose_iterations(iteration_us: float, policy: Mapping[str, Any]) -> int:
    """Return how many iterations take about `rdma_latency_s`, at most the longest test."""
    wanted_s = min(float(policy["rdma_latency_s"]), LONGEST_S)
    return max(LEAST, min(MOST, int(wanted_s * 1e6 / iteration_us))) if iteration_us > 0 else MOST
