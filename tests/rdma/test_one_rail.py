"""One rail of two VMs, from bare to measured by ib_write_bw and ib_write_lat.

What `make test` sees of RDMA; the whole run and its faults are in the tests beside this one.
"""

from __future__ import annotations

import pytest
from e2e.support import NODES, Cluster, assert_proven, needs_root
from rdma.support import rdma_verdicts, small_inventory

LAB, SUBNET = "onerail", "198.18.5."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    needs_root()
    made = small_inventory(tmp_path_factory.mktemp("onerail"), LAB, SUBNET)
    with made.up():
        yield made


def test_bare_nodes_become_a_measured_rail(cluster: Cluster) -> None:
    done = cluster.railyard(
        "site", "-i", str(cluster.inventory), "--", "--tags", "drivers,network,tools,validate",
        "-e", "railyard_driver_batch=100%", "-e", "railyard_network_batch=100%",
        timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    run = cluster.newest()
    assert run.not_good() == []
    checks = {"rdma_bandwidth": "ib_write_bw", "rdma_latency": "ib_write_lat"}
    assert_proven(run.lines("results.jsonl"), checks, ["rail0"])
    # Soft-RoCE has no bound of an authority: measured and proven, but no pass.
    assert {(one["tool"], one["outcome"]) for one in rdma_verdicts(run)} == {
        ("ib_write_bw", "recorded"),
        ("ib_write_lat", "recorded"),
    }
    assert {facts["node"] for facts in run.lines("facts.jsonl")} == set(NODES)
