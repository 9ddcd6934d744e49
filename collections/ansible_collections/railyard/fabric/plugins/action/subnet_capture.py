# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what subnet_info returned on the controller. Options are documented in modules/subnet_capture.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures


class ActionModule(DocumentedAction):
    """Check a capture and write its files."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `folder`."""
        host, folder = str(task_vars.get("inventory_hostname")), args["folder"]
        try:
            capture = captures.from_result(action_base.plain(args["capture"]), host)
            if not self._task.check_mode:
                captures.write(capture, folder)
        except captures.CaptureError as error:
            raise AnsibleActionFail(str(error)) from error
        except OSError as error:
            raise AnsibleActionFail(
                f"{folder} cannot be written: {error.strerror or error}. Make room, or name another folder"
            ) from error
        return {"changed": True, "folder": folder}
