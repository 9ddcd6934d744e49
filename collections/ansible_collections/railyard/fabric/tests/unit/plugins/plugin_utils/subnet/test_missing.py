# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is missing: rails, nodes, switches, links; each once, and with what the previous reading adds."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support.fake_subnets import NOON_S, Net, describe


def test_a_rail_without_a_link_is_named_with_its_leaf() -> None:
    net = Net()
    expected = net.expected()
    net.disconnect(net.adapter_key(2, 1))
    judgement = judge(net.reading(), expected)
    (found,) = judgement.findings
    assert describe(found) == ("adapter_missing", "fail", "gpu003", "rail1")
    assert f"leaf0-1 ({net.leaf(0, 1)})" in found.text
    assert judgement.status == 1
    assert any(note.startswith("No previous reading") for note in judgement.notes)


def test_with_a_previous_reading_it_is_lost_since_that_day_at_its_port() -> None:
    net = Net()
    expected, previous = net.expected(), net.reading()
    leaf = net.disconnect(net.adapter_key(2, 1))
    judgement = judge(net.reading(taken_at_s=NOON_S + 3600), expected, previous)
    (found,) = judgement.findings
    assert describe(found) == ("link_lost", "fail", "gpu003", "rail1")
    assert "leaf0-1 port 3" in found.text
    assert "since 2026-09-21 14:13 UTC" in found.text  # date -u -d @1790000000
    assert set(found.ports) == {leaf, net.adapter_key(2, 1)}
    assert not any(note.startswith("No previous reading") for note in judgement.notes)


def test_a_node_without_any_link_is_one_finding() -> None:
    net = Net()
    expected = net.expected()
    for rail in range(net.rails):
        net.disconnect(net.adapter_key(2, rail))
    (found,) = judge(net.reading(), expected).findings
    assert (found.cause, found.node, found.rail) == ("adapter_missing", "gpu003", None)
    assert "none of the 4 rails" in found.text


def test_an_absent_rail_is_not_missing_and_is_reported_where_it_is() -> None:
    net = Net()
    expected = net.expected()
    first, *others = expected.ports
    expected = expected._replace(ports=(first._replace(absent=True), *others))
    (found,) = judge(net.reading(), expected).findings
    assert describe(found) == ("adapter_unknown", "warn", "gpu001", "rail0")
    net.disconnect(net.adapter_key(0, 0))
    assert judge(net.reading(), expected).findings == ()


def test_a_lost_leaf_is_one_finding() -> None:
    net = Net()
    expected, previous = net.expected(), net.reading()
    net.remove(net.leaf(1, 2))
    for before in (None, previous):
        judgement = judge(net.reading(), expected, before)
        (found,) = judgement.findings
        assert (found.cause, found.severity) == ("switch_missing", "fail")
        assert "leaf1-2" in found.text
        assert judgement.coverage.found_ports == judgement.coverage.expected_ports - 4


def test_a_lost_leaf_that_was_not_declared_is_one_finding_too() -> None:
    net = Net()
    expected, previous = net.expected(leaves=False), net.reading()
    net.remove(net.leaf(1, 2))
    (found,) = judge(net.reading(), expected, previous).findings
    assert (found.cause, found.severity) == ("switch_missing", "fail")


def test_a_lost_spine_is_one_finding_with_the_bandwidth_that_is_left() -> None:
    net = Net(spines=4)
    expected, previous = net.expected(uplinks=True), net.reading()
    net.remove(net.spine(2))
    (found,) = judge(net.reading(), expected, previous).findings
    assert (found.cause, found.severity) == ("switch_missing", "fail")
    assert "spine2" in found.text
    assert "keep 75 % of their uplink bandwidth" in found.text


def test_a_lost_uplink_is_a_warning_with_the_bandwidth_that_is_left() -> None:
    net = Net(spines=2, links_each=2)
    expected, previous = net.expected(), net.reading()
    key = PortKey(net.leaf(0, 3), 7)
    peer = net.disconnect(key)
    judgement = judge(net.reading(), expected, previous)
    (found,) = judgement.findings
    assert (found.cause, found.severity, found.node) == ("link_lost", "warn", None)
    assert set(found.ports) == {key, peer}
    assert "leaf0-3 (" in found.text
    assert "keeps 300 Gbit/s of uplinks (75 %)" in found.text
    assert judgement.status == 0


def test_a_link_that_moved_is_not_lost() -> None:
    net = Net()
    expected, previous = net.expected(), net.reading()
    net.swap(net.adapter_key(0, 0), net.adapter_key(1, 0))  # two ports of one leaf
    judgement = judge(net.reading(), expected, previous)
    assert judgement.findings == ()
    assert any("2 links of the previous reading" in note for note in judgement.notes)


def test_an_adapter_of_no_node_that_is_gone_is_a_warning() -> None:
    net = Net()
    expected = net.expected()
    stranger = "0x00000000dd000000"
    net.devices[stranger] = type(net.devices[net.leaf(0, 0)])("adapter", "storage1 mlx5_0")
    net.connect(PortKey(stranger, 1), PortKey(net.leaf(0, 0), 5))
    previous = net.reading()
    net.disconnect(PortKey(stranger, 1))
    (found,) = judge(net.reading(), expected, previous).findings
    assert (found.cause, found.severity) == ("link_lost", "warn")
    assert "storage1 mlx5_0" in found.text


def test_an_earlier_loss_stays_a_failure() -> None:
    net = Net()
    expected = net.expected()
    net.disconnect(net.adapter_key(2, 1))
    (found,) = judge(net.reading(), expected, net.reading()).findings
    assert found.cause == "adapter_missing"
