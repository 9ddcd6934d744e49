# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Apply a node's rails, and prove over a connection made afterwards that the node can still be reached.

The proof must come from here: a connection that was open before the change lives on through a change that
locks everybody else out, and only the controller can open a new one.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

from ansible import constants
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import peers as netplan_peers
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore
from ansible_collections.railyard.fabric.plugins.modules import netplan_stage

MODULE = "railyard.fabric.netplan_stage"
# ssh takes the first value of an option, so these win over whatever multiplexing the user has set.
FRESH_SSH_ARGS = "-o ControlMaster=no -o ControlPath=none"
# What each further attempt waits for sshd, and for sudo behind it. The first is short, so that a cut-off node
# is noticed soon; were all as short, a node too busy to answer within it could never prove itself.
# A site that gives its nodes longer than the default of `rollback_after_s` has slow ones: each attempt then
# waits longer in the same ratio, since an attempt that is given up costs such a node all of its work so far.
CONNECT_TIMEOUTS_S = (5, 10, 20)
_USUAL_ROLLBACK_S = 120
SUDO_PER_CONNECT_TIMEOUT = 2
# The undo has its own patience (netplan_transaction) after the deadline; then the node gets time to answer.
GRACE_S = 40
PAUSE_S = 1.0
# Between two looks at a change that another controller left open, and what its promised end may be late by.
IN_FLIGHT_PAUSE_S = 4.0
PATIENCE_SLACK_S = 10.0
# Nodes confirmed in this run, as peers for those that follow; only the first ones are used.
_COMMITTED = "railyard-committed.jsonl"
_COMMITTED_READ = 8

# What the node's shell and Python say when there is no room; tempfile tries its folders and then names none.
_FULL = ("No space left on device", "No usable temporary directory found in")
# As coreutils and Python quote it, in any locale.
_QUOTED_PATH = re.compile(r"['\u2018\"](/[^'\u2019\"]*)['\u2019\"]")
_ANSIBLES_FOLDERS = "the temporary folders and of the login user's ~/.ansible/tmp"

display = Display()


def connect_timeouts_s(rollback_after_s: float) -> list[int]:
    """Return what each attempt waits, longer where the change has longer than usual to prove itself."""
    ratio = max(1.0, rollback_after_s / _USUAL_ROLLBACK_S)
    return [math.ceil(usual_s * ratio) for usual_s in CONNECT_TIMEOUTS_S]


def fresh_ssh_args(user_args: str | None, connect_timeout_s: int) -> str:
    """Return ssh arguments that open a connection of its own, the user's other ones (a jump host) kept."""
    return f"{FRESH_SSH_ARGS} -o ConnectTimeout={connect_timeout_s} {user_args or ''}".strip()


def failure_text(node: str, answer: dict[str, Any], unreachable: str | None) -> str:
    """Say what became of a change that did not stay.

    Args:
        node: the node's name.
        answer: the module's last answer, `{}` when there was none.
        unreachable: ssh's last complaint while the change waited for its proof, or None.
    """
    why = list(answer.get("proof_problems") or [])
    if unreachable:
        why.append(f"no fresh SSH connection could be made after the change: {unreachable}")
    if not why and answer.get("reason") == "not confirmed":
        # The connection broke no earlier than the undo, which then brought it back: ssh has no complaint.
        why.append("no confirmation reached the node: after the change, it could not be talked to")
    elif not why and answer.get("reason"):
        why.append(str(answer["reason"]))
    head = f"{node}: the rails' network change did not prove itself"
    body = "".join(f"\n  {line}" for line in why)
    if answer.get("outcome") != "rolled_back":
        tail = (
            "the node has not answered since; its timer undoes the change without us. "
            "On its console: journalctl -u 'railyard-rail-network-*'"
        )
    elif answer.get("equal"):
        tail = "the node has undone it: files and running network are as before"
    else:
        left = "; ".join(answer.get("differences") or [])
        tail = f"the node has undone it, but this could not be brought back: {left}"
    return f"{head}:{body}\n  {tail}."


def full_disk_text(node: str, said: str) -> str | None:
    """Return that a node's disk was full before the change began, or None where the error is another one.

    Ansible lays a module on the node's disk before it can run, and where that fails it shows a traceback, or
    calls the node unreachable.

    Args:
        node: the node's name.
        said: all that came back instead of the module's answer.
    """
    line = next((one.strip() for one in said.splitlines() if any(words in one for words in _FULL)), None)
    if line is None:
        return None
    found = _QUOTED_PATH.search(line)
    where = found[1] if found else _ANSIBLES_FOLDERS
    return (
        f"{node}: the disk is full, or cannot be written: {line}; nothing was changed. "
        f"Make room on the disk of {where} (`df -h` on the node tells which is full), then run again"
    )


def committed_in_this_run(folder: str | None = None) -> list[dict[str, Any]]:
    """Return the first nodes that this run of Ansible has confirmed, `{"node", "rails"}` each.

    A file of the run's own temporary folder, which all of its workers share and Ansible removes at its end.
    Only its beginning is read, so that the controller's work stays linear in nodes.
    """
    path = os.path.join(folder or str(constants.DEFAULT_LOCAL_TMP), _COMMITTED)
    try:
        with open(path, encoding="utf-8") as handle:
            lines = [handle.readline() for _turn in range(_COMMITTED_READ)]
    except OSError:
        return []
    return [json.loads(line) for line in lines if line.endswith("\n")]


def remember_committed(node: str, rails: list[dict[str, Any]], folder: str | None = None) -> None:
    """Append a node whose change was confirmed, in one write: other workers append, too."""
    row = {
        "node": node,
        "rails": [{key: rail.get(key) for key in ("name", "address", "mtu")} for rail in rails],
    }
    path = os.path.join(folder or str(constants.DEFAULT_LOCAL_TMP), _COMMITTED)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with open(descriptor, "wb", buffering=0) as handle:
        handle.write((json.dumps(row) + "\n").encode())


def _said_once(findings: Sequence[str], before: Sequence[str] = ()) -> list[str]:
    """Warn of each new finding, and return them.

    A rail without carrier is seen before the change and after it, and netplan repeats itself at each step.
    """
    fresh = [one for one in dict.fromkeys(findings) if one not in before]
    for finding in fresh:
        display.warning(finding)
    return fresh


class ActionModule(ActionBase):
    """Run netplan_stage twice: over the connection we have, and over one made after the change."""

    TRANSFERS_FILES = False

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Stage, wait for the proof over fresh connections, and report what stayed."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _validated, args = self.validate_argument_spec(argument_spec=netplan_stage.CHANGE)
        node = (task_vars or {}).get("inventory_hostname", "node")
        staged = self._stage({"state": "staged", "node": node, **args}, task_vars)
        findings = _said_once(staged.get("findings", []))
        result.update(staged, findings=findings)
        if result.get("failed") or "token" not in staged:
            return result
        peers = netplan_peers.chosen(args["rails"], committed_in_this_run())
        question = {"node": node, "token": staged["token"], "peers": peers}
        answer, unreachable = self._await(question, args["rollback_after_s"], task_vars)
        result["findings"] = findings + _said_once(answer.get("findings", []), findings)
        result["outcome"] = answer.get("outcome", "unknown")
        if result["outcome"] == "confirmed":
            remember_committed(node, args["rails"])
        else:
            result.update(failed=True, changed=False, msg=failure_text(node, answer, unreachable))
            # The old master connection may have died with the change; whatever comes next starts anew.
            with contextlib.suppress(Exception):
                self._connection.reset()
        return result

    def _stage(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        """Stage, once a change that another controller left open is confirmed or has undone itself.

        It is waited for, not taken over: whether that controller is dead or at work cannot be seen from here.
        """
        end: float | None = None
        while True:
            staged = self._ask_for_the_first_time(args, task_vars)
            if staged.get("outcome") != "in_flight":
                return staged
            if end is None:
                # No longer than the rollback of this change could take, whatever the node reports.
                most_s = float(args["rollback_after_s"] + restore.PATIENCE_S + 30)
                patience_s = min(most_s, float(staged["settled_within_s"])) + PATIENCE_SLACK_S
                end = time.monotonic() + patience_s
                # Not a warning: Ansible keeps those until the task is over.
                display.display(
                    f"{args['node']}: waiting up to {patience_s:.0f} s for an earlier network change, "
                    "which was not confirmed, to be rolled back"
                )
            if time.monotonic() > end:
                return staged
            time.sleep(IN_FLIGHT_PAUSE_S)

    def _ask_for_the_first_time(
        self, args: dict[str, Any], task_vars: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Ask, and name a full disk on which the module could not be laid: the change has not begun.

        Raises:
            AnsibleError: the module cannot be laid or the node be reached, for another reason.
        """
        try:
            staged = self._ask(args, task_vars)
        except AnsibleError as error:
            full = full_disk_text(args["node"], str(error))
            if full is None:
                raise
            return {"failed": True, "changed": False, "msg": full}
        # The module's own words, where it got so far, are more exact.
        if staged.get("failed") and "nothing was changed" not in str(staged.get("msg")):
            said = "\n".join(str(staged.get(key) or "") for key in ("module_stderr", "module_stdout", "msg"))
            full = full_disk_text(args["node"], said)
            if full is not None:
                return {"failed": True, "changed": False, "msg": full}
        return staged

    def _ask(self, args: dict[str, Any], task_vars: dict[str, Any] | None) -> dict[str, Any]:
        return dict(self._execute_module(module_name=MODULE, module_args=args, task_vars=task_vars))

    def _await(
        self, question: dict[str, Any], rollback_after_s: float, task_vars: dict[str, Any] | None
    ) -> tuple[dict[str, Any], str | None]:
        """Ask until the change is confirmed or undone; returns the last answer and ssh's last complaint.

        First whether netplan is done, then for the confirmation: a connection that was opened while netplan
        was at work would prove nothing.
        """
        state = "applied"
        timeouts_s = connect_timeouts_s(rollback_after_s)
        end = time.monotonic() + rollback_after_s + GRACE_S
        problems: list[str] = []
        unreachable: str | None = None
        answer: dict[str, Any] = {}
        failed_attempts = 0
        while time.monotonic() < end:
            try:
                with self._fresh_connection(timeouts_s[min(failed_attempts, len(timeouts_s) - 1)]):
                    answer = self._ask({"state": state, **question}, task_vars)
            except AnsibleConnectionFailure as error:
                failed_attempts += 1
                unreachable = str(error).strip().splitlines()[-1]
                answer = {}
            problems = problems or list(answer.get("proof_problems") or [])
            if answer.get("outcome") == "applied":
                state = "confirmed"
                continue
            # Anything else is final, or a failure of the module itself, which the timer outlives.
            if answer and (answer.get("outcome") not in ("rolling_back", "pending")):
                break
            time.sleep(PAUSE_S)
        if answer.get("failed"):
            problems.append(str(answer.get("msg")))
        return {**answer, "proof_problems": problems}, unreachable

    @contextlib.contextmanager
    def _fresh_connection(self, connect_timeout_s: int) -> Iterator[None]:
        """Make commands inside open an SSH connection of their own, whatever multiplexing is in use."""
        connection = self._connection
        if connection.transport != "ssh":
            display.vv(f"connection {connection.transport} is not multiplexed; used as it is")
            yield
            return
        users = {name: connection.get_option(name) for name in ("ssh_args", "timeout")}
        connection.set_option("ssh_args", fresh_ssh_args(users["ssh_args"], connect_timeout_s))
        connection.set_option("timeout", max(users["timeout"], SUDO_PER_CONNECT_TIMEOUT * connect_timeout_s))
        try:
            yield
        finally:
            for name, value in users.items():
                connection.set_option(name, value)
