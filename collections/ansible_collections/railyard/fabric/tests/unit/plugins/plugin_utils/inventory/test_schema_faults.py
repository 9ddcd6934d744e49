# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Wrong inventories, one case per fault: each is found, alone, and says where it is and what to write."""

from __future__ import annotations

import pytest
from support.inventories.fabric_cases import COMPUTED, FAULTS, SOUND, UNSET, changed, node, pair, problems_of


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_fault_is_named(fault):
    nodes, variable, host, rail, part = FAULTS[fault]
    problems = problems_of(nodes)
    first = problems[0]
    assert (first.file, first.host, first.rail) == (variable, host, rail)
    assert part in first.message
    assert first.text().startswith(variable)
    assert not first.message.startswith(variable)  # reported once, where the file would be
    assert first.fix
    assert f"Fix: {first.fix}" in first.text()
    # One fault, one problem; a fault of all rails may be reported for each.
    assert {problem.file for problem in problems} == {variable} or fault == "network_address"


def test_sound_fabrics_have_no_problem():
    for fabric in (SOUND, COMPUTED, changed(SOUND, cabling="back_to_back", mtu=9978)):
        assert problems_of(pair(fabric)) == []


@pytest.mark.parametrize(
    "fabric",
    [
        pytest.param(changed(SOUND, mtu=1280, rails__0__subnet6="fd00:1::/64"), id="smallest-ipv6-mtu"),
        pytest.param(changed(SOUND, mtu=576), id="smallest-ipv4-mtu"),
        pytest.param(changed(COMPUTED, supernet="10.0.0.0/23"), id="supernet-just-fits"),
        pytest.param(changed(COMPUTED, supernet="fd00::/63", rail_prefix=64), id="ipv6-just-fits"),
        pytest.param(changed(COMPUTED, gateway="last"), id="gateway-last"),
        pytest.param(changed(COMPUTED, gateway="first", host_offset=1), id="gateway-first-with-offset"),
        pytest.param(
            changed(SOUND, rails__0__subnet="10.0.1.0/31", host_offset=-1, rails__1__subnet="10.0.2.0/31"),
            id="31",
        ),
        pytest.param(
            changed(SOUND, transport="infiniband", mtu=65520, ipoib_mode="connected", rails__0__subnet=UNSET),
            id="ib-without-ip",
        ),
        pytest.param(changed(SOUND, rails__0__gateway=None, rails__0__vlan=4094), id="null-is-not-given"),
        pytest.param(
            changed(SOUND, networks=[{"name": "ipmi", "purpose": "oob", "subnet": "192.168.1.0/24"}]),
            id="network",
        ),
    ],
)
def test_edges_that_are_allowed(fabric):
    assert problems_of(pair(fabric)) == []


def test_node_types_share_a_rails_subnet():
    other = changed(SOUND, rails__0__netdev="enp9s0", rails__1__netdev="enp10s0")
    assert problems_of([node("gpu1", SOUND), node("gpu2", other)]) == []


def test_an_address_taken_across_node_types_is_found():
    other = changed(SOUND, rails__0__netdev="enp9s0", rails__1__netdev="enp10s0")
    problems = problems_of([node("a-gpu1", SOUND), node("b-gpu1", other)])
    assert [(one.host, one.rail) for one in problems] == [("b-gpu1", "rail0"), ("b-gpu1", "rail1")]
    assert "10.0.1.1 is already that of a-gpu1 on rail rail0" in problems[0].message


def test_units_may_number_their_nodes_alike():
    subnets = {1: "10.1.0.0/24", 2: "10.2.0.0/24"}
    rail = {"name": "rail0", "netdev": "e0", "subnets": subnets, "gateway": "last"}
    fabric = changed(SOUND, rails=[rail])
    assert problems_of([node("a1", fabric, scalable_unit=1), node("b1", fabric, scalable_unit=2)]) == []


def test_all_errors_come_at_once_even_beside_a_bad_key():
    fabric = changed(
        SOUND, mtu="9k", rails__0__hca="mlx5_0", rails__1__netdev="ens6", frontend__netdev="ens6"
    )
    nodes = [node("gpu1", fabric), node("gpu900", fabric, rail_overrides={"rail1": {"pci": "x"}})]
    found = {(one.file, one.host, one.rail) for one in problems_of(nodes)}
    assert found == {
        ("fabric.mtu", None, None),
        ("fabric.rails[0].hca", None, "rail0"),
        ("fabric.rails[1].netdev", None, "rail1"),  # also the name of the frontend's, see below
        ("fabric.rails[0].netdev", None, "rail0"),
        ("fabric.rails[0].subnet", "gpu900", "rail0"),
        ("fabric.rails[1].subnet", "gpu900", "rail1"),
        ("rail_overrides.rail1.pci", "gpu900", "rail1"),
    }


def test_a_refused_subnet_does_not_make_its_gateway_wrong():
    fabric = changed(SOUND, rails__0__subnet="10.0.1.0/33", rails__0__gateway="10.0.1.254")
    assert [one.file for one in problems_of(pair(fabric))] == ["fabric.rails[0].subnet"]


def test_equal_problems_of_many_nodes_fold():
    nodes = [node(f"gpu{number}", SOUND) for number in range(1, 301)]
    problems = problems_of(nodes)
    assert [(one.host, one.rail) for one in problems] == [
        ("gpu[255-300]", "rail0"),
        ("gpu[255-300]", "rail1"),
    ]


def test_a_bad_policy_is_a_problem():
    problems = problems_of(pair(SOUND), policy={"ping_cuont": 3})
    assert len(problems) == 1
    assert "fabric_policy.ping_cuont: is not known" in problems[0].text()


def test_a_wide_subnet_is_compared_with_all_that_it_holds():
    more = [
        {"name": "rail1", "netdev": "ens7", "subnet": "10.0.1.0/24"},
        {"name": "rail2", "netdev": "ens8", "subnet": "10.0.200.0/24"},
    ]
    fabric = changed(SOUND, rails=[{"name": "rail0", "netdev": "ens6", "subnet": "10.0.0.0/16"}, *more])
    problems = problems_of(pair(fabric))
    assert [(one.rail, "10.0.0.0/16 of rail rail0" in one.message) for one in problems] == [
        ("rail1", True),
        ("rail2", True),
    ]
