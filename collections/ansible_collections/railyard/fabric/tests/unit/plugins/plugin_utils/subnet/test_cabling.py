# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cabling: a rail belongs to its leaf, declared or inferred; exchanged cables are one finding."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Leaf
from support.fake_subnets import Net


def test_two_rails_exchanged_are_one_finding_with_both_ends() -> None:
    net = Net()
    expected = net.expected()
    keys = net.adapter_key(1, 0), net.adapter_key(1, 1)
    net.swap(*keys)
    (found,) = judge(net.reading(), expected).findings
    assert (found.cause, found.node, found.inferred) == ("wrong_leaf", "gpu002", False)
    assert "rail0 and rail1 are exchanged" in found.text
    assert "rail0 from leaf0-1 port 2" in found.text
    assert "rail1 from leaf0-0 port 2" in found.text
    assert set(found.ports) == {*keys, PortKey(net.leaf(0, 0), 2), PortKey(net.leaf(0, 1), 2)}


@pytest.mark.parametrize("units", [True, False])
def test_without_declared_leaves_the_finding_is_inferred(units: bool) -> None:
    net = Net(nodes_each=8)
    net.swap(net.adapter_key(1, 0), net.adapter_key(1, 1))
    (found,) = judge(net.reading(), net.expected(leaves=False, units=units)).findings
    assert (found.cause, found.node, found.inferred) == ("wrong_leaf", "gpu002", True)
    assert "rail0 and rail1 are exchanged" in found.text


def test_a_tie_names_no_node() -> None:
    # Two of four nodes are exchanged: who is right?
    net = Net(units=1, nodes_each=4, rails=2, spines=2)
    for node in (1, 2):
        net.swap(net.adapter_key(node, 0), net.adapter_key(node, 1))
    assert judge(net.reading(), net.expected(leaves=False)).findings == ()
    assert judge(net.reading(), net.expected(leaves=False, units=True)).findings == ()


def test_too_few_ports_name_no_one() -> None:
    net = Net(units=1, nodes_each=2, rails=2, spines=2)
    net.move(net.adapter_key(1, 1), PortKey(net.leaf(0, 0), 3))
    assert judge(net.reading(), net.expected(leaves=False)).findings == ()


def test_some_rails_at_another_unit_are_named_one_by_one() -> None:
    net = Net()
    for rail in (0, 2):
        net.move(net.adapter_key(0, rail), PortKey(net.leaf(1, rail), 5))
    found = judge(net.reading(), net.expected()).findings
    assert [(one.cause, one.node, one.rail) for one in found] == [
        ("wrong_leaf", "gpu001", "rail0"), ("wrong_leaf", "gpu001", "rail2"),
    ]  # fmt: skip


def test_a_swapped_port_is_identified_by_the_previous_reading() -> None:
    # gpu001 went to spare ports of the other unit; gpu003 and gpu005 were exchanged.
    net = Net(rails=2)
    expected, previous = net.expected(), net.reading()
    for rail in range(2):
        net.move(net.adapter_key(0, rail), PortKey(net.leaf(1, rail), 5))
        net.swap(net.adapter_key(2, rail), net.adapter_key(4, rail))
    texts = [one.text for one in judge(net.reading(), expected, previous).findings]
    assert len(texts) == 2
    assert any(text.startswith("gpu003 and gpu005 are exchanged") for text in texts)
    assert any(text.startswith("gpu001 is connected to another unit") for text in texts)


@pytest.mark.parametrize(("leaves", "units"), [(True, False), (False, True)])
def test_exchanged_nodes_are_one_finding(leaves: bool, units: bool) -> None:
    net = Net(nodes_each=8)
    for rail in range(net.rails):
        net.swap(net.adapter_key(2, rail), net.adapter_key(9, rail))
    (found,) = judge(net.reading(), net.expected(leaves=leaves, units=units)).findings
    assert found.cause == "wrong_leaf"
    assert "gpu003 and gpu010 are exchanged" in found.text
    assert found.inferred is not leaves


def test_three_cables_in_a_circle_are_one_finding() -> None:
    net = Net()
    net.swap(net.adapter_key(1, 0), net.adapter_key(1, 1))
    net.swap(net.adapter_key(1, 0), net.adapter_key(1, 2))
    (found,) = judge(net.reading(), net.expected()).findings
    assert all(rail in found.text for rail in ("rail0", "rail1", "rail2"))


def test_two_pairs_of_one_node_are_two_findings() -> None:
    net = Net()
    net.swap(net.adapter_key(1, 0), net.adapter_key(1, 1))
    net.swap(net.adapter_key(1, 2), net.adapter_key(1, 3))
    assert [one.cause for one in judge(net.reading(), net.expected()).findings] == ["wrong_leaf"] * 2


def test_cables_of_two_nodes_exchanged_are_one_finding() -> None:
    net = Net()
    net.swap(net.adapter_key(1, 0), net.adapter_key(2, 1))
    (found,) = judge(net.reading(), net.expected()).findings
    assert "gpu002 rail0 and gpu003 rail1 are exchanged" in found.text


def test_a_leaf_is_known_by_its_guid_before_its_name() -> None:
    # The switches' names were exchanged, the GUIDs are declared: nothing is in the wrong place.
    net = Net()
    expected = net.expected()
    one, other = net.leaf(0, 0), net.leaf(0, 1)
    leaves = {**expected.leaves, "leaf0-0": Leaf(one), "leaf0-1": Leaf(other)}
    net.devices[one].description, net.devices[other].description = "leaf0-1", "leaf0-0"
    (found,) = judge(net.reading(), expected).findings
    assert (found.cause, found.node, len(found.ports)) == ("wrong_leaf", None, 16)
    assert "each has all rails of the other one" in found.text
    assert judge(net.reading(), expected._replace(leaves=leaves)).findings == ()


@pytest.mark.parametrize("name", ["MF0;leaf0-0:QM9700/U1", "LEAF0-0", "MF0;leaf0-0:CS7520/L01/U1"])
def test_a_managed_switch_is_known_by_the_name_in_its_description(name: str) -> None:
    # `MF0;<name>:<model>/U1` is how Mellanox switches with a system of their own name themselves.
    net = Net()
    net.devices[net.leaf(0, 0)].description = name
    judgement = judge(net.reading(), net.expected())
    assert judgement.findings == ()
    assert judgement.switch_names[net.leaf(0, 0)] == "leaf0-0"


def test_a_leaf_that_names_itself_otherwise_is_found_by_most_of_its_rails() -> None:
    net = Net(nodes_each=6)
    net.devices[net.leaf(0, 0)].description = "Quantum Mellanox Technologies"
    net.swap(net.adapter_key(1, 0), net.adapter_key(1, 1))
    (found,) = judge(net.reading(), net.expected()).findings
    assert found.inferred


def test_a_cable_in_a_spine_is_a_wrong_leaf_and_the_tree_stays() -> None:
    net = Net()
    net.move(net.adapter_key(0, 0), PortKey(net.spine(0), 60))
    judgement = judge(net.reading(), net.expected())
    assert [(one.cause, one.node) for one in judgement.findings] == [("wrong_leaf", "gpu001")]
    assert judgement.tiers[net.spine(0)] == 1
    assert not judgement.is_tree
