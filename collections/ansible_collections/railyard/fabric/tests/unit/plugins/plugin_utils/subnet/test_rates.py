# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates: what is declared counts; else what most comparable links have."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support.fake_subnets import EDR, FDR, HDR, SDR, Net, describe


@pytest.mark.parametrize(
    ("width", "lane", "declared", "cause"),
    [
        (2, HDR, 100.0, None),  # a splitter cable: HDR100 is 2x HDR
        (2, HDR, 200.0, "link_narrow"),
        (1, EDR, 100.0, "link_narrow"),
        (4, FDR, 56.25, None),  # FDR is 56 or 56.25, as one rounds
        (4, FDR, 100.0, "link_lanes_slow"),
        (4, SDR, 100.0, "link_lanes_slow"),
        (1, FDR, 100.0, "link_lanes_slow"),  # four such lanes would not do either
        (4, HDR, 100.0, None),  # faster than declared
    ],
)
def test_a_declared_rate_counts(width: int, lane: float, declared: float, cause: str | None) -> None:
    net = Net(lane_gbps=HDR, rate_gbps=None)
    expected = net.expected()
    first = expected.ports[0]._replace(rate_gbps=declared)
    expected = expected._replace(ports=(first, *expected.ports[1:]))
    net.train(net.adapter_key(0, 0), width=width, lane_gbps=lane)
    found = [one for one in judge(net.reading(), expected).findings if one.node == "gpu001"]
    assert [one.cause for one in found] == ([cause] if cause else [])
    assert not any(one.inferred for one in found)


def test_the_slower_end_counts() -> None:
    net = Net()
    key = net.adapter_key(1, 2)
    net.devices[key.guid].ports[1].width = 1
    (found,) = judge(net.reading(), net.expected()).findings
    assert describe(found) == ("link_narrow", "fail", "gpu002", "rail2")
    assert "1 lane of 25.78125 Gbit/s, 25 Gbit/s; declared are 100 Gbit/s" in found.text


def test_uplinks_are_compared_with_the_most_frequent_rate_of_their_tier() -> None:
    net = Net()
    key = net.list_uplinks(net.leaf(0, 1), net.spine(1))[0]
    net.train(net.adapter_key(0, 0))  # unchanged
    net.devices[key.guid].ports[key.number].lane_gbps = SDR
    (found,) = judge(net.reading(), net.expected()).findings
    assert found.cause == "link_lanes_slow"
    assert found.inferred
    assert "leaf0-1 port" in found.text
    assert "spine1 port" in found.text


def test_a_tie_has_no_verdict_and_says_so() -> None:
    net = Net(units=1, rails=2, spines=2, links_each=1)
    for rail in range(2):
        net.train(net.list_uplinks(net.leaf(0, rail), net.spine(0))[0], lane_gbps=SDR)
    judgement = judge(net.reading(), net.expected())
    assert not [one for one in judgement.findings if one.cause.startswith("link")]
    assert any("no rate is the most frequent one" in note for note in judgement.notes)


def test_two_links_are_too_few_to_compare() -> None:
    net = Net(units=1, rails=2, spines=1, links_each=1)
    judgement = judge(net.reading(), net.expected())
    assert judgement.findings == ()
    assert any("levels 0 and 1" in note and "fewer than three" in note for note in judgement.notes)


def test_the_rate_of_a_port_without_a_peer_means_nothing() -> None:
    net = Net()
    assert net.devices[net.leaf(0, 0)].ports[5].lane_gbps == SDR
    assert judge(net.reading(), net.expected()).findings == ()


def test_undeclared_rails_are_compared_with_each_other() -> None:
    net = Net(rate_gbps=None)
    net.train(net.adapter_key(3, 0), width=2)
    (found,) = judge(net.reading(), net.expected()).findings
    assert (found.cause, found.node, found.inferred) == ("link_narrow", "gpu004", True)
