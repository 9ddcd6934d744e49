# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare RDMA with TCP over the same rail: bandwidth, latency, host CPU. Pure.

Only comparable numbers are compared: both medians, both one way, of one message size and one data direction.
A number counts when both nodes proved it and the link can carry it; every other one is null, never 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Divided, divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Verdict

Row = dict[str, Any]
Place = tuple[str, str, "str | None", str]
Found = dict[str, Mapping[str, Any]]
#: Transport -> its check, of bandwidth or of latency.
Checks = Mapping[str, "str | None"]

#: RDMA is represented by the first of these that the run planned for any pair: one table holds one tool.
#: RDMA read is left out on purpose: its data goes from the peer to the node, and its latency is a round trip.
RDMA_BANDWIDTH = ("rdma_bandwidth", "rdma_send_bandwidth")
RDMA_LATENCY = ("rdma_latency", "rdma_send_latency")
TCP_LATENCY = "tcp_latency"
CONCURRENT, RDMA_SUM = ("tcp_bandwidth_concurrent", "rdma_bandwidth_concurrent"), "rdma_aggregate_bandwidth"
_CPU = {"cpu_percent": "node_cpu_percent", "peer_cpu_percent": "peer_node_cpu_percent"}
#: All processors of a node at work all the time.
_ALL_PERCENT = 100
#: perftest calls the median `typical`; sockperf's is its 50th percentile.
LATENCY_METRIC = "latency_p50_us"
TRANSPORTS = ("tcp", "rdma")
#: An outcome that holds a number, when the number is proven.
_WITH_NUMBER = (catalogue.PASS, catalogue.FAIL, catalogue.RECORDED)
#: The cause of a number that no link of this rate can carry: it is wrong, whatever the counters say.
_IMPOSSIBLE = "above_ceiling"


@dataclass(frozen=True)
class Compared:
    """The comparison of RDMA with TCP in one run.

    Attributes:
        rows: as `compare` returns them; empty where RDMA was not planned.
        sentence: the result in one sentence; empty where RDMA was not planned.
        bandwidth_of: how the two bandwidths were measured, as text.
        latency_of: how the two latencies were measured, as text.
    """

    rows: tuple[Row, ...]
    sentence: str
    bandwidth_of: str
    latency_of: str


def compare_run(
    plan: Plan,
    verdicts: Sequence[Verdict] | Divided,
    facts: Iterable[Mapping[str, Any]] = (),
    policy: Policy | None = None,
) -> Compared:
    """Compare RDMA with TCP and describe the result.

    Args:
        plan: plan.json.
        verdicts: the run's verdicts.
        facts: the facts rows, which distinguish software RDMA from hardware.
        policy: the merged policy, which names message sizes and streams.
    """
    verdicts = _select(verdicts)
    rows = compare(plan, verdicts)
    rules = policy or {}
    asked = {str(one["check"]) for one in verdicts}
    return Compared(
        tuple(rows),
        sentence(rows, rdma_class(plan, facts), str(plan.get("node_class") or "")) if rows else "",
        _bandwidth_of(asked, verdicts, rules),
        _latency_of(asked, verdicts, rules),
    )


def _select(verdicts: Sequence[Verdict] | Divided) -> Sequence[Verdict]:
    """Return the verdicts that are compared or described; of many passes only those beside a sum of rails."""
    single, passes = divided = divide(verdicts)
    planned = {one["check"] for one in divided.examples}
    beside = [
        one for one in passes if {RDMA_SUM, CONCURRENT[0]} <= planned and one.first["check"] in CONCURRENT
    ]
    return [*single, *(group.source[place] for group in beside for place in group.places.tolist())]


def compare(plan: Plan, verdicts: Sequence[Verdict]) -> list[Row]:
    """Compare RDMA with TCP over every rail of every pair for which both were planned.

    Args:
        plan: plan.json; efficiency is calculated from its declared rates.
        verdicts: the run's verdicts.

    Returns:
        A row for each pair and rail: `direction` `uni` for each sender, `bi` once for both ways at once
        (the sum), and `rail` null for all rails at once. Keys: `node`, `peer`, `rail`, `direction`;
        `bandwidth_gbps`, `latency_us` (median, one way), `cpu_percent` and `peer_cpu_percent` (share of all
        the node's processors during the bandwidth test, at sender and receiver), `efficiency` (bandwidth
        by rate, 1 = the declared rate), each `{"tcp", "rdma"}` with null for what is not measured, proven
        and possible;
        `rate_gbps` (declared, of the slower end; twice it for both ways, the sum for all rails; or null);
        `bandwidth_ratio` and `latency_ratio`, each above 1 where RDMA is better, or null; `asked`
        (`bandwidth` and `latency` -> the transports with a planned test).
    """
    asked = {str(one["check"]) for one in verdicts}
    write, ping_pong = _first(RDMA_BANDWIDTH, asked), _first(RDMA_LATENCY, asked)
    rows = []
    places = _by_place(verdicts)
    rates = declared_rates(plan)
    together: dict[tuple[str, str], dict[str, Found]] = {}
    for (node, peer, rail, _way), found in places.items():
        if rail is not None and CONCURRENT[0] in found:
            together.setdefault((node, peer), {})[rail] = found
    for place, found in places.items():
        node, peer, rail, direction = place
        bandwidth, latency = _checks(rail, direction, write, ping_pong)
        if not any(group.get("rdma") in found for group in (bandwidth, latency)):
            continue
        parts = together.get((node, peer), {}) if rail is None else {}
        rate = rate_between(rates, node, peer, list(parts) if rail is None else [rail])
        row = _row(place, found, bandwidth, latency, 2 * rate if rate and direction == "bi" else rate)
        if rail is None:
            row.update(_mean_cpu(list(parts.values())))
        rows.append(row)
    pairs: dict[tuple[str, ...], int] = {}
    for row in rows:
        pairs.setdefault(tuple(sorted((row["node"], row["peer"]))), len(pairs))
    return sorted(
        rows,
        key=lambda row: (
            pairs[tuple(sorted((row["node"], row["peer"])))],
            row["rail"] is None,
            row["direction"] == "bi",
        ),
    )


def rdma_class(plan: Plan, facts: Iterable[Mapping[str, Any]]) -> str | None:
    """Return how the plan's rails do RDMA: `software`, `hardware`, `mixed`, or None when not known."""
    by_node = {str(row.get("node")): row for row in facts}
    found = set()
    for name, node in plan["nodes"].items():
        if name in by_node:
            bound = bind.bind(node["rails"], by_node[name]).values()
            found |= {str(one.hca.get("driver_class")) for one in bound if one.hca is not None}
    found &= {"software", "hardware"}
    return ("mixed" if len(found) > 1 else found.pop()) if found else None


def sentence(rows: Sequence[Row], made_of: str | None = None, node_class: str = "") -> str:
    """Return one sentence that compares RDMA with TCP and names its limits.

    Args:
        rows: as `compare` returns them.
        made_of: as `rdma_class` returns it.
        node_class: the plan's.
    """
    known = []
    for ratio, what in (("bandwidth_ratio", "bandwidth"), ("latency_ratio", "latency")):
        # One way over one rail: sums of rails and of directions say the same again.
        ratios = [row[ratio] for row in rows if row["rail"] and row["direction"] == "uni" and row[ratio]]
        if ratios:
            known.append((what, ratios))
    if not known:
        return (
            "RDMA was planned, but cannot be compared with TCP: no rail has a number of both that is "
            "measured and proven; the verdicts give the reasons."
        )
    text = " and ".join(
        f"{_over(ratios)} than TCP in {what}" if not number else f"{_over(ratios)} in {what}"
        for number, (what, ratios) in enumerate(known)
    )
    places = max(len(ratios) for _what, ratios in known)
    text = f"RDMA is {text}"
    text += f" (median of {places} directions of rails)" if places > 1 else ""
    if made_of in ("software", "mixed"):
        kind = "software RDMA" if made_of == "software" else "software RDMA in part"
        where = " in emulated or virtual machines" if node_class == "virtual" else ""
        text += f": this is {kind}{where}, so it does not predict hardware"
    missing = _missing(rows)
    if missing:
        count = sum("rdma" in asked for row in rows for asked in row["asked"].values())
        text += f"; {missing} of RDMA's {count} numbers are not measured, not proven or not possible"
    return text + "."


def times(ratio: float) -> str:
    """Describe a ratio: `1.39 times faster`, below 1 `41 times slower`, `as fast` where it is neither."""
    if 0.995 <= ratio < 1.005:
        return "as fast"
    return f"{three(ratio)} times faster" if ratio > 1 else f"{three(1 / ratio)} times slower"


def three(value: float) -> str:
    """Return a number with three significant digits, and never with an exponent."""
    if value == 0:
        return "0"
    return f"{value:.{min(max(2 - math.floor(math.log10(abs(value))), 0), 9)}f}"


def _over(ratios: Sequence[float]) -> str:
    middle = times(statistics.median(ratios))
    if min(ratios) < 0.995 and max(ratios) >= 1.005:
        # One number would hide that rails differ.
        return f"between {times(min(ratios))} and {times(max(ratios))}"
    return middle if middle != "as fast" else "no faster and no slower"


def _missing(rows: Iterable[Row]) -> int:
    return sum(
        "rdma" in row["asked"][what] and row[key]["rdma"] is None
        for row in rows
        for what, key in (("bandwidth", "bandwidth_gbps"), ("latency", "latency_us"))
    )


def _by_place(verdicts: Iterable[Verdict]) -> dict[Place, Found]:
    """Return (node, peer, rail, direction) -> check -> its verdict: the first that is proven, if any."""
    places: dict[Place, Found] = {}
    for one in verdicts:
        if one.get("peer") is None:
            continue
        rail = None if one.get("rail") is None else str(one["rail"])
        key = (str(one["node"]), str(one["peer"]), rail, str(one["direction"]))
        found = places.setdefault(key, {})
        check = str(one["check"])
        if check not in found or (_proven(one) and not _proven(found[check])):
            found[check] = one
    return places


def _checks(
    rail: str | None, direction: str, write: str | None, ping_pong: str | None
) -> tuple[Checks, Checks]:
    """Return the checks of bandwidth and of latency that are compared, by transport."""
    if rail is None:
        return {"tcp": "aggregate_bandwidth", "rdma": RDMA_SUM}, {}
    if direction == "bi":
        return {"tcp": "tcp_bandwidth_bi", "rdma": "rdma_bandwidth_bi"}, {}
    return {"tcp": "tcp_bandwidth", "rdma": write}, {"tcp": TCP_LATENCY, "rdma": ping_pong}


def _row(place: Place, found: Found, bandwidth: Checks, latency: Checks, rate_gbps: float | None) -> Row:
    gbps = {name: _number(found, bandwidth.get(name), "bandwidth_gbps") for name in TRANSPORTS}
    micros = {name: _number(found, latency.get(name), LATENCY_METRIC) for name in TRANSPORTS}
    node, peer, rail, direction = place
    return {
        "node": node,
        "peer": peer,
        "rail": rail,
        "direction": direction,
        "bandwidth_gbps": gbps,
        "bandwidth_ratio": _ratio(gbps["rdma"], gbps["tcp"]),
        "latency_us": micros,
        "latency_ratio": _ratio(micros["tcp"], micros["rdma"]),
        **{
            key: {name: _number(found, bandwidth.get(name), metric, idle=True) for name in TRANSPORTS}
            for key, metric in _CPU.items()
        },
        "rate_gbps": rate_gbps,
        "efficiency": {name: _ratio(gbps[name], rate_gbps) for name in TRANSPORTS},
        "asked": {
            what: [name for name, check in group.items() if check is not None and check in found]
            for what, group in (("bandwidth", bandwidth), ("latency", latency))
        },
    }


def _mean_cpu(parts: Sequence[Found]) -> dict[str, dict[str, float | None]]:
    """Return the mean CPU share while all rails ran at once: each test saw the same node."""
    mean: dict[str, dict[str, float | None]] = {}
    for key, metric in _CPU.items():
        for name, check in zip(TRANSPORTS, CONCURRENT, strict=True):
            seen = [_number(found, check, metric, idle=True) for found in parts]
            known = [value for value in seen if value is not None]
            mean.setdefault(key, {})[name] = statistics.fmean(known) if known else None
    return mean


def _number(found: Found, check: str | None, metric: str, idle: bool = False) -> float | None:
    """Return a proven number above 0, or None; `idle`: a share in percent, of which 0 is one too."""
    one = found.get(str(check))
    return None if one is None else trusted(one, metric, idle)


def metric(check: str) -> str | None:
    """Return the metric by which a check is compared from run to run; None where it has no such number."""
    known = catalogue.CHECKS.get(check)
    names = {*known.client, *known.bounded} if known else set()
    return next((name for name in outliers.METRICS if name in names), None)


def trusted(one: Mapping[str, Any], metric: str, idle: bool = False) -> float | None:
    """Return a verdict's number where it is proven, possible and above 0, or None; `idle` as in `_number`."""
    value: Any = (one.get("observed") or {}).get(metric)
    if not _proven(one) or not is_number(value) or (idle and value > _ALL_PERCENT):
        return None
    return float(value) if value > 0 or (idle and value == 0) else None


def _proven(one: Mapping[str, Any]) -> bool:
    possible = one.get("cause_class") != _IMPOSSIBLE
    return possible and one.get("outcome") in _WITH_NUMBER and one.get("proof") == "proven"


def _ratio(over: float | None, under: float | None) -> float | None:
    return over / under if over is not None and under else None


def _first(names: Sequence[str], asked: set[str]) -> str | None:
    return next((name for name in names if name in asked), None)


def declared_rates(plan: Plan) -> dict[tuple[str, str], float | None]:
    """Return the rate in Gbit/s that the inventory declares of each node's rails."""
    return {
        (str(name), str(rail["name"])): float(rate) if is_number(rate) and rate else None
        for name, node in plan["nodes"].items()
        for rail in node["rails"]
        for rate in [rail.get("rate_gbps")]
    }


def rate_between(
    rates: Mapping[tuple[str, str], float | None], node: str, peer: str, rails: Sequence[str]
) -> float | None:
    """Return the declared rate of these rails, of each the slower end's; None unless all is declared."""
    ends = [(rates.get((node, rail)), rates.get((peer, rail))) for rail in rails]
    known = [min(one, other) for one, other in ends if one is not None and other is not None]
    return (sum(known) or None) if len(known) == len(rails) else None


def _bandwidth_of(asked: set[str], verdicts: Iterable[Verdict], policy: Policy) -> str:
    tool = _tool(verdicts, _first(RDMA_BANDWIDTH, asked)) or "perftest"
    streams, size, qps = (policy.get(key) for key in ("iperf3_streams", "rdma_message_bytes", "rdma_qps"))
    tcp = "iperf3" + (f", {streams} stream{'' if streams == 1 else 's'}" if streams else "")
    rdma = (
        tool
        + (f", {size}-byte messages" if size else "")
        + (f", {qps} QP{'' if qps == 1 else 's'}" if qps else "")
    )
    # The judge adds up TCP's frames, which its counters show; RDMA's payload, since rxe retransmits.
    summed = "; all rails: TCP with its headers" if RDMA_SUM in asked else ""
    return f"TCP: {tcp}; RDMA: {rdma}{summed}"


def _latency_of(asked: set[str], verdicts: Iterable[Verdict], policy: Policy) -> str:
    tool = _tool(verdicts, _first(RDMA_LATENCY, asked)) or "perftest"
    size = policy.get("sockperf_message_bytes")
    both = f", both of {size}-byte messages" if size else ""
    return f"median, one way{both}; TCP: sockperf; RDMA: {tool}"


def _tool(verdicts: Iterable[Verdict], check: str | None) -> str | None:
    return next((str(one["tool"]) for one in verdicts if one["check"] == check), None)
