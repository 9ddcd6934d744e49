# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keep what subnet_info returned on the controller. Options are documented in modules/subnet_capture.py."""

from __future__ import annotations

from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures


class ActionModule(ActionBase):
    """Check a capture and write its files."""

    TRANSFERS_FILES = False
    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `folder`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(
            {"capture": {"type": "dict", "required": True}, "folder": {"type": "path", "required": True}}
        )
        host, folder = str((task_vars or {}).get("inventory_hostname")), args["folder"]
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
        return {**result, "changed": True, "folder": folder}
