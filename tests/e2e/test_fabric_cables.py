"""Faults of cables and of packets' ways, end to end: found, and named with node, rail and peer.

The whole campaign, each fault alone and in pairs on four nodes, is benchmarks/faults.
"""

from __future__ import annotations

import pytest
from e2e.support import NODES, Cluster


@pytest.fixture(scope="module")
def provisioned(cluster: Cluster) -> Cluster:
    done = cluster.railyard("provision", "-i", str(cluster.inventory), timeout=420)
    assert done.returncode == 0, done.stdout
    return cluster


def test_cables_that_are_right_are_proven_right(provisioned: Cluster) -> None:
    status, run, output = provisioned.validate()
    assert status == 0, output
    asked = [one for one in run.verdicts if one["check"] in ("cabling", "link_address_owner", "reply_path")]
    assert len(asked) == 2 * 2 * 3
    assert {(one["outcome"], one["proof"]) for one in asked} == {("pass", "proven")}
    assert len([row for row in run.lines("results.jsonl") if row["check"] == "cabling"]) == 4


def test_swapped_cables_are_named_with_both_rails(provisioned: Cluster) -> None:
    provisioned.lab("fault", "swap", "gpuserver1", "rail0", "rail1")
    try:
        status, run, output = provisioned.validate()
    finally:
        provisioned.lab("heal", "--all")
    assert status == 1, output
    found = [
        one for one in run.verdicts if one["cause_class"] == "rails_swapped" and one["outcome"] == "fail"
    ]
    assert {(one["node"], one["rail"]) for one in found} == {
        (node, rail) for node in NODES for rail in ("rail0", "rail1")
    }
    assert all("rail0 and rail1 of" in one["cause"] and "gpuserver1" in one["cause"] for one in found)
    # Tests that never met say why, and nothing over these rails passes.
    tests = [one for one in run.verdicts if one["check"].startswith("tcp_")]
    assert {one["outcome"] for one in tests} == {"unmeasured"}
    assert {one["cause_class"] for one in tests if one["rail"]} == {"rails_swapped"}
    assert "rails are swapped" in output


def test_two_faults_of_packets_ways_are_distinguished(provisioned: Cluster) -> None:
    provisioned.lab("fault", "arp_flux", "gpuserver1", "rail0")
    try:
        provisioned.lab("fault", "path_mtu_one_way", "gpuserver2", "rail1")
        status, run, output = provisioned.validate()
    finally:
        provisioned.lab("heal", "--all")
    assert status == 1, output
    flux = [one for one in run.verdicts if one["cause_class"] == "arp_flux"]
    assert [(one["node"], one["rail"]) for one in flux] == [("gpuserver2", "rail0")]
    assert "gpuserver1 rail0" in flux[0]["cause"]
    small = [one for one in run.verdicts if one["check"] == "path_mtu_one_way" and one["outcome"] != "pass"]
    assert [(one["node"], one["peer"], one["rail"]) for one in small] == [
        ("gpuserver1", "gpuserver2", "rail1")
    ]
    assert small[0]["cause_class"] == "path_mtu_small"


def test_healed_cables_are_proven_right_again(provisioned: Cluster) -> None:
    status, run, output = provisioned.validate()
    assert status == 0, output
    assert run.not_good() == []
