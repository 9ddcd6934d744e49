# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan further tests of a run's suspects in a second test schedule. Options: modules/fabric_confirm.py."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import confirm, pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import isolation
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
    rejudge,
    stored_judgement,
    verdict,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import intake
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base, documents, stale_secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

display = Display()


class ActionModule(DocumentedAction):
    """Write the second test schedule and its planned tests, where there is something to confirm."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `nodes` (those that measure further; empty for most runs), `rounds` and `judgement`."""
        folder = action_base.open_folder(args["folder"])
        try:
            second, judgement = second_order(folder, task_vars.get("ansible_play_hosts_all"))
        except (run_folder.RunFolderError, verdict.JudgeError, policy.PolicyError, ValueError) as error:
            raise AnsibleActionFail(f"suspects cannot be measured further: {error}") from error
        nodes, turns = (pattern.taking_part(second), second["meetings"]) if second else ([], [])
        return {"nodes": nodes, "rounds": len(turns), "judgement": judgement}


def second_order(folder: RunFolder, hosts: Iterable[str] | None = None) -> tuple[dict[str, Any] | None, str]:
    """Write the second test schedule of a run, where something is to be confirmed.

    A schedule without results of any node was interrupted before it was measured: it is returned again.

    Args:
        folder: the run's.
        hosts: those of the play, where they may be fewer than the run's nodes: the others measure nothing.

    Returns:
        The schedule, or None. Where the run was judged and nothing is measured further it has ended: digest
        of what is kept of this judgement (`kept.take`), else nothing.
    """
    if folder.manifest().get("end") is not None:
        return None, ""
    order = folder.document(run_folder.WORK_ORDER)
    if folder.confirms():
        made = folder.document(run_folder.CONFIRM_ORDER)
        if any(intake.archive_path(folder, name).exists() for name in pattern.taking_part(made)):
            return None, ""
        display.display("confirming: the second test schedule of the run, which was not measured yet")
        return _add_tests(folder, order, made), ""
    asked = documents.read_asked(folder)
    if not isolation.needs_judge(order, asked, lambda: _rows(folder)):
        return None, ""
    # Judged as if the run had ended: if nothing is measured further it has, and these verdicts are final.
    ended = folder.ended("completed")
    state = stored_judgement.digest_files(folder, ended)
    judged = rejudge.judge_folder(folder.path, ended)
    found = judged.findings
    nodes = set(folder.plan()["nodes"])
    gone = {name for name in nodes if not intake.archive_path(folder, name).exists()}
    gone |= nodes.difference(nodes if hosts is None else hosts)
    second = confirm.build_second_order(order, asked, found.doubtful, found.suspects, gone)
    if second is None:
        folder.write(run_folder.MANIFEST, run_folder.pretty(ended))
        return None, stored_judgement.store(folder, judged, state)
    display.display(clean_line(f"confirming: {_name_suspects(found.doubtful)}"))
    folder.write(run_folder.CONFIRM_ORDER, run_folder.pretty(second))
    return _add_tests(folder, order, second), ""


def _add_tests(folder: RunFolder, order: Mapping[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Add the tests of the second schedule to the test plan, and prepare the staging of its nodes."""
    plan = folder.plan()
    lines = requests.asked_lines(plan, order, second)
    text = "".join(run_folder.line(line) + "\n" for line in lines)
    folder.write(run_folder.ASKED, text)
    folder.update_manifest(
        asked=requests.fingerprint_of(text),
        coverage=pattern.coverage(plan, lines),
        # A resumed run has another controller than the one that began it.
        controller=stale_secrets.controller(os.getppid()),
    )
    # Created before the nodes are staged, each by a separate process: all must have the same secret.
    folder.secret()
    return second


def _rows(folder: RunFolder) -> Iterator[dict[str, Any]]:
    return (row for row in folder.each_row(run_folder.RESULTS) if row is not None)


def _name_suspects(doubtful: Iterable[Suspect]) -> str:
    return named([who_is_slow.name_suspect(one) for one in doubtful], between="; ")
