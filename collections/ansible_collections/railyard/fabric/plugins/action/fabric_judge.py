# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a run on the controller. Options are documented in modules/fabric_judge.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
    rejudge,
    stored_judgement,
    verdict,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    comparison,
    comparison_text,
    documents,
    environment,
    model,
    summary,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

display = Display()


class ActionModule(DocumentedAction):
    """End the run, judge, report, and fail unless everything planned was measured and nothing failed."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `lines`, `exit_status`, `headline`, `counts` and `judgement`."""
        folder = action_base.open_folder(args["folder"])
        try:
            folder.finish(args["reason"])
            judged, judgement = _judged(folder, args["judgement"], args["keep"])
            rejudge.write(folder.path, judged)
            said = summary.summarise_verdicts(folder.plan(), judged)
            compared = comparison.compare_run(
                folder.plan(),
                judged.verdicts,
                folder.rows(run_folder.FACTS)[0],
                policy.merge(folder.manifest().get("policy")),
            )
        except (run_folder.RunFolderError, verdict.JudgeError, policy.PolicyError) as error:
            raise AnsibleActionFail(str(error)) from error
        finally:
            folder.forget_secret()
        told = [*summary.lines(said, str(Path(args["folder"]))), *comparison_text.lines(compared)]
        try:
            report = model.read(folder.path, judged)
            told[:0] = [f"note: {finding}" for finding in environment.findings(report.nodes)]
            told += documents.write_report(folder.path, report)
        except Exception as error:  # for any error, the verdicts are valid and reported
            told.append(f"the report was not written: {type(error).__name__}: {error}; see `railyard report`")
        # Causes hold words of the nodes; here they go to a terminal as they are.
        lines = [plain_text.clean_line(line) for line in told]
        for line in lines:
            display.display(line)
        return {
            "failed": said["exit_status"] != 0,
            "msg": said["headline"],
            "headline": said["headline"],
            "lines": lines,
            "counts": said["counts"],
            "exit_status": said["exit_status"],
            "judgement": judgement,
        }


def _judged(folder: RunFolder, judgement: str, keep: bool) -> tuple[rejudge.Judged, str]:
    """Return the run's judgement, and the digest of what is kept of it."""
    judged = stored_judgement.load(folder, judgement)
    if judged is not None and keep:
        return judged, judgement
    stored_judgement.remove(folder)
    if judged is not None:
        return judged, ""
    state = stored_judgement.digest_files(folder) if keep else ""
    judged = rejudge.judge_folder(folder.path)
    return judged, stored_judgement.store(folder, judged, state) if keep else ""
