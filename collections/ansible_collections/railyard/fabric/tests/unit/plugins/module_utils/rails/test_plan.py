# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address rule, against values from the design, the RFCs and arithmetic of the test's own."""

from __future__ import annotations

import ipaddress

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from hypothesis import given
from hypothesis import strategies as st

LAB = {
    "transport": "tcp",
    "node_class": "container",
    "mtu": 9000,
    "cabling": "back_to_back",
    "rails": [
        {"name": "rail0", "netdev": "ens6", "subnet": "10.0.1.0/24"},
        {"name": "rail1", "netdev": "ens6d1", "subnet": "10.0.0.0/24"},
    ],
    "frontend": {"netdev": "enp5s0"},
}
COMPUTED = {
    "transport": "roce",
    "mtu": 9000,
    "rail_count": 4,
    "supernet": "10.16.0.0/16",
    "rail_prefix": 20,
    "netdev_pattern": "ens{rail}f0",
    "hca_pattern": "mlx5_{rail}:1",
    "rate_gbps": 400,
    "gateway": "last",
}


def one_rail(**keys):
    rail = {"name": "rail0", "netdev": "ens6", "subnet": "10.0.1.0/24", **keys}
    return {"transport": "roce", "mtu": 9000, "rails": [{k: v for k, v in rail.items() if v is not None}]}


def test_the_lab_gets_the_addresses_of_the_notes():
    planned = {name: plan.plan_node(LAB, name) for name in ("gpuserver1", "gpuserver2")}
    assert [rail["address"] for rail in planned["gpuserver1"]] == ["10.0.1.1/24", "10.0.0.1/24"]
    assert [rail["address"] for rail in planned["gpuserver2"]] == ["10.0.1.2/24", "10.0.0.2/24"]


def test_a_rail_has_every_key_and_unknown_ones_are_none():
    expected = {
        "name": "rail0", "netdev": "ens6", "mac": None, "pci": None, "hca": None, "address": "10.0.1.1/24",
        "address6": None, "subnet": "10.0.1.0/24", "subnet6": None, "mtu": 9000, "gateway": None,
        "gateway6": None, "vlan": None, "rate_gbps": None, "leaf": None, "routes": [], "table": 6100,
        "ipoib_mode": None, "link_local": ["ipv6"], "accept_ra": False, "bond": None,
    }  # fmt: skip
    assert plan.plan_node(LAB, "gpuserver1")[0] == expected


def test_the_computed_form_counts_rails_from_0():
    # /20 blocks of 10.16.0.0/16 are 16 apart in the third octet; host 300 = 1 * 256 + 44.
    planned = plan.plan_node(COMPUTED, "gpu300")
    keys = ("name", "netdev", "hca", "address", "gateway")
    assert [tuple(rail[key] for key in keys) for rail in planned] == [
        ("rail0", "ens0f0", "mlx5_0:1", "10.16.1.44/20", "10.16.15.254"),
        ("rail1", "ens1f0", "mlx5_1:1", "10.16.17.44/20", "10.16.31.254"),
        ("rail2", "ens2f0", "mlx5_2:1", "10.16.33.44/20", "10.16.47.254"),
        ("rail3", "ens3f0", "mlx5_3:1", "10.16.49.44/20", "10.16.63.254"),
    ]
    assert planned[0]["rate_gbps"] == 400


def test_the_computed_form_of_an_ipv6_supernet_gives_address6():
    fabric = {
        **COMPUTED,
        "supernet": "fd00:10::/56",
        "rail_prefix": 64,
        "gateway": "first",
        "host_offset": 15,
    }
    planned = plan.plan_node(fabric, "gpu1")
    assert planned[3]["subnet6"] == "fd00:10:0:3::/64"
    assert planned[3]["address6"] == "fd00:10:0:3::10/64"
    assert planned[3]["gateway6"] == "fd00:10:0:3::1"
    assert (planned[3]["address"], planned[3]["subnet"], planned[3]["gateway"]) == (None, None, None)


def test_both_families_on_one_rail():
    rail = plan.plan_node(one_rail(subnet6="fd00:1::/64", gateway="last"), "gpu7")[0]
    assert (rail["address"], rail["address6"]) == ("10.0.1.7/24", "fd00:1::7/64")
    assert (rail["gateway"], rail["gateway6"]) == ("10.0.1.254", "fd00:1::ffff:ffff:ffff:ffff")


@pytest.mark.parametrize(
    ("key", "subnet", "offset", "expected"),
    [
        pytest.param("", "10.0.0.0/31", 0, "10.0.0.1/31", id="rfc3021-upper"),
        pytest.param("", "10.0.0.0/31", -1, "10.0.0.0/31", id="rfc3021-lower"),
        pytest.param("", "10.0.0.9/32", -1, "10.0.0.9/32", id="host-route"),
        pytest.param("", "10.0.0.0/30", 1, "10.0.0.2/30", id="last-of-a-30"),
        pytest.param("", "10.0.0.0/16", 255, "10.0.1.0/16", id="ends-in-0-inside-a-16"),
        pytest.param("", "10.0.0.0/16", 254, "10.0.0.255/16", id="ends-in-255-inside-a-16"),
        pytest.param("6", "fd00::/127", 0, "fd00::1/127", id="rfc6164-upper"),
        pytest.param("6", "fd00::/127", -1, "fd00::/127", id="rfc6164-lower"),
        pytest.param("6", "fd00::5/128", -1, "fd00::5/128", id="host-route-of-ipv6"),
        pytest.param("6", "fd00::/126", 2, "fd00::3/126", id="ipv6-has-no-broadcast"),
    ],
)
def test_edges_of_a_subnet(key, subnet, offset, expected):
    fabric = {**one_rail(**{"subnet": None, f"subnet{key}": subnet}), "host_offset": offset}
    assert plan.plan_node(fabric, "gpu1")[0][f"address{key}"] == expected


@pytest.mark.parametrize(
    ("keys", "offset"),
    [
        pytest.param({"subnet": "10.0.1.0/24"}, -1, id="network-address"),
        pytest.param({"subnet": "10.0.1.0/24"}, 254, id="broadcast-address"),
        pytest.param({"subnet": "10.0.1.0/24"}, 255, id="above"),
        pytest.param({"subnet": "10.0.1.0/24"}, -2, id="below"),
        pytest.param({"subnet": "10.0.1.0/31"}, 1, id="above-a-31"),
        pytest.param({"subnet": None, "subnet6": "fd00::/64"}, -1, id="subnet-router-anycast"),
        pytest.param({"subnet": None, "subnet6": "fd00::/127"}, 1, id="above-a-127"),
    ],
)
def test_an_address_that_is_none_for_a_node_is_refused(keys, offset):
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_node({**one_rail(**keys), "host_offset": offset}, "gpu1")
    assert caught.value.rail == "rail0"
    assert "subnet" in caught.value.variable
    assert "host_offset" in caught.value.fix


@pytest.mark.parametrize(
    ("name", "index", "expected"),
    [
        ("gpuserver1", None, 1),
        ("gpu017", None, 17),
        ("gpu017.cluster.example.org", None, 17),
        ("rack2-gpu5", None, 5),
        ("gpu017", 3, 3),
        ("gpu017", 0, 0),
        ("login", None, None),
        ("gpu5a", None, None),
        ("192.168.1.73", None, None),
        ("fd00::73", None, None),
    ],
)
def test_the_number_of_a_node(name, index, expected):
    assert plan.node_number(name, index) == expected


@pytest.mark.parametrize("index", [-1, "7", True, 1.5])
def test_a_bad_node_index_is_refused(index):
    with pytest.raises(plan.PlanError, match="node_index"):
        plan.node_number("gpu1", index)


@pytest.mark.parametrize(
    ("unit", "address"), [("su1", "10.1.0.4/24"), (2, "10.2.0.4/24"), ("2", "10.2.0.4/24")]
)
def test_each_scalable_unit_has_its_subnet(unit, address):
    fabric = one_rail(subnet=None, subnets={"su1": "10.1.0.0/24", 2: "10.2.0.0/24"}, gateway="first")
    rail = plan.plan_node(fabric, "gpu4", scalable_unit=unit)[0]
    assert rail["address"] == address
    assert rail["gateway"] == address.replace(".4/24", ".1")


def test_infiniband_without_subnet_has_no_address_and_needs_no_index():
    fabric = {"transport": "infiniband", "rails": [{"name": "rail0", "hca": "mlx5_0:1"}]}
    rail = plan.plan_node(fabric, "login")[0]
    assert (rail["address"], rail["hca"], rail["netdev"], rail["mtu"]) == (None, "mlx5_0:1", None, None)


UNITS = one_rail(subnet=None, subnets={"su1": "10.1.0.0/24"})


@pytest.mark.parametrize(
    ("fabric", "name", "more", "variable"),
    [
        (LAB, "login", {}, "node_index"),
        (UNITS, "gpu4", {}, "scalable_unit"),
        (UNITS, "gpu4", {"scalable_unit": "su9"}, "fabric.rails[0].subnets"),
        (one_rail(subnet=None), "gpu1", {}, "fabric.rails[0]"),
        (LAB, "gpuserver1", {"rail_overrides": {"rail7": {"netdev": "ens9"}}}, "rail_overrides.rail7"),
        ({**COMPUTED, "rail_count": 17}, "gpu1", {}, "fabric.supernet"),
    ],
)
def test_what_cannot_be_planned_is_refused(fabric, name, more, variable):
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_node(fabric, name, **more)
    assert caught.value.variable == variable


def test_overrides_change_only_their_rail():
    changed = {"netdev": "ens9", "mac": "02:AB:00:00:00:01", "hca": "mlx4_1:1", "address": "10.0.0.77/24"}
    plain = plan.plan_node(LAB, "gpuserver1")
    planned = plan.plan_node(LAB, "gpuserver1", rail_overrides={"rail1": changed})
    assert planned == [plain[0], {**plain[1], **changed, "mac": "02:ab:00:00:00:01"}]


def test_an_overriding_address_needs_no_index():
    overrides = {"rail0": {"address": "10.0.1.9/24"}, "rail1": {"address": "10.0.0.9/24"}}
    assert [rail["address"] for rail in plan.plan_node(LAB, "login", rail_overrides=overrides)] == [
        "10.0.1.9/24",
        "10.0.0.9/24",
    ]


@pytest.mark.parametrize(
    "address",
    ["10.0.2.9/24", "10.0.1.9", "10.0.1.9/25", "10.0.1.0/24", "10.0.1.255/24", "fd00::1/64", "ten"],
)
def test_a_bad_overriding_address_is_refused(address):
    with pytest.raises(plan.PlanError) as caught:
        plan.plan_node(LAB, "gpuserver1", rail_overrides={"rail0": {"address": address}})
    assert caught.value.variable == "rail_overrides.rail0.address"


@pytest.mark.parametrize(
    ("gateway", "name", "problem"),
    [
        ("10.0.1.7", "gpu7", "own address"),
        ("first", "gpu1", "own address"),
        ("last", "gpu254", "own address"),
        ("10.0.2.1", "gpu7", "no usable address"),
        ("10.0.1.0", "gpu7", "no usable address"),
        ("10.0.1.255", "gpu7", "no usable address"),
        ("fd00::1", "gpu7", "no subnet"),
    ],
)
def test_a_bad_gateway_is_refused(gateway, name, problem):
    with pytest.raises(plan.PlanError, match=problem) as caught:
        plan.plan_node(one_rail(gateway=gateway), name)
    assert "gateway" in caught.value.variable


def networks(version):
    """Make networks and so many rail bits that a few nodes fit."""
    bits = 32 if version == 4 else 128

    def build(drawn):
        base, prefix, rail_bits = drawn
        supernet = ipaddress.ip_network((base, prefix), strict=False)
        return str(supernet), min(prefix + rail_bits, bits - 8)

    start = 0x0A000000 if version == 4 else 0xFD00 << 112
    span = 2**24 if version == 4 else 2**120
    return st.tuples(
        st.integers(start, start + span - 1),
        st.integers(8 if version == 4 else 16, bits - 12),
        st.integers(3, 8),
    ).map(build)


# How long one example takes says how busy the machine is, nothing more.
@given(
    drawn=st.one_of(networks(4), networks(6)),
    indexes=st.sets(st.integers(1, 200), min_size=1, max_size=12),
    offset=st.integers(0, 50),
    rail_count=st.integers(1, 8),
)
def test_addresses_are_unique_and_inside_their_own_subnet(drawn, indexes, offset, rail_count):
    supernet, prefix = drawn
    family = "6" if ":" in supernet else ""
    fabric = {
        "transport": "roce", "mtu": 9000, "rail_count": rail_count, "supernet": supernet,
        "rail_prefix": prefix, "netdev_pattern": "e{rail}", "host_offset": offset,
    }  # fmt: skip
    planned = {index: plan.plan_node(fabric, "login", node_index=index) for index in indexes}
    interfaces = [
        ipaddress.ip_interface(rail["address" + family]) for node in planned.values() for rail in node
    ]
    assert len({interface.ip for interface in interfaces}) == len(indexes) * rail_count
    subnets = {rail["subnet" + family] for node in planned.values() for rail in node}
    assert len(subnets) == rail_count
    for interface in interfaces:
        assert interface.network.subnet_of(ipaddress.ip_network(supernet))
        assert interface.ip != interface.network.network_address
        assert family or interface.ip != interface.network.broadcast_address
    for index, node in planned.items():
        for rail in node:
            interface = ipaddress.ip_interface(rail["address" + family])
            assert int(interface.ip) - int(interface.network.network_address) == offset + index


def test_a_rail_that_a_node_lacks_keeps_its_number_for_the_others():
    planned = plan.plan_node(COMPUTED, "gpu5", rail_overrides={"rail1": "absent"})
    assert [(rail["name"], rail["netdev"], rail["table"]) for rail in planned] == [
        ("rail0", "ens0f0", 6100),
        ("rail2", "ens2f0", 6102),
        ("rail3", "ens3f0", 6103),
    ]


@pytest.mark.parametrize("word", ["none", "Absent", True, []])
def test_only_one_word_means_that_a_rail_is_lacking(word):
    with pytest.raises(plan.PlanError, match="or absent where the node lacks the rail"):
        plan.plan_node(LAB, "gpuserver1", rail_overrides={"rail1": word or [1]})
