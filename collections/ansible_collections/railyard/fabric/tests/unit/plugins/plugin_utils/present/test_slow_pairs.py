# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs of nodes are slow, and in which order their paths are read."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import NODE_RAIL, PAIR, Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.slow_pairs import find_slow_pairs


def verdict(node, peer, rail="rail0", check="rdma_bandwidth", outcome="fail"):
    return {"node": node, "peer": peer, "rail": rail, "check": check, "outcome": outcome}


def places(found):
    return [(one.node, one.peer, one.rail) for one in found]


def test_both_directions_and_all_checks_are_one_pair():
    verdicts = [
        verdict("b", "a"),
        verdict("a", "b", check="rdma_latency"),
        verdict("a", "b"),
        verdict("a", "b", "rail1", outcome="pass"),
        verdict("a", "b", "rail1", outcome="recorded"),
        verdict("a", "b", "rail1", check="path_mtu"),
        verdict("a", None, "rail1", check="link"),
        verdict("a", "b", None, check="rdma_aggregate_bandwidth"),
    ]
    (pair,) = find_slow_pairs(verdicts, [])
    assert pair == ("a", "b", "rail0", ("rdma_bandwidth", "rdma_latency"))


def test_the_path_that_isolation_named_comes_first():
    verdicts = [verdict("a", "b"), verdict("c", "d")]
    found = find_slow_pairs(verdicts, [Suspect(PAIR, "d", "rail0", peer="c")])
    assert places(found) == [("c", "d", "rail0"), ("a", "b", "rail0")]


def test_a_suspect_without_a_failed_test_counts_by_its_first_test():
    verdicts = [
        verdict("a", "c", outcome="recorded"),
        verdict("a", "b", "rail1", outcome="recorded"),
        verdict("b", "c", outcome="recorded"),
    ]
    found = find_slow_pairs(verdicts, [Suspect(NODE_RAIL, "b", "rail0")])
    assert [tuple(one) for one in found] == [("b", "c", "rail0", ())]
    # One that failed has its pairs already.
    failed = [*verdicts, verdict("b", "d")]
    assert places(find_slow_pairs(failed, [Suspect(NODE_RAIL, "b", "rail0")])) == [("b", "d", "rail0")]


def test_pairs_with_an_end_that_has_no_path_yet_come_first():
    slow = [verdict("a", peer) for peer in "bcd"] + [verdict("b", "c"), verdict("x", "y")]
    assert places(find_slow_pairs(slow, []))[-1] == ("b", "c", "rail0")
    assert len(find_slow_pairs(slow, [])) == 5
