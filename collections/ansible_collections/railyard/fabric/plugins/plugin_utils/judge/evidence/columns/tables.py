# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short rows of a sweep as columns: one table per kind of row, and a view of a single row.

A row takes fifteen times as much memory as its short line, and a sweep of 232 nodes has 1.7 million rows.
Here a value is a number in a column. Values that no rule reads from the columns stay in the file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, NDArray, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.column import (
    Column,
    narrow_integers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.lines import (
    Lines,
    parse_block,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Read = Callable[[tuple[int, int], str, int], dict[str, Any]]
"""Returns the complete row at a (position, length), given its test's id and its sequence."""

#: Keys that differ between the rows of a frame; the frame has all others.
_OWN = frozenset(
    ("id", "sequence", "started", "node", "peer", "round", "group", "other_end", "metrics", "counters",
     "window_s", "argv", "iterations", "samples", "raw")
)  # fmt: skip
_NESTED = frozenset(
    ("argv", "metrics", "counters", "other_rails", "link_errors", "claim", "exchange", "raw", "other_end")
)
#: Keys of a frame that must be strings.
_NAMED = ("check", "tool", "rail", "direction", "host", "end", "status", "proof")
#: The first values of all short rows.
SEQUENCE, AFTER_MS, OTHER, ROUND, IN_GROUP, HEARD, FIRST = range(7)
_FIRST_KINDS = (int, int, str, int, int, str)
#: Maximum number of tables; a sweep has fewer.
_MOST_TABLES = 64
#: Maximum time of a row after its frame, and of a frame.
_MOST_MS, _LAST_MS = 10**12, 2 * 10**14
#: Replaces a number in a column that is too large for it.
BEYOND = -(1 << 62)


class Kind(NamedTuple):
    """What the rows of a table have in common.

    Attributes:
        check: the test.
        end: client or server.
        metrics: names of the metrics that differ between rows.
        counters: names of the counters.
        windowed: rows have a window.
        words: number of command line arguments that differ between rows.
        counted: rows have iterations.
        sampled: samples of a counter follow.
        kinds: types of the values, without the samples: int, float or str.
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
    def counters_at(self) -> int:
        """Place of the counters' values: begin and growth of each."""
        return FIRST + len(self.metrics)

    @property
    def window_at(self) -> int:
        """Place of the window's two values, in ticks."""
        return self.counters_at + 2 * len(self.counters)

    @property
    def words_at(self) -> int:
        """Place of the command line arguments."""
        return self.window_at + 2 * self.windowed

    @property
    def iterations_at(self) -> int:
        """Place of the iterations."""
        return self.words_at + self.words

    @property
    def fixed(self) -> int:
        """Number of values, without the samples."""
        return self.iterations_at + self.counted

    def allows(self, types: tuple[type, ...]) -> bool:
        """Tell whether a row may have values of these types."""
        numbers, rest = types[FIRST : self.counters_at], types[self.counters_at :]
        words = rest[self.words_at - self.counters_at :][: self.words]
        others = (*rest[: self.words_at - self.counters_at], *rest[self.iterations_at - self.counters_at :])
        return (
            types[:FIRST] == _FIRST_KINDS
            and len(types) == self.fixed
            and set(numbers) <= {int, float}
            and set(words) <= {int, str}
            and set(others) <= {int}
        )

    def example(self) -> list[Any]:
        """Return example values of a row."""
        return [0, 0, "", 0, 0, "", *[0] * (self.fixed - FIRST)]


def _is_well_formed(frame: Row) -> bool:
    """Tell whether a frame has only strings and numbers, and strings in its command lines."""
    argvs = frame.get("argv")
    if not isinstance(argvs, list) or not all(isinstance(argv, list) for argv in argvs):
        return False
    words = [word for argv in argvs for word in argv]
    values = [value for key, value in frame.items() if key not in _NESTED]
    named = [frame.get(key) for key in _NAMED]
    return (
        all(isinstance(one, str) for one in named)
        and all(word is None or isinstance(word, str) for word in words)
        and not any(isinstance(value, (dict, list)) for value in values)
    )


class Table:
    """Rows with one `Kind`.

    Attributes:
        kind: the kind.
        frames: the frames of its rows.
        numbers: for each row, the number in its test's id.
        frame_of: for each row, the index of its frame.
        begin: for each row, the position of its line.
    """

    def __init__(self, kind: Kind, read: Read) -> None:
        self.kind = kind
        self.frames: list[short_rows.Frame] = []
        self.numbers, self.frame_of, self.begin, self._length = (Column(int) for _each in range(4))
        self._places: dict[bytes, int] = {}
        self._read = read
        self._columns = [Column(bytes if at == HEARD else one) for at, one in enumerate(kind.kinds)]
        #: The samples of all rows, concatenated, and their number per row.
        self._samples, self._sampled = Column(int), Column(int)
        self._samples_end: Ints | None = None
        self._items: list[Callable[[int], Any]] | None = None

    def __len__(self) -> int:
        return len(self.numbers.array())

    def add(
        self, lines: Lines, columns: Sequence[Sequence[Any]], known: Mapping[bytes, short_rows.Frame]
    ) -> None:
        """Append rows.

        Args:
            lines: their lines.
            columns: their values by column, without the samples.
            known: name -> frame.

        Raises:
            OverflowError: a number does not fit into 64 bits, and there are several rows.
        """
        fixed, places = self.kind.fixed, self._places
        window = range(self.kind.window_at, self.kind.words_at)
        made = []
        for at, (column, values) in enumerate(zip(self._columns, columns, strict=True)):
            try:
                made.append(column.convert(values))
            except OverflowError:
                # A window of 310 digits cannot be expanded to a complete row.
                if len(values) > 1 or at in window:
                    raise
                made.append(np.array([one if abs(one) < -BEYOND else BEYOND for one in values]))
        if self.kind.sampled:
            each = [values[fixed:] for values in lines.values]
            samples = self._samples.convert(list(chain.from_iterable(each)))
            self._sampled.add(np.array([len(one) for one in each], dtype=np.int32))
            self._samples.add(samples)
        for name in set(lines.frames) - places.keys():
            places[name] = len(self.frames)
            self.frames.append(known[name])
        for column, part in zip(self._columns, made, strict=True):
            column.add(part)
        self.frame_of.add(np.array([places[name] for name in lines.frames], dtype=np.int32))
        self.numbers.add(narrow_integers(lines.numbers))
        self.begin.add(lines.begin)
        self._length.add(lines.length.astype(np.int32))

    def column(self, place: int) -> NDArray[Any]:
        """Return the values at a place; for strings their numbers in `texts`."""
        return self._columns[place].array()

    def texts(self, place: int) -> list[str]:
        """Return the strings of a column, in the order of their numbers."""
        return list(self._columns[place].texts)

    def at(self, place: int, index: int) -> Any:
        """Return a row's number at a place."""
        if self._items is None:
            self._items = [column.array().item for column in self._columns]
        return self._items[place](index)

    def samples(self, index: int) -> Sequence[int]:
        """Return a row's samples in the form of a short row."""
        if self._samples_end is None:
            self._samples_end = np.cumsum(self._sampled.array(), dtype=np.int64)
        begin = self._samples_end[index - 1] if index else 0
        found: list[int] = self._samples.array()[begin : self._samples_end[index]].tolist()
        return found

    def row(self, index: int) -> ShortRow:
        """Return a row."""
        frame = self.frames[self.frame_of.array().item(index)].row
        return ShortRow(self, index, frame, f"m{self.numbers.at(index):05d}")

    def read_complete(self, index: int, identity: str) -> dict[str, Any]:
        """Return the complete row from the folder."""
        place = self.begin.at(index), self._length.at(index)
        return self._read(place, identity, self.at(SEQUENCE, index))


class ShortRow(Mapping[str, Any]):
    """A row of a table, with the interface of a complete row; missing values are read from the folder."""

    __slots__ = ("_cache", "_id", "frame", "index", "table")

    def __init__(self, table: Table, index: int, frame: Row, identity: str) -> None:
        self.table, self.index, self.frame, self._id = table, index, frame, identity
        #: Values that were already read from the columns.
        self._cache: dict[str, Any] = {}

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        if key not in _OWN:
            return self.frame.get(key, default)
        if key == "id":
            return self._id
        if key == "sequence":
            sequence = self.table.at(SEQUENCE, self.index)
            return sequence if sequence != BEYOND else self.read_complete()[key]
        if key == "started":
            frame = self.table.frames[self.table.frame_of.at(self.index)]
            return short_rows.timestamp(frame.begun + self.table.at(AFTER_MS, self.index))
        if (found := self._cache.get(key)) is None:
            found = self._cache[key] = self._read_columns(key)
        return self.read_complete().get(key, default) if found is None else found

    def _read_columns(self, key: str) -> Any:
        """Return the value of a key from the columns, None if they do not have all of it."""
        table, index = self.table, self.index
        kind = table.kind
        if key == "metrics":
            metrics = dict(self.frame["metrics"][0])
            for place, name in enumerate(kind.metrics, FIRST):
                value = table.at(place, index)
                if not math.isfinite(value) or value == BEYOND:
                    return None
                metrics[name] = value
            return metrics
        if key == "counters":
            values = [table.at(place, index) for place in range(kind.counters_at, kind.window_at)]
            spans = zip(kind.counters, values[::2], values[1::2], strict=True)
            return None if BEYOND in values else {name: [begin, begin + by] for name, begin, by in spans}
        if key == "window_s" and kind.windowed:
            ticks = [table.at(kind.window_at + side, index) for side in (0, 1)]
            return [tick / short_rows.TICKS for tick in ticks]
        if key == "samples" and kind.sampled:
            begins = "rx_bytes" in kind.counters
            place = kind.counters_at + 2 * kind.counters.index("rx_bytes") if begins else 0
            before = table.at(place, index) if begins else 0
            return None if before == BEYOND else short_rows.samples(before, table.samples(index))
        return None

    def read_complete(self) -> dict[str, Any]:
        """Return the complete row from the folder.

        Raises:
            RunFolderError: it cannot be read, or has changed.
        """
        return self.table.read_complete(self.index, self._id)

    def __getitem__(self, key: str) -> Any:
        found = self.get(key, self)
        if found is self:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.read_complete())

    def __len__(self) -> int:
        return len(self.read_complete())


def find_shared_values(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a mapping with the values that all rows of a row's frame have in common."""
    return row.frame if isinstance(row, ShortRow) else row


class Tables:
    """Collects the lines of valid short rows.

    Args:
        frames: collects their frames.
        read: returns a complete row of the file.
    """

    def __init__(self, frames: short_rows.Frames, read: Read) -> None:
        self.frames, self._read = frames, read
        self._tables: dict[Kind, Table] = {}
        #: Name of a frame -> the frame, and the layout of its rows.
        self._known: dict[bytes, short_rows.Frame] = {}
        self._layouts: dict[bytes, Kind] = {}
        self._table_of: dict[tuple[Kind, tuple[type, ...]], Table] = {}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def in_file(self) -> Iterator[tuple[int, ShortRow]]:
        """Yield all rows with their positions, in the order of the file."""
        every = list(self)
        begin = [table.begin.array() for table in every]
        table_of = np.repeat(np.arange(len(every)), [len(table) for table in every])
        index = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(table)) for table in every)])
        places = np.concatenate([np.zeros(0, np.int64), *begin])
        for at in np.argsort(places).tolist():
            yield int(places[at]), every[table_of[at]].row(int(index[at]))

    def take(self, begin: int, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Collect rows from a block at a position; yield the lines that must be parsed separately.

        Only rows that `Frames.whole` can expand are collected.
        """
        lines = parse_block(block, begin)
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
        """Collect rows with one layout; yield the places of lines that are not such rows."""
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
                pass  # a number does not fit into 64 bits
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
        if not _is_well_formed(row):
            return None
        try:
            metrics, counters = tuple(row["metrics"][1]), tuple(row["counters"])
            words = sum(word is None for argv in row["argv"] for word in argv)
            parts = bool(row["window_s"]), words, bool(row["iterations"]), bool(row["samples"])
            kind = Kind(row["check"], row["end"], metrics, counters, *parts, ())
            # Any other fault of the frame is a fault of each of its rows.
            whole = self.frames.expand({"as": name.decode(), "id": "m00000", "v": kind.example()})
        except (TypeError, LookupError, ValueError):
            return None
        if whole is None:
            return None
        self._known[name], self._layouts[name] = frame, kind
        return kind

    def _table(self, kind: Kind, types: tuple[type, ...]) -> Table | None:
        """Return the table for values of these types, None if they are not permitted."""
        known = kind._replace(kinds=types)
        found = self._tables.get(known)
        if found is None and kind.allows(types) and len(self._tables) < _MOST_TABLES:
            found = self._tables[known] = Table(known, self._read)
        return found
