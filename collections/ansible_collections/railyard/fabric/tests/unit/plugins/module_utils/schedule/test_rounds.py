# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schedule against its definition: every pair once, no node twice in a round, the same ids everywhere."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys, rounds
from support.nodes import node_run

CHECKS = ["path_mtu", "path_mtu_one_way", "ping_rtt", "tcp_bandwidth", "tcp_latency"]
# Nothing that a switch turns on, but what a test turns on.
POLICY: dict[str, Any] = {
    name: False if key.kind == "switch" else key.default for name, key in policy_keys.KEYS.items()
}


def order(nodes: int, rails: int = 2, **changes: Any) -> dict[str, Any]:
    there = [{"name": f"rail{k}", "netdev": f"eth{k}", "subnet": f"10.{k}.0.0/16"} for k in range(rails)]
    names = tuple(f"gpu{number:03d}" for number in range(1, nodes + 1))
    made = node_run.order("", names, there, **{**POLICY, **changes.pop("policy", {})})
    made["fabrics"][0]["transport"] = changes.pop("transport", "tcp")
    return {**made, **changes}


def check_shares(made: dict[str, Any]) -> None:
    whole = list(rounds.asked_tests(made))
    for entry in made["roster"]:
        share = list(rounds.asked_tests(made, entry["name"]))
        assert share == [test for test in whole if entry["name"] in (test["node"], test["peer"])]


def test_a_planned_test_of_rdma_has_its_class() -> None:
    declared = {"rdma_traffic_class": 106, "rdma_service_level": 3, "rdma_default_class": True}
    tests = list(rounds.asked_tests(order(2, transport="roce", policy=declared)))
    rdma = [test for test in tests if test["check"].startswith("rdma")]
    default = [test for test in rdma if test["check"] == "rdma_bandwidth_default_class"]
    assert len(default) == 4, "on each rail, each way"
    classed = [test for test in tests if "traffic_class" in test]
    assert classed == [test for test in rdma if test not in default]
    assert {(test["traffic_class"], test["service_level"]) for test in classed} == {(106, 3)}
    tests = list(rounds.asked_tests(order(2, transport="roce")))
    assert not [test for test in tests if {"traffic_class", "service_level"} & set(test)]


def test_two_nodes_are_one_round_in_the_order_of_the_contract() -> None:
    tests = list(rounds.asked_tests(order(2)))
    assert [test["id"] for test in tests] == [f"m{number:05d}" for number in range(24)]
    assert {test["round"] for test in tests} == {0}
    alone, together = tests[:20], tests[20:]
    expected = [
        (check, rail, node)
        for rail in ("rail0", "rail1")
        for node in ("gpu001", "gpu002")
        for check in CHECKS
    ]
    assert [(test["check"], test["rail"], test["node"]) for test in alone] == expected
    assert {test["group"] for test in alone} == {None}
    assert [(test["rail"], test["node"]) for test in together] == [
        ("rail0", "gpu001"),
        ("rail1", "gpu001"),
        ("rail0", "gpu002"),
        ("rail1", "gpu002"),
    ]
    assert together[0]["group"] == together[1]["group"] != together[2]["group"] == together[3]["group"]
    assert tests[0] == {
        "schema": 1,
        "id": "m00000",
        "check": "path_mtu",
        "tool": "ping",
        "node": "gpu001",
        "peer": "gpu002",
        "rail": "rail0",
        "direction": "uni",
        "round": 0,
        "group": None,
    }


@pytest.mark.parametrize("nodes", [2, 3, 4, 5, 6, 7, 8, 13, 16])
@pytest.mark.parametrize("seed", [0, 7])
def test_all_pairs_meet_once_and_no_one_twice_in_a_round(nodes: int, seed: int) -> None:
    meetings = list(rounds.meetings(order(nodes, seed=seed)))
    names = [f"gpu{number:03d}" for number in range(1, nodes + 1)]
    met = Counter(frozenset((meeting.node, meeting.peer)) for meeting in meetings)
    assert met == Counter(frozenset(pair) for pair in combinations(names, 2))
    for number in {meeting.round for meeting in meetings}:
        busy = [name for m in meetings if m.round == number for name in (m.node, m.peer)]
        assert len(busy) == len(set(busy))
    # No fewer rounds can do: an even number needs n-1, an odd one n.
    assert len({meeting.round for meeting in meetings}) == (nodes - 1 if nodes % 2 == 0 else nodes)
    assert [meeting.number for meeting in meetings] == list(range(len(meetings)))
    assert all(meeting.node < meeting.peer for meeting in meetings)


@pytest.mark.parametrize("nodes", [1, 2, 5, 8])
def test_a_nodes_share_is_its_part_of_the_full_schedule(nodes: int) -> None:
    check_shares(order(nodes, seed=3))


def test_a_share_is_found_without_walking_through_all_pairs() -> None:
    # 4,096 nodes have 8.4 million pairs; a share is 4,095 meetings.
    share = list(rounds.meetings(order(4096), "gpu2048"))
    assert len(share) == 4095
    assert len({meeting.round for meeting in share}) == 4095


def test_seeds_change_the_order_and_are_repeatable() -> None:
    first, again, other = (list(rounds.meetings(order(8, seed=seed))) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_one_rail_needs_no_sum() -> None:
    assert len(list(rounds.asked_tests(order(2, rails=1)))) == 10
    rails = {test["rail"] for test in rounds.asked_tests(order(2, rails=3, rails_=None))}
    assert rails == {"rail0", "rail1", "rail2"}


def test_only_the_rails_that_are_wanted_and_that_both_have() -> None:
    chosen = order(2, rails=3)
    chosen["rails"] = ["rail2", "rail0"]
    assert {test["rail"] for test in rounds.asked_tests(chosen)} == {"rail0", "rail2"}
    mixed = order(2, rails=3)
    mixed["fabrics"].append({**mixed["fabrics"][0], "rails": mixed["fabrics"][0]["rails"][1:]})
    mixed["roster"][1]["fabric"] = 1
    tests = list(rounds.asked_tests(mixed))
    assert {test["rail"] for test in tests} == {"rail1", "rail2"}
    assert len({test["id"] for test in tests}) == len(tests)


@pytest.mark.parametrize("nodes", [4, 7, 16])
def test_of_some_rounds_each_node_meets_as_many_others_and_ids_follow_one_another(nodes: int) -> None:
    some = {"pattern": "k_regular", "rounds": [2, 0, 1]}
    meetings = list(rounds.meetings(order(nodes, **some)))
    met = Counter(name for meeting in meetings for name in (meeting.node, meeting.peer))
    assert len({frozenset((meeting.node, meeting.peer)) for meeting in meetings}) == len(meetings)
    # Of an odd number each has a pause in one round at most.
    assert set(met.values()) <= ({3} if nodes % 2 == 0 else {2, 3})
    assert [meeting.number for meeting in meetings] == list(range(len(meetings)))
    assert [meeting.round for meeting in meetings] == sorted(meeting.round for meeting in meetings)
    check_shares(order(nodes, **some))


@pytest.mark.parametrize(
    ("rails", "transport", "least"),
    [
        (2, "tcp", {"path_mtu", "tcp_bandwidth_concurrent"}),
        (2, "roce", {"path_mtu", "rdma_bandwidth_concurrent"}),
        (1, "tcp", {"path_mtu", "tcp_bandwidth"}),
        (1, "roce", {"path_mtu", "rdma_bandwidth"}),
    ],
)
def test_after_the_full_rounds_come_the_path_and_the_sum_of_all_rails(
    rails: int, transport: str, least: set[str]
) -> None:
    tests = list(rounds.asked_tests(order(4, rails=rails, transport=transport, full_rounds=1)))
    everything = list(rounds.asked_tests(order(4, rails=rails, transport=transport)))
    assert [one for one in tests if one["round"] == 0] == [one for one in everything if one["round"] == 0]
    assert {one["check"] for one in tests if one["round"] > 0} == least
    assert len({one["id"] for one in tests}) == len(tests)
    ways = {(one["node"], one["peer"]) for one in tests if one["round"] > 0}
    assert all((peer, node) in ways for node, peer in ways)


@pytest.mark.parametrize(
    "wrong",
    [
        {"pattern": "ring"},
        {"pattern": "k_regular"},
        {"rounds": [0]},
        {"pattern": "k_regular", "rounds": [0, 0]},
        {"pattern": "k_regular", "rounds": [7]},
        {"pattern": "k_regular", "rounds": []},
    ],
)
def test_rounds_that_there_are_not_are_no_schedule(wrong: dict[str, Any]) -> None:
    with pytest.raises(rounds.ScheduleError):
        list(rounds.asked_tests(order(8, **wrong)))


def test_what_cannot_be_scheduled_is_reported() -> None:
    with pytest.raises(rounds.ScheduleError, match="pattern is 'ring'"):
        list(rounds.asked_tests(order(2, pattern="ring")))
    twice = order(2)
    twice["roster"][1]["name"] = "gpu001"
    with pytest.raises(rounds.ScheduleError, match="twice"):
        list(rounds.asked_tests(twice))


def shape(tests: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    return [(test["check"], test["tool"], test["direction"]) for test in tests]


@pytest.mark.parametrize("transport", ["roce", "infiniband"])
def test_rdma_follows_tcp_and_both_directions_come_once(transport: str) -> None:
    tests = list(rounds.asked_tests(order(2, transport=transport, policy={"bidirectional": True})))
    rdma = [("rdma_bandwidth", "ib_write_bw", "uni"), ("rdma_latency", "ib_write_lat", "uni")]
    tcp_tools = ["ping", "udp_probe", "ping", "iperf3", "sockperf"]
    way = [(check, tool, "uni") for check, tool in zip(CHECKS, tcp_tools, strict=True)] + rdma
    bi = [("tcp_bandwidth_bi", "iperf3", "bi"), ("rdma_bandwidth_bi", "ib_write_bw", "bi")]
    together = [("tcp_bandwidth_concurrent", "iperf3", "uni")] * 2
    together += [("rdma_bandwidth_concurrent", "ib_write_bw", "uni")] * 2
    assert shape(tests) == 2 * (2 * way + bi) + 2 * together
    assert [test["id"] for test in tests] == [f"m{number:05d}" for number in range(40)]
    # Both directions at once have no first: the node before the peer in the roster asks.
    both_ways = {(test["node"], test["peer"]) for test in tests if test["direction"] == "bi"}
    assert both_ways == {("gpu001", "gpu002")}
    groups = [test["group"] for test in tests[32:]]
    assert groups == ["g00032"] * 2 + ["g00034"] * 2 + ["g00036"] * 2 + ["g00038"] * 2


def test_the_policy_names_the_rdma_tests() -> None:
    names = ["ib_send_lat", "ib_read_bw", "ib_write_bw"]
    policy = {"rdma_tests": names, "numa_unpinned": True}
    tests = list(rounds.asked_tests(order(2, rails=1, transport="roce", policy=policy)))
    one_way = [test["check"] for test in tests if test["node"] == "gpu001"][5:]
    assert one_way == [
        "rdma_bandwidth",
        "rdma_read_bandwidth",
        "rdma_send_latency",
        "rdma_bandwidth_unpinned",
    ]
    cuda = {**policy, "gpudirect_perftest_folder": "/opt/perftest/bin"}
    tests = list(rounds.asked_tests({**order(2, transport="roce", policy=cuda), "full_rounds": 0}))
    assert {test["check"] for test in tests} == {"path_mtu", "rdma_bandwidth_concurrent"}
    tests = list(rounds.asked_tests(order(2, rails=1, transport="roce", policy=cuda)))
    gpu = [(test["tool"], test["node"]) for test in tests if test["check"] == "rdma_gpu_bandwidth"]
    assert gpu == [("ib_write_bw", "gpu001"), ("ib_write_bw", "gpu002")]
    without = {"rdma_tests": ["ib_write_lat"], "numa_unpinned": True, "bidirectional": True}
    tests = list(rounds.asked_tests(order(2, transport="roce", policy=without)))
    assert {test["check"] for test in tests if test["tool"].startswith("ib_")} == {"rdma_latency"}


@pytest.mark.parametrize("seed", [0, 5])
def test_in_a_mixed_fabric_only_pairs_of_rdma_nodes_test_rdma_and_ids_agree(seed: int) -> None:
    mixed = order(5, transport="roce", seed=seed, policy={"bidirectional": True})
    mixed["fabrics"].append({**mixed["fabrics"][0], "transport": "tcp"})
    for number in (1, 3):
        mixed["roster"][number]["fabric"] = 1
    tcp = {"gpu002", "gpu004"}
    whole = list(rounds.asked_tests(mixed))
    asked = {frozenset((test["node"], test["peer"])) for test in whole if test["check"].startswith("rdma")}
    names = {f"gpu{number:03d}" for number in range(1, 6)}
    assert asked == {frozenset(pair) for pair in combinations(names - tcp, 2)}
    assert len({test["id"] for test in whole}) == len(whole)
    check_shares(mixed)


@pytest.mark.parametrize("switch", [True, False])
@pytest.mark.parametrize("asked", ["alone", "both_ways", "together"])
def test_a_test_with_a_switch_is_planned_where_it_is_on(
    monkeypatch: pytest.MonkeyPatch, asked: str, switch: bool
) -> None:
    new = Check("replies", "replies", tool="counter", asked=asked, wanted="count_replies")
    monkeypatch.setattr(rounds, "TESTS", (new, *rounds.TESTS))
    policy = {**POLICY, "count_replies": switch}
    found = rounds.questions(policy, rdma=False)
    places = {"alone": found.alone, "both_ways": found.bi, "together": found.together}
    assert [place for place, pairs in places.items() if ("replies", "counter") in pairs] == [asked] * switch


def test_listed_meetings_have_the_same_ids_for_the_run_and_for_each_node() -> None:
    made = order(4, pattern="listed", meetings=[[[0, 1], [2, 3]], [[1, 2]], [[0, 1]]])
    every = list(rounds.meetings(made))
    assert [(one.round, one.number, one.node, one.peer) for one in every] == [
        (0, 0, "gpu001", "gpu002"), (0, 1, "gpu003", "gpu004"), (1, 2, "gpu002", "gpu003"),
        (2, 3, "gpu001", "gpu002"),
    ]  # fmt: skip
    for name in ("gpu001", "gpu002", "gpu004"):
        assert list(rounds.meetings(made, name)) == [one for one in every if name in (one.node, one.peer)]


@pytest.mark.parametrize(
    "meetings",
    [None, [], [[[0, 1]], None], [[[0, 0]]], [[[1, 0]]], [[[0, 4]]], [[[0, True]]], [[[0, 1], [1, 2]]],
     [[[0, 1, 2]]], [["01"]]],
)  # fmt: skip
def test_a_list_of_meetings_that_cannot_be_is_an_error(meetings: object) -> None:
    with pytest.raises(rounds.ScheduleError, match="meetings"):
        list(rounds.meetings(order(4, pattern="listed", meetings=meetings)))
