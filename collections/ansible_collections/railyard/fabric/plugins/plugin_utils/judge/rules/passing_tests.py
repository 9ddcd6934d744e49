# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the tests of a sweep that clearly pass, by comparing columns of rows. It may only produce passes.

Rows of one frame differ in about twenty numbers. So one row of each frame is checked like that of any other
test, and for the others the same rules (`end_rules`, `pair_rules`) are applied to the columns of these
numbers. A test for which a rule does not hold, or which the columns cannot decide, is judged by itself: only
a pass is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, readings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    Column,
    PlannedTests,
    make_column,
    number_key,
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RunContext
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import list_end_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.pair_rules import (
    NOTHING_LOST,
    list_pair_rules,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import apply_to_many
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: The checks that a sweep plans between two nodes.
CHECKED = ("path_mtu", "tcp_bandwidth_concurrent", "rdma_bandwidth_concurrent")
#: Number of tests that are checked at once, because their rows are read, and rules make temporary columns.
_AT_ONCE = 1 << 16


class RowJudge(NamedTuple):
    """The functions of the judge of single tests that are used here.

    Attributes:
        known: what is known about the run.
        refuses: tells whether a row is not a measurement of a planned test by a host.
        bounds: returns the thresholds of a planned test.
        describe_end: returns what thresholds depend on at an end, given its node and rail.
    """

    known: RunContext
    refuses: Callable[[Row, AskedLine, str], object]
    bounds: Callable[[AskedLine], Bounds]
    describe_end: Callable[[str, str], Hashable]


class PassingTests:
    """The tests that clearly pass.

    Args:
        asked: the planned tests.
    """

    def __init__(self, asked: PlannedTests) -> None:
        self.asked = asked
        self._groups: list[tuple[ColumnPair, Bounds]] = []
        #: For each test its group, or -1, and its place in the group's pair.
        self._group = np.full(len(asked.number), -1, dtype=np.int32)
        self._at = np.zeros(len(asked.number), dtype=np.int32)

    def __contains__(self, identity: object) -> bool:
        place = self.asked.place(str(identity))
        return place >= 0 and bool(self._group[place] >= 0)

    def __bool__(self) -> bool:
        return bool((self._group >= 0).any())

    def has(self, tests: Column) -> Column:
        """Tell which of these tests, given by their places, pass."""
        return self._group[tests] >= 0

    @property
    def places(self) -> Column:
        """The places of the passing tests."""
        return np.flatnonzero(self._group >= 0)

    def add(self, tests: Column, pair: ColumnPair, places: Column, bounds: Bounds) -> None:
        """Add tests: these places of a pair, which have the same thresholds."""
        self._group[tests], self._at[tests] = len(self._groups), places
        self._groups.append((pair, bounds))

    def lines(self, check: str | None = None) -> Iterator[tuple[int, AskedLine]]:
        """Yield the passing tests, of one check or all, with their places among all planned tests."""
        for place in self.places.tolist():
            line = self.asked.line(place)
            if check in (None, line["check"]):
                yield int(self.asked.at[place]), line

    def find_servers(self, tests: Column) -> tuple[list[ColumnEnd], Column, Column]:
        """Return all servers' rows, and for some tests the index of their row's end and the place there."""
        return [pair.server for pair, _bounds in self._groups], self._group[tests], self._at[tests]

    def drop(self, tests: Column) -> None:
        """Remove tests."""
        self._group[tests] = -1

    def group_equal(self) -> Iterator[tuple[Column, Mapping[str, Column]]]:
        """Yield groups of tests whose verdicts only differ in nodes and numbers.

        Yields:
            the tests, and their observed values as columns, NaN if missing, which are calculated when read.
        """
        for number, (pair, _bounds) in enumerate(self._groups):
            mine = np.flatnonzero(self._group == number)
            for what in np.unique(self.asked.of_what[mine]).tolist():
                tests = mine[self.asked.of_what[mine] == what]
                yield tests, _Observed(pair, self._at[tests])

    def rows(self, parts: Iterable[Part]) -> ByRail:
        """Return their rows by rail.

        Args:
            parts: all rows.
        """
        mine = self._group >= 0
        mine_of = ((part, mine[part.tests]) for part in parts)
        return ByRail(
            self.asked, [Part(part.table, part.indices[is_], part.tests[is_]) for part, is_ in mine_of]
        )

    def answer(self, place: int) -> Answer:
        """Return the pass of one of the tests, equal to that of the judge of single tests."""
        (pair, bounds), at = self._groups[self._group[place]], self._at[place]
        shown = readings.merge_metrics(pair.client.read_metrics(at), pair.server.read_metrics(at))
        # Millions of tests may share these objects.
        return Answer(PASS, shown, bounds.floor, bounds.ceiling, bounds.basis, proof="proven")


class _Observed(Mapping[str, Column]):
    """What was observed by tests at places of a pair. Of millions of tests, each column takes 8 bytes."""

    def __init__(self, pair: ColumnPair, places: Column) -> None:
        self._pair, self._places = pair, places
        self._names = dict.fromkeys(self._calculate())

    def _calculate(self, names: Collection[str] = ()) -> dict[str, Column]:
        client, server = (end.list_metrics(self._places, names) for end in self._pair.each())
        return readings.merge_metrics(client, server)

    def __getitem__(self, name: str) -> Column:
        return self._calculate((name, name.removeprefix(readings.OF_PEER)))[name]

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def find_passing(asked: PlannedTests, rows: RowsByTest, single: RowJudge) -> PassingTests:
    """Return the tests that clearly pass.

    Args:
        asked: the planned tests between nodes.
        rows: their rows.
        single: the judge of single tests.
    """
    found = PassingTests(asked)
    for mine, its, tests, *indices in rows.pairs():
        ends = [(table.kind.end, table.kind.check) for table in (mine, its)]
        check = mine.kind.check
        if check not in CHECKED or ends != [("client", check), ("server", check)]:
            continue
        # For each end: frame -> whether it is sound, for frames of which a row was checked.
        sound: tuple[dict[int, bool], dict[int, bool]] = {}, {}
        for begin in range(0, len(tests), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            some = asked.only(tests[part])
            client, server = (
                ColumnEnd(table, places[part], single.known, some)
                for table, places in zip((mine, its), indices, strict=True)
            )
            # NaN compares as false, which is intended.
            with np.errstate(all="ignore"):
                if client.can_be_judged and server.can_be_judged:
                    _find_passing(found, ColumnPair(client, server), tests[part], single, sound)
            client.forget()
            server.forget()
    return found


def _find_passing(
    found: PassingTests, pair: ColumnPair, tests: Column, single: RowJudge, sound: Sequence[dict[int, bool]]
) -> None:
    """Add the tests of two tables that clearly pass."""
    good = np.ones(len(pair.client.places), dtype=bool)
    for end in pair.each():
        good &= end.can_be_counted
        good = apply_to_many(list_end_rules(pair.check, end.kind.end), end, good)
    good = apply_to_many([NOTHING_LOST, *list_pair_rules(pair.check)], pair, good)
    for end, known in zip(pair.each(), sound, strict=True):
        good &= _are_sound(end, good, single, known)
    at = np.flatnonzero(good)
    for places in _group_by_ends(pair.client.asked, at, single):
        bounds = single.bounds(pair.client.asked.line(places[0]))
        within = places[_are_within(bounds, pair, places)]
        found.add(tests[within], pair, within, bounds)


def _group_by_ends(asked: PlannedTests, at: Column, single: RowJudge) -> Iterator[Column]:
    """Yield the tests at these places, grouped by equal ends."""
    names, whats = list(asked.nodes), list(asked.what)
    kinds: dict[object, int] = {}
    kind = np.zeros(len(at), dtype=np.int64)
    for end in (asked.node, asked.peer):
        ends, which = np.unique(end[at] * len(whats) + asked.of_what[at], return_inverse=True)
        each = (divmod(one, len(whats)) for one in ends.tolist())
        described = [single.describe_end(names[node], str(whats[what][2])) for node, what in each]
        of_end = make_column(number_key(kinds, one) for one in described)
        kind = (kind << 32) + of_end[which]
    for one in np.unique(kind).tolist():
        yield at[kind == one]


def _are_within(bounds: Bounds, pair: ColumnPair, places: Column) -> Column:
    """Tell for tests at these places whether all results are within thresholds that permit a pass."""
    good = np.ones(len(places), dtype=bool)
    if not bounds.floor or set(bounds.floor) != set(bounds.ceiling):
        return ~good
    for end in pair.each() if CHECKS[pair.check.name].server else (pair.client,):
        for name, least in bounds.floor.items():
            good &= formulas.is_within(least, end.metric(name)[places], bounds.ceiling[name])
    return good


def _are_sound(end: ColumnEnd, good: Column, single: RowJudge, known: dict[int, bool]) -> Column:
    """Tell for rows whether one good row of their frame passes the checks of a single row."""
    at = np.flatnonzero(good)
    numbers, first = np.unique(end.frame_of[at], return_index=True)
    for number, one in zip(numbers.tolist(), at[first].tolist(), strict=True):
        if number in known:
            continue
        line, row = end.asked.line(one), end.table.row(int(end.places[one])).read_complete()
        host = str(line["node" if end.kind.end == "client" else "peer"])
        frame = end.table.frames[number].row
        known[number] = end.is_sound(row, frame) and not single.refuses(row, line, host)
    sound = np.array([known.get(number, False) for number in range(len(end.table.frames))], dtype=bool)
    return sound[end.frame_of]
