"""Four bare nodes, an inventory in one command: other names on one node, a crossed cable on another, no LLDP.

The netdevs of a container have no card and no PCI address, so only their names and what they hear of each
other tell which is which.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from e2e.conftest import POLICY
from e2e.support import BIN, Cluster, edited, needs_root, run, write_lab

SUBNET = "198.18.97."
NODES = [f"gpuserver{number}" for number in range(1, 5)]
RENAMED, CROSSED = "gpuserver3", "gpuserver4"
# Rail by rail: what the renamed node calls them. Sorted by name they are the other way round.
OTHER_NAMES = {"ens6": "ens9d1", "ens6d1": "ens9"}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("discover"), "discover")
    write_lab(made, SUBNET, "container", nodes=len(NODES))
    with made.up():
        for old, new in OTHER_NAMES.items():
            script = f"ip link set {old} down && ip link set {old} name {new} && ip link set {new} up"
            made.ssh(RENAMED, "sudo", "sh", "-ec", f"'{script}'")
        for node in NODES:
            ports = OTHER_NAMES.values() if node == RENAMED else OTHER_NAMES
            made.ssh(
                node, "sudo", "sh", "-ec", "'" + "; ".join(f"ip link set {one} up" for one in ports) + "'"
            )
        yield made


def discover(
    lab: Cluster, target: Path, *argv: str, environment: dict[str, str] | None = None
) -> tuple[int, str]:
    """Discover the lab's nodes by their addresses, with its key and host keys; return status and output."""
    done = run(
        BIN / "railyard", "discover", "-o", str(target), "--hosts-from", str(lab.inventory), *argv,
        timeout=180, env={**lab.environment(), **(environment or {})},
    )  # fmt: skip
    print(done.stdout)
    return done.returncode, done.stdout


def connect(lab: Cluster, folder: Path) -> None:
    """Give an inventory the lab's way to its nodes."""
    for path in (lab.inventory / "group_vars/all").iterdir():
        if path.name != "fabric.yml":
            shutil.copy(path, folder / "group_vars/all" / path.name)
    with edited(folder / "group_vars/all/fabric.yml") as variables:
        variables["railyard_time_factor"] = 2


def fabric_of(folder: Path) -> dict:
    return dict(yaml.safe_load((folder / "group_vars/all/fabric.yml").read_text())["fabric"])


def netdevs_of(folder: Path) -> dict[str, list[str]]:
    """Return node -> the netdev of each rail, as Ansible and the plan make it of the inventory."""
    done = run(BIN / "railyard", "plan", "-i", str(folder), "--json")
    assert done.returncode == 0, done.stdout
    nodes = yaml.safe_load(done.stdout)["nodes"]
    return {name: [rail["netdev"] for rail in node["rails"]] for name, node in nodes.items()}


def test_one_command_writes_the_inventory_and_names_what_is_odd(lab: Cluster, tmp_path: Path) -> None:
    lab.lab("fault", "swap", CROSSED, "rail0", "rail1")
    try:
        status, said = discover(lab, tmp_path / "crossed", "--yes")
    finally:
        lab.lab("heal", "--all")
    # A crossed cable is reported with both ends, and not written into the inventory.
    assert status == 0, said
    assert f"{CROSSED} ens6 of rail0 is on the network of rail1" in said
    assert f"{CROSSED} ens6d1 of rail1 is on that of rail0" in said
    assert f"{RENAMED}: rail0 is ens9d1" in said
    found = netdevs_of(tmp_path / "crossed")
    assert list(found) == NODES
    assert found["gpuserver1"] == found["gpuserver2"] == found[CROSSED] == ["ens6", "ens6d1"]
    assert found[RENAMED] == ["ens9d1", "ens9"]


def test_it_is_measured_with_the_inventory_that_was_found(lab: Cluster, tmp_path: Path) -> None:
    """The cable is right by now: the same command finds nothing odd but the names, and a site run is good."""
    folder = tmp_path / "found"
    status, said = discover(lab, folder, "--yes")
    assert status == 0, said
    first = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    again = tmp_path / "again"
    assert discover(lab, again, "--yes")[0] == 0
    second = {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()}
    different = [name for name in {*first, *second} if first.get(name) != second.get(name)]
    assert different in ([], [Path("README.md")]), different
    assert fabric_of(folder)["transport"] == "tcp"
    # What only this lab needs: its key and host keys, short tests, and rails whose speed means nothing.
    connect(lab, folder)
    with edited(folder / "group_vars/all/fabric.yml") as variables:
        variables["fabric"]["node_class"] = "container"
        variables |= {"fabric_policy": POLICY, "rail_network_rollback_after_s": 20}
    done = lab.railyard("site", "-i", str(folder), timeout=900)
    assert done.returncode == 0, done.stdout
    assert "4 of 4 nodes good: all" in done.stdout


def test_a_difference_is_found_later(lab: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "before"
    assert discover(lab, folder, "--yes")[0] == 0
    connect(lab, folder)
    same = run(BIN / "railyard", "discover", "--diff", "-i", str(folder), env=lab.environment())
    assert same.returncode == 0, same.stdout
    lab.lab("fault", "swap", CROSSED, "rail0", "rail1")
    try:
        moved = run(BIN / "railyard", "discover", "--diff", "-i", str(folder), env=lab.environment())
    finally:
        lab.lab("heal", "--all")
    assert moved.returncode == 1, moved.stdout
    assert {line.split()[0] for line in moved.stdout.splitlines() if "gpuserver" in line} == {CROSSED}
