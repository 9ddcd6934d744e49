# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of all nodes together counts when each node's rails show it; rails alike are held together."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import ALL_RAILS
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import together
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import cost, requests
from support.runs.fake_run import RUN, FakeRun

SIZES = [
    # bytes, times, microseconds: 0.4 and 4 GB/s, which is 32 Gbit/s.
    {"size_bytes": 4096, "iterations": 100, "time_us": 10.24, "algbw_GBps": 0.4, "busbw_GBps": 0.4},
    {"size_bytes": 4_000_000, "iterations": 98, "time_us": 1000.0, "algbw_GBps": 4.0, "busbw_GBps": 4.0},
]
#: Of two ranks each sends all that is reduced, two more of each size before it is timed.
MOVED = 102 * 4096 + 100 * 4_000_000
#: In an exchange of blocks each of two ranks keeps a half, and sends and gets the other.
EXCHANGED = MOVED // 2
EXCHANGES = ("collective_allgather", "collective_alltoall")
GRADIENTS = 50_000_000


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    keys = ("id", "check", "tool", "node", "peer", "rail", "direction", "round", "group", "subject")
    rails = ["rail0", "rail1"] if line["subject"] == ALL_RAILS else [line["subject"]]
    said = {"backend": "gloo", "nodes": 2, "ranks": 2, "processes": 1, "rails": rails, "torch": "1.13.0"}
    if line["check"] == "collective_allreduce":
        said |= {"sizes": copy.deepcopy(SIZES), "moved_bytes": MOVED, "left_out_bytes": []}
        metrics = {"busbw_GBps": 4.0, "algbw_GBps": 4.0, "size_bytes": 4_000_000}
    elif line["check"] in EXCHANGES:
        sizes = [{**one, "busbw_GBps": one["algbw_GBps"] / 2} for one in SIZES]
        said |= {"sizes": sizes, "moved_bytes": EXCHANGED, "left_out_bytes": []}
        metrics = {"busbw_GBps": 2.0, "algbw_GBps": 4.0, "size_bytes": 4_000_000}
    else:
        said |= {"moved_bytes": GRADIENTS, "most_bytes": 2 * GRADIENTS, "steps": 20}
        metrics = {
            "samples_per_s": 150.0, "alone_samples_per_s": 100.0, "efficiency_percent": 75.0,
            "communication_percent": 25.0,
        }  # fmt: skip
    each = int(said["moved_bytes"] * 1.03 / len(rails))
    counters = {
        f"{rail}.{way}": [1000, 1000 + (each if rail in rails else 5000)]
        for rail in ("rail0", "rail1")
        for way in ("tx_bytes", "rx_bytes")
    }
    return {
        **{key: line[key] for key in keys}, "schema": 1, "run": RUN, "end": "client", "host": line["node"],
        "started": "2026-11-21T10:15:50.000Z", "window_s": [0.0, 5.0], "status": "measured",
        "metrics": metrics, "counters": counters, "proof": "proven", "proof_reason": None,
        "argv": [["/usr/bin/python3", "-I", "/proc/self/fd/0"]], "exit_status": 0, "error": None,
        "collective": said,
    }  # fmt: skip


def made(**rules: Any) -> FakeRun:
    run = FakeRun(rate_gbps=40.0, collectives="torch", **rules)
    run.results += [row_of(line) for line in run.asked if line["check"].startswith("collective_")]
    return run


def row(run: FakeRun, node: str, subject: str, check: str = "collective_allreduce") -> dict[str, Any]:
    return next(
        one
        for one in run.results
        if (one["node"], one.get("subject"), one["check"]) == (node, subject, check)
    )


def verdicts(run: FakeRun) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {
        (one["check"], one["node"], one["subject"]): one
        for one in run.judge()
        if one["check"].startswith("collective_")
    }


def test_each_rail_alone_all_of_them_and_the_training_are_asked_of_every_node() -> None:
    run = made()
    found = verdicts(run)
    assert list(found) == [
        (check, node, subject)
        for node in ("gpuserver1", "gpuserver2")
        for check, subject in (
            ("collective_allreduce", "rail0"),
            ("collective_allreduce", "rail1"),
            ("collective_allreduce", ALL_RAILS),
            ("collective_allgather", ALL_RAILS),
            ("collective_alltoall", ALL_RAILS),
            ("collective_training", ALL_RAILS),
        )
    ]
    assert {(one["outcome"], one["proof"]) for one in found.values()} == {("recorded", "proven")}
    assert (run.incomplete(), run.status()) == (None, 0)
    # Two rails of 40 Gbit/s.
    assert found["collective_allreduce", "gpuserver1", "rail0"]["ceiling"] == {"busbw_GBps": 5.0}
    for check in ("collective_allreduce", *EXCHANGES):
        assert found[check, "gpuserver1", ALL_RAILS]["ceiling"] == {"busbw_GBps": 10.0}


def test_nobody_is_asked_where_the_policy_does_not_say_so_and_its_time_is_told() -> None:
    run, without = made(), FakeRun(rate_gbps=40.0)
    assert not any(line["check"].startswith("collective_") for line in without.asked)
    # Six tests of 5 s, with 2 s to start each, all nodes at once.
    assert cost.of_order(run.order).duration_s - cost.of_order(without.order).duration_s == pytest.approx(42)
    assert requests.not_all_asked(run.manifest, run.plan, run.order, run.asked) is None


@pytest.mark.parametrize(
    ("operations", "asked"),
    [
        (["alltoall", "allgather"], ["allgather", "alltoall", "training"]),
        (["allreduce"], ["allreduce", "allreduce", "allreduce", "training"]),
        ([], ["training"]),
        # Of a run of before there was the key.
        (None, ["allreduce", "allreduce", "allreduce", "training"]),
    ],
)
def test_a_policy_says_which_operations(operations: list[str] | None, asked: list[str]) -> None:
    run = FakeRun(rate_gbps=40.0, collectives="torch")
    run.order["policy"].pop("collective_operations")
    if operations is not None:
        run.order["policy"]["collective_operations"] = operations
    assert [line["check"] for line in together.asked_lines(run.order, "gpuserver1")] == [
        f"collective_{name}" for name in asked
    ]


@pytest.mark.parametrize("check", EXCHANGES)
@pytest.mark.parametrize(
    ("grown", "cause"),
    [
        # What the rails have to show is half of an all-reduce's: a half of that went elsewhere.
        (EXCHANGED // 2, "collective_elsewhere"),
        (MOVED, "not_borne_out"),
    ],
)
def test_an_exchange_has_to_show_as_what_it_sends(check: str, grown: int, cause: str) -> None:
    run = made()
    counters = row(run, "gpuserver2", ALL_RAILS, check)["counters"]
    for rail in ("rail0", "rail1"):
        counters[f"{rail}.rx_bytes"] = [1000, 1000 + grown // 2]
    found = verdicts(run)
    one = found.pop((check, "gpuserver2", ALL_RAILS))
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", cause)
    assert {one["outcome"] for one in found.values()} == {"recorded"}


@pytest.mark.parametrize(
    ("counter", "grown", "cause"),
    [
        ("rail0.tx_bytes", int(MOVED * 0.99), "collective_elsewhere"),
        ("rail0.rx_bytes", 4000, "collective_elsewhere"),
        ("rail0.rx_bytes", int(MOVED * 1.3), "not_borne_out"),
        ("rail1.tx_bytes", MOVED // 2, "not_borne_out"),
        ("rail0.tx_bytes", None, "not_borne_out"),
    ],
)
def test_counters_that_say_otherwise_leave_it_unmeasured(counter: str, grown: int | None, cause: str) -> None:
    run = made()
    row(run, "gpuserver2", "rail0")["counters"][counter] = [1000, None if grown is None else 1000 + grown]
    found = verdicts(run)
    slow = found.pop(("collective_allreduce", "gpuserver2", "rail0"))
    assert (slow["outcome"], slow["cause_class"]) == ("unmeasured", cause)
    assert {one["outcome"] for one in found.values()} == {"recorded"}


def test_of_all_rails_each_has_its_share() -> None:
    run = made()
    counters = row(run, "gpuserver1", ALL_RAILS)["counters"]
    for way in ("tx_bytes", "rx_bytes"):
        counters[f"rail0.{way}"] = [0, MOVED]
        counters[f"rail1.{way}"] = [0, 9000]
    assert (
        verdicts(run)["collective_allreduce", "gpuserver1", ALL_RAILS]["cause_class"]
        == "collective_elsewhere"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rails": ["rail1"]}, "ran over"),
        ({"backend": "nccl"}, "backend"),
        ({"ranks": 1}, "ranks"),
        ({"moved_bytes": MOVED // 2}, "moved_bytes"),
        ({"most_bytes": MOVED * 100}, "most_bytes"),
        ({"sizes": []}, "sizes"),
        ({"sizes": [{**SIZES[0]}, {**SIZES[1], "time_us": 500.0}]}, "busbw_GBps"),
        (
            {"sizes": [{**SIZES[0], "iterations": 10_000_000}, SIZES[1]], "moved_bytes": 41_360_008_192},
            "lasted",
        ),
    ],
)
def test_an_account_that_contradicts_itself_proves_nothing(change: dict[str, Any], said: str) -> None:
    run = made()
    row(run, "gpuserver1", "rail0")["collective"].update(change)
    one = verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "not_borne_out")
    assert said in one["cause"]


@pytest.mark.parametrize(
    ("check", "factor", "shown", "outcome", "ceiling"),
    [
        # Each of eight GPUs keeps and hands round eight of its sixteen blocks inside: 64 blocks take the
        # NICs, nothing less. These carry 10 GB/s, and busbw counts 15/16 of a size.
        ("collective_alltoall", 64 / 16, 1.0, "recorded", 10 * (15 / 16) / (64 / 16)),
        ("collective_alltoall", 64 / 16, 0.6, "unmeasured", None),
        # A ring passes a node once; what hands round inside may spare it up to a half.
        ("collective_allgather", 15 / 16, 0.6, "recorded", 10 * (15 / 16) / (1 / 2)),
        ("collective_allgather", 15 / 16, 0.4, "unmeasured", None),
    ],
)
def test_a_node_of_many_gpus_sends_the_blocks_of_all_of_them(
    check: str, factor: float, shown: float, outcome: str, ceiling: float | None
) -> None:
    run = made(collective_backend="nccl")
    one, moved = row(run, "gpuserver1", ALL_RAILS, check), MOVED * factor
    one["collective"] |= {"backend": "nccl", "ranks": 16, "processes": 8, "moved_bytes": moved}
    one["collective"]["sizes"][-1]["time_us"] = 2000.0
    one["metrics"]["busbw_GBps"] = 2.0 * 15 / 16
    for name in one["counters"]:
        one["counters"][name] = [0, int(moved * shown / 2)]
    found = verdicts(run)[check, "gpuserver1", ALL_RAILS]
    assert (found["outcome"], found["ceiling"]) == (outcome, ceiling and {"busbw_GBps": ceiling})


@pytest.mark.parametrize("processes", [0, 2, None, "8", True])
def test_of_gloo_a_node_has_one_process(processes: object) -> None:
    run = made()
    row(run, "gpuserver1", ALL_RAILS, "collective_alltoall")["collective"]["processes"] = processes
    one = verdicts(run)["collective_alltoall", "gpuserver1", ALL_RAILS]
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "not_borne_out")
    assert "processes" in one["cause"]


def slower(run: FakeRun, node: str, subject: str, times: float) -> None:
    one = row(run, node, subject)
    last = one["collective"]["sizes"][-1]
    last["time_us"] *= times
    one["metrics"]["busbw_GBps"] = last["busbw_GBps"] = 4.0 / times


def test_a_rail_far_behind_the_others_of_its_job_is_slow() -> None:
    run = made()
    slower(run, "gpuserver1", "rail1", 2.0)
    slower(run, "gpuserver2", "rail1", 1.5)
    found = verdicts(run)
    one = found["collective_allreduce", "gpuserver1", "rail1"]
    assert (one["outcome"], one["proof"], one["cause_class"]) == ("fail", "proven", "collective_slow_rail")
    assert "rail0 has 4" in one["cause"]
    assert found["collective_allreduce", "gpuserver2", "rail1"]["outcome"] == "recorded"
    assert run.status() == 1


def test_more_than_the_rail_carries_is_not_believed() -> None:
    run = made()
    slower(run, "gpuserver1", "rail0", 0.7)
    one = verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "above_ceiling")


def test_a_site_bounds_what_nothing_else_does() -> None:
    run = made(floors={"collective_allreduce": {"busbw_GBps": [4.5, None]}})
    assert verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]["outcome"] == "fail"
    run = made(floors={"collective_training": {"efficiency_percent": [70, 101]}})
    assert verdicts(run)["collective_training", "gpuserver1", ALL_RAILS]["outcome"] == "pass"


@pytest.mark.parametrize(
    ("status", "error_class", "outcome"),
    [
        ("failed", "collective_failed", "fail"),
        ("failed", "collective_wrong", "fail"),
        ("failed", "deadline", "unmeasured"),
        ("unmeasured", "peer_absent", "unmeasured"),
        ("unmeasured", "collective_wrong", "unmeasured"),
    ],
)
def test_a_job_that_all_came_to_has_to_end_well(status: str, error_class: str, outcome: str) -> None:
    run = made()
    error = {"class": error_class, "message": "so it was", "host": "gpuserver1", "fix": "mend it"}
    row(run, "gpuserver1", "rail0").update({"status": status, "error": error, "proof": None})
    one = verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]
    assert (one["outcome"], one["cause_class"]) == (outcome, error_class)
