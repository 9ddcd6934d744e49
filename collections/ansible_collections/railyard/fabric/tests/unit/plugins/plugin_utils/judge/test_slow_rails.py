# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose rail is slow: from all bandwidth tests of a run, made up here, and from a whole run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import causes, slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from support.runs.fake_run import FakeRun

FLOOR = 0.04
Slow = Callable[[str, str, str], bool]


def told(nodes: int, slow: Slow, check: str = "tcp_bandwidth") -> dict[tuple[str, str, str], Answer]:
    """Return each test's answer, after all were looked at; those that are `slow` were below the floor."""
    asked, answers = [], []
    for rail in ("rail0", "rail1"):
        for node, peer in permutations([f"n{number}" for number in range(1, nodes + 1)], 2):
            below = slow(node, peer, rail)
            answer = Answer("pass", {"bandwidth_gbps": 0.05}, {"bandwidth_gbps": FLOOR})
            if below:
                answer.outcome, answer.observed = "fail", {"bandwidth_gbps": 0.0096}
                answer.cause = causes.explain("below_floor", "bandwidth_gbps 0.0096, floor 0.04")
            asked.append(
                {"id": f"{node} {peer} {rail}", "check": check, "node": node, "peer": peer, "rail": rail}
            )
            answers.append(answer)
    slow_rails.name(asked, answers)
    return {
        (line["node"], line["peer"], line["rail"]): answer
        for line, answer in zip(asked, answers, strict=True)
    }


@pytest.mark.parametrize("check", ["tcp_bandwidth", "tcp_bandwidth_concurrent", "rdma_bandwidth"])
def test_the_node_whose_rail_is_slow_is_named(check: str) -> None:
    answers = told(4, lambda node, peer, rail: rail == "rail1" and "n1" in (node, peer), check)
    said = {answer.cause["cause"] for answer in answers.values() if answer.outcome == "fail"}
    assert said == {
        "the rail is slower than planned, and slower than the others: n1 rail1: 0.0096 Gbit/s at most, floor "
        "0.04, with n2, n3, n4, while others of this rail pass"
    }
    for place, answer in answers.items():
        wanted = "rail_slow" if place[2] == "rail1" and "n1" in place else None
        assert answer.cause.get("cause_class") == wanted, place
        assert answer.outcome == ("fail" if wanted else "pass")


@pytest.mark.parametrize(("end", "way"), [(0, "to"), (1, "from")])
def test_a_rail_that_is_slow_one_way_is_named_with_the_way(end: int, way: str) -> None:
    answers = told(3, lambda *place: place[2] == "rail0" and place[end] == "n2")
    said = {answer.cause["cause"] for answer in answers.values() if answer.cause}
    assert len(said) == 1
    assert f"n2 rail0: 0.0096 Gbit/s at most, floor 0.04, {way} n1, n3, while" in said.pop()


def test_two_slow_rails_are_both_named_by_the_test_between_them() -> None:
    answers = told(4, lambda node, peer, rail: rail == "rail1" and bool({"n1", "n2"} & {node, peer}))
    between = answers["n1", "n2", "rail1"].cause["cause"]
    assert "n1 rail1" in between
    assert "n2 rail1" in between
    alone = answers["n1", "n3", "rail1"].cause["cause"]
    assert "n2 rail1" not in alone


def test_between_two_nodes_either_may_have_the_slow_rail() -> None:
    answers = told(2, lambda _node, _peer, rail: rail == "rail1")
    said = [answer.cause["cause"] for answer in answers.values() if answer.cause]
    assert len(said) == 2
    assert all("n1 or n2 rail1" in one and "the same nodes pass on rail0" in one for one in said)


def test_a_rail_that_is_slow_for_all_is_named_as_a_whole() -> None:
    answers = told(3, lambda _node, _peer, rail: rail == "rail1")
    assert {answer.cause["cause"] for answer in answers.values() if answer.cause} == {
        "the rail is slower than planned, and slower than the others: all of n1, n2, n3 rail1: 0.0096 Gbit/s "
        "at most, floor 0.04, between them, while the same nodes pass on rail0"
    }


@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(lambda *_place: True, id="all rails"),
        pytest.param(lambda *place: place == ("n1", "n2", "rail0"), id="one test"),
        pytest.param(lambda *place: place == ("n1", "n2", "rail0") or place[2] == "rail1", id="other too"),
    ],
)
def test_what_nothing_compares_with_stays_below_its_floor(slow: Slow) -> None:
    for nodes in (2, 3):
        answers = told(nodes, slow)
        lone = answers["n1", "n2", "rail0"]
        assert lone.cause["cause_class"] == "below_floor"
        assert lone.cause["cause"] == "the number is below its floor: bandwidth_gbps 0.0096, floor 0.04"


def test_a_whole_run_names_the_slow_rail_and_counts_the_unmeasured_for_nothing() -> None:
    run = FakeRun()
    for identity in run.ids("tcp_bandwidth", rail="rail1"):
        for row in run.rows(identity):
            row["metrics"] |= {"bandwidth_gbps": 0.1, "sent_gbps": 0.1}
    found = {one["id"]: one for one in run.judge()}
    slow = [found[identity] for identity in run.ids("tcp_bandwidth", rail="rail1")]
    assert [(one["outcome"], one["cause_class"]) for one in slow] == [("fail", "rail_slow")] * 2
    assert all("rate_gbps" in one["next"] for one in slow)
    run.results = [row for row in run.results if row["id"] != slow[0]["id"]]
    assert run.verdict(slow[0]["id"])["outcome"] == "unmeasured"
    assert run.verdict(slow[1]["id"])["cause_class"] == "below_floor"


def test_the_sum_of_all_rails_says_which_of_them_is_slow() -> None:
    run = FakeRun()
    for identity in run.ids("tcp_bandwidth_concurrent", rail="rail1"):
        for row in run.rows(identity):
            row["metrics"] |= {"bandwidth_gbps": 0.1, "sent_gbps": 0.1}
            for name in ("tx_bytes", "rx_bytes"):
                row["samples"][name] = [int(value * 0.1 / 0.95) for value in row["samples"][name]]
    sums = [one for one in run.judge() if one["check"] == "aggregate_bandwidth"]
    assert [(one["outcome"], one["cause_class"]) for one in sums] == [("fail", "rail_slow")] * 2
    assert all("gpuserver1 or gpuserver2 rail1" in one["cause"] for one in sums)
    # A sum that keeps its floor is no finding, whatever its parts are.
    answers = [
        Answer("fail", cause=causes.explain("rail_slow", "n1 rail1")),
        Answer("pass"),
    ]
    slow_rails.name(
        [{"id": "m1", "check": "tcp_latency"}, {"id": "a1", "check": "aggregate_bandwidth", "parts": ["m1"]}],
        answers,
    )
    assert answers[1].cause == {}
