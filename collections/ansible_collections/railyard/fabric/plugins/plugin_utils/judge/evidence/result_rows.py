# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result rows of runs that are too large for memory: rows are trimmed, and read again when they are judged.

A row takes six times as much memory as its line, and a sweep of 232 nodes has 1.7 million rows. Of a good
test's row only the parts are kept that are compared with other tests' rows: its identity, its counters and
its metrics. The test itself is judged by the complete row from the folder, with the same rules. Packed rows
are always kept as columns (`columns/lines.py`).
"""

from __future__ import annotations

import heapq
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import FRAME_BEGINS, Frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import are_pairs
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.lines import Tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import PackedRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

#: Smaller files are kept in memory, which is faster; packed rows never are.
TRIMMED_FROM_BYTES = 256 << 20
#: Packed rows begin within this part of a file.
_HEAD_BYTES = 1 << 20
#: Keys that a trimmed row keeps. Texts repeat in many rows and are interned.
_TEXTS = ("run", "id", "host", "end", "check", "status", "proof", "netdev", "hca", "started")
_OTHERS = ("attempt", "sequence", "counters", "link_errors", "metrics")
#: Key under which a trimmed row keeps the position of its line; keys from JSON are always strings.
_PLACE = 0
#: Keys by which a row is recognized when it is read again.
_SAME = ("run", "id", "host", "end", "attempt", "proof", "counters")
#: Number of complete rows in the cache: both ends of a pair's rails, which a sum reads again. More of them do
#: not fit into the processor's cache.
_AT_HAND = 32


class ResultRows:
    """The rows of a folder, in their order; trimmed if there are many.

    Attributes:
        tables: the packed rows.
        others: all other rows, with the positions of their lines.
        torn: a line is missing or incomplete.

    Args:
        folder: the run's.
        asked: returns the planned test of an id.

    Raises:
        RunFolderError: the file exists and cannot be read.
    """

    def __init__(self, folder: RunFolder, asked: Callable[[str], AskedLine | None]) -> None:
        self._path = folder.path / run_folder.RESULTS
        self._handle: int | None = None
        self._frames = Frames()
        self._read: dict[tuple[int, int], Sequence[Row]] = {}
        self.tables = Tables(self._frames, self)
        self.others: list[tuple[int, Row]]
        many, packed = self._size()
        if many or packed:
            self.others, self.torn = self._light(folder, asked, many)
        else:
            held, self.torn = folder.rows(run_folder.RESULTS)
            self.others = list(enumerate(held))

    def __iter__(self) -> Iterator[Row]:
        packed = self.tables.in_file()
        yield from (row for _at, row in heapq.merge(self.others, packed, key=operator.itemgetter(0)))

    def read_complete(self, row: Row) -> Row:
        """Return the complete row from the folder.

        Raises:
            RunFolderError: it cannot be read, or has changed.
        """
        if isinstance(row, PackedRow):
            return row.read_complete()
        trimmed: Mapping[Any, Any] = row
        place = trimmed.get(_PLACE)
        if place is None:
            return row
        for found in self._at(place):
            if all(found.get(key) == row.get(key) for key in _SAME):
                return found
        raise self.changed()

    def close(self) -> None:
        """Close the file."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def read_packed(self, place: tuple[int, int], at: int, identity: str, sequence: int) -> Row:
        """Return a packed row in full, as `tables.File`."""
        found = self._at(place)
        if not at < len(found) or (found[at]["id"], found[at]["sequence"]) != (identity, sequence):
            raise self.changed()
        return found[at]

    def read_line(self, place: tuple[int, int]) -> bytes:
        """Return the bytes at a position and length of the file."""
        with run_folder.reading(self._path):
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._handle, place[1], place[0])

    def _at(self, place: tuple[int, int]) -> Sequence[Row]:
        """Return the complete rows at a position and length of the file."""
        if (known := self._read.get(place)) is not None:
            return known
        found, _torn = json_lines.parse_lines(self.read_line(place), self._frames)
        if len(self._read) >= _AT_HAND:
            self._read.clear()
        self._read[place] = found
        return found

    def changed(self) -> RunFolderError:
        """Return the error for a file that has changed."""
        return RunFolderError(f"{self._path} was changed while it was judged; judge the run again")

    def _size(self) -> tuple[bool, bool]:
        """Tell whether there are many rows, and whether there are packed ones."""
        try:
            # Opening a pipe would block.
            if not self._path.is_file():
                return False, False
            with self._path.open("rb") as stream:
                return self._path.stat().st_size >= TRIMMED_FROM_BYTES, FRAME_BEGINS in stream.read(
                    _HEAD_BYTES
                )
        except OSError:
            return False, False  # reading the file reports why

    def _light(
        self, folder: RunFolder, asked: Callable[[str], AskedLine | None], many: bool
    ) -> tuple[list[tuple[int, Row]], bool]:
        rows: list[tuple[int, Row]] = []
        torn, shared = False, _RowTrimmer()
        for place, row in folder.each_row_at(run_folder.RESULTS, self._frames, self.tables.take):
            if row is None:
                torn = True
            # Rows with an error are few, and are kept complete.
            elif many and row.get("error") is None and _is_pair_test(asked(str(row.get("id")))):
                rows.append((place[0], shared.light(row, place)))
            else:
                rows.append((place[0], row))
        return rows, torn


def _is_pair_test(line: Mapping[str, object] | None) -> bool:
    check = None if line is None else CHECKS.get(str(line.get("check")))
    return check is not None and check.source == "test"


def find_row_reader(results: Iterable[Row]) -> Callable[[Row], Row]:
    """Return the function that reads complete rows; rows that are not from a folder are complete."""
    return results.read_complete if isinstance(results, ResultRows) else lambda row: row


def order_sums_last(asked: Sequence[AskedLine]) -> list[int]:
    """Return the places of all planned tests, a sum's parts just before it, while their rows are cached."""
    places = {str(line["id"]): place for place, line in enumerate(asked)}
    turns: dict[int, None] = {}
    for place, line in enumerate(asked):
        if parts := line.get("parts"):
            turns |= dict.fromkeys(places[part] for part in parts if part in places)
            turns[place] = None
    return list(turns | dict.fromkeys(range(len(asked))))


class _RowTrimmer:
    """Trims rows, and shares equal values between them."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        #: Host and netdev -> the error counters of its last row, which are mostly equal.
        self._still: dict[tuple[str, str], dict[str, Any]] = {}

    def light(self, row: Row, place: tuple[int, int]) -> dict[str, Any]:
        kept: dict[Any, Any] = {key: self._text(row[key]) for key in _TEXTS if key in row}
        kept |= {key: self._keys(row[key]) for key in _OTHERS if key in row}
        kept[_PLACE] = place
        spans = kept.get("link_errors")
        # Equal and of the same type: True is not a count.
        if isinstance(spans, dict) and are_pairs(spans.values()):
            whose = str(row.get("host")), str(row.get("netdev"))
            if self._still.setdefault(whose, spans) != spans:
                self._still[whose] = spans
            kept["link_errors"] = self._still[whose]
        return kept

    def _text(self, value: object) -> object:
        return self._texts.setdefault(value, value) if isinstance(value, str) else value

    def _keys(self, value: object) -> object:
        """Return an object with interned keys."""
        return {self._text(key): one for key, one in value.items()} if isinstance(value, dict) else value
