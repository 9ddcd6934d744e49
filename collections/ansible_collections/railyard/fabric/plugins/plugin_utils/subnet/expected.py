# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory expects of a subnet: its plan, its facts where there are some, and the subnet's keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import absent_rails
from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid
from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import parse_partitions
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import plans_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.subnet_keys import (
    INFINIBAND,
    declared_subnet,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected, ExpectedPort, Leaf

_PCI = re.compile(r"(?P<domain>[0-9a-f]+):(?P<bus>[0-9a-f]{2}):(?P<slot>[0-9a-f]{2})\.(?P<function>[0-7])")


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
    declared = declared_subnet(nodes) or {}
    partitions, managers = declared.get("partitions"), declared.get("subnet_managers")
    return Expected(
        ports=tuple(ports),
        nodes=tuple(plans),
        leaves={
            name: Leaf(leaf.get("guid"), leaf.get("uplink_gbps"))
            for name, leaf in (declared.get("leaves") or {}).items()
        },
        partitions=None if partitions is None else parse_partitions(partitions)[0],
        managers=None if managers is None else tuple(managers),
        changed_at_s=changed_at_s,
    )


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
            hca=hca,
            port_guid=normalize_guid(port.get("port_guid")),
            node_guid=normalize_guid(port.get("node_guid")),
            rate_gbps=rail.get("rate_gbps"),
            leaf=rail.get("leaf"),
            absent=name in absent,
            names=tuple(dict.fromkeys(_list_names(hca, rail))),
            unit=None if unit is None else str(unit),
        )


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
