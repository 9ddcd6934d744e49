# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node without inventory, on trees that are built here: what is a port, what is none, what is hostile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.cabling.lldp import Neighbour
from ansible_collections.railyard.fabric.plugins.module_utils.discover import beacons, node, ports
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from support.nodes.sysfs_tree import Tree, addresses, dual_port_mlx4


def no_program(argv: Sequence[str]) -> Ended:
    raise ToolError(f"{argv[0]}: not found", absent=True)


@pytest.fixture(autouse=True)
def _no_lldpd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node.lldp, "daemon_says", dict)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def collect(tree: Tree, **said: str) -> dict[str, Any]:
    said = {"ip": tree.ip_json(), **said}
    row = node.collect("n1", tree.reader(), lambda _at: None, lambda argv: said.get(argv[0]), no_program)
    return dict(bare_node.read(json.loads(json.dumps(row))))


def function(tree: Tree, address: str, driver: str = "mlx5_core", **files: object) -> Path:
    """Make a PCI function that the bus lists, of a network card by default."""
    folder = tree.pci(address, driver)
    for name, value in {"vendor": "0x15b3", "device": "0x1021", "class": "0x020000", **files}.items():
        (folder / name).write_text(f"{value}\n")
    link = tree.root / "sys/bus/pci/devices" / address
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(folder)
    return folder


def names(row: dict[str, Any]) -> list[tuple[str | None, str | None]]:
    return [(port["netdev"], port["hca"]) for port in row["ports"]]


def test_virtual_functions_are_ports_that_are_marked(tree: Tree) -> None:
    physical = function(tree, "0000:41:00.0")
    virtual = function(tree, "0000:41:00.2", device="0x101e")
    (virtual / "physfn").symlink_to(physical)
    (virtual / "vpd").write_bytes(b"not looked at")
    tree.netdev("ens1np0", physical, phys_port_name="p0", phys_switch_id="e87f480003da341c")
    tree.netdev("ens1v0", virtual)
    tree.port("mlx5_0", 1, physical)
    tree.port("mlx5_2", 1, virtual)
    row = collect(tree)
    assert [(one["netdev"], one["hca"], one["is_virtual_function"]) for one in row["ports"]] == [
        ("ens1np0", "mlx5_0:1", False),
        ("ens1v0", "mlx5_2:1", True),
    ]
    assert [one["physical_port"] for one in row["ports"]] == ["e87f480003da341c p0", None]
    assert [one["pci_id"] for one in row["ports"]] == ["15b3:1021", "15b3:101e"]
    assert row["facts"]["warnings"] == []


def test_representors_bonds_vlans_and_ipoib_children_are_no_ports(tree: Tree) -> None:
    card, infiniband = function(tree, "0000:41:00.0"), function(tree, "0000:42:00.0")
    tree.netdev("ens1np0", card, phys_port_name="p0")
    tree.netdev("ens1np0s1", card, phys_port_name="p0s1", dev_port=1)
    tree.netdev("ens1npf0vf0", card, phys_port_name="pf0vf0")
    tree.netdev("bond0", ip={"linkinfo": {"info_kind": "bond"}})
    tree.netdev("vlan7", ip={"linkinfo": {"info_kind": "vlan"}})
    tree.netdev("docker0", ip={"linkinfo": {"info_kind": "bridge"}})
    tree.netdev("cali1", ip={"linkinfo": {"info_kind": "veth"}})
    tree.netdev("ib0", infiniband, type=32)
    tree.netdev("ib0.8001", infiniband, type=32, parent="ib0")
    tree.port("mlx5_1", 1, infiniband, "InfiniBand")
    assert names(collect(tree)) == [("ens1np0", None), ("ens1np0s1", None), ("ib0", "mlx5_1:1")]


def test_veths_are_ports_where_no_device_is_there_as_in_a_container(tree: Tree) -> None:
    function(tree, "0000:41:00.0")  # the host's, whose netdev is in the host's namespace
    tree.netdev("rail0", ip={"linkinfo": {"info_kind": "veth"}, **addresses("10.0.0.1/24")})
    row = collect(tree)
    assert names(row) == [("rail0", None)]
    assert row["idle_functions"] == []


def test_a_bond_of_roce_is_the_rdma_device_of_its_first_port(tree: Tree) -> None:
    first, second = function(tree, "0000:41:00.0"), function(tree, "0000:41:00.1")
    tree.netdev("ens1f0np0", first, phys_port_name="p0")
    tree.netdev("ens1f1np1", second, phys_port_name="p1")
    tree.netdev("bond0", ip={"linkinfo": {"info_kind": "bond"}})
    port = tree.port("mlx5_bond_0", 1, first)
    tree.gid(port, 3, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2", "bond0")
    assert names(collect(tree)) == [("ens1f0np0", "mlx5_bond_0:1"), ("ens1f1np1", None)]


def test_mlx4_of_an_older_kernel_tells_the_port_in_dev_id(tree: Tree) -> None:
    card = function(tree, "0000:06:00.0", "mlx4_core")
    tree.netdev("ens6", card, dev_port=None)
    tree.netdev("ens6d1", card, dev_port=None, dev_id="0x1")
    for number in (1, 2):
        tree.port("mlx4_0", number, card)
    row = collect(tree)
    assert names(row) == [("ens6", "mlx4_0:1"), ("ens6d1", "mlx4_0:2")]
    assert [port["dev_port"] for port in row["ports"]] == [0, 1]


def test_soft_roce_is_the_rdma_device_of_its_netdev(tree: Tree) -> None:
    tree.netdev("eth1", function(tree, "0000:00:03.0", "virtio-pci"))
    tree.port("rxe0", 1, None)
    tree.write("sys/class/infiniband/rxe0/parent", "eth1")
    assert names(collect(tree)) == [("eth1", "rxe0:1")]


def test_a_function_under_vfio_is_idle_and_its_virtual_functions_are_not_listed(tree: Tree) -> None:
    tree.netdev("eno1", function(tree, "0000:01:00.0", "igb", vendor="0x8086", device="0x1521"))
    taken = function(tree, "0000:41:00.0", "vfio-pci")
    (function(tree, "0000:41:00.2", "vfio-pci") / "physfn").symlink_to(taken)
    function(tree, "0000:51:00.0", "nvme", **{"class": "0x010802"})
    wanted = {"pci": "0000:41:00.0", "pci_id": "15b3:1021", "driver": "vfio-pci"}
    assert collect(tree)["idle_functions"] == [wanted]


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"phys_port_id": "f452140017d7e0"}, "f452140017d7e0"),
        ({"phys_port_name": "p1", "phys_switch_id": "ea2cce"}, "ea2cce p1"),
        ({"phys_port_name": "p1"}, "0c42:a103:0065:4230 p1"),
        ({"phys_switch_id": "ea2cce"}, None),
        ({}, None),
    ],
)
def test_a_wire_is_named_by_port_id_or_card_and_port(tree: Tree, files: dict[str, str], wanted: str) -> None:
    card = function(tree, "0000:41:00.0")
    tree.netdev("ens1", card, **files)
    tree.port("mlx5_0", 1, card)
    tree.write("sys/class/infiniband/mlx5_0/sys_image_guid", "0c42:a103:0065:4230")
    assert [port["physical_port"] for port in collect(tree)["ports"]] == [wanted]


def test_vpd_gives_model_and_serial_number_and_a_broken_one_a_warning(tree: Tree) -> None:
    good, broken, large = (function(tree, f"0000:4{one}:00.0") for one in (1, 2, 3))
    (good / "vpd").write_bytes(b"\x82\x04\0card\x90\x0e\0PN\x03ABCSN\x05X1234\x78")
    (broken / "vpd").write_bytes(b"\x82\x04\0card\x90\xff\xffPN\x03AB")
    (large / "vpd").write_bytes(b"\x82" * 10_000_000)
    for number, card in enumerate((good, broken, large)):
        tree.netdev(f"ens{number}", card)
    row = collect(tree)
    found = [(port["model"], port["serial"]) for port in row["ports"]]
    assert found == [("card (ABC)", "X1234"), (None, None), (None, None)]
    broken_vpd, large_vpd = row["facts"]["warnings"]
    assert "42:00.0" in broken_vpd
    assert "ends within" in broken_vpd
    assert "43:00.0" in large_vpd


def test_switch_ports_of_lldpd_are_with_the_port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = dual_port_mlx4(tmp_path)
    switch = Neighbour("leaf1", "02:00:00:00:0f:01", "Ethernet1")
    monkeypatch.setattr(node.lldp, "daemon_says", lambda: {"ens6": [switch] * 9})
    found = {port["netdev"]: port["neighbours"] for port in collect(tree)["ports"]}
    assert found["ens6d1"] == []
    assert found["ens6"] == [switch._asdict()] * 4


# What is not a port's.


def process(tree: Tree, number: str, parent: str, environment: bytes | None) -> None:
    tree.write(f"proc/{number}/status", f"Name:\tsh\nPPid:\t{parent}")
    if environment is not None:
        tree.write(f"proc/{number}/environ", "").write_bytes(environment)


@pytest.mark.parametrize(
    ("connection", "wanted"),
    [
        (b"198.51.100.1 50000 198.51.100.11 22", "198.51.100.11"),
        (b"fe80::1%eth0 50000 fe80::2%eth0 22", "fe80::2"),
        (b"2001:db8::1 50000 2001:db8::2 22", "2001:db8::2"),
        (b"::ffff:10.0.0.1 5 ::ffff:10.0.0.2 22", "10.0.0.2"),
        (b"198.51.100.1 50000", None),
        (b"\xff\x1b[31m a b c", None),
    ],
)
def test_the_login_address_is_found_in_the_shell_that_sudo_was_started_from(
    tree: Tree, connection: bytes, wanted: str | None
) -> None:
    process(tree, "self", "30", b"HOME=/root\0SUDO_USER=u\0")  # python
    process(tree, "30", "20", b"HOME=/root\0")  # sudo
    login_shell = b"HOME=/home/u\0SSH_CONNECTION=" + connection + b"\0LANG=C\0"
    process(tree, "20", "10", login_shell)
    process(tree, "10", "1", b"SSH_CONNECTION=192.0.2.1 1 192.0.2.2 22\0")  # another's: too far up
    assert node.login_address(tree.reader()) == wanted


def test_the_login_address_is_found_in_this_kernels_procfs() -> None:
    code = f"from {node.__name__} import Reader, login_address; print(login_address(Reader()))"
    # `env -i` does to the environment what sudo does; the shell stays above it, since more follows.
    script = 'env -i PYTHONPATH="$1" "$2" -c "$3"; true'
    done = subprocess.run(
        ["sh", "-c", script, "sh", os.pathsep.join(sys.path), sys.executable, code],
        env={**os.environ, "SSH_CONNECTION": "198.51.100.1 50000 198.51.100.11 22"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("198.51.100.11\n", "")


def test_ancestors_in_a_ring_have_no_login_address(tree: Tree) -> None:
    process(tree, "self", "5", None)
    process(tree, "5", "5", b"x" * 2_000_000)
    assert node.login_address(tree.reader()) is None


def test_default_routes_are_those_of_both_families_and_of_all_hops() -> None:
    said = {
        "-4": [
            {"dst": "default", "gateway": "198.51.100.1", "dev": "eno1", "metric": 100},
            {"dst": "default", "nexthops": [{"gateway": "10.0.0.1", "dev": "eno2"}, {"dev": "eno3"}, 7]},
            {"dst": "10.0.0.0/8", "dev": "rail0"},
        ],
        "-6": [{"dst": "default", "dev": "eno1"}, {"type": "unreachable", "dst": "default", "dev": "lo"}],
    }
    assert node.default_route(lambda argv: json.dumps(said[argv[1]])) == ["eno1", "eno2", "eno3"]


@pytest.mark.parametrize(
    "text", [None, "", "Error", "7", "[7, null, {}]", "[" * 100_000, '[{"dst": "default"}]']
)
def test_routes_that_ip_does_not_tell_are_none(text: str | None) -> None:
    assert node.default_route(lambda _argv: text) == []


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # ipmitool's lib/ipmi_lanp.c: "%-24s: " and the address.
        (
            "IP Address Source       : DHCP Address\nIP Address              : 10.1.2.3\nSubnet Mask",
            "10.1.2.3",
        ),
        ("IP Address              : 0.0.0.0\n", None),
        ("IP Address              : 999.1.2.3\n", None),
        ("Could not open device at /dev/ipmi0", None),
        (None, None),
    ],
)
def test_the_bmcs_address_is_that_of_ipmitool(text: str | None, wanted: str | None) -> None:
    assert node.bmc_address(text) == wanted


def fabric(clique: str, cluster: str) -> str:
    # Form: text index 32824101960.
    return (
        "    Fabric\n        State                             : Completed\n"
        "        Status                            : Success\n"
        f"        CliqueId                          : {clique}\n"
        f"        ClusterUUID                       : {cluster}\n        Health\n"
    )


CLUSTER = "9c6f5af3-53bf-49b5-a436-b66766c413c3"
ZEROS = "00000000-0000-0000-0000-000000000000"
DMI = "sys/class/dmi/id"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (fabric("4026", CLUSTER) * 4, [f"{CLUSTER}.4026"]),
        (fabric("4026", CLUSTER) + fabric("7", CLUSTER), [f"{CLUSTER}.4026", f"{CLUSTER}.7"]),
        (fabric("0", ZEROS) * 8, []),
        (fabric("N/A", "N/A"), []),
        ("Failed to initialize NVML", []),
    ],
)
def test_an_nvlink_domain_is_cluster_and_clique(text: str, wanted: list[str]) -> None:
    assert node.nvlink_domains(text) == wanted


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({f"{DMI}/sys_vendor": "NVIDIA", f"{DMI}/product_name": "DGXH100"}, "NVIDIA DGXH100"),
        ({f"{DMI}/sys_vendor": "NVIDIA", f"{DMI}/product_name": "NVIDIA P3809"}, "NVIDIA P3809"),
        ({"proc/device-tree/model": "Raspberry Pi 5\0"}, "Raspberry Pi 5"),
        ({}, None),
    ],
)
def test_the_product_is_of_dmi_or_of_the_device_tree(
    tree: Tree, files: dict[str, str], wanted: str | None
) -> None:
    for path, text in files.items():
        tree.write(path, text)
    assert node.product(tree.reader()) == wanted


# What a node may do to its reader.


def test_files_of_rubbish_give_nulls_and_warnings(tree: Tree) -> None:
    card = function(tree, "0000:41:00.0", vendor="\x1b[31m", device="0xfffffffff")
    card.joinpath("class").write_bytes(b"\0\xff" * 10)
    card.joinpath("vpd").write_bytes(bytes(reversed(range(256))) * 40_000)
    tree.netdev("ens\x1b[31m", card, phys_port_id="\x01\x02", phys_port_name="p0", dev_port="-7")
    (tree.root / "sys/class/net/ens\x1b[31m/phys_switch_id").mkdir()
    tree.write(f"{DMI}/product_name", "x" * 100_000)
    tree.write("proc/sys/kernel/hostname", "a\x07b")
    row = collect(tree, ipmitool="\0" * 1000)
    port = row["ports"][0]
    assert (port["pci_id"], port["model"], port["physical_port"], port["dev_port"]) == (None, None, None, 0)
    assert (row["product"], row["hostname"]) == (None, None)
    assert len(row["facts"]["warnings"]) >= 6


def test_a_thousand_netdevs_are_read_and_few_of_them_listen(tree: Tree) -> None:
    count = 1_000
    card = function(tree, "0000:41:00.0")
    for number in range(count):
        folder = tree.root / f"sys/class/net/e{number}"
        folder.mkdir()
        (folder / "device").symlink_to(card)
        (folder / "mtu").mkdir()  # read as a file: an error that is not ordinary
    tree.port("mlx5_0", 1, card)
    # Of the processor: a busy machine says nothing of the code.
    begun_s = time.process_time()
    row = collect(tree)
    assert time.process_time() - begun_s < node.LIMIT_S / 10
    shutil.rmtree(tree.root / "sys/class/net")  # pytest keeps the folders of three runs
    assert len(row["ports"]) == count
    assert len(row["facts"]["warnings"]) == 201
    assert row["facts"]["warnings"][-1].endswith(" more files could not be read")
    found = beacons.wanted(row, link_up=True)  # type: ignore[arg-type] # a plain dict
    assert len([one for one in found if one.why_not is None]) == beacons.MOST_PORTS
    assert len(found) == count


# Which ports send and hear.


def test_ports_that_are_down_listen_only_where_they_may_be_raised(tree: Tree) -> None:
    up, down, virtual = (function(tree, f"0000:4{one}:00.0") for one in (1, 2, 3))
    (virtual / "physfn").symlink_to(up)
    tree.netdev("ens1", up)
    tree.netdev("ens2", down, flags="0x1002")
    tree.netdev("ens3", virtual, flags="0x1002")
    tree.netdev("ib0", function(tree, "0000:44:00.0"), type=32)
    efa = function(tree, "0000:45:00.0", "efa")
    tree.port("rdmap69s0", 1, efa, "Unknown")
    row = collect(tree)
    assert (None, "rdmap69s0:1") in names(row)
    found = {one.netdev: one for one in beacons.wanted(row, link_up=False)}  # type: ignore[arg-type] # a plain dict
    assert set(found) == {"ens1", "ens2", "ens3"}
    assert found["ens1"] == ("ens1", False, None)
    assert "--link-up" in (found["ens2"].why_not or "")
    raised = {one.netdev: one for one in beacons.wanted(row, link_up=True)}  # type: ignore[arg-type] # a plain dict
    assert raised["ens2"] == ("ens2", True, None)
    assert "virtual function" in (raised["ens3"].why_not or "")


def test_what_shares_a_port_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = dual_port_mlx4(tmp_path)
    read: list[bytes] = []
    monkeypatch.setattr(ports.vpd, "read", lambda data: read.append(data) or ports.vpd.Card("card", "X"))
    row = collect(tree)
    assert {port["model"] for port in row["ports"] if port["hca"]} == {"card"}
    assert len(read) == len({port["pci"] for port in row["ports"]})
