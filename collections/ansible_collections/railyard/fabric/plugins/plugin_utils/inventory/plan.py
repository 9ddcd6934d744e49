# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Build the plan: each node's rails as the inventory defines them (docs/schema/plan.schema.json)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import networks, plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import subnet_keys
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Item

SCHEMA = 1
DEFAULTS = {"node_class": "hardware", "cabling": "switched"}


def build_plan(inventory: Inventory) -> dict[str, Any]:
    """Plan the nodes within the inventory's limit, in inventory order.

    The inventory must be free of problems (`inventory.validate`). `transport`, `node_class` and `cabling` at
    the top are "mixed" where nodes differ.

    Raises:
        rails.PlanError: the inventory was not validated, and a node has no plan.
    """
    nodes = inventory.selected_nodes()
    subnet = subnet_keys.declared_subnet(inventory.nodes)
    return {
        "schema": SCHEMA,
        "cluster": inventory.cluster,
        "transport": _common(node.fabric.get("transport") for node in nodes),
        "node_class": _common(_setting(node, "node_class") for node in nodes),
        "cabling": _common(_setting(node, "cabling") for node in nodes),
        # Only where it is declared, and for all nodes: the subnet does not depend on the limit.
        **({"subnet": subnet} if subnet is not None else {}),
        "nodes": plans_of(nodes),
    }


def plans_of(nodes: Sequence[Node]) -> dict[str, dict[str, Any]]:
    """Plan nodes, by name; each fabric is prepared once."""
    specs: dict[int, Sequence[Mapping[str, Any]]] = {}
    for node in nodes:
        if id(node.fabric) not in specs:
            specs[id(node.fabric)] = plan.rail_specs(node.fabric)
    return {node.name: _plan_of(node, specs[id(node.fabric)]) for node in nodes}


def list_absent_rails(nodes: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return rail -> the planned nodes that lack it by the inventory."""
    found: dict[str, list[str]] = {}
    for name, node in nodes.items():
        for rail in sorted(plan.absent_rails(node.get("rail_overrides"))):
            found.setdefault(rail, []).append(name)
    return found


def _plan_of(node: Node, specs: Sequence[Item]) -> dict[str, Any]:
    """Plan one node; unknown values are None, addresses are in CIDR form."""
    frontend = node.fabric.get("frontend") or {}
    return {
        "node_index": plan.node_number(node.name, node.node_index),
        "scalable_unit": node.scalable_unit,
        "ansible_host": node.ansible_host,
        "transport": node.fabric.get("transport"),
        "node_class": _setting(node, "node_class"),
        "frontend": {
            **{key: frontend.get(key) for key in ("netdev", "dhcp4", "address", "gateway")},
            "manage": bool(frontend.get("manage")),
        },
        "rails": plan.plan_node(
            node.fabric, node.name, node.node_index, node.scalable_unit, node.rail_overrides, specs
        ),
        "rail_overrides": node.rail_overrides or {},
        "networks": networks.plan_networks(node.fabric, node.name, node.node_index, node.network_addresses),
        "bmc_address": node.bmc_address,
        # Only where it is declared: otherwise GPUs are not checked.
        **({"gpus": dict(node.expected_gpus)} if node.expected_gpus is not None else {}),
        **({"nvlink_domain": str(node.nvlink_domain)} if node.nvlink_domain is not None else {}),
    }


def _setting(node: Node, key: str) -> str:
    return str(node.fabric.get(key) or DEFAULTS[key])


def _common(values: Iterable[Any]) -> Any:
    distinct = list(dict.fromkeys(values))
    return distinct[0] if len(distinct) == 1 else "mixed"
