# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask further of whom a run suspects, in a second work order. Options: modules/fabric_confirm.py."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import confirm, pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import isolation
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import kept, rejudge, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import intake
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base, documents, stale_secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

display = Display()


class ActionModule(ActionBase):
    """Write the second work order, and what it asks, where there is something to confirm."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return `nodes` (who measures further; empty for most runs), `rounds` and `judgement`."""
        result: dict[str, Any] = super().run(tmp, task_vars)
        _spec, args = self.validate_argument_spec({"folder": {"type": "path", "required": True}})
        folder = action_base.open_folder(args["folder"])
        try:
            second, judgement = second_order(folder, (task_vars or {}).get("ansible_play_hosts_all"))
        except (run_folder.RunFolderError, verdict.JudgeError, policy.PolicyError, ValueError) as error:
            raise AnsibleActionFail(f"nobody is measured further: {error}") from error
        nodes, turns = (pattern.taking_part(second), second["meetings"]) if second else ([], [])
        return {**result, "changed": False, "nodes": nodes, "rounds": len(turns), "judgement": judgement}


def second_order(folder: RunFolder, hosts: Iterable[str] | None = None) -> tuple[dict[str, Any] | None, str]:
    """Write the second order of a run, where something is to be confirmed.

    One of which no node has handed over anything was cut off before it was measured: it is returned again.

    Args:
        folder: the run's.
        hosts: those of the play, where they may be fewer than the run's nodes: the others measure nothing.

    Returns:
        The order, or None. Where the run was judged and nobody measures further it has ended: then the digest
        of what is kept of this judgement (`kept.take`), else nothing.
    """
    if folder.manifest().get("end") is not None:
        return None, ""
    order = folder.document(run_folder.WORK_ORDER)
    if folder.confirms():
        made = folder.document(run_folder.CONFIRM_ORDER)
        if any(intake.archive_path(folder, name).exists() for name in pattern.taking_part(made)):
            return None, ""
        display.display("confirming: the second order that the run had, which nobody has measured")
        return _asked(folder, order, made), ""
    asked = documents.read_asked(folder)
    if not isolation.asks_judge(order, asked, lambda: _rows(folder)):
        return None, ""
    # Judged as if the run had ended: if nobody measures further it has, and these verdicts are the run's.
    ended = folder.ended("completed")
    state = kept.state_of(folder, ended)
    judged = rejudge.judge_folder(folder.path, ended)
    found = judged.findings
    nodes = set(folder.plan()["nodes"])
    gone = {name for name in nodes if not intake.archive_path(folder, name).exists()}
    gone |= nodes.difference(nodes if hosts is None else hosts)
    second = confirm.of_run(order, asked, found.doubtful, found.suspects, gone)
    if second is None:
        folder.write(run_folder.MANIFEST, run_folder.pretty(ended))
        return None, kept.keep(folder, judged, state)
    display.display(clean_line(f"confirming: {_told(found.doubtful)}"))
    folder.write(run_folder.CONFIRM_ORDER, run_folder.pretty(second))
    return _asked(folder, order, second), ""


def _asked(folder: RunFolder, order: Mapping[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Add what the second order asks to what is asked, and make ready that its nodes are staged."""
    plan = folder.plan()
    lines = requests.asked_lines(plan, order, second)
    text = "".join(run_folder.line(line) + "\n" for line in lines)
    folder.write(run_folder.ASKED, text)
    folder.update_manifest(
        asked=requests.fingerprint_of(text),
        coverage=pattern.coverage(plan, lines),
        # Of a run that is resumed, another one than began it: the secret is needed for as long as it lives.
        controller=stale_secrets.controller(os.getppid()),
    )
    # Before the nodes are staged, each by a process of its own: they are to have the same one.
    folder.secret()
    return second


def _rows(folder: RunFolder) -> Iterator[dict[str, Any]]:
    return (row for row in folder.each_row(run_folder.RESULTS) if row is not None)


def _told(doubtful: Iterable[Suspect]) -> str:
    return named([who_is_slow.name_suspect(one) for one in doubtful], between="; ")
