# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the test plan before anything is measured. Options: modules/fabric_ask.py."""

from __future__ import annotations

import socket
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders, pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import expected
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import management
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base, one_machine
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction


class ActionModule(DocumentedAction):
    """Write asked.jsonl and the common part of the test schedule from plan, facts and policy."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `asked` (a number) and `absent` (nodes that did not answer)."""
        folder = action_base.open_folder(args["folder"])
        nodes = action_base.play_inventory(self).selected_nodes()
        fabrics = {node.name: node.fabric for node in nodes}
        try:
            plan = folder.plan()
            facts, _torn = folder.rows(run_folder.FACTS)
            for node, other in one_machine.find(plan["nodes"], facts).items():
                raise requests.AskError(one_machine.explain(node, other))
            order = requests.work_order(
                folder.name,
                plan,
                action_base.plain(fabrics),
                folder.manifest()["policy"],
                [str(row.get("node")) for row in facts],
                args["rails"] or None,
                management.entries(nodes, plan, facts, addresses_of),
            )
            order["bounds"] = expected.find_expected_numbers(plan, facts, folder.name, order["policy"])
            lines = requests.asked_lines(plan, order)
            asked = "".join(run_folder.line(line) + "\n" for line in lines)
            folder.write(run_folder.ASKED, asked)
            folder.write(run_folder.WORK_ORDER, run_folder.pretty(order))
            own_orders.keep(folder, plan, facts, order)
            coverage = pattern.coverage(plan, lines)
            folder.update_manifest(asked=requests.fingerprint_of(asked), coverage=coverage)
        except (run_folder.RunFolderError, requests.AskError, ValueError) as error:
            raise AnsibleActionFail(str(error)) from error
        return {
            "asked": len(lines),
            "absent": order["absent"],
        }


def addresses_of(name: str) -> list[str]:
    """Return the addresses that a name has to the controller; none where it is unknown."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
