# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The exit status, and whether a run is complete."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status
from support.runs.fake_run import FakeRun

HEALTHY = FakeRun()


def test_exit_status_follows_the_contract() -> None:
    run = HEALTHY.copy()
    verdicts = run.judge()

    def status(said: list[dict[str, Any]], torn: bool = False, **manifest: Any) -> int:
        told = {**run.manifest, **manifest}
        whole = not torn and run_status.explain_incomplete(told, run.asked, run.sealed(), run.order) is None
        return run_status.find_exit_status({one["outcome"] for one in said}, whole)

    assert (status(verdicts), status(verdicts, torn=True), status([])) == (0, 3, 3)
    for end in (None, {}, {"at": "x", "reason": "interrupted"}, {"at": "x"}, {"reason": "completed"}):
        assert status(verdicts, end=end) == 3
    assert status(verdicts, end={"at": "soon", "reason": "completed"}) == 3
    assert status(verdicts, start=None) == 3
    one_bad = [*verdicts[:-1], {**verdicts[-1], "outcome": "unmeasured"}]
    assert status(one_bad) == 3
    assert status([*one_bad[1:], {**verdicts[0], "outcome": "fail"}], torn=True, end=None) == 1
    assert status([{**verdicts[0], "outcome": "great"}]) == 3


@pytest.mark.parametrize(
    "forge",
    [
        lambda run: run.asked.pop(),
        lambda run: run.asked.__setitem__(slice(2, None), []),
        lambda run: run.asked[0].update(check="mtu"),
        lambda run: run.order.update(rails=["rail1"]),
        lambda run: run.order.update(policy={**run.policy, "bidirectional": False}),
        lambda run: run.order.update(run="20200101T000000Z-0000"),
        lambda run: run.order["roster"].pop(),
        lambda run: run.order.pop("fabrics"),
        lambda run: run.order.update(roster=7),
    ],
)
def test_fewer_tests_than_plan_and_schedule_name_is_incomplete(forge: Any) -> None:
    """Signed again, so that asked.jsonl and manifest agree."""
    run = HEALTHY.copy()
    forge(run)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    assert run.incomplete() is not None


def test_a_folder_that_lost_its_work_order_or_the_plans_fingerprint_is_incomplete() -> None:
    told = HEALTHY.manifest, HEALTHY.asked
    assert "work_order.json" in str(run_status.explain_incomplete(*told, HEALTHY.sealed(), None))
    assert "inventory_sha256" in str(run_status.explain_incomplete(*told, HEALTHY.plan, HEALTHY.order))
    assert run_status.explain_incomplete(*told, HEALTHY.sealed(), HEALTHY.order) is None


def test_the_fingerprint_of_the_plan_sees_a_changed_line() -> None:
    changed = copy.deepcopy(HEALTHY.asked)
    changed[0]["check"] = "mtu"
    assert requests.fingerprint(changed) != requests.fingerprint(HEALTHY.asked)
    assert requests.fingerprint(HEALTHY.asked)["count"] == 56


@pytest.mark.parametrize(
    ("end", "said"),
    [
        *((end, "the run has no end record") for end in (None, "x", {}, {"reason": "completed"}, {"at": ""})),
        ({"at": "soon", "reason": "completed"}, "manifest.json does not have the run's start and end"),
        ({"at": "2026-11-21T10:16:10.000Z", "reason": "interrupted"}, "the run was interrupted"),
        ({"at": "2026-11-21T10:16:10.000Z"}, "the run was None"),
        ({"at": "2026-11-21T10:16:10.000Z", "reason": "completed"}, None),
    ],
)
def test_why_a_run_did_not_come_to_its_end(end: Any, said: str | None) -> None:
    assert run_status.explain_not_ended({**HEALTHY.manifest, "end": end}) == said
