# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open a run folder: the first step of validate.yml. Options are documented in modules/fabric_open.py."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ansible.errors import AnsibleActionFail
from ansible.utils.display import Display
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan, qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import prometheus, run_metrics
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import (
    action_base,
    baseline,
    places,
    provenance,
    stale_secrets,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documented_action import DocumentedAction
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

display = Display()


class ActionModule(DocumentedAction):
    """Make the folder of a new run, or find that of an earlier one."""

    _requires_connection = False

    def act(self, args: dict[str, Any], task_vars: dict[str, Any]) -> dict[str, Any]:
        """Return `run` and `folder`; in check mode nothing: a run that measures nothing leaves no folder."""
        reports = args["reports_dir"] or str(places.reports_dir())
        inventory = action_base.play_inventory(self)
        inventory.policy = policy.apply_run_variables(inventory.policy, task_vars)
        if args["existing"]:
            folder = _existing(reports, inventory.cluster, args["run"])
            try:
                compare(folder, inventory)
                found = {"nodes": measuring(folder), "waits": waits(folder)}
            except (run_folder.RunFolderError, policy.PolicyError) as error:
                raise AnsibleActionFail(str(error)) from error
            return {**found, "run": folder.name, "folder": str(folder.path)}
        if self._task.check_mode:
            return {"skipped": True, "msg": "check mode: nothing is measured"}
        try:
            folder = _new(reports, args["run"] or None, inventory)
        except (run_folder.RunFolderError, policy.PolicyError) as error:
            raise AnsibleActionFail(str(error)) from error
        return {"run": folder.name, "folder": str(folder.path)}


def _new(reports_dir: str, run: str | None, inventory: Inventory) -> RunFolder:
    found = baseline.beside(inventory.sources, inventory.cluster)
    sha256 = baseline.digest(found[0]) if found else None
    plan_document, manifest = action_base.start_documents(inventory, sha256)
    if note := qos_notes.default_class_note(manifest["policy"], inventory):
        display.warning(note)
    if found:
        manifest[baseline.STATED] = {"run": found[1].run, "sha256": sha256}
    # This is a worker's; its parent is ansible-playbook, which lives as long as the run.
    manifest["controller"] = stale_secrets.controller(os.getppid())
    folder = run_folder.create(reports_dir, inventory.cluster, run, manifest)
    for name in stale_secrets.forget_secrets(folder.path.parent.parent, folder.name):
        display.vv(f"removed the secret of run {name}, whose controller is gone")
    folder.write(run_folder.PLAN, run_folder.pretty(plan_document))
    if found:
        folder.write(baseline.FILE, found[0])
    run_metrics.keep_inventory(folder.path.parent, [node.name for node in inventory.nodes])
    # Incomplete until it is judged: a run that is killed must not look complete.
    folder.write(prometheus.FILE, prometheus.unjudged(inventory.cluster))
    return folder


def compare(folder: RunFolder, inventory: Inventory) -> None:
    """Keep in the manifest what the inventory says otherwise now than when the run was made.

    Raises:
        RunFolderError: plan or manifest cannot be read, or the manifest not be written.
        PolicyError: the inventory's policy is not one.
    """
    made, manifest = folder.plan(), folder.manifest()
    if provenance.FINGERPRINT not in made:
        return  # of a version that did not keep it
    nodes = plan.plans_of(inventory.nodes)
    # A run's own variables, such as a sweep's, are no change of the inventory.
    own = {key: manifest["policy"].get(key, policy.DEFAULT[key]) for key in policy.RUN_VARIABLES}
    # As JSON has it, which is how the run's are.
    rules = qos_notes.with_traffic_class(policy.merge(inventory.policy), inventory)
    now = json.loads(json.dumps(action_base.plain([nodes, {**rules, **own}])))
    changed = provenance.changes(made, manifest["policy"], *now)
    if changed != manifest.get(provenance.CHANGED, []):
        folder.update_manifest(**{provenance.CHANGED: changed})


def measuring(folder: RunFolder) -> list[str]:
    """Return the nodes that may measure for a run: those of its plan, or of its second test schedule.

    Raises:
        RunFolderError: they cannot be read.
    """
    names = list(folder.plan()["nodes"])
    return pattern.taking_part(folder.orders()[-1]) if folder.confirms() else names


def waits(folder: RunFolder) -> dict[str, int]:
    """Return the lease of a run's nodes, and the time after which they are certainly done.

    Returns:
        `lease_s` and `deadline_s`; both 0 for a run that was interrupted before its test plan, or whose
        schedule cannot be read: its nodes are still stopped and fetched.
    """
    try:
        order = folder.orders()[-1]
        longest_s = max(main.worst_case_s({**order, "node": name}) for name in pattern.busiest(order))
        return {"lease_s": int(order["policy"]["lease_s"]), "deadline_s": int(longest_s)}
    except (run_folder.RunFolderError, LookupError, TypeError, ValueError, AttributeError):
        return {"lease_s": 0, "deadline_s": 0}


def _existing(reports_dir: str, cluster: str, run: str | None) -> RunFolder:
    if not run:
        raise AnsibleActionFail(
            "railyard_run is not set: name a folder of reports/, as -e railyard_run=20261121T101500Z-3f2a"
        )
    folder = action_base.open_folder(str(Path(reports_dir) / cluster / run))
    if provenance.imported(folder.manifest()):
        raise AnsibleActionFail(
            f"{folder.path} was made of files by `railyard parse run`: no node has any of it. To measure: "
            "`railyard validate -i INVENTORY`"
        )
    return folder
