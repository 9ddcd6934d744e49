# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Report QoS settings that role roce_qos will not request, as far as the inventory has literals. Pure.

The defaults are those of roles rdma_stack and roce_qos.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.qos import settings
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Item
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import literal
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named

VARIABLES = ("rdma_stack_provider", "roce_qos_dscp", "roce_qos_enabled", "roce_qos_not_asked")
_INBOX = ("ecn", "traffic_class")
#: Number of nodes that a sentence names.
_NAMED = 3


def traffic_class(inventory: Inventory) -> int | None:
    """Return the RoCE traffic class that role roce_qos sets on the nodes of a run.

    Returns:
        None where no node has QoS, where nodes differ, or where the inventory has an expression, which only
        the role resolves: declare `fabric_policy.rdma_traffic_class` then.
    """
    found = set(_traffic_classes(inventory).values())
    return found.pop() if len(found) == 1 else None


def default_class_note(rules: Mapping[str, Any], inventory: Inventory) -> str:
    """Return why RDMA is measured in the ports' default class although nodes have QoS; else an empty text.

    Args:
        rules: a merged policy.
        inventory: a validated one.
    """
    found = _traffic_classes(inventory)
    if rules["rdma_traffic_class"] is not None or not found or traffic_class(inventory) is not None:
        return ""
    unknown = [name for name, value in found.items() if value is None]
    why = "roce_qos_dscp differs between nodes"
    if unknown:
        why = f"{named(unknown, _NAMED)}: roce_qos_dscp or roce_qos_enabled is an expression"
    return (
        f"RDMA tests run in the ports' default class, not in that of role roce_qos ({why}). "
        "Fix: declare fabric_policy.rdma_traffic_class, which is DSCP times 4 plus 2"
    )


def _traffic_classes(inventory: Inventory) -> dict[str, int | None]:
    """Return node -> the traffic class that role roce_qos sets; None where it is unknown here."""
    found: dict[str, int | None] = {}
    for node in inventory.selected_nodes():
        if not isinstance(node.fabric, Mapping) or not _is_fabric_with_qos(node.fabric):
            continue
        enabled, dscp = node.qos.get("roce_qos_enabled", True), node.qos.get("roce_qos_dscp", 26)
        # A value of another type is an expression or an error, which the role reports.
        known = isinstance(dscp, int) and not isinstance(dscp, bool) and 0 <= dscp < settings.DSCP_VALUES
        if enabled is not False:
            found[node.name] = settings.traffic_class(dscp) if known and enabled is True else None
    return found


def with_traffic_class(rules: dict[str, Any], inventory: Inventory) -> dict[str, Any]:
    """Return a merged policy in which the traffic class is that of role roce_qos, unless it declares one."""
    key = "rdma_traffic_class"
    return {**rules, key: traffic_class(inventory)} if rules[key] is None else rules


def _is_fabric_with_qos(fabric: Item) -> bool:
    wanted = {"transport": "roce", "node_class": "hardware", "cabling": "switched"}
    return all(fabric.get(key, value) == value for key, value in wanted.items())


def plan(fabric: Item, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the input of `node_summary.describe_qos_plan`; empty where QoS is off or unknown here.

    Args:
        fabric: a valid fabric.
        variables: those of `VARIABLES` that the inventory sets.
    """
    names = _INBOX if variables.get("rdma_stack_provider", "inbox") == "inbox" else ()
    names = variables.get("roce_qos_not_asked", names)
    dscp = variables.get("roce_qos_dscp", 26)
    known = isinstance(names, (list, tuple)) and isinstance(dscp, int) and not any(literal(dict(variables)))
    enabled = variables.get("roce_qos_enabled", True) is True
    if not known or not enabled or not _is_fabric_with_qos(fabric):
        names, dscp = (), 0
    return {"reason": "", "not_asked": list(names), "traffic_class": settings.traffic_class(dscp)}
