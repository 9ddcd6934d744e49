# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Like GPUs are compared with each other, in a node and over nodes; what contradicts itself is unmeasured."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpu_links
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from support.runs.fake_gpus import gpus_of, with_gpus
from support.runs.fake_run import FakeRun
from support.runs.spoil import error_row

FOUR = ("gpu1", "gpu2", "gpu3", "gpu4")
HOST, PEER = "gpu_host_bandwidth", "gpu_peer_bandwidth"
NCCL = ("nccl_all_reduce", "nccl_all_gather", "nccl_alltoall")


def bad_of(run: FakeRun) -> list[tuple[str, str, str]]:
    return [
        (one["node"], one["check"], one["cause_class"])
        for one in gpus_of(run)
        if one["outcome"] != "recorded"
    ]


def verdict(run: FakeRun, node: str, check: str) -> dict[str, Any]:
    [found] = [one for one in gpus_of(run) if (one["node"], one["check"]) == (node, check)]
    return found


def find_row(run: FakeRun, node: str, check: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a node's row of a check, and its account."""
    [row] = [row for row in run.results if (row["host"], row["check"]) == (node, check)]
    return row, row["nccl_tests" if check in NCCL else "nvbandwidth"]


def list_accounts(run: FakeRun, *nodes: str) -> list[dict[str, Any]]:
    """Return the accounts of nodes, of all tests."""
    rows = [row for row in run.results if row["host"] in nodes]
    return [row[key] for row in rows for key in ("nccl_tests", "nvbandwidth") if key in row]


def change(run: FakeRun, node: str, check: str, **values: Any) -> None:
    """Change keys of a row's metrics, of its account, or its own."""
    row, told = find_row(run, node, check)
    for key, value in values.items():
        (row["metrics"] if key in row["metrics"] else told if key in told else row)[key] = value


def test_nodes_that_are_alike_are_recorded_and_proven() -> None:
    found = gpus_of(with_gpus())
    assert {(one["outcome"], one["proof"], one["rail"]) for one in found} == {("recorded", "proven", None)}
    assert [one["check"] for one in found[:5]] == [*NCCL, HOST, PEER]
    assert found[0]["observed"] == {
        "busbw_GBps": 400.0, "algbw_GBps": 400.0 / 1.5, "size_bytes": 1 << 30, "gpus": 4,
        "model": "4 x NVIDIA H100 80GB HBM3", "nccl": "22705",
    }  # fmt: skip
    assert all(one["basis"].startswith("no published threshold") for one in found)


def test_a_gpu_that_is_an_outlier_in_its_node_is_named() -> None:
    """Two nodes: the fleet shows nothing, since two are no fleet."""
    run = with_gpus(slow={"gpuserver2": {HOST: 0.5}})
    assert bad_of(run) == [("gpuserver2", HOST, "gpu_link_apart")]
    cause = verdict(run, "gpuserver2", HOST)["cause"]
    assert (
        "gpuserver2 GPU 1 (0000:2b:00.0): 27.5 and 27.5 GB/s, the median is 55 of 3 comparable links" in cause
    )


def test_a_gpu_whose_pairs_all_are_outliers_is_named_for_all_of_them() -> None:
    """Of 8 GPUs 7 pairs of 28 have the slow one."""
    run = with_gpus(slow={"gpuserver1": {PEER: 0.5}}, gpus=8)
    assert bad_of(run) == [("gpuserver1", PEER, "gpu_link_apart")]
    cause = verdict(run, "gpuserver1", PEER)["cause"]
    assert "gpuserver1 GPU 1 (0000:2b:00.0): 138 and 138 GB/s" in cause
    assert "(and 6 more of its links)" in cause


# The second pair has no access to each other, where its peers have it.
@pytest.mark.parametrize(("rate", "words"), [(100.0, "100 and 100"), (None, "none and none GB/s")])
def test_one_pair_that_is_an_outlier_is_named_with_both_gpus(rate: float | None, words: str) -> None:
    run = with_gpus(gpus=8)
    row, told = find_row(run, "gpuserver1", PEER)
    [matrix] = told["matrices"].values()
    matrix[2][5] = matrix[5][2] = rate
    row["metrics"]["peer_GBps"] = rate or row["metrics"]["peer_GBps"]
    cause = verdict(run, "gpuserver1", PEER)["cause"]
    assert f"GPU 2 (0000:3b:00.0) and GPU 5 (0000:6b:00.0): {words}" in cause


def test_one_direction_alone_is_reported_and_fails_no_one() -> None:
    run = with_gpus(slow={"gpuserver2": {HOST: 0.5}}, only_way=True)
    assert bad_of(run) == []
    assert "GPU 1 (0000:2b:00.0): 27.5 and 55 GB/s" in verdict(run, "gpuserver2", HOST)["basis"]


def join_gpu(run: FakeRun, node: str, words: str, gpu: int = 1) -> None:
    """Join a GPU of a node to all its others by these words."""
    for told in list_accounts(run, node):
        for other in range(len(told["gpus"])):
            if other != gpu:
                told["joined"][gpu][other] = told["joined"][other][gpu] = words


@pytest.mark.parametrize("nodes", [("gpuserver1", "gpuserver2"), FOUR])
@pytest.mark.parametrize("words", ["SYS", "NV12"])
def test_a_gpu_that_lost_its_nvlinks_does_not_choose_its_peers(nodes: tuple[str, ...], words: str) -> None:
    """As nvidia-smi reports it then: `topo -m` names another way than between the other GPUs."""
    run = with_gpus(nodes, slow={nodes[0]: {PEER: 0.1}})
    join_gpu(run, nodes[0], words)
    found = {(node, check): kind for node, check, kind in bad_of(run)}
    assert found[nodes[0], PEER] in ("gpu_link_apart", "gpu_node_apart")
    assert {node for node, _check in found} == {nodes[0]}
    assert verdict(run, nodes[0], PEER)["outcome"] == "fail"
    # What reports it and is as fast as its peers is not known to be well.
    assert {verdict(run, nodes[0], check)["outcome"] for check in (*NCCL, HOST)} == {"unmeasured"}
    assert f"GPU 0 and GPU 1 are connected by {words}" in verdict(run, nodes[0], HOST)["cause"]


@pytest.mark.parametrize("check", [HOST, PEER])
def test_a_node_whose_peers_have_other_slots_does_not_choose_them(check: str) -> None:
    run = with_gpus(FOUR, slow={"gpu2": {check: 0.5}})
    for told in list_accounts(run, "gpu2"):
        told["gpus"][1]["pcie_lanes"] = 8
    found = bad_of(run)
    assert {node for node, _check, _kind in found} == {"gpu2"}
    assert verdict(run, "gpu2", check)["outcome"] == "fail"


def test_a_collective_of_a_node_that_lost_nvlinks_is_compared_with_its_peers() -> None:
    run = with_gpus(FOUR, slow={"gpu3": dict.fromkeys(NCCL, 0.3)})
    join_gpu(run, "gpu3", "SYS")
    assert {kind for node, check, kind in bad_of(run) if check in NCCL} == {"gpu_node_apart"}


def test_a_node_that_lost_a_gpu_is_reported_where_none_is_declared() -> None:
    run = with_gpus(FOUR)
    fewer = with_gpus(FOUR, gpus=3)
    run.results = [row for row in run.results if row["host"] != "gpu4" or "nvbandwidth" not in row]
    run.results += [row for row in fewer.results if row["host"] == "gpu4" and "nvbandwidth" in row]
    assert bad_of(run) == [("gpu4", HOST, "gpu_differs"), ("gpu4", PEER, "gpu_differs")]
    assert "3 GPUs, most of its peers have 4" in verdict(run, "gpu4", HOST)["cause"]


def test_two_honest_kinds_are_not_compared_with_each_other() -> None:
    """By their GPUs' model, by what is declared, or three nodes that report the same."""
    without_nvlinks = [[None if a == b else "SYS" for a in range(4)] for b in range(4)]
    run = with_gpus(FOUR)
    for told in list_accounts(run, "gpu3", "gpu4"):
        told["gpus"] = [{**gpu, "name": "NVIDIA L40S"} for gpu in told["gpus"]]
        told["joined"] = without_nvlinks
    assert bad_of(run) == []
    run = with_gpus(FOUR)
    for node in ("gpu3", "gpu4"):
        run.plan["nodes"][node]["gpus"] = {"count": 4, "nvlinks": 0}
    for told in list_accounts(run, "gpu3", "gpu4"):
        told["joined"] = without_nvlinks
    assert [one for one in bad_of(run) if one[1] in (HOST, PEER, *NCCL)] == []
    run = with_gpus(("gpu1", "gpu2", "gpu3", "gpu4", "gpu5", "gpu6", "gpu7"))
    for node in ("gpu5", "gpu6", "gpu7"):
        join_gpu(run, node, "SYS")
    assert bad_of(run) == []


def test_gpus_in_other_slots_and_pairs_joined_otherwise_are_not_compared() -> None:
    """A workstation whose second GPU has a shorter slot, and cards joined in pairs by a bridge."""
    run = with_gpus(slow={"gpuserver1": {HOST: 0.5}})
    for row in run.results:
        if "nvbandwidth" not in row:
            continue
        row["nvbandwidth"]["gpus"][1]["pcie_lanes"] = 8
        joined = [
            [None if a == b else "NV12" if a // 2 == b // 2 else "SYS" for a in range(4)] for b in range(4)
        ]
        row["nvbandwidth"]["joined"] = joined
        if row["check"] == PEER:
            rates = [
                [None if a == b else 270.0 if a // 2 == b // 2 else 25.0 for a in range(4)] for b in range(4)
            ]
            row["nvbandwidth"]["matrices"] = dict.fromkeys(row["nvbandwidth"]["matrices"], rates)
            row["metrics"]["peer_GBps"] = 25.0
    assert bad_of(run) == []


def test_gpus_that_others_may_use_are_reported_and_not_judged() -> None:
    run = with_gpus(FOUR, slow={"gpu2": {HOST: 0.5, **dict.fromkeys(NCCL, 0.5)}}, allow_busy=True)
    assert bad_of(run) == []
    assert "others may use these GPUs, and" in verdict(run, "gpu2", HOST)["basis"]


def test_a_node_that_is_behind_its_peers_in_two_collectives_fails_in_these() -> None:
    run = with_gpus(FOUR, slow={"gpu3": {NCCL[0]: 0.6, NCCL[1]: 0.6}})
    assert bad_of(run) == [("gpu3", check, "gpu_node_apart") for check in NCCL[:2]]
    cause = verdict(run, "gpu3", NCCL[0])["cause"]
    assert "busbw_GBps 240, the median is 400 of 3 peer nodes (in 2 collectives)" in cause


def test_one_collective_alone_and_other_libraries_fail_no_one() -> None:
    run = with_gpus(FOUR, slow={"gpu3": {NCCL[0]: 0.6}})
    assert bad_of(run) == []
    assert "busbw_GBps 240" in verdict(run, "gpu3", NCCL[0])["basis"]
    run = with_gpus(FOUR, slow={"gpu3": dict.fromkeys(NCCL, 0.6)})
    for check in NCCL:
        change(run, "gpu3", check, nccl_version="21000")
    assert bad_of(run) == []


def test_a_node_all_of_whose_gpus_are_slow_is_found_by_its_peers() -> None:
    run = with_gpus(FOUR, gpus=2)
    row, told = find_row(run, "gpu3", HOST)
    told["matrices"] = {name: [[25.0, 25.0]] for name in told["matrices"]}
    row["metrics"] |= {"host_to_gpu_GBps": 25.0, "gpu_to_host_GBps": 25.0}
    assert bad_of(run) == [("gpu3", HOST, "gpu_node_apart")]


def test_the_sites_bounds_hold() -> None:
    floors = {
        "nccl_all_reduce": {"busbw_GBps": [350, 500]},
        "nccl_alltoall": {"busbw_GBps": [450, 500]},
        PEER: {"peer_GBps": [250, None]},
    }
    outcomes = {one["check"]: one["outcome"] for one in gpus_of(with_gpus(floors=floors))}
    assert outcomes == {
        "nccl_all_reduce": "pass", "nccl_all_gather": "recorded", "nccl_alltoall": "fail",
        HOST: "recorded", PEER: "recorded",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("check", "values", "says"),
    [
        (NCCL[0], {"nccl_tests": None}, "nccl_tests is None"),
        (NCCL[0], {"gpus": 8}, "and counts 8"),
        (NCCL[0], {"joined": [[None] * 4] * 3}, "the connection types of the GPUs are incomplete"),
        (NCCL[0], {"sizes": []}, "nccl_tests.sizes is []"),
        (NCCL[0], {"busbw_GBps": 480.0}, "busbw_GBps is 480, that of the largest size 400"),
        (NCCL[0], {"sizes": [{"size_bytes": 1 << 20, "time_us": 1.0, "algbw_GBps": 1.0, "busbw_GBps": 1.0}]},
         "its largest size is 1048576 bytes, configured is 1073741824"),
        (NCCL[1], {"algbw_GBps": 400.0}, "algbw_GBps is 400"),
        (HOST, {"matrices": {}}, "the planned matrices are missing"),
        (HOST, {"host_to_gpu_GBps": 60.0}, "is not that of the slowest copy"),
        (PEER, {"matrices": {"device_to_device_memcpy_read_ce": [[None, 1.0], [1.0, None]]}}, "match 4 GPUs"),
        (PEER, {"matrices": {"device_to_device_memcpy_read_ce": [["fast"] * 4] * 4}}, "is 'fast'"),
        (PEER, {"matrices": {"device_to_device_memcpy_read_ce": [[None] * 4] * 4}}, "nothing was copied"),
    ],
)  # fmt: skip
def test_an_account_that_contradicts_itself_proves_nothing(
    check: str, values: dict[str, Any], says: str
) -> None:
    run = with_gpus()
    change(run, "gpuserver1", check, **values)
    found = verdict(run, "gpuserver1", check)
    assert found["outcome"] == "unmeasured"
    assert found["cause_class"] in ("not_borne_out", "row_garbled")
    assert says in found["cause"]


@pytest.mark.parametrize("check", [NCCL[0], HOST])
def test_one_gpu_that_is_named_four_times_is_not_four(check: str) -> None:
    """J8."""
    run = with_gpus()
    _row, told = find_row(run, "gpuserver1", check)
    told["gpus"] = [told["gpus"][0]] * 4
    found = verdict(run, "gpuserver1", check)
    assert (found["outcome"], "names a GPU twice: index 0" in found["cause"]) == ("unmeasured", True)


@pytest.mark.parametrize("check", [NCCL[2], HOST])
@pytest.mark.parametrize("pci", ["0000:1B:00.0", "00000000:1b:00.0"])
def test_one_gpu_by_two_forms_of_its_address_is_not_two(check: str, pci: str) -> None:
    """J8: gpuserver1's first GPU is 0000:1b:00.0."""
    run = with_gpus()
    _row, told = find_row(run, "gpuserver1", check)
    told["gpus"][1]["pci"] = pci
    assert verdict(run, "gpuserver1", check)["outcome"] == "unmeasured"


def test_busbw_that_does_not_follow_from_algbw_and_gpus_is_not_accepted() -> None:
    """All-gather's busbw is three quarters of algbw among four: 400 GB/s stated as the bus of 400 is none."""
    run = with_gpus()
    row, told = find_row(run, "gpuserver1", NCCL[1])
    last = told["sizes"][-1]
    last["busbw_GBps"] = row["metrics"]["busbw_GBps"] = last["algbw_GBps"]
    assert "from algbw and 4 GPUs" in verdict(run, "gpuserver1", NCCL[1])["cause"]


@pytest.mark.parametrize(("kind", "outcome"), [("gpu_wrong", "fail"), ("gpu_unfit", "unmeasured")])
def test_data_that_arrives_changed_fails_and_gpus_that_cannot_be_measured_do_not(
    kind: str, outcome: str
) -> None:
    run = with_gpus()
    row, _told = find_row(run, "gpuserver1", NCCL[0])
    error_row(row, kind, "failed" if kind == "gpu_wrong" else "unmeasured", "gpuserver1")
    found = verdict(run, "gpuserver1", NCCL[0])
    assert (found["outcome"], found["cause_class"], found["next"]) == (outcome, kind, "do this")


def test_gpus_other_than_declared_leave_it_unmeasured() -> None:
    run = with_gpus()
    run.plan["nodes"]["gpuserver1"]["gpus"] = {"count": 8}
    assert {(node, kind) for node, _check, kind in bad_of(run)} == {("gpuserver1", "gpu_unfit")}
    assert "over 4 GPUs, the inventory declares 8" in verdict(run, "gpuserver1", PEER)["cause"]


def test_all_nodes_are_reported_as_a_share_of_one_where_nccl_ran_at_the_same_size() -> None:
    run = with_gpus()
    line = next(one for one in run.asked if one["check"] == NCCL[0])
    answer = {"busbw_GBps": 100.0, "size_bytes": 1 << 26}
    found = scaled(run, line["node"], answer, "torch_nccl")
    assert found == {**answer, "of_one_node_percent": 25.0}
    assert scaled(run, line["node"], answer, "torch_gloo") == answer
    other_size = {**answer, "size_bytes": 999}
    assert scaled(run, line["node"], other_size, "torch_nccl") == other_size


def scaled(run: FakeRun, node: str, observed: dict[str, Any], tool: str) -> dict[str, Any]:
    """Return what is observed of an all-reduce over nodes, beside the rows of one node."""
    rows = {row["id"]: [row] for row in run.results if row["check"] == NCCL[0]}
    asked = [line for line in run.asked if line["id"] in rows]
    asked.append({"id": "j0", "check": "collective_allreduce", "tool": tool, "node": node})
    answers = [Answer("recorded", basis="none") for _line in asked]
    answers[-1].observed = dict(observed)
    gpu_links.compare_gpus(asked, answers, rows, {}, frozenset(), {})
    return answers[-1].observed


@pytest.mark.parametrize(
    ("node_class", "declared", "asked"),
    [
        ("hardware", None, (*NCCL, HOST, PEER)),
        ("hardware", 0, ()),
        ("hardware", 1, (HOST,)),
        ("virtual", None, ()),
        ("virtual", 2, (*NCCL, HOST, PEER)),
    ],
)
def test_nodes_that_declare_gpus_are_planned_by_their_number(
    node_class: str, declared: int | None, asked: tuple[str, ...]
) -> None:
    run = with_gpus(node_class=node_class)
    if declared is not None:
        run.plan["nodes"]["gpuserver2"]["gpus"] = {"count": declared}
    order = requests.work_order(
        run.order["run"], run.plan, dict.fromkeys(run.nodes, run.order["fabrics"][0]), run.policy, run.nodes
    )
    lines = [line for line in node_tests.asked_lines(order) if line["node"] == "gpuserver2"]
    assert tuple(line["check"] for line in lines) == asked
    whole = requests.asked_lines(run.plan, order)
    assert requests.find_missing_tests(run.manifest, run.plan, order, whole) is None
    order["roster"][1]["gpus"] = 0
    fewer = requests.asked_lines(run.plan, order)
    told = requests.find_missing_tests(run.manifest, run.plan, order, fewer)
    assert told == (None if declared == 0 else "work_order.json is not of this run's plan and policy")


def test_nothing_is_planned_unless_the_policy_names_a_folder() -> None:
    assert not any(
        one["tool"] in ("nccl-tests", "nvbandwidth") for one in FakeRun(node_class="hardware").asked
    )
