# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the rail's counters confirm a row's results, and belong to no other test. Pure, from rows alone.

The limits are calculated by the same `prove` as on the node. The claim is derived from the planned test and
the results, never from the claim in the row, which is no more trustworthy than the row.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.spans import (
    Source,
    source_of,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.formulas import Numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import (
    read_attempt,
    read_metrics,
    read_window_s,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: One end's attempt at a test: (test id, client or server, attempt).
AttemptKey = tuple[str, str, int]
#: Begin and end of a counter, and the attempt that it belongs to.
Span = tuple[int, int, AttemptKey]
_ABSENT = (None, None)
#: Tolerance between what the two ends count of one transfer in their own windows.
_WINDOWS_APART = 0.10
#: Permitted ratio of counted to required traffic: tools, above all sockperf, exclude traffic at the begin and
#: the end, and other traffic is counted too. And the seconds around a window.
MORE, AROUND_S = 20.0, 120.0
#: The node applied the upper limits, which need its measurement of the idle traffic.
_ANY_MORE = proof.Allowance(math.inf, 1.0)


def list_required_counters(driver: Traffic, has_netdev: bool) -> tuple[str, ...]:
    """Return the counters that a row must have: its driver's, and its netdev's if it has one."""
    own = NETDEV.bytes + NETDEV.packets if has_netdev else ()
    return tuple(dict.fromkeys(own + driver.bytes + driver.packets))


def find_contradiction(row: PairRow, client: PairRow, policy: Policy, driver: Traffic) -> str | None:
    """Return how a row's counters contradict the results of the client's row, or None.

    Far more traffic than the results and an idle rail explain must not have crossed this rail, or another
    one. The node applied a tighter limit, with the exact time of the test and its measurement of other
    traffic.
    """
    begin, last = read_window_s(client) or (0.0, 0.0)
    iterations = client.get("iterations"), row.get("iterations")
    measured = Measured(read_metrics(client), *iterations, last - begin, row["active_mtu_bytes"])
    end, claims = list_least_claims(row["check"], row["end"], measured, policy)
    if not claims:
        return "the traffic that its results require on the rail is not known"
    window, spans = read_window_s(row), row["counters"] or {}
    idle = float(row.get("idle_bytes_per_s", policy["idle_bytes_per_s"]))
    allowance = proof.Allowance(idle, (window[1] if window else 0.0) + AROUND_S)
    for claim in claims:
        # That one packet went each way does not limit how many went.
        bounded = claim.unit == "bytes" or claim.at_least > 1
        most = (row["other_rails"] or {}, allowance) if bounded else ({}, _ANY_MORE)
        if reason := proof.prove(loosen_claim(claim) if bounded else claim, end, spans, *most, driver)[1]:
            return reason
    return None


def find_counter_deltas(
    counters: Spans | None, names: Sequence[str] = NETDEV.bytes + NETDEV.packets
) -> dict[str, int] | None:
    """Return the increase of each counter, or None if one is missing, garbled, full or decreased."""
    deltas = {}
    for name in names:
        before, after = (counters or {}).get(name, _ABSENT)
        if before is None or after is None or not formulas.has_grown(before, after):
            return None
        deltas[name] = after - before
    return deltas


class Measured(NamedTuple):
    """The results that determine the traffic on a rail: numbers, or a column of each for many tests.

    Attributes:
        metrics: the client's.
        iterations, own_iterations: for RDMA bandwidth, the client's and those of the checked row.
        lasted_s: the length of the client's window.
        mtu_bytes: the RDMA MTU of the checked row.
    """

    metrics: Mapping[str, Numbers]
    iterations: Numbers
    own_iterations: Numbers
    lasted_s: Numbers
    mtu_bytes: Numbers


def list_least_claims(check: str, end: str, measured: Measured, policy: Policy) -> tuple[str, list[Claim]]:
    """Return the minimum traffic that the client's results require, and the end that it is seen from."""
    metrics = measured.metrics
    if formulas.is_rdma_bandwidth(check):
        return _list_rdma_claims(check, end, measured, policy)
    if check in TCP_BANDWIDTH:
        lasted_s = formulas.take_larger(float(policy["iperf3_duration_s"]), measured.lasted_s)
        per_gbps = 1e9 / 8 * lasted_s * (1 - ENDS_TOLERANCE)
        bi = check in BI
        forward = metrics["forward_gbps" if bi else "bandwidth_gbps"] * per_gbps
        back = metrics["reverse_gbps"] * per_gbps if bi else 0.0
        return end, [Claim("bytes", forward, forward, back, back), Claim("packets", 1, 1)]
    if check in PATH_MTU:
        # At least one complete packet went this way, and for ping came back.
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


def _list_rdma_claims(check: str, end: str, measured: Measured, policy: Policy) -> tuple[str, list[Claim]]:
    size, mtu = int(policy["rdma_message_bytes"]), measured.mtu_bytes
    if check in BI:
        # Each end counts the messages that it sent itself; the rest of the sum arrived.
        sent = measured.own_iterations * size
        both = measured.metrics["bandwidth_gbps"] * 1e9 / 8 * measured_s(policy)
        came = max(both * (1 - _WINDOWS_APART) - sent, 1.0)
        return "client", [Claim("bytes", sent, sent, came, came, mtu)]
    sent = measured.iterations * size
    sender = "server" if check == "rdma_read_bandwidth" else "client"
    return "client" if end == sender else "server", [Claim("bytes", sent, sent, packet_bytes=mtu)]


def loosen_claim(claim: Claim) -> Claim:
    """Return a claim with the largest traffic that a test may have in addition."""
    return claim._replace(at_most=MORE * claim.at_least, back_at_most=MORE * claim.back_at_least)


class Claims:
    """Finds tests with overlapping counters.

    A node runs one test after the other on a rail, and each row has the rail's counters from before and
    after. So the spans of one counter follow each other. If two spans overlap, the same traffic would prove
    two tests, so neither is proven.

    Args:
        run: the run id; rows of other runs are ignored.
        asked: the planned tests.
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
                    _add_spans(spans, row)
                    self._rails.setdefault(host, set()).add(str(test["rail"]))
        for host, rail in rows.proven_rails():
            self._rails.setdefault(host, set()).add(rail)
        for row in list(overlaps.find_overlapping(rows.proven(), spans)):
            _add_spans(spans, row)
        #: Attempt -> how its counters overlap with another test's.
        self.shared: dict[AttemptKey, str] = {}
        # Sorted, so that the same counter is named whatever the order of the rows.
        for (*_whose, name), found in sorted(spans.items()):
            self._sweep(name, sorted(found))

    def find_overlap(self, row: Row) -> str | None:
        """Return how a row's counters overlap with another test's, or None."""
        return self.shared.get(_find_attempt_key(row))

    def find_unlisted_rail(self, row: PairRow) -> str:
        """Return a measured rail of the row's node whose counters the row does not have, or ""."""
        shown = {row["rail"], *(row["other_rails"] or ())}
        return min(self._rails.get(row["host"], set()) - shown, default="")

    def _sweep(self, name: str, spans: Sequence[Span]) -> None:
        """Note overlapping spans; of the earlier spans only the one that ends last matters."""
        furthest = spans[0]
        for one in spans[1:]:
            if one[0] < furthest[1]:
                self._note(name, one, furthest)
                self._note(name, furthest, one)
            if one[1] > furthest[1]:
                furthest = one

    def _note(self, name: str, one: Span, other: Span) -> None:
        seen = f"{name} from {one[0]} to {one[1]}"
        overlap = f"its {seen} overlaps with test {other[2][0]}, {other[0]} to {other[1]}"
        self.shared.setdefault(one[2], overlap)


def _find_attempt_key(row: Row) -> AttemptKey:
    return str(row["id"]), str(row.get("end")), read_attempt(row)


def _add_spans(spans: dict[Source, list[Span]], row: Row) -> None:
    counters, turn = row.get("counters"), _find_attempt_key(row)
    for name, span in counters.items() if isinstance(counters, Mapping) else ():
        if is_pair(span) and span[0] < span[1]:
            spans.setdefault(source_of(row, str(name)), []).append((span[0], span[1], turn))
