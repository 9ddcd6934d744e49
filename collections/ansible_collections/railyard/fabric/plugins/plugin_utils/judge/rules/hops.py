# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Are there more switches on the way than planned? Latencies against hops. Pure.

A cut-through Ethernet switch adds 0.3 to 1 us, and cards, cables and slots of one rail add the same on every
node. So a node's latencies are held against those of the other nodes on the same rail with as many planned
hops: what is above them by a hop's least is a hop too many. Medians are compared, and only where the others
agree among themselves to better than that. Who is as high on all of its rails has a slow processor, and no
switch too many. Of InfiniBand's switches no such least is known: what is far above the others is found there
as well, and what is not passes nothing.
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

#: What a cut-through switch adds to a packet's way, at least and at most.
HOP_LEAST_US, HOP_MOST_US = figures.read_value("hop_least_us"), figures.read_value("hop_most_us")
#: Within one leaf a packet passes one switch; between leaves two leaves and a spine.
_SAME_LEAF, _OTHER_LEAF = 1, 3
#: Fewer tests of others are no measure of what is usual.
_LEAST_OTHERS = 3


@dataclass(frozen=True)
class Sample:
    """One trusted latency test: who, over which rail, through how many planned switches, how long."""

    identity: str
    rail: str
    nodes: tuple[str, str]
    hops: int | None
    rate_gbps: object
    latency_us: float
    hardware: bool
    link_layer: object


def tests(asked: Iterable[AskedLine]) -> list[AskedLine]:
    """Return the asked lines whose latency tells of hops."""
    return [line for line in asked if line["check"] == "rdma_latency"]


def sample(line: AskedLine, metrics: Mapping[str, Any], bound: Mapping[str, Mapping[str, Bound]]) -> Sample:
    """Return a test's sample; `hops` is None where the inventory does not name both leaves."""
    ends = [bound[node][str(line["rail"])] for node in nodes_of(line)]
    hops = planned(ends)
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


def planned(ends: Sequence[Bound]) -> int | None:
    """Return how many switches are planned between two ends, None where a leaf is not named."""
    leaves = [end.rail.get("leaf") for end in ends]
    return None if None in leaves else _SAME_LEAF if leaves[0] == leaves[1] else _OTHER_LEAF


def by_rail(samples: Iterable[Sample]) -> dict[str, list[Sample]]:
    """Return rail -> its samples."""
    found: dict[str, list[Sample]] = {}
    for one in samples:
        found.setdefault(one.rail, []).append(one)
    return found


def judge(asked: AskedLine, samples: Mapping[str, Sequence[Sample]]) -> Answer:
    """Answer a hops line.

    Args:
        asked: the asked line: one node, one rail.
        samples: all trusted latency tests of the run, `by_rail`.

    Returns:
        pass within a hop's least of the others; fail above, with the number of switches that it may be;
        recorded on software links, whose latency is the processor's, within that least on InfiniBand, and
        without enough others to compare with; unmeasured without a latency that can be trusted.
    """
    node, rail = str(asked["node"]), str(asked["rail"])
    found = _of_rail(node, rail, samples.get(rail, ()))
    if found.outcome != FAIL:
        return found
    others = [name for name, its in samples.items() if name != rail and any(node in one.nodes for one in its)]
    high = [_of_rail(node, other, samples[other]).outcome == FAIL for other in sorted(others)]
    if high and all(high):
        found.proof = "proven"
        return found.recorded(
            f"as high on all rails of {node}, which is its processor's or slots', no switch's"
        )
    return found


def _of_rail(node: str, rail: str, samples: Sequence[Sample]) -> Answer:
    where = f"{node} {rail}"
    mine = [one for one in samples if node in one.nodes and one.hops is not None]
    if not mine:
        return Answer.unmeasured("hops_unclear", f"{where}: none of its latency tests can be trusted")
    median = statistics.median(one.latency_us for one in mine)
    seen = Answer(RECORDED, {"latency_p50_us": median}, proof="proven", rows=_ids(mine))
    if not all(one.hardware for one in mine):
        return seen.recorded("the latency of software RDMA is its processor's, and hides what a switch adds")
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
        verdicts.append(_against(where, hops, usual, statistics.median(one.latency_us for one in here), here))
    bad = next((one for one in verdicts if one.outcome == FAIL), None)
    if bad is not None:
        return bad
    if not verdicts or unclear:
        return seen.recorded(f"no bound: {'; '.join(unclear)}")
    return next((one for one in verdicts if one.outcome == RECORDED), verdicts[0])


def _against(where: str, hops: int, usual_us: float, seen_us: float, mine: Sequence[Sample]) -> Answer:
    ceiling = usual_us + HOP_LEAST_US
    basis = (
        f"over {hops} planned hops the others need {usual_us:.2f} us, and one hop more costs at least "
        f"{HOP_LEAST_US:g} us"
    )
    answer = Answer(
        PASS, {"latency_p50_us": round(seen_us, 3)}, {"latency_p50_us": 0.0},
        {"latency_p50_us": round(ceiling, 3)}, basis, proof="proven", rows=_ids(mine),
    )  # fmt: skip
    if seen_us < ceiling:
        if mine[0].link_layer == "Ethernet":
            return answer
        return answer.recorded(
            f"less than {HOP_LEAST_US:g} us above the others' {usual_us:.2f} us over {hops} planned hops; "
            "that this is no switch more is known of Ethernet alone"
        )
    excess = seen_us - usual_us
    least, most = max(1, math.ceil(excess / HOP_MOST_US)), math.floor(excess / HOP_LEAST_US + 1e-9)
    number = f"{least}" if least >= most else f"{least} to {most}"
    peers = sorted({name for one in mine for name in one.nodes} - {where.split(" ", maxsplit=1)[0]})
    said = (
        f"{where}: {seen_us:.2f} us to {', '.join(peers[:4])}, {excess:.2f} above the others': {number} hops"
    )
    return answer.failed("more_hops", said)


def _ids(samples: Sequence[Sample]) -> list[str]:
    return [one.identity for one in samples]
