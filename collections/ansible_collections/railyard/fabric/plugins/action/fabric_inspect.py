# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's facts into the run folder. Options are documented in modules/fabric_inspect.py."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.plugin_utils import actions, run_folder

_MESSAGE_CHARACTERS = 400


class ActionModule(ActionBase):
    """Run rail_info on the node and append its facts row."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `inspected`; an unreachable node is unreachable, as with any module."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec({"folder": {"type": "path", "required": True}})
        folder = actions.open_folder(args["folder"])
        node = str((task_vars or {})["inventory_hostname"])
        try:
            reply = self._execute_module(
                module_name="railyard.fabric.rail_info", module_args={}, task_vars=task_vars
            )
        except AnsibleError as error:
            unreachable = isinstance(error, AnsibleConnectionFailure)
            self._note(folder, node, "node_unreachable" if unreachable else "not_inspected", str(error))
            raise
        if reply.get("failed") or not isinstance(reply.get("rail_info"), dict):
            reply.setdefault("msg", f"{node}: rail_info returned no facts")
            said = reply.get("module_stderr") or reply.get("module_stdout") or ""
            self._note(folder, node, "not_inspected", f"{reply['msg']}\n{said}")
            return {**result, **reply, "failed": True}
        row = actions.plain(reply["rail_info"])
        # The inventory's name is the one that the plan knows; the node may call itself otherwise.
        row = {**row, "hostname": row.get("node"), "node": node, "run": folder.name}
        try:
            folder.append_new(run_folder.FACTS, [row])
        except run_folder.RunFolderError as error:
            raise AnsibleActionFail(str(error)) from error
        return {**result, "changed": False, "inspected": True}

    def _note(self, folder: run_folder.RunFolder, node: str, kind: str, message: str) -> None:
        # One line, and the end of it: ssh and the shell say last what went wrong.
        text = "; ".join(line.strip() for line in message.splitlines() if line.strip())[-_MESSAGE_CHARACTERS:]
        with suppress(run_folder.RunFolderError):  # what failed matters more than that it cannot be noted
            actions.note_obstacle(folder, node, {"class": kind, "message": text, "host": node})
