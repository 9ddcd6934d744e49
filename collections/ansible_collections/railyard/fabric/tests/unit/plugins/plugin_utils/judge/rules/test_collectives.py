# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of all nodes together counts when each node's rails show it; rails alike are held together."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import ALL_RAILS
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import together
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost, requests
from support.runs.fake_run import FakeRun
from support.runs.node_row import node_row
from support.runs.spoil import error_row

MOST_BYTES = 4_000_000


def sizes(least_bytes: int = 0, share: float = 1.0) -> list[dict[str, Any]]:
    """Return what was reached at each size: 98 times at 4 GB/s, which is 32 Gbit/s."""
    asked = [4096, 16384, 65536, 262144, 1048576, MOST_BYTES]
    return [
        {
            "size_bytes": size, "iterations": 98, "time_us": size / 4e3, "time_min_us": size / 4e3,
            "algbw_GBps": 4.0, "busbw_GBps": 4.0 * share,
        }
        for size in asked if size >= least_bytes
    ]  # fmt: skip


#: Of two ranks each sends all that is reduced, two more of each size before it is timed.
MOVED = 100 * (4096 + 16384 + 65536 + 262144 + 1048576 + MOST_BYTES)
#: In an exchange of blocks each of two ranks keeps a half, and sends and gets the other; of less than 16 KiB
#: for each rank a message is mostly headers.
EXCHANGED = 100 * (65536 + 262144 + 1048576 + MOST_BYTES) // 2
EXCHANGES = ("collective_allgather", "collective_alltoall")
GRADIENTS = 50_000_000


def row_of(line: dict[str, Any]) -> dict[str, Any]:
    rails = ["rail0", "rail1"] if line["subject"] == ALL_RAILS else [line["subject"]]
    said = {"backend": "gloo", "nodes": 2, "ranks": 2, "processes": 1, "rails": rails, "torch": "1.13.0"}
    if line["check"] == "collective_allreduce":
        said |= {"sizes": sizes(), "moved_bytes": MOVED, "left_out_bytes": [], "call": "all_reduce"}
        metrics = {"busbw_GBps": 4.0, "algbw_GBps": 4.0, "size_bytes": MOST_BYTES}
    elif line["check"] in EXCHANGES:
        said |= {"sizes": sizes(32768, 0.5), "moved_bytes": EXCHANGED, "left_out_bytes": [], "call": "all"}
        metrics = {"busbw_GBps": 2.0, "algbw_GBps": 4.0, "size_bytes": MOST_BYTES}
    else:
        said |= {"moved_bytes": GRADIENTS, "most_bytes": 2 * GRADIENTS, "loss_first": 1.5, "loss_last": 0.5}
        said |= {"steps": 20, "gradient_bytes": GRADIENTS // 20}
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
    argv = ["/usr/bin/python3", "-I", "/proc/self/fd/0"]
    return {
        **node_row(line, (0.0, 5.0), argv),
        "metrics": metrics,
        "counters": counters,
        "collective": said,
    }


def made(**rules: Any) -> FakeRun:
    run = FakeRun(rate_gbps=40.0, collectives="torch", collective_most_bytes=MOST_BYTES, **rules)
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


def test_each_rail_alone_all_rails_and_the_training_are_planned_on_every_node() -> None:
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


def test_nothing_is_planned_where_the_policy_does_not_say_so_and_its_time_is_reported() -> None:
    run, without = made(), FakeRun(rate_gbps=40.0)
    assert not any(line["check"].startswith("collective_") for line in without.asked)
    # Six tests of 5 s, with 2 s to start each, all nodes at once.
    assert cost.estimate_order(run.order).duration_s - cost.estimate_order(
        without.order
    ).duration_s == pytest.approx(42)
    assert requests.find_missing_tests(run.manifest, run.plan, run.order, run.asked) is None


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
        (2 * EXCHANGED, "not_borne_out"),
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
    one = verdicts(run)["collective_allreduce", "gpuserver1", ALL_RAILS]
    assert one["cause_class"] == "collective_elsewhere"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rails": ["rail1"]}, "ran over"),
        ({"backend": "nccl"}, "backend"),
        ({"ranks": 1}, "ranks"),
        ({"moved_bytes": MOVED // 2}, "moved_bytes"),
        ({"most_bytes": MOVED * 100}, "most_bytes is not known"),
        ({"sizes": []}, "sizes"),
        ({"sizes": sizes()[1:], "moved_bytes": MOVED - 409_600}, "planned were 6"),
        ({"sizes": sizes()[::-1]}, "bytes come after"),
        ({"sizes": [*sizes()[:-1], {**sizes()[-1], "time_us": 500.0}]}, "busbw_GBps"),
        (
            {
                "sizes": [{**sizes()[0], "iterations": 98 + 10**7}, *sizes()[1:]],
                "moved_bytes": MOVED + 4096 * 10**7,
            },
            "lasted",
        ),
    ],
)
def test_an_account_that_contradicts_itself_proves_nothing(change: dict[str, Any], said: str) -> None:
    run = made()
    row(run, "gpuserver1", "rail0")["collective"].update(change)
    one = verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]
    assert one["outcome"] == "unmeasured"
    assert one["cause_class"] in ("not_borne_out", "row_garbled")
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
    told = sizes(16 * 16384, 15 / 32)
    told[-1]["time_us"] = 2000.0
    moved = 100 * sum(one["size_bytes"] for one in told) * factor
    for node in ("gpuserver1", "gpuserver2"):
        one = row(run, node, ALL_RAILS, check)
        one["collective"] |= {"backend": "nccl", "ranks": 16, "processes": 8, "moved_bytes": moved}
        one["collective"]["sizes"] = told
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
    assert one["outcome"] == "unmeasured"
    assert "processes" in one["cause"]


def slower(run: FakeRun, subject: str, times: float) -> None:
    for node in ("gpuserver1", "gpuserver2"):
        one = row(run, node, subject)
        last = one["collective"]["sizes"][-1]
        last["time_us"] *= times
        one["metrics"]["busbw_GBps"] = last["busbw_GBps"] = 4.0 / times


def test_a_rail_far_behind_the_others_of_its_job_is_slow() -> None:
    run = made()
    slower(run, "rail1", 2.0)
    found = verdicts(run)
    one = found["collective_allreduce", "gpuserver1", "rail1"]
    assert (one["outcome"], one["proof"], one["cause_class"]) == ("fail", "proven", "collective_slow_rail")
    assert "rail0 has 4" in one["cause"]
    assert found["collective_allreduce", "gpuserver2", "rail0"]["outcome"] == "recorded"
    assert run.status() == 1
    run = made()
    slower(run, "rail1", 1.5)
    assert verdicts(run)["collective_allreduce", "gpuserver2", "rail1"]["outcome"] == "recorded"


def test_more_than_the_rail_carries_is_not_accepted() -> None:
    run = made()
    slower(run, "rail0", 0.7)
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
    error_row(row(run, "gpuserver1", "rail0"), error_class, status, "gpuserver1")
    one = verdicts(run)["collective_allreduce", "gpuserver1", "rail0"]
    assert (one["outcome"], one["cause_class"]) == (outcome, error_class)


@pytest.mark.parametrize(
    ("check", "change", "said"),
    [
        ("collective_allreduce", {"ranks": 3}, "ranks is not what another node of the job reports"),
        ("collective_allreduce", {"call": "all_gather"}, "call is not what another node"),
        ("collective_training", {"steps": 19}, "steps is not what another node"),
        ("collective_training", {"loss_last": 0.25}, "loss_last is not what another node"),
    ],
)
def test_nodes_of_one_job_that_contradict_each_other_prove_nothing(
    check: str, change: dict[str, Any], said: str
) -> None:
    """J4: every decision of a job is made by all of its ranks."""
    run = made()
    other = row(run, "gpuserver2", ALL_RAILS, check)
    one = other["collective"]
    one.update(change)
    if "ranks" in change:  # so that its own numbers still fit each other
        factor = 2 * (3 - 1) / 3
        one["moved_bytes"] = MOVED * factor
        other["metrics"]["busbw_GBps"] = one["sizes"][-1]["busbw_GBps"] = 4.0 * factor
        one["processes"] = 1
        other["counters"] = {name: [0, int(span[1] * factor)] for name, span in other["counters"].items()}
    found = verdicts(run)
    both = [found[check, node, ALL_RAILS] for node in ("gpuserver1", "gpuserver2")]
    assert {(one["outcome"], one["cause_class"]) for one in both} == {("unmeasured", "not_borne_out")}
    assert said in both[1]["cause"]
    assert run.status() == 3


def test_a_job_of_other_nodes_than_were_requested_proves_nothing() -> None:
    run = made()
    for node in ("gpuserver1", "gpuserver2"):
        row(run, node, ALL_RAILS, "collective_training")["collective"].update(nodes=3, ranks=3)
        row(run, node, ALL_RAILS, "collective_training")["metrics"]["efficiency_percent"] = 50.0
    one = verdicts(run)["collective_training", "gpuserver1", ALL_RAILS]
    assert (one["outcome"], "had 3 nodes, 2 were planned" in one["cause"]) == ("unmeasured", True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"efficiency_percent": 95.0}, "efficiency_percent is 95, by its samples 75"),
        ({"efficiency_percent": 450.0, "samples_per_s": 900.0}, "more than ranks can reach together"),
        ({"loss_last": 1.5}, "the loss went from 1.5 to 1.5"),
    ],
)
def test_a_training_whose_numbers_contradict_each_other_proves_nothing(
    change: dict[str, float], said: str
) -> None:
    run = made()
    one = row(run, "gpuserver1", ALL_RAILS, "collective_training")
    for key, value in change.items():
        (one["metrics"] if key in one["metrics"] else one["collective"])[key] = value
    found = verdicts(run)["collective_training", "gpuserver1", ALL_RAILS]
    assert (found["outcome"], said in found["cause"]) == ("unmeasured", True)
