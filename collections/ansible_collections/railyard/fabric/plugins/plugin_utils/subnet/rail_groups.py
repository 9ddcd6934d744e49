# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that are connected to the same leaves, over all subnets of a cluster.

A judgement's units are of one subnet. Where rails are subnets of their own, only all of them together tell
which nodes are neighbors. A node that lost a link still belongs to its group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement


class RailGroup(NamedTuple):
    """A rail group: its name, its nodes in the inventory's order, and its leaves' GUIDs by subnet."""

    name: str
    nodes: tuple[str, ...]
    leaves: frozenset[tuple[int, str]]


class RailGroups(NamedTuple):
    """All groups, and the nodes that no subnet has a link to, both in the inventory's order."""

    groups: tuple[RailGroup, ...]
    unlinked: tuple[str, ...]


def find_groups(judgements: Sequence[Judgement], nodes: Sequence[str]) -> RailGroups:
    """Group the inventory's nodes by their leaves.

    Args:
        judgements: one for each subnet.
        nodes: the inventory's nodes, in its order.
    """
    leaves_of: dict[str, set[tuple[int, str]]] = {}
    for number, judgement in enumerate(judgements):
        for unit in judgement.units:
            for node in unit.nodes:
                leaves_of.setdefault(node, set()).update((number, leaf) for leaf in unit.leaves)
    linked = {node: frozenset(leaves_of[node]) for node in nodes if leaves_of.get(node)}
    distinct = dict.fromkeys(linked.values())
    members: dict[frozenset[tuple[int, str]], list[str]] = {}
    for node, leaves in linked.items():
        members.setdefault(_find_complete(leaves, distinct), []).append(node)
    names = _names(judgements, list(members.values()))
    groups = (RailGroup(name, tuple(members[key]), key) for name, key in zip(names, members, strict=True))
    return RailGroups(tuple(groups), tuple(node for node in nodes if node not in linked))


def _find_complete(
    leaves: frozenset[tuple[int, str]], distinct: dict[frozenset[tuple[int, str]], None]
) -> frozenset[tuple[int, str]]:
    """Return the one larger set of leaves that this one is a part of: the node lacks a link there."""
    larger = [other for other in distinct if leaves < other and not any(other < more for more in distinct)]
    return larger[0] if len(larger) == 1 else leaves


def _names(judgements: Sequence[Judgement], groups: Sequence[Sequence[str]]) -> list[str]:
    """Return the groups' names: those of the units where each group is one unit, else numbers."""
    units = {unit.nodes[0]: unit.name for unit in judgements[0].units if unit.nodes} if judgements else {}
    names = [units.get(group[0], "") for group in groups]
    if all(names) and len(set(names)) == len(names):
        return names
    return [f"su{number}" for number in range(1, len(groups) + 1)]
