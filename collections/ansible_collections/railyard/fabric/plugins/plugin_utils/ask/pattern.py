# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose which nodes meet, and which tests a pair runs, within the time budget of the policy. Pure.

All tests of all pairs take as many rounds as there are nodes: minutes for two, hours for 32. What does not
fit is left out so that each node and rail still runs all tests once, in the first round, and meets several
others: that separates a slow rail from a slow path. One pair of each two kinds of node represents all such
pairs, so the work is linear in the nodes.

With an odd number of nodes, one node pauses in each round. To avoid a second long round for it, the rails are
divided into parts, each tested in one round in which another node pauses; in one more round the nodes that
paused run the tests that they missed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan as rails_plan
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests, rounds, together
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import partners
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy as rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order, Plan

#: Staging, the phase of cables, the first meeting, collecting: seen on real runs beside the tests themselves.
_AROUND_S = 30.0
#: What `chosen` returns.
_CHOSEN = ("pattern", "rounds", "full_rounds", "full_rails", "meetings")
#: What a tool takes to start and end beside the time that it measures.
START_S = 2.0
#: With fewer partners a node's fault cannot be distinguished from its partner's.
_LEAST_PARTNERS = 2
#: So many rounds are looked at for one in which most nodes meet somebody of another leaf.
_CANDIDATES = 64

Pair = tuple[Mapping[str, Any], Mapping[str, Any], int, list[AskedLine]]


def choose_pattern(order: Order) -> dict[str, Any]:
    """Return the keys of a test schedule that define the meetings and their tests.

    Args:
        order: its common part; `roster`, `fabrics`, `rails` and `policy` are read.

    Returns:
        `pattern`, `rounds` (of the circle; None for all), `full_rounds` (in so many first rounds a pair is
        runs all tests; None for all), for an odd number `full_rails` (see `rounds.full_rails`), and of
        pattern `listed` `meetings` (rounds of pairs of places in the roster).

    Raises:
        PolicyError: the pattern needs leaves, and the inventory has none.
    """
    policy = order["policy"]
    # Policies of older versions have neither key.
    wanted, full = policy.get("pattern", rules.ALL_PAIRS), has_all_tests(policy)
    every = {"pattern": rounds.ALL_PAIRS, "rounds": None, "full_rounds": None if full else 0}
    names = [str(entry["name"]) for entry in order["roster"]]
    of_all = rounds.rounds_of_all(len(names))
    if wanted in (rules.RING, rules.PER_LEAF, rules.ACROSS_LEAVES):
        return {**every, "pattern": rounds.LISTED, "meetings": _listed(wanted, order)}
    if of_all <= 1 or wanted == rules.ALL_PAIRS:
        return every
    # With an odd number one node pauses in each round.
    odd = len(names) % 2
    if wanted == rules.K_REGULAR:
        many, full_rounds = min(int(policy["partners"]) + odd, of_all), every["full_rounds"]
    else:
        names_of_rails = rail_names(order)
        budget_s = 60 * float(policy["budget_min"]) - beside_s(order)
        least_s = max(meeting_s(order, ()), 1.0)
        if full and of_all * (full_s := meeting_s(order, names_of_rails)) <= budget_s:
            return every
        if odd and full and len(names_of_rails) > 1:
            return _in_parts(order, names, names_of_rails, budget_s)
        full_rounds = 1 + odd if full else 0
        fit = full_rounds + int(max(0.0, budget_s - (full_rounds * full_s if full else 0.0)) / least_s)
        many = min(max(_LEAST_PARTNERS + odd, fit), of_all)
    if many == of_all:
        return {**every, "full_rounds": full_rounds}
    turns = _turns(order, names, many, of_all)
    return {**every, "pattern": rounds.K_REGULAR, "rounds": turns, "full_rounds": full_rounds}


def _in_parts(order: Order, names: Sequence[str], rails: Sequence[str], budget_s: float) -> dict[str, Any]:
    """Return the keys of an odd number of nodes: in as many parts as leave time for most partners."""
    of_all = len(names)
    least_s = max(meeting_s(order, ()), 1.0)
    first = _turns(order, names, min(len(rails), of_all - 1), of_all)
    found = []
    for count in range(2, len(first) + 1):
        parts = [list(rails[len(rails) * k // count : len(rails) * (k + 1) // count]) for k in range(count)]
        last, together = _catching_up(first[:count], of_all)
        again_s = max(meeting_s(order, part) for part in parts)
        if together:
            again_s = max(meeting_s(order, parts[one] + parts[other]) for one, other in together)
        left_s = budget_s - sum(meeting_s(order, part) for part in parts) - again_s
        many = min(count + 1 + max(0, int(left_s / least_s)), of_all)
        found.append((many if left_s >= 0 else 0, left_s, many, [*first[:count], last], parts))
    _fit, _left_s, many, turns, parts = max(found, key=lambda one: one[:2])
    rest = [turn for turn in _turns(order, names, many, of_all) if turn not in turns]
    missed = {names[rounds.pausing(of_all, turn)]: part for turn, part in zip(turns, parts, strict=False)}
    return {
        "pattern": rounds.K_REGULAR,
        "rounds": [*turns, *rest[: many - len(turns)]],
        "full_rounds": 0,
        "full_rails": [*parts, missed],
    }


def _catching_up(turns: Sequence[int], of_all: int) -> tuple[int, list[tuple[int, int]]]:
    """Return the round in which fewest of those who paused in some rounds meet each other, and who do.

    Returns:
        The round, and of those who meet there the places of the rounds in which they paused.
    """
    met: dict[int, list[tuple[int, int]]] = {}
    for one, other in itertools.combinations(range(len(turns)), 2):
        both = rounds.pausing(of_all, turns[one]) + rounds.pausing(of_all, turns[other])
        met.setdefault(both % of_all, []).append((one, other))
    left = [turn for turn in range(of_all) if turn not in turns]
    last = min(left, key=lambda turn: len(met.get(turn, ())))
    return last, met.get(last, [])


def rail_names(order: Order) -> list[str]:
    """Return the names of all rails that an order asks about."""
    found = rounds.RailNames(order)
    firsts = {int(entry["fabric"]): str(entry["name"]) for entry in reversed(order["roster"])}
    return list(dict.fromkeys(rail for name in firsts.values() for rail in found.list_rails(name)))


def by_policy(order: Order, rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return an order as it were if its policy also held some rules.

    Raises:
        PolicyError: as `chosen`.
    """
    other = {key: value for key, value in order.items() if key not in _CHOSEN}
    other["policy"] = {**order["policy"], **rules}
    return {**other, **choose_pattern(other)}


def has_all_tests(policy: Policy) -> bool:
    """Tell whether a policy plans all tests; otherwise only path MTU and rates."""
    return bool(policy.get("questions", rounds.EVERY) == rounds.EVERY)


def problem(order: Order) -> str | None:
    """Return why a test schedule has fewer meetings or tests than its policy requires, or None.

    Versions of Railyard may differ in how many rounds fit; what must never be left out is fixed.
    """
    policy = order["policy"]
    if policy.get("pattern") != rules.AUTO:
        least = choose_pattern(order)
        exact = least["pattern"] != rounds.K_REGULAR
        keys = [key for key in least if exact or key != "rounds"]
        fewer = len(rounds_of(order)) < len(rounds_of({**order, **least}))
        if fewer or any(order.get(key) != least[key] for key in keys):
            return "work_order.json lacks meetings that its policy requires"
        return None
    if order.get("pattern") == rounds.LISTED:
        return "work_order.json lists meetings, but its policy leaves the choice to Railyard"
    if order.get("rounds") is None and order.get("full_rounds") is None:
        return None
    odd = len(order["roster"]) % 2
    turns = rounds_of(order)
    if len(turns) < min(_LEAST_PARTNERS + odd, rounds.rounds_of_all(len(order["roster"]))):
        return f"work_order.json has {len(turns)} rounds, too few to tell a node's fault from its partner's"
    whole = _tests_everything(order) if "full_rails" in order else (order.get("full_rounds") or 0) > odd
    if has_all_tests(policy) and not whole:
        return "work_order.json has nodes that never run all tests"
    return None


def goes_on(order: Order, second: Order) -> bool:
    """Tell whether an order is a second one of the same run: of its nodes and policy, whose ids go on."""
    own = {*_CHOSEN, "meetings", "rails", "absent", "first_id", "first_round"}
    same = all(second.get(key) == order.get(key) for key in {*order, *second} - own)
    return same and second.get("pattern") == rounds.LISTED and "first_id" in second


def _tests_everything(order: Order) -> bool:
    """Tell whether each node runs all tests on all rails in the rounds of `full_rails`."""
    asked: dict[str, set[str]] = {str(entry["name"]): set() for entry in order["roster"]}
    first = list(rounds_of(order))[: len(order["full_rails"])]
    for meeting in rounds.meetings({**order, "pattern": rounds.K_REGULAR, "rounds": first}):
        for name in (meeting.node, meeting.peer):
            asked[name].update(rounds.full_rails(order, meeting, ()))
    wanted = set(rail_names(order))
    return all(wanted <= of_node for of_node in asked.values())


def coverage(plan: Plan, lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many pairs of nodes meet, of how many: `pairs`, `of_pairs`.

    Where the inventory declares leaves, and not all nodes are of the same, also `leaf_pairs` and
    `of_leaf_pairs`: two leaves meet where a node of one meets a node of the other.

    Args:
        plan: the plan of the run's nodes.
        lines: planned tests, or their verdicts.
    """
    met = {frozenset((line["node"], line["peer"])) for line in lines if line["peer"] is not None}
    nodes = len(plan["nodes"])
    found = {"pairs": len(met), "of_pairs": nodes * (nodes - 1) // 2}
    leaf = _declared({name: node["rails"] for name, node in plan["nodes"].items()})
    many = len(set(leaf.values()))
    if many > 1 and all(leaf.values()):
        across = {frozenset(leaf[name] for name in both) for both in met}
        found["leaf_pairs"] = sum(len(both) > 1 for both in across)
        found["of_leaf_pairs"] = many * (many - 1) // 2
    return found


def taking_part(order: Order) -> list[str]:
    """Return the nodes that an order has meet anybody, in the order of the roster."""
    names = [str(entry["name"]) for entry in order["roster"]]
    if order.get("pattern") != rounds.LISTED:
        return names
    return [
        names[place]
        for place in sorted({place for turn in order["meetings"] for both in turn for place in both})
    ]


def rounds_of(order: Order) -> Sequence[int]:
    """Return the rounds of the circle that an order holds, or the places of those that it lists."""
    if order.get("pattern") == rounds.LISTED:
        return range(len(order["meetings"]))
    turns: Sequence[int] | None = order.get("rounds")
    return range(rounds.rounds_of_all(len(order["roster"]))) if turns is None else turns


def count_pairs_by_rails(order: Order) -> Iterator[Counter[frozenset[str]]]:
    """Yield for each round: rails with all tests -> number of pairs; no rails means the shortest tests.

    Args:
        order: the common part of a test schedule.
    """
    every = frozenset(rail_names(order))
    nodes, said = len(order["roster"]), order.get("full_rails") or ()
    listed = order["meetings"] if order.get("pattern") == rounds.LISTED else None
    for number, turn in enumerate(rounds_of(order)):
        met = len(listed[number]) if listed else nodes // 2
        if number < len(said) and isinstance(said[number], Mapping):
            alone = {**order, "pattern": rounds.K_REGULAR, "rounds": [turn]}
            again = {one for name in said[number] for one in rounds.meetings(alone, name)}
            found = Counter(
                frozenset(rounds.full_rails(order, one._replace(round=number), ())) for one in again
            )
            yield found + Counter({frozenset(): met - len(again)})
        else:
            meeting = rounds.Meeting(number, 0, "", "")
            yield Counter({frozenset(rounds.full_rails(order, meeting, every)): met})


def busiest(order: Order) -> set[str]:
    """Return some nodes among which is the one that has most to do: nodes of one fabric have as much.

    With an odd number a node pauses in each round, and partners of one that paused run more tests. In a
    list of meetings some have more than others.
    """
    turns = order["meetings"] if order.get("pattern") == rounds.LISTED else ()
    met = Counter(place for turn in turns for both in turn for place in both)
    by_meetings = sorted(enumerate(order["roster"]), key=lambda one: met[one[0]])
    found = {int(entry["fabric"]): str(entry["name"]) for _place, entry in by_meetings}
    again = [said for said in order.get("full_rails") or () if isinstance(said, Mapping)]
    return {*found.values(), *_met_in_last_part(order, *again)} if again else set(found.values())


def _met_in_last_part(order: Order, missed: Mapping[str, Any]) -> Iterator[str]:
    alone = {**order, "rounds": [order["rounds"][len(order["full_rails"]) - 1]]}
    for name in missed:
        for meeting in rounds.meetings(alone, name):
            yield from (meeting.node, meeting.peer)


def pairs(order: Order, full: Collection[str]) -> Iterator[Pair]:
    """Yield for each two kinds of node a pair of them, the number of such pairs, and their tests.

    Args:
        order: the common part of a test schedule.
        full: the rails on which they run all tests.
    """
    share = rounds.Share(order)
    kinds: dict[int, list[Mapping[str, Any]]] = {}
    for entry in order["roster"]:
        kinds.setdefault(int(entry["fabric"]), []).append(entry)
    for first, second in itertools.combinations_with_replacement(kinds.values(), 2):
        alike = first is second
        count = len(first) * (len(first) - 1) // 2 if alike else len(first) * len(second)
        if count:
            ends = (first[0], first[1] if alike else second[0])
            meeting = rounds.Meeting(0, 0, str(ends[0]["name"]), str(ends[1]["name"]))
            yield (*ends, count, list(share.tests(meeting, full)))


def meeting_s(order: Order, full: Collection[str]) -> float:
    """Return the seconds of the longest meeting with all tests on some rails."""
    return max((tests_s(tests, order["policy"]) for _n, _p, _c, tests in pairs(order, full)), default=0.0)


def planned_s(test: Mapping[str, Any], policy: Policy) -> float:
    """Return the seconds for which a test's tool measures."""
    return registry.planned_s(str(test["check"]), policy)


def beside_s(order: Order) -> float:
    """Return the seconds beside the rounds and the start of the runners.

    After the last round single nodes and all nodes together are tested.
    """
    policy = order["policy"]
    asked = [check for check, _subject in (*together.jobs(order), *node_tests.questions(policy))]
    alone_s = sum(registry.planned_s(check.name, policy) + START_S for check in asked)
    return _AROUND_S + alone_s


def tests_s(tests: Sequence[AskedLine], policy: Policy) -> float:
    """Return the time of one meeting; the tests of a group are one turn."""
    groups: Counter[str] = Counter()
    seconds = 0.0
    for test in tests:
        if test["group"] is not None:
            groups[test["group"]] += 1
            if groups[test["group"]] > 1:
                continue
        seconds += planned_s(test, policy) + START_S
    return seconds


def _listed(wanted: str, order: Order) -> partners.Rounds:
    """Return the meetings of a pattern that the circle does not hold."""
    if wanted == rules.RING:
        return partners.ring(len(order["roster"]))
    leaves = _leaves(order)
    distinct = len(set(leaves.values()))
    if silent := [name for name, mine in leaves.items() if not mine]:
        why = f"goes by leaves, and not each rail of {named(silent)} has one; "
        why += "give the rails of `fabric` their leaf"
    elif wanted == rules.PER_LEAF and distinct == len(leaves):
        why = "takes two nodes of a leaf, and each has its own"
    elif wanted == rules.PER_LEAF:
        return partners.per_leaf(list(leaves.values()))
    elif distinct < 2:
        why = "takes two leaves, and all nodes are of the same"
    else:
        return partners.across_leaves(list(leaves.values()))
    raise rules.PolicyError([f"fabric_policy.pattern {wanted} {why}"])


def _turns(order: Order, names: Sequence[str], many: int, of_all: int) -> list[int]:
    """Return so many rounds, in the first of which as many as can meet somebody of another leaf.

    Whom a node meets lies far apart in the roster, whose neighbours often share a leaf, a rack, a power feed.
    """
    step = max(1, of_all // max(many, _CANDIDATES))
    candidates = range(0, of_all, step)
    leaf = _leaves(order)
    alone = {name for name in names if leaf[name]}
    turns: list[int] = []
    if len({leaf[name] for name in alone}) > 1:
        while alone and len(turns) < many:
            left = [turn for turn in candidates if turn not in turns]
            crossing = {turn: _crossing(names, turn, leaf) & alone for turn in left}
            best, met = max(crossing.items(), key=lambda one: len(one[1]), default=(0, set()))
            if not met:
                break
            turns.append(best)
            alone -= met
    spread = [place * of_all // many for place in range(many)]
    rest = [turn for turn in (*spread, *range(of_all)) if turn not in turns]
    return [*turns, *dict.fromkeys(rest)][:many]


def _crossing(names: Sequence[str], turn: int, leaf: Mapping[str, object]) -> set[str]:
    """Return the nodes that meet somebody of another leaf in a round."""
    return {name for both in rounds.partners(names, turn) if leaf[both[0]] != leaf[both[1]] for name in both}


def _leaves(order: Order) -> dict[str, tuple[str, ...]]:
    """Return the leaves that each node's rails end at; nothing where one is not declared."""
    # Once for each fabric: they grow with the number of units.
    specs = [rails_plan.rail_specs(fabric) for fabric in order["fabrics"]]
    return _declared(
        {str(entry["name"]): rounds.node_rails(order, entry, specs) for entry in order["roster"]}
    )


def _declared(rails_of: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, tuple[str, ...]]:
    """Return the leaves of each node's rails; nothing where one is not declared.

    A node that lacks a rail is at the leaves of the nodes with which it shares all others.
    """
    ends = {
        name: tuple((rail["name"], rail.get("leaf")) for rail in rails) for name, rails in rails_of.items()
    }
    widest: dict[tuple[Any, ...], frozenset[Any]] = {}
    home: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for own in sorted(dict.fromkeys(ends.values()), key=len, reverse=True):
        mine = frozenset(own)
        # Only one of fewer rails can be part of another.
        wider = (one for one, all_of_it in widest.items() if len(one) > len(own) and mine < all_of_it)
        home[own] = next(wider, own)
        if home[own] is own:
            widest[own] = mine
    leaves = {own: [leaf for _name, leaf in at] for own, at in home.items()}
    return {name: tuple(map(str, leaves[own])) if all(leaves[own]) else () for name, own in ends.items()}
