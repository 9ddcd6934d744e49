# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure TCP latency with sockperf ping-pong: one-way latency as half of the round trip."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..channel.errors import MeasurementError
from ..parsers import capture, sockperf
from . import base
from .base import Reading, Tool, ToolSession, parse_output, tool_failed
from .proof import Claim

# "issue: 2890836 support IPv6" in its history, first released in 3.8; 3.7 ends with "Invalid address".
_IPV6_SINCE = (3, 8)
_SENT = re.compile(r"\[Total Run\].*?SentMessages=(\d+)")
#: (metric of a row, field of the parser)
FIELDS = (
    ("latency_average_us", "average_us"),
    ("latency_p50_us", "p50_us"),
    ("latency_p99_us", "p99_us"),
    ("latency_p999_us", "p999_us"),
    ("latency_min_us", "min_us"),
    ("latency_max_us", "max_us"),
    ("observations", "observations"),
)


class Sockperf(Tool):
    """TCP latency of small messages."""

    name = "sockperf"
    package = "sockperf"
    # sockperf 3.7 takes 2.2 s beyond -t to calibrate its clock and to sort its observations.
    margin_s = 20.0

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test."""
        return float(policy["sockperf_duration_s"])

    def refuses(self, address: str, version: str | None, host: str) -> MeasurementError | None:
        """Return the error of a sockperf without IPv6 on an IPv6 rail, or None."""
        known = base.parse_version(version)
        if ":" not in address or known is None or known >= _IPV6_SINCE:
            return None
        since = ".".join(map(str, _IPV6_SINCE))
        return MeasurementError(
            "tool_too_old",
            f"sockperf {version} on {host} does not support IPv6 (the rail has {address}); {since} does",
            host,
            f"install sockperf {since} or newer on all nodes, or give the rail an IPv4 subnet too",
        )

    def server_argv(self, session: ToolSession) -> list[str]:
        """Return the server's command line; it serves until it is stopped."""
        return ["sockperf", "sr", "--tcp", "-i", session.own.address, "-p", str(session.port)]

    def client_argv(self, session: ToolSession) -> list[str]:
        """Return the client's command line."""
        argv = ["sockperf", "pp", "--tcp", "-i", session.peer_address, "-p", str(session.port)]
        argv += ["--client_ip", session.own.address]
        argv += ["-m", str(session.policy["sockperf_message_bytes"])]
        return [*argv, "-t", str(session.policy["sockperf_duration_s"])]

    def open(self, session: ToolSession) -> None:
        """Start the server."""
        session.serve(self.server_argv(session), self.limit_s(session.policy) + self.margin_s)

    def client(self, session: ToolSession) -> Reading:
        """Exchange messages and read the table; sockperf always exits with 0."""
        done = session.run(self.client_argv(session), self.limit_s(session.policy))
        output = parse_output(session, "sockperf", done.text, lambda text: capture.read(sockperf.parse, text))
        if (metric := output.get("metric")) not in (None, "one_way"):
            raise tool_failed(session, "sockperf", f"it reported {metric}, not one-way latency")
        metrics = {name: output.get(field) for name, field in FIELDS}
        observations = float(metrics["observations"] or 0)
        claim = Claim("packets", observations, float(sent_messages(done.text) or observations))
        size_bytes = int(session.policy["sockperf_message_bytes"])
        return Reading(metrics, claim, done.window_s, size_bytes, {"latency_is": "one_way"})

    def close(self, session: ToolSession) -> Reading:
        """Stop the server; only the client's table counts."""
        session.served(patience_s=0.0)
        return Reading(
            {}, None, None, int(session.policy["sockperf_message_bytes"]), {"latency_is": "one_way"}
        )


def sent_messages(text: str) -> int | None:
    """Return the number of messages sent, including warm-up: at least as many packets crossed the rail."""
    found = _SENT.search(text)
    return int(found.group(1)) if found else None
