# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed rows by node and rail, in the order in which the node wrote them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    MOST,
    Column,
    PlannedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    PackedRow,
    Table,
)


class Part(NamedTuple):
    """Rows of a table, and the places of their tests."""

    table: Table
    indices: Column
    tests: Column


class Ids(Iterable[str]):
    """Ids of tests, formatted only when they are read."""

    def __init__(self, numbers: Column) -> None:
        self._numbers = numbers

    def __iter__(self) -> Iterator[str]:
        return (f"m{number:05d}" for number in self._numbers.tolist())


class RailRows:
    """The rows that one end of a rail wrote, by their sequence numbers.

    Attributes:
        sequence: the numbers.
        checks: the checks of the rows.
        same_counters: the rail's error counters and their netdev, if all rows have the same; else None.
    """

    def __init__(
        self, asked: PlannedTests, parts: Sequence[Part], rows: tuple[Column, Column, Column, Column]
    ) -> None:
        self._asked, self._parts = asked, parts
        self._part, self._index, self._tests, sequence = rows
        self.sequence = sequence.astype(np.int64)
        frames = []
        for number in np.unique(self._part).tolist():
            table = parts[number].table
            used = table.frame_of[self._index[self._part == number]]
            frames += [table.frames[one].row for one in np.unique(used).tolist()]
        self.checks = {str(frame["check"]) for frame in frames}
        counters = [(frame.get("link_errors"), frame.get("netdev")) for frame in frames]
        is_same = all(repr(one) == repr(counters[0]) for one in counters)
        self.same_counters = counters[0] if is_same else None

    def __len__(self) -> int:
        return len(self.sequence)

    def row(self, at: int) -> PackedRow:
        """Return a row."""
        table: Table = self._parts[self._part[at]].table
        return table.row(int(self._index[at]))

    def peer(self, at: int) -> str:
        """Return the node at the other end of its test."""
        line, end = self._asked.line(self._tests[at]), self._parts[self._part[at]].table.kind.end
        return str(line["peer" if end == "client" else "node"])

    def places(self, numbers: Sequence[int]) -> list[int] | None:
        """Return the places at which rows with these numbers belong; None if two have the same number."""
        if not (np.diff(self.sequence) > 0).all() or any(abs(number) >= MOST for number in numbers):
            return None
        others = np.array(numbers, dtype=np.int64)
        if np.isin(others, self.sequence).any():
            return None
        found: list[int] = np.searchsorted(self.sequence, others).tolist()
        return found

    def ids(self, begin: int = 0, end: int | None = None) -> Ids:
        """Return the ids of their tests."""
        return Ids(self._asked.number[self._tests[begin:end]])


class ByRail:
    """Rows by node and rail.

    Args:
        asked: the planned tests between nodes.
        parts: their rows.
    """

    def __init__(self, asked: PlannedTests, parts: Iterable[Part]) -> None:
        self._asked, self._parts = asked, list(parts)
        rails: dict[object, int] = {}
        rail_of = np.array([rails.setdefault(what[2], len(rails)) for what in asked.what], dtype=np.int64)
        self._rails = rails
        types = np.int32, np.int16, np.int32, np.int32, np.uint32
        columns: list[list[Any]] = [[np.zeros(0, dtype=one)] for one in types]
        for number, (table, indices, tests) in enumerate(self._parts):
            host = (asked.node if table.kind.end == "client" else asked.peer)[tests]
            place = (host * max(len(rails), 1) + rail_of[asked.of_what[tests]]).astype(np.int32)
            of_part = np.full(len(indices), number, dtype=np.int16)
            sequence = table.column("sequence")[indices]
            for column, values in zip(columns, (place, of_part, indices, tests, sequence), strict=True):
                column.append(values)
        place, *rows = (np.concatenate(column) for column in columns)
        turn = np.lexsort((rows[-1], place))
        self._rows = [column[turn] for column in rows]
        self._begin = np.searchsorted(place[turn], np.arange(len(asked.nodes) * len(rails) + 1))

    def find(self, node: str, rail: str) -> RailRows | None:
        """Return the rows of a node's rail, None if it has none."""
        at, number = self._asked.nodes.get(node), self._rails.get(rail)
        if at is None or number is None:
            return None
        begin, end = self._begin[at * len(self._rails) + number :][:2].tolist()
        part, index, tests, sequence = (column[begin:end] for column in self._rows)
        return RailRows(self._asked, self._parts, (part, index, tests, sequence)) if begin < end else None
