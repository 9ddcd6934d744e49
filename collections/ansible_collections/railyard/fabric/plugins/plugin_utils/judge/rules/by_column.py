# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests of a sweep plainly pass? Their rows are compared by the column; nothing but a pass comes of it.

Rows of one frame differ in a score of numbers. So of each frame one row is looked at as any other test's is,
and of the rest what is their own: the same rules (`of_end`, `of_pair`) are asked of their columns. A test is
left to the judge of single tests wherever the answer is not a plain yes, be it that a rule says no or that no
column tells: no outcome rests on anything here but a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, readings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.asked import (
    Asked,
    Column,
    array_of,
    number_in,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import (
    ByRail,
    Part,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.views import (
    ColumnEnd,
    ColumnPair,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import Known
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_end import of_end
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_pair import NOTHING_LOST, of_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import hold
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

#: The checks that a sweep asks between two nodes.
CHECKED = ("path_mtu", "tcp_bandwidth_concurrent", "rdma_bandwidth_concurrent")
#: So many tests are looked at at once: a rule makes columns of its own.
_AT_ONCE = 1 << 17


class Court(NamedTuple):
    """What of the judge of single tests is asked here.

    Attributes:
        known: what is known of the run.
        refuses: whether a row is not a measurement of that asked line by that host.
        bounds: what bounds an asked line's numbers.
        like: what bounds rest on at an end, given its node and rail: alike ends have alike bounds.
    """

    known: Known
    refuses: Callable[[Row, AskedLine, str], object]
    bounds: Callable[[AskedLine], Bounds]
    like: Callable[[str, str], Hashable]


class Plain:
    """The tests that plainly pass.

    Args:
        asked: the tests among which they are.
    """

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._groups: list[tuple[ColumnPair, Bounds]] = []
        #: Of each test its group, or -1, and its place in the group's pair.
        self._group = np.full(len(asked.number), -1, dtype=np.int32)
        self._at = np.zeros(len(asked.number), dtype=np.int32)

    def __contains__(self, identity: object) -> bool:
        place = self.asked.place(str(identity))
        return place >= 0 and bool(self._group[place] >= 0)

    def __bool__(self) -> bool:
        return bool((self._group >= 0).any())

    @property
    def places(self) -> Column:
        """Which of the tests they are."""
        return np.flatnonzero(self._group >= 0)

    def add(self, tests: Column, pair: ColumnPair, places: Column, bounds: Bounds) -> None:
        """Count tests among them: these places of a pair, which have the same bounds."""
        self._group[tests], self._at[tests] = len(self._groups), places
        self._groups.append((pair, bounds))

    def lines(self, check: str | None = None) -> Iterator[tuple[int, AskedLine]]:
        """Yield their asked lines, of one check or all, and where these stand among all asked lines."""
        for place in self.places.tolist():
            line = self.asked.line(place)
            if check in (None, line["check"]):
                yield int(self.asked.at[place]), line

    def drop(self, tests: Column) -> None:
        """Count tests among them no longer."""
        self._group[tests] = -1

    def alike(self) -> Iterator[tuple[int, int, dict[str, Column]]]:
        """Yield tests whose verdicts differ in their nodes and numbers alone.

        Yields:
            the first of them, how many they are, and what their verdicts show: NaN where one does not.
        """
        for number, (pair, _bounds) in enumerate(self._groups):
            mine = np.flatnonzero(self._group == number)
            for what in np.unique(self.asked.of_what[mine]).tolist():
                tests = mine[self.asked.of_what[mine] == what]
                at = self._at[tests]
                shown = readings.beside(pair.client.every_metric(at), pair.server.every_metric(at))
                yield int(tests[0]), len(tests), shown

    def rows(self, parts: Iterable[Part]) -> ByRail:
        """Return their rows by rail.

        Args:
            parts: all rows of tests.
        """
        mine = self._group >= 0
        mine_of = ((part, mine[part.tests]) for part in parts)
        return ByRail(
            self.asked, [Part(part.table, part.indices[is_], part.tests[is_]) for part, is_ in mine_of]
        )

    def answer(self, place: int) -> Answer:
        """Return the pass of a test that is among them, as the judge of single tests would word it."""
        (pair, bounds), at = self._groups[self._group[place]], self._at[place]
        shown = readings.beside(pair.client.seen(at), pair.server.seen(at))
        # Alike tests share their bounds, of which there may be millions.
        return Answer(PASS, shown, bounds.floor, bounds.ceiling, bounds.basis, proof="proven")


def find(asked: Asked, rows: RowsByTest, court: Court) -> Plain:
    """Return which tests plainly pass.

    Args:
        asked: the tests that two nodes answer.
        rows: their rows.
        court: the judge of single tests.
    """
    found = Plain(asked)
    for mine, its, tests, *indices in rows.pairs():
        ends = [(table.kind.end, table.kind.check) for table in (mine, its)]
        check = mine.kind.check
        if check not in CHECKED or ends != [("client", check), ("server", check)]:
            continue
        # Of each end: which frames are sound, as far as one of their rows was looked at.
        sound: tuple[dict[int, bool], dict[int, bool]] = {}, {}
        for begin in range(0, len(tests), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            some = asked.only(tests[part])
            client, server = (
                ColumnEnd(table, places[part], court.known, some)
                for table, places in zip((mine, its), indices, strict=True)
            )
            # What is no number is not good, and says no more than that.
            with np.errstate(all="ignore"):
                if client.can_be_told and server.can_be_told:
                    _find(found, ColumnPair(client, server), tests[part], court, sound)
            client.forget()
            server.forget()
    return found


def _find(
    found: Plain, pair: ColumnPair, tests: Column, court: Court, sound: Sequence[dict[int, bool]]
) -> None:
    """Add to those found the tests of two tables that plainly pass."""
    good = np.ones(len(pair.client.places), dtype=bool)
    for end in pair.each():
        good &= end.can_be_counted
        good = hold(of_end(pair.check, end.kind.end), end, good)
    good = hold([NOTHING_LOST, *of_pair(pair.check)], pair, good)
    for end, known in zip(pair.each(), sound, strict=True):
        good &= _sound(end, good, court, known)
    at = np.flatnonzero(good)
    for places in _alike(pair.client.asked, at, court):
        bounds = court.bounds(pair.client.asked.line(places[0]))
        within = places[_within(bounds, pair, places)]
        found.add(tests[within], pair, within, bounds)


def _alike(asked: Asked, at: Column, court: Court) -> Iterator[Column]:
    """Yield the tests at these places, those together whose ends are alike."""
    names, whats = list(asked.nodes), list(asked.what)
    kinds: dict[object, int] = {}
    kind = np.zeros(len(at), dtype=np.int64)
    for end in (asked.node, asked.peer):
        ends, which = np.unique(end[at] * len(whats) + asked.of_what[at], return_inverse=True)
        each = (divmod(one, len(whats)) for one in ends.tolist())
        likes = [court.like(names[node], str(whats[what][2])) for node, what in each]
        of_end = array_of(number_in(kinds, like) for like in likes)
        kind = (kind << 32) + of_end[which]
    for one in np.unique(kind).tolist():
        yield at[kind == one]


def _within(bounds: Bounds, pair: ColumnPair, places: Column) -> Column:
    """Tell which numbers of tests at these places lie within their bounds, as a pass needs it."""
    good = np.ones(len(places), dtype=bool)
    if not bounds.floor or set(bounds.floor) != set(bounds.ceiling):
        return ~good
    for end in pair.each() if CHECKS[pair.check.name].server else (pair.client,):
        for name, least in bounds.floor.items():
            good &= formulas.within(least, end.metric(name)[places], bounds.ceiling[name])
    return good


def _sound(end: ColumnEnd, good: Column, court: Court, known: dict[int, bool]) -> Column:
    """Tell of rows whether one of their frame, good by the column, is good as a single row is looked at."""
    at = np.flatnonzero(good)
    numbers, first = np.unique(end.frame_of[at], return_index=True)
    for number, one in zip(numbers.tolist(), at[first].tolist(), strict=True):
        if number in known:
            continue
        line, row = end.asked.line(one), end.table.row(int(end.places[one])).whole()
        host = str(line["node" if end.kind.end == "client" else "peer"])
        frame = end.table.frames[number].row
        known[number] = end.is_sound(row, frame) and not court.refuses(row, line, host)
    sound = np.array([known.get(number, False) for number in range(len(end.table.frames))], dtype=bool)
    return sound[end.frame_of]
