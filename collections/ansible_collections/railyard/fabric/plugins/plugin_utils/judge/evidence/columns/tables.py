# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short rows of a sweep as columns: a table for each kind of row, and a row that is read when asked.

What Python makes of a row is fifteen times as long as its short line, and a sweep of 232 nodes has 1.7
million of them. Here a value is a number in a column. What nobody reads from the columns, samples above all,
stays in the file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.column import (
    Column,
    narrow,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.lines import Lines, parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Read = Callable[[tuple[int, int], str, int], dict[str, Any]]
"""Returns the whole row whose line begins there and is so long, given its test's id and its sequence."""

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
#: More tables than these are no sweep's.
_MOST_TABLES = 64
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
            and len(types) == self.fixed
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
        numbers: of its rows, those in the tests' ids.
        frame_of: of its rows, which of the frames.
        begin: of its rows, where their lines begin in the file.
    """

    def __init__(self, kind: Kind, read: Read) -> None:
        self.kind = kind
        self.frames: list[short_rows.Frame] = []
        self.numbers, self.frame_of, self.begin, self._length = (Column(int) for _each in range(4))
        self._places: dict[bytes, int] = {}
        self._read = read
        self._columns = [Column(bytes if at == HEARD else one) for at, one in enumerate(kind.kinds)]
        #: All rows' samples one after the other, and how many each row has.
        self._samples, self._sampled = Column(int), Column(int)
        self._samples_end: NDArray[np.int64] | None = None
        self._items: list[Callable[[int], Any]] | None = None

    def __len__(self) -> int:
        return len(self.numbers.array())

    def add(
        self, lines: Lines, columns: Sequence[Sequence[Any]], known: Mapping[bytes, short_rows.Frame]
    ) -> None:
        """Take rows.

        Args:
            lines: theirs.
            columns: their values but for the samples, by the column.
            known: their frames.

        Raises:
            OverflowError: one of the numbers is none of 64 bits, in a row that is not alone.
        """
        fixed, places = self.kind.fixed, self._places
        window = range(self.kind.of_window, self.kind.of_words)
        made = []
        for at, (column, values) in enumerate(zip(self._columns, columns, strict=True)):
            try:
                made.append(column.made_of(values))
            except OverflowError:
                # A window of 310 digits is none that a row can be made whole of.
                if len(values) > 1 or at in window:
                    raise
                made.append(np.array([one if abs(one) < -BEYOND else BEYOND for one in values]))
        if self.kind.sampled:
            each = [values[fixed:] for values in lines.values]
            samples = self._samples.made_of(list(chain.from_iterable(each)))
            self._sampled.add(np.array([len(one) for one in each], dtype=np.int32))
            self._samples.add(samples)
        for name in set(lines.frames) - places.keys():
            places[name] = len(self.frames)
            self.frames.append(known[name])
        for column, part in zip(self._columns, made, strict=True):
            column.add(part)
        self.frame_of.add(np.array([places[name] for name in lines.frames], dtype=np.int32))
        self.numbers.add(narrow(lines.numbers))
        self.begin.add(lines.begin)
        self._length.add(lines.length.astype(np.int32))

    def column(self, place: int) -> NDArray[Any]:
        """Return the values at a place; of texts their numbers in `texts`."""
        return self._columns[place].array()

    def texts(self, place: int) -> list[str]:
        """Return the texts of a column, in the order of their numbers."""
        return list(self._columns[place].texts)

    def at(self, place: int, index: int) -> Any:
        """Return a row's number at a place."""
        if self._items is None:
            self._items = [column.array().item for column in self._columns]
        return self._items[place](index)

    def samples(self, index: int) -> Sequence[int]:
        """Return a row's samples, as a short row has them."""
        if self._samples_end is None:
            self._samples_end = np.cumsum(self._sampled.array(), dtype=np.int64)
        begin = self._samples_end[index - 1] if index else 0
        found: list[int] = self._samples.array()[begin : self._samples_end[index]].tolist()
        return found

    def row(self, index: int) -> ShortRow:
        """Return a row."""
        frame = self.frames[self.frame_of.array().item(index)].row
        return ShortRow(self, index, frame, f"m{self.numbers.at(index):05d}")

    def whole(self, index: int, identity: str) -> dict[str, Any]:
        """Return a row as it stands in the folder."""
        place = self.begin.at(index), self._length.at(index)
        return self._read(place, identity, self.at(SEQUENCE, index))


class ShortRow(Mapping[str, Any]):
    """A row of a table, which looks like the whole row; what is not at hand is read from the folder."""

    __slots__ = ("_cache", "_id", "frame", "index", "table")

    def __init__(self, table: Table, index: int, frame: Row, identity: str) -> None:
        self.table, self.index, self.frame, self._id = table, index, frame, identity
        #: What was made of columns before.
        self._cache: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return what the row says of a key."""
        if key not in _OWN:
            return self.frame.get(key, default)
        if key == "id":
            return self._id
        if key == "sequence":
            sequence = self.table.at(SEQUENCE, self.index)
            return sequence if sequence != BEYOND else self.whole()[key]
        if key == "started":
            frame = self.table.frames[self.table.frame_of.at(self.index)]
            return short_rows.timestamp(frame.begun + self.table.at(AFTER_MS, self.index))
        if (made := self._cache.get(key)) is None:
            made = self._cache[key] = self._made(key)
        return self.whole().get(key, default) if made is None else made

    def _made(self, key: str) -> Any:
        """Return what the columns say of a key, None where they do not say it all."""
        table, index = self.table, self.index
        kind = table.kind
        if key == "metrics":
            said = dict(self.frame["metrics"][0])
            for place, name in enumerate(kind.metrics, FIRST):
                value = table.at(place, index)
                if not math.isfinite(value) or value == BEYOND:
                    return None
                said[name] = value
            return said
        if key == "counters":
            values = [table.at(place, index) for place in range(kind.of_counters, kind.of_window)]
            spans = zip(kind.counters, values[::2], values[1::2], strict=True)
            return None if BEYOND in values else {name: [begin, begin + by] for name, begin, by in spans}
        if key == "window_s" and kind.windowed:
            ticks = [table.at(kind.of_window + side, index) for side in (0, 1)]
            return [tick / short_rows.TICKS for tick in ticks]
        if key == "samples" and kind.sampled:
            begins = "rx_bytes" in kind.counters
            place = kind.of_counters + 2 * kind.counters.index("rx_bytes") if begins else 0
            before = table.at(place, index) if begins else 0
            return None if before == BEYOND else short_rows.samples(before, table.samples(index))
        return None

    def whole(self) -> dict[str, Any]:
        """Return the row as it stands in the folder.

        Raises:
            RunFolderError: it cannot be read, or is another one by now.
        """
        return self.table.whole(self.index, self._id)

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
        #: Frame's name -> the frame, and how its rows are laid out.
        self._known: dict[bytes, short_rows.Frame] = {}
        self._layouts: dict[bytes, Kind] = {}
        self._table_of: dict[tuple[Kind, tuple[type, ...]], Table] = {}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def in_file(self) -> Iterator[tuple[int, ShortRow]]:
        """Yield all rows, and where they begin, in the order of the file."""
        every = list(self)
        begin = [table.begin.array() for table in every]
        table_of = np.repeat(np.arange(len(every)), [len(table) for table in every])
        index = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(table)) for table in every)])
        places = np.concatenate([np.zeros(0, np.int64), *begin])
        for at in np.argsort(places).tolist():
            yield int(places[at]), every[table_of[at]].row(int(index[at]))

    def take(self, begin: int, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Take rows, whose lines begin there in the file; yield the lines that need more care.

        A row that is taken is one that `Frames.whole` makes whole.
        """
        lines = parse(block, begin)
        if lines is None:
            each = list(io.BytesIO(block))
            for line in each:
                if len(each) == 1:
                    yield begin, line
                else:
                    yield from self.take(begin, line)
                begin += len(line)
            return
        alike: dict[Kind | None, list[int]] = {}
        layouts = self._layouts
        for place, name in enumerate(lines.frames):
            alike.setdefault(layouts.get(name) or self._layout(name), []).append(place)
        for kind, places in alike.items():
            for place in self._take(kind, lines, places) if kind else places:
                at = int(lines.begin[place]) - begin
                yield begin + at, block[at : at + int(lines.length[place])]

    def _take(self, kind: Kind, lines: Lines, places: Sequence[int]) -> Iterator[int]:
        """Take rows of frames that are laid out alike; yield the places of those that are not such rows."""
        mine, fixed = lines.only(places), kind.fixed
        columns = list(islice(zip(*mine.values, strict=False), fixed))
        types = [set(map(type, values)) for values in columns]
        more = chain.from_iterable(values[fixed:] for values in mine.values)
        if all(len(one) == 1 for one in types) and set(map(type, more)) <= ({int} if kind.sampled else set()):
            table = self._table(kind, tuple(one.pop() for one in types))
            try:
                if table is not None and all(-_MOST_MS < late < _MOST_MS for late in columns[AFTER_MS]):
                    table.add(mine, columns, self._known)
                    return
            except OverflowError:
                pass  # one of them has such a number
        if len(places) == 1:
            yield from places
            return
        alike: dict[tuple[type, ...], list[int]] = {}
        for place in places:
            alike.setdefault(tuple(map(type, lines.values[place][:fixed])), []).append(place)
        for group in alike.values() if len(alike) > 1 else ([place] for place in places):
            yield from self._take(kind, lines, group)

    def _layout(self, name: bytes) -> Kind | None:
        try:
            frame = self.frames.frame(name.decode())
        except ValueError:
            return None
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
            whole = self.frames.expand({"as": name.decode(), "id": "m00000", "v": kind.example()})
        except (TypeError, LookupError, ValueError):
            return None
        if whole is None:
            return None
        self._known[name], self._layouts[name] = frame, kind
        return kind

    def _table(self, kind: Kind, types: tuple[type, ...]) -> Table | None:
        """Return the table of rows whose values are of these types, None where they may not be."""
        known = kind._replace(kinds=types)
        found = self._tables.get(known)
        if found is None and kind.allows(types) and len(self._tables) < _MOST_TABLES:
            found = self._tables[known] = Table(known, self._read)
        return found
