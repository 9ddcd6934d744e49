# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slow components by the matrix of all tests: each kind, several at once, few rounds, none wrongly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import confirm
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import matrix, slow_components

Carries = Callable[[int, int, int], float]
"""What is left of the rate between two nodes (the lesser first) on a rail; NaN where nothing comes back."""


def order(nodes: int, rails: int = 4, unit: int = 8, turns: list[int] | None = None, **rail: Any) -> Any:
    """Return an order; each `unit` nodes have leaves of their own."""
    each = [
        {"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/16", "rate_gbps": 400,
         "leaves": {str(u): f"leaf{u}-{k}" for u in range(-(-nodes // unit))}, **rail}
        for k in range(rails)
    ]  # fmt: skip
    roster = [
        {
            "name": f"n{k}",
            "node_index": k + 1,
            "scalable_unit": str(k // unit),
            "rail_overrides": {},
            "fabric": 0,
        }
        for k in range(nodes)
    ]
    return {
        "fabrics": [{"transport": "roce", "mtu": 9000, "rails": each}], "roster": roster, "absent": [],
        "seed": 0, "rails": None, "full_rounds": 0, "pattern": "k_regular" if turns else "all_pairs",
        "rounds": turns, "policy": {},
    }  # fmt: skip


def measure(made: Any, carries: Carries, seed: int = 1) -> matrix.Tests:
    """Return what the order's meetings carry, with 2 % of noise."""
    random, rows = np.random.default_rng(seed), []
    names = [entry["name"] for entry in made["roster"]]
    rails = range(len(made["fabrics"][0]["rails"]))
    for number, meeting in enumerate(rounds.meetings(made)):
        node, peer = names.index(meeting.node), names.index(meeting.peer)
        for rail in rails:
            if made["rails"] is None or f"rail{rail}" in made["rails"]:
                for sender, receiver in ((node, peer), (peer, node)):
                    gbps = 390 * carries(node, peer, rail) * random.lognormal(0, 0.02)
                    rows.append((1000 * seed + number, sender, receiver, rail, gbps))
    meeting_, sender_, receiver_, rail_, gbps_ = (np.array(column) for column in zip(*rows, strict=True))
    return matrix.Tests(meeting_, sender_, receiver_, rail_, gbps_)


def find(made: Any, carries: Carries) -> slow_components.Findings:
    """Return what one run of an order's tests shows."""
    return slow_components.find_components(measure(made, carries), matrix.read_wiring(made))


def parts(findings: slow_components.Findings) -> set[tuple[Any, ...]]:
    return {(one.kind, one.node, one.rail, one.peer, one.leaf) for one in findings.suspects}


def after_confirming(made: Any, carries: Carries) -> slow_components.Findings:
    tests, wiring = measure(made, carries), matrix.read_wiring(made)
    found = slow_components.find_components(tests, wiring)
    for seed in range(2, 5):
        further = confirm.confirm(made, found.doubtful, found.suspects)
        if further.rounds:
            tests = matrix.join_tests([tests, measure(confirm.second_order(made, further), carries, seed)])
            found = slow_components.find_components(tests, wiring)
    return found


def slow(node: int, left: float, rails: range = range(4)) -> Carries:
    return lambda one, other, rail: left if node in (one, other) and rail in rails else 1.0


FAULTS: dict[str, tuple[Carries, tuple[Any, ...]]] = {
    "node": (slow(3, 0.8), ("node", "n3", None, None, None)),
    "dead node": (slow(3, float("nan")), ("node", "n3", None, None, None)),
    "node_rail": (slow(3, 0.8, range(2, 3)), ("node_rail", "n3", "rail2", None, None)),
    "rail": (lambda _one, _other, rail: 0.8 if rail == 1 else 1.0, ("rail", None, "rail1", None, None)),
    "leaf": (
        lambda one, _other, rail: 0.8 if rail == 1 and one < 8 else 1.0,
        ("leaf", None, "rail1", None, "leaf0-1"),
    ),
    "pair": (
        lambda one, other, rail: 0.8 if (one, other, rail) == (3, 9, 2) else 1.0,
        ("pair", "n3", "rail2", "n9", None),
    ),
}


@pytest.mark.parametrize("turns", [None, [0, 3, 5, 9, 12]], ids=["all_pairs", "five_rounds"])
@pytest.mark.parametrize("kind", FAULTS)
def test_each_kind_is_named_and_nothing_else(kind: str, turns: list[int] | None) -> None:
    carries, part = FAULTS[kind]
    # In these five rounds n3 and n9 meet.
    found = after_confirming(order(16, turns=turns), carries)
    assert parts(found) == {part}
    assert [one.confidence for one in found.suspects] == ["confirmed"]


@pytest.mark.parametrize("turns", [None, [0, 3, 5, 9, 12, 17, 21, 27]], ids=["all_pairs", "eight_rounds"])
@pytest.mark.parametrize("share", [0.85, 0.87, 0.88, 0.89, 0.9, 0.91, 0.92, 0.93])
def test_a_leaf_that_is_a_little_slow_is_named_before_the_nodes_behind_it(
    share: float, turns: list[int] | None
) -> None:
    """J10: at 0.9 noise puts some ends behind it above what counts as slow, and some below."""
    made = order(64, unit=16, turns=turns)

    def carries(one: int, _other: int, rail: int) -> float:
        return share if rail == 1 and one < 16 else 1.0

    wiring = matrix.read_wiring(made)
    for seed in range(1, 6):
        found = slow_components.find_components(measure(made, carries, seed), wiring)
        assert parts(found) <= {("leaf", None, "rail1", None, "leaf0-1")}
        assert found.suspects or share >= 0.9


@pytest.mark.parametrize("turns", [None, [0, 3, 5, 9, 12, 17, 21, 27]], ids=["all_pairs", "eight_rounds"])
@pytest.mark.parametrize("share", [0.85, 0.88, 0.89, 0.9, 0.91, 0.93])
def test_a_leaf_of_two_nodes_is_named_before_one_of_them(share: float, turns: list[int] | None) -> None:
    made = order(32, unit=2, turns=turns)
    wiring = matrix.read_wiring(made)
    for seed in range(1, 6):
        both = measure(made, lambda one, _other, rail: share if rail == 1 and one < 2 else 1.0, seed)
        found = slow_components.find_components(both, wiring)
        assert parts(found) <= {("leaf", None, "rail1", None, "leaf0-1")}
        assert found.suspects or share >= 0.89
        one = measure(made, lambda one, _other, rail: share if rail == 1 and one == 0 else 1.0, seed)
        found = slow_components.find_components(one, wiring)
        assert parts(found) <= {("node_rail", "n0", "rail1", None, None)}


def test_nodes_of_one_leaf_that_are_slow_by_themselves_are_no_slow_leaf() -> None:
    made = order(64, unit=16)

    def carries(one: int, other: int, rail: int) -> float:
        return 0.85 if rail == 1 and {one, other} & {0, 1, 2, 3, 4} else 1.0

    found = find(made, carries)
    assert parts(found) == {("node_rail", f"n{node}", "rail1", None, None) for node in range(5)}


def test_several_at_once_are_all_named() -> None:
    def all_of_them(one: int, other: int, rail: int) -> float:
        return float(
            np.prod(
                [carries(one, other, rail) for name, (carries, _part) in FAULTS.items() if "dead" not in name]
            )
        )

    # What node 3 carries on rail 2 is the node's and its own; the pair is below both.
    assert parts(after_confirming(order(16), all_of_them)) == {part for _carries, part in FAULTS.values()}


def test_partners_of_a_slow_node_are_not_named_as_the_cause_however_few_there_are() -> None:
    made = order(16, turns=[1, 6])
    found = after_confirming(made, slow(3, 0.5))
    assert parts(found) == {("node", "n3", None, None, None)}


def test_a_healthy_node_behind_bad_partners_is_tested_again_before_a_cause_is_named() -> None:
    made = order(16, turns=[1, 6])
    met = {name for one in rounds.meetings(made, "n3") for name in (one.node, one.peer)} - {"n3"}
    bad = {int(name[1:]) for name in met}
    found = after_confirming(made, lambda one, other, rail: 0.5 if bad & {one, other} else 1.0)
    assert parts(found) == {("node", name, None, None, None) for name in met}


def test_one_good_partner_names_no_end() -> None:
    made = order(16, turns=[1, 6])
    met = {name for one in rounds.meetings(made, "n3") for name in (one.node, one.peer)} - {"n3"}
    path, bad = (int(name[1:]) for name in sorted(met))
    found = find(made, lambda *both: 0.5 if {*both[:2]} == {3, path} or bad in both[:2] else 1.0)
    assert ("node", "n3") not in {(one.kind, one.node) for one in found.suspects}
    assert "n3" in {one.node for one in found.doubtful}


def test_of_few_partners_one_bad_path_and_one_bad_test_make_no_end_slow() -> None:
    made, off = order(4), {(0, 1): 0.5, (0, 2): 0.85}
    assert parts(find(made, lambda one, other, _rail: off.get((one, other), 1.0))) == set()


def test_one_low_meeting_names_no_pair() -> None:
    made, (carries, _part) = order(16), FAULTS["pair"]
    found = find(made, carries)
    assert parts(found) == set()
    assert [(one.kind, one.node, one.peer, one.evidence) for one in found.doubtful] == [
        ("pair", "n3", "n9", 1)
    ]


def test_a_pair_that_is_good_once_is_not_named_as_the_cause() -> None:
    made, (carries, _part) = order(16), FAULTS["pair"]
    tests = [measure(made, carries)]
    found = slow_components.find_components(tests[0], matrix.read_wiring(made))
    second = confirm.second_order(made, confirm.confirm(made, found.doubtful))
    good_once = second["meetings"][:1]
    tests += [measure({**second, "meetings": second["meetings"][1:]}, carries, 2)]
    tests += [measure({**second, "meetings": good_once}, lambda *_all: 1.0, 3)]
    found = slow_components.find_components(matrix.join_tests(tests), matrix.read_wiring(made))
    assert (found.suspects, found.doubtful) == ((), ())


def test_two_nodes_cannot_tell_an_end_from_the_other_or_the_path() -> None:
    found = after_confirming(order(2), slow(0, 0.5, range(1, 2)))
    assert parts(found) == set()
    assert found.cannot_tell == (slow_components.Ambiguous("rail1", ("n0", "n1")),)


def test_where_every_rail_is_slow_the_planned_rates_tell() -> None:
    made = order(16)
    found = find(made, lambda *_all: 0.8)
    assert parts(found) == {("rail", None, f"rail{number}", None, None) for number in range(4)}
    assert not find(order(16, rate_gbps=None), lambda *_all: 0.8).suspects


def test_the_narrowest_part_of_a_way_makes_no_pair_of_two_slow_nodes_suspect() -> None:
    left = {3: 0.5, 5: 0.7, 9: 0.6, 11: 0.75}
    found = after_confirming(
        order(16), lambda one, other, _rail: min(left.get(one, 1.0), left.get(other, 1.0))
    )
    assert parts(found) == {("node", f"n{number}", None, None, None) for number in left}


def test_a_slow_way_between_leaves_names_neither_their_nodes_nor_their_pairs() -> None:
    found = after_confirming(
        order(24), lambda one, other, rail: 0.5 if (one // 8, other // 8, rail) == (0, 2, 1) else 1
    )
    assert parts(found) == set()
    assert [(one.rail, one.leaf, one.peer_leaf, round(one.share, 1)) for one in found.crossing] == [
        ("rail1", "leaf0-1", "leaf2-1", 0.5)
    ]


def test_confirming_meets_partners_known_good_each_node_once_a_round() -> None:
    made = order(16, turns=[1])
    doubtful = [
        Suspect("node", "n3", evidence=6),
        Suspect("node_rail", "n4", "rail1", evidence=4),
        Suspect("pair", "n5", "rail2", "n6", evidence=1),
        Suspect("pair", "n3", "rail2", "n6", evidence=2),
    ]
    known = [Suspect("leaf", rail="rail3", leaf="leaf0-3"), Suspect("node_rail", "n7", "rail1")]
    further = confirm.confirm(made, doubtful, known)
    met = [both for turn in further.rounds for both in turn]
    for turn in further.rounds:
        names = [name for both in turn for name in both]
        assert len(names) == len(set(names))
    assert (met.count(("n5", "n6")), met.count(("n3", "n6"))) == (3, 2)
    # n3 is doubted on all rails: no node behind the slow leaf of rail3, nor n4 or n7 on rail1.
    partners = {name for both in met if "n3" in both for name in both} - {"n3", "n6"}
    assert len(partners) == 3
    assert not partners & {"n4", "n7", *(f"n{k}" for k in range(8))}
    others = {name for both in met if "n4" in both for name in both} - {"n4"}
    assert len(others) == 5
    assert not others & {"n3", "n7"}
    assert further.rails == ["rail0", "rail1", "rail2", "rail3"]
    second = confirm.second_order(made, further)
    assert [(one.node, one.peer) for one in rounds.meetings(second)] == met


def test_nothing_doubtful_wants_no_second_order() -> None:
    assert confirm.confirm(order(4), []) == confirm.Further([], [])
