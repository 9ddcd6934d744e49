# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Do the rail's counters bear a row's numbers out, and are they no other test's? Pure, from rows alone.

The bounds are drawn by the same `prove` as on the node. Its claim is made here of what was asked and
measured, never of the claim that a row brings along: that one is as good as the row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV, Traffic
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import ENDS_TOLERANCE
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow, Spans
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    PATH_MTU,
    TCP_BANDWIDTH,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    Policy,
    is_pair,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import overlaps
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.overlaps import Source
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.formulas import Numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import (
    attempt_of,
    numbers_of,
    window_s,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: An attempt at a test at one end: (test id, client or server, attempt).
Turn = tuple[str, str, int]
#: Begin and end of a counter, and whose.
Span = tuple[int, int, Turn]
_OF_NETDEV = ("tx_", "rx_")
_ABSENT = (None, None)
#: What the two ends count within their own windows of one transfer may differ by.
_WINDOWS_APART = 0.10
#: How many times what must have crossed a rail may have crossed it: what a tool leaves out at its begin and
#: end, sockperf most of all, and what is counted beside it. And the seconds around a window.
MORE, AROUND_S = 20.0, 120.0
#: The upper bounds were drawn on the node: they need what it knew of the idle traffic.
_ANY_MORE = proof.Allowance(math.inf, 1.0)


def counted(driver: Traffic, has_netdev: bool) -> tuple[str, ...]:
    """Return which counters a row must bring: its port's driver's, and its netdev's where it has one."""
    own = NETDEV.bytes + NETDEV.packets if has_netdev else ()
    return tuple(dict.fromkeys(own + driver.bytes + driver.packets))


def crossed_otherwise(row: PairRow, client: PairRow, policy: Policy, driver: Traffic) -> str | None:
    """Tell in what a row's counters contradict the numbers of the client's row, or None.

    Far more than the numbers and an idle rail explain must not have crossed this rail, or another one. The
    node has drawn that bound close, by what it knew of the test's time and of other traffic.
    """
    begin, last = window_s(client) or (0.0, 0.0)
    iterations = client.get("iterations"), row.get("iterations")
    measured = Measured(numbers_of(client), *iterations, last - begin, row["active_mtu_bytes"])
    end, claims = least_claims(row["check"], row["end"], measured, policy)
    if not claims:
        return "nothing says what must have crossed the rail for its numbers to be true"
    window, spans = window_s(row), row["counters"] or {}
    idle = float(row.get("idle_bytes_per_s", policy["idle_bytes_per_s"]))
    allowance = proof.Allowance(idle, (window[1] if window else 0.0) + AROUND_S)
    for claim in claims:
        # That a packet went each way says nothing of how many went.
        bounded = claim.unit == "bytes" or claim.at_least > 1
        most = (row["other_rails"] or {}, allowance) if bounded else ({}, _ANY_MORE)
        if reason := proof.prove(loosened(claim) if bounded else claim, end, spans, *most, driver)[1]:
            return reason
    return None


def counter_deltas(
    counters: Spans | None, names: Sequence[str] = NETDEV.bytes + NETDEV.packets
) -> dict[str, int] | None:
    """Return what each counter rose by, or None when one is missing, garbled, full or went backwards."""
    deltas = {}
    for name in names:
        before, after = (counters or {}).get(name, _ABSENT)
        if before is None or after is None or not formulas.grew(before, after):
            return None
        deltas[name] = after - before
    return deltas


class Measured(NamedTuple):
    """What was measured of what crossed a rail in a test: numbers, or a column of each for many tests.

    Attributes:
        metrics: the client's.
        iterations, own_iterations: of RDMA bandwidth, the client's and those of the row that is looked at.
        lasted_s: the client's window.
        mtu_bytes: RDMA's, of the row that is looked at.
    """

    metrics: Mapping[str, Numbers]
    iterations: Numbers
    own_iterations: Numbers
    lasted_s: Numbers
    mtu_bytes: Numbers


def least_claims(check: str, end: str, measured: Measured, policy: Policy) -> tuple[str, list[Claim]]:
    """Return what must have crossed the rail for the client's numbers to be true, as seen from which end."""
    metrics = measured.metrics
    if formulas.is_rdma_bandwidth(check):
        return _least_rdma_bytes(check, end, measured, policy)
    if check in TCP_BANDWIDTH:
        lasted_s = formulas.larger(float(policy["iperf3_duration_s"]), measured.lasted_s)
        per_gbps = 1e9 / 8 * lasted_s * (1 - ENDS_TOLERANCE)
        bi = check in BI
        forward = metrics["forward_gbps" if bi else "bandwidth_gbps"] * per_gbps
        back = metrics["reverse_gbps"] * per_gbps if bi else 0.0
        return end, [Claim("bytes", forward, forward, back, back), Claim("packets", 1, 1)]
    if check in PATH_MTU:
        # At least one whole packet went this way, and for ping came back.
        size, arrived = metrics["path_mtu_bytes"], metrics["received"]
        there_and_back = check == "path_mtu"
        back, unit = (size, "packets") if there_and_back else (0, "packets_forward")
        return end, [Claim("bytes", size, size, back, back), Claim(unit, arrived, arrived)]
    if check == "ping_rtt":
        count = int(policy["ping_count"]) * (100 - metrics["loss_percent"]) / 100
    elif CHECKS[check].counts:
        count = metrics[CHECKS[check].counts]
    else:
        return end, []
    return end, [Claim("packets", count, count)]


def _least_rdma_bytes(check: str, end: str, measured: Measured, policy: Policy) -> tuple[str, list[Claim]]:
    size, mtu = int(policy["rdma_message_bytes"]), measured.mtu_bytes
    if check in BI:
        # Of both directions each end vouches for what it sent itself; the rest of the sum came in.
        sent = measured.own_iterations * size
        both = measured.metrics["bandwidth_gbps"] * 1e9 / 8 * measured_s(policy)
        came = max(both * (1 - _WINDOWS_APART) - sent, 1.0)
        return "client", [Claim("bytes", sent, sent, came, came, mtu)]
    sent = measured.iterations * size
    sender = "server" if check == "rdma_read_bandwidth" else "client"
    return "client" if end == sender else "server", [Claim("bytes", sent, sent, packet_bytes=mtu)]


def loosened(claim: Claim) -> Claim:
    """Return a claim that explains as much more as a test may carry beside what must have crossed."""
    return claim._replace(at_most=MORE * claim.at_least, back_at_most=MORE * claim.back_at_least)


class Claims:
    """Which tests' counters overlap.

    A node runs one test after the other on a rail, and all its rows hold the rail's counters from before and
    after. So the spans of one counter follow each other; where two of them share a part, the same traffic
    would prove two tests, and it proves neither.

    Args:
        run: the run id; rows of other runs claim nothing.
        asked: the asked lines.
        rows: id -> its rows.
    """

    def __init__(self, run: str, asked: AskedLines, rows: RowsByTest) -> None:
        spans: dict[Source, list[Span]] = {}
        self._rails: dict[object, set[str]] = {}
        for identity, mine in rows.others.items():
            test = asked.by_id(identity)
            if test is None or CHECKS[test["check"]].source != "test":
                continue
            for row in mine:
                host = test["node"] if row.get("end") == "client" else test["peer"]
                if row.get("run") == run and row.get("host") == host and row.get("proof") == "proven":
                    _add(spans, row)
                    self._rails.setdefault(host, set()).add(str(test["rail"]))
        for host, rail in rows.proven_rails():
            self._rails.setdefault(host, set()).add(rail)
        for row in list(overlaps.suspected(rows.proven(), _source, spans)):
            _add(spans, row)
        #: Whose counters are in part another test's, and in what.
        self.shared: dict[Turn, str] = {}
        # Of several counters the same one is named, in whatever order rows came in.
        for (*_whose, name), found in sorted(spans.items()):
            self._sweep(name, sorted(found))

    def shared_by(self, row: Row) -> str | None:
        """Tell in what a row's counters are those of another test too, or None."""
        return self.shared.get(_turn(row))

    def not_idle(self, row: PairRow) -> str:
        """Return a measured rail of the row's node that the row does not show beside its own, or nothing."""
        shown = {row["rail"], *(row["other_rails"] or ())}
        return min(self._rails.get(row["host"], set()) - shown, default="")

    def _sweep(self, name: str, spans: Sequence[Span]) -> None:
        """Note who overlaps; of those before, the one that reaches the furthest is enough to ask."""
        furthest = spans[0]
        for one in spans[1:]:
            if one[0] < furthest[1]:
                self._note(name, one, furthest)
                self._note(name, furthest, one)
            if one[1] > furthest[1]:
                furthest = one

    def _note(self, name: str, one: Span, other: Span) -> None:
        seen = f"{name} from {one[0]} to {one[1]}"
        said = f"its {seen} is in part that of test {other[2][0]}, {other[0]} to {other[1]}"
        self.shared.setdefault(one[2], said)


def _turn(row: Row) -> Turn:
    return str(row["id"]), str(row.get("end")), attempt_of(row)


def _add(spans: dict[Source, list[Span]], row: Row) -> None:
    counters, turn = row.get("counters"), _turn(row)
    for name, span in counters.items() if isinstance(counters, Mapping) else ():
        if is_pair(span) and span[0] < span[1]:
            spans.setdefault(_source(row, str(name)), []).append((span[0], span[1], turn))


def _source(row: Row, name: str) -> Source:
    """Return whose counter it is: two rails on one netdev or one port count the same bytes."""
    return str(row.get("host")), str(row.get("netdev" if name.startswith(_OF_NETDEV) else "hca")), name
