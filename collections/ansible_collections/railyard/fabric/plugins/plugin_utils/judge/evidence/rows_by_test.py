# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assign rows to planned tests. Packed rows stay columns, and become objects only when they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.bmc_rows import CONTROLLER
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    Column,
    PlannedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import Part
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    PackedRow,
    Table,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.result_rows import ResultRows
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import number_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def list_writers(asked: AskedLine) -> tuple[object, ...]:
    """Return the hosts that may write rows for a planned test."""
    if CHECKS[str(asked["check"])].source == "bmc":
        return (CONTROLLER,)
    return (asked["node"],) if asked["peer"] is None else (asked["node"], asked["peer"])


class RowsByTest(Mapping[str, Sequence[Row]]):
    """Test id -> its rows by the planned hosts, in the order of the file; rows by other hosts are ignored.

    Attributes:
        others: test id -> rows, of tests with rows that are not packed.
        parts: the packed rows of all other tests.
        strange: rows of other runs, and of hosts that the plan does not name for the test.

    Args:
        run: the run id.
        results: the result rows, complete, trimmed or packed.
        asked: the planned tests.
    """

    def __init__(self, run: str, results: Iterable[Row], asked: PlannedTests) -> None:
        self._asked = asked
        placed: dict[str, list[tuple[int, Row]]] = {}
        strange: list[tuple[int, Row]] = []
        folder = results if isinstance(results, ResultRows) else None
        rows = list(enumerate(results) if folder is None else folder.others)
        self.parts: list[Part] = []
        for table in () if folder is None else folder.tables:
            places = asked.find(table.numbers)
            hosts = spread_by_frame(table, (asked.nodes.get(frame.row["host"], -1) for frame in table.frames))
            good = (places >= 0) & (hosts >= 0)
            node, peer = (np.append(ends, -1)[places] for ends in (asked.node, asked.peer))
            good &= (hosts == node) | (hosts == peer)
            mine = good & spread_by_frame(table, (frame.row.get("run") == run for frame in table.frames))
            indices = np.flatnonzero(mine).astype(np.int32)
            self.parts.append(Part(table, indices, places[mine].astype(np.int32)))
            rows += ((int(table.begin[at]), table.row(at)) for at in np.flatnonzero(~mine).tolist())
        for place, row in rows:
            identity = str(row.get("id"))
            line = asked.lines.by_id(identity)
            if line is not None and row.get("host") in list_writers(line):
                placed.setdefault(identity, []).append((place, row))
                if row.get("run") == run:
                    continue
            strange.append((place, row))
        if self.parts and placed:
            self._leave_mixed(placed)
        in_file = {identity: sorted(found, key=_find_place) for identity, found in placed.items()}
        self.others = {identity: [row for _place, row in found] for identity, found in in_file.items()}
        self.strange = [row for _place, row in sorted(strange, key=_find_place)]
        self._sort()

    def _leave_mixed(self, placed: dict[str, list[tuple[int, Row]]]) -> None:
        """Move packed rows out of the columns if their test has other rows too."""
        numbers = np.array([number_of(identity, "m") for identity in placed], dtype=np.int64)
        mixed = np.zeros(len(self._asked.number), dtype=bool)
        found = self._asked.find(numbers)
        mixed[found[found >= 0]] = True
        for number, (table, indices, tests) in enumerate(self.parts):
            taken = mixed[tests]
            for at in indices[taken].tolist():
                row = table.row(at)
                placed[row["id"]].append((int(table.begin[at]), row))
            self.parts[number] = Part(table, indices[~taken], tests[~taken])

    def _sort(self) -> None:
        """Sort the rows in the columns by test, then by position in the file."""
        empty = np.zeros(0, dtype=np.int32)
        of_parts = np.zeros(0, dtype=np.int16)
        each = [np.full(len(one.tests), number, np.int16) for number, one in enumerate(self.parts)]
        begin = [one.table.begin[one.indices] for one in self.parts]
        tests = np.concatenate([empty, *(one.tests for one in self.parts)])
        turn = np.lexsort((np.concatenate([empty, *begin]), tests))
        self._part = np.concatenate([of_parts, *each])[turn]
        self._index = np.concatenate([empty, *(one.indices for one in self.parts)])[turn]
        begin_of_tests = np.searchsorted(tests[turn], np.arange(len(self._asked.number) + 1))
        self._begin = begin_of_tests.astype(np.int32)

    def __getitem__(self, identity: str) -> Sequence[Row]:
        if (found := self.others.get(identity)) is not None:
            return found
        place = self._asked.place(identity)
        if place >= 0 and (mine := self._read_packed_rows(place)):
            return mine
        raise KeyError(identity)

    def __contains__(self, identity: object) -> bool:
        place = self._asked.place(str(identity))
        return identity in self.others or (place >= 0 and bool(self._begin[place] < self._begin[place + 1]))

    def _read_packed_rows(self, place: int) -> list[PackedRow]:
        mine = slice(*self._begin[place : place + 2].tolist())
        each = zip(self._part[mine].tolist(), self._index[mine].tolist(), strict=True)
        return [self.parts[part].table.row(index) for part, index in each]

    def __iter__(self) -> Iterator[str]:
        yield from self.others
        for place in np.flatnonzero(np.diff(self._begin)).tolist():
            yield f"m{self._asked.number[place]:05d}"

    def __len__(self) -> int:
        return len(self.others) + int(np.count_nonzero(np.diff(self._begin)))

    def proven(self) -> Iterator[tuple[Table, Column]]:
        """Yield each table with the rows that their nodes report as proven."""
        for table, indices, _tests in self._proven():
            yield table, indices

    def proven_rails(self) -> Iterator[tuple[str, str]]:
        """Yield node and rail of each test with a proven row."""
        names, whats = list(self._asked.nodes), list(self._asked.what)
        for table, _indices, tests in self._proven():
            end = self._asked.node if table.kind.end == "client" else self._asked.peer
            both = np.unique(np.stack((end[tests], self._asked.of_what[tests])), axis=1)
            yield from ((names[host], str(whats[what][2])) for host, what in both.T.tolist())

    def _proven(self) -> Iterator[Part]:
        for table, indices, tests in self.parts:
            end = self._asked.node if table.kind.end == "client" else self._asked.peer
            hosts = spread_by_frame(
                table, (self._asked.nodes.get(frame.row["host"], -1) for frame in table.frames)
            )
            proven = spread_by_frame(table, (frame.row["proof"] == "proven" for frame in table.frames))
            mine = proven[indices] & (hosts[indices] == end[tests])
            yield Part(table, indices[mine], tests[mine])

    def by_host(self) -> Counter[str]:
        """Return the number of rows per host."""
        found = Counter(str(row.get("host")) for mine in self.others.values() for row in mine)
        for table, indices, _tests in self.parts:
            frames = np.bincount(table.frame_of[indices], minlength=len(table.frames))
            for frame, count in zip(table.frames, frames.tolist(), strict=True):
                found[str(frame.row.get("host"))] += count
        return +found

    def pairs(self) -> Iterator[tuple[Table, Table, Column, Column, Column]]:
        """Yield the tests with exactly two rows, grouped by their tables.

        Yields:
            the table of the client's row, if one is a client's; that of the other row; the tests' places, and
            the rows of both.
        """
        two = np.flatnonzero(np.diff(self._begin) == 2)
        first = self._begin[two]
        client = np.array([part.table.kind.end == "client" for part in self.parts], dtype=bool)
        ahead = client[self._part[first]] if len(two) else np.zeros(0, dtype=bool)
        one, other = np.where(ahead, first, first + 1), np.where(ahead, first + 1, first)
        both = self._part[one].astype(np.int64) * len(self.parts) + self._part[other]
        for kind in np.unique(both).tolist():
            mine = np.flatnonzero(both == kind)
            tables = (self.parts[number].table for number in divmod(kind, len(self.parts)))
            yield (*tables, two[mine], self._index[one[mine]], self._index[other[mine]])


def _find_place(one: tuple[int, Any]) -> int:
    return one[0]


def spread_by_frame(table: Table, values: Iterable[Any]) -> Column:
    """Return for each row the value of its frame."""
    return np.array(list(values))[table.frame_of]
