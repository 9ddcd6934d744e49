# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes meet where not all can: enough others each, another leaf among them, and no less than that."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import headline, suspects
from support.runs.fake_run import FakeRun


def order(nodes: int, rails: int = 8, unit: int = 0, **rules: Any) -> dict[str, Any]:
    """Return an order; each `unit` nodes, if any, have leaves of their own."""
    each = [{"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/16"} for k in range(rails)]
    fabric: dict[str, Any] = {"transport": "roce", "mtu": 9000, "rails": each}
    fabrics = [
        {**fabric, "rails": [{**rail, "leaf": f"unit{u}-{rail['name']}"} for rail in fabric["rails"]]}
        for u in range(nodes // unit if unit else 0)
    ]
    roster = [
        {"name": f"gpu{k:04d}", "node_index": k + 1, "scalable_unit": None, "rail_overrides": {},
         "fabric": k // unit if unit else 0}
        for k in range(nodes)
    ]  # fmt: skip
    made = {"fabrics": fabrics or [fabric], "roster": roster, "seed": 0, "rails": None,
            "policy": policy.merge(rules)}  # fmt: skip
    return {**made, **pattern.choose_pattern(made)}


def partners(made: dict[str, Any]) -> dict[str, set[str]]:
    met: dict[str, set[str]] = defaultdict(set)
    for meeting in rounds.meetings(made):
        met[meeting.node].add(meeting.peer)
        met[meeting.peer].add(meeting.node)
    return met


def ends(made: dict[str, Any]) -> set[tuple[str, ...]]:
    """Return what is planned for which node and rail: as the one that sends, that receives, or does both."""
    return {
        (test["check"], test[end], test["rail"], "both" if test["direction"] == "bi" else end)
        for test in rounds.asked_tests(made) for end in ("node", "peer")
    }  # fmt: skip


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_where_all_pairs_fit_all_meet_with_every_test(nodes: int) -> None:
    made = order(nodes, rails=2)
    assert (made["pattern"], made["rounds"], made["full_rounds"]) == ("all_pairs", None, None)
    assert pattern.problem(made) is None


def test_two_nodes_are_one_meeting_however_long_it_takes() -> None:
    assert order(2, iperf3_duration_s=3600)["full_rounds"] is None


def test_all_may_meet_where_not_all_can_have_every_test() -> None:
    made = order(8)
    assert (made["pattern"], made["rounds"], made["full_rounds"]) == ("all_pairs", None, 1)
    assert pattern.problem(made) is None


# The last is an odd number whose leaves decide about the rounds, too.
@pytest.mark.parametrize(
    ("nodes", "least", "unit"), [(32, 3, 0), (5, 2, 0), (33, 9, 0), (256, 3, 0), (45, 9, 5)]
)
def test_else_each_node_meets_several_with_every_test_once(nodes: int, least: int, unit: int) -> None:
    made = order(nodes, unit=unit)
    assert made["pattern"] == "k_regular"
    assert min(map(len, partners(made).values())) >= least
    assert {"tcp_bandwidth_concurrent", "rdma_latency"} <= {check for check, *_where in ends(made)}
    assert len(ends(made)) == len(ends(order(2))) // 2 * nodes
    assert pattern.problem(made) is None


def test_the_busiest_node_of_an_odd_number_is_known() -> None:
    made = order(45)
    tests = Counter(test[end] for test in rounds.asked_tests(made) for end in ("node", "peer"))
    assert max(tests.values()) == max(tests[name] for name in pattern.busiest(made))


def test_of_listed_meetings_who_meets_most_is_the_busiest_and_others_take_no_part() -> None:
    meetings = [[[0, 3], [1, 2]], [[2, 3]], [[3, 5]]]
    made = {**order(8), "pattern": rounds.LISTED, "meetings": meetings}
    names = [entry["name"] for entry in made["roster"]]
    assert pattern.busiest(made) == {names[3]}
    assert pattern.taking_part(made) == [names[place] for place in (0, 1, 2, 3, 5)]


@pytest.mark.parametrize("leave_out", ["a part", "who paused"])
def test_an_odd_number_without_all_parts_is_reported(leave_out: str) -> None:
    made = order(33)
    *parts, missed = made["full_rails"]
    if leave_out == "a part":
        made["full_rails"] = [*parts[:-1], [], missed]
    else:
        missed.popitem()
    assert "never run all tests" in str(pattern.problem(made))


@pytest.mark.parametrize(("nodes", "unit"), [(32, 16), (64, 8), (256, 32), (32, 2)])
def test_one_of_them_is_of_another_leaf(nodes: int, unit: int) -> None:
    made = order(nodes, unit=unit, budget_min=16)
    unit_of = {entry["name"]: entry["fabric"] for entry in made["roster"]}
    for node, others in partners(made).items():
        assert {unit_of[other] for other in others} - {unit_of[node]}


def test_two_partners_are_the_least_however_little_time_there_is() -> None:
    assert len(order(32, budget_min=1)["rounds"]) == 2
    assert min(map(len, partners(order(33, budget_min=1)).values())) >= 2


def pairs_of(made: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """Return which nodes meet, round by round; no node twice in one."""
    found: dict[int, list[tuple[str, str]]] = defaultdict(list)
    for meeting in rounds.meetings(made):
        found[meeting.round].append((meeting.node, meeting.peer))
    for pairs in found.values():
        names = [name for both in pairs for name in both]
        assert len(set(names)) == len(names)
    assert list(found) == list(range(len(found)))
    return list(found.values())


@pytest.mark.parametrize(("nodes", "turns"), [(2, 1), (3, 3), (4, 2), (32, 2), (33, 3)])
def test_in_a_ring_each_meets_the_one_before_and_after_it(nodes: int, turns: int) -> None:
    made = order(nodes, rails=1, pattern="ring")
    names = [entry["name"] for entry in made["roster"]]
    ring = {frozenset((names[place - 1], names[place])) for place in range(nodes)}
    met = [frozenset(both) for pairs in pairs_of(made) for both in pairs]
    assert (set(met), len(met), len(pairs_of(made))) == (ring, len(ring), turns)
    assert pattern.problem(made) is None


@pytest.mark.parametrize(("nodes", "unit"), [(8, 4), (10, 5), (7, 3)])
def test_per_leaf_all_of_a_leaf_meet_and_no_one_else(nodes: int, unit: int) -> None:
    made = order(nodes - nodes % unit, unit=unit, pattern="per_leaf")
    unit_of = {entry["name"]: entry["fabric"] for entry in made["roster"]}
    wanted = {both for both in combinations(unit_of, 2) if unit_of[both[0]] == unit_of[both[1]]}
    assert sorted(both for pairs in pairs_of(made) for both in pairs) == sorted(wanted)


# In the last two a leaf has more than half, and the number is odd.
@pytest.mark.parametrize(
    ("sizes", "turns"), [((4, 4), 1), ((2, 2, 2), 1), ((3, 2, 1), 1), ((6, 2), 3), ((3, 2), 2)]
)
def test_across_leaves_each_meets_one_of_another_leaf_in_as_few_rounds_as_can_be(
    sizes: tuple[int, ...], turns: int
) -> None:
    made = order(sum(sizes), unit=1)
    leaf_of = [leaf for leaf, size in enumerate(sizes) for _place in range(size)]
    for entry, leaf in zip(made["roster"], leaf_of, strict=True):
        entry["fabric"] = leaf
    made |= {"policy": policy.merge({"pattern": "across_leaves"})}
    made |= pattern.choose_pattern(made)
    leaf_by_name = {entry["name"]: entry["fabric"] for entry in made["roster"]}
    met = pairs_of(made)
    assert len(met) == turns
    assert all(leaf_by_name[node] != leaf_by_name[peer] for pairs in met for node, peer in pairs)
    assert {name for pairs in met for both in pairs for name in both} == set(leaf_by_name)


@pytest.mark.parametrize(
    ("wanted", "unit", "said"),
    [("per_leaf", 0, "not each rail of gpu0000, gpu0001"), ("per_leaf", 1, "each has its own"),
     ("across_leaves", 4, "takes two leaves")],
)  # fmt: skip
def test_a_pattern_that_goes_by_leaves_wants_them(wanted: str, unit: int, said: str) -> None:
    with pytest.raises(policy.PolicyError, match=said):
        order(4, unit=unit, pattern=wanted)


@pytest.mark.parametrize(("nodes", "partners_each"), [(8, {3}), (9, {3, 4})])
def test_k_regular_gives_each_so_many_partners(nodes: int, partners_each: set[int]) -> None:
    made = order(nodes, pattern="k_regular", partners=3)
    assert set(map(len, partners(made).values())) == partners_each


def test_a_sweep_asks_every_pair_the_path_and_all_rails_at_once_and_one_by_one_each_alone() -> None:
    for questions, checks in (
        ("together", {("path_mtu", False), ("rdma_bandwidth_concurrent", False)}),
        ("one_by_one", {("path_mtu", True), ("rdma_bandwidth", True)}),
    ):
        made = order(5, rails=2, pattern="all_pairs", questions=questions)
        tests = list(rounds.asked_tests(made))
        assert {(test["check"], test["group"] is None) for test in tests} == checks
        asked = Counter((test["node"], test["peer"], test["rail"], test["check"]) for test in tests)
        assert set(asked.values()) == {1}
        assert len(asked) == 5 * 4 * 2 * 2
        assert pattern.problem(made) is None
        # Less than that was never planned.
        assert pattern.problem({**made, "pattern": "k_regular", "rounds": [0, 1]}) is not None
    assert pattern.problem({**order(5, pattern="all_pairs"), "full_rounds": 0}) is not None


def test_a_run_lays_its_own_words_over_the_inventorys_policy() -> None:
    said = {
        "railyard_pattern": "ring",
        "railyard_lease_s": "600",
        "railyard_run": "x",
        "railyard_questions": None,
    }
    assert policy.apply_run_variables({"lease_s": 60, "confirm": 0}, said) == {
        "lease_s": 600,
        "confirm": 0,
        "pattern": "ring",
    }
    assert policy.merge(policy.apply_run_variables(None, {"railyard_lease_s": 600}))["lease_s"] == 600
    with pytest.raises(policy.PolicyError, match="lease_s must be a number, not 'soon'"):
        policy.merge(policy.apply_run_variables({}, {"railyard_lease_s": "soon"}))
    # What is no policy stays what it is, to be reported.
    assert policy.apply_run_variables(["ring"], said) == ["ring"]


def test_coverage_counts_the_leaves_that_meet() -> None:
    leaves = {"a": "l1", "b": "l1", "c": "l2", "d": "l3"}
    plan = {"nodes": {name: {"rails": [{"name": "rail0", "leaf": leaf}]} for name, leaf in leaves.items()}}
    lines = [{"node": "a", "peer": "b"}, {"node": "a", "peer": "c"}, {"node": "c", "peer": "b"}]
    counted = {"pairs": 3, "of_pairs": 6, "leaf_pairs": 1, "of_leaf_pairs": 3}
    assert pattern.coverage(plan, lines) == counted
    del plan["nodes"]["d"]["rails"][0]["leaf"]
    assert pattern.coverage(plan, lines) == {"pairs": 3, "of_pairs": 6}


@pytest.mark.parametrize(
    "cut",
    [{"rounds": [0]}, {"full_rounds": 0}, {"full_rounds": None, "rounds": [3]},
     {"policy": policy.merge({"pattern": "all_pairs"})}, {"pattern": "listed", "meetings": [[[0, 1]]]}],
)  # fmt: skip
def test_an_order_that_leaves_out_more_than_its_policy_allows_is_reported(cut: dict[str, Any]) -> None:
    assert pattern.problem({**order(32), **cut}) is not None


def test_a_run_of_some_pairs_passes_and_its_first_line_says_how_many() -> None:
    names = tuple(f"gpu{number}" for number in range(1, 13))
    made: dict[str, Any] = {"transport": "roce", "driver_class": "hardware", "node_class": "hardware"}
    run = FakeRun(**made, nodes=names, rails=4, budget_min=5, beacon=False)
    assert run.order["pattern"] == "k_regular"
    assert run.status() == 0
    verdicts = run.judge()
    counts = Counter({"not_applicable": 0}) + Counter(one["outcome"] for one in verdicts)
    met = len({frozenset((one["node"], one["peer"])) for one in verdicts if one["peer"]})
    assert 12 <= met < 66
    judged = SimpleNamespace(torn=[], incomplete=None)
    coverage = pattern.coverage(run.plan, verdicts)
    line = headline.write(run.plan, verdicts, counts, judged, coverage, suspects.find(verdicts))
    assert line.startswith("12 of 12 nodes good: all ")
    assert f" 4 rails, {met} of 66 pairs, RDMA over Ethernet." in line
    # Fewer than that were never planned, whatever the order says.
    run.order["rounds"] = run.order["rounds"][:1]
    assert "too few" in str(run.incomplete())
    assert run.status() == 3
