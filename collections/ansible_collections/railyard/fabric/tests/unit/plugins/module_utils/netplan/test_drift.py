# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import drift

RAILS = [
    {"name": "rail0", "netdev": "ens6", "address": "10.0.1.1/24", "address6": "fd00:1::1/64", "mtu": 9000},
    {"name": "rail1", "netdev": "ens6d1", "address": "10.0.0.1/24", "address6": None, "mtu": 9000},
]


def rows(*cidrs):
    return [{"cidr": cidr, "scope": "link" if cidr.startswith("fe80") else "global"} for cidr in cidrs]


@pytest.fixture
def good():
    link = {"mtu_bytes": 9000, "admin_up": True, "carrier": True, "master": None}
    return {
        "links": {"ens6": dict(link), "ens6d1": dict(link), "enp5s0": {**link, "mtu_bytes": 1500}},
        "addresses": {
            "ens6": rows("10.0.1.1/24", "fd00:1::1/64", "fe80::1/64"),
            "ens6d1": rows("10.0.0.1/24", "fe80::2/64"),
            "enp5s0": rows("192.168.1.73/24"),
        },
        "routes": [{"dst": "default", "dev": "enp5s0"}],
        "rules": [],
        "sysctls": {},
    }


def list_drift(snapshot):
    return [drift.sentence(row) for row in drift.drift(RAILS, snapshot)]


def test_as_planned_is_no_drift(good):
    assert list_drift(good) == []
    assert drift.without_carrier(RAILS, good) == []
    assert drift.guards(RAILS, good, {}) == []


@pytest.mark.parametrize(
    ("netdev", "link", "addresses", "expected"),
    [
        ("ens6d1", {"mtu_bytes": 1500}, None, ["mtu is 1500, planned 9000"]),
        # No carrier does not excuse the MTU.
        ("ens6d1", {"mtu_bytes": 1500, "carrier": False}, None, ["mtu is 1500, planned 9000"]),
        ("ens6", {"admin_up": False, "carrier": False}, None, ["link is down, planned up"]),
        (
            "ens6d1",
            {},
            ["10.0.0.9/24"],
            ["address is absent, planned 10.0.0.1/24", "address is 10.0.0.9/24, planned absent"],
        ),
        (
            "ens6d1",
            {},
            ["10.0.0.1/16"],
            ["address is absent, planned 10.0.0.1/24", "address is 10.0.0.1/16, planned absent"],
        ),
        ("ens6", None, None, ["netdev is absent, planned present"]),
    ],
    ids=["mtu", "mtu without carrier", "down", "address", "prefix length", "gone"],
)
def test_what_is_not_as_planned(good, netdev, link, addresses, expected):
    if link is None:
        del good["links"][netdev]
    else:
        good["links"][netdev].update(link)
    if addresses is not None:
        good["addresses"][netdev] = rows(*addresses)
    rail = next(rail["name"] for rail in RAILS if rail["netdev"] == netdev)
    assert list_drift(good) == [f"{rail} ({netdev}): {one}" for one in expected]


def test_same_ipv6_address_in_another_form(good):
    rails = [{**RAILS[0], "address6": "fd00:1:0:0::1/64"}]
    assert drift.drift(rails, good) == []


def test_no_carrier_is_a_finding_and_its_missing_address_no_drift(good):
    good["links"]["ens6d1"]["carrier"] = False
    good["addresses"]["ens6d1"] = []
    assert list_drift(good) == []
    assert drift.without_carrier(RAILS, good) == [
        "rail1 (ens6d1): no carrier; its address is set when the link comes up"
    ]


def test_link_that_is_down_says_nothing_about_its_cable(good):
    good["links"]["ens6"].update(admin_up=False, carrier=False)
    assert drift.without_carrier(RAILS, good) == []


def test_rail_without_address_is_not_looked_at(good):
    bare = {"name": "rail2", "netdev": "ib0", "address": None, "address6": None, "mtu": 4092}
    assert drift.drift([bare], good) == []
    assert drift.without_carrier([bare], good) == []


def test_port_of_a_bond_is_refused(good):
    assert "rail1: netdev ens6d1 is a port of bond0" in drift.guards(RAILS, good, {"ens6d1": "bond0"})[0]


def test_netdev_with_a_default_route_is_refused(good):
    rails = [{**RAILS[0], "netdev": "enp5s0"}]
    assert "rail0: netdev enp5s0 carries a default route" in drift.guards(rails, good, {})[0]
    good["routes"] = [{"dst": "default", "nexthops": [{"dev": "ens6"}, {"dev": "ens6d1"}]}]
    assert len(drift.guards(RAILS, good, {})) == 2


def test_two_rails_on_one_netdev_are_refused(good):
    rails = [RAILS[0], {**copy.deepcopy(RAILS[1]), "netdev": "ens6"}]
    assert "rail1: netdev ens6 is also the netdev of rail0" in drift.guards(rails, good, {})[0]


WARNING = "** (generate:1): WARNING **: permissions are too open"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("", []),
        ("WARNING:root:Cannot call Open vSwitch: ovsdb-server.service is not running.\n", []),
        ("Cannot call openvswitch: ovsdb-server.service is not running.\n", []),
        (f"\n{WARNING}\n", [WARNING]),
        # What netplan says at every step is reported once.
        (f"{WARNING}\n  {WARNING}\nanother\n{WARNING}\n", [WARNING, "another"]),
    ],
)
def test_only_known_noise_is_left_out(text, left):
    assert drift.unexpected_lines(text) == left


def test_sysctl_that_is_not_as_wanted_is_drift_with_its_rail():
    wanted = {"net/ipv4/conf/ens6/arp_ignore": "1", "net/ipv4/conf/ens6/rp_filter": "2"}
    now = {"sysctls": {"net/ipv4/conf/ens6/arp_ignore": "0", "net/ipv4/conf/ens6/rp_filter": "2"}}
    (row,) = drift.sysctl_drift([{"name": "rail0", "netdev": "ens6"}], now, wanted)
    assert drift.sentence(row) == "rail0 (ens6): net/ipv4/conf/ens6/arp_ignore is 0, planned 1"
