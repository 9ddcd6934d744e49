# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find paths with more switches than planned, from their latencies. Pure.

A cut-through Ethernet switch adds 0.3 to 1 us, and cards, cables and slots of one rail add the same on every
node. So a node's latencies are compared with those of the other nodes on the same rail with as many planned
hops: a latency that is higher by the minimum of a hop indicates an additional hop. Medians are compared, and
only if the others differ by less than that. A node with higher latencies on all of its rails has a slow
processor, not another switch. For InfiniBand switches the minimum is not known: a latency far above the
others fails there too, but no latency passes.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL, PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

#: Minimum and maximum latency of a cut-through switch.
HOP_LEAST_US, HOP_MOST_US = figures.read_value("hop_least_us"), figures.read_value("hop_most_us")
#: Number of switches within one leaf, and between leaves (two leaves and a spine).
_SAME_LEAF, _OTHER_LEAF = 1, 3
#: Minimum number of other nodes' tests for a comparison.
_LEAST_OTHERS = 3


@dataclass(frozen=True)
class Sample:
    """One trusted latency test: nodes, rail, number of planned switches, latency."""

    identity: str
    rail: str
    nodes: tuple[str, str]
    hops: int | None
    rate_gbps: object
    latency_us: float
    hardware: bool
    link_layer: object


def select_tests(asked: Iterable[AskedLine]) -> list[AskedLine]:
    """Return the planned tests whose latency depends on hops."""
    return [line for line in asked if line["check"] == "rdma_latency"]


def make_sample(
    line: AskedLine, metrics: Mapping[str, Any], bound: Mapping[str, Mapping[str, Bound]]
) -> Sample:
    """Return a test's sample; `hops` is None if the inventory does not name both leaves."""
    ends = [bound[node][str(line["rail"])] for node in nodes_of(line)]
    hops = count_planned_hops(ends)
    return Sample(
        str(line["id"]),
        str(line["rail"]),
        (str(line["node"]), str(line["peer"])),
        hops,
        ends[0].rail.get("rate_gbps"),
        float(metrics["latency_p50_us"]),
        all((end.hca or {}).get("driver_class") == "hardware" for end in ends),
        (ends[0].hca or {}).get("link_layer"),
    )


def count_planned_hops(ends: Sequence[Bound]) -> int | None:
    """Return the number of planned switches between two ends, None if a leaf is not named."""
    leaves = [end.rail.get("leaf") for end in ends]
    return None if None in leaves else _SAME_LEAF if leaves[0] == leaves[1] else _OTHER_LEAF


def group_by_rail(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return rail -> its samples."""
    found: dict[str, list[Sample]] = {}
    for one in samples:
        found.setdefault(one.rail, []).append(one)
    return found


def judge(asked: AskedLine, samples: Mapping[str, Sequence[Sample]]) -> Answer:
    """Judge a hops test.

    Args:
        asked: the planned test: one node, one rail.
        samples: all trusted latency tests of the run, from `group_by_rail`.

    Returns:
        pass if less than the minimum of a hop above the others; fail above it, with the likely number of
        switches; recorded on software links, whose latency depends on the processor, on InfiniBand, and
        without enough other tests; unmeasured without a trusted latency.
    """
    node, rail = str(asked["node"]), str(asked["rail"])
    found = _judge_rail(node, rail, samples.get(rail, ()))
    if found.outcome != FAIL:
        return found
    others = [name for name, its in samples.items() if name != rail and any(node in one.nodes for one in its)]
    high = [_judge_rail(node, other, samples[other]).outcome == FAIL for other in sorted(others)]
    if high and all(high):
        found.proof = "proven"
        return found.recorded(
            f"equally high on all rails of {node}, so its processor or slots are the reason, not a switch"
        )
    return found


def _judge_rail(node: str, rail: str, samples: Sequence[Sample]) -> Answer:
    where = f"{node} {rail}"
    mine = [one for one in samples if node in one.nodes and one.hops is not None]
    if not mine:
        return Answer.unmeasured("hops_unclear", f"{where}: none of its latency tests can be trusted")
    median = statistics.median(one.latency_us for one in mine)
    seen = Answer(RECORDED, {"latency_p50_us": median}, proof="proven", rows=_list_ids(mine))
    if not all(one.hardware for one in mine):
        return seen.recorded(
            "the latency of software RDMA depends on the processor, and hides that of a switch"
        )
    unclear = []
    verdicts = []
    for hops in sorted({one.hops for one in mine if one.hops is not None}):
        here = [one for one in mine if one.hops == hops]
        others = [
            one.latency_us
            for one in samples
            if one.hops == hops and one.hardware and node not in one.nodes
            and one.rate_gbps == here[0].rate_gbps
        ]  # fmt: skip
        if len(others) < _LEAST_OTHERS:
            unclear.append(f"{len(others)} other tests over {hops} hops")
            continue
        usual, mad = outliers.median_and_mad(others)
        if 3 * mad >= HOP_LEAST_US:
            unclear.append(f"the others over {hops} hops differ by {mad:.2f} us among themselves")
            continue
        verdicts.append(_compare(where, hops, usual, statistics.median(one.latency_us for one in here), here))
    bad = next((one for one in verdicts if one.outcome == FAIL), None)
    if bad is not None:
        return bad
    if not verdicts or unclear:
        return seen.recorded(f"no threshold: {'; '.join(unclear)}")
    return next((one for one in verdicts if one.outcome == RECORDED), verdicts[0])


def _compare(where: str, hops: int, usual_us: float, seen_us: float, mine: Sequence[Sample]) -> Answer:
    ceiling = usual_us + HOP_LEAST_US
    basis = (
        f"over {hops} planned hops the others have {usual_us:.2f} us, and one more hop adds at least "
        f"{HOP_LEAST_US:g} us"
    )
    answer = Answer(
        PASS, {"latency_p50_us": round(seen_us, 3)}, {"latency_p50_us": 0.0},
        {"latency_p50_us": round(ceiling, 3)}, basis, proof="proven", rows=_list_ids(mine),
    )  # fmt: skip
    if seen_us < ceiling:
        if mine[0].link_layer == "Ethernet":
            return answer
        return answer.recorded(
            f"less than {HOP_LEAST_US:g} us above the others' {usual_us:.2f} us over {hops} planned hops; "
            "only for Ethernet this rules out another switch"
        )
    excess = seen_us - usual_us
    least, most = max(1, math.ceil(excess / HOP_MOST_US)), math.floor(excess / HOP_LEAST_US + 1e-9)
    number = f"{least}" if least >= most else f"{least} to {most}"
    peers = sorted({name for one in mine for name in one.nodes} - {where.split(" ", maxsplit=1)[0]})
    detail = (
        f"{where}: {seen_us:.2f} us to {', '.join(peers[:4])}, {excess:.2f} above the others: {number} hops"
    )
    return answer.failed("more_hops", detail)


def _list_ids(samples: Sequence[Sample]) -> list[str]:
    return [one.identity for one in samples]
