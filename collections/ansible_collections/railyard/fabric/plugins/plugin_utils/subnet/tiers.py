# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Levels of the switches: 0 are the leaves, level n + 1 their neighbors that have no level yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Owner

#: A switch with at most a fourth of the adapters of a leaf below it is a spine with a stray cable.
_STRAY_SHARE = 4


class Tiers(NamedTuple):
    """Levels of the switches.

    Attributes:
        levels: switch -> level; a switch that no leaf leads to is missing.
        links_at: switch -> its links to other switches.
        level_links: links between two switches of one level.
        mixed: switches above leaves that have adapters of the inventory's nodes.
    """

    levels: dict[str, int]
    links_at: dict[str, list[Link]]
    level_links: tuple[Link, ...]
    mixed: tuple[str, ...]


def find_tiers(
    switches: Collection[str],
    links: Sequence[Link],
    owners: Mapping[PortKey, Owner],
    leaves: Collection[str],
) -> Tiers:
    """Place the switches.

    Args:
        switches: all switches.
        links: all links.
        owners: whose the adapter ports are.
        leaves: switches that the inventory names as leaves.
    """
    links_at: dict[str, list[Link]] = {guid: [] for guid in switches}
    known: Counter[str] = Counter()
    others: Counter[str] = Counter()
    for link in links:
        if link.one.guid in links_at and link.other.guid in links_at:
            for end in link.ends:
                links_at[end.guid].append(link)
        for end, far in (link.ends, link.ends[::-1]):
            owner = owners.get(far)
            if end.guid in links_at and owner is not None:
                (known if owner.node else others)[end.guid] += 1
    neighbors = {guid: {link.far_end(guid).guid for link in at} for guid, at in links_at.items()}
    lowest = _find_lowest(known, others, neighbors, leaves)
    levels = dict.fromkeys(sorted(lowest), 0)
    edge = list(levels)
    while edge:
        above = sorted({far for guid in edge for far in neighbors[guid]} - set(levels))
        level = levels[edge[0]] + 1
        levels |= dict.fromkeys(above, level)
        edge = above
    flat = tuple(
        link
        for link in links
        if link.one.guid in levels and levels[link.one.guid] == levels.get(link.other.guid)
    )
    mixed = tuple(sorted(guid for guid in known if levels.get(guid, 0) > 0))
    return Tiers(levels, links_at, flat, mixed)


def _find_lowest(
    known: Counter[str], others: Counter[str], neighbors: Mapping[str, set[str]], leaves: Collection[str]
) -> set[str]:
    """Return the switches of level 0.

    Where the inventory names leaves, those count, and every other switch with adapters that is no neighbor of
    one. Else all with nodes' adapters count, but not one with a few adapters between leaves with many.
    """
    named = {guid for guid in leaves if guid in neighbors}
    with_nodes = set(known)
    if named:
        lowest = named | {guid for guid in with_nodes if not neighbors[guid] & named}
    else:
        lowest = {
            guid
            for guid in with_nodes
            if not _is_stray(known, guid, [far for far in neighbors[guid] if far in with_nodes])
        }
    if not lowest:
        return set(others)
    return lowest | {guid for guid in others if not neighbors[guid] & lowest and guid not in with_nodes}


def _is_stray(known: Counter[str], guid: str, leaves: Sequence[str]) -> bool:
    return len(leaves) > 1 and _STRAY_SHARE * known[guid] <= max(known[leaf] for leaf in leaves)
