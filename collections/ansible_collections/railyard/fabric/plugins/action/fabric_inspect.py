# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's facts into the run folder. Options are documented in modules/fabric_inspect.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.plugin_utils import actions, run_folder


class ActionModule(ActionBase):  # type: ignore[misc]
    """Run rail_info on the node and append its facts row."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `inspected`; an unreachable node is unreachable, as with any module."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec({"folder": {"type": "path", "required": True}})
        folder = actions.open_folder(args["folder"])
        node = str((task_vars or {})["inventory_hostname"])
        reply = self._execute_module(
            module_name="railyard.fabric.rail_info", module_args={}, task_vars=task_vars
        )
        if reply.get("failed") or not isinstance(reply.get("rail_info"), dict):
            reply.setdefault("msg", f"{node}: rail_info returned no facts")
            return {**result, **reply, "failed": True}
        row = actions.plain(reply["rail_info"])
        # The inventory's name is the one that the plan knows; the node may call itself otherwise.
        row = {**row, "hostname": row.get("node"), "node": node, "run": folder.name}
        try:
            folder.append_new(run_folder.FACTS, [row])
        except run_folder.RunFolderError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": False, "inspected": True}
