# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check and read the keys of an InfiniBand subnet: leaves, partitions, subnet managers, where to read it.

A subnet belongs to one master subnet manager; its keys are refused on other transports.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ansible_collections.railyard.fabric.plugins.module_utils.records import partitions
from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid
from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import (
    ALL,
    DEFAULT_PKEY,
    LIMITED,
    Partition,
    show_key,
    show_pkey,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema, subnet_values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Located, Node, Origin
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, Item, near_key
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.subnet_values import SWITCH
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import literal

KEYS = ("partitions", "subnet_managers", "read_from")
INFINIBAND = "infiniband"
_NOT_HERE = "remove it, or correct the transport"


def check_subnet(fabric: Item) -> Iterator[Finding]:
    """Yield errors in the subnet's keys of one fabric, without the nodes."""
    transport = fabric.get("transport")
    if transport in ("roce", "efa", "tcp"):
        for key in KEYS:
            if fabric.get(key) is not None:
                message = f"it is for InfiniBand subnets, but the transport is {transport}"
                yield Finding(f"fabric.{key}", message, _NOT_HERE)
    elif _is_readable(fabric.get("partitions")):
        yield from _check_partitions(fabric["partitions"])
    yield from _check_leaves(fabric.get("leaves"), transport)


def _check_leaves(leaves: Any, transport: Any) -> Iterator[Finding]:
    """Check that GUIDs of switches are distinct, and set only on InfiniBand."""
    owners: dict[str, str] = {}
    for name, leaf in leaves.items() if isinstance(leaves, Mapping) else ():
        guid = leaf.get("guid") if isinstance(leaf, Mapping) else None
        if guid is None:
            continue
        where = f"fabric.leaves.{name}.guid"
        if transport in ("roce", "efa", "tcp"):
            message = f"it is for an InfiniBand switch, but the transport is {transport}"
            yield Finding(where, message, _NOT_HERE)
        elif (known := normalize_guid(guid)) is not None:
            owner = owners.setdefault(known, str(name))
            if owner != str(name):
                fix = "give each leaf its own node GUID, as `ibswitches` prints it"
                yield Finding(where, f"{known} is also that of leaf {owner}", fix)


def _check_partitions(declared: Any) -> Iterator[Finding]:
    found, problems = partitions.parse_partitions(declared)
    for problem in problems:
        yield Finding(".".join(("fabric.partitions", *problem.path)), problem.message, problem.fix)
    for pkey, partition in found.items():
        if _is_mute(partition):
            message = "all of its members are limited, so no two of them can communicate"
            fix = "make at least one of them full; limited members reach full ones only"
            yield Finding(f"{_place_of(declared, pkey)}.members", message, fix)


def _is_readable(declared: Any) -> bool:
    """Tell whether partitions are a mapping of literals; the schema reports everything else."""
    return isinstance(declared, Mapping) and bool(declared) and not any(literal(declared))


def _is_mute(partition: Partition) -> bool:
    """Tell whether no two members of a partition can communicate (default: the subnet manager is full)."""
    several = len(partition.members) > 1 or ALL in partition.members
    return partition.pkey != DEFAULT_PKEY and several and set(partition.members.values()) == {LIMITED}


def _place_of(declared: Mapping[Any, Any], pkey: int) -> str:
    """Return the path of a partition as its key is written."""
    written = next(key for key in declared if partitions.read_pkey(key)[0] == pkey)
    return f"fabric.partitions.{show_key(written)}"


def check_nodes(nodes: Sequence[Node]) -> Iterator[Located]:
    """Yield errors in the subnet's keys with the nodes: unknown nodes, nodes that cannot communicate."""
    here = [node for node in nodes if isinstance(node.fabric, Mapping)]
    on_infiniband = [node for node in here if node.fabric.get("transport") == INFINIBAND]
    known = {node.name: node for node in on_infiniband}
    others = {node.name for node in nodes} - set(known)
    seen: dict[int, Node] = {}
    for node in on_infiniband:
        first = seen.setdefault(id(node.fabric), node)
        if first is node:
            origin = Origin(node.groups, node.name)
            yield from ((one, origin) for one in _check_names(node.fabric, known, others))
    yield from _check_same_subnet(list(seen.values()))


def _check_names(fabric: Item, known: Mapping[str, Node], others: Collection[str]) -> Iterator[Finding]:
    declared = fabric.get("partitions")
    found, problems = partitions.parse_partitions(declared if _is_readable(declared) else None)
    for pkey, partition in found.items():
        where = f"{_place_of(fabric['partitions'], pkey)}.members"
        for member in partition.members:
            if member != ALL and normalize_guid(member) is None:
                yield from _check_name(f"{where}.{member}", member, known, others)
    if not problems:
        yield from _check_communication(fabric, found, list(known))
    managers = fabric.get("subnet_managers")
    if isinstance(managers, list) and subnet_values.subnet_managers(managers) is None:
        for index, name in enumerate(managers):
            if name != SWITCH:
                yield from _check_name(f"fabric.subnet_managers[{index}]", name, known, others)
    yield from _check_read_from(fabric, known, others)


def _check_read_from(fabric: Item, known: Mapping[str, Node], others: Collection[str]) -> Iterator[Finding]:
    read_from = fabric.get("read_from")
    if subnet_values.read_from(read_from) is not None:
        return
    if not isinstance(read_from, Mapping):
        yield from _check_name("fabric.read_from", str(read_from), known, others)
        return
    rails = _rails_of(fabric)
    for rail, name in read_from.items():
        where = f"fabric.read_from.{rail}"
        if rails and rail not in rails:
            fix = f"correct the name; rails: {', '.join(rails)}"
            yield Finding(where, "the fabric has no such rail", fix, None, str(rail))
            continue
        yield from _check_name(where, name, known, others, str(rail))
        if name in known and rail in plan.absent_rails(known[name].rail_overrides):
            message = f"{name} lacks this rail (rail_overrides)"
            yield Finding(where, message, "name a node that has it", None, str(rail))


def _rails_of(fabric: Item) -> list[str]:
    """Return the names of a fabric's rails; empty where they are wrong, which is reported elsewhere."""
    listed, count = fabric.get("rails"), fabric.get("rail_count")
    if isinstance(listed, list):
        names = [item.get("name") for item in listed if isinstance(item, Mapping)]
        return [name for name in names if isinstance(name, str)]
    if isinstance(count, int) and schema.COMPUTED["rail_count"].check(count) is None:
        return [f"rail{index}" for index in range(count)]
    return []


def _check_name(
    where: str, name: str, known: Mapping[str, Node], others: Collection[str], rail: str | None = None
) -> Iterator[Finding]:
    if name in known:
        return
    if name in others:
        message = f"{name} is a node without InfiniBand rails (transport)"
        yield Finding(where, message, "name a node whose transport is infiniband", None, rail)
        return
    near = near_key(name, known)
    hint = f"did you mean {near}? " if near else ""
    message = f"the inventory has no node {name} in group gpu_nodes"
    yield Finding(where, message, f"{hint}name one of its nodes", None, rail)


def _check_communication(
    fabric: Item, found: Mapping[int, Partition], names: Iterable[str]
) -> Iterator[Finding]:
    """Check that no two nodes are only limited members.

    Only where the default partition is declared: otherwise the membership in it is unknown. Nodes that are
    full members of different partitions are tenants, which must not communicate.
    """
    if DEFAULT_PKEY not in found or any(map(_is_mute, found.values())):
        return
    limited = [
        name for name in names if {one.membership_of(name) for one in found.values()} <= {LIMITED, None}
    ]
    if len(limited) > 1:
        message = (
            f"{limited[0]} and {limited[-1]} ({len(limited)} nodes in all) are full members of no partition: "
            "they cannot communicate"
        )
        fix = "make them full members of a partition"
        yield Finding(f"{_place_of(fabric['partitions'], DEFAULT_PKEY)}.members", message, fix)


def _check_same_subnet(nodes: Sequence[Node]) -> Iterator[Located]:
    """Check that different fabrics declare the same for the subnet that they share."""
    for key in KEYS:
        declaring = [node for node in nodes if node.fabric.get(key) is not None]
        for node in declaring[1:]:
            if node.fabric[key] != declaring[0].fabric[key]:
                message = f"it differs from that of {declaring[0].name}, but the nodes share the subnet"
                fix = "set it once for all nodes on InfiniBand"
                yield Finding(f"fabric.{key}", message, fix, node.name), Origin(node.groups, node.name)


def declared_subnet(nodes: Sequence[Node]) -> dict[str, Any] | None:
    """Return the subnet of a valid inventory as plan.json has it; None where none is declared.

    GUIDs are `0x` and 16 digits; P_Keys are `0x7fff`, each partition's members mapped to their memberships.
    """
    subnet: dict[str, Any] = {}
    for fabric in {id(node.fabric): node.fabric for node in nodes}.values():
        if fabric.get("transport") != INFINIBAND:
            continue
        for name, leaf in (fabric.get("leaves") or {}).items():
            row = {key: leaf[key] for key in ("uplink_gbps",) if leaf.get(key) is not None}
            guid = normalize_guid(leaf.get("guid"))
            subnet.setdefault("leaves", {})[str(name)] = {**row, **({"guid": guid} if guid else {})}
        if fabric.get("partitions") is not None:
            found, _problems = partitions.parse_partitions(fabric["partitions"])
            subnet["partitions"] = {
                show_pkey(pkey): {"name": one.name, "members": one.members, "ipoib": one.ipoib}
                for pkey, one in found.items()
            }
        for key in ("subnet_managers", "read_from"):
            if fabric.get(key) is not None:
                subnet[key] = fabric[key]
    return subnet or None
