from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from railyard.base import paths
from railyard.lab import topology
from railyard.lab.process import LabError

GOOD = {
    "name": "lab",
    "management": {
        "netdev": "enp5s0",
        "subnet": "198.18.0.0/24",
        "controller": "198.18.0.254",
        "gateway": "198.18.0.253",
    },
    "nodes": {
        "gpuserver1": {"address": "198.18.0.1"},
        "gpuserver2": {"kind": "container", "address": "198.18.0.2"},
    },
    "rails": [{"name": "rail0", "netdev": "ens6"}, {"name": "rail1", "netdev": "ens6d1", "rate_gbps": 2}],
    "image": {"suite": "bookworm", "packages": ["udev", "systemd", "udev"]},
}
FILE = Path("topology.yml")


def changed(*path_and_value: object) -> dict[str, object]:
    """Return GOOD with the value at a path replaced."""
    data = copy.deepcopy(GOOD)
    *path, last, value = path_and_value
    place: object = data
    for key in path:
        place = place[key]
    place[last] = value
    return data


def test_a_good_file_is_read_completely() -> None:
    found = topology.parse(GOOD, FILE)
    assert found.name == "lab"
    assert [(node.name, str(node.address), node.kind, node.position) for node in found.nodes] == [
        ("gpuserver1", "198.18.0.1", "container", 0),
        ("gpuserver2", "198.18.0.2", "container", 1),
    ]
    assert [(rail.name, rail.netdev, rail.rate_gbps) for rail in found.rails] == [
        ("rail0", "ens6", None),
        ("rail1", "ens6d1", 2.0),
    ]
    assert found.mtu_bytes == 9000
    # The order and doubles of a package list mean nothing, and must not make another image.
    assert found.image.packages == ("systemd", "udev")


def test_cached_packages_are_read_and_checked() -> None:
    found = topology.parse(
        changed("image", {"suite": "bookworm", "cached_packages": ["perftest", "iperf3"]}), FILE
    )
    assert found.image.cached_packages == ("iperf3", "perftest")
    for wrong in ("iperf3", ["rm -rf /"]):
        with pytest.raises(LabError, match=r"image\.cached_packages"):
            topology.parse(changed("image", {"suite": "bookworm", "cached_packages": wrong}), FILE)


def test_a_vm_may_have_a_size() -> None:
    data = changed(
        "nodes", "gpuserver1", {"kind": "vm", "address": "198.18.0.1", "memory_mib": 2048, "cpus": 2}
    )
    found = topology.parse(data, FILE)
    assert [(node.kind, node.memory_mib, node.cpus) for node in found.nodes] == [
        ("vm", 2048, 2),
        ("container", 1024, 1),
    ]
    assert found.kinds == ["container", "vm"]


def test_a_vm_boots_by_itself_where_configured() -> None:
    for said in (True, False):
        data = changed("image", {"suite": "bookworm", "boot_loader": said})
        # No word of packages: the base system.
        assert topology.parse(data, FILE).image == topology.Image("bookworm", topology.BASE_PACKAGES, said)
    assert topology.parse(GOOD, FILE).image.boot_loader is False


def test_name_on_the_command_line_wins() -> None:
    assert topology.parse(GOOD, FILE, "other").name == "other"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (changed("name", "two-labs"), "name: 'two-labs' does not match"),
        (changed("name", "averylonglabname"), "name: 'averylonglabname' does not match"),
        (changed("nodes", "gpuserver2", "address", "198.18.0.1"), "198.18.0.1 is taken by nodes.gpuserver1"),
        (
            changed("nodes", "gpuserver2", "address", "198.18.0.254"),
            "198.18.0.254 is taken by management.controller",
        ),
        (changed("nodes", "gpuserver2", "address", "198.18.9.2"), "198.18.9.2 is not a host address of"),
        (changed("nodes", "gpuserver2", "address", "198.18.0.255"), "198.18.0.255 is not a host address of"),
        (changed("nodes", "gpuserver2", "kind", "toaster"), "nodes.gpuserver2.kind: 'toaster' is not known"),
        (changed("nodes", "gpuserver2", "memory_mib", 2048), "gpuserver2: memory_mib is for kind vm"),
        (
            changed("nodes", "gpuserver2", {"kind": "vm", "address": "198.18.0.2", "memory_mib": 64}),
            "gpuserver2.memory_mib: 64 is not a whole number from 384",
        ),
        (changed("nodes", {}), "at least one node"),
        (changed("rails", []), "at least one rail"),
        (changed("rails", 1, "netdev", "ens6"), "netdev ens6 is taken by rails[0]"),
        (changed("rails", 1, "netdev", "enp5s0"), "netdev enp5s0 is taken by management"),
        (changed("rails", 1, "name", "rail0"), "name rail0 is taken by rails[0]"),
        (changed("rails", 1, "netdev", "ens6; reboot"), "rails[1].netdev: 'ens6; reboot' does not match"),
        (changed("rails", 1, "netdev", "a-name-of-16-chr"), "rails[1].netdev"),
        (changed("rails", 1, "rate_gbps", "fast"), "rails[1].rate_gbps: 'fast' is not a number"),
        (changed("rails", 1, "rate_gbps", True), "rails[1].rate_gbps: True is not a number"),
        (changed("rails", 1, "subnet", "10.0.0.1/24"), "rails[1].subnet: 10.0.0.1/24 has host bits set"),
        (changed("rails", 1, "colour", "red"), "rails[1]: unknown key colour"),
        (changed("mtu", 100), "mtu: 100 is not a whole number"),
        (changed("management", "subnet", "198.19.255.0/24"), "overlaps 198.19.255.0/24"),
        (changed("management", "subnet", "198.18.0.1/24"), "management.subnet"),
        (changed("management", "subnet", None), "management.subnet"),
        (changed("image", "packages", ["--hook=x"]), "image.packages[0]"),
        (changed("image", "packages", None), "image.packages: a list of package names is needed"),
        (changed("image", "boot_loader", "grub"), "image.boot_loader: 'grub' is not true or false"),
        (changed("image", "suite", "../x"), "image.suite"),
        ([], "the file: a mapping"),
        (None, "the file: a mapping"),
    ],
)
def test_bad_input_is_named(data: object, message: str) -> None:
    with pytest.raises(LabError) as caught:
        topology.parse(data, FILE)
    assert message in str(caught.value)
    assert str(FILE) in str(caught.value)
    assert caught.value.exit_status == 2


def test_all_problems_come_at_once() -> None:
    data = changed("mtu", 1)
    data["rails"] = []
    del data["image"]
    with pytest.raises(LabError) as caught:
        topology.parse(data, FILE)
    for part in ("mtu", "at least one rail", "image is missing"):
        assert part in str(caught.value)


def test_unreadable_files_are_bad_input(tmp_path: Path) -> None:
    broken = tmp_path / "broken.yml"
    broken.write_text("name: [", encoding="utf-8")
    for file in (tmp_path / "absent.yml", broken):
        with pytest.raises(LabError) as caught:
            topology.load(file)
        assert str(file) in str(caught.value)
        assert caught.value.exit_status == 2


def test_unknown_nodes_and_rails_are_bad_input() -> None:
    found = topology.parse(GOOD, FILE)
    with pytest.raises(LabError, match="gpuserver1, gpuserver2"):
        found.node("gpuserver9")
    with pytest.raises(LabError, match="rail0, rail1"):
        found.rail_position("rail9")


def test_the_shipped_labs_can_run_side_by_side(lab: topology.Topology) -> None:
    molecule = topology.load(paths.repo_root() / "molecule" / "topology.yml")
    assert lab.name != molecule.name
    assert not lab.management.subnet.overlaps(molecule.management.subnet)
    # One image of containers serves both: only a VM's has packages at hand.
    assert replace(lab.image, cached_packages=()) == molecule.image


def test_the_lab_inventory_agrees_with_the_topology(lab: topology.Topology) -> None:
    file = paths.repo_root() / "inventories" / "lab" / "hosts.yml"
    hosts = yaml.safe_load(file.read_text())["gpu_nodes"]["hosts"]
    assert {name: host["ansible_host"] for name, host in hosts.items()} == {
        node.name: str(node.address) for node in lab.nodes
    }
