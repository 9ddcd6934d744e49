# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA between GPUs' memories: what it is compared with, and what does not count as it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import expected, facts, gpu_memory
from support.runs import fake_rdma
from support.runs.fake_run import NODES, RUN, FakeRun
from support.runs.run_builder import scale

CHECK = "rdma_gpu_bandwidth"
OTHER = "0000:89:00.0"


def made(**rules: Any) -> FakeRun:
    rules = {"gpudirect_perftest_folder": fake_rdma.FOLDER, "confirm": 0, **rules}
    return FakeRun(transport="roce", driver_class="hardware", **rules)


def judge_memory(run: FakeRun) -> dict[str, Any]:
    return run.verdict(run.ids(CHECK)[0])


def carry(run: FakeRun, check: str, gbps: float) -> None:
    """Have a test, or the first of a check, carry less than the 0.95 Gbit/s of all."""
    for row in run.rows(next(iter(run.ids(check)), check)):
        scale(row, gbps)


def test_it_passes_by_its_own_authority_beside_host_memory() -> None:
    run = made()
    assert len(run.ids(CHECK)) == 2 * 2
    carry(run, CHECK, 0.9)
    one = judge_memory(run)
    assert (one["outcome"], one["proof"]) == ("pass", "proven")
    assert one["observed"]["host_memory_gbps"] == 0.95
    assert one["observed"]["of_host_memory_percent"] == 94.7  # 0.9 of 0.95
    assert "--use_cuda" in one["basis"]


def test_a_gpu_behind_the_root_complex_is_recorded_and_bounded_by_the_site_alone() -> None:
    for floor, outcome in ((None, "recorded"), (0.5, "pass"), (0.94, "fail")):
        floors = {} if floor is None else {CHECK: {"bandwidth_gbps": [floor, None]}}
        run = made(floors=floors)
        carry(run, CHECK, 0.9)
        run.facts[1]["gpus"] = fake_rdma.gpus(["0000:19:00.0", "0000:19:00.1"], by="root")
        assert judge_memory(run)["outcome"] == outcome
        assert judge_memory(run)["observed"]["of_host_memory_percent"] == 94.7
    # Ends of a rail may be alike in all but their GPUs.
    run = made(nodes=(*NODES, "gpuserver3"), rails=1, beacon=False)
    run.facts[2]["gpus"]["near"][0]["by"] = "root"
    found = {
        one["peer"]: one["outcome"] for one in run.judge() if (one["check"], one["node"]) == (CHECK, NODES[0])
    }
    assert found == {NODES[1]: "pass", "gpuserver3": "recorded"}


def test_a_gpu_elsewhere_is_not_compared_with_others_that_are_near() -> None:
    nodes = (*NODES, "gpuserver3", "gpuserver4")
    run = made(nodes=nodes, rails=1, beacon=False, node_class="hardware")
    for facts_row, by in zip(run.facts, ("root", "numa_node", "numa_node", "far"), strict=True):
        facts_row["gpus"]["near"][0]["by"] = by
    slow = run.ids(CHECK, node=nodes[0], peer=nodes[3])[0]
    carry(run, slow, 0.3)
    assert run.verdict(slow)["outcome"] == "recorded"
    run.facts[0]["gpus"]["near"][0]["by"] = run.facts[3]["gpus"]["near"][0]["by"] = "numa_node"
    assert (run.verdict(slow)["outcome"], run.verdict(slow)["floor"]) == ("fail", None)


def test_a_slow_way_to_the_gpu_is_distinguished_from_a_slow_rail() -> None:
    run = made()
    carry(run, CHECK, 0.4)
    one = judge_memory(run)
    assert (one["outcome"], one["cause_class"], one["proof"]) == ("fail", "gpu_path_slow", "proven")
    assert "0.95 from host memory" in one["cause"]
    carry(run, "rdma_bandwidth", 0.5)
    one = judge_memory(run)
    assert (one["outcome"], one["observed"]["of_host_memory_percent"]) == ("fail", 80.0)
    assert one["cause_class"] != "gpu_path_slow"


def test_without_a_number_of_host_memory_there_is_no_share() -> None:
    run = made()
    gone = run.ids("rdma_bandwidth")[0]
    run.results = [row for row in run.results if row["id"] != gone]
    assert judge_memory(run)["outcome"] == "pass"
    assert "of_host_memory_percent" not in judge_memory(run)["observed"]


def test_a_node_declared_without_gpus_is_not_planned() -> None:
    run = made()
    run.plan["nodes"][NODES[1]]["gpus"] = {"count": 0}
    assert judge_memory(run)["outcome"] == "not_applicable"
    assert NODES[1] in judge_memory(run)["basis"]
    assert run.verdict(run.ids("rdma_bandwidth")[0])["outcome"] == "pass"


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda row: row.update(gpu=OTHER), "nearest"),
        (lambda row: row.update(gpu_name=""), "named no GPU"),
        (lambda row: row["argv"][0].pop(), "--use_cuda_bus_id"),
        (lambda row: row["argv"][0].__setitem__(0, "ib_write_bw"), fake_rdma.FOLDER),
        (lambda row: row.pop("argv"), "argv is []"),
    ],
)
@pytest.mark.parametrize("end", ["client", "server"])
def test_host_memory_or_another_gpu_does_not_pose_as_it(
    change: Callable[[dict[str, Any]], object], word: str, end: str
) -> None:
    run = made()
    for facts_row in run.facts:
        facts_row["gpus"]["pci"].append(OTHER)
    change(run.rows(run.ids(CHECK)[0], end)[0])
    one = judge_memory(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")
    assert word in one["cause"]


@pytest.mark.parametrize(
    ("spoil", "gbps"),
    [
        # 16 GT/s, 16 lanes, 128 of 130 bits, 0.905 of them payload: what slots are calculated by.
        (lambda seen: None, 16 * 16 * 128 / 130 * 0.905),
        # Two are as near: either may have been taken.
        (
            lambda seen: (
                seen["near"][0]["gpus"].append(OTHER),
                seen["rows"].append({"pci": OTHER, "pcie.link.gen.max": 3, "pcie.link.width.max": 8}),
            ),
            8 * 8 * 128 / 130 * 0.905,
        ),
        (lambda seen: seen["near"][0]["gpus"].append(OTHER), None),
        (lambda seen: seen["near"][0].update(by="numa_node"), None),
        (lambda seen: seen["rows"][0].update({"pcie.link.gen.max": "4"}), None),
        (lambda seen: seen["rows"].clear(), None),
        (lambda seen: seen.update(near=None), None),
    ],
)
def test_what_the_links_of_gpus_carry(spoil: Callable[[dict[str, Any]], object], gbps: float | None) -> None:
    run = made()
    spoil(run.facts[0]["gpus"])
    fleet = facts.bind_facts(run.plan, run.facts, RUN)
    found = gpu_memory.find_gpu_path(fleet, NODES, "rail0")
    assert (found and found.gpu_gbps) == (gbps if gbps is None else pytest.approx(gbps, abs=1e-3))


def test_nodes_measure_again_what_the_judge_would_fail() -> None:
    run = made()
    told_nodes = expected.find_expected_numbers(run.plan, run.facts, RUN, run.policy)
    assert told_nodes[CHECK]["rail0"]["bandwidth_gbps"][0] == judge_memory(run)["floor"]["bandwidth_gbps"]


@pytest.mark.parametrize("garbage", [5, "x", [5], [{"nic": "0000:19:00.0", "gpus": 5}], {"nic": []}])
@pytest.mark.parametrize("key", ["near", "rows", "pci"])
def test_garbage_of_a_nodes_facts_of_gpus_leaves_its_gpu_memory_unmeasured(key: str, garbage: object) -> None:
    run = made()
    run.facts[0]["gpus"][key] = garbage
    assert judge_memory(run)["outcome"] == "unmeasured"
    run.facts[0]["gpus"] = garbage
    assert judge_memory(run)["outcome"] == "unmeasured"
