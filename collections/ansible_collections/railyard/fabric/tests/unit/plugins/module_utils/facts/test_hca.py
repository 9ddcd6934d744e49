# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports of the kinds that sites have, each as its driver lays it out in sysfs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gid as gid_choice
from ansible_collections.railyard.fabric.plugins.module_utils.facts import rdma_port, verbs
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from support.captures import shows
from support.nodes.sysfs_tree import Tree

LINK_LOCAL = "fe80:0000:0000:0000:0e42:a1ff:fe00:0001"
EMPTY = "0000:0000:0000:0000:0000:0000:0000:0000"


def mapped(tail: str) -> str:
    return f"0000:0000:0000:0000:0000:ffff:{tail}"


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def device(tree: Tree, name: str, **files: Any) -> None:
    for key, value in files.items():
        tree.write(f"sys/class/infiniband/{name}/{key}", value)


def pkeys(tree: Tree, port: str, *entries: str) -> None:
    for index, entry in enumerate(entries):
        tree.write(f"{port}/pkeys/{index}", entry)


def read(tree: Tree, device_name: str, port: int = 1) -> dict[str, Any]:
    reader = tree.reader()
    row = rdma_port.read_port(reader, device_name, port)
    assert row is not None
    assert reader.warnings == []
    return row


def test_connectx3_with_both_ports_on_one_function_and_roce_v1_alone(tree):
    card = tree.pci("0000:06:00.0", "mlx4_core", numa=1)
    for number, netdev, tail in ((1, "ens6", "0a00:0101"), (2, "ens6d1", "0a00:0001")):
        tree.netdev(netdev, card, dev_port=number - 1, speed=40000)
        port = tree.port("mlx4_0", number, card)
        tree.gid(port, 0, LINK_LOCAL, "IB/RoCE v1", netdev)
        tree.gid(port, 1, mapped(tail), "IB/RoCE v1", netdev)
        pkeys(tree, port, "0xffff", "0x0000", "0xffff", "0x8001")
    device(tree, "mlx4_0", node_type="1: CA", hca_type="MT4099", board_id="MT_1090120019", hw_rev="1")
    row = read(tree, "mlx4_0", 2)
    shows(row, hca="mlx4_0:2", netdev="ens6d1", width="4X", rate_gbps=40.0, node_type="CA", hca_type="MT4099")
    shows(row, driver="mlx4_core", driver_class="hardware", pci="0000:06:00.0", numa_node=1)
    shows(row, pkeys=["0xffff", "0x8001"], pkey_indices={"0xffff": 0, "0x8001": 3})
    shows(row, port_guid=None, dpu_mode=None)
    shows(row, active_mtu_bytes=None, max_mtu_bytes=None)
    choice = gid_choice.choose(row["gids"], "10.0.0.1", "ens6d1")
    assert choice == gid_choice.Choice(1, "RoCE v1", mapped("0a00:0001"))


def test_connectx6_with_a_vlan_whose_gids_are_in_the_same_table(tree):
    card = tree.pci("0000:81:00.0", "mlx5_core", numa=-1)
    tree.netdev("ens1", card)
    port = tree.port("mlx5_0", 1, card, rate="100 Gb/sec (2X HDR)")
    entries = [("ens1", LINK_LOCAL), ("ens1", mapped("0a00:0101")), ("ens1.100", mapped("0a00:6401"))]
    for index, (netdev, gid) in enumerate(entries):
        tree.gid(port, 2 * index, gid, "IB/RoCE v1", netdev)
        tree.gid(port, 2 * index + 1, gid, "RoCE v2", netdev)
    for index in range(6, 256):
        tree.write(f"{port}/gids/{index}", EMPTY)
    row = read(tree, "mlx5_0")
    shows(row, netdev="ens1", width="2X", rate_gbps=100.0, numa_node=None)
    assert [gid["index"] for gid in row["gids"]] == [0, 1, 2, 3, 4, 5]
    plain = gid_choice.choose(row["gids"], "10.0.1.1", "ens1")
    tagged = gid_choice.choose(row["gids"], "10.0.100.1", "ens1.100")
    assert (plain and plain.index, tagged and tagged.index) == (3, 5)


def test_infiniband_ndr_below_a_subnet_manager(tree):
    card = tree.pci("0000:1b:00.0", "mlx5_core")
    tree.netdev("ib0", card, type=32)
    port = tree.port("mlx5_4", 1, card, "InfiniBand", rate="400 Gb/sec (4X NDR)", lid="0x2a", sm_lid="0x1")
    tree.gid(port, 0, "fe80:0000:0000:0000:a088:c203:00ab:cdef", "IB/RoCE v1", None)
    pkeys(tree, port, "0x7fff", "0x8042")
    device(tree, "mlx5_4", node_type="1: CA", hca_type="MT4129")
    row = read(tree, "mlx5_4")
    shows(row, link_layer="InfiniBand", state="ACTIVE", rate_gbps=400.0, width="4X", lid=42, sm_lid=1)
    shows(row, port_guid="a088:c203:00ab:cdef", pkeys=["0x7fff", "0x8042"], netdev="ib0", dpu_mode=None)
    assert row["gids"][0]["type"] == "IB"


def test_infiniband_port_that_waits_for_a_subnet_manager(tree):
    card = tree.pci("0000:1b:00.0", "mlx5_core")
    tree.port(
        "mlx5_4",
        1,
        card,
        "InfiniBand",
        state="2: INIT",
        phys_state="5: LinkUp",
        rate="100 Gb/sec (4X EDR)",
        lid="0xffff",
        sm_lid="0x0",
    )
    row = read(tree, "mlx5_4")
    shows(row, state="INIT", physical_state="LinkUp", lid=65535, sm_lid=0, port_guid=None, pkeys=[])


def test_iwarp_adapter_is_an_rnic_of_hardware(tree):
    card = tree.pci("0000:3b:00.4", "cxgb4")
    tree.netdev("ens3f4", card)
    tree.port("iwp59s0f4", 1, card, rate="25 Gb/sec (1X EDR)")
    device(tree, "iwp59s0f4", node_type="4: RNIC", hca_type="cxgb4", board_id="1425.6611", hw_rev="6")
    row = read(tree, "iwp59s0f4")
    shows(row, node_type="RNIC", driver="cxgb4", driver_class="hardware", pci="0000:3b:00.4", netdev="ens3f4")


@pytest.mark.parametrize("old_kernel", [True, False])
def test_software_rdma_is_software_even_where_it_hangs_below_its_netdevs_device(tree, old_kernel):
    card = tree.pci("0000:05:00.0", "igb", numa=1)
    tree.netdev("ens6", card)
    bus = card if old_kernel else None
    tree.port("rxe0", 1, bus, rate="2.5 Gb/sec (1X SDR)")
    device(tree, "rxe0", node_type="1: CA", parent="ens6", fw_ver="")
    tree.port("siw0", 1, bus, rate="2.5 Gb/sec (1X SDR)")
    device(tree, "siw0", node_type="4: RNIC", fw_ver="")
    rxe, siw = read(tree, "rxe0"), read(tree, "siw0")
    shows(rxe, driver="rxe", driver_class="software", pci=None, numa_node=None, netdev="ens6", width="1X")
    shows(siw, driver="siw", driver_class="software", pci=None, numa_node=None, node_type="RNIC")


def test_a_hypervisors_adapter_is_no_hardware(tree):
    tree.port("vmw_pvrdma0", 1, tree.pci("0000:0b:00.1", "vmw_pvrdma"))
    device(tree, "vmw_pvrdma0", node_type="1: CA", hca_type="VMW_PVRDMA-1.0.1.0-k")
    shows(read(tree, "vmw_pvrdma0"), driver="vmw_pvrdma", driver_class="software")


def test_of_two_devices_on_one_netdev_the_adapter_is_the_netdevs(tree):
    card = tree.pci("0000:81:00.0", "mlx5_core")
    tree.netdev("ens6", card)
    tree.gid(tree.port("a_rxe", 1, None), 0, mapped("0a00:0101"), "RoCE v2", "ens6")
    device(tree, "a_rxe", parent="ens6", node_type="1: CA")
    tree.gid(tree.port("mlx5_0", 1, card), 0, mapped("0a00:0101"), "RoCE v2", "ens6")
    device(tree, "mlx5_0", node_type="1: CA", hca_type="MT4129")
    hcas = rdma_port.read_hcas(tree.reader())
    assert [(one["hca"], one["netdev"]) for one in hcas] == [("a_rxe:1", "ens6"), ("mlx5_0:1", "ens6")]
    netdevs: list[dict[str, Any]] = [{"netdev": "ens6", "hca": None}]
    rdma_port.attach(netdevs, hcas)
    assert netdevs[0]["hca"] == "mlx5_0:1"


def bluefield(tree: Tree, number: str = "0xa2dc", kernel: str = "6.8.0-45-generic", **files: Any) -> None:
    card = tree.pci("0000:b3:00.0", "mlx5_core")
    (card / "vendor").write_text("0x15b3\n")
    (card / "device").write_text(f"{number}\n")
    tree.netdev("ens7f0np0", card, **files)
    tree.port("mlx5_0", 1, card)
    tree.write("proc/sys/kernel/osrelease", kernel)


SWITCH = {"phys_port_name": "p0", "phys_switch_id": "ef2a3b0003a1420c"}
# The kernel answers EOPNOTSUPP, which a reader sees as it sees an empty file.
ARM_HAS_THE_SWITCH = {"phys_port_name": "p0", "phys_switch_id": ""}


@pytest.mark.parametrize(
    ("case", "files", "mode"),
    [
        ({}, SWITCH, "nic"),
        ({}, ARM_HAS_THE_SWITCH, "dpu"),
        ({"number": "0xa2d6"}, ARM_HAS_THE_SWITCH, "dpu"),
        ({"kernel": "5.15.0-119-generic"}, ARM_HAS_THE_SWITCH, "dpu"),
        ({"kernel": "5.9.0"}, ARM_HAS_THE_SWITCH, None),  # names the port, does not yet tell the switch
        ({"kernel": "5.9.0"}, SWITCH, "nic"),
        ({}, {"phys_port_name": "p0"}, None),  # a kernel without the file answers nothing
        ({}, {}, None),  # a driver that names no port tells nothing by the missing id
        ({}, {"phys_port_name": "pf0vf1"}, None),
        ({"number": "0x1021"}, ARM_HAS_THE_SWITCH, None),  # ConnectX-7
        ({"number": "0xa2d3"}, ARM_HAS_THE_SWITCH, None),  # virtual function
    ],
)
def test_bluefield_mode_is_reported_only_where_the_kernel_tells_it(tree, case, files, mode):
    bluefield(tree, **case, **files)
    assert read(tree, "mlx5_0")["dpu_mode"] == mode


def test_a_bluefield_port_without_netdev_is_unknown(tree):
    bluefield(tree, **SWITCH, type=32)
    for file in ("phys_port_name", "phys_switch_id"):
        (tree.root / "sys/class/net/ens7f0np0" / file).unlink()
    assert read(tree, "mlx5_0")["dpu_mode"] is None


def test_another_devices_report_of_its_switch_is_not_the_bluefields(tree):
    bluefield(tree)
    tree.netdev("enp9s0np0", tree.pci("0000:09:00.0", "mlx5_core"), **SWITCH)
    port = "sys/class/infiniband/mlx5_0/ports/1"
    (tree.root / "sys/class/net/ens7f0np0/device").unlink()
    tree.gid(port, 0, LINK_LOCAL, "RoCE v2", "enp9s0np0")
    shows(read(tree, "mlx5_0"), netdev="enp9s0np0", dpu_mode=None)


@pytest.mark.parametrize(("name", "port"), [("mlx5_9", 1), ("mlx5_0", 2), ("..", 1)])
def test_no_such_port(tree, name, port):
    tree.port("mlx5_0", 1, None)
    reader = tree.reader()
    assert rdma_port.read_port(reader, name, port) is None
    assert reader.warnings == []


class Vanishing(Reader):
    """A device is pulled when one of its files is read."""

    def __init__(self, tree: Tree, trigger: str, victim: Path) -> None:
        super().__init__(str(tree.root / "sys"), str(tree.root / "proc"), str(tree.root / "etc"))
        self._trigger, self._victim, self._gone = trigger, victim, tree.root / "gone"

    def text(self, path: str) -> str | None:
        if path.endswith(self._trigger) and self._victim.exists():
            self._victim.rename(self._gone)
        return super().text(path)


@pytest.mark.parametrize(
    "trigger",
    [
        "rxe0/ports/1/link_layer",
        "rxe0/ports/1/rate",
        "rxe0/ports/1/gids/0",
        "rxe0/ports/1/gid_attrs/types/0",
        "rxe0/node_type",
        "rxe0/fw_ver",
    ],
)
def test_a_device_that_vanishes_while_it_is_read_is_gone(tree, trigger):
    for name in ("rxe0", "rxe1"):
        port = tree.port(name, 1, None)
        tree.gid(port, 0, mapped("0a00:0101"), "RoCE v2", "ens6")
        device(tree, name, node_type="1: CA", parent="ens6", fw_ver="1")
    victim = tree.root / "sys/class/infiniband/rxe0"
    reader = Vanishing(tree, trigger, victim)
    rows = rdma_port.read_hcas(reader)
    assert not victim.exists()
    assert [row["hca"] for row in rows] == ["rxe1:1"]
    assert reader.warnings == []


class Live(Reader):
    """A tree that poses as the running kernel's."""

    live = True


def live(tree: Tree) -> Live:
    return Live(str(tree.root / "sys"), str(tree.root / "proc"), str(tree.root / "etc"))


def test_the_mtu_of_all_ports_is_queried_at_once(tree, monkeypatch):
    for name in ("mlx5_0", "mlx5_1"):
        tree.port(name, 1, None)
    asked = []

    def query(ports: list[tuple[str, int]]) -> dict[tuple[str, int], verbs.Mtu]:
        asked.append(ports)
        return {("mlx5_1", 1): verbs.Mtu(1024, 4096)}

    monkeypatch.setattr(verbs, "query", query)
    rows = rdma_port.read_hcas(live(tree))
    assert asked == [[("mlx5_0", 1), ("mlx5_1", 1)]]
    assert [(row["active_mtu_bytes"], row["max_mtu_bytes"]) for row in rows] == [(None, None), (1024, 4096)]
    row = rdma_port.read_port(live(tree), "mlx5_1", 1)
    assert asked[1:] == [[("mlx5_1", 1)]]
    assert row["active_mtu_bytes"] == 1024
