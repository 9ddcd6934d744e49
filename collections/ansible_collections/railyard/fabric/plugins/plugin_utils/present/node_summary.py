# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nodes said of themselves, as lines for a person: equal nodes are folded into one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load

# What consents to an item, by what it needs.
_CONSENT = {
    "reboot": "playbooks/reboot.yml -e railyard_allow_reboot=true -e railyard_reboot_only_waiting=true",
    "module_restart": "playbooks/drivers.yml with the role's ..._allow_restart=true, or a reboot",
}


def waits_lines(waits: Sequence[Mapping[str, Any]]) -> list[str]:
    """Say what waits on a node: one line an item, with what consents to it."""
    return [f"{item['topic']}: {item['what']}: {item['why']}. {_consent(item)}" for item in waits]


def _consent(item: Mapping[str, Any]) -> str:
    needs = str(item["needs"])
    if needs.startswith("consent:"):
        return f"Consent: -e {needs.partition(':')[2]}=true"
    return f"Consent: {_CONSENT[needs]}"


def driver_plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Say what installing the drivers would do; nothing where it would do nothing."""
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


def uninstall_lines(plan: Mapping[str, Any]) -> list[str]:
    """Say what returning a node to its originals would do; nothing where it would do nothing."""
    lines = [f"taken back by {one}" for one in plan.get("by_roles", ())]
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
    lines += [f"file {one['path']} is as it was before" for one in plan.get("restore_files", ())]
    lines += [f"file {one['path']} stays: {one['why']}" for one in plan.get("keep_files", ())]
    lines += [f"unit {one['unit']} is as it was before" for one in plan.get("units", ())]
    return lines + [f"afterwards: {one}" for one in plan.get("needs", ())]


def qos_plan_lines(plan: Mapping[str, Any]) -> list[str]:
    """Say what of RoCE's QoS is not asked of a node, and what follows; nothing where all of it is."""
    if plan["reason"]:
        return [str(plan["reason"])]
    names = plan["not_asked"]
    parts = [f"{', '.join(names)} not asked of the driver, which has no way to set it (roce_qos_not_asked)"]
    parts += ["the cards' firmware decides on ECN"] if "ecn" in names else []
    if "traffic_class" in names:
        parts.append(
            "applications mark their packets themselves, NCCL by "
            f"NCCL_IB_TC={plan['traffic_class']} (role nccl_profile)"
        )
    return ["; ".join(parts)] if names else []


#: Fact to how it is said.
KINDS: dict[str, Callable[[Any], list[str]]] = {
    "railyard_waits": waits_lines,
    "railyard_driver_plan": driver_plan_lines,
    "roce_qos_plan": qos_plan_lines,
    "railyard_uninstall_plan": uninstall_lines,
}


def folded(said: Mapping[str, Sequence[str] | None]) -> list[str]:
    """Return all lines, nodes with the same ones together.

    Args:
        said: Node to its lines; None for one that did not answer.
    """
    groups: dict[tuple[str, ...] | None, list[str]] = {}
    for node, lines in said.items():
        groups.setdefault(None if lines is None else tuple(lines), []).append(node)
    text = []
    for lines, nodes in groups.items():
        name = load.fold(nodes) or ", ".join(nodes)
        if lines is None:
            text.append(f"{name}: not asked, since an earlier step failed or the node did not answer")
        elif lines:
            text.append(f"{name}:")
            text += [f"  {line}" for line in lines]
    return text
