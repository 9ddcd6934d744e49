# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts by rail group, and NCCL_CROSS_NIC by the leaves (values as NCCL's documentation gives them)."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Device,
    Port,
    PortKey,
    Reading,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import rank_order
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Coverage,
    Expected,
    ExpectedPort,
    Judgement,
    Owner,
    Unit,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rail_groups import find_groups

_COVERAGE = Coverage(0, 0, 0, 0, 0, 0, 0, None, None, None)


def subnet(cables: dict[tuple[str, str], str], units: tuple[Unit, ...]) -> rank_order.Subnet:
    """Make a subnet of cables: (node, rail) -> leaf."""
    devices, owners = {}, {}
    for (node, rail), leaf in cables.items():
        key = PortKey(f"{node}-{rail}", 1)
        devices[key.guid] = Device(key.guid, "adapter", "", {1: Port(key, peer=PortKey(leaf, 1))})
        owners[key] = Owner(node, rail, "", "guid")
    judgement = Judgement((), {}, True, (), units, owners, {}, (), _COVERAGE, 0)
    return rank_order.Subnet(Reading(0.0, None, None, None, devices), judgement)


NODES = ("n1", "n2", "n3")


def advice(cables: dict[tuple[str, str], str], units: tuple[Unit, ...]) -> rank_order.CrossNic:
    one = subnet(cables, units)
    return rank_order.advise_cross_nic([one], find_groups([one.judgement], NODES))


def test_a_leaf_for_each_rail_is_no_crossing() -> None:
    cables = {(node, f"rail{rail}"): f"leaf{rail}" for node in NODES for rail in range(2)}
    found = advice(cables, (Unit("su1", NODES, ("leaf0", "leaf1")),))
    assert found == ("0", "in each rail group every rail has a leaf of its own")


def test_groups_have_leaves_of_their_own_for_a_rail() -> None:
    cables = {(node, f"rail{rail}"): f"{node}-leaf{rail}" for node in NODES for rail in range(2)}
    units = tuple(Unit(f"su-{node}", (node,), (f"{node}-leaf0", f"{node}-leaf1")) for node in NODES)
    assert advice(cables, units).value == "0"


def test_all_rails_of_a_node_on_one_leaf_may_cross() -> None:
    cables = {(node, f"rail{rail}"): "leaf" for node in NODES for rail in range(2)}
    assert advice(cables, (Unit("su1", NODES, ("leaf",)),)).value == "1"


def test_a_rail_on_two_leaves_is_left_to_nccl() -> None:
    """Cables of n3 exchanged: NCCL's own choice (2) is the safe one."""
    cables = {(node, f"rail{rail}"): f"leaf{rail}" for node in NODES for rail in range(2)}
    cables["n3", "rail0"], cables["n3", "rail1"] = "leaf1", "leaf0"
    found = advice(cables, (Unit("su1", NODES, ("leaf0", "leaf1")),))
    assert found == (None, "su1: the ports of rail0 are connected to 2 leaves")


def test_two_rails_of_three_on_one_leaf_are_left_to_nccl() -> None:
    leaves = ("leaf0", "leaf0", "leaf1")
    cables = {(node, f"rail{rail}"): leaves[rail] for node in NODES for rail in range(3)}
    found = advice(cables, (Unit("su1", NODES, ("leaf0", "leaf1")),))
    assert found.value is None
    assert "rail0 shares its leaf" in found.reason


def test_one_rail_has_nothing_to_choose() -> None:
    cables = {(node, "rail0"): "leaf" for node in NODES}
    assert advice(cables, (Unit("su1", NODES, ("leaf",)),)).value is None


def test_hosts_are_listed_group_after_group() -> None:
    units = (Unit("su1", ("n1", "n3"), ("a",)), Unit("su2", ("n2",), ("b",)))
    found = find_groups([subnet({}, units).judgement], (*NODES, "n4"))
    text = rank_order.write_hosts(found, rank_order.CrossNic("0", "why"), ["look"])
    assert [line for line in text.splitlines() if not line.startswith("#")] == ["n1", "n3", "n2"]
    assert "# NCCL_CROSS_NIC=0" in text
    assert "# look" in text
    assert "left out: n4" in text


def test_another_order_of_adapters_is_named() -> None:
    ports = [
        ExpectedPort(node, f"rail{rail}", hca=f"mlx5_{rail}:1") for node in ("n1", "n2") for rail in (0, 1)
    ]
    ports += [ExpectedPort("n3", "rail0", hca="mlx5_1:1"), ExpectedPort("n3", "rail1", hca="mlx5_0:1")]
    (warning,) = rank_order.compare_adapter_order(Expected(tuple(ports), NODES))
    assert warning.startswith("n3: rail0 is mlx5_1:1, but mlx5_0:1 on 2 of 3 nodes")
    assert rank_order.compare_adapter_order(Expected(tuple(ports[:4]), NODES)) == []
