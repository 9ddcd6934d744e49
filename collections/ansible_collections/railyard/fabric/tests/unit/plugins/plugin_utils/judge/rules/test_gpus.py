# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs in a run: planned where declared, answered by facts, compared with nodes declared alike."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from support.runs.fake_run import NODES, FakeRun

ROW = {
    "pci": "0000:17:00.0", "index": 0, "name": "NVIDIA H100 80GB HBM3",
    "ecc.errors.uncorrected.volatile.total": 0, "pcie.link.width.current": 16, "pcie.link.width.max": 16,
    "clocks_throttle_reasons.hw_thermal_slowdown": "Not Active",
}  # fmt: skip
GPUS: dict[str, Any] = {
    "pci": ["0000:17:00.0"], "pci_paths": {}, "driver": "550.54.15", "rows": [ROW], "nvlink": [],
    "topology": None, "near": [],
    "xids": {"first": 0, "next": 3, "since_s": 0.0, "seen": []}, "errors": {},
}  # fmt: skip


def with_gpus(*declared: dict[str, Any] | None) -> FakeRun:
    run = FakeRun()
    for node, said, facts in zip(NODES, declared, run.facts, strict=True):
        facts["gpus"] = copy.deepcopy(GPUS)
        if said is not None:
            run.plan["nodes"][node]["gpus"] = said
    return run.plan_again()


def outcomes(run: FakeRun, check: str) -> list[tuple[str, str | None]]:
    return [(one["outcome"], one["cause_class"]) for one in run.judge() if one["check"] == check]


def test_only_nodes_that_declare_gpus_are_planned() -> None:
    run = with_gpus({"count": 1}, None)
    asked = [line for line in run.asked if line["check"] in gpu.CHECKS]
    assert {(line["node"], line["rail"], line["peer"]) for line in asked} == {(NODES[0], None, None)}
    assert [line["check"] for line in asked] == list(gpu.CHECKS)
    assert outcomes(run, "gpu_count") == [("pass", None)]
    assert outcomes(run, "gpu_memory") == [("pass", None)]
    assert not any(line["check"] in gpu.CHECKS for line in FakeRun().asked)


def test_a_missing_gpu_fails_and_silence_is_unmeasured() -> None:
    run = with_gpus({"count": 2}, {"count": 1})
    del run.facts[1]["gpus"]  # a run of an earlier version
    assert outcomes(run, "gpu_count") == [("fail", "gpu_missing"), ("unmeasured", "gpu_unknown")]
    run.facts.pop()
    assert outcomes(run, "gpu_xid")[1] == ("unmeasured", "node_unreachable")


def test_nodes_that_are_declared_alike_have_one_driver() -> None:
    run = with_gpus({"count": 1}, {"count": 1})
    assert outcomes(run, "gpu_kind") == [("recorded", None)] * 2
    run.facts[1]["gpus"]["driver"] = "535.183.01"
    # Of two that differ it is not known which is right.
    assert outcomes(run, "gpu_kind") == [("fail", "gpu_driver_differs")] * 2
    run = with_gpus({"count": 1, "driver": "550"}, {"count": 1, "driver": "535"})
    run.facts[1]["gpus"]["driver"] = "535.183.01"
    assert outcomes(run, "gpu_kind") == [("recorded", None)] * 2, "nodes of two kinds are not held together"


@pytest.mark.parametrize("change", [{"node": "gpu9"}, {"rail": "rail0"}, {"peer": NODES[1]}])
def test_a_question_for_gpus_that_the_plan_lacks_is_refused(change: dict[str, Any]) -> None:
    run = with_gpus({"count": 1}, None)
    run.asked[[line["check"] for line in run.asked].index("gpu_count")].update(change)
    with pytest.raises(verdict.JudgeError, match="g00000"):
        run.judge()


@pytest.mark.parametrize("said", [8, {}, {"count": "8"}])
def test_a_plan_whose_gpus_are_no_declaration_is_refused(said: object) -> None:
    run = with_gpus({"count": 1}, None)
    run.plan["nodes"][NODES[1]]["gpus"] = said
    with pytest.raises(verdict.JudgeError, match="gpus is"):
        run.judge()


def test_undeclared_gpus_are_reported_as_not_planned() -> None:
    run = with_gpus({"count": 1}, None)
    said = gpus.list_notes(run.plan, run.facts)
    assert said == [f"GPUs are not checked on {NODES[1]}: the inventory declares no expected_gpus for them"]
    run.facts[1]["gpus"]["pci"] = []
    assert gpus.list_notes(run.plan, run.facts) == []
