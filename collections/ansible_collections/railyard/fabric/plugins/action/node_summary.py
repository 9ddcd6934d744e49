# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print one summary of what all nodes of a play reported. Options: modules/node_summary.py."""

from __future__ import annotations

from typing import Any

from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction

display = Display()


class ActionModule(DocumentedAction):
    """Read one fact of each host of the play, once each, and print the lines."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `lines`."""
        said: dict[str, list[str] | None] = {}
        # The one place that looks at other hosts: once a run, and each of them once.
        for host in task_vars.get("ansible_play_hosts_all", ()):
            facts = task_vars["hostvars"][host].get("ansible_facts") or {}
            known = args["fact"] in facts
            said[str(host)] = (
                node_summary.KINDS[args["fact"]](action_base.plain(facts[args["fact"]])) if known else None
            )
        lines = node_summary.fold_nodes(said)
        for line in [args["heading"], *lines] if lines else [args["nothing"]]:
            # A node's text must neither control the terminal nor look like a line of Railyard.
            display.display(plain_text.clean_line(line))
        return {"lines": lines, "msg": args["heading" if lines else "nothing"]}
