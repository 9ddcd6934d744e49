# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Format what nodes reported as text: equal nodes are folded into one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load

# How to confirm an item, by what it needs.
_CONFIRM = {
    "reboot": "playbooks/reboot.yml -e railyard_allow_reboot=true -e railyard_reboot_only_waiting=true",
    "module_restart": "playbooks/drivers.yml with the role's ..._allow_restart=true, or a reboot",
}


def describe_waits(waits: Sequence[Mapping[str, Any]]) -> list[str]:
    """List what waits on a node: one line per item, with the option that confirms it."""
    return [f"{one['topic']}: {one['what']}: {one['why']}. Confirm with {_confirm(one)}" for one in waits]


def _confirm(item: Mapping[str, Any]) -> str:
    needs = str(item["needs"])
    if needs.startswith("consent:"):
        return f"-e {needs.partition(':')[2]}=true"
    return _CONFIRM[needs]


def describe_driver_plan(plan: Mapping[str, Any]) -> list[str]:
    """Describe what installing the drivers would change; empty where it would change nothing."""
    come = [f"{one['name']} {one['to']}" for one in plan.get("install", ()) if not one.get("from")]
    lines = [f"apt installs {', '.join(come)}"] if come else []
    lines += [
        f"apt moves {one['name']} from {one['from']} to {one['to']}"
        for one in plan.get("install", ())
        if one.get("from")
    ]
    lines += [f"apt REMOVES {name}" for name in plan.get("remove", ())]
    if plan.get("problem"):
        lines.append(f"apt cannot plan {', '.join(plan.get('missing', ()))} yet: {plan['problem']}")
    lines += [f"REFUSED: {one}" for one in plan.get("refused", ())]
    return lines + [f"afterwards: {one}" for one in plan.get("needs", ())] + list(plan.get("notes", ()))


def describe_uninstall(plan: Mapping[str, Any]) -> list[str]:
    """Describe what restoring a node would change; empty where it would change nothing."""
    lines = [f"reverted by {one}" for one in plan.get("by_roles", ())]
    if plan.get("remove_packages"):
        lines.append(f"apt purges {', '.join(plan['remove_packages'])}")
    if plan.get("remove_users"):
        lines.append(f"system users that packages left behind are removed: {', '.join(plan['remove_users'])}")
    lines += [f"package {one['name']} stays: {one['why']}" for one in plan.get("keep_packages", ())]
    lines += [f"package {name} is no longer held" for name in plan.get("unhold", ())]
    lines += [
        f"package {one['name']} stays at {one['is']}; it was {one['was']}"
        for one in plan.get("moved_packages", ())
    ]
    lines += [
        f"package {one['name']} {one['was']} was replaced and does not come back: install it again by hand"
        for one in plan.get("gone_packages", ())
    ]
    lines += [f"file {path} is removed" for path in plan.get("remove_files", ())]
    lines += [f"file {one['path']} is restored" for one in plan.get("restore_files", ())]
    lines += [f"file {one['path']} stays: {one['why']}" for one in plan.get("keep_files", ())]
    lines += [f"unit {one['unit']} is restored" for one in plan.get("units", ())]
    return lines + [f"afterwards: {one}" for one in plan.get("needs", ())]


def describe_qos_plan(plan: Mapping[str, Any]) -> list[str]:
    """Describe which RoCE QoS settings the driver cannot set, and the consequence; empty if it sets all."""
    if plan["reason"]:
        return [str(plan["reason"])]
    names = plan["not_asked"]
    parts = [f"{', '.join(names)} not requested from the driver, which cannot set it (roce_qos_not_asked)"]
    parts += ["the cards' firmware decides on ECN"] if "ecn" in names else []
    if "traffic_class" in names:
        parts.append(
            "applications mark their packets themselves, NCCL by "
            f"NCCL_IB_TC={plan['traffic_class']} (role nccl_profile)"
        )
    return ["; ".join(parts)] if names else []


#: Fact -> the function that formats it.
KINDS: dict[str, Callable[[Any], list[str]]] = {
    "railyard_waits": describe_waits,
    "railyard_driver_plan": describe_driver_plan,
    "roce_qos_plan": describe_qos_plan,
    "railyard_uninstall_plan": describe_uninstall,
}


def fold_nodes(reported: Mapping[str, Sequence[str] | None]) -> list[str]:
    """Return all lines; nodes with equal lines are folded.

    Args:
        reported: node -> its lines; None for a node that did not answer.
    """
    groups: dict[tuple[str, ...] | None, list[str]] = {}
    for node, lines in reported.items():
        groups.setdefault(None if lines is None else tuple(lines), []).append(node)
    text = []
    for lines, nodes in groups.items():
        name = load.fold(nodes) or ", ".join(nodes)
        if lines is None:
            text.append(f"{name}: not checked, since an earlier step failed or the node did not answer")
        elif lines:
            text.append(f"{name}:")
            text += [f"  {line}" for line in lines]
    return text
