# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose an rxe device is, what is made and removed, and the error on a node that cannot have one."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import soft_roce
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.soft_roce import (
    Present,
    SoftRoceError,
    Wanted,
)
from support.nodes.files import write

RXE0, RXE1 = Wanted("rxe0", "ens6"), Wanted("rxe1", "ens6d1")
NETDEVS = ["ens6", "ens6d1", "enp5s0"]


def rxe(netdev, identity="boot/1"):
    return Present(netdev, True, identity)


def entry(one, found=None):
    return {"device": one.device, "netdev": one.netdev, "found": found}


def test_a_bare_node_gets_all_and_the_record_says_they_are_railyards():
    plan = soft_roce.plan([RXE0, RXE1], {}, NETDEVS, [])
    assert (plan.add, plan.delete, plan.foreign) == ([RXE0, RXE1], [], [])
    assert plan.record == [entry(RXE0), entry(RXE1)]


def test_what_is_there_as_wanted_is_left():
    present = {"rxe0": rxe("ens6"), "rxe1": rxe("ens6d1")}
    record = [entry(RXE0), entry(RXE1)]
    assert soft_roce.plan([RXE0, RXE1], present, NETDEVS, record) == ([], [], [], record)


def test_one_that_is_no_longer_wanted_is_removed_where_it_is_railyards():
    present = {"rxe0": rxe("ens6"), "rxe1": rxe("ens6d1"), "other": rxe("enp5s0")}
    plan = soft_roce.plan([RXE0], present, NETDEVS, [entry(RXE0), entry(RXE1)])
    assert plan.delete == [RXE1]
    assert plan.foreign == [Wanted("other", "enp5s0")]
    assert plan.record == [entry(RXE0)]


def test_one_that_was_found_is_left_until_it_has_been_made_again():
    present = {"rxe0": rxe("ens6", "boot/7")}
    first = soft_roce.plan([RXE0], present, NETDEVS, [])
    assert first.add == []
    assert first.record == [entry(RXE0, "boot/7")]
    assert soft_roce.plan([], present, NETDEVS, first.record).delete == []
    assert soft_roce.plan([], present, NETDEVS, first.record).foreign == [RXE0]
    for made_again in ("boot/8", "next boot/7"):
        assert soft_roce.plan([], {"rxe0": rxe("ens6", made_again)}, NETDEVS, first.record).delete == [RXE0]


@pytest.mark.parametrize(
    "wanted", [Wanted("rxe0", "ens6d1"), Wanted("rail0", "ens6")], ids=["netdev", "name"]
)
def test_railyards_makes_room_for_another(wanted):
    plan = soft_roce.plan([wanted], {"rxe0": rxe("ens6")}, NETDEVS, [entry(RXE0)])
    assert (plan.delete, plan.add) == ([RXE0], [wanted])


def test_one_that_a_site_rule_of_udev_renamed_is_still_railyards():
    """At boot our rule makes rxe0 on ens6, and a rule of the site's calls it fabric0."""
    present = {"fabric0": rxe("ens6"), "rxe1": rxe("ens6d1")}
    record = [entry(RXE0), entry(RXE1)]
    assert soft_roce.plan([RXE0, RXE1], present, NETDEVS, record) == ([], [], [], record)
    # No longer wanted, it goes under the name that it has.
    assert soft_roce.plan([RXE1], present, NETDEVS, record).delete == [Wanted("fabric0", "ens6")]
    # Another name in the inventory: made anew.
    rail0 = Wanted("rail0", "ens6")
    plan = soft_roce.plan([rail0, RXE1], present, NETDEVS, record)
    assert (plan.delete, plan.add) == ([Wanted("fabric0", "ens6")], [rail0])
    # On a netdev where the role found one of somebody else's, another is not the role's.
    found = [entry(RXE0, "boot/7")]
    assert soft_roce.plan([], {"other": rxe("ens6")}, NETDEVS, found).foreign == [Wanted("other", "ens6")]


@pytest.mark.parametrize(
    ("present", "netdevs", "says"),
    [
        ({}, ["ens6d1"], "ens6, which rxe0 needs, does not exist"),
        ({"rxe0": Present("", False, "x")}, NETDEVS, "another driver's"),
        ({"rxe0": rxe("enp5s0")}, NETDEVS, "rxe0 is on enp5s0, not ens6"),
        ({"rxe9": rxe("ens6")}, NETDEVS, "ens6 has the Soft-RoCE device rxe9"),
    ],
)
def test_what_is_in_the_way_is_named(present, netdevs, says):
    with pytest.raises(SoftRoceError, match=says):
        soft_roce.plan([RXE0], present, netdevs, [])


def test_all_of_it_is_named_at_once():
    with pytest.raises(SoftRoceError, match=r"ens6, .*; netdev ens6d1, "):
        soft_roce.plan([RXE0, RXE1], {}, [], [])


@pytest.mark.parametrize(
    "devices",
    [
        [("rxe0:1", "ens6")],
        [("", "ens6")],
        [("x" * 64, "ens6")],
        [("rxe0", "a" * 16)],
        [("rxe0", 'ens6", RUN+="/bin/sh')],
        [("^rxe", "ens6")],
        [("rxe0\n", "ens6")],
        [("rxe0", "ens6"), ("rxe0", "ens6d1")],
        [("rxe0", "ens6"), ("rxe1", "ens6")],
    ],
)
def test_a_name_that_cannot_be_used_is_refused(devices):
    with pytest.raises(SoftRoceError):
        soft_roce.check_devices([{"device": device, "netdev": netdev} for device, netdev in devices])


def test_names_at_the_limit_are_taken():
    device = {"device": "x" * 63, "netdev": "enp129s0f0np0.1"}
    assert soft_roce.check_devices([device]) == [Wanted(**device)]


@pytest.mark.parametrize(
    ("os_release", "release", "says"),
    [
        ("ID=ubuntu\nID_LIKE=debian\n", "6.8.0-50-generic", "linux-modules-extra-6.8.0-50-generic"),
        ("ID=debian\n", "6.1.0-56-cloud-amd64", "cloud kernel lacks it; install linux-image-amd64 and boot"),
        ("ID=debian\n", "6.1.0-56-cloud-arm64", "linux-image-arm64"),
        ("ID=fedora\n", "6.12", "package of the distribution"),
    ],
)
def test_a_kernel_without_the_module_names_itself_and_the_package(tmp_path, os_release, release, says):
    write(tmp_path, "etc/os-release", os_release)
    write(tmp_path, f"lib/modules/{release}/modules.dep", "kernel/net/ipv4/udp_tunnel.ko:\n")
    missing = soft_roce.missing_module(str(tmp_path), release)
    assert says in missing
    assert f"running kernel {release} has no module rdma_rxe" in missing


@pytest.mark.parametrize(
    ("index", "has"),
    [
        ("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko: kernel/core/ib_core.ko\n", True),
        ("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.xz: kernel/core/ib_core.ko\n", True),
        ("kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko.zst: kernel/core/ib_core.ko\n", True),
        ("kernel/x.ko: kernel/sw/rxe/rdma_rxe.ko\n", False),  # one that only depends on it
    ],
)
def test_a_kernel_that_has_the_module_is_identified_by_its_index(tmp_path, index, has):
    write(tmp_path, "lib/modules/6.1/modules.dep", index)
    assert (soft_roce.missing_module(str(tmp_path), "6.1") is None) == has


def test_a_loaded_module_needs_no_index(tmp_path):
    (tmp_path / "sys/module/rdma_rxe").mkdir(parents=True)
    assert soft_roce.missing_module(str(tmp_path), "6.1") is None


def test_modules_that_an_upgrade_took_away_ask_for_a_boot(tmp_path):
    assert "boot the kernel that is installed" in soft_roce.missing_module(str(tmp_path), "6.1.0-55-amd64")


def test_devices_are_read_as_the_kernel_shows_them(tmp_path):
    write(tmp_path, "proc/sys/kernel/random/boot_id", "b00t\n")
    folder = tmp_path / "sys/class/infiniband"
    folder.mkdir(parents=True)
    shown = {
        "rxe0": ("devices/virtual/infiniband", "1: CA", "ens6\n"),
        "siw0": ("devices/virtual/infiniband", "4: RNIC", "ens7\n"),
        "mlx5_0": ("devices/pci0000:00/0000:00:01.0/infiniband", "1: CA", None),
    }
    for name, (place, node_type, parent) in shown.items():
        write(tmp_path, f"sys/{place}/{name}/node_type", node_type + "\n")
        if parent:
            write(tmp_path, f"sys/{place}/{name}/parent", parent)
        (folder / name).symlink_to(tmp_path / "sys" / place / name)
    devices = soft_roce.read_devices(str(tmp_path))
    assert {name: (one.netdev, one.is_rxe) for name, one in devices.items()} == {
        "mlx5_0": ("", False),
        "rxe0": ("ens6", True),
        "siw0": ("ens7", False),
    }
    assert devices["rxe0"].identity.startswith("b00t/")


def test_the_record_comes_back_and_goes(tmp_path):
    path = str(tmp_path / "var/soft_roce.json")
    assert soft_roce.load_record(path) == []
    soft_roce.store_record(path, [entry(RXE0, "boot/1")])
    assert soft_roce.load_record(path) == [entry(RXE0, "boot/1")]
    soft_roce.store_record(path, [])
    assert not (tmp_path / "var/soft_roce.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "devices": []}', '{"schema": 1}'])
def test_a_damaged_record_is_no_empty_one(tmp_path, text):
    write(tmp_path, "record", text)
    with pytest.raises(SoftRoceError, match="record"):
        soft_roce.load_record(str(tmp_path / "record"))
