# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The readers of netdevs, RDMA ports and host facts on trees built by hand."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import (
    host,
    netdev,
    pcie,
    rdma_port,
    sysfs,
)
from support.nodes.sysfs_tree import (
    Tree,
    addresses,
    dual_port_mlx4,
)


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def netdevs(tree: Tree, wanted: list[str] | None = None) -> dict[str, dict[str, Any]]:
    rows = netdev.read_netdevs(tree.reader(), tree.ip_json(), wanted)
    return {row["netdev"]: row for row in rows}


def test_hardware_netdev(tmp_path):
    row = netdevs(dual_port_mlx4(tmp_path))["ens6"]
    assert row == {
        "netdev": "ens6",
        "kind": "physical",
        "master": None,
        "carrier": True,
        "operstate": "up",
        "admin_up": True,
        "speed_mbps": 40000,
        "speed_max_mbps": None,
        "mtu_bytes": 9000,
        "mtu_max_bytes": None,
        "ipoib_mode": None,
        "mac": "aa:00:00:00:00:01",
        "permanent_mac": "aa:00:00:00:00:01",
        "addresses": ["10.0.1.1/24"],
        "addresses6": ["fe80::1/64"],
        "driver": "mlx4_core",
        "driver_class": "hardware",
        "pci": "0000:06:00.0",
        "pci_link": None,
        "pci_path": [
            {**dict.fromkeys(("port", "speed_gts", "width", "max_speed_gts", "max_width")), "virtual": False}
        ],
        "numa_node": 0,
        "hca": None,
        "counters": {
            **dict.fromkeys(("rx_bytes", "tx_bytes", "rx_packets", "tx_packets"), 7),
            **dict.fromkeys(("rx_errors", "tx_errors", "rx_dropped", "tx_dropped"), 0),
        },
    }


def test_default_is_all_but_loopback_and_bridged_veth(tree):
    for name, kind in (
        ("ens6", "veth"),
        ("veth1", "veth"),
        ("br0", "bridge"),
        ("lo", None),
        ("rail10", "dummy"),
    ):
        tree.netdev(name, ip={"linkinfo": {"info_kind": kind}})
    tree.netdev("rail2")
    tree.link("sys/class/net/veth1/master", tree.root / "sys/class/net/br0")
    tree.write("sys/class/net/bonding_masters", "")
    rows = netdevs(tree)
    assert list(rows) == ["br0", "ens6", "rail2", "rail10"]
    assert {name: row["kind"] for name, row in rows.items()} == {
        "br0": "bridge",
        "ens6": "veth",
        "rail2": "virtual",
        "rail10": "virtual",
    }


def test_a_veth_keeps_its_speed_and_is_software(tree):
    tree.netdev("ens6", ip={"linkinfo": {"info_kind": "veth"}})
    row = netdevs(tree)["ens6"]
    assert (row["speed_mbps"], row["driver"], row["driver_class"]) == (10000, "veth", "software")
    assert (row["pci"], row["numa_node"], row["permanent_mac"]) == (None, None, None)


def test_numa_minus_one_is_unknown(tmp_path):
    assert netdevs(dual_port_mlx4(tmp_path))["enp5s0"]["numa_node"] is None


def test_link_down_has_no_carrier_nor_speed(tree):
    tree.netdev("ens6", carrier=0, operstate="down", speed=-1, flags="0x1003")
    tree.netdev("ens7", carrier=None, operstate="down", speed=None, flags="0x1002")
    told = {name: (row["carrier"], row["speed_mbps"], row["admin_up"]) for name, row in netdevs(tree).items()}
    assert told == {"ens6": (False, None, True), "ens7": (None, None, False)}


def test_virtio_hangs_below_a_pci_device_and_is_virtual(tree):
    parent = tree.pci("0000:00:03.0", "virtio-pci", numa=1)
    device = parent / "virtio2"
    device.mkdir()
    (device / "driver").symlink_to(tree.root / "sys/bus/virtio/drivers/virtio_net")
    (device / "subsystem").symlink_to(tree.root / "sys/bus/virtio")
    tree.netdev("eth0", device)
    row = netdevs(tree)["eth0"]
    assert (row["driver"], row["driver_class"], row["kind"]) == ("virtio_net", "virtual", "physical")
    assert (row["pci"], row["numa_node"]) == ("0000:00:03.0", 1)


def test_a_bond_or_vlan_is_its_weakest_member_and_a_bridge_is_software(tmp_path):
    tree = dual_port_mlx4(tmp_path)
    tree.netdev("dummy0", ip={"linkinfo": {"info_kind": "dummy"}})
    members = {
        "bond0": ["ens6", "ens6d1"],
        "bond1": ["ens6", "dummy0"],
        "br0": ["ens6"],
        "ens6.100": ["ens6"],
    }
    kinds = {"bond0": "bond", "bond1": "bond", "br0": "bridge", "ens6.100": "vlan"}
    for name, lower in members.items():
        tree.netdev(name, ip={"linkinfo": {"info_kind": kinds[name]}})
        for one in lower:
            tree.link(f"sys/class/net/{name}/lower_{one}", tree.root / "sys/class/net" / one)
    (tree.root / "sys/class/net/br0/bridge").mkdir()
    rows = netdevs(tree)
    assert {name: rows[name]["driver_class"] for name in members} == {
        "bond0": "hardware",
        "bond1": "software",
        "br0": "software",
        "ens6.100": "hardware",
    }


def test_permanent_address_of_a_bond_member(tmp_path):
    tree = dual_port_mlx4(tmp_path)
    tree.links[1]["permaddr"] = "AA:00:00:00:00:02"
    assert netdevs(tree)["ens6d1"]["permanent_mac"] == "aa:00:00:00:00:02"


def test_a_tunnels_permanent_address_is_no_mac(tree):
    tree.netdev("ip6tnl0", ip={"permaddr": "8a50:7f7a:6215::"})  # iproute2 of a tunnel over IPv6
    assert netdevs(tree)["ip6tnl0"]["permanent_mac"] is None


@pytest.mark.parametrize("text", [None, "", "garbage", "{}", "[1]", "[" * 100000])
def test_without_ip_the_rest_is_still_read(tree, text):
    tree.netdev("ens6", ip=addresses("10.0.1.1/24"))
    tree.write("sys/class/net/ens6/uevent", "DEVTYPE=vlan\nINTERFACE=ens6")
    reader = tree.reader()
    (row,) = netdev.read_netdevs(reader, text)
    assert (row["addresses"], row["mtu_bytes"], row["kind"]) == ([], 9000, "vlan")
    assert any("ip -d -j addr" in one for one in reader.warnings)


@pytest.mark.parametrize(
    ("stated", "most"), [(9978, 9978), (0, None), (None, None), ("9978", None), (True, None)]
)
def test_the_largest_mtu_is_the_drivers_word(tree, stated, most):
    tree.netdev("ens6", ip={"min_mtu": 68, "max_mtu": stated})
    assert netdevs(tree)["ens6"]["mtu_max_bytes"] == most


def test_wanted_netdev_that_is_not_there_is_a_warning(tree):
    tree.netdev("ens6")
    tree.netdev("ens7")
    reader = tree.reader()
    rows = netdev.read_netdevs(reader, tree.ip_json(), ["ens7", "ens9", "ens7"])
    assert [row["netdev"] for row in rows] == ["ens7"]
    assert reader.warnings == ["netdev ens9: there is none on this node"]


def test_unreadable_and_garbled_files_are_null_with_a_warning(tree, monkeypatch):
    base = tree.netdev("ens6", mtu="nine thousand")
    blocked = str(tree.root / base / "address")
    real_open = os.open

    def refuse(path: str, *rest: Any, **more: Any) -> Any:
        if path == blocked:
            raise OSError(errno.EIO, "Input/output error", path)
        return real_open(path, *rest, **more)

    monkeypatch.setattr("os.open", refuse)
    reader = tree.reader()
    (row,) = netdev.read_netdevs(reader, tree.ip_json())
    assert (row["mac"], row["mtu_bytes"], row["operstate"]) == (None, None, "up")
    assert len(reader.warnings) == 2
    assert any("'nine thousand' is not a number" in one for one in reader.warnings)
    assert any(one == f"{blocked}: Input/output error" for one in reader.warnings)


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENODATA, errno.EOPNOTSUPP])
def test_what_a_kernel_answers_for_no_value_now_is_no_warning(tree, monkeypatch, code):
    tree.netdev("ens6")

    def refuse(*_rest: Any, **_more: Any) -> Any:
        raise OSError(code, "no value now")

    monkeypatch.setattr("os.open", refuse)
    reader = tree.reader()
    assert reader.number(reader.sys("class", "net", "ens6", "speed")) is None
    assert reader.warnings == []


def test_both_ports_of_one_mlx4_function(tmp_path):
    tree = dual_port_mlx4(tmp_path)
    reader = tree.reader()
    rows = netdev.read_netdevs(reader, tree.ip_json())
    hcas = rdma_port.read_hcas(reader)
    rdma_port.attach(rows, hcas)
    assert {row["netdev"]: row["hca"] for row in rows} == {
        "enp5s0": None,
        "ens6": "mlx4_0:1",
        "ens6d1": "mlx4_0:2",
    }
    assert [(hca["hca"], hca["netdev"]) for hca in hcas] == [("mlx4_0:1", "ens6"), ("mlx4_0:2", "ens6d1")]
    first = hcas[0]
    assert (first["state"], first["physical_state"], first["rate_gbps"]) == ("ACTIVE", "LinkUp", 40.0)
    assert first["firmware"] == "2.42.5000"
    assert first["gids"] == [
        {
            "index": 0,
            "gid": "fe80:0000:0000:0000:a800:00ff:fe00:0001",
            "type": "RoCE v1",
            "netdev": "ens6",
            "address": "fe80::a800:ff:fe00:1",
        },
        {
            "index": 1,
            "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101",
            "type": "RoCE v2",
            "netdev": "ens6",
            "address": "10.0.1.1",
        },
    ]
    assert first["counters"] == {"port_xmit_data": 1000}
    assert first["hw_counters"] == {}
    assert reader.warnings == []


@pytest.mark.parametrize("mark", ["dev_port", "dev_id"])
def test_infiniband_ports_name_no_netdev_and_are_found_by_bus_and_port(tree, mark):
    card = tree.pci("0000:81:00.0", "mlx4_core")
    for number, name in ((1, "ib0"), (2, "ib1")):
        tree.netdev(
            name, card, type=32, **{"dev_port": 0, "dev_id": "0x0", "mode": "datagram", mark: hex(number - 1)}
        )
        port = tree.port("mlx4_0", number, card, "InfiniBand", lid="0x1b")
        tree.gid(port, 0, "fe80:0000:0000:0000:0002:c903:0000:0001", "IB/RoCE v1", None)
    hcas = rdma_port.read_hcas(tree.reader())
    assert [hca["netdev"] for hca in hcas] == ["ib0", "ib1"]
    assert (hcas[0]["lid"], hcas[0]["gids"][0]["type"], hcas[0]["gids"][0]["address"]) == (27, "IB", None)
    ib0 = netdevs(tree)["ib0"]
    assert (ib0["kind"], ib0["ipoib_mode"]) == ("ipoib", "datagram")


def test_a_switch_representor_is_not_the_port(tree):
    card = tree.pci("0000:81:00.0", "mlx5_core")
    tree.netdev("enp129s0f0npf0vf0", card, phys_port_name="pf0vf0")
    tree.netdev("enp129s0f0np0", card, phys_port_name="p0")
    tree.port("mlx5_0", 1, card)
    assert rdma_port.read_hcas(tree.reader())[0]["netdev"] == "enp129s0f0np0"


def test_a_vlans_gids_do_not_take_the_port_away(tree):
    card = tree.pci("0000:81:00.0", "mlx5_core")
    tree.netdev("ens1", card)
    port = tree.port("mlx5_0", 1, card)
    tree.gid(port, 0, "0000:0000:0000:0000:0000:ffff:0a00:6401", "RoCE v2", "ens1.100")
    tree.gid(port, 1, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2", "ens1")
    assert rdma_port.read_hcas(tree.reader())[0]["netdev"] == "ens1"


def test_soft_roce_names_its_netdev_in_parent(tree):
    tree.netdev("ens6", ip={"linkinfo": {"info_kind": "veth"}})
    tree.port("rxe0", 1, None, rate="2.5 Gb/sec (1X SDR)")
    tree.write("sys/class/infiniband/rxe0/parent", "ens6")
    (hca,) = rdma_port.read_hcas(tree.reader())
    assert (hca["netdev"], hca["rate_gbps"]) == ("ens6", 2.5)


def test_devices_come_in_the_order_of_their_numbers(tree):
    for device in ("mlx5_10", "mlx5_2", "mlx5_bond_0", "mlx5_0"):
        tree.port(device, 1, None)
    assert [hca["device"] for hca in rdma_port.read_hcas(tree.reader())] == [
        "mlx5_0",
        "mlx5_2",
        "mlx5_10",
        "mlx5_bond_0",
    ]


def test_no_rdma_is_no_warning(tree):
    reader = tree.reader()
    assert rdma_port.read_hcas(reader) == []
    assert reader.warnings == []


HOST = {
    "boot_id": "8a1f3f0e-5a39-4b0c-9e0c-5d5d1b2f8a11",
    "kernel": "6.1.0-28-amd64",
    "os": {"id": "debian", "version": "12"},
    "cpu": {"governors": {"performance": 4}, "governor_available": True},
    "memlock_bytes": -1,
}
# A bare container has unknowns and no failure.
UNKNOWN = {
    **dict.fromkeys(HOST),
    "os": {"id": None, "version": None},
    "cpu": {"governors": {}, "governor_available": False},
}


@pytest.mark.parametrize(("node", "expected"), [(dual_port_mlx4, HOST), (Tree, UNKNOWN)])
def test_host_facts(tmp_path, node, expected):
    reader = node(tmp_path).reader()
    assert host.read_host(reader) == {"schema": 1, **expected}
    assert reader.warnings == []


def test_limited_memlock(tree):
    tree.write(
        "proc/self/limits", "Max locked memory         8388608              unlimited            bytes     "
    )
    assert host.memlock_bytes(tree.reader()) == 8388608


def test_versions_as_the_tools_print_them():
    said = {
        "iperf3": "iperf 3.12 (cJSON 1.7.15)\nLinux vm\n",
        "sockperf": "sockperf, version 3.7-no.git\n   compiled\n",
        "ping": "ping from iputils 20221126\n",
        "ib_write_bw": "Version: 6.06\n",
        "fio": "fio-3.33\n",
        "smartctl": "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)\n",
        "likwid-bench": "likwid-bench -- Version 5.2.2\n",
    }
    found = host.tool_versions(lambda argv: said.get(argv[0]))
    assert found == {
        "iperf3": "3.12",
        "sockperf": "3.7",
        "ping": "20221126",
        "fio": "3.33",
        "smartctl": "7.3",
        "likwid-bench": "5.2.2",
        "perftest": "6.06",
    }
    assert set(host.tool_versions(lambda _argv: None).values()) == {None}
    assert host.tool_versions(lambda _argv: "Segmentation fault")["iperf3"] is None


def test_pci_address_needs_its_full_form():
    assert (
        pcie.pci_folder("/sys/devices/pci0000:00/0000:06:00.0/net") == "/sys/devices/pci0000:00/0000:06:00.0"
    )
    assert pcie.pci_folder("/sys/devices/platform/fixed") is None
    assert pcie.pci_folder("10000:e1:00.0") == "10000:e1:00.0"
    assert pcie.pci_folder(None) is None


@pytest.mark.parametrize(
    ("card", "slot", "told"),
    [
        (
            ("16.0 GT/s PCIe", "16", "32.0 GT/s PCIe", "16"),
            ("16.0 GT/s PCIe", "16"),
            (16.0, 16.0, 16.0, 16.0),
        ),
        (("8.0 GT/s PCIe", "4", "8.0 GT/s PCIe", "8"), ("16 GT/s", "16"), (8.0, 4.0, 8.0, 8.0)),
        (("Unknown", "0", "Unknown", "0"), ("2.5 GT/s PCIe", "1"), (None, None, 2.5, 1.0)),
        ((None, None, None, None), (None, None), None),
    ],
)
def test_a_pci_link_is_compared_with_card_and_slot(
    tmp_path: Path,
    card: tuple[str | None, ...],
    slot: tuple[str | None, ...],
    told: tuple[float | None, ...] | None,
) -> None:
    folder = tmp_path / "0000:3a:00.0" / "0000:3b:00.0"
    folder.mkdir(parents=True)
    names = ("current_link_speed", "current_link_width", "max_link_speed", "max_link_width")
    for place, said in ((folder, dict(zip(names, card, strict=True))),
                        (folder.parent, dict(zip(names[2:], slot, strict=True)))):  # fmt: skip
        for name, text in said.items():
            if text is not None:
                (place / name).write_text(text + "\n")
    keys = ("speed_gts", "width", "max_speed_gts", "max_width")
    found = pcie.own_link(pcie.path(sysfs.Reader(proc_root=str(tmp_path)), str(folder)))
    assert found == (dict(zip(keys, told, strict=True)) if told else None)
    assert pcie.own_link(pcie.path(sysfs.Reader(), None)) is None
