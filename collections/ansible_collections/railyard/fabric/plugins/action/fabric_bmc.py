# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask the nodes' BMCs whether they are there. Options are documented in modules/fabric_bmc.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bmc
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import bmc_probe
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base, documents
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction


class ActionModule(DocumentedAction):
    """Ask every declared BMC from the controller, and write a result row for each."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `asked`, `answered` (numbers) and `silent` (nodes whose BMC did not answer)."""
        folder = action_base.open_folder(args["folder"])
        try:
            asked = documents.read_asked(folder)
            rules = policy.merge(folder.manifest().get("policy"))
            addresses = bmc.list_bmc_addresses(asked, folder.plan())
            started = run_folder.timestamp()
            replies = bmc_probe.ask(addresses, rules["bmc_tcp_ports"], float(rules["bmc_timeout_s"]))
            folder.append(
                run_folder.RESULTS,
                [
                    bmc.build_row(line, addresses[line["node"]], replies[line["node"]], folder.name, started)
                    for line in asked
                    if line["check"] == bmc.CHECK and line["node"] in replies
                ],
            )
        except (run_folder.RunFolderError, policy.PolicyError, KeyError, OSError) as error:
            raise AnsibleActionFail(f"The BMCs could not be checked: {error}") from error
        silent = [node for node, reply in replies.items() if reply.state != bmc_probe.ANSWERED]
        return {
            "asked": len(replies),
            "answered": len(replies) - len(silent),
            "silent": silent,
        }
