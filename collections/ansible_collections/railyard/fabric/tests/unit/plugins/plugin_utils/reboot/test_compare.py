# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is gone after a reboot is named, by rail; what merely comes in another order is not."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.reboot.compare import (
    differences,
    kernel_change,
    unexpected_kernel,
)

UNSET = dict.fromkeys(("mac", "pci", "vlan", "address6"))
RAILS = [{**UNSET, "name": "rail0", "netdev": "ens6", "hca": "rxe0:1", "address": "10.0.1.1/24"}]
BEFORE = {
    "facts": {
        "boot_id": "one",
        "kernel": "6.1.0-55-amd64",
        "netdevs": [
            {
                "netdev": "ens6",
                "kind": "physical",
                "master": None,
                "carrier": True,
                "speed_mbps": 400000,
                "mtu_bytes": 9000,
                "mac": "02:00:00:00:01:01",
                "addresses": ["10.0.1.1/24"],
                "addresses6": ["fe80::1/64"],
            }
        ],
        "hcas": [
            {
                "hca": "rxe0:1",
                "netdev": "ens6",
                "state": "ACTIVE",
                "rate_gbps": 400.0,
                "active_mtu_bytes": 4096,
                "link_layer": "Ethernet",
                "gids": [
                    {"index": 0, "gid": "fe80:::1", "type": "RoCE v2", "address": "fe80::1"},
                    {"index": 1, "gid": "::ffff:0a00:0101", "type": "RoCE v2", "address": "10.0.1.1"},
                ],
            }
        ],
    },
    "modules": ["rdma_rxe 1 0 - Live 0x0", "ib_uverbs 1 0 - Live 0x0", "floppy 1 0 - Live 0x0"],
    "settings": {"diff": []},
}


@pytest.fixture
def after():
    reading = copy.deepcopy(BEFORE)
    reading["facts"]["boot_id"] = "two"
    return reading


def test_a_node_that_came_back_as_it_was(after):
    after["facts"]["hcas"][0]["gids"].reverse()
    after["facts"]["netdevs"][0]["addresses6"] = ["fe80::2/64"]
    after["modules"] = after["modules"][:2]
    assert differences(BEFORE, after, RAILS) == []


def test_the_same_boot_is_no_reboot(after):
    after["facts"]["boot_id"] = "one"
    assert "has not rebooted" in differences(BEFORE, after, RAILS)[0]


@pytest.mark.parametrize("lost", [("before",), ("after",), ("before", "after")])
def test_without_a_boot_id_no_one_knows_whether_it_rebooted(after, lost):
    before = copy.deepcopy(BEFORE)
    for one in [{"before": before, "after": after}[name] for name in lost]:
        one["facts"]["boot_id"] = None
    assert "rebooted is not known" in differences(before, after, RAILS)[0]


def test_a_link_that_came_back_faster_is_no_loss(after):
    netdev(after["facts"])["speed_mbps"] = 800000
    port(after["facts"])["rate_gbps"] = 800.0
    assert differences(BEFORE, after, RAILS) == []


def netdev(facts):
    return facts["netdevs"][0]


def port(facts):
    return facts["hcas"][0]


@pytest.mark.parametrize(
    ("device", "changes", "says"),
    [
        (netdev, {"addresses": []}, "ens6 has lost 10.0.1.1/24"),
        (netdev, {"addresses": ["10.0.1.1/24", "192.0.2.9/24"]}, "ens6 has a new address 192.0.2.9/24"),
        (netdev, {"mtu_bytes": 1500}, "ens6 has MTU 1500, not 9000"),
        (netdev, {"carrier": False}, "ens6 has no carrier"),
        (netdev, {"speed_mbps": 200000}, "ens6 runs at 200 Gbit/s, not 400"),
        (netdev, {"speed_mbps": None}, "ens6 runs at an unknown speed, not 400 Gbit/s"),
        (
            port,
            {"hca": "rocep5s0:1", "device": "rocep5s0"},
            "RDMA port rxe0:1, which the inventory names, is called rocep5s0:1 now",
        ),
        (port, {"state": "DOWN"}, "rxe0:1 has state DOWN, not ACTIVE"),
        (port, {"netdev": "ens7"}, "rxe0:1 has netdev ens7, not ens6"),
        (port, {"rate_gbps": 200.0}, "rxe0:1 runs at 200 Gbit/s, not 400"),
        (port, {"active_mtu_bytes": 1024}, "rxe0:1 has RDMA MTU 1024, not 4096"),
        (port, {"gids": port(BEFORE["facts"])["gids"][:1]}, "rxe0:1 has lost GID RoCE v2 ::ffff:0a00:0101"),
    ],
)
def test_what_a_rail_has_lost_is_named_with_the_rail(after, device, changes, says):
    device(after["facts"]).update(changes)
    assert f"rail0: {says}" in differences(BEFORE, after, RAILS)


@pytest.mark.parametrize(
    ("devices", "says"),
    [("netdevs", "rail0: netdev ens6 is gone"), ("hcas", "rail0: RDMA port rxe0:1 is gone")],
)
def test_a_device_that_is_gone_is_named_with_the_rail(after, devices, says):
    after["facts"][devices].clear()
    assert says in differences(BEFORE, after, RAILS)


def with_mac(facts, **changes):
    """Give the port a permanent MAC, and change what is named."""
    netdev(facts).update({"permanent_mac": netdev(facts)["mac"], **changes})


def test_a_port_that_came_back_under_another_name_is_named_by_its_mac(after):
    before = copy.deepcopy(BEFORE)
    with_mac(before["facts"])
    with_mac(after["facts"], netdev="eth3", addresses=[])
    (said,) = [one for one in differences(before, after, RAILS) if "MAC" in one]
    assert said.startswith("rail0: the port with MAC 02:00:00:00:01:01 was ens6 and is eth3 now")
    assert "rail_overrides: {rail0: {netdev: eth3}}" in said
    # The name is reported once, and what else is wrong is still reported.
    assert not any("ens6 is gone" in one for one in differences(before, after, RAILS))
    # A rail that the inventory names by MAC is found again, and its new name is reported all the same.
    by_mac = [{**RAILS[0], "netdev": None, "mac": "02:00:00:00:01:01"}]
    found = differences(before, after, by_mac)
    assert found[0] == said
    assert "rail0: eth3 has lost 10.0.1.1/24" in found
    assert not any("netdev ens6 is eth3" in one for one in found)


def test_two_ports_that_exchanged_their_names_are_both_named(after):
    before = copy.deepcopy(BEFORE)
    with_mac(before["facts"])
    other = {**netdev(before["facts"]), "netdev": "ens7", "addresses": ["10.0.0.1/24"]}
    before["facts"]["netdevs"].append(
        {**other, "mac": "02:00:00:00:00:01", "permanent_mac": "02:00:00:00:00:01"}
    )
    rails = [*RAILS, {**RAILS[0], "name": "rail1", "netdev": "ens7", "hca": None, "address": "10.0.0.1/24"}]
    after["facts"]["netdevs"] = copy.deepcopy(before["facts"]["netdevs"])
    first, second = after["facts"]["netdevs"]
    for key in ("mac", "permanent_mac"):
        first[key], second[key] = second[key], first[key]
    said = differences(before, after, rails)
    assert [one.split(" (Fix", maxsplit=1)[0] for one in said] == [
        "rail0: the port with MAC 02:00:00:00:01:01 was ens6 and is ens7 now",
        "rail1: the port with MAC 02:00:00:00:00:01 was ens7 and is ens6 now",
    ]


def test_another_card_under_the_same_name_is_reported(after):
    before = copy.deepcopy(BEFORE)
    with_mac(before["facts"])
    with_mac(after["facts"], mac="02:00:00:00:01:99")
    after["facts"]["netdevs"][0]["permanent_mac"] = "02:00:00:00:01:99"
    assert differences(before, after, RAILS) == [
        "rail0: ens6 is another port now: its MAC is 02:00:00:00:01:99, not 02:00:00:00:01:01"
    ]


def test_a_mac_that_the_node_makes_up_at_each_boot_says_nothing(after):
    netdev(after["facts"])["mac"] = "02:00:00:00:01:99"
    assert differences(BEFORE, after, RAILS) == []


def test_a_vlans_port_that_was_renamed_is_named(after):
    before = copy.deepcopy(BEFORE)
    with_mac(before["facts"])
    vlan = {**netdev(before["facts"]), "netdev": "ens6.100", "kind": "vlan", "permanent_mac": None}
    before["facts"]["netdevs"].append(vlan)
    with_mac(after["facts"], netdev="eth3")
    for reading in (before, after):
        reading["facts"]["hcas"].clear()
    rails = [{**RAILS[0], "vlan": 100, "hca": None}]
    said = differences(before, after, rails)
    assert [one.split(" (Fix", maxsplit=1)[0] for one in said] == [
        "rail0: the port with MAC 02:00:00:00:01:01 was ens6 and is eth3 now"
    ]


def test_what_was_missing_before_is_not_missed():
    before = copy.deepcopy(BEFORE)
    before["facts"]["hcas"].clear()
    bare = copy.deepcopy(before)
    bare["facts"]["boot_id"] = "two"
    assert differences(before, bare, RAILS) == []


@pytest.mark.parametrize(("users", "missed"), [("1 ib_uverbs,", True), ("0 -", False)])
def test_ib_core_that_only_a_question_has_loaded_is_not_missed(after, users, missed):
    before = {**BEFORE, "modules": [*BEFORE["modules"], f"ib_core 413696 {users} Live 0x0"]}
    said = ["kernel modules are not loaded: ib_core"] if missed else []
    assert differences(before, after, RAILS) == said


def test_modules_that_rails_need_are_missed(after):
    after["modules"] = after["modules"][1:]
    assert differences(BEFORE, after, RAILS) == ["kernel modules are not loaded: rdma_rxe"]


def test_a_setting_that_was_right_before_is_named(after):
    deviation = {
        "before_header": "running kernel",
        "before": "/proc/sys/net/core/rmem_max = 212992\n",
        "after": "/proc/sys/net/core/rmem_max = 268435456\n",
    }
    record = {"before_header": "/var/lib/x.json", "before": {"a": 1}, "after": ""}
    after["settings"] = {"diff": [deviation, record]}
    assert differences(BEFORE, after, RAILS) == [
        "not as provisioned: /proc/sys/net/core/rmem_max = 212992, wanted is 268435456"
    ]
    assert differences({**BEFORE, "settings": after["settings"]}, after, RAILS) == []


def test_a_node_that_cannot_be_read_is_never_as_it_was():
    assert differences(BEFORE, {"facts": {}}, RAILS) == ["the node could not be read after the reboot"]


def test_another_kernel_is_reported_and_is_no_difference(after):
    after["facts"]["kernel"] = "6.1.0-56-amd64"
    assert differences(BEFORE, after, RAILS) == []
    assert kernel_change(BEFORE, after) == "kernel 6.1.0-55-amd64 before, 6.1.0-56-amd64 now"
    assert kernel_change(BEFORE, BEFORE) is None


@pytest.mark.parametrize(
    ("now", "announced", "says"),
    [
        ("6.1.0-55-amd64", [], None),
        ("6.1.0-56-amd64", ["6.1.0-56-amd64"], None),
        ("6.1.0-56-amd64", [], "kernel 6.1.0-56-amd64 runs, and 6.1.0-55-amd64 was expected"),
        ("6.1.0-57-amd64", ["6.1.0-56-amd64"], "kernel 6.1.0-57-amd64 runs, and 6.1.0-56-amd64 was expected"),
        (
            "6.1.0-55-amd64",
            ["6.1.0-56-amd64"],
            "kernel 6.1.0-56-amd64 was to be booted, and 6.1.0-55-amd64 runs again",
        ),
        (None, [], "kernel None runs, and 6.1.0-55-amd64 was expected"),
    ],
)
def test_only_the_kernel_that_was_announced_is_expected(after, now, announced, says):
    after["facts"]["kernel"] = now
    assert unexpected_kernel(BEFORE, after, announced) == says


def test_another_name_of_a_port_that_the_inventory_does_not_name_is_no_difference(after):
    after["facts"]["hcas"][0].update(hca="rocep5s0:1", device="rocep5s0")
    rails = [{**RAILS[0], "hca": None}]
    assert differences(BEFORE, after, rails) == []
    after["facts"]["hcas"][0]["state"] = "DOWN"
    assert differences(BEFORE, after, rails) == ["rail0: rocep5s0:1 has state DOWN, not ACTIVE"]
