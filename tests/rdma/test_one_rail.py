"""One rail of two VMs, from bare to measured by ib_write_bw and ib_write_lat.

What `make test` sees of RDMA; the whole run and its faults are in the tests beside this one.
"""

from __future__ import annotations

import itertools
import os

import pytest
import yaml
from e2e.support import ROOT, Cluster
from rdma.support import NODES, rdma_verdicts, small_inventory

LAB, SUBNET = "onerail", "198.18.5."


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory):
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    made = small_inventory(tmp_path_factory.mktemp("onerail"), LAB, SUBNET)
    built_in = (ROOT / "tools" / "railyard" / "lab" / "topology.yml").read_text(encoding="utf-8")
    topology = yaml.safe_load(built_in.replace("198.18.0.", SUBNET)) | {"name": LAB}
    made.topology.write_text(yaml.safe_dump(topology, sort_keys=False), encoding="utf-8")
    try:
        made.lab("up")
        yield made
    finally:
        print(made.railyard("lab", "down", "--topology", str(made.topology)).stdout)
        print(made.log.read_text(encoding="utf-8")[-12000:])


def test_bare_nodes_become_a_measured_rail(cluster: Cluster) -> None:
    done = cluster.railyard(
        "site", "-i", str(cluster.inventory), "--", "--tags", "drivers,network,tools,validate",
        "-e", "railyard_driver_batch=100%", "-e", "railyard_network_batch=100%",
        timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    run = cluster.newest()
    assert run.not_good() == []
    rows = run.lines("results.jsonl")
    for tool, (node, peer) in itertools.product(("ib_write_bw", "ib_write_lat"), (NODES, NODES[::-1])):
        mine = [row for row in rows if (row["tool"], row["node"], row["peer"]) == (tool, node, peer)]
        assert sorted((row["end"], row["status"], row["proof"]) for row in mine) == [
            ("client", "measured", "proven"),
            ("server", "measured", "proven"),
        ], (tool, node, [row.get("error") or row.get("proof_reason") for row in mine])
    # Soft-RoCE has no bound of an authority: measured and proven, but no pass.
    assert {(one["tool"], one["outcome"]) for one in rdma_verdicts(run)} == {
        ("ib_write_bw", "recorded"),
        ("ib_write_lat", "recorded"),
    }
    assert {facts["node"] for facts in run.lines("facts.jsonl")} == set(NODES)
