"""Which simulated faults anyone could see, and as what. From the faults and the schedule alone.

A fault beneath a dead part shows in no test. Single rails of a node that are slow on all of its rails are
that node; leaves of a rail that are all slow are that rail, and a leaf of one node is that node's rail.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

import numpy as np

from railyard.simulate.cluster import Cluster
from railyard.simulate.faults import Fault, Shares

Part = tuple[str, str | None, str | None, str | None, str | None]
"""Kind, node, rail, peer, leaf."""
#: A component that leaves more than this cannot be distinguished from a good one.
_SEEN = 0.9
#: Below this share of the rate nothing can be determined.
_NOTHING = 0.02


class Seen(NamedTuple):
    """What becomes of a fault: the part that it shows as, or why it does not show."""

    part: Part | None
    why_not: str | None


def seen(cluster: Cluster, shares: Shares, met: AbstractSet[tuple[int, int]]) -> list[Seen]:
    """Return for each fault what the tests could show of it at best.

    Args:
        cluster: the cluster.
        shares: its faults.
        met: the places of all pairs that meet, the lesser first.
    """
    return [_seen(fault, cluster, shares, met) for fault in shares.faults]


def _seen(fault: Fault, cluster: Cluster, shares: Shares, met: AbstractSet[tuple[int, int]]) -> Seen:
    hidden = Seen(None, "what is above it leaves as little")
    others = Shares(cluster, [one for one in shares.faults if one is not fault], shares.narrowest)
    visible = _visible(fault, cluster, shares, others)
    part: Part = fault[:-1]
    if fault.kind == "pair":
        places = {name: number for number, name in enumerate(cluster.nodes)}
        if (places[str(fault.node)], places[str(fault.peer)]) not in met:
            return Seen(None, "its nodes do not meet in this pattern")
        return Seen(part, None) if visible else hidden
    if not visible:
        return hidden
    if fault.kind == "leaf":
        behind, rail = cluster.leaves[str(fault.leaf)]
        mine = {name: one for name, one in cluster.leaves.items() if one[1] == rail}
        slow = {one.leaf for one in shares.faults if one.kind == "leaf"}
        if len(behind) == 1 < len(cluster.nodes):
            return Seen(("node_rail", cluster.nodes[behind[0]], fault.rail, None, None), None)
        if mine.keys() <= slow:
            best = max(one.share for one in shares.faults if one.leaf in mine)
            if fault.share >= _SEEN * best:
                return Seen(("rail", None, fault.rail, None, None), None)
    if fault.kind in ("node", "node_rail"):
        place = cluster.nodes.index(str(fault.node))
        around = shares.both(shares.rails, shares.leaf[place])
        live = np.flatnonzero(around >= _NOTHING)
        mine = shares.ends[place]
        slow = live[shares.both(mine, around)[live] < _SEEN * around[live]]
        if fault.kind == "node" and len(slow) == 1:
            return Seen(("node_rail", fault.node, cluster.rails[slow[0]], None, None), None)
        singles = {
            one.rail: one.share for one in shares.faults if one.kind == "node_rail" and one.node == fault.node
        }
        names = {cluster.rails[on] for on in live}
        # Of a node that is slow on all of its rails the best is the node, whatever made it so.
        all_slow = fault.kind == "node_rail" and len(live) > 1 and names <= singles.keys()
        if all_slow and fault.share >= _SEEN * max(singles[name] for name in names):
            return Seen(("node", fault.node, None, None, None), None)
    return Seen(part, None)


def _visible(fault: Fault, cluster: Cluster, shares: Shares, others: Shares) -> list[int]:
    """Return the rails on which tests through a part carry less because of it."""
    count = len(cluster.nodes)
    rails = [number for number, name in enumerate(cluster.rails) if fault.rail in (None, name)]
    if fault.kind == "rail":
        ends = range(count)
    elif fault.kind == "leaf":
        ends = cluster.leaves[str(fault.leaf)][0]
    else:
        ends = range(cluster.nodes.index(str(fault.node)), cluster.nodes.index(str(fault.node)) + 1)
    found = []
    for rail in rails:
        if fault.kind == "pair":
            node = np.array([cluster.nodes.index(str(fault.node))])
            peer = np.array([cluster.nodes.index(str(fault.peer))])
        else:
            node = np.repeat(np.array(ends), count)
            peer = np.tile(np.arange(count), len(ends))
            node, peer = node[node != peer], peer[node != peer]
        before, after = others.share_between(node, peer, rail), shares.share_between(node, peer, rail)
        if ((before >= _NOTHING) & (after < _SEEN * before)).any():
            found.append(rail)
    return found
