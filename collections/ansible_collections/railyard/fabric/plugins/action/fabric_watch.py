# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Look how far a run is, once or until it is done, without a module. Options: modules/fabric_watch.py."""

from __future__ import annotations

import math
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils.runner import progress
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import waiting
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction

display = Display()


class ActionModule(DocumentedAction):
    """One exec request, two where the first is refused: the runner's state, its status, its lease."""

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return what `progress.read` says, of the last look where it waits."""
        self._node = str(task_vars.get("inventory_hostname"))
        run, wait = args["run"], args.get("wait")
        if wait is None:
            return self._seen(run)
        try:
            said = waiting.until_done(
                lambda: self._patiently(run, math.ceil(waiting.look_limit_s(wait["lease_s"]))),
                time.sleep,
                time.monotonic,
                wait["lease_s"],
                wait["deadline_s"],
                self._tell if args.get("tell") else lambda _line: None,
                lambda rails: self._tell(who_is_slow.so_far(self._node, rails)),
            )
        except waiting.MissedError as missed:
            # As Ansible knows it: a node that cannot be reached, or one that answers something else.
            if isinstance(missed.__cause__, AnsibleConnectionFailure):
                raise AnsibleConnectionFailure(str(missed)) from None
            why = str(missed).removeprefix(f"{self._node}: ")
            raise AnsibleActionFail(f"{self._node}: {why}") from None
        return dict(said)

    def _tell(self, line: str) -> None:
        display.display(plain_text.clean_line(line))

    def _patiently(self, run: str, limit_s: int) -> dict[str, Any]:
        """Look, but not for ever: a node may take a connection and hang."""
        try:
            with _within(limit_s):
                return self._seen(run)
        except TimeoutError as error:
            raise waiting.MissedError(f"it did not answer for {limit_s} s") from error
        except (AnsibleActionFail, AnsibleConnectionFailure) as error:
            raise waiting.MissedError(str(error)) from error

    def _seen(self, run: str) -> dict[str, Any]:
        try:
            words = shlex.join(progress.command(run))
            said = self._look(words, as_root=False)
            # Refused, or there is nothing yet to be seen: the lease is lost only when root says so.
            if not said["lease_renewed"] or not said["total_tests"]:
                said = self._look(words, as_root=True)
        except progress.LookError as error:
            raise AnsibleActionFail(f"{self._node}: {error}") from error
        return said

    def _look(self, words: str, as_root: bool) -> dict[str, Any]:
        done = self._low_level_execute_command(words, sudoable=as_root, in_data=progress.SCRIPT.encode())
        return progress.read(str(done.get("stdout", "")))


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in what takes longer; Ansible's own `timeout` is for a whole task."""

    def expire(_number: int, _frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
