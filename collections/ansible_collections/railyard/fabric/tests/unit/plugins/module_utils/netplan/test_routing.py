# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import copy

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import routing

RAIL = {
    "name": "rail0",
    "netdev": "ens6",
    "address": "10.0.1.1/24",
    "address6": "fd00:1::1/64",
    "gateway": "10.0.1.254",
    "gateway6": None,
    "routes": [{"to": "10.1.1.0/24", "via": "10.0.1.254"}],
    "table": 6100,
}


def running(**changes):
    """What `ip -j` says of that rail, as netplan_snapshot keeps it; written by hand."""

    def route(dst, table, family="inet", **more):
        row = {"dst": dst, "dev": "ens6", "table": table, "family": family}
        return {**row, "type": "unicast", "protocol": "static", **more}

    state = {
        "routes": [
            route("default", "main", dev="enp5s0", gateway="192.168.1.1"),
            route("10.1.1.0/24", "main", gateway="10.0.1.254"),
            route("default", "6100", gateway="10.0.1.254"),
            route("10.0.1.0/24", "6100", scope="link"),
            route("10.1.1.0/24", "6100", gateway="10.0.1.254"),
            route("fd00:1::/64", "6100", "inet6"),
        ],
        "rules": [
            {"family": "inet", "priority": 6100, "src": "10.0.1.1", "table": "6100", "protocol": "static"},
            {"family": "inet6", "priority": 6100, "src": "fd00:1::1", "table": "6100", "protocol": "static"},
            {"family": "inet", "priority": 90, "src": "all", "fwmark": "0x2a", "table": "100"},
        ],
    }
    return {**copy.deepcopy(state), **changes}


def test_no_default_in_main_and_one_in_the_table():
    defaults = [row for row in routing.routes(RAIL) if row["to"] == "default"]
    assert defaults == [{"to": "default", "via": "10.0.1.254", "table": 6100, "family": "inet"}]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            6100,  # has the subnets, and the routes of their family
            [
                ("10.0.1.0/24", None),
                ("10.1.1.0/24", "10.0.1.254"),
                ("default", "10.0.1.254"),
                ("fd00:1::/64", None),
            ],
        ),
        (None, [("10.1.1.0/24", "10.0.1.254")]),  # main has what is declared alone
    ],
)
def test_routes_of_each_table(table, expected):
    rows = [row for row in routing.routes(RAIL) if row["table"] == table]
    assert [(row["to"], row["via"]) for row in rows] == expected


def test_rule_is_for_the_one_address():
    assert routing.rules(RAIL) == [
        {"from": "10.0.1.1/32", "table": 6100, "priority": 6100},
        {"from": "fd00:1::1/128", "table": 6100, "priority": 6100},
    ]


def test_without_table_neither_table_nor_rule():
    bare = {**RAIL, "table": None, "routes": []}
    assert routing.routes(bare) == []
    assert routing.rules(bare) == []


def test_gateway_without_table_makes_no_default():
    assert [row["to"] for row in routing.routes({**RAIL, "table": None})] == ["10.1.1.0/24"]


def test_sysctls_are_paths_since_a_vlan_has_a_dot():
    assert routing.sysctls({**RAIL, "netdev": "ens6.100"}) == {
        "net/ipv4/conf/ens6.100/arp_ignore": "1",
        "net/ipv4/conf/ens6.100/arp_announce": "2",
        "net/ipv4/conf/ens6.100/rp_filter": "2",
    }


def test_sysctls_of_a_rail_without_ipv4_are_none():
    assert routing.sysctls({**RAIL, "address": None}) == {}
    assert routing.sysctl_text([{**RAIL, "address": None}]) == ""


def test_declared_rp_filter_wins():
    assert "net/ipv4/conf/ens6/rp_filter = 1\n" in routing.sysctl_text([RAIL], rp_filter=1)


def test_as_planned_is_no_drift():
    assert routing.drift(RAIL, running()) == []


def without(kind, **marks):
    rows = [row for row in running()[kind] if any(row.get(key) != value for key, value in marks.items())]
    return running(**{kind: rows})


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (without("rules", src="10.0.1.1"), ("rule", "absent", "from 10.0.1.1/32 table 6100 priority 6100")),
        (
            without("routes", dst="default", table="6100"),
            ("route", "absent", "default via 10.0.1.254 in table 6100"),
        ),
        (
            without("routes", dst="10.1.1.0/24", table="main"),
            ("route", "absent", "10.1.1.0/24 via 10.0.1.254 in table main"),
        ),
        (without("routes", family="inet6"), ("route", "absent", "fd00:1::/64 in table 6100")),
    ],
    ids=["rule", "default", "main", "ipv6"],
)
def test_missing_is_drift(state, said):
    assert routing.drift(RAIL, state) == [said]


def test_rule_at_another_priority_is_drift_both_ways():
    state = running()
    state["rules"][0]["priority"] = 50
    assert {(what, actual == "absent") for what, actual, _planned in routing.drift(RAIL, state)} == {
        ("rule", True),
        ("rule", False),
    }


def test_route_of_another_hand_in_main_is_left_alone_and_in_the_rails_table_is_drift():
    foreign = {"dst": "10.9.0.0/24", "dev": "ens6", "family": "inet", "type": "unicast", "protocol": "boot"}
    state = running()
    state["routes"].append({**foreign, "table": "main"})
    assert routing.drift(RAIL, state) == []
    state["routes"].append({**foreign, "table": "6100"})
    assert routing.drift(RAIL, state) == [("route", "10.9.0.0/24 in table 6100", "absent")]
