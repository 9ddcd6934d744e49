# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes meet, and how much a pair is asked: what fits the time that the policy gives. Pure.

Every pair with every test takes as many rounds as there are nodes: some minutes for two, hours for 32. What
does not fit is cut so that each node and rail is still asked everything once, in the first round, and meets
several others: a rail that is slow to all stands apart from a path that is. One pair of each two kinds of
node stands for all of its like, so the work is linear in the nodes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.documents import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy as rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import partners

#: Staging, the phase of cables, the first meeting, collecting: seen on real runs beside the tests themselves.
AROUND_S = 30.0
#: What a tool takes to start and end beside the time that it measures.
START_S = 2.0
#: With fewer others nobody can tell a node's own fault from its partner's.
_LEAST_PARTNERS = 2
#: So many rounds are looked at for one in which most nodes meet somebody of another leaf.
_CANDIDATES = 64

Pair = tuple[Mapping[str, Any], Mapping[str, Any], int, list[AskedLine]]


def chosen(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys of a work order that say who meets and what is asked.

    Args:
        order: its common part; `roster`, `fabrics`, `rails` and `policy` are read.

    Returns:
        `pattern`, `rounds` (of the circle; None for all), `full_rounds` (in so many first rounds a pair is
        asked everything; None for all) and, of pattern `listed`, `meetings` (rounds of pairs of places in
        the roster).

    Raises:
        PolicyError: the pattern goes by leaves, and the inventory does not say them.
    """
    policy = order["policy"]
    # A policy of before there was a choice had neither.
    wanted, full = policy.get("pattern", rules.ALL_PAIRS), asks_everything(policy)
    every = {"pattern": rounds.ALL_PAIRS, "rounds": None, "full_rounds": None if full else 0}
    names = [str(entry["name"]) for entry in order["roster"]]
    of_all = rounds.rounds_of_all(len(names))
    if wanted in (rules.RING, rules.PER_LEAF, rules.ACROSS_LEAVES):
        return {**every, "pattern": rounds.LISTED, "meetings": _listed(wanted, order)}
    if of_all <= 1 or wanted == rules.ALL_PAIRS:
        return every
    # Of an odd number one node has a pause in each round.
    odd = len(names) % 2
    if wanted == rules.K_REGULAR:
        many, full_rounds = min(int(policy["partners"]) + odd, of_all), every["full_rounds"]
    else:
        full_s, least_s = (meeting_s(order, is_full) for is_full in (True, False))
        budget_s = 60 * float(policy["budget_min"]) - AROUND_S
        if full and of_all * full_s <= budget_s:
            return every
        full_rounds = 1 + odd if full else 0
        fit = full_rounds + int(max(0.0, budget_s - full_rounds * full_s) / max(least_s, 1.0))
        many = min(max(_LEAST_PARTNERS + odd, fit), of_all)
    if many == of_all:
        return {**every, "full_rounds": full_rounds}
    turns = _turns(order, names, many, of_all)
    return {"pattern": rounds.K_REGULAR, "rounds": turns, "full_rounds": full_rounds}


def asks_everything(policy: Mapping[str, Any]) -> bool:
    """Tell whether a policy asks every test; else the path and rates alone."""
    return bool(policy.get("questions", rounds.EVERY) == rounds.EVERY)


def problem(order: Mapping[str, Any]) -> str | None:
    """Tell that fewer meet, or are asked less, than a work order's policy allows, or None.

    How many fit is reckoned by each version of Railyard as it knows best; what may never be left out is not.
    """
    policy = order["policy"]
    if policy.get("pattern") != rules.AUTO:
        least = chosen(order)
        exact = least["pattern"] != rounds.K_REGULAR
        keys = [key for key in least if exact or key != "rounds"]
        fewer = len(rounds_of(order)) < len(rounds_of({**order, **least}))
        if fewer or any(order.get(key) != least[key] for key in keys):
            return "work_order.json leaves meetings out that its policy has asked"
        return None
    if order.get("pattern") == rounds.LISTED:
        return "work_order.json lists meetings, and its policy leaves the choice to Railyard"
    if order.get("rounds") is None and order.get("full_rounds") is None:
        return None
    odd = len(order["roster"]) % 2
    turns = rounds_of(order)
    if len(turns) < min(_LEAST_PARTNERS + odd, rounds.rounds_of_all(len(order["roster"]))):
        return f"work_order.json holds {len(turns)} rounds, too few to tell a node's fault from its partner's"
    if asks_everything(policy) and (order.get("full_rounds") or 0) < 1 + odd:
        return "work_order.json has nodes that are never asked everything"
    return None


def coverage(plan: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many pairs of nodes meet, of how many: `pairs`, `of_pairs`.

    Where the inventory declares leaves, and not all nodes are of the same, also `leaf_pairs` and
    `of_leaf_pairs`: two leaves meet where a node of one meets a node of the other.

    Args:
        plan: the plan of the run's nodes.
        lines: asked lines, or the verdicts of them.
    """
    met = {frozenset((line["node"], line["peer"])) for line in lines if line["peer"] is not None}
    nodes = len(plan["nodes"])
    found = {"pairs": len(met), "of_pairs": nodes * (nodes - 1) // 2}
    leaf = {name: _declared(node["rails"]) for name, node in plan["nodes"].items()}
    many = len(set(leaf.values()))
    if many > 1 and all(leaf.values()):
        across = {frozenset(leaf[name] for name in both) for both in met}
        found["leaf_pairs"] = sum(len(both) > 1 for both in across)
        found["of_leaf_pairs"] = many * (many - 1) // 2
    return found


def rounds_of(order: Mapping[str, Any]) -> Sequence[int]:
    """Return the rounds of the circle that an order holds, or the places of those that it lists."""
    if order.get("pattern") == rounds.LISTED:
        return range(len(order["meetings"]))
    turns: Sequence[int] | None = order.get("rounds")
    return range(rounds.rounds_of_all(len(order["roster"]))) if turns is None else turns


def pairs(order: Mapping[str, Any], full: bool) -> Iterator[Pair]:
    """Yield for each two kinds of node two of them, how many such pairs there are, and what they are asked.

    Args:
        order: the common part of a work order.
        full: everything, or the least.
    """
    share = rounds.Share({**order, "full_rounds": None if full else 0})
    kinds: dict[int, list[Mapping[str, Any]]] = {}
    for entry in order["roster"]:
        kinds.setdefault(int(entry["fabric"]), []).append(entry)
    for first, second in itertools.combinations_with_replacement(kinds.values(), 2):
        alike = first is second
        count = len(first) * (len(first) - 1) // 2 if alike else len(first) * len(second)
        if count:
            ends = (first[0], first[1] if alike else second[0])
            meeting = rounds.Meeting(0, 0, str(ends[0]["name"]), str(ends[1]["name"]))
            yield (*ends, count, list(share.tests(meeting)))


def meeting_s(order: Mapping[str, Any], full: bool) -> float:
    """Return the seconds of the longest meeting, of everything or of the least."""
    return max((_meeting_s(tests, order["policy"]) for _n, _p, _c, tests in pairs(order, full)), default=0.0)


def planned_s(test: Mapping[str, Any], policy: Mapping[str, Any]) -> float:
    """Return the seconds that a test's tool is asked to measure for."""
    return float(registry.TOOL_OF_CHECK[str(test["check"])]().planned_s(policy))


def _meeting_s(tests: Sequence[AskedLine], policy: Mapping[str, Any]) -> float:
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


def _listed(wanted: str, order: Mapping[str, Any]) -> partners.Rounds:
    """Return the meetings of a pattern that the circle does not hold."""
    if wanted == rules.RING:
        return partners.ring(len(order["roster"]))
    leaves = {str(entry["name"]): _leaves(order, entry) for entry in order["roster"]}
    if silent := [name for name, mine in leaves.items() if not mine]:
        raise rules.PolicyError(
            [
                f"fabric_policy.pattern {wanted} goes by leaves, and not each rail of {named(silent)} "
                "has one; give the rails of `fabric` their leaf"
            ]
        )
    if wanted == rules.PER_LEAF and len(set(leaves.values())) < len(leaves):
        return partners.per_leaf(list(leaves.values()))
    if wanted == rules.PER_LEAF:
        raise rules.PolicyError(
            [f"fabric_policy.pattern {wanted} takes two nodes of a leaf, and each has its own"]
        )
    if len(set(leaves.values())) < 2:
        raise rules.PolicyError(
            [f"fabric_policy.pattern {wanted} takes two leaves, and all nodes are of the same"]
        )
    return partners.across_leaves(list(leaves.values()))


def _turns(order: Mapping[str, Any], names: Sequence[str], many: int, of_all: int) -> list[int]:
    """Return so many rounds, in the first of which as many as can meet somebody of another leaf.

    Whom a node meets lies far apart in the roster, whose neighbours often share a leaf, a rack, a power feed.
    """
    step = max(1, of_all // max(many, _CANDIDATES))
    candidates = range(0, of_all, step)
    leaf = {str(entry["name"]): _leaves(order, entry) for entry in order["roster"]}
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


def _leaves(order: Mapping[str, Any], entry: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the leaves that a node's rails end at; nothing where one is not declared."""
    return _declared(rounds.node_rails(order, entry))


def _declared(rails: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the leaves of a node's rails; nothing where one is not declared."""
    declared = [rail.get("leaf") for rail in rails]
    return tuple(map(str, declared)) if all(declared) else ()
