# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where nodes meet without IP on their rails: an address counts when the node's own facts show it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import management

FABRIC = {
    "transport": "infiniband",
    "rails": [{"name": "rail0", "hca": "mlx5_0:1"}, {"name": "rail1", "hca": "mlx5_3:1"}],
}


def node(name: str = "dgx01", **changes: Any) -> Node:
    words = {"ansible_host": name, **changes}
    return Node(
        name=name, fabric=FABRIC, node_index=None, scalable_unit=None, rail_overrides=None, groups=(), **words
    )


def planned(*names: str, transport: str = "infiniband", address: str | None = None) -> dict[str, Any]:
    rails = [{"name": rail["name"], "hca": rail["hca"], "address": address} for rail in FABRIC["rails"]]
    return {"nodes": {name: {"transport": transport, "rails": rails} for name in names or ("dgx01",)}}


def facts(name: str = "dgx01", address: str = "192.168.0.1/24", **changes: Any) -> dict[str, Any]:
    ports = [
        {"hca": "mlx5_0:1", "netdev": None, "port_guid": "b83f:d203:00a1:0000"},
        {"hca": "mlx5_3:1", "netdev": None, "port_guid": None},
    ]
    devices = [
        {"netdev": "lo", "addresses": ["127.0.0.1/8"], "addresses6": ["::1/128"]},
        {"netdev": "bond0", "addresses": [address], "addresses6": ["fe80::1/64", "2001:db8::1/64"]},
    ]
    return {"node": name, "netdevs": devices, "hcas": ports, **changes}


def unasked(name: str) -> list[str]:
    raise AssertionError(f"the resolver was asked for {name}")


def one(found: dict[str, dict[str, Any]]) -> tuple[str | None, str | None]:
    said = found["dgx01"]
    return said["address"], said["why_not"]


@pytest.mark.parametrize("transport", ["infiniband", "efa"])
def test_each_transport_whose_rails_may_have_no_ip_meets_there(transport: str) -> None:
    nodes = [node(ansible_host="192.168.0.1")]
    found = management.entries(nodes, planned(transport=transport), [facts()], unasked)
    assert one(found) == ("192.168.0.1", None)
    assert found["dgx01"]["port_guids"] == {"rail0": "b83f:d203:00a1:0000"}


def test_a_declared_address_goes_before_the_resolvers() -> None:
    nodes = [node(management_address="192.168.0.1", ansible_host="jump.example")]
    found = management.entries(nodes, planned(), [facts()], unasked)
    assert one(found) == ("192.168.0.1", None)
    assert found["dgx01"]["port_guids"] == {"rail0": "b83f:d203:00a1:0000"}


@pytest.mark.parametrize(
    ("resolved", "address"),
    [
        (["192.168.0.1"], "192.168.0.1"),
        (["203.0.113.9", "192.168.0.1"], "192.168.0.1"),
        (["2001:db8::1", "192.168.0.1"], "192.168.0.1"),
        (["2001:0db8:0::1"], "2001:db8::1"),
    ],
)
def test_a_name_is_the_address_that_the_node_really_has(resolved: list[str], address: str) -> None:
    found = management.entries([node()], planned(), [facts()], lambda name: resolved)
    assert one(found) == (address, None)


@pytest.mark.parametrize(
    ("changes", "resolved", "why"),
    [
        ({}, [], "cannot resolve ansible_host dgx01"),
        ({"ansible_host": "203.0.113.9"}, None, "203.0.113.9 to the controller, which is on no netdev"),
        ({"ansible_host": "127.0.0.1"}, None, "which is on no netdev"),
        ({}, ["127.0.0.1", "::1", "fe80::1"], "which is on no netdev"),
        ({"ansible_host": None}, None, "an expression"),
        ({"management_address": "192.168.0.9"}, None, "management_address means 192.168.0.9"),
    ],
)
def test_what_is_not_the_nodes_own_is_not_guessed(
    changes: dict[str, Any], resolved: list[str] | None, why: str
) -> None:
    resolve = unasked if resolved is None else lambda name: list(resolved)
    address, why_not = one(management.entries([node(**changes)], planned(), [facts()], resolve))
    assert address is None
    assert why in str(why_not)


def test_a_node_without_facts_and_a_shared_address_have_none() -> None:
    assert "not be inspected" in str(one(management.entries([node()], planned(), [], unasked))[1])
    nodes = [node(), node("dgx02")]
    rows = [facts(), facts("dgx02")]
    found = management.entries(nodes, planned("dgx01", "dgx02"), rows, lambda name: ["192.168.0.1"])
    assert [said["address"] for said in found.values()] == [None, None]
    assert found["dgx01"]["why_not"] == "192.168.0.1 is also that of dgx02"


@pytest.mark.parametrize(
    "plan", [planned(transport="roce"), planned(address="10.0.1.1/24"), planned("dgx09")]
)
def test_rails_with_ip_and_other_transports_have_no_such_entry(plan: dict[str, Any]) -> None:
    assert management.entries([node()], plan, [facts()], unasked) == {}


def test_the_roster_carries_it_for_such_nodes_alone() -> None:
    plan = {"nodes": {"dgx01": {"node_index": 1}, "dgx02": {"node_index": 2}}}
    said = {"address": None, "why_not": "because", "port_guids": {}}
    order = requests.work_order(
        "20261121T101500Z-3f2a",
        plan,
        dict.fromkeys(plan["nodes"], FABRIC),
        policy.merge({}),
        ["dgx01"],
        management={"dgx02": said},
    )
    assert "management" not in order["roster"][0]
    assert order["roster"][1]["management"] == said
