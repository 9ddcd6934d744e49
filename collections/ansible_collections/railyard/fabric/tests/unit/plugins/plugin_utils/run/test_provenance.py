# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run is judged by the inventory it was made of, and says when that is another by now."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance

PLAN: dict[str, Any] = {
    "cluster": "lab",
    "nodes": {
        "gpu1": {"transport": "roce", "rails": [{"name": "rail0", "mtu": 9000}]},
        "gpu2": {"transport": "roce", "rails": [{"name": "rail0", "mtu": 9000}]},
    },
}
POLICY = {"iperf3_duration_s": 4, "bidirectional": True}


def made() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return plan.json and manifest.json of a run."""
    plan = {**copy.deepcopy(PLAN), provenance.FINGERPRINT: provenance.fingerprint(PLAN, POLICY)}
    return json.loads(json.dumps(plan)), {"policy": dict(POLICY)}


def test_an_untouched_run_has_nothing_to_say() -> None:
    plan, manifest = made()
    assert provenance.notes(manifest, plan) == []
    assert provenance.changes(plan, POLICY, PLAN["nodes"], POLICY) == []


def test_another_order_of_keys_is_no_change() -> None:
    turned = {"nodes": dict(reversed(PLAN["nodes"].items()))}
    assert provenance.fingerprint(turned, dict(reversed(POLICY.items()))) == provenance.fingerprint(
        PLAN, POLICY
    )


def test_a_plan_that_lost_its_fingerprint_proves_nothing() -> None:
    plan, manifest = made()
    del plan[provenance.FINGERPRINT]
    assert provenance.FINGERPRINT in str(provenance.edited(manifest, plan))


@pytest.mark.parametrize("which", ["plan", "policy"])
def test_an_edited_file_of_the_run_is_reported(which: str) -> None:
    plan, manifest = made()
    if which == "plan":
        plan["nodes"]["gpu2"]["rails"][0]["mtu"] = 1500
    else:
        manifest["policy"]["iperf3_duration_s"] = 1
    (note,) = provenance.notes(manifest, plan)
    assert "edited" in note


def test_what_the_inventory_says_otherwise_is_named() -> None:
    plan, _manifest = made()
    now = copy.deepcopy(PLAN["nodes"])
    now["gpu1"]["rails"][0]["mtu"] = 1500
    del now["gpu2"]
    now["gpu3"] = {}
    rules = {**POLICY, "bidirectional": False, "unheard_of": 1}
    assert provenance.changes(plan, POLICY, now, rules) == [
        "gpu1: rails",
        "gpu2 is gone from it",
        "fabric_policy.bidirectional",
    ]


def test_a_note_names_some_places_and_counts_the_others() -> None:
    plan, manifest = made()
    manifest[provenance.CHANGED] = [f"gpu{number}: rails" for number in range(5)]
    assert provenance.notes(manifest, plan) == [
        "the inventory has changed since the run was made "
        "(gpu0: rails; gpu1: rails; gpu2: rails and 2 more); the verdicts refer to the inventory of then"
    ]


def test_a_sweep_says_what_it_did_not_ask() -> None:
    plan, _manifest = made()
    policy = {**POLICY, "questions": "together"}
    plan[provenance.FINGERPRINT] = provenance.fingerprint(PLAN, policy)
    (note,) = provenance.notes({"policy": policy}, plan)
    assert "only path MTU and the bandwidth of all rails at once" in note
