"""A fabric moves from 1500 to 9000 behind a canary: nobody is undone for what its peers still have."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import yaml
from e2e.support import BIN, ROOT, run

TOPOLOGY = ROOT / "benchmarks" / "recovery" / "topology-container.yml"
LAB = "rolling"
SUBNET = "198.18.85."
CLAIMS_ALL = """network:
  version: 2
  ethernets:
    wild: {match: {name: "ens*"}, dhcp4: true}
"""


@pytest.fixture(scope="module")
def four_nodes(tmp_path_factory: pytest.TempPathFactory):
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")
    folder = tmp_path_factory.mktemp(LAB)
    wanted = yaml.safe_load(TOPOLOGY.read_text(encoding="utf-8"))
    wanted["name"] = LAB
    wanted["management"].update(subnet=f"{SUBNET}0/24", controller=f"{SUBNET}254", gateway=f"{SUBNET}253")
    for position, node in enumerate(wanted["nodes"].values(), start=1):
        node["address"] = f"{SUBNET}{position}"
    topology = folder / "topology.yml"
    topology.write_text(yaml.safe_dump(wanted), encoding="utf-8")
    railyard = [BIN / "railyard", "lab"]
    try:
        made = run(*railyard, "up", "--topology", topology)
        assert made.returncode == 0, made.stdout
        yield Fabric(folder, wanted)
    finally:
        print(run(*railyard, "down", "--topology", topology).stdout)


class Fabric:
    """The four nodes, and the fabric as it should be at the moment."""

    def __init__(self, folder: Path, topology: dict) -> None:
        self.inventory = folder / "hosts.yml"
        self.nodes = {name: node["address"] for name, node in topology["nodes"].items()}
        self.rails = topology["rails"]
        self.keys = ROOT / ".lab" / LAB / "ssh"

    def apply(self, mtu_bytes: int, playbook: str = "network", *arguments: str):
        """Run a playbook with an inventory of this MTU."""
        fabric = {"transport": "tcp", "node_class": "container", "cabling": "switched", "mtu": mtu_bytes}
        fabric.update(rails=self.rails, frontend={"netdev": "enp5s0"})
        common = {
            "ansible_user": "railyard",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(self.keys / "id_ed25519"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={self.keys}/known_hosts -o IdentitiesOnly=yes",
            "rail_network_rollback_after_s": 120,
            "fabric": fabric,
        }
        hosts = {name: {"ansible_host": address} for name, address in self.nodes.items()}
        self.inventory.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": common}}))
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        argv = [BIN / "ansible-playbook", "-i", self.inventory, f"playbooks/{playbook}.yml", *arguments]
        return run(*argv, env=environment, timeout=600)

    def on(self, node: str, *command: str) -> str:
        """Run a command on a node as root."""
        return run(*self._ssh(node), "sudo", *command).stdout

    def _ssh(self, node: str) -> list[str]:
        options = ["ControlPath=none", "BatchMode=yes", f"UserKnownHostsFile={self.keys}/known_hosts"]
        flags = [word for option in options for word in ("-o", option)]
        return [
            "ssh",
            "-F",
            "none",
            "-i",
            str(self.keys / "id_ed25519"),
            *flags,
            f"railyard@{self.nodes[node]}",
        ]

    def write(self, node: str, path: str, text: str) -> None:
        """Write a file of root's on a node."""
        argv = [*self._ssh(node), "sudo", "tee", path]
        subprocess.run(argv, input=text, text=True, check=True, timeout=60, stdout=subprocess.DEVNULL)

    def mtus_bytes(self) -> dict[str, set[str]]:
        """Return each node's rail MTUs."""
        paths = [f"/sys/class/net/{rail['netdev']}/mtu" for rail in self.rails]
        return {name: set(self.on(name, "cat", *paths).split()) for name in self.nodes}


def undone(fabric: Fabric) -> list[str]:
    """Return the lines in which a node's journal speaks of an undo."""
    said = [
        f"{name}: {line}"
        for name in fabric.nodes
        for line in fabric.on(
            name, "journalctl", "--no-pager", "-u", "'railyard-rail-network-*'"
        ).splitlines()
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
    canary = next(iter(four_nodes.nodes))
    four_nodes.write(canary, "/etc/netplan/99-installer.yaml", CLAIMS_ALL)
    try:
        stopped = four_nodes.apply(9000)
        assert stopped.returncode != 0
        assert "Nothing was written" in stopped.stdout
        assert {"9000"} not in four_nodes.mtus_bytes().values()
    finally:
        four_nodes.on(canary, "rm", "/etc/netplan/99-installer.yaml")
