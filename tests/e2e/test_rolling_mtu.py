"""A fabric moves from 1500 to 9000 behind a canary: no node is undone for what its peers still have."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from functools import partial

import pytest
from e2e.support import Cluster, Run, edited, left_after, needs_root, wait_for_rows, write_lab

CLAIMS_ALL = """network:
  version: 2
  ethernets:
    wild: {match: {name: "ens*"}, dhcp4: true}
"""


class Fabric(Cluster):
    """The four nodes, and the fabric as it should be at the moment."""

    nodes = ("gpuserver1", "gpuserver2", "gpuserver3", "gpuserver4")
    #: MTUs and networks before the first change.
    bare: tuple[dict[str, set[str]], dict[str, str]]

    def apply(
        self, mtu_bytes: int, playbook: str = "network", *arguments: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook with an inventory of this MTU."""
        with edited(self.fabric_file) as variables:
            variables["fabric"] |= {"mtu": mtu_bytes, "cabling": "switched"}
            variables["rail_network_rollback_after_s"] = 120
        return self.playbook(f"playbooks/{playbook}.yml", *arguments)

    def mtus_bytes(self) -> dict[str, set[str]]:
        """Return each node's rail MTUs."""
        paths = [f"/sys/class/net/{netdev}/mtu" for netdev in ("ens6", "ens6d1")]
        return {name: set(self.ssh(name, "cat", *paths).split()) for name in self.nodes}

    def networks(self) -> dict[str, str]:
        """Return each node's files of netplan and sysctl.d, addresses of rails, and rules."""
        looks = [
            ("sudo", "ls", "/etc/netplan", "/etc/sysctl.d"),
            *(
                ("ip", "-4", "-o", "address", "show", "scope", "global", "dev", one)
                for one in ("ens6", "ens6d1")
            ),
            ("ip", "rule", "show"),
        ]
        return {name: "\n".join(self.ssh(name, *look) for look in looks) for name in self.nodes}


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory):
    needs_root()
    made = Fabric(tmp_path_factory.mktemp("rolling"), "rolling")
    write_lab(made, "198.18.85.", "container", nodes=len(Fabric.nodes))
    with made.up():
        made.bare = made.mtus_bytes(), made.networks()
        yield made


def undone(fabric: Fabric) -> list[str]:
    """Return the lines in which a node's journal mentions an undo."""
    said = [
        f"{name}: {line}"
        for name in fabric.nodes
        for line in fabric.ssh(name, "sudo journalctl --no-pager -u 'railyard-rail-network-*'").splitlines()
    ]
    assert any("netplan apply ended with 0" in line for line in said), said
    return [line for line in said if "rolled back" in line]


def test_rolling_from_1500_to_9000_undoes_nothing(four_nodes):
    begun = four_nodes.apply(1500)
    assert begun.returncode == 0, begun.stdout
    assert four_nodes.mtus_bytes() == {name: {"1500"} for name in four_nodes.nodes}
    rolled = four_nodes.apply(9000)
    assert rolled.returncode == 0, rolled.stdout
    assert four_nodes.mtus_bytes() == {name: {"9000"} for name in four_nodes.nodes}
    assert undone(four_nodes) == []
    # a canary alone, then batch by batch
    assert rolled.stdout.count("PLAY [Configure the rails") == len(four_nodes.nodes)


def test_what_does_not_fit_the_time_is_measured_between_some_pairs(four_nodes):
    with edited(four_nodes.fabric_file) as variables:
        variables["fabric_policy"] = {**variables.get("fabric_policy", {}), "budget_min": 1}
    tools = four_nodes.playbook("playbooks/tools.yml")
    assert tools.returncode == 0, tools.stdout
    status, run, output = four_nodes.validate()
    assert status == 0, output
    assert "4 of 6 pairs in 2 rounds (1 with every test" in output
    assert "4 of 4 nodes good: all" in output
    assert "2 rails, 4 of 6 pairs, TCP only" in " ".join(output.split())
    rows = run.lines("results.jsonl")
    tested = [row for row in rows if row["peer"] is not None]
    partners = {name: {row["peer"] for row in tested if row["node"] == name} for name in four_nodes.nodes}
    assert {len(others) for others in partners.values()} == {2}
    # TCP latency is part of everything, which is planned once for each node and rail.
    once = Counter((row["node"], row["rail"]) for row in tested if row["check"] == "tcp_latency")
    assert once == {(name, rail): 2 for name in four_nodes.nodes for rail in ("rail0", "rail1")}


def test_sweep_measures_every_pair_on_every_rail(four_nodes):
    status, run, output = four_nodes.validate(verb="sweep")
    assert status == 0, output
    assert "6 pairs in 3 rounds (the path and all rails at once)" in output
    assert "a sweep: only path MTU and the bandwidth of all rails at once" in output
    rows = [row for row in run.rows() if row["peer"] is not None and row["id"][0] == "m"]
    assert {row["check"] for row in rows} == {"path_mtu", "tcp_bandwidth_concurrent"}
    measured = {
        (row["node"], row["peer"], row["rail"])
        for row in rows
        if row["check"] == "tcp_bandwidth_concurrent" and row["metrics"]["bandwidth_gbps"] > 0
    }
    assert len(measured) == 4 * 3 * 2


def killed_and_resumed(fabric: Fabric) -> tuple[int, Run, str]:
    """Kill a sweep's controller, resume the run, and return what `validate` does."""
    killed = fabric.start("sweep", "-i", str(fabric.inventory))
    wait_for_rows(fabric, "gpuserver1", 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate(timeout=30)
    run = fabric.newest()
    done = fabric.railyard("resume", run.path.name, "-i", str(fabric.inventory))
    assert fabric.newest().path == run.path
    return done.returncode, run, done.stdout


@pytest.mark.parametrize("killed", [False, True], ids=["swept", "controller_is_killed"])
def test_a_slow_path_is_measured_further_and_accused_alone(four_nodes, killed):
    four_nodes.lab("fault", "slow_pair", "gpuserver1/rail0/gpuserver2", "--rate-gbps", "0.05")
    try:
        sweep = killed_and_resumed if killed else partial(Fabric.validate, verb="sweep")
        status, run, output = sweep(four_nodes)
    finally:
        four_nodes.lab("heal", "slow_pair", "gpuserver1/rail0/gpuserver2")
    path = "the path between gpuserver1 and gpuserver2 on rail0"
    assert status == 1, output
    assert f"confirming: {path}" in output
    told = output[output.index("Slow components") :].split("\n\n")[0].splitlines()[1:]
    assert [line.strip().split(": carries")[0] for line in told] == [path]
    assert "(confirmed, by " in told[0]
    rows = run.rows()
    asked = {line["id"]: line for line in run.lines("asked.jsonl")}
    again = [row for row in rows if row["peer"] is not None and asked[row["id"]]["round"] > 2]
    assert {frozenset((row["node"], row["peer"])) for row in again} == {frozenset(four_nodes.nodes[:2])}
    # No row of a node is missing in their sequence, over both test schedules.
    for name in four_nodes.nodes:
        mine = sorted(row["sequence"] for row in rows if row["host"] == name)
        assert mine == list(range(1, len(mine) + 1))
    assert (run.path / "raw" / "gpuserver1.confirm.tar.gz").exists()
    assert not (run.path / "raw" / "gpuserver3.confirm.tar.gz").exists()
    assert [left_after(four_nodes, node, 15) for node in four_nodes.nodes] == [[]] * 4


def test_sweep_whose_controller_is_killed_goes_on_and_is_resumed(four_nodes):
    status, run, output = killed_and_resumed(four_nodes)
    assert status == 0, output
    ends = Counter((row["id"], row["host"], row["attempt"]) for row in run.rows() if row["peer"] is not None)
    asked = {line["id"] for line in run.lines("asked.jsonl") if line["id"][0] == "m"}
    # No pair is lost, and none measured twice.
    assert {identity for identity, _host, _attempt in ends} >= asked
    assert set(ends.values()) == {1}
    assert [left_after(four_nodes, node, 15) for node in four_nodes.nodes] == [[]] * 4


def test_a_node_that_reboots_in_mid_sweep_costs_its_own_pairs(four_nodes):
    sweep = four_nodes.start("sweep", "-i", str(four_nodes.inventory))
    wait_for_rows(four_nodes, "gpuserver4", 3)
    four_nodes.lab("fault", "node_gone", "gpuserver4")
    four_nodes.lab("heal", "node_gone", "gpuserver4")
    output, _ = sweep.communicate(timeout=400)
    assert sweep.returncode == 3, output
    run = four_nodes.newest()
    # All nodes that a node met report whether another has its address, and one of them has lost its rows.
    of_pairs = [one for one in run.verdicts if one["peer"] is not None]
    of_others = [one for one in of_pairs if "gpuserver4" not in (one["node"], one["peer"])]
    assert len(of_others) == 3 * 2 * (2 * 2 + 1)
    assert {one["outcome"] for one in of_others} <= {"pass", "recorded"}, output
    assert {one["node"] for one in run.verdicts if one["outcome"] == "unmeasured"} >= {"gpuserver4"}
    assert "fail" not in {one["outcome"] for one in run.verdicts}, output
    status, _run, output = four_nodes.validate(verb="sweep")
    assert status == 0, output


def test_return_waits_for_consent_and_then_leads_back(four_nodes):
    waiting = four_nodes.apply(9000, "rollback")
    assert "railyard_allow_rollback=true" in waiting.stdout
    assert four_nodes.mtus_bytes() == {name: {"9000"} for name in four_nodes.nodes}
    shown = four_nodes.apply(9000, "rollback", "--check", "--diff")
    assert "-      mtu: 9000" in shown.stdout, shown.stdout
    done = four_nodes.apply(9000, "rollback", "-e", "railyard_allow_rollback=true")
    assert done.returncode == 0, done.stdout
    assert four_nodes.mtus_bytes() == {name: {"1500"} for name in four_nodes.nodes}
    again = four_nodes.apply(9000, "rollback", "-e", "railyard_allow_rollback=true")
    assert "changed=1" not in again.stdout, again.stdout


def test_batch_that_fails_stops_those_after_it(four_nodes):
    canary = four_nodes.nodes[0]
    four_nodes.put(canary, "/etc/netplan/99-installer.yaml", CLAIMS_ALL)
    try:
        stopped = four_nodes.apply(9000)
        assert stopped.returncode != 0
        assert "Nothing was written" in stopped.stdout
        assert {"9000"} not in four_nodes.mtus_bytes().values()
    finally:
        four_nodes.ssh(canary, "sudo", "rm", "/etc/netplan/99-installer.yaml")


def test_return_to_the_original_network_removes_the_first_change_too(four_nodes):
    # The tests above: two changes, and a return from the second.
    to_original = ("-e", "railyard_rollback_to=original")
    assert four_nodes.networks() != four_nodes.bare[1]
    shown = four_nodes.apply(9000, "rollback", *to_original, "--check", "--diff")
    assert "-      mtu: 1500" in shown.stdout, shown.stdout
    done = four_nodes.apply(9000, "rollback", *to_original, "-e", "railyard_allow_rollback=true")
    assert done.returncode == 0, done.stdout
    assert (four_nodes.mtus_bytes(), four_nodes.networks()) == four_nodes.bare
    again = four_nodes.apply(9000, "rollback", *to_original, "-e", "railyard_allow_rollback=true")
    assert "changed=1" not in again.stdout, again.stdout
    wrong = four_nodes.apply(9000, "rollback", "-e", "railyard_rollback_to=first", "--check")
    assert "last_change, original" in wrong.stdout, wrong.stdout
