"""The end-state checks of RDMA: each must fail on a node that is not as planned, and name it."""

from __future__ import annotations

import copy
import re

import pytest
from end_state import expect_rdma

RAIL = {
    "name": "rail0",
    "netdev": "ens6",
    "mac": None,
    "pci": None,
    "hca": "rxe0:1",
    "address": "10.0.1.1/24",
    "vlan": None,
}
RULE = (
    'ACTION=="add", SUBSYSTEM=="net", KERNEL=="ens6", RUN+="/usr/bin/rdma link add rxe0 type rxe netdev ens6"'
)
MODULES = ["ib_uverbs", "ib_umad", "rdma_ucm", "rdma_rxe"]
# As `rdma -j link` and the kernel's GID table of a Debian 12 machine with one rxe device show them.
AS_PLANNED = {
    "addresses": [],
    "netdevs": {"ens6": {"pci": "virtio1"}},
    "hcas": {"rxe0:1": "ens6"},
    "rdma_links": [{"ifname": "rxe0", "port": 1, "state": "ACTIVE", "netdev": "ens6"}],
    "rdma_devices": {"rxe0": {"is_software": True, "pci_id": ":"}},
    "gids": [
        {
            "device": "rxe0",
            "port": "1",
            "gid": "fe80:0000:0000:0000:0000:00ff:fe00:0101",
            "type": "RoCE v2",
        },
        {
            "device": "rxe0",
            "port": "1",
            "gid": "0000:0000:0000:0000:0000:ffff:0a00:0101",
            "type": "RoCE v2",
        },
    ],
    "modules": [*MODULES, "virtio_net"],
    "modules_at_boot": MODULES,
    "openibd_enabled": False,
    "udev_rules": [RULE],
}


def all_problems(reading, rail=RAIL):
    checks = (expect_rdma.port, expect_rdma.gid, expect_rdma.at_boot)
    return expect_rdma.modules(reading) + [one for check in checks for one in check(rail, reading)]


@pytest.mark.parametrize("key", ["netdev", "pci"])
def test_an_infiniband_port_is_found_at_its_bus_address(key):
    """`rdma link` names no netdev beside an InfiniBand port, and no name is in the inventory."""
    reading = copy.deepcopy(AS_PLANNED)
    reading["netdevs"] = {"ens6": {"pci": "0000:18:00.0"}}
    reading["rdma_links"] = [
        {"ifname": "ibp24s0", "port": 1, "state": "ACTIVE"},
        {"ifname": "ibp64s0", "port": 1, "state": "DOWN"},
    ]
    reading["rdma_devices"] = {
        "ibp24s0": {"is_software": False, "pci": "0000:18:00.0"},
        "ibp64s0": {"is_software": False, "pci": "0000:40:00.0"},
    }
    rail = {**RAIL, "hca": None, "netdev": None, key: {"netdev": "ens6", "pci": "0000:18:00.0"}[key]}
    assert expect_rdma.port(rail, reading) == []
    assert expect_rdma.port_name(rail, reading) == "ibp24s0:1"
    reading["rdma_devices"].pop("ibp24s0")
    assert expect_rdma.port(rail, reading) != []


@pytest.mark.parametrize(("netdev", "name"), [("ib0", "mlx4_0:1"), ("ib1", "mlx4_0:2")])
def test_of_two_ports_at_one_bus_address_the_netdevs_own_is_found(netdev, name):
    """ConnectX-3 has two ports on one PCI function (torvalds/linux drivers/infiniband/ulp/ipoib)."""
    reading = copy.deepcopy(AS_PLANNED)
    reading["netdevs"] = {f"ib{one}": {"pci": "0000:42:00.0", "port": one + 1} for one in (0, 1)}
    reading["rdma_links"] = [{"ifname": "mlx4_0", "port": one, "state": "ACTIVE"} for one in (1, 2)]
    reading["rdma_devices"] = {"mlx4_0": {"is_software": False, "pci": "0000:42:00.0"}}
    assert expect_rdma.port_name({**RAIL, "hca": None, "netdev": netdev}, reading) == name
    bare = {**RAIL, "hca": None, "netdev": None, "pci": "0000:42:00.0"}
    assert expect_rdma.port_name(bare, reading) is None


def test_a_renamed_device_is_still_made_at_boot_by_the_rule_that_has_another_name():
    reading = copy.deepcopy(AS_PLANNED)
    reading["rdma_links"][0]["ifname"] = "fabric0"
    reading["rdma_devices"] = {"fabric0": {"is_software": True, "pci_id": ":"}}
    assert expect_rdma.at_boot({**RAIL, "hca": None}, reading) == []
    assert expect_rdma.port_name(RAIL, reading) == "fabric0:1"


@pytest.mark.parametrize("rail", [RAIL, {**RAIL, "hca": None}, {**RAIL, "hca": None, "vlan": 7}])
def test_a_node_as_planned_has_no_problem(rail):
    assert all_problems(copy.deepcopy(AS_PLANNED), rail) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: one["modules"].remove("rdma_rxe"), "module rdma_rxe is not loaded"),
        (lambda one: one["modules"].remove("ib_uverbs"), "module ib_uverbs is not loaded"),
        (lambda one: one.update(modules_at_boot=[]), "rdma_ucm is in no file of modules-load.d"),
        (lambda one: one.update(rdma_links=[]), r"no RDMA port for it \(rxe0:1\); there is: none"),
        (lambda one: one.update(rdma_links=None), "no RDMA port for it"),
        (lambda one: one["rdma_links"][0].update(ifname="rxe1"), "there is: rxe1/1"),
        (lambda one: one["rdma_links"][0].update(state="DOWN"), "rxe0/1 has state DOWN"),
        (lambda one: one["rdma_links"][0].update(netdev="ens7"), "rxe0/1 is on ens7, the rail on ens6"),
        (lambda one: one["gids"].pop(), "rxe0 has no GID of 10.0.1.1"),
        (lambda one: one["gids"][1].update(type="IB/RoCE v1"), "as IB/RoCE v1, not RoCE v2"),
        (lambda one: one["gids"][1].update(device="rxe1"), "rxe0 has no GID of 10.0.1.1"),
        (lambda one: one.update(udev_rules=[]), "gone after a reboot"),
        (lambda one: one.update(udev_rules=[RULE.replace("ens6", "ens66")]), "gone after a reboot"),
        (lambda one: one.update(udev_rules=[RULE.replace("type rxe", "type siw")]), "gone after a reboot"),
    ],
)
def test_what_is_not_as_planned_is_named(change, words):
    reading = copy.deepcopy(AS_PLANNED)
    change(reading)
    said = "\n".join(all_problems(reading))
    assert re.search(words, said), said


def test_hardware_needs_neither_rxe_nor_a_rule():
    reading = copy.deepcopy(AS_PLANNED)
    reading.update(rdma_devices={"rxe0": {"is_software": False}}, udev_rules=[])
    reading["modules"].remove("rdma_rxe")
    assert all_problems(reading) == []
    # A vendor's driver loads its modules by its own unit, and the role writes no list of them.
    reading.update(modules_at_boot=[], openibd_enabled=True)
    assert all_problems(reading) == []


@pytest.mark.parametrize(
    ("pci_id", "types", "is_right"),
    [
        ("0x15b3:0x1003", ["IB/RoCE v1"], True),  # ConnectX-3
        ("0x15b3:0x1007", ["IB/RoCE v1"], False),  # ConnectX-3 Pro
        ("0x15b3:0x1007", ["IB/RoCE v1", "RoCE v2"], True),
        ("0x15b3:0x1021", ["IB/RoCE v1"], False),  # ConnectX-7
    ],
)
def test_roce_v1_is_right_on_a_card_that_has_no_other(pci_id, types, is_right):
    reading = copy.deepcopy(AS_PLANNED)
    reading["rdma_devices"]["rxe0"] = {"is_software": False, "pci_id": pci_id}
    row = reading["gids"].pop()
    reading["gids"] += [{**row, "type": kind} for kind in types]
    assert (expect_rdma.gid(RAIL, reading) == []) == is_right


@pytest.mark.parametrize(
    ("transport", "node_class", "options", "asked"),
    [
        ("roce", "virtual", {}, True),
        ("infiniband", None, {}, True),
        ("tcp", "hardware", {}, False),
        ("roce", "container", {}, False),
        ("roce", "hardware", {"rdma_stack_enabled": False}, False),
    ],
)
def test_rdma_is_required_by_the_inventory(transport, node_class, options, asked):
    assert expect_rdma.is_asked({"transport": transport, "node_class": node_class}, options) == asked
