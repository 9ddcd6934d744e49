"""The simulated cluster: its names, leaves and test schedule, as an inventory would give them."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy

from railyard.base.errors import UserError

#: What all simulated rails are planned to carry.
RATE_GBPS = 400.0
#: Behind one leaf, if the number of leaves is not given.
_NODES_OF_LEAF = 32
_MOST_RAILS = 64
#: All pairs of more take more memory than this is worth.
_MOST_NODES = 10000
ALL_PAIRS, AUTO = PATTERNS = ("all_pairs", "auto")


class Cluster(NamedTuple):
    """Nodes gpu001 and on, rails rail0 and on, and of each rail a leaf for each block of nodes.

    Attributes:
        nodes, rails: their names.
        leaves: leaf -> the places of its nodes, and that of its rail.
        order: the common part of the test schedule.
    """

    nodes: list[str]
    rails: list[str]
    leaves: dict[str, tuple[range, int]]
    order: dict[str, Any]


@functools.cache
def make(nodes: int, rails: int, leaves: int | None, pattern: str) -> Cluster:
    """Return a simulated cluster.

    Args:
        nodes: how many.
        rails: how many each has.
        leaves: how many leaves each rail has; the nodes are dealt out in blocks. None: one for 32 nodes.
        pattern: `all_pairs` (as `railyard sweep`) or `auto` (as `railyard validate`).

    Raises:
        UserError: there is no such cluster.
    """
    if not 2 <= nodes <= _MOST_NODES:
        raise UserError(f"--nodes {nodes}: two nodes are the least that meet", f"give 2 to {_MOST_NODES}")
    if not 1 <= rails <= _MOST_RAILS:
        raise UserError(f"--rails {rails}: a node has one rail at least", f"give 1 to {_MOST_RAILS}")
    blocks = -(-nodes // _NODES_OF_LEAF) if leaves is None else leaves
    if not 1 <= blocks <= nodes:
        raise UserError(f"--leaves {leaves}: a leaf has one node at least", f"give 1 to {nodes}")
    if pattern not in PATTERNS:
        raise UserError(f"--pattern {pattern!r} is not simulated", f"give one of {', '.join(PATTERNS)}")
    names = [f"gpu{number:03d}" for number in range(1, nodes + 1)]
    rail_names = [f"rail{number}" for number in range(rails)]
    starts = [block * nodes // blocks for block in range(blocks + 1)]
    fabric = {
        "transport": "roce",
        "mtu": 9000,
        "rails": [
            {
                "name": name,
                "netdev": f"ens{number}np0",
                "hca": f"mlx5_{number}:1",
                "rate_gbps": RATE_GBPS,
                "subnets": {str(block): f"10.{number}.0.0/16" for block in range(blocks)},
                "leaves": {str(block): f"{name}-leaf{block}" for block in range(blocks)},
            }
            for number, name in enumerate(rail_names)
        ],
    }
    plan = {
        "nodes": {
            names[place]: {"node_index": place + 1, "scalable_unit": str(block)}
            for block in range(blocks)
            for place in range(starts[block], starts[block + 1])
        }
    }
    wanted = {"pattern": ALL_PAIRS, "questions": "together"} if pattern == ALL_PAIRS else {"pattern": AUTO}
    order = requests.work_order("simulated", plan, dict.fromkeys(names, fabric), policy.merge(wanted), names)
    behind = {
        f"{rail}-leaf{block}": (range(starts[block], starts[block + 1]), number)
        for number, rail in enumerate(rail_names)
        for block in range(blocks)
    }
    return Cluster(names, rail_names, behind, order)
