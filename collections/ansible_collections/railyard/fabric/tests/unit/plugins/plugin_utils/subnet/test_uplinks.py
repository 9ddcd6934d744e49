# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uplinks: oversubscription, unequal spines, leaves apart, and switches that make no tree."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import NoAnswer, PortKey, Source
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support.fake_subnets import FakeDevice, Net


def test_oversubscription_of_the_net_of_the_design() -> None:
    # 16 x 100 down, 16 x 100 up: 1:1; one uplink lost: 16/15 = 1.07:1.
    net = Net(units=1, nodes_each=16, rails=4, spines=2, links_each=8)
    expected, previous = net.expected(uplinks=True), net.reading()
    leaf = next(one for one in judge(previous, expected).leaves if one.name == "leaf0-0")
    assert (leaf.hosts, leaf.hosts_gbps, leaf.uplinks_gbps_now) == (16, 1600, 1600)
    assert (leaf.ratio_now, leaf.ratio_declared, leaf.ratio_cabled) == (1.0, 1.0, None)
    net.disconnect(net.list_uplinks(net.leaf(0, 0))[0])
    judgement = judge(net.reading(), expected, previous)
    leaf = next(one for one in judgement.leaves if one.name == "leaf0-0")
    assert leaf.ratio_now == pytest.approx(1.0667, abs=0.001)
    assert (leaf.ratio_cabled, leaf.uplinks_gbps_cabled, leaf.uplinks_gbps_declared) == (1.0, 1600, 1600)
    assert sorted(leaf.spines.values()) == [700, 800]


def test_a_net_of_two_to_one_is_no_finding() -> None:
    net = Net(units=1, nodes_each=16, rails=4, spines=2, links_each=4)
    judgement = judge(net.reading(), net.expected(uplinks=True))
    assert judgement.findings == ()
    assert {leaf.ratio_now for leaf in judgement.leaves} == {2.0}


def test_fewer_uplinks_than_declared_are_a_warning() -> None:
    net = Net()
    expected = net.expected(uplinks=True)
    net.disconnect(net.list_uplinks(net.leaf(1, 0))[0])
    judgement = judge(net.reading(), expected)
    (found,) = judgement.findings
    assert (found.cause, found.severity) == ("oversubscribed", "warn")
    assert "leaf1-0" in found.text
    assert "300 Gbit/s of uplinks, declared are 400" in found.text
    assert "1.33:1" in found.text


def test_an_uplink_that_is_reported_as_lost_is_not_reported_as_oversubscription() -> None:
    net = Net()
    expected, previous = net.expected(uplinks=True), net.reading()
    net.disconnect(net.list_uplinks(net.leaf(1, 0))[0])
    assert [one.cause for one in judge(net.reading(), expected, previous).findings] == ["link_lost"]


def test_a_fault_of_an_adapter_does_not_hide_missing_uplinks_of_its_leaf() -> None:
    net = Net()
    expected = net.expected(uplinks=True)
    net.disconnect(net.list_uplinks(net.leaf(0, 0))[0])
    net.train(net.adapter_key(0, 0), width=1)
    causes = [one.cause for one in judge(net.reading(), expected).findings]
    assert causes == ["link_narrow", "oversubscribed"]


def test_a_spine_that_was_lost_before_the_first_reading_shows_by_what_is_declared() -> None:
    net = Net()
    expected = net.expected(uplinks=True)
    net.remove(net.spine(1))
    (found,) = judge(net.reading(), expected).findings
    assert found.cause == "oversubscribed"
    assert len(found.ports) == 8


def test_a_leaf_unlike_most_is_inferred() -> None:
    net = Net()
    expected = net.expected()
    net.disconnect(net.list_uplinks(net.leaf(1, 0))[0])
    (found,) = judge(net.reading(), expected).findings
    assert (found.cause, found.severity, found.inferred) == ("spines_unequal", "warn", True)
    assert "100, 200 Gbit/s to the spines, where most leaves have 200, 200" in found.text


def test_links_that_could_be_spread_evenly_and_are_not_are_a_warning() -> None:
    net = Net(units=1, rails=2, spines=2, links_each=2)
    for rail in range(2):  # one to spine0, three to spine1
        net.move(net.list_uplinks(net.leaf(0, rail), net.spine(0))[0], PortKey(net.spine(1), 50 + rail))
    (found,) = judge(net.reading(), net.expected()).findings
    assert (found.cause, found.inferred) == ("spines_unequal", False)
    assert "100, 300 Gbit/s" in found.text


def test_links_that_cannot_be_spread_evenly_are_right() -> None:
    net = Net(units=2, rails=2, spines=3, links_each=1)
    for unit in range(2):
        for rail in range(2):
            net.connect(PortKey(net.leaf(unit, rail), 40), PortKey(net.spine(0), 50 + 2 * unit + rail))
    assert judge(net.reading(), net.expected()).findings == ()


@pytest.mark.parametrize("is_silent", [False, True])
def test_leaves_without_a_common_spine_fail(is_silent: bool) -> None:
    net = Net(units=1, rails=3, spines=2, links_each=1)
    expected = net.expected()
    # leaf0-0 keeps spine0 alone, leaf0-1 spine1 alone; leaf0-2 reaches both.
    for rail, spine in ((0, 1), (1, 0)):
        for key in net.list_uplinks(net.leaf(0, rail), net.spine(spine)):
            net.disconnect(key)
    if is_silent:  # a spine that did not answer may be the common one
        net.silent = [NoAnswer("0,1,7", None, "Connection timed out", Source("ibnetdiscover.err", 1))]
    found = [one for one in judge(net.reading(), expected).findings if one.cause == "no_common_spine"]
    assert len(found) == 1
    assert found[0].severity == ("unmeasured" if is_silent else "fail")
    assert "leaf0-0" in found[0].text
    assert "leaf0-1" in found[0].text


def three_tiers() -> Net:
    """Two pods of two leaves and two spines each, joined by two cores."""
    net = Net(units=2, nodes_each=4, rails=2, spines=4, links_each=1)
    for unit in range(2):
        for rail in range(2):
            for key in net.list_uplinks(net.leaf(unit, rail)):
                if int(net.peer(key).guid, 16) % 4 // 2 != unit:
                    peer = net.peer(key)
                    for end in (key, peer):
                        del net.devices[end.guid].ports[end.number]
    for core in range(2):
        guid = f"0x00000000cc00000{core}"
        net.devices[guid] = FakeDevice("switch", f"core{core}")
        for spine in range(4):
            net.connect(PortKey(guid, spine + 1), PortKey(net.spine(spine), 60 + core))
    return net


def test_three_tiers_have_their_common_switch_above() -> None:
    net = three_tiers()
    judgement = judge(net.reading(), net.expected())
    assert judgement.findings == ()
    assert sorted(judgement.tiers.values()) == [0] * 4 + [1] * 4 + [2] * 2
    assert judgement.is_tree


def test_a_link_between_two_leaves_is_reported_and_makes_no_tree() -> None:
    net = Net()
    net.connect(PortKey(net.leaf(0, 0), 50), PortKey(net.leaf(0, 1), 50))
    judgement = judge(net.reading(), net.expected())
    (found,) = judgement.findings
    assert (found.cause, found.severity) == ("same_level_link", "warn")
    assert not judgement.is_tree
    assert judgement.tiers[net.leaf(0, 0)] == judgement.tiers[net.leaf(0, 1)] == 0


def test_a_mesh_is_one_finding_and_no_tree() -> None:
    net = Net(units=1, rails=4, spines=0, links_each=0)
    net.managers = []
    for one in range(4):
        for other in range(one + 1, 4):
            net.connect(PortKey(net.leaf(0, one), 30 + other), PortKey(net.leaf(0, other), 30 + one))
    judgement = judge(net.reading(), net.expected(leaves=False))
    assert [one.cause for one in judgement.findings] == ["no_master", "same_level_link"]
    assert not judgement.is_tree


def test_a_spine_with_a_nodes_adapter_is_reported_where_no_leaf_is_declared() -> None:
    net = Net(nodes_each=8, rails=2)
    net.move(net.adapter_key(0, 0), PortKey(net.spine(0), 60))
    judgement = judge(net.reading(), net.expected(leaves=False))
    assert "mixed_switch" in {one.cause for one in judgement.findings}
    assert judgement.tiers[net.spine(0)] == 1
    assert not judgement.is_tree


def test_a_manager_at_a_spine_leaves_the_tree_as_it_is() -> None:
    net = Net()
    net.devices["0x00000000dd000000"] = FakeDevice("adapter", "ufm1 mlx5_0")
    net.connect(PortKey("0x00000000dd000000", 1), PortKey(net.spine(0), 60))
    for leaves in (True, False):
        judgement = judge(net.reading(), net.expected(leaves=leaves))
        assert [one.cause for one in judgement.findings] == ["adapter_unknown"]
        assert judgement.is_tree
        assert judgement.tiers[net.spine(0)] == 1


def test_a_leaf_of_other_hosts_is_a_leaf() -> None:
    net = Net()
    guid = "0x00000000af000000"
    net.devices[guid] = FakeDevice("switch", "storage-leaf")
    for spine in range(2):
        net.connect(PortKey(guid, 30 + spine), PortKey(net.spine(spine), 70))
    net.devices["0x00000000dd000000"] = FakeDevice("adapter", "storage1 mlx5_0")
    net.connect(PortKey("0x00000000dd000000", 1), PortKey(guid, 1))
    judgement = judge(net.reading(), net.expected())
    assert [one.cause for one in judgement.findings] == ["adapter_unknown"]
    assert judgement.tiers[guid] == 0
    assert "storage-leaf" in [leaf.name for leaf in judgement.leaves]


def test_units_are_nodes_with_the_same_leaves() -> None:
    net = Net()
    expected = net.expected()
    net.disconnect(net.adapter_key(1, 0))
    units = judge(net.reading(), expected).units
    assert [(unit.name, unit.nodes) for unit in units] == [
        ("su1", ("gpu001", "gpu002", "gpu003", "gpu004")), ("su2", ("gpu005", "gpu006", "gpu007", "gpu008")),
    ]  # fmt: skip
    assert units[0].leaves == tuple(net.leaf(0, rail) for rail in range(4))
