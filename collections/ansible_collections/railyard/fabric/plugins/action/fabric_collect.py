# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch what a node measured. Options are documented in modules/fabric_collect.py."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleError
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.plugin_utils import actions, harvest, run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run_folder import RunFolder

_MODULE = "railyard.fabric.fabric_run"


class ActionModule(ActionBase):
    """End the run on the node, fetch its archive, append its rows, and clear the node."""

    _supports_check_mode = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `rows` (new in the folder), `archive` and `notes`; a node without a run gives none."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec(
            {
                "folder": {"type": "path", "required": True},
                "launcher": {"type": "str", "choices": ["systemd", "direct"], "default": "systemd"},
                "keep": {"type": "bool", "default": False},
            }
        )
        folder = actions.open_folder(args["folder"])
        node = str((task_vars or {})["inventory_hostname"])
        arguments = {"run": folder.name, "node": node, "launcher": args["launcher"]}
        try:
            reply = self._control("collected", arguments, task_vars)
        except AnsibleError as error:
            _note(folder, node, str(error))
            raise
        if reply.get("failed"):
            _note(folder, node, str(reply.get("msg")))
            return {**result, **reply}
        if not reply.get("archive"):
            return {
                **result,
                "changed": False,
                "rows": 0,
                "archive": None,
                "notes": ["the node holds nothing"],
            }
        try:
            place = self._fetch(str(reply["archive"]), folder, node)
            found = harvest.read(place, folder.name, node, reply.get("sha256"))
            fresh = folder.append_new(run_folder.RESULTS, found.rows)
        except (harvest.ArchiveError, run_folder.RunFolderError, OSError) as error:
            raise AnsibleActionFail(f"{node}: {error}") from error
        notes = list(found.notes)
        if not args["keep"]:
            # Only now, with the rows on our disk; a node that cannot be cleared has lost nothing.
            cleared = self._control("absent", arguments, task_vars)
            notes += [f"not cleared: {cleared.get('msg')}"] if cleared.get("failed") else []
        return {
            **result,
            "changed": False,
            "rows": fresh,
            "archive": str(place.relative_to(folder.path)),
            "notes": notes,
        }

    def _control(
        self, state: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        reply: dict[str, Any] = self._execute_module(
            module_name=_MODULE, module_args={"state": state, **arguments}, task_vars=task_vars
        )
        reply.pop("invocation", None)
        return reply

    def _fetch(self, remote: str, folder: RunFolder, node: str) -> Path:
        """Fetch a file that root alone can read, as a file and not inside a module's result.

        A copy is laid into the connection's own temporary folder, which only the connecting user can enter
        and which goes with it.
        """
        shell = self._connection._shell
        temporary = shell.tmpdir or self._make_tmp_path()
        readable = shell.join_path(temporary, "railyard.tar.gz")
        source, target_word, owner = (shlex.quote(word) for word in (remote, readable, temporary))
        copy = f"cp -- {source} {target_word} && chown --reference={owner} -- {target_word}"
        done = self._low_level_execute_command(copy, sudoable=True)
        if done.get("rc") != 0:
            raise AnsibleActionFail(f"{node}: {remote} cannot be made readable: {done.get('stderr') or done}")
        target = folder.path / "raw" / f"{node}.tar.gz"
        part = target.with_name(f".{target.name}.part")
        try:
            self._connection.fetch_file(readable, str(part))
            os.replace(part, target)
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
            self._remove_tmp_path(temporary)
        return target


def _note(folder: RunFolder, node: str, message: str) -> None:
    text = "; ".join(line.strip() for line in message.splitlines() if line.strip())
    error = {"class": "not_collected", "message": text.removeprefix(f"{node}: "), "host": node}
    with suppress(run_folder.RunFolderError):  # the failure itself is said all the same
        actions.note_obstacle(folder, node, error)
