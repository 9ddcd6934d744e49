# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the meetings of a second test schedule, which clear or confirm suspects. Pure.

An end meets others that are good on its rails; a pair meets again until it has been measured often enough.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    ENOUGH_PARTNERS,
    FURTHER_MEETINGS,
    LEAF,
    NODE,
    NODE_RAIL,
    PAIR,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.wiring import ends
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order

#: An end meets so many partners known good, or as many as it lacks.
_PARTNERS = 3
#: So many nodes behind a leaf stand for it.
_OF_LEAF = 3
#: A second order has so many rounds at least, and no more than the first one had.
_LEAST_ROUNDS = 4

Rounds = list[list[tuple[str, str]]]
#: Node -> some of its rails.
Rails = Mapping[str, set[str]]


class Further(NamedTuple):
    """The meetings of a second test schedule.

    Attributes:
        rounds: of each round its pairs (node, peer), in the roster's order; a node is in one of them at most.
        rails: the suspect rails, in the order of the fabrics.
    """

    rounds: Rounds
    rails: list[str]


def confirm(order: Order, doubtful: Iterable[Suspect], suspects: Iterable[Suspect] = ()) -> Further:
    """Return the meetings that clear or confirm suspects.

    Args:
        order: the common part of the schedule that was measured; `roster`, `absent`, `fabrics` and `rails`
            are read, and its meetings: new partners come first.
        doubtful: the suspects to clear or confirm.
        suspects: confirmed suspects, which are no partners on their rails.

    Returns:
        No rounds where there is no suspect to confirm, or no partner left.
    """
    doubtful = list(doubtful)
    roster = _Roster(order)
    needs = roster.rails_of(doubtful, _OF_LEAF)
    bad = roster.rails_of([*doubtful, *suspects], None)
    pairs = Counter[tuple[str, str]]()
    for one in doubtful:
        there = one.node in roster.of_node and one.peer in roster.of_node
        if one.kind == PAIR and there and one.node is not None and one.peer is not None:
            both = roster.ordered(one.node, one.peer)
            pairs[both] = max(pairs[both], FURTHER_MEETINGS + 1 - one.evidence)
    wanted = {rail for one in doubtful if one.kind == PAIR and (rail := one.rail)}
    wanted.update(rail for mine in needs.values() for rail in mine)
    left = dict.fromkeys(needs, _PARTNERS)
    for one in doubtful:
        if one.kind in (NODE, NODE_RAIL) and one.node in left:
            left[one.node] = max(left[one.node], ENOUGH_PARTNERS - one.evidence)
    made = list(_rounds(roster, pairs, left, needs, bad))
    return Further(made, [rail for rail in roster.rails if rail in wanted] if made else [])


def second_order(order: Order, further: Further) -> dict[str, Any]:
    """Return the common part of a test schedule with those meetings and the shortest tests."""
    place = {str(entry["name"]): number for number, entry in enumerate(order["roster"])}
    # All rails at once take as long as one of them, and are the same test as before.
    one_by_one = order["policy"].get("questions") == schedule.ONE_BY_ONE
    return {
        **{key: value for key, value in order.items() if key != "full_rails"},
        "pattern": schedule.LISTED,
        "rounds": None,
        "full_rounds": 0,
        "rails": further.rails if one_by_one else order["rails"],
        "meetings": [[[place[node], place[peer]] for node, peer in turn] for turn in further.rounds],
    }


def build_second_order(
    order: Order,
    asked: Iterable[Mapping[str, Any]],
    doubtful: Iterable[Suspect],
    suspects: Iterable[Suspect],
    gone: Collection[str],
) -> dict[str, Any] | None:
    """Build the common part of the second test schedule; None where no further test would help.

    Args:
        order: the common part of the run's test schedule.
        asked: its planned tests.
        doubtful: the suspects to clear or confirm.
        suspects: the confirmed suspects.
        gone: nodes without results, which take no part.
    """
    names = [str(entry["name"]) for entry in order["roster"]]
    there = {**order, "absent": [name for name in names if name in gone or name in order["absent"]]}
    further = confirm(there, doubtful, suspects)
    if not further.rounds:
        return None
    most = max(_LEAST_ROUNDS, len(pattern.rounds_of(order)))
    between = [line for line in asked if line["peer"] is not None and "parts" not in line]
    return {
        **second_order(there, further._replace(rounds=further.rounds[:most])),
        # Each id and round of a run is there once.
        "first_id": 1 + max(int(line["id"][1:]) for line in between),
        "first_round": 1 + max(line["round"] for line in between),
    }


class _Roster:
    """The nodes of a schedule that can meet, and the rails of each suspect."""

    def __init__(self, order: Order) -> None:
        absent = set(order.get("absent") or ())
        self._order = order
        self.place = {str(entry["name"]): number for number, entry in enumerate(order["roster"])}
        self.names = [name for name in self.place if name not in absent]
        planned = ends(order)
        self.of_node = {name: {end.rail for end in planned[name]} for name in self.names}
        self.rails = list(dict.fromkeys(end.rail for name in self.names for end in planned[name]))
        #: Leaf -> the nodes behind it -> their rails that end there.
        self.behind: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for name in self.names:
            for end in planned[name]:
                if end.leaf is not None:
                    self.behind[end.leaf][name].add(end.rail)

    def ordered(self, node: str, peer: str) -> tuple[str, str]:
        return (node, peer) if self.place[node] < self.place[peer] else (peer, node)

    def met(self, nodes: Iterable[str]) -> dict[str, set[str]]:
        """Return whom nodes have met in the order."""
        found: dict[str, set[str]] = {name: set() for name in nodes}
        for meeting in schedule.meetings(self._order) if found else ():
            for one, other in ((meeting.node, meeting.peer), (meeting.peer, meeting.node)):
                if one in found:
                    found[one].add(other)
        return found

    def rails_of(self, suspects: Iterable[Suspect], of_leaf: int | None) -> dict[str, set[str]]:
        """Return the rails on which each node is suspected: of a leaf all nodes, or the first so many."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in suspects:
            if one.kind == NODE and one.node in self.of_node:
                found[one.node] |= self.of_node[one.node]
            elif one.kind == NODE_RAIL and one.node in self.of_node and one.rail is not None:
                found[one.node].add(one.rail)
            elif one.kind == LEAF and one.leaf is not None:
                behind = self.behind.get(one.leaf, {})
                for name in list(behind)[:of_leaf]:
                    found[name] |= behind[name]
        return dict(found)


def _rounds(
    roster: _Roster, pairs: Counter[tuple[str, str]], left: dict[str, int], needs: Rails, bad: Rails
) -> Iterator[list[tuple[str, str]]]:
    """Yield rounds until each pair has met often enough and each end its partners, if there are any."""
    met = roster.met(needs)
    again = {name: set[str]() for name in needs}
    while True:
        busy: set[str] = set()
        turn = []
        degree = Counter(name for both in pairs.elements() for name in both)
        for both in sorted(pairs, key=lambda both: (-max(degree[name] for name in both), both)):
            if busy.isdisjoint(both):
                busy.update(both)
                turn.append(both)
        pairs.subtract(turn)
        for both in turn:
            if not pairs[both]:
                del pairs[both]
        for name in sorted(left, key=lambda name: (-left[name], roster.place[name])):
            if name in busy:
                continue
            partner = _partner(roster, name, needs[name], bad, busy, met[name], again[name])
            if partner is None:
                continue
            turn.append(roster.ordered(name, partner))
            busy.update((name, partner))
            again[name].add(partner)
            left[name] -= 1
            # Two suspects on different rails are good partners of each other.
            if partner in left and not needs[partner] & bad.get(name, set()):
                again[partner].add(name)
                left[partner] -= 1
        left = {name: count for name, count in left.items() if count > 0}
        if not turn:
            return
        yield sorted(turn, key=lambda both: roster.place[both[0]])


def _partner(
    roster: _Roster, name: str, rails: set[str], bad: Rails, busy: set[str], met: set[str], again: set[str]
) -> str | None:
    """Return a free node that is good on these rails, or on some of them; best one not met before."""
    many = len(roster.names)
    # Neighbours often share a leaf, a rack, a power feed.
    start = (roster.place[name] + many // 2) % many
    best: tuple[int, str] | None = None
    highest = 2 * len(rails) + (len(met) < many - 1)
    for step in range(many):
        other = roster.names[(start + step) % many]
        if other == name or other in busy or other in again:
            continue
        good = rails & roster.of_node[other] - bad.get(other, set())
        if not good:
            continue
        rank = 2 * len(good) + (other not in met)
        if rank == highest:
            return other
        if best is None or rank > best[0]:
            best = (rank, other)
    return best[1] if best else None
