# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare the inventory of a run with the current one. Pure.

A run is judged by its own plan and policy, not by the current inventory; the report shows the differences.
Bounds depend on plan and policy, so a run whose plan or policy was edited proves nothing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import list_absent_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan, Row

#: plan.json: the fingerprint. manifest.json: what was seen to have changed since.
FINGERPRINT, CHANGED = "inventory_sha256", "inventory_changed"
#: manifest.json: the imported files of a run whose tests Railyard did not run.
IMPORTED = "imported"
#: plan.json: the digest of the baseline that the run is compared with.
BASELINE = "baseline_sha256"
#: manifest.json: the run was anonymized by `railyard bundle`.
BUNDLED = "bundled"
#: How many places a note names.
_NAMED = 3


def fingerprint(plan: Plan, policy: object) -> str:
    """Return the SHA-256 of a run's input: its nodes' plans, its policy, its baseline."""
    parts = [plan.get("nodes"), policy]
    parts += [plan[BASELINE]] if BASELINE in plan else []
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def changes(plan: Plan, policy: Policy, nodes_now: Mapping[str, Row], policy_now: Policy) -> list[str]:
    """List the differences between the inventory now and the run's plan and policy.

    Args:
        plan: the run's plan.json.
        policy: the run's policy, as in its manifest.
        nodes_now: the plans of all nodes of the inventory as it is now; others than the run's do not matter.
        policy_now: the policy now; what only one of the two knows is of another version of Railyard.
    """
    found = []
    for name, node in plan["nodes"].items():
        now = nodes_now.get(name)
        if now is None:
            found.append(f"{name} is gone from it")
            continue
        keys = sorted(key for key in node.keys() | now.keys() if node.get(key) != now.get(key))
        found += [f"{name}: {', '.join(keys)}"] if keys else []
    differing = sorted(key for key in policy.keys() & policy_now.keys() if policy[key] != policy_now[key])
    return found + [f"fabric_policy.{key}" for key in differing]


def edited(manifest: Manifest, plan: Plan) -> str | None:
    """Return why plan or policy of a run differ from those that it was made with, or None."""
    stated = plan.get(FINGERPRINT)
    if stated == fingerprint(plan, manifest.get("policy")):
        return None
    if stated is None:
        return f"plan.json has lost its {FINGERPRINT}, which proves that it belongs to the run"
    return (
        "plan.json or the policy in manifest.json differs from the inventory when the run was made: "
        "one of the two files was edited; restore it from a copy of the run, or validate again"
    )


def imported(manifest: Manifest) -> str | None:
    """Return a note where a run is made of imported outputs of tools, or None."""
    if IMPORTED not in manifest:
        return None
    return "it is made of outputs of tools that Railyard did not run, so nothing is proven"


def remarks(manifest: Manifest) -> list[str]:
    """Return the remarks about the numbers of imported outputs."""
    files = manifest.get(IMPORTED)
    noted = (
        [one.get("remarks") for one in files if isinstance(one, Mapping)] if isinstance(files, list) else []
    )
    return [str(remark) for some in noted if isinstance(some, list) for remark in some]


#: What a policy's `questions` leave out.
_LESS = {
    "together": "a sweep: only path MTU and the bandwidth of all rails at once were tested",
    "one_by_one": "a sweep: only path MTU and the bandwidth of each rail alone were tested",
}


def rails_absent(plan: Plan) -> list[str]:
    """Return which nodes lack which rails by the inventory, one sentence for each rail."""
    return [
        f"{rail}: {named(nodes)} {'lacks' if len(nodes) == 1 else 'lack'} this rail, as the inventory says "
        "(rail_overrides): nothing is tested there, and no test of all nodes together runs over it"
        for rail, nodes in list_absent_rails(plan["nodes"]).items()
    ]


def notes(manifest: Manifest, plan: Plan) -> list[str]:
    """Return notes about the run's inventory for readers of its verdicts, one sentence each."""
    found = edited(manifest, plan)
    sentences = [found] if found else []
    changed = manifest.get(CHANGED)
    if isinstance(changed, list) and changed:
        places = named([str(place) for place in changed], _NAMED, between="; ")
        sentences.append(
            f"the inventory has changed since the run was made ({places}); "
            "the verdicts refer to the inventory of then"
        )
    sentences += rails_absent(plan)
    policy = manifest.get("policy")
    less = _LESS.get(str(policy.get("questions"))) if isinstance(policy, Mapping) else None
    if less:
        sentences.append(less)
    if manifest.get(BUNDLED):
        sentences.append(
            "this run is a bundle: names, addresses, serials and keys are replaced, "
            "and its digests were calculated again"
        )
    return sentences
