# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topology files, as text: `topology.conf` for topology/tree or topology/block, and `topology.yaml`.

Formats: Slurm's topology.conf(5) and topology.yaml(5). A node of a rail-optimized fabric is connected to
many leaves, but Slurm knows one leaf switch for a node: slurmctld 22.05 warns `Multiple leaf switches contain
nodes`, and then sees no difference between nodes. So a rail group is one switch here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rail_groups import RailGroups

CONF, YAML = "topology.conf", "topology.yaml"
#: The first line of each file; by it a file that Railyard wrote is recognized.
MARK = "# Written by `railyard fabric`; change the inventory or the cabling, and write it again."
#: The switch above all groups, and the one that holds nodes without a link.
CORE, UNLINKED = "core", "unlinked"
_NODE_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_LONGEST_SWITCH_NAME = 64  # topology.conf(5)


class TopologyError(ValueError):
    """The file cannot be written; the text says why and what to do."""


class Group(NamedTuple):
    """Nodes that are one switch, or one block."""

    name: str
    nodes: tuple[str, ...]


class Groups(NamedTuple):
    """What is written: the groups with nodes, and the nodes outside of all of them."""

    groups: tuple[Group, ...]
    unlinked: tuple[str, ...]


def select_nodes(found: RailGroups, slurm_nodes: Sequence[str] | None) -> Groups:
    """Take the rail groups as Slurm's nodes.

    Args:
        found: the inventory's nodes by their leaves.
        slurm_nodes: the names of Slurm's nodes; None where these are the inventory's.

    Returns:
        Groups of Slurm's names. Nodes of Slurm that no subnet has a link to, or that the inventory does not
        have, are unlinked: slurmctld warns about a node that is missing from the file.

    Raises:
        TopologyError: a node has a link, and Slurm does not have it: slurmctld refuses such a file.
    """
    if slurm_nodes is None:
        groups = tuple(Group(one.name, one.nodes) for one in found.groups)
        return _checked(Groups(groups, found.unlinked))
    known = frozenset(slurm_nodes)
    names = {node: _slurm_name(node, known) for one in found.groups for node in one.nodes}
    if strangers := [node for node, name in names.items() if name is None]:
        raise TopologyError(
            f"Slurm does not have {named(strangers)}, which the fabric has: slurmctld would refuse the file. "
            "Name all nodes of Slurm, or remove these from the inventory"
        )
    groups = tuple(Group(one.name, tuple(names[node] or node for node in one.nodes)) for one in found.groups)
    placed = {node for one in groups for node in one.nodes}
    return _checked(Groups(groups, tuple(node for node in dict.fromkeys(slurm_nodes) if node not in placed)))


def group_by_nvlink(groups: Groups, domains: Mapping[str, str]) -> Groups:
    """Return blocks: NVLink domains for the nodes that have one, their rail groups for all others.

    Args:
        groups: from `select_nodes`.
        domains: node -> its NVLink domain, as the inventory or the facts name it.
    """
    group_of = {node: one.name for one in groups.groups for node in one.nodes}
    in_order = [*group_of, *(node for node in groups.unlinked if node in domains)]
    blocks: dict[str, list[str]] = {}
    for node in in_order:
        blocks.setdefault(f"nvl-{domains[node]}" if node in domains else group_of[node], []).append(node)
    outside = tuple(node for node in groups.unlinked if node not in domains)
    return _checked(Groups(tuple(Group(name, tuple(nodes)) for name, nodes in blocks.items()), outside))


def refuse_tree(reading: Reading, judgement: Judgement) -> None:
    """Refuse to write a tree for a fabric that is none.

    Raises:
        TopologyError: with a link that no tree has.
    """
    if judgement.is_tree:
        return
    # topology.conf(5) has no way to say so, and slurmctld would plan jobs by a tree that is not there.
    raise TopologyError(
        f"this fabric is no tree{_odd_link(reading, judgement)}, so topology/tree cannot describe it. "
        "Write blocks, with --slurm-form block"
    )


def _odd_link(reading: Reading, judgement: Judgement) -> str:
    """Name a link between switches that does not join two neighboring tiers; nothing where there is none."""
    for guid, tier in judgement.tiers.items():
        for number, port in sorted(reading.devices[guid].ports.items() if guid in reading.devices else ()):
            other = judgement.tiers.get(port.peer.guid) if port.peer else None
            if port.peer and other is not None and abs(other - tier) != 1:
                ends = [f"{judgement.switch_names.get(end, end)} ({end})" for end in (guid, port.peer.guid)]
                levels = f"tier {tier}" if other == tier else f"tiers {tier} and {other}"
                return f": {ends[0]} port {number} and {ends[1]}, of {levels}, are joined"
    return ""


def write_tree(groups: Groups) -> str:
    """Write `topology.conf` for topology/tree: a switch for each group, and `core` above them."""
    lines = [f"SwitchName={one.name} Nodes={fold_hosts(one.nodes)}" for one in _switches(groups)]
    lines.append(f"SwitchName={CORE} Switches={fold_hosts([one.name for one in _switches(groups)])}")
    return "\n".join([MARK, *lines]) + "\n"


def write_block(blocks: Groups) -> str:
    """Write `topology.conf` for topology/block, Slurm 23.11 and newer."""
    lines = [f"BlockName={one.name} Nodes={fold_hosts(one.nodes)}" for one in blocks.groups]
    sizes = ",".join(map(str, block_sizes(blocks)))
    return "\n".join([MARK, *lines, f"BlockSizes={sizes}"]) + "\n"


def write_yaml(tree: Groups | None, blocks: Groups) -> str:
    """Write `topology.yaml`, Slurm 25.05 and newer: the tree, if the fabric is one, and the blocks.

    The first topology is the cluster's default. Only names of `_checked` groups enter, which need no quotes
    but for a word that YAML reads as a number or a truth value.
    """
    lines = [MARK]
    if tree is not None:
        lines += ["- topology: tree", "  cluster_default: true", "  tree:", "    switches:"]
        switches = _switches(tree)
        lines += [f'      - switch: {CORE}\n        children: "{fold_hosts([one.name for one in switches])}"']
        lines += [
            f'      - switch: "{one.name}"\n        nodes: "{fold_hosts(one.nodes)}"' for one in switches
        ]
    default = "false" if tree is not None else "true"
    lines += ["- topology: block", f"  cluster_default: {default}", "  block:", "    block_sizes:"]
    lines += [f"      - {size}" for size in block_sizes(blocks)]
    lines += ["    blocks:"]
    lines += [
        f'      - block: "{one.name}"\n        nodes: "{fold_hosts(one.nodes)}"' for one in blocks.groups
    ]
    return "\n".join(lines) + "\n"


def block_sizes(blocks: Groups) -> list[int]:
    """Return BlockSizes: the smallest block's nodes, then twice as many as long as there are enough blocks.

    topology.conf(5): no block may have fewer nodes than the first size, and each further one is the first
    times a power of two.
    """
    smallest = min(len(one.nodes) for one in blocks.groups)
    sizes = [smallest]
    while sizes[-1] * 2 <= smallest * len(blocks.groups):
        sizes.append(sizes[-1] * 2)
    return sizes


def fold_hosts(names: Sequence[str]) -> str:
    """Fold names as Slurm reads them, `gpu[01-16],login1`.

    Slurm 22.05 refuses text behind a bracket (`rack[1-2]node1`), which ClusterShell writes; so only the last
    number is folded here.
    """
    by_prefix: dict[str, list[str]] = {}
    for name in dict.fromkeys(names):
        prefix = name.rstrip("0123456789")
        by_prefix.setdefault(prefix, []).append(name[len(prefix) :])
    return ",".join(_folded(prefix, numbers) for prefix, numbers in sorted(by_prefix.items()))


def _folded(prefix: str, numbers: Sequence[str]) -> str:
    if len(numbers) == 1:
        return prefix + numbers[0]
    ordered = sorted((len(text), int(text)) for text in numbers if text)
    ranges = []
    # Neighbors have one width and numbers one apart, so number minus place is the same for all.
    for _run, pairs in groupby(enumerate(ordered), lambda pair: (pair[1][0], pair[1][1] - pair[0])):
        run = [one for _place, one in pairs]
        first, last = (f"{number:0{width}}" for width, number in (run[0], run[-1]))
        ranges.append(first if first == last else f"{first}-{last}")
    bare = [prefix] if "" in numbers else []
    return ",".join([*bare, f"{prefix}[{','.join(ranges)}]"])


def _switches(groups: Groups) -> tuple[Group, ...]:
    return groups.groups + ((Group(UNLINKED, groups.unlinked),) if groups.unlinked else ())


def _slurm_name(node: str, known: frozenset[str]) -> str | None:
    """Return a node's name in Slurm, which may lack the domain."""
    return next((name for name in (node, node.partition(".")[0]) if name in known), None)


def _checked(groups: Groups) -> Groups:
    """Return the groups under names that Slurm takes.

    Raises:
        TopologyError: there is no group, or a node's name would be read as something else.
    """
    if not groups.groups:
        raise TopologyError("no node has a link, so there is no topology to write; read the findings first")
    nodes = [node for one in groups.groups for node in one.nodes] + list(groups.unlinked)
    if bad := [node for node in nodes if not _NODE_NAME.fullmatch(node)]:
        raise TopologyError(
            f"{named([repr(node) for node in bad])} cannot be written into Slurm's file. "
            "Use letters, digits, `.`, `_` and `-` in node names"
        )
    names = [re.sub(r"[^A-Za-z0-9_.-]", "-", one.name)[:_LONGEST_SWITCH_NAME] for one in groups.groups]
    if len({*names, CORE, UNLINKED}) < len(names) + 2 or not all(map(_NODE_NAME.fullmatch, names)):
        names = [f"su{number}" for number in range(1, len(names) + 1)]
    renamed = (Group(name, one.nodes) for name, one in zip(names, groups.groups, strict=True))
    return Groups(tuple(renamed), groups.unlinked)
