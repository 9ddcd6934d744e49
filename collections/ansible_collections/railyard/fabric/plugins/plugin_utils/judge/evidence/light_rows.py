# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result rows of a run that is too large to hold them: each is read again when its test is judged.

What Python makes of a row is six times as long as its line, and a sweep of 232 nodes has 1.7 million of them.
Of a good test's row so only that is held which is weighed together with other tests' rows: whose it is, its
counters, and the number by which slow parts are told. Its own test is judged by the whole row as it stands in
the folder, and by the same rules. Short rows are columns (`columns/tables.py`) at any number.
"""

from __future__ import annotations

import heapq
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.runner.short_rows import FRAME_BEGINS, Frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import are_pairs
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    BEYOND,
    ShortRow,
    Tables,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

#: Rows of fewer bytes are held whole, as all are judged sooner that way; short rows never are.
HELD_BYTES = 256 << 20
#: Where a file has short rows, the first of them are here.
_HEAD_BYTES = 1 << 20
#: What is read of a row beside those of its own test; texts of these say the same in many rows.
_TEXTS = ("run", "id", "host", "end", "check", "status", "proof", "netdev", "hca", "started")
_OTHERS = ("attempt", "sequence", "counters", "link_errors", "metrics")
#: Where a light row keeps the place of its line. What is read of JSON has texts as keys.
_PLACE = 0
#: By what a row is known again.
_SAME = ("run", "id", "host", "end", "attempt", "proof", "counters")
#: So many whole rows are kept at hand: both ends' of a pair's rails, which a sum asks for once more. More
#: of them leave the processor's cache.
_AT_HAND = 32


class Rows:
    """The rows of a folder, in their order; light ones where they are many.

    Attributes:
        tables: the short rows.
        others: all others, and where their lines begin.
        torn: a line was lost.

    Args:
        folder: the run's.
        asked: returns the asked line of an id.

    Raises:
        RunFolderError: the rows are there and cannot be read.
    """

    def __init__(self, folder: RunFolder, asked: Callable[[str], AskedLine | None]) -> None:
        self._path = folder.path / run_folder.RESULTS
        self._handle: int | None = None
        self._frames = Frames()
        self._read: dict[tuple[int, int], dict[str, Any]] = {}
        self.tables = Tables(self._frames, self._short_at)
        self.others: list[tuple[int, Row]]
        many, short = self._size()
        if many or short:
            self.others, self.torn = self._light(folder, asked, many)
        else:
            held, self.torn = folder.rows(run_folder.RESULTS)
            self.others = list(enumerate(held))

    def __iter__(self) -> Iterator[Row]:
        short = self.tables.in_file()
        yield from (row for _at, row in heapq.merge(self.others, short, key=operator.itemgetter(0)))

    def whole(self, row: Row) -> Row:
        """Return a row as it stands in the folder.

        Raises:
            RunFolderError: it cannot be read, or is another one by now.
        """
        if isinstance(row, ShortRow):
            return row.whole()
        light: Mapping[Any, Any] = row
        place = light.get(_PLACE)
        if place is None:
            return row
        found = self._at(place)
        if any(found.get(key) != row.get(key) for key in _SAME):
            raise self._changed()
        return found

    def close(self) -> None:
        """Read no further rows."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _short_at(self, place: tuple[int, int], identity: str, sequence: int) -> dict[str, Any]:
        found = self._at(place)
        if found.get("id") != identity or sequence not in (BEYOND, found.get("sequence")):
            raise self._changed()
        return found

    def _at(self, place: tuple[int, int]) -> dict[str, Any]:
        """Return the whole row whose line begins there and is so long."""
        if (known := self._read.get(place)) is not None:
            return known
        try:
            if self._handle is None:
                self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            found, _torn = json_lines.parse_lines(os.pread(self._handle, place[1], place[0]), self._frames)
        except OSError as error:
            raise RunFolderError(f"{self._path} cannot be read: {error.strerror}") from error
        if len(found) != 1:
            raise self._changed()
        if len(self._read) >= _AT_HAND:
            self._read.clear()
        self._read[place] = found[0]
        return found[0]

    def _changed(self) -> RunFolderError:
        return RunFolderError(f"{self._path} was changed while it was judged; judge the run again")

    def _size(self) -> tuple[bool, bool]:
        """Tell whether the rows are many, and whether there are short ones."""
        try:
            # A pipe would never be opened.
            if not self._path.is_file():
                return False, False
            with self._path.open("rb") as stream:
                return self._path.stat().st_size >= HELD_BYTES, FRAME_BEGINS in stream.read(_HEAD_BYTES)
        except OSError:
            return False, False  # whoever reads it says why

    def _light(
        self, folder: RunFolder, asked: Callable[[str], AskedLine | None], many: bool
    ) -> tuple[list[tuple[int, Row]], bool]:
        rows: list[tuple[int, Row]] = []
        torn, shared = False, _Shared()
        for place, row in folder.each_row_at(run_folder.RESULTS, self._frames, self.tables.take):
            if row is None:
                torn = True
            # A row that brings an error is told in full, and they are few.
            elif many and row.get("error") is None and _is_test(asked(str(row.get("id")))):
                rows.append((place[0], shared.light(row, place)))
            else:
                rows.append((place[0], row))
        return rows, torn


def _is_test(line: Mapping[str, object] | None) -> bool:
    check = None if line is None else CHECKS.get(str(line.get("check")))
    return check is not None and check.source == "test"


def whole_of(results: Iterable[Row]) -> Callable[[Row], Row]:
    """Return what gives rows as they stand in the folder; those of no folder are whole."""
    return results.whole if isinstance(results, Rows) else lambda row: row


def in_turn(asked: Sequence[AskedLine]) -> list[int]:
    """Return the places of all asked lines, a sum's parts just before it: so their rows are still at hand."""
    places = {str(line["id"]): place for place, line in enumerate(asked)}
    turns: dict[int, None] = {}
    for place, line in enumerate(asked):
        if parts := line.get("parts"):
            turns |= dict.fromkeys(places[part] for part in parts if part in places)
            turns[place] = None
    return list(turns | dict.fromkeys(range(len(asked))))


class _Shared:
    """Makes rows light, and keeps what many of them say once."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        #: Host and netdev -> the error counters of its last row, most of which say the same.
        self._still: dict[tuple[str, str], dict[str, Any]] = {}

    def light(self, row: Row, place: tuple[int, int]) -> dict[str, Any]:
        kept: dict[Any, Any] = {key: self._text(row[key]) for key in _TEXTS if key in row}
        kept |= {key: self._keys(row[key]) for key in _OTHERS if key in row}
        kept[_PLACE] = place
        spans = kept.get("link_errors")
        # Of one kind as well as equal: True is no count.
        if isinstance(spans, dict) and are_pairs(spans.values()):
            whose = str(row.get("host")), str(row.get("netdev"))
            if self._still.setdefault(whose, spans) != spans:
                self._still[whose] = spans
            kept["link_errors"] = self._still[whose]
        return kept

    def _text(self, value: object) -> object:
        return self._texts.setdefault(value, value) if isinstance(value, str) else value

    def _keys(self, value: object) -> object:
        """Return an object with the names that all rows share."""
        return {self._text(key): one for key, one in value.items()} if isinstance(value, dict) else value
