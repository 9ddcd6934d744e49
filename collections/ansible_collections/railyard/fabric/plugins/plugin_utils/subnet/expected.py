# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory expects of a subnet: its plan, its facts where there are some, and the subnet's keys."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import absent_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import plans_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    ALL,
    Expected,
    ExpectedPort,
    Leaf,
    Membership,
    Partition,
)

INFINIBAND = "infiniband"
_PCI = re.compile(r"(?P<domain>[0-9a-f]+):(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])")
_DIGITS = re.compile(r"[0-9a-f]{1,16}")


def from_inventory(
    inventory: Inventory,
    facts: Mapping[str, Mapping[str, Any]] | None = None,
    changed_at_s: float | None = None,
) -> Expected:
    """Return what an inventory expects, of all of its InfiniBand nodes: a subnet does not end at a limit.

    Args:
        inventory: an inventory without problems.
        facts: node -> its facts, as `collect.yml` stored them.
        changed_at_s: when the newest file of the inventory was changed.
    """
    nodes = [node for node in inventory.nodes if node.fabric.get("transport") == INFINIBAND]
    plans = plans_of(nodes)
    ports = [
        port for name, plan in plans.items() for port in _list_ports(name, plan, (facts or {}).get(name))
    ]
    fabrics = list({id(node.fabric): node.fabric for node in nodes}.values())
    leaves: dict[str, Leaf] = {}
    partitions: dict[int, Partition] | None = None
    managers: tuple[str, ...] | None = None
    for fabric in fabrics:
        leaves |= {str(name): _read_leaf(leaf) for name, leaf in _mapping(fabric.get("leaves")).items()}
        if fabric.get("partitions") is not None:
            partitions = (partitions or {}) | dict(_read_partitions(fabric["partitions"]))
        if isinstance(fabric.get("subnet_managers"), list):
            managers = tuple(dict.fromkeys([*(managers or ()), *map(str, fabric["subnet_managers"])]))
    return Expected(tuple(ports), tuple(plans), leaves, partitions, managers, changed_at_s)


def _list_ports(
    node: str, plan: Mapping[str, Any], facts: Mapping[str, Any] | None
) -> Iterator[ExpectedPort]:
    absent = absent_rails(plan["rail_overrides"])
    bound = bind.bind(plan["rails"], facts) if facts else {}
    unit = plan["scalable_unit"]
    rails = {rail["name"]: rail for rail in plan["rails"]}
    for name in dict.fromkeys([*rails, *absent]):
        rail = rails.get(name, {})
        own = bound.get(name)
        port = own.hca if own is not None and own.hca is not None else {}
        hca = port.get("hca") or rail.get("hca")
        yield ExpectedPort(
            node=node,
            rail=str(name),
            hca=_with_port(hca),
            port_guid=read_guid(port.get("port_guid")),
            node_guid=read_guid(port.get("node_guid")),
            rate_gbps=rail.get("rate_gbps"),
            leaf=rail.get("leaf"),
            absent=name in absent,
            names=tuple(dict.fromkeys(_list_names(hca, rail))),
            unit=None if unit is None else str(unit),
        )


def _with_port(hca: object) -> str | None:
    if not isinstance(hca, str) or not hca:
        return None
    return hca if ":" in hca else f"{hca}:1"


def _list_names(hca: object, rail: Mapping[str, Any]) -> Iterator[str]:
    """Yield the device names that a port may have: the known one, else those of rdma-core's naming.

    rdma-core's `60-rdma-persistent-naming.rules` names InfiniBand devices `ib` and their PCI path, which is
    what systemd calls their netdev.
    """
    if isinstance(hca, str) and hca:
        yield hca.partition(":")[0]
        return
    if isinstance(rail.get("netdev"), str):
        yield rail["netdev"]
    match = _PCI.fullmatch(str(rail.get("pci") or ""))
    if match:
        domain, bus, slot, function = (int(part, 16) for part in match.groups())
        path = f"ib{f'P{domain}' if domain else ''}p{bus}s{slot}"
        yield f"{path}f{function}"
        if not function:
            yield path


def read_guid(value: object) -> str | None:
    """Return a GUID as readings have it, `0x` and 16 digits; None for what is no GUID, or 0.

    Written may be `0x506b4b0300c10002`, `506b:4b03:00c1:0002` (sysfs), or a number (YAML reads 0x… as one).
    """
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, int):
        digits = f"{value:x}" if 0 < value < 2**64 else ""
    else:
        text = str(value).strip().lower()
        text = text.removeprefix("0x")
        groups = re.split("[:-]", text)
        digits = "".join(group.zfill(4) for group in groups) if len(groups) == 4 else text
    if not _DIGITS.fullmatch(digits) or not int(digits, 16):
        return None
    return f"0x{int(digits, 16):016x}"


def _mapping(value: object) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _read_leaf(leaf: object) -> Leaf:
    known = _mapping(leaf)
    uplink_gbps = known.get("uplink_gbps")
    is_number = isinstance(uplink_gbps, (int, float)) and not isinstance(uplink_gbps, bool)
    return Leaf(read_guid(known.get("guid")), float(uplink_gbps) if is_number and uplink_gbps else None)


def _read_partitions(declared: object) -> Iterator[tuple[int, Partition]]:
    for key, value in _mapping(declared).items():
        pkey = _read_pkey(key)
        if pkey is None or not isinstance(value, Mapping):
            continue
        name = value.get("name")
        yield pkey, Partition(None if name is None else str(name), dict(_read_members(value)))


def _read_pkey(key: object) -> int | None:
    try:
        number = key if isinstance(key, int) else int(str(key), 16)
    except ValueError:
        return None
    return number & 0x7FFF or None


def _read_members(value: Mapping[Any, Any]) -> Iterator[tuple[str, Membership]]:
    members, default = value.get("members"), _read_membership(value.get("membership"), "full")
    pairs: Iterable[tuple[Any, Any]]
    if isinstance(members, Mapping):
        pairs = members.items()
    elif isinstance(members, list):
        pairs = ((one, None) for one in members)
    else:
        pairs = [(members, None)] if members == ALL else []
    for member, own in pairs:
        guid = read_guid(member) if str(member).lower().startswith("0x") else None
        yield guid or str(member), _read_membership(own, default)


def _read_membership(value: object, default: Membership) -> Membership:
    if value == "full":
        return "full"
    if value == "limited":
        return "limited"
    return "both" if value == "both" else default
