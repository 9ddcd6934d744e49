"""Collectives and the training job of all nodes, by torch over gloo: proven, and a bad rail seen.

Debian's python3-torch is 180 MB with all that it needs: the nodes' image has it, which is made once.
"""

from __future__ import annotations

import pytest
from e2e.support import NODES, Cluster, edited, needs_root, write_lab
from railyard.lab.topology import BASE_PACKAGES

# So low that a processor shared by both nodes reaches it.
RATE_GBPS = 0.2
RAILS = ("rail0", "rail1")
EXCHANGES = ("collective_allgather", "collective_alltoall")
POLICY = {
    "collectives": "torch",
    "collective_duration_s": 4,
    # Of an exchange each rail carries a quarter: enough that the shaper's 128 KiB of burst is little of it.
    "collective_most_bytes": 8 << 20,
    "questions": "together",
    "iperf3_duration_s": 4,
    "iperf3_omit_s": 0,
    "bidirectional": False,
    "confirm": 0,
    "rendezvous_timeout_s": 4,
    "first_rendezvous_timeout_s": 20,
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("together"), "together")
    write_lab(made, "198.18.86.", "container")
    with edited(made.topology) as topology:
        topology["image"]["packages"] = [*BASE_PACKAGES, "python3-torch"]
        for rail in topology["rails"]:
            rail["rate_gbps"] = RATE_GBPS
    with edited(made.fabric_file) as variables:
        for rail in variables["fabric"]["rails"]:
            rail["rate_gbps"] = RATE_GBPS
        variables["fabric_policy"] = POLICY
        variables["benchmark_tools_extra_packages"] = ["python3-torch"]
    with made.up(timeout=900):
        done = made.railyard("provision", "-i", str(made.inventory), timeout=600)
        assert done.returncode == 0, done.stdout
        yield made


def of_all_nodes(run) -> dict[tuple[str, str, str], dict]:
    return {
        (one["check"], one["node"], one["subject"]): one
        for one in run.verdicts
        if one["check"].startswith("collective_")
    }


def test_all_nodes_together_are_measured_and_proven_on_each_rail_and_on_all(cluster: Cluster) -> None:
    status, run, output = cluster.validate()
    found = of_all_nodes(run)
    assert set(found) == {
        *(("collective_allreduce", node, subject) for node in NODES for subject in (*RAILS, "all rails")),
        *((check, node, "all rails") for node in NODES for check in (*EXCHANGES, "collective_training")),
    }
    assert {(one["outcome"], one["proof"]) for one in found.values()} == {("recorded", "proven")}, found
    assert status == 0, output
    rate = RATE_GBPS / 8
    for node in NODES:
        alone = [found["collective_allreduce", node, rail]["observed"]["busbw_GBps"] for rail in RAILS]
        for busbw in alone:
            assert 0.5 * rate < busbw < rate
        both = found["collective_allreduce", node, "all rails"]["observed"]["busbw_GBps"]
        assert 1.2 * max(alone) < both < 2 * rate
        for check in EXCHANGES:
            # More than one rail could carry, however busy the processor that both nodes share.
            assert rate < found[check, node, "all rails"]["observed"]["busbw_GBps"] < 2 * rate
        training = found["collective_training", node, "all rails"]["observed"]
        # Of two nodes 200 % would be all that both do alone, had it been counted so.
        assert 0 < training["efficiency_percent"] <= 110
        assert training["communication_percent"] > 10
    exchanged = set()
    for row in run.lines("results.jsonl"):
        if row.get("check") not in ("collective_allreduce", *EXCHANGES):
            continue
        # Looked at with nothing of Railyard's.
        sent = {name: after - before for name, (before, after) in row["counters"].items()}
        moved = sum((one["iterations"] + 2) * one["size_bytes"] for one in row["collective"]["sizes"])
        if row["check"] in EXCHANGES:
            exchanged.add((row["check"], row["node"], row["collective"]["call"]))
            # Of two blocks each rank sends the other one's, half of it on each rail.
            for counter in (f"{rail}.{way}" for rail in RAILS for way in ("tx_bytes", "rx_bytes")):
                assert moved / 4 <= sent[counter] <= 1.2 * moved / 4, (row["check"], counter)
            continue
        if row["subject"] == "all rails":
            continue
        # Of two ranks each sends what is reduced, on this rail alone.
        other = next(rail for rail in RAILS if rail != row["subject"])
        for way in ("tx_bytes", "rx_bytes"):
            assert moved <= sent[f"{row['subject']}.{way}"] <= 1.2 * moved
            assert sent[f"{other}.{way}"] < 0.05 * moved
    # Debian's torch has both of them for gloo.
    calls = dict(zip(EXCHANGES, ("all_gather", "all_to_all_single"), strict=True))
    assert exchanged == {(check, node, call) for check, call in calls.items() for node in NODES}
    report = (run.path / "report.md").read_text(encoding="utf-8").lower()
    assert all(f"{name} of all nodes" in report for name in ("all-reduce", "all-gather", "all-to-all"))


def test_a_slow_rail_is_named_by_the_all_reduce_over_it(cluster: Cluster) -> None:
    cluster.lab("fault", "slow_rail", "gpuserver2", "rail1", "--rate-gbps", str(RATE_GBPS / 5))
    try:
        status, run, output = cluster.validate()
    finally:
        cluster.lab("heal", "--all")
    assert status == 1, output
    found = of_all_nodes(run)
    for node in NODES:
        slow = found["collective_allreduce", node, "rail1"]
        assert (slow["outcome"], slow["proof"], slow["cause_class"]) == (
            "fail",
            "proven",
            "collective_slow_rail",
        )
        assert found["collective_allreduce", node, "rail0"]["outcome"] == "recorded"


def test_a_rail_that_is_down_breaks_its_jobs_off_and_no_other(cluster: Cluster) -> None:
    cluster.lab("fault", "link_down", "gpuserver1", "rail1")
    try:
        status, run, output = cluster.validate()
    finally:
        cluster.lab("heal", "--all")
    assert status == 1, output
    for (_check, node, subject), one in of_all_nodes(run).items():
        if subject == "rail0":
            assert (one["outcome"], one["proof"]) == ("recorded", "proven"), one
        else:
            assert one["outcome"] in ("fail", "unmeasured"), (node, one)
            assert one["cause_class"] in ("collective_failed", "collective_elsewhere"), one
