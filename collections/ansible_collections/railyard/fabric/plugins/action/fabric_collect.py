# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fetch what a node measured. Options are documented in modules/fabric_collect.py."""

from __future__ import annotations

import os
import posixpath
import resource
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure, AnsibleError
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils.runner import control
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive as harvest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits, intake
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

_MODULE = "railyard.fabric.fabric_run"

display = Display()


class ActionModule(DocumentedAction):
    """End the run on the node, fetch its archive, append its rows, and clear the node."""

    _supports_check_mode = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `rows` (new in the folder), `archive` and `notes`; a node without a run gives none."""
        folder = action_base.open_folder(args["folder"])
        node = str(task_vars["inventory_hostname"])
        arguments = {"run": folder.name, "node": node, "launcher": args["launcher"]}
        try:
            taken = self._collect(folder, node, arguments, task_vars)
        except (AnsibleError, harvest.ArchiveError, run_folder.RunFolderError, OSError) as error:
            said = action_base.shorten(error).removeprefix(f"{node}: ")
            action_base.record_node_error(folder, node, {"class": "not_collected", "message": said})
            if isinstance(error, AnsibleConnectionFailure):
                raise
            raise AnsibleActionFail(f"{node}: {said}") from None
        if taken is None:
            notes = ["the node holds nothing"]
            return {"rows": 0, "archive": None, "notes": notes}
        fresh, notes = taken
        if not args["keep"]:
            # Only now, with the rows on our disk; a node that cannot be cleared has lost nothing.
            cleared = self._control("absent", arguments, task_vars)
            notes += (
                [f"not cleared: {action_base.shorten(cleared.get('msg'))}"] if cleared.get("failed") else []
            )
        for note in notes:
            display.warning(f"{node}: {note}")
        archive = str(intake.archive_path(folder, node).relative_to(folder.path))
        return {"rows": fresh, "archive": archive, "notes": notes}

    def _collect(
        self,
        folder: RunFolder,
        node: str,
        arguments: dict[str, Any],
        task_vars: dict[str, Any] | None,
    ) -> tuple[int, list[str]] | None:
        """Take the node's rows into the folder; return how many were new, and notes; None for none."""
        reply = self._control("collected", arguments, task_vars)
        if reply.get("failed"):
            raise AnsibleActionFail(action_base.shorten(reply.get("msg")))
        if not reply.get("archive"):
            return None
        try:
            most = archive_limits.of_node(folder.orders(), node)
        except (KeyError, ValueError) as error:
            raise harvest.ArchiveError(
                f"the test schedule in {folder.path} has no tests of it: {error}"
            ) from error
        # Its rows follow its archive: where there was none, none of them is there to be looked for.
        again = intake.archive_path(folder, node).exists()
        self._fetch(folder, node, most.total_bytes)
        return intake.take_archive(folder, node, reply.get("sha256"), most, again)

    def _control(
        self, state: str, arguments: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        reply: dict[str, Any] = self._execute_module(
            module_name=_MODULE, module_args={"state": state, **arguments}, task_vars=task_vars
        )
        reply.pop("invocation", None)
        return reply

    def _fetch(self, folder: RunFolder, node: str, most_bytes: int) -> None:
        """Fetch a file that root alone can read, as a file and not inside a module's result.

        A copy is laid into the connection's own temporary folder, which only the connecting user can enter
        and which goes with it.
        """
        shell = self._connection._shell
        temporary = shell.tmpdir or self._make_tmp_path()
        readable = shell.join_path(temporary, "railyard.tar.gz")
        remote = posixpath.join(control.STATE_FOLDER, "runs", folder.name, f"{node}.tar.gz")
        source, target_word, owner = (shlex.quote(word) for word in (remote, readable, temporary))
        copy = f"cp -- {source} {target_word} && chown --reference={owner} -- {target_word}"
        done = self._low_level_execute_command(copy, sudoable=True)
        if done.get("rc") != 0:
            raise AnsibleActionFail(f"{remote} cannot be made readable: {done.get('stderr') or done}")
        target = intake.archive_path(folder, node)
        part = target.with_name(f".{target.name}.part")
        try:
            with _confined(most_bytes):
                self._connection.fetch_file(readable, str(part))
            os.chmod(part, 0o600)  # scp sets the mode that the node chose
            os.replace(part, target)
        except (AnsibleError, OSError) as error:
            if part.exists() and part.stat().st_size >= most_bytes:
                raise harvest.ArchiveError(
                    f"its archive is longer than {most_bytes} bytes, more than its tests can produce"
                ) from error
            raise
        finally:
            with suppress(FileNotFoundError):
                part.unlink()
            self._remove_tmp_path(temporary)


@contextmanager
def _confined(most_bytes: int) -> Iterator[None]:
    """Let no file grow beyond a size, or be read by others, that is written in here or by what is started."""
    mask = os.umask(0o077)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    soft = most_bytes if limits[0] == resource.RLIM_INFINITY else min(most_bytes, limits[0])
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        os.umask(mask)
