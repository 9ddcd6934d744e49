# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict rests on the one row of a test of a node by itself only where it is complete and proven."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.records import node_rows as records
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests, policy_keys
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue, policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import node_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import headline
from support.runs.fake_run import FakeRun
from support.runs.node_row import node_row

WEIGHT = Check(
    "weight", "weight", ("mass_bytes",), {"mass_bytes": "positive"}, source="node", tool="scale",
    asked="node", wanted="scales",
)  # fmt: skip


class Scale:
    def planned_s(self, _policy: object) -> float:
        return 40.0

    def program_of(self, _check: str, _policy: object) -> str:
        return "scale"


@pytest.fixture(autouse=True)
def weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tests, "NODE_TESTS", (WEIGHT,))
    monkeypatch.setitem(catalogue.CHECKS, "weight", WEIGHT)
    # Of a tool the plan asks only how long it takes.
    monkeypatch.setitem(registry.NODE_TOOLS, "weight", Scale)  # type: ignore[arg-type]
    monkeypatch.setitem(node_rows.CONTRADICTIONS, "scale", lambda row, _policy: row["wobbles"])
    # These tables are Mappings, which only a test may change.
    monkeypatch.setitem(records.ACCOUNTS, "scale", "wobbles")  # type: ignore[index]
    monkeypatch.setitem(records._KINDS, "wobbles", str | None)  # type: ignore[index]
    monkeypatch.setitem(policy_keys.KEYS, "scales", policy_keys.Key([], "", "paths", 0, 4))  # type: ignore[index]
    monkeypatch.setitem(policy.DEFAULT, "scales", ["/a", "/b"])


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    told = {"metrics": {"mass_bytes": 7.0}, "counters": {"grams": [1, 8]}, "wobbles": None}
    return {**node_row(line, (0.0, 5.0)), **told}


def made(**rules: Any) -> FakeRun:
    run = FakeRun(**rules)
    run.results += [row_of(line) for line in run.asked if line["check"] == "weight"]
    return run


def verdicts(run: FakeRun) -> list[dict[str, Any]]:
    return [one for one in run.judge() if one["check"] == "weight"]


def test_what_nothing_bounds_is_recorded_for_each_subject() -> None:
    run = made()
    assert [(one["node"], one["subject"], one["outcome"], one["proof"]) for one in verdicts(run)] == [
        ("gpuserver1", "/a", "recorded", "proven"), ("gpuserver1", "/b", "recorded", "proven"),
        ("gpuserver2", "/a", "recorded", "proven"), ("gpuserver2", "/b", "recorded", "proven"),
    ]  # fmt: skip
    assert run.incomplete() is None
    assert headline.place(verdicts(run)[1]) == "gpuserver1 /b"


@pytest.mark.parametrize(("bounds", "outcome"), [([5, 9], "pass"), ([8, 9], "fail"), ([1, 6], "fail")])
def test_a_site_bounds_it(bounds: list[float], outcome: str) -> None:
    run = made(floors={"weight": {"mass_bytes": bounds}})
    assert {one["outcome"] for one in verdicts(run)} == {outcome}


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        ({"proof": "unproven", "proof_reason": "the cache"}, "not_borne_out"),
        ({"proof": "unproven"}, "not_borne_out"),
        ({"proof": None}, "row_garbled"),
        ({"wobbles": 7}, "row_garbled"),
        ({"more": 7}, "row_garbled"),
        ({"wobbles": "the counters say less"}, "not_borne_out"),
        ({"subject": "/c"}, "row_garbled"),
        ({"run": "20261121T101500Z-aaaa"}, "row_garbled"),
        ({"round": 0}, "row_garbled"),
        ({"end": "server"}, "row_garbled"),
        ({"metrics": {}}, "row_garbled"),
        ({"metrics": {"mass_bytes": -1.0}}, "row_garbled"),
        ({"exit_status": 1}, "row_garbled"),
        ({"argv": "scale"}, "row_garbled"),
        ({"argv": [["echo", "scale"]]}, "row_garbled"),
        ({"window_s": None}, "row_garbled"),
        ({"started": "2026-11-20T10:15:50.000Z"}, "row_garbled"),
        (
            {"status": "unmeasured", "error": {"class": "busy", "message": "", "host": "x", "fix": ""}},
            "busy",
        ),
    ],
)
def test_a_row_that_is_incomplete_or_unproven_measures_nothing(change: dict[str, Any], cause: str) -> None:
    run = made()
    run.results[-1].update(change)
    found = verdicts(run)
    assert [one["outcome"] for one in found] == ["recorded"] * 3 + ["unmeasured"]
    assert found[-1]["cause_class"] == cause


@pytest.mark.parametrize(("rows", "cause"), [(0, "no_row"), (2, "duplicate_row")])
def test_one_row_it_has_to_be(rows: int, cause: str) -> None:
    run = made()
    last = run.results.pop()
    run.results += [last] * rows
    assert verdicts(run)[-1]["cause_class"] == cause
    assert run.status() == 3


def test_a_tool_whose_proof_no_one_knows_proves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(node_rows.CONTRADICTIONS, "scale")
    assert {one["cause_class"] for one in verdicts(made())} == {"not_borne_out"}


def test_a_line_on_a_rail_is_none_of_a_node_by_itself() -> None:
    run = made()
    next(line for line in run.asked if line["check"] == "weight")["rail"] = "rail0"
    with pytest.raises(verdict.JudgeError, match="rail is 'rail0'"):
        run.judge()


def test_what_nodes_measure_by_themselves_is_reported_before_it_begins() -> None:
    run = FakeRun()
    without = cost.estimate_order({**run.order, "policy": {**run.policy, "scales": []}})
    beside = cost.estimate_order(run.order)
    # Two subjects of 40 s, with 2 s to start each; both nodes at once, a row of each.
    assert beside.duration_s - without.duration_s == pytest.approx(84)
    assert beside.rows - without.rows == 4
    assert requests.find_missing_tests(run.manifest, run.plan, run.order, run.asked) is None
