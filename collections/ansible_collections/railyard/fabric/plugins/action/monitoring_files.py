# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Make the files of a monitoring host from the inventory. Options: modules/monitoring_files.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import rules, scrape, server
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction


class ActionModule(DocumentedAction):
    """Read the play's inventory raw, as `railyard monitoring` does; no connection is opened."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `files`."""
        given = load.plain(args)
        mode = given.pop("mode")
        settings = server.Settings(**given)
        least, most = scrape.INTERVAL_S
        if not least <= settings.scrape_interval_s <= most:
            raise AnsibleActionFail(
                f"monitoring_scrape_interval_s is {settings.scrape_interval_s}. "
                f"Fix: write seconds from {least} to {most}: with more, alerts on rates never fire"
            )
        inventory = load.from_play(self._task.get_variable_manager()._inventory, self._loader)
        try:
            if mode == "export":
                made = server.export_files(inventory, settings)
            else:
                made = server.server_files(inventory, settings, server.base_of(inventory.sources))
        except rules.RulesError as error:
            raise AnsibleActionFail(f"{error}. Fix: correct the variables of role monitoring") from error
        except (OSError, UnicodeDecodeError, KeyError) as error:
            raise AnsibleActionFail(
                f"a file of monitoring cannot be made: {error}. Fix: see its README"
            ) from error
        return {
            "files": [*made.files.values(), *made.secrets.values()],
            # Never in the output, whatever the verbosity: secrets are in it.
            "_ansible_no_log": True,
        }
