# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's facts into the run folder. Options are documented in modules/fabric_inspect.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import intake
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction


class ActionModule(DocumentedAction):
    """Run rail_info on the node and append its facts row."""

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `inspected`; an unreachable node is unreachable, as with any module."""
        folder = action_base.open_folder(args["folder"])
        node = str(task_vars["inventory_hostname"])
        try:
            reply = self._execute_module(
                module_name="railyard.fabric.rail_info", module_args={"optics": True}, task_vars=task_vars
            )
        except AnsibleError as error:
            unreachable = isinstance(error, AnsibleConnectionFailure)
            kind = "node_unreachable" if unreachable else "not_inspected"
            action_base.record_node_error(folder, node, {"class": kind, "message": error})
            raise
        try:
            row = intake.facts_row(_facts(reply), node, folder.name)
        except ValueError as error:
            action_base.record_node_error(folder, node, {"class": "not_inspected", "message": error})
            return {"failed": True, "msg": f"{node}: {action_base.shorten(error)}"}
        try:
            folder.append(run_folder.FACTS, [row])
        except run_folder.RunFolderError as error:
            action_base.record_node_error(folder, node, {"class": "not_inspected", "message": error})
            raise AnsibleActionFail(str(error)) from error
        return {"inspected": True}


def _facts(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts in a module's reply.

    Raises:
        ValueError: there are none.
    """
    found = reply.get("rail_info")
    if reply.get("failed") or not isinstance(found, dict):
        words = reply.get("module_stderr") or reply.get("module_stdout") or ""
        raise ValueError(f"{reply.get('msg') or 'rail_info returned no facts'}\n{words}")
    return found
