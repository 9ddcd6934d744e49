# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of hosts by rail group, and what the cabling says about NCCL_CROSS_NIC.

NCCL builds its rings in the order of the ranks: with hosts of one group next to each other, a ring leaves a
group as seldom as it can. Rails need no file: NCCL finds them by the distance between adapter and GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected, Judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rail_groups import RailGroups


class Subnet(NamedTuple):
    """A subnet: its reading, and what was decided about it."""

    reading: Reading
    judgement: Judgement


class CrossNic(NamedTuple):
    """What the cabling says about NCCL_CROSS_NIC: `0`, `1`, or None for NCCL's own choice; and why."""

    value: str | None
    reason: str


def write_hosts(found: RailGroups, advice: CrossNic, warnings: Sequence[str]) -> str:
    """Write the hosts that have a link, one a line, group after group; everything else is a comment.

    OpenMPI's `--hostfile` and Slurm's SLURM_HOSTFILE both skip comments.
    """
    setting = f"NCCL_CROSS_NIC={advice.value}" if advice.value else "NCCL_CROSS_NIC: leave it unset"
    lines = ["# Written by `railyard fabric`: hosts in the order of their rail groups.", f"# {setting}"]
    lines += [f"# {text}" for text in (advice.reason, *warnings)]
    for group in found.groups:
        lines += [f"# {group.name}", *group.nodes]
    if found.unlinked:
        lines.append(f"# without a link, left out: {named(found.unlinked, most=16)}")
    return "\n".join(lines) + "\n"


def advise_cross_nic(subnets: Sequence[Subnet], found: RailGroups) -> CrossNic:
    """Decide by the leaves of each rail group's ports.

    NCCL's documentation of NCCL_CROSS_NIC: 0 for networks with switches of their own for each NIC (rails)
    and slow connections between these, 1 where all NICs of a node are connected to the same switch.
    """
    leaves = _leaves_of_rails(subnets)
    group_of = {node: group.name for group in found.groups for node in group.nodes}
    rails: dict[tuple[str, str], set[tuple[int, str]]] = {}
    nodes: dict[str, set[tuple[int, str]]] = {}
    for (node, rail), leaf in leaves.items():
        nodes.setdefault(node, set()).add(leaf)
        if node in group_of:
            rails.setdefault((group_of[node], rail), set()).add(leaf)
    names = {rail for _group, rail in rails}
    if len(names) < 2:
        return CrossNic(None, "fewer than two rails have links, so there is nothing to choose")
    if all(len(found_leaves) == 1 for found_leaves in nodes.values()):
        return CrossNic("1", "all adapters of each node are connected to one leaf")
    mixed = sorted(key for key, found_leaves in rails.items() if len(found_leaves) > 1)
    shared = sorted(key for key in rails if _shares_leaf(key, rails))
    if not mixed and not shared:
        return CrossNic("0", "in each rail group every rail has a leaf of its own")
    if mixed:
        group, rail = mixed[0]
        return CrossNic(None, f"{group}: the ports of {rail} are connected to {len(rails[mixed[0]])} leaves")
    group, rail = shared[0]
    return CrossNic(None, f"{group}: {rail} shares its leaf with another rail, but not all rails do")


def compare_adapter_order(expected: Expected) -> list[str]:
    """Return a warning for nodes whose rails are other adapters than on most nodes.

    NCCL counts adapters in the order of their names on each host: where that differs, adapter k of one host
    talks to another rail of the next.
    """
    orders: dict[str, tuple[tuple[str, str], ...]] = {}
    by_node: dict[str, list[tuple[str, str]]] = {}
    for port in expected.ports:
        if port.hca is not None and not port.absent:
            by_node.setdefault(port.node, []).append((port.rail, port.hca))
    orders = {node: tuple(sorted(found)) for node, found in by_node.items()}
    if len(set(orders.values())) < 2:
        return []
    usual, count = Counter(orders.values()).most_common(1)[0]
    warnings = []
    for order in dict.fromkeys(orders.values()):
        if order != usual:
            nodes = [node for node, one in orders.items() if one == order]
            rail, here, there = _first_difference(dict(order), dict(usual))
            warnings.append(
                f"{named(nodes)}: {rail} is {here}, but {there} on {count} of {len(orders)} nodes; set "
                "NCCL_IB_HCA in the order of the rails on these nodes"
            )
    return warnings


def _first_difference(here: Mapping[str, str], usual: Mapping[str, str]) -> tuple[str, str, str]:
    rail = next(rail for rail in sorted({*here, *usual}) if here.get(rail) != usual.get(rail))
    return rail, here.get(rail, "missing"), usual.get(rail, "missing")


def _shares_leaf(key: tuple[str, str], rails: Mapping[tuple[str, str], set[tuple[int, str]]]) -> bool:
    return any(other != key and other[0] == key[0] and rails[other] & rails[key] for other in rails)


def _leaves_of_rails(subnets: Sequence[Subnet]) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the leaf of each node's rail that has a link: (node, rail) -> subnet's place, leaf's GUID."""
    found = {}
    for number, (reading, judgement) in enumerate(subnets):
        for key, owner in judgement.owners.items():
            port = reading.port(key)
            if owner.node and owner.rail and port is not None and port.peer is not None:
                found[owner.node, owner.rail] = (number, port.peer.guid)
    return found
