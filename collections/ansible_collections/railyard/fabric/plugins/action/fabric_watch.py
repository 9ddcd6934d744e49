# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look how far a run is, without starting a module on the node. Options: modules/fabric_watch.py."""

from __future__ import annotations

import shlex
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.module_utils.runner import progress


class ActionModule(ActionBase):
    """One exec request, two where the first is refused: the runner's state, its status, its lease."""

    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what `progress.read` says."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec({"run": {"type": "str", "required": True}})
        try:
            words = shlex.join(progress.command(args["run"]))
            said = self._look(words, as_root=False)
            # Refused, or there is nothing yet to be seen: the lease is lost only when root says so.
            if not said["lease_renewed"] or not said["total_tests"]:
                said = self._look(words, as_root=True)
        except progress.LookError as error:
            node = (task_vars or {}).get("inventory_hostname")
            raise AnsibleActionFail(f"{node}: {error}") from error
        return {**result, "changed": False, **said}

    def _look(self, words: str, as_root: bool) -> dict[str, Any]:
        done = self._low_level_execute_command(words, sudoable=as_root, in_data=progress.SCRIPT.encode())
        return progress.read(str(done.get("stdout", "")))
