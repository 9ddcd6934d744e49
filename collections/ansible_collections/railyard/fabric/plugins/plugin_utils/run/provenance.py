# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which inventory a run was made of, and whether that is still so. Pure.

A run is judged by its own plan and policy, whatever the inventory says by then; but who reads the verdicts
must be told where the two differ. Bounds rest on plan and policy, so a run whose own are not those that it
was made with proves nothing.
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
#: manifest.json: the files of which a folder was made whose tests Railyard did not run.
IMPORTED = "imported"
#: plan.json: the digest of the baseline that the run is held against.
BASELINE = "baseline_sha256"
#: manifest.json: the run was made fit to be passed on, by `railyard bundle`.
BUNDLED = "bundled"
#: How many places a note names.
_NAMED = 3


def fingerprint(plan: Plan, policy: object) -> str:
    """Return the SHA-256 of what the inventory says for a run: its nodes' plans, its policy, its baseline."""
    whole = [plan.get("nodes"), policy]
    whole += [plan[BASELINE]] if BASELINE in plan else []
    said = json.dumps(whole, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(said.encode("utf-8")).hexdigest()


def changes(plan: Plan, policy: Policy, nodes_now: Mapping[str, Row], policy_now: Policy) -> list[str]:
    """Say what the inventory says otherwise now than for the run; none where it says the same.

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
    """Tell that plan or policy of a run are not those that it was made with, or None."""
    stated = plan.get(FINGERPRINT)
    if stated == fingerprint(plan, manifest.get("policy")):
        return None
    if stated is None:
        return f"plan.json has lost its {FINGERPRINT}, by which it would show to be the run's own"
    return (
        "plan.json or the policy in manifest.json is not what the inventory said when the run was made: "
        "one of the two files was edited; bring it back from a copy of the run, or validate again"
    )


def imported(manifest: Manifest) -> str | None:
    """Tell that a run is made of outputs of tools that somebody else ran, or None."""
    if IMPORTED not in manifest:
        return None
    return "it is made of outputs of tools that Railyard did not run: nothing of it is proven"


def remarks(manifest: Manifest) -> list[str]:
    """Return what is to be said of the numbers of outputs that somebody else's tools wrote."""
    files = manifest.get(IMPORTED)
    of = [one.get("remarks") for one in files if isinstance(one, Mapping)] if isinstance(files, list) else []
    return [str(said) for told in of if isinstance(told, list) for said in told]


#: What a policy's `questions` leave out.
_LESS = {
    "together": "a sweep: pairs were asked path MTU and the bandwidth of all rails at once, nothing else",
    "one_by_one": "a sweep: pairs were asked path MTU and the bandwidth of each rail alone, nothing else",
}


def rails_absent(plan: Plan) -> list[str]:
    """Return which nodes lack which rails by the inventory's word, one sentence for each rail."""
    return [
        f"{rail}: {named(nodes)} {'lacks' if len(nodes) == 1 else 'lack'} this rail, as the inventory says "
        "(rail_overrides): nothing is tested there, and no test of all nodes together runs over it"
        for rail, nodes in list_absent_rails(plan["nodes"]).items()
    ]


def notes(manifest: Manifest, plan: Plan) -> list[str]:
    """Return what a reader of the run's verdicts has to know of the inventory, one sentence each."""
    found = edited(manifest, plan)
    said = [found] if found else []
    changed = manifest.get(CHANGED)
    if isinstance(changed, list) and changed:
        places = named([str(place) for place in changed], _NAMED, between="; ")
        said.append(
            f"the inventory has changed since the run was made ({places}); "
            "the verdicts are of what it said then"
        )
    said += rails_absent(plan)
    policy = manifest.get("policy")
    less = _LESS.get(str(policy.get("questions"))) if isinstance(policy, Mapping) else None
    if less:
        said.append(less)
    if manifest.get(BUNDLED):
        said.append(
            "this run is a bundle: names, addresses, serials and keys are stand-ins, "
            "and its digests were made anew over them"
        )
    return said
