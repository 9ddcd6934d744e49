# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Routes, tables, IPoIB mode and link-local of rails; addresses on the networks beside them."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import networks, plan
from hypothesis import given
from hypothesis import strategies as st
from netaddr import IPSet

UNITS = {"su1": "10.1.0.0/24", "su2": "10.1.1.0/24", 3: "10.1.2.0/24"}


def fabric_of(**rail):
    return {"transport": "roce", "mtu": 9000, "rails": [{"name": "rail0", "netdev": "ens6", **rail}]}


def planned(fabric, unit=None, name="gpu5", **keys):
    return plan.plan_node(fabric, name, scalable_unit=unit, **keys)[0]


@pytest.mark.parametrize(
    ("unit", "routes"),
    [
        ("su1", [("10.1.1.0/24", "10.1.0.1"), ("10.1.2.0/24", "10.1.0.1")]),
        ("su2", [("10.1.0.0/24", "10.1.1.1"), ("10.1.2.0/24", "10.1.1.1")]),
        ("3", [("10.1.0.0/23", "10.1.2.1")]),
    ],
)
def test_the_other_units_are_behind_the_nodes_own_leaf(unit, routes):
    rail = planned(fabric_of(subnets=UNITS, gateway="first"), unit)
    assert rail["routes"] == [{"to": to, "via": via} for to, via in routes]


@pytest.mark.parametrize("place", range(32))
def test_units_beside_each_other_take_few_routes(place):
    # One route for each half, quarter, ... of 32 subnets that does not include the node's own.
    units = {f"su{number}": f"10.1.{number}.0/24" for number in range(32)}
    routes = planned(fabric_of(subnets=units, gateway="first"), f"su{place}")["routes"]
    assert sorted(int(route["to"].split("/")[1]) for route in routes) == [20, 21, 22, 23, 24]
    assert {route["via"] for route in routes} == {f"10.1.{place}.1"}


ROUTED = fabric_of(subnet="10.40.0.0/16", node_prefix=31, gateway="first")


def test_a_node_with_a_network_of_its_own_is_beside_its_leaf():
    # As gatewayIndex 0 and perNodeNetworkPrefix 31 of a CIDRPool: 200 * 2 = 400 = 1 * 256 + 144.
    rail = planned(ROUTED, name="gpu200")
    found = [rail[key] for key in ("address", "subnet", "gateway", "routes", "table")]
    routes = [{"to": "10.40.0.0/16", "via": "10.40.1.144"}]
    assert found == ["10.40.1.145/31", "10.40.1.144/31", "10.40.1.144", routes, 6100]


@pytest.mark.parametrize(
    ("override", "address", "gateway"),
    [
        ({"address": "10.40.9.7/31"}, "10.40.9.7/31", "10.40.9.6"),
        ({"address": "10.40.9.6/31", "gateway": "10.40.9.7"}, "10.40.9.6/31", "10.40.9.7"),
        ({"gateway": "last"}, "10.40.0.4/31", "10.40.0.5"),
    ],
)
def test_a_link_that_does_not_follow_the_rule_is_overridden(override, address, gateway):
    rail = planned(ROUTED, name="gpu2", rail_overrides={"rail0": override})
    assert (rail["address"], rail["gateway"]) == (address, gateway)
    assert rail["routes"] == [{"to": "10.40.0.0/16", "via": gateway}]


def test_all_units_are_behind_the_leaf_of_a_node_with_a_network_of_its_own():
    rail = planned(fabric_of(subnets=UNITS, node_prefix=30, gateway="last"), "su2", name="gpu3")
    # The third /30 from 0: 12 to 15, of which 13 and 14 are usable.
    assert (rail["address"], rail["gateway"]) == ("10.1.1.13/30", "10.1.1.14")
    assert [route["to"] for route in rail["routes"]] == ["10.1.0.0/23", "10.1.2.0/24"]


def test_an_ipv6_network_of_each_node():
    rail = planned(fabric_of(subnet6="fd00:7::/48", node_prefix6=64, gateway6="first"), name="gpu3")
    assert (rail["address6"], rail["gateway6"]) == ("fd00:7:0:3::2/64", "fd00:7:0:3::1")


def test_the_computed_form_divides_each_rail():
    fabric = {
        "transport": "roce", "mtu": 9000, "rail_count": 2, "supernet": "172.16.0.0/12", "rail_prefix": 16,
        "node_prefix": 31, "netdev_pattern": "ens{rail}", "gateway": "last", "host_offset": -1,
    }  # fmt: skip
    assert [rail["address"] for rail in plan.plan_node(fabric, "gpu1")] == ["172.16.0.0/31", "172.17.0.0/31"]
    with pytest.raises(plan.PlanError, match=r"must be 0 to 32767, the /31 networks in 172\.16\.0\.0/16"):
        plan.plan_node(fabric, "gpu0")


SUBNETS = st.lists(st.integers(0, 63), min_size=1, max_size=40, unique=True)


@given(SUBNETS, st.data(), st.sampled_from([4, 6]))
def test_routes_lead_to_the_other_units_and_nowhere_else(numbers, data, version):
    text = "10.1.{}.0/24" if version == 4 else "fd00:0:0:{:x}::/64"
    key = "subnets" if version == 4 else "subnets6"
    units = {f"su{number}": text.format(number) for number in numbers}
    own = data.draw(st.sampled_from(numbers))
    routes = planned(fabric_of(**{key: units}, gateway="last"), f"su{own}")["routes"]
    reached = IPSet(route["to"] for route in routes)
    assert reached == IPSet(subnet for unit, subnet in units.items() if unit != f"su{own}")


def test_units_that_share_a_subnet_need_no_route_to_it():
    units = {"su1": "10.1.0.0/24", "su2": "10.1.0.0/24"}
    assert planned(fabric_of(subnets=units), "su1")["routes"] == []


def test_routes_are_sorted_by_number_ipv4_first_and_named_once():
    rail = planned(
        fabric_of(
            subnets={"a": "10.1.0.0/24", "b": "10.200.0.0/24", "c": "10.30.0.0/24"},
            subnets6={"a": "fd00:a::/64", "b": "fd00:b::/64"},
            gateway="last",
            routes=["10.30.0.0/24", "9.0.0.0/8", "fd00:1::/64"],
        ),
        "a",
    )
    assert [(route["to"], route["via"]) for route in rail["routes"]] == [
        ("9.0.0.0/8", "10.1.0.254"),
        ("10.30.0.0/24", "10.1.0.254"),
        ("10.200.0.0/24", "10.1.0.254"),
        ("fd00:1::/64", "fd00:a::ffff:ffff:ffff:ffff"),
        ("fd00:b::/64", "fd00:a::ffff:ffff:ffff:ffff"),
    ]


def test_a_network_has_one_spelling():
    rail = planned(fabric_of(subnet6="FD00:0:0:A::/64", gateway="last", routes=["FD00:0:0:000b::/64"]))
    assert rail["subnet6"] == "fd00:0:0:a::/64"
    assert [route["to"] for route in rail["routes"]] == ["fd00:0:0:b::/64"]
    with pytest.raises(plan.PlanError, match="own subnet"):
        planned(fabric_of(subnet6="fd00:0:0:a::/64", gateway="last", routes=["FD00:0:0:A::/64"]))


def test_units_that_do_not_meet_say_so():
    assert planned(fabric_of(subnets=UNITS, gateway="none"), "su1")["routes"] == []
    assert planned(fabric_of(subnets={"su1": "10.1.0.0/24"}), "su1")["routes"] == []


@pytest.mark.parametrize(
    ("rail", "variable", "problem"),
    [
        ({"subnets": UNITS}, "fabric.rails[0].gateway", "3, su1, su2"),
        ({"subnet": "10.1.0.0/24", "routes": ["10.2.0.0/16"]}, "fabric.rails[0].gateway", "10.2.0.0/16"),
        (
            {"subnet": "10.1.0.0/24", "gateway": "last", "routes": ["fd00:2::/64"]},
            "fabric.rails[0].gateway6", "no IPv6 gateway",
        ),
        (
            {"subnet": "10.1.0.0/24", "gateway": "last", "routes": ["10.1.0.0/24"]},
            "fabric.rails[0].routes", "own subnet",
        ),
    ],
)  # fmt: skip
def test_a_route_that_leads_nowhere_is_refused(rail, variable, problem):
    with pytest.raises(plan.PlanError, match=problem) as caught:
        planned(fabric_of(**rail), "su1")
    assert (caught.value.variable, caught.value.rail) == (variable, "rail0")


def test_the_computed_form_routes_its_own_part_of_other_supernets():
    # Rail 2 has the third /20 of each: 32 in the third octet.
    fabric = {
        "transport": "roce", "mtu": 9000, "rail_count": 3, "supernet": "10.16.0.0/16", "rail_prefix": 20,
        "netdev_pattern": "ens{rail}", "gateway": "last", "rail_routes": ["10.18.0.0/16", "10.17.0.0/16"],
    }  # fmt: skip
    assert plan.plan_node(fabric, "gpu1")[2]["routes"] == [
        {"to": "10.17.32.0/20", "via": "10.16.47.254"},
        {"to": "10.18.32.0/20", "via": "10.16.47.254"},
    ]
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_node({**fabric, "rail_routes": ["10.18.0.0/19"]}, "gpu1")
    assert caught.value.variable == "fabric.rail_routes"


def test_each_rail_with_an_address_has_a_table_of_its_own():
    fabric = fabric_of(subnet="10.1.0.0/24")
    fabric["rails"].append({"name": "rail1", "netdev": "ens7", "subnet6": "fd00:1::/64"})
    assert [rail["table"] for rail in plan.plan_node(fabric, "gpu1")] == [6100, 6101]
    fabric["route_table_base"] = 1000
    assert [rail["table"] for rail in plan.plan_node(fabric, "gpu1")] == [1000, 1001]


@pytest.mark.parametrize(
    ("transport", "fabric_mode", "rail_mode", "subnet", "expected"),
    [
        ("infiniband", None, None, "10.1.0.0/24", "datagram"),
        ("infiniband", "connected", None, "10.1.0.0/24", "connected"),
        ("infiniband", "connected", "datagram", "10.1.0.0/24", "datagram"),
        ("infiniband", "connected", None, None, None),
        ("roce", None, None, "10.1.0.0/24", None),
    ],
)
def test_ipoib_mode(transport, fabric_mode, rail_mode, subnet, expected):
    fabric = {
        "transport": transport, "ipoib_mode": fabric_mode,
        "rails": [{"name": "rail0", "hca": "mlx5_0:1", "ipoib_mode": rail_mode, "subnet": subnet}],
    }  # fmt: skip
    rail = planned(fabric)
    assert (rail["ipoib_mode"], rail["table"]) == (expected, None if subnet is None else 6100)


def test_link_local_and_router_advertisements_are_as_declared():
    rail = planned(fabric_of(subnet="10.1.0.0/24"))
    assert (rail["link_local"], rail["accept_ra"], rail["bond"]) == (["ipv6"], False, None)
    rail = planned({**fabric_of(subnet="10.1.0.0/24"), "link_local": [], "accept_ra": True})
    assert (rail["link_local"], rail["accept_ra"]) == ([], True)


def test_a_rail_on_a_bond_is_refused():
    with pytest.raises(plan.PlanError, match="one RDMA connection is one flow"):
        planned(fabric_of(subnet="10.1.0.0/24", bond="bond0"))


STORAGE = {
    "name": "storage", "purpose": "storage", "netdev": "ens8", "subnet": "10.9.0.0/24", "vlan": 90,
    "mtu": 9000, "manage": True,
}  # fmt: skip


def network_of(item, name="gpu7", **keys):
    return networks.plan_networks({"networks": [item], "host_offset": 10}, name, **keys)[0]


def test_a_managed_network_has_an_address_like_a_rail():
    assert network_of(STORAGE) == {**STORAGE, "address": "10.9.0.17/24", "bmc": False}
    assert network_of(STORAGE, "login", node_index=3)["address"] == "10.9.0.13/24"
    declared = {"storage": "10.9.0.200/24"}
    assert network_of(STORAGE, "login", network_addresses=declared)["address"] == "10.9.0.200/24"


def test_an_unmanaged_network_has_only_what_the_node_says():
    item = {**STORAGE, "manage": False}
    assert network_of(item)["address"] is None
    assert network_of(item, network_addresses={"storage": "10.9.0.9/24"})["address"] == "10.9.0.9/24"


@pytest.mark.parametrize(
    ("item", "declared", "problem"),
    [
        (STORAGE, {"storage": "10.9.1.9/24"}, "no usable address of 10.9.0.0/24"),
        (STORAGE, {"storage": "10.9.0.9"}, "prefix length"),
        (STORAGE, {"sotrage": "10.9.0.9/24"}, "no such network"),
        ({**STORAGE, "subnet": None}, {}, "nothing gives the node an address"),
        ({**STORAGE, "bmc": True, "manage": False}, {"storage": "10.9.0.9/24"}, "bmc_address"),
    ],
)
def test_a_network_without_a_right_address_is_refused(item, declared, problem):
    with pytest.raises(plan.PlanError, match=problem) as caught:
        network_of(item, network_addresses=declared)
    assert problem in caught.value.problem or problem in caught.value.fix
