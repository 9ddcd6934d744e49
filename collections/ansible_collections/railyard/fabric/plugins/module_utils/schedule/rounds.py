# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the tests of a run and their order: one pure function for the controller and every node.

Nodes meet in rounds (the circle method): in each round every node has at most one partner, and after all
rounds every pair has met once. Each node can calculate its partner of any round and the ids of their tests
without the other pairs: with a thousand nodes that takes a thousand steps, not half a million. A schedule may
have only some of the rounds, or list its meetings, and plan fewer tests for a pair.
"""

from __future__ import annotations

import collections
import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..catalogue.tests import RDMA_TRANSPORTS, TESTS, class_of
from ..documents import Rail
from ..rails import plan
from ..records.asked import AskedLine, Direction

SCHEMA = 1
ALL_PAIRS, K_REGULAR, LISTED = PATTERNS = ("all_pairs", "k_regular", "listed")
#: The tests of a pair: every test, or path MTU and the bandwidth of all rails at once, or of each rail alone.
EVERY, TOGETHER, ONE_BY_ONE = QUESTIONS = ("every", "together", "one_by_one")
#: The tests of every pair; of the bandwidths the last planned one.
_PATH, _RATES = "path_mtu", ("tcp_bandwidth", "rdma_bandwidth")


class Questions(NamedTuple):
    """The tests of a pair: (check, tool) per rail and direction, bidirectional, and on all rails at once."""

    alone: tuple[tuple[str, str], ...]
    bi: tuple[tuple[str, str], ...]
    together: tuple[tuple[str, str], ...]

    def least(self, rails: int, one_by_one: bool = False) -> Questions:
        """Return the reduced tests: for a pair whose nodes run all tests with others, or in a sweep.

        Path MTU, and the bandwidth of all rails at once, with RDMA where it is planned, else with TCP; for a
        single rail, or with `one_by_one`, the bandwidth of each rail alone.
        """
        path = [one for one in self.alone if one[0] == _PATH]
        if rails > 1 and not one_by_one:
            return Questions((), (), (*path, *self.together[-1:]))
        return Questions((*path, *[one for one in self.alone if one[0] in _RATES][-1:]), (), ())

    def count(self, rails: int) -> int:
        """Return the number of tests of a pair with this many common rails."""
        group = 2 * len(self.together) if rails > 1 else 0
        return rails * (2 * len(self.alone) + len(self.bi) + group)


def questions(policy: Mapping[str, Any], rdma: bool) -> Questions:
    """Return the tests of a pair.

    Args:
        policy: `rdma_tests` and the keys of the tests are read.
        rdma: whether both nodes of the pair have RDMA.
    """
    tools = set(policy["rdma_tests"]) if rdma else set()
    found: dict[str, list[tuple[str, str]]] = collections.defaultdict(list)
    for test in sorted(TESTS, key=lambda test: bool(test.wanted)):
        # A policy without the key disables the test.
        is_enabled = not test.wanted or policy.get(test.wanted)
        if is_enabled and (not test.rdma or test.tool in tools):
            found[test.asked].append((test.name, test.tool))
    return Questions(tuple(found["alone"]), tuple(found["both_ways"]), tuple(found["together"]))


class Meeting(NamedTuple):
    """Two nodes that meet in a round of the run; `node` is before `peer` in the roster."""

    round: int
    number: int
    node: str
    peer: str


class ScheduleError(ValueError):
    """The tests cannot be scheduled; the message names the variable and the fix."""


def asked_tests(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield every test of the run in schedule order, or only those that `node` takes part in.

    Args:
        order: the common part of a test schedule: `fabrics`, `roster`, `pattern`, `rounds`, `meetings`,
            `full_rounds`, `full_rails`, `seed`, `rails`, `policy` are read; in a second schedule of the same
            run also `first_id` and `first_round`, where its tests and rounds continue.
        node: a roster name; its share is found in time linear in the number of nodes.

    Yields:
        planned tests (`schema id check tool node peer rail direction round`) with `group`: the tests of one
        group run at once, None means alone. The client is `node` and sends to `peer`; with direction `bi`
        both send. A pair with a single common rail has no concurrent test, which would repeat the single one.
        RDMA tests need two nodes that declare RDMA.

    Raises:
        ScheduleError: the pattern is unknown, or a name is twice in the roster.
    """
    share = Share(order)
    for meeting in meetings(order, node):
        yield from share.tests(meeting)


def meetings(order: Mapping[str, Any], node: str | None = None) -> Iterator[Meeting]:
    """Yield the meetings of the run in order, or only those of `node`."""
    roster = [str(entry["name"]) for entry in order["roster"]]
    if len(set(roster)) != len(roster):
        raise ScheduleError("a node is twice in the roster; make the host names unique")
    if order.get("pattern") == LISTED:
        yield from _listed(order, roster, node)
        return
    place = {name: index for index, name in enumerate(roster)}
    players = _seeded(roster, int(order.get("seed", 0)))
    circle = _Circle(len(players))
    seats = range(circle.size) if node is None else [players.index(node)]
    for number, turn in enumerate(_rounds(order, circle.rounds)):
        found = []
        for seat in seats:
            other = circle.partner(seat, turn)
            if other >= len(players) or seat >= len(players) or (node is None and seat > other):
                continue
            first, second = sorted((players[seat], players[other]), key=place.__getitem__)
            found.append(Meeting(number, circle.number(seat, turn, number), first, second))
        yield from sorted(found, key=lambda meeting: meeting.number)


def _listed(order: Mapping[str, Any], roster: Sequence[str], node: str | None) -> Iterator[Meeting]:
    """Yield the meetings that a schedule lists: for each round pairs of positions in the roster."""
    listed = order.get("meetings")
    if not isinstance(listed, list) or not listed or not all(isinstance(turn, list) for turn in listed):
        raise ScheduleError("meetings are not a list of rounds, which pattern listed needs")
    count = 0
    for number, turn in enumerate(listed, int(order.get("first_round", 0))):
        busy: set[int] = set()
        for both in turn:
            good = isinstance(both, list) and len(both) == 2 and all(map(_is_place, both))
            if not good or not 0 <= both[0] < both[1] < len(roster) or busy.intersection(both):
                raise ScheduleError(
                    f"meetings: {both!r} of round {number} is not a pair of the roster, or repeats a node"
                )
            busy.update(both)
            first, second = roster[both[0]], roster[both[1]]
            if node in (None, first, second):
                yield Meeting(number, count, first, second)
            count += 1


def _is_place(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rounds_of_all(nodes: int) -> int:
    """Return the number of rounds in which every pair of nodes meets."""
    return _Circle(nodes).rounds


def pausing(nodes: int, turn: int) -> int:
    """Return the seat that pauses in a round of an odd number of nodes."""
    return _Circle(nodes).partner(nodes, turn)


def partners(players: Sequence[str], turn: int) -> Iterator[tuple[str, str]]:
    """Yield the pairs of players, in the order of their seats, that meet in a round of the circle."""
    circle = _Circle(len(players))
    for seat in range(len(players)):
        other = circle.partner(seat, turn)
        if seat < other < len(players):
            yield players[seat], players[other]


def _rounds(order: Mapping[str, Any], of_all: int) -> Sequence[int]:
    """Return the rounds of the circle that the run has, in order."""
    pattern = order.get("pattern", ALL_PAIRS)
    if pattern not in PATTERNS:
        raise ScheduleError(f"pattern is {pattern!r}; this version knows {' and '.join(PATTERNS)}")
    chosen = order.get("rounds")
    if pattern == ALL_PAIRS and chosen is None:
        return range(of_all)
    if pattern == ALL_PAIRS or not isinstance(chosen, list) or len(set(chosen)) != len(chosen):
        raise ScheduleError(f"pattern {pattern} cannot be used with rounds {chosen!r}")
    if not chosen or not all(isinstance(turn, int) and 0 <= turn < of_all for turn in chosen):
        raise ScheduleError(f"rounds are {chosen!r}; there are 0 to {of_all - 1}")
    return chosen


class Share:
    """The tests of any meeting of a run; what all meetings share is calculated once."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._rails = RailNames(order)
        self._rdma = {
            str(entry["name"]): order["fabrics"][int(entry.get("fabric", 0))].get("transport")
            in RDMA_TRANSPORTS
            for entry in order["roster"]
        }
        self._questions = {rdma: questions(order["policy"], rdma) for rdma in (False, True)}
        self._order = order
        #: Check -> what its lines say of its packets' class.
        self._class_fields = {test.name: class_of(test.name, order["policy"]).as_fields() for test in TESTS}
        self._first_id = int(order.get("first_id", 0))
        # Older policies do not have the key.
        self._one_by_one = order["policy"].get("questions") == ONE_BY_ONE
        # Each pair gets a fixed number of ids, so that they follow from the meeting's number; where fabrics
        # differ in rails or transport some ids are not used.
        self._width = self._questions[any(self._rdma.values())].count(self._rails.most())

    def tests(self, meeting: Meeting, full: Collection[str] | None = None) -> Iterator[AskedLine]:
        """Yield the tests of one pair: each rail alone in both directions and at once, then all rails.

        Args:
            meeting: the meeting.
            full: the rails with all tests, instead of those in the schedule.
        """
        rails = self._rails.common(meeting.node, meeting.peer)
        every = self._questions[self._rdma[meeting.node] and self._rdma[meeting.peer]]
        least = every.least(len(rails), self._one_by_one)
        if full is None:
            full = full_rails(self._order, meeting, rails)
        number, fields = self._first_id + meeting.number * self._width, self._class_fields
        ways = ((meeting.node, meeting.peer), (meeting.peer, meeting.node))
        for rail in rails:
            planned = every if rail in full else least
            for node, peer in ways:
                for check, tool in planned.alone:
                    yield _test(fields[check], number, check, tool, node, peer, rail, meeting.round, None)
                    number += 1
            for check, tool in planned.bi:
                yield _test(fields[check], number, check, tool, *ways[0], rail, meeting.round, None, "bi")
                number += 1
        if len(rails) < 2:
            return
        # The first rail decides about the tests of all rails at once.
        rates = every.together if rails[0] in full else least.together[-1:]
        paths = [one for one in least.together if one[0] == _PATH]
        for node, peer in ways:
            for check, tool in (*paths, *rates):
                group = f"g{number:05d}"
                for rail in rails:
                    if check == _PATH and rail in full:
                        continue  # it is tested alone
                    yield _test(fields[check], number, check, tool, node, peer, rail, meeting.round, group)
                    number += 1


def full_rails(order: Mapping[str, Any], meeting: Meeting, rails: Collection[str]) -> Collection[str]:
    """Return the rails of a pair with all tests.

    Args:
        order: its key `full_rails` has the rails for each of the first rounds, of all nodes or by node
            (either node of the pair counts); without it `full_rounds` is the number of first rounds with all
            tests on all rails, None for all rounds.
        meeting: the meeting.
        rails: the common rails.
    """
    by_round = order.get("full_rails")
    if by_round is None:
        full_rounds = order.get("full_rounds")
        return rails if full_rounds is None or meeting.round < full_rounds else ()
    if meeting.round >= len(by_round):
        return ()
    now = by_round[meeting.round]
    if isinstance(now, Mapping):
        return {*now.get(meeting.node, ()), *now.get(meeting.peer, ())}
    found: Collection[str] = now
    return found


class RailNames:
    """The rails that two nodes have in common, found once per fabric and never per pair."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._order = order
        self._fabric_of = {str(entry["name"]): int(entry.get("fabric", 0)) for entry in order["roster"]}
        self._names: dict[int, list[str]] = {}

    def list_rails(self, node: str) -> list[str]:
        """Return the names of the node's rails in the schedule, in the order of its fabric."""
        fabric = self._fabric_of[node]
        if fabric not in self._names:
            wanted = self._order.get("rails")
            entry = next(entry for entry in self._order["roster"] if entry["name"] == node)
            self._names[fabric] = [
                str(rail["name"])
                for rail in node_rails(self._order, entry)
                if wanted is None or rail["name"] in wanted
            ]
        return self._names[fabric]

    def common(self, node: str, peer: str) -> list[str]:
        """Return the rails that both have, in the order of `node`'s fabric."""
        of_peer = set(self.list_rails(peer))
        return [name for name in self.list_rails(node) if name in of_peer]

    def most(self) -> int:
        """Return the largest number of rails that any node of the run has."""
        seen = {fabric: name for name, fabric in self._fabric_of.items()}
        return max((len(self.list_rails(name)) for name in seen.values()), default=0)


def node_rails(
    order: Mapping[str, Any],
    entry: Mapping[str, Any],
    specs: Sequence[Sequence[Mapping[str, Any]]] | None = None,
) -> list[Rail]:
    """Return the planned rails of a roster entry (see `rails.plan_node`).

    Args:
        order: the test schedule.
        entry: an entry of its roster.
        specs: `rail_specs` of each fabric, to save time for many nodes.
    """
    fabric = int(entry.get("fabric", 0))
    return plan.plan_node(
        order["fabrics"][fabric],
        str(entry["name"]),
        entry.get("node_index"),
        entry.get("scalable_unit"),
        entry.get("rail_overrides"),
        None if specs is None else specs[fabric],
    )


def _test(
    class_fields: Mapping[str, int],
    number: int,
    check: str,
    tool: str,
    node: str,
    peer: str,
    rail: str,
    round_number: int,
    group: str | None,
    direction: Direction = "uni",
) -> AskedLine:
    return {
        "schema": SCHEMA,
        "id": f"m{number:05d}",
        "check": check,
        "tool": tool,
        "node": node,
        "peer": peer,
        "rail": rail,
        "direction": direction,
        "round": round_number,
        "group": group,
        # The names of TestClass are those of AskedLine, which a type checker does not see.
        **class_fields,  # type: ignore[typeddict-item]
    }


def _seeded(names: list[str], seed: int) -> list[str]:
    """Return the names in an order that depends on the seed; seed 0 keeps that of the roster.

    A hash and not `random`, whose algorithms may differ between the Python versions of node and controller.
    """
    if seed == 0:
        return list(names)
    return sorted(names, key=lambda name: hashlib.sha256(f"{seed}:{name}".encode()).digest())


class _Circle:
    """The circle method in closed form: one seat is fixed, the others turn.

    Seats 0 … m-2 turn, seat m-1 is fixed (an odd number of players leaves it empty: its partner has a
    pause). In round r the turning seats x and y meet where x + y = r (mod m-1); the seat with 2x = r
    meets the fixed one.
    """

    def __init__(self, players: int) -> None:
        self.odd = players % 2 == 1
        self.size = players + 1 if self.odd else players
        self.modulus = max(self.size - 1, 1)
        self.rounds = self.size - 1 if players > 1 else 0

    def partner(self, seat: int, number: int) -> int:
        fixed = self.size - 1
        half = self._half(number)
        if seat == fixed:
            return half
        return fixed if seat == half else (number - seat) % self.modulus

    def number(self, seat: int, turn: int, before: int) -> int:
        """Return the number of this seat's meeting in the run, after `before` rounds."""
        half = self._half(turn)
        away = 0 if seat in (self.size - 1, half) else (seat - half) % self.modulus
        slot = min(away, self.modulus - away) if away else 0
        per_round = self.size // 2 - (1 if self.odd else 0)
        return before * per_round + slot - (1 if self.odd else 0)

    def _half(self, number: int) -> int:
        # The inverse of 2 modulo m-1 (odd) is m/2.
        return number * (self.size // 2) % self.modulus
