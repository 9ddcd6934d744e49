# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stage a run's test schedule and the runner on a node. Options: modules/fabric_stage.py."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ansible import constants, context
from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction

_MODULE = "railyard.fabric.fabric_run"
# A run whose controller was killed leaves its lease behind, for 90 s by default; longer ones are refused.
_LEASE_PATIENCE_S = 95.0
_LEASE_PAUSE_S = 3.0

display = Display()


class ActionModule(DocumentedAction):
    """Upload the runner where it is missing, and the node's test schedule."""

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `program_sha256`, `uploaded`, `controller`, `lease_s` and `deadline_s`."""
        folder = action_base.open_folder(args["folder"])
        node = str(task_vars["inventory_hostname"])
        try:
            order = orders.Orders(folder).build(node)
        except orders.OrderError as problem:
            raise AnsibleActionFail(str(problem)) from problem
        runner, sha256 = orders.program()
        deadline_s = int(main.worst_case_s(order))
        forks = int(context.CLIARGS.get("forks") or constants.DEFAULT_FORKS)
        arguments = {
            "state": "staged",
            "run": folder.name,
            "node": node,
            "controller": orders.controller_name(),
            "lease_s": lease_s(order, deadline_s, forks),
            "launcher": args["launcher"],
            "work_order": work_order.pack(order),
            "program_sha256": sha256,
        }
        reply = self._stage(arguments, task_vars)
        uploaded = False
        if reply.get("program_needed") and not reply.get("failed"):
            arguments["program_source"] = self._upload(runner)
            reply = self._execute_module(module_name=_MODULE, module_args=arguments, task_vars=task_vars)
            uploaded = True
        failure = {}
        if reply.get("failed"):
            message = action_base.shorten(reply.get("msg"))
            failure = {"failed": True, "msg": message}
            error = reply.get("error")
            if not isinstance(error, dict):
                error = {"class": "not_staged", "message": message.removeprefix(f"{node}: ")}
            action_base.record_node_error(folder, node, error)
        # Nothing else of the reply: Ansible would take facts for the node from it.
        return {
            **failure,
            "changed": bool(reply.get("changed")) or uploaded,
            "uploaded": uploaded,
            "program_sha256": sha256,
            "controller": arguments["controller"],
            "lease_s": arguments["lease_s"],
            # Calculated here: a node that chose its time limit could block the controller.
            "deadline_s": deadline_s,
        }

    def _stage(self, arguments: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Stage; while a run holds the node whose controller shows no life, wait for its lease to end.

        A lease that is renewed meanwhile has a living controller, and is refused at once.
        """
        left_s = patience_s = None
        while True:
            reply: dict[str, Any] = self._execute_module(
                module_name=_MODULE, module_args=arguments, task_vars=task_vars
            )
            now_left_s = reply.get("lease_left_s") if reply.get("failed") else None
            now_left_s = now_left_s if policy.is_number(now_left_s) else None
            renewed = left_s is not None and now_left_s is not None and now_left_s > left_s
            if now_left_s is None or renewed or (patience_s is not None and patience_s <= 0):
                return reply
            if patience_s is None:
                patience_s = min(float(now_left_s), _LEASE_PATIENCE_S) + _LEASE_PAUSE_S
                display.display(
                    f"{arguments['node']}: another run holds it; waiting up to {patience_s:.0f} s for its end"
                )
            left_s = now_left_s
            time.sleep(_LEASE_PAUSE_S)
            patience_s -= _LEASE_PAUSE_S

    def _upload(self, data: bytes) -> str:
        """Upload the runner into a folder that Ansible removes at the end; return its path."""
        folder = self._connection._shell.tmpdir or self._make_tmp_path()
        remote = self._connection._shell.join_path(folder, "runner.pyz")
        self._transfer_data(remote, data)
        self._fixup_perms2((folder, remote))
        return str(remote)


def lease_s(order: Mapping[str, Any], deadline_s: int, forks: int) -> int:
    """Return how long a node goes on without being looked at.

    Args:
        order: the run's test schedule.
        deadline_s: after so long the node is certainly done.
        forks: so many nodes are looked at while they measure; of more, some only when others are done.
    """
    least_s = int(order["policy"]["lease_s"])
    return least_s if len(order["roster"]) <= forks else max(least_s, deadline_s)
