# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Refuse a wrong inventory before any node is touched; documented in plugins/modules/preflight.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.plugin_utils import inventory as fabric_inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import Inventory, Problem

# What the plan is made of: it has to come from the inventory, where `railyard plan` reads it too.
_INVENTORY_ONLY = ("fabric", "node_index", "scalable_unit", "rail_overrides")


def check_extra_variables(extra: Mapping[str, Any]) -> list[Problem]:
    """Refuse as extra variables what the plan is made of: neither the plan nor another run would see it."""
    fix = "write it into the inventory (group_vars/all/fabric.yml, or the host's variables)"
    return [
        Problem(
            "-e",
            None,
            None,
            f"{name}: given as an extra variable, which `railyard plan` cannot see",
            fix,
        )
        for name in _INVENTORY_ONLY
        if name in extra
    ]


def check_what_the_play_sees(inventory: Inventory, name: str, seen: Mapping[str, Any]) -> list[Problem]:
    """Compare what the play sees on one host with the inventory: vars or set_fact may lie over it."""
    nodes = {node.name: node for node in inventory.nodes}
    if name not in nodes:
        return []
    fix = "set it in the inventory alone, not by vars, vars_files, set_fact or group_vars beside a playbook"
    return [
        Problem(key, name, None, f"{key}: the play sees another value than the inventory holds", fix)
        for key in _INVENTORY_ONLY
        if fabric_inventory.plain(seen.get(key)) != getattr(nodes[name], key)
    ]


class ActionModule(ActionBase):
    """Validate the inventory of the running play, all hosts at once."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _VALID_ARGS = frozenset[str]()

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `nodes` and `problems`, failed when there are any; see the module's RETURN."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        manager = self._task.get_variable_manager()
        seen = task_vars or {}
        inventory = fabric_inventory.from_play(manager._inventory, self._loader)
        problems = check_extra_variables(manager.extra_vars)
        if not problems:
            problems = check_what_the_play_sees(inventory, str(seen.get("inventory_hostname", "")), seen)
        problems += fabric_inventory.validate(inventory)
        result["changed"] = False
        result["nodes"] = len(inventory.selected)
        result["problems"] = [
            {"file": one.file, "host": one.host, "rail": one.rail, "message": one.message, "fix": one.fix}
            for one in problems
        ]
        if problems:
            lines = [f"{len(problems)} problem(s) in the inventory; no node was touched:"]
            lines += [f"{number}. {problem.text()}" for number, problem in enumerate(problems, start=1)]
            result["failed"] = True
            result["msg"] = "\n".join(lines)
        else:
            result["msg"] = f"The inventory is sound: {len(inventory.selected)} nodes."
        return result
