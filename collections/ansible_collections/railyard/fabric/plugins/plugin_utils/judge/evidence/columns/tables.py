# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short rows of a sweep as columns: a table for each kind of row, and a row that is read when asked.

What Python makes of a row is fifteen times as long as its short line, and a sweep of 232 nodes has 1.7
million of them. Here a value is a number in a column. What nobody reads from the columns, samples above all,
stays in the file.
"""

from __future__ import annotations

import json
import math
import re
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Read = Callable[[tuple[int, int], str, int], dict[str, Any]]
"""Returns the whole row whose line begins there and is so long, given its test's id and its sequence."""

#: As `short_rows.Shortener` writes it, without a text that has to be read with care.
_LINE = re.compile(rb'\{"as":"([^"\\]+)","id":"(.[0-9]{1,18})","v":(\[[^][{}\\]*\])\}\n')
#: What a row has of its own; all else is its frame's.
_OWN = frozenset(
    ("id", "sequence", "started", "node", "peer", "round", "group", "other_end", "metrics", "counters",
     "window_s", "argv", "iterations", "samples", "raw")
)  # fmt: skip
_NESTED = frozenset(
    ("argv", "metrics", "counters", "other_rails", "link_errors", "claim", "exchange", "raw", "other_end")
)
#: What a frame has to say in words.
_NAMED = ("check", "tool", "rail", "direction", "host", "end", "status", "proof")
#: The first values of all short rows.
SEQUENCE, AFTER_MS, OTHER, ROUND, IN_GROUP, HEARD, FIRST = range(7)
_FIRST_KINDS = (int, int, str, int, int, str)
#: So many rows are turned into columns at once. More tables than these are no sweep's.
_CHUNK, _MOST_TABLES = 4096, 64
#: Texts of types that are known at once. What a row is later than its frame, and the last time of a frame.
_MOST_KNOWN, _MOST_MS, _LAST_MS = 1 << 12, 10**12, 2 * 10**14
#: Stands in a column for a number beyond all that is counted.
BEYOND = -(1 << 62)


class Kind(NamedTuple):
    """What rows of a table have in common.

    Attributes:
        check: the test.
        end: client or server.
        metrics: names of those that a row has of its own.
        counters: names of those that it brings.
        windowed: it has a window.
        words: how many words of its command lines are its own.
        counted: it has iterations.
        sampled: samples of a counter follow.
        kinds: of its values, but for the samples: int, float or str.
    """

    check: str
    end: str
    metrics: tuple[str, ...]
    counters: tuple[str, ...]
    windowed: bool
    words: int
    counted: bool
    sampled: bool
    kinds: tuple[type, ...]

    @property
    def of_counters(self) -> int:
        """Where the counters' values stand: each its begin and its growth."""
        return FIRST + len(self.metrics)

    @property
    def of_window(self) -> int:
        """Where the window's two values stand, in ticks."""
        return self.of_counters + 2 * len(self.counters)

    @property
    def of_words(self) -> int:
        """Where the words stand."""
        return self.of_window + 2 * self.windowed

    @property
    def of_iterations(self) -> int:
        """Where the iterations stand."""
        return self.of_words + self.words

    @property
    def fixed(self) -> int:
        """How many values there are, but for the samples."""
        return self.of_iterations + self.counted

    def allows(self, types: tuple[type, ...]) -> bool:
        """Tell whether values of these types are those of a row."""
        numbers, rest = types[FIRST : self.of_counters], types[self.of_counters :]
        words = rest[self.of_words - self.of_counters :][: self.words]
        others = (*rest[: self.of_words - self.of_counters], *rest[self.of_iterations - self.of_counters :])
        return (
            types[:FIRST] == _FIRST_KINDS
            and (len(types) == self.fixed or (self.sampled and len(types) > self.fixed))
            and set(numbers) <= {int, float}
            and set(words) <= {int, str}
            and set(others) <= {int}
        )

    def example(self) -> list[Any]:
        """Return values of a row."""
        return [0, 0, "", 0, 0, "", *[0] * (self.fixed - FIRST)]


def _is_plain(frame: Row) -> bool:
    """Tell whether what a frame says, but for a few, are words and numbers, and its command lines words."""
    argvs = frame.get("argv")
    if not isinstance(argvs, list) or not all(isinstance(argv, list) for argv in argvs):
        return False
    words = [word for argv in argvs for word in argv]
    said = [value for key, value in frame.items() if key not in _NESTED]
    named = [frame.get(key) for key in _NAMED]
    return (
        all(isinstance(one, str) for one in named)
        and all(word is None or isinstance(word, str) for word in words)
        and not any(isinstance(value, (dict, list)) for value in said)
    )


class Table:
    """Rows of one kind.

    Attributes:
        kind: which.
        frames: the frames of its rows.
        ids: of its rows, the tests' ids.
        frame_of: of its rows, which of the frames.
    """

    def __init__(self, kind: Kind, read: Read) -> None:
        self.kind = kind
        self.frames: list[short_rows.Frame] = []
        self.ids: list[str] = []
        self.frame_of = array("i")
        self._numbers: dict[str, int] = {}
        self._read = read
        self._places, self._lengths = array("q"), array("i")
        self._columns: list[Any] = [
            array("q") if one is int else array("d") if one is float else [] for one in kind.kinds
        ]
        self._window, self._fixed = slice(kind.of_window, kind.of_words), kind.fixed
        #: All rows' samples one after the other, and where each row's end.
        self._samples, self._samples_end = array("q"), array("q")
        self._chunk: list[Sequence[Any]] = []
        self._turned = 0
        #: Texts of these columns say the same in many rows.
        self._texts: dict[str, str] = {}

    def add(
        self, name: str, frame: short_rows.Frame, identity: str, values: Sequence[Any], at: tuple[int, int]
    ) -> ShortRow | None:
        """Take a row: its frame and the frame's name, the id, its values, and its line; None if it is odd."""
        try:
            # A window of 310 digits is none that a row can be made whole of.
            array("q", values[self._window])
            samples = array("q", values[self._fixed :])
        except OverflowError:
            return None
        if self.kind.sampled:
            self._samples.extend(samples)
            self._samples_end.append(len(self._samples))
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self.frames)
            self.frames.append(frame)
        self.ids.append(identity)
        self.frame_of.append(number)
        self._places.append(at[0])
        self._lengths.append(at[1])
        self._chunk.append(values)
        if len(self._chunk) >= _CHUNK:
            self._turn()
        return ShortRow(self, len(self.ids) - 1, frame.row, identity)

    def column(self, place: int) -> Any:
        """Return the values at a place: an array of numbers, or a list of texts."""
        if self._chunk:
            self._turn()
        return self._columns[place]

    def samples(self, index: int) -> Sequence[int]:
        """Return a row's samples, as a short row has them."""
        return self._samples[self._samples_end[index - 1] if index else 0 : self._samples_end[index]]

    def whole(self, index: int) -> dict[str, Any]:
        """Return a row as it stands in the folder."""
        place = self._places[index], self._lengths[index]
        return self._read(place, self.ids[index], self.column(SEQUENCE)[index])

    def _turn(self) -> None:
        texts = self._texts
        # Whatever follows are samples.
        for place, column in enumerate(self._columns):
            values = [row[place] for row in self._chunk]
            if not isinstance(column, list):
                try:
                    column.extend(values)
                except OverflowError:
                    del column[self._turned :]
                    column.extend(one if abs(one) < -BEYOND else BEYOND for one in values)
            elif place == HEARD:
                column.extend(values)
            else:
                column.extend([texts.setdefault(one, one) for one in values])
        self._turned += len(self._chunk)
        self._chunk.clear()


class ShortRow(Mapping[str, Any]):
    """A row of a table, which looks like the whole row; what is not at hand is read from the folder."""

    __slots__ = ("_id", "frame", "index", "table")

    def __init__(self, table: Table, index: int, frame: Row, identity: str) -> None:
        self.table, self.index, self.frame, self._id = table, index, frame, identity

    def get(self, key: str, default: Any = None) -> Any:
        """Return what the row says of a key."""
        if key not in _OWN:
            return self.frame.get(key, default)
        if key == "id":
            return self._id
        if key == "sequence":
            sequence = self.table.column(SEQUENCE)[self.index]
            return sequence if sequence != BEYOND else self.whole()[key]
        if key == "started":
            frame = self.table.frames[self.table.frame_of[self.index]]
            return short_rows.timestamp(frame.begun + self.table.column(AFTER_MS)[self.index])
        made = self._made(key)
        return self.whole().get(key, default) if made is None else made

    def _made(self, key: str) -> Any:
        """Return what the columns say of a key, None where they do not say it all."""
        table, index = self.table, self.index
        kind = table.kind
        if key == "metrics":
            said = dict(self.frame["metrics"][0])
            for place, name in enumerate(kind.metrics, FIRST):
                value = table.column(place)[index]
                if not math.isfinite(value) or value == BEYOND:
                    return None
                said[name] = value
            return said
        if key == "counters":
            values = [table.column(place)[index] for place in range(kind.of_counters, kind.of_window)]
            spans = zip(kind.counters, values[::2], values[1::2], strict=True)
            return None if BEYOND in values else {name: [begin, begin + by] for name, begin, by in spans}
        if key == "window_s" and kind.windowed:
            ticks = [table.column(kind.of_window + side)[index] for side in (0, 1)]
            return [tick / short_rows.TICKS for tick in ticks]
        if key == "samples" and kind.sampled:
            begins = "rx_bytes" in kind.counters
            place = kind.of_counters + 2 * kind.counters.index("rx_bytes") if begins else 0
            before = table.column(place)[index] if begins else 0
            return None if before == BEYOND else short_rows.samples(before, table.samples(index))
        return None

    def whole(self) -> dict[str, Any]:
        """Return the row as it stands in the folder.

        Raises:
            RunFolderError: it cannot be read, or is another one by now.
        """
        return self.table.whole(self.index)

    def __getitem__(self, key: str) -> Any:
        found = self.get(key, self)
        if found is self:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())


def shared(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where the values of a row stand that all rows of its frame have alike: a dict, if possible."""
    return row.frame if isinstance(row, ShortRow) else row


class Tables:
    """Takes the lines of short rows, as far as they are what such a line ought to be.

    Args:
        frames: takes those that are read.
        read: returns a whole row of the file.
    """

    def __init__(self, frames: short_rows.Frames, read: Read) -> None:
        self.frames, self._read = frames, read
        self._tables: dict[Kind, Table] = {}
        #: Frame's name -> how its rows are laid out; that and the types of a row's values -> its table.
        self._layouts: dict[str, tuple[short_rows.Frame, int]] = {}
        self._kinds: dict[Kind, int] = {}
        self._table_of: dict[tuple[int, tuple[type, ...]], Table] = {}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def row(self, line: bytes, at: int) -> ShortRow | None:
        """Return the row of a line that begins there; None where it has to be read with more care.

        A row that is returned is one that `Frames.whole` makes whole.
        """
        found = _LINE.fullmatch(line)
        if found is None:
            return None
        try:
            name, identity = found[1].decode(), sys.intern(found[2].decode())
            values = json.loads(found[3].decode())
        except ValueError:
            return None
        layout = self._layouts.get(name)
        if layout is None and (layout := self._layout(name)) is None:
            return None
        frame, kind = layout
        types = kind, tuple(map(type, values))
        table = self._table_of.get(types) or self._table(*types)
        if table is None or not -_MOST_MS < values[AFTER_MS] < _MOST_MS:
            return None
        return table.add(name, frame, identity, values, (at, len(line)))

    def _layout(self, name: str) -> tuple[short_rows.Frame, int] | None:
        frame = self.frames.frame(name)
        if frame is None or not 0 <= frame.begun < _LAST_MS:
            return None
        row = frame.row
        if not _is_plain(row):
            return None
        try:
            metrics, counters = tuple(row["metrics"][1]), tuple(row["counters"])
            words = sum(word is None for argv in row["argv"] for word in argv)
            parts = bool(row["window_s"]), words, bool(row["iterations"]), bool(row["samples"])
            kind = Kind(row["check"], row["end"], metrics, counters, *parts, ())
            # Whatever else may be wrong with the frame is wrong with each of its rows.
            sound = self.frames.whole({"as": name, "id": "m00000", "v": kind.example()}) is not None
        except (TypeError, LookupError, ValueError):
            return None
        if not sound:
            return None
        self._layouts[name] = found = frame, self._kinds.setdefault(kind, len(self._kinds))
        return found

    def _table(self, number: int, types: tuple[type, ...]) -> Table | None:
        """Return the table of rows whose values are of these types, None where they may not be."""
        kind = list(self._kinds)[number]
        fixed = types[: kind.fixed]
        known = kind._replace(kinds=fixed)
        if not kind.allows(types) or (known not in self._tables and len(self._tables) >= _MOST_TABLES):
            return None
        table = self._tables.setdefault(known, Table(known, self._read))
        if len(self._table_of) < _MOST_KNOWN:
            self._table_of[number, types] = table
        return table
