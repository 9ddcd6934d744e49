# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print one summary of what all nodes of a play reported. Options: modules/node_summary.py."""

from __future__ import annotations

from typing import Any

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base

display = Display()


class ActionModule(ActionBase):
    """Read one fact of each host of the play, once each, and print the lines."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `lines`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(
            {
                "fact": {"type": "str", "required": True, "choices": sorted(node_summary.KINDS)},
                "heading": {"type": "str", "required": True},
                "nothing": {"type": "str", "required": True},
            }
        )
        seen = task_vars or {}
        said: dict[str, list[str] | None] = {}
        # The one place that looks at other hosts: once a run, and each of them once.
        for host in seen.get("ansible_play_hosts_all", ()):
            facts = seen["hostvars"][host].get("ansible_facts") or {}
            known = args["fact"] in facts
            said[str(host)] = (
                node_summary.KINDS[args["fact"]](action_base.plain(facts[args["fact"]])) if known else None
            )
        lines = node_summary.fold_nodes(said)
        for line in [args["heading"], *lines] if lines else [args["nothing"]]:
            # A node's text must neither control the terminal nor look like a line of Railyard.
            display.display(plain_text.clean_line(line))
        return {**result, "changed": False, "lines": lines, "msg": args["heading" if lines else "nothing"]}
