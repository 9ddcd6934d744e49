# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed rows of a sweep as arrays, without an object for each row. Pure."""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import GrowingArray, Ints, NDArray, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.spans import Added
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


class File(Protocol):
    """Reads the file of the rows again."""

    def read_packed(self, place: tuple[int, int], at: int, identity: str, sequence: int) -> Row:
        """Return a row in full, given its line's position and length, its place in it, and what it must be.

        Raises:
            RunFolderError: it cannot be read, or has changed.
        """

    def read_line(self, place: tuple[int, int]) -> bytes:
        """Return the bytes at a position and length.

        Raises:
            RunFolderError: they cannot be read.
        """

    def changed(self) -> Exception:
        """Return the error for a file that has changed."""


#: Keys that differ between the rows of a frame; the frame has all others.
_OWN = frozenset(
    ("id", "sequence", "started", "node", "peer", "round", "group", "other_end", "metrics", "counters",
     "window_s", "argv", "iterations", "samples", "raw")
)  # fmt: skip
_TYPES = {"I": "<u4", "H": "<u2", "i": "<i4", "Q": "<u8", "q": "<i8", "d": "<f8"}


class Kind(NamedTuple):
    """What the rows of a table have in common.

    Attributes:
        check: the test.
        end: client or server.
        columns: their columns.
        ports: for each command line argument that differs between rows, whether it is a port.
    """

    check: str
    end: str
    columns: tuple[packed_rows.Column, ...]
    ports: tuple[bool, ...]

    def _named(self, begin: str) -> tuple[str, ...]:
        return tuple(one.name.removeprefix(begin) for one in self.columns if one.name.startswith(begin))

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of the metrics that differ between rows."""
        return self._named("metric ")

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of the counters."""
        return self._named("before ")

    def has(self, name: str) -> bool:
        """Tell whether there is a column with this name."""
        return any(one.name == name for one in self.columns)


class Table:
    """Rows with one `Kind`. Number, sequence and metrics are kept; other columns are read again when used.

    Attributes:
        kind: the kind.
        doubtful: the hosts with counters that may overlap, of all tables.
        frames: the frames of its rows.
        texts: text -> its number; `other` and words are numbers of texts.
    """

    def __init__(self, kind: Kind, doubtful: Collection[str], file: File) -> None:
        self.doubtful = doubtful
        self.kind = kind
        self.frames: list[packed_rows.Frame] = []
        self.texts: dict[str, int] = {}
        self._file = file
        self._places: dict[tuple[bytes, bytes], int] = {}
        self._dtype = np.dtype([_field(one) for one in kind.columns])
        self._kept = {
            name: GrowingArray() for name in ("number", "sequence", *map("metric {}".format, kind.metrics))
        }
        self._frame_of, self._other = GrowingArray(), GrowingArray()
        self._words = [GrowingArray() for _each in kind.ports]
        #: For each line its first row, its position and its length.
        self._first, self._begin, self._length = GrowingArray(), GrowingArray(), GrowingArray()

    def __len__(self) -> int:
        return len(self.numbers)

    def add(
        self, lines: Sequence[Line], find: Callable[[bytes, bytes], packed_rows.Frame | None]
    ) -> Added | None:
        """Append the rows of lines; return None, and append nothing, if one of them is malformed.

        Args:
            lines: their lines.
            find: returns the frame of a host and a packed row, None unless it is one of this kind.
        """
        rows = np.frombuffer(b"".join(one.data for one in lines), dtype=self._dtype)
        counts = np.array([one.rows for one in lines])
        # For each line, the place of its host, and where its words are among all words.
        hosts: dict[bytes, int] = {}
        host = np.repeat([hosts.setdefault(one.host, len(hosts)) for one in lines], counts)
        which, frame_of = np.unique(host.astype(np.int64) << 32 | rows["frame"], return_inverse=True)
        names = list(hosts)
        keys = [(names[one >> 32], (one & 0xFFFFFFFF).to_bytes(4, "little")) for one in which.tolist()]
        frames = [find(*key) for key in keys]
        lengths = np.array([len(one.words) for one in lines])
        most, before = np.repeat(lengths, counts), np.repeat(np.cumsum(lengths) - lengths, counts)
        columns = [rows[name] for name in ("other", *(f"word {at}" for at in range(len(self._words))))]
        if None in frames or any((column >= most).any() for column in columns):
            return None
        for key, frame in zip(keys, frames, strict=True):
            if key not in self._places and frame is not None:
                self._places[key] = len(self.frames)
                self.frames.append(frame)
        texts = self.texts
        numbers = np.array([texts.setdefault(word, len(texts)) for one in lines for word in one.words])
        for grown, column in zip((self._other, *self._words), columns, strict=True):
            grown.add(numbers[before + column].astype(np.int32))
        index = np.array([self._places[key] for key in keys], dtype=np.int32)[frame_of]
        begin = np.array([one.begin for one in lines], dtype=np.int64)
        self._frame_of.add(index)
        self._first.add((len(self) + np.cumsum(counts) - counts).astype(np.int32))
        self._begin.add(begin)
        self._length.add(np.array([one.length for one in lines], dtype=np.int32))
        for name, grown in self._kept.items():
            grown.add(rows[name])
        return Added(self.frames, self.kind.counters, rows, index, np.repeat(begin, counts))

    @property
    def numbers(self) -> NDArray[Any]:
        """For each row, the number in its test's id."""
        return self.column("number")

    @property
    def frame_of(self) -> NDArray[Any]:
        """For each row, the index of its frame."""
        return self._frame_of.array()

    @property
    def other(self) -> NDArray[Any]:
        """For each row, the number of the other end's name in `texts`."""
        return self._other.array()

    @property
    def begin(self) -> Ints:
        """For each row, the position of its line."""
        counts = np.diff(np.append(self._first.array(), len(self)))
        begin: Ints = np.repeat(self._begin.array(), counts)
        return begin

    def column(self, name: str) -> NDArray[Any]:
        """Return number, sequence or a metric of all rows."""
        return self._kept[name].array()

    def word(self, number: int) -> NDArray[Any]:
        """Return the numbers in `texts` of a command line argument that differs between rows."""
        return self._words[number].array()

    def rows(self, indices: Any) -> NDArray[Any]:
        """Return all columns of rows, from the folder.

        Raises:
            RunFolderError: they cannot be read, or have changed.
        """
        lines, which = np.unique(self._line_of(indices), return_inverse=True)
        places = zip(self._begin.array()[lines].tolist(), self._length.array()[lines].tolist(), strict=True)
        found = [_decode(self._file.read_line(place)) for place in places]
        size = self._dtype.itemsize
        before = np.cumsum([0, *(len(one) // size for one in found)])
        mine = before[:-1][which] + indices - self._first.array()[lines[which]]
        if any(len(one) % size for one in found) or not (mine < before[1:][which]).all():
            raise self._file.changed()
        rows: NDArray[Any] = np.frombuffer(b"".join(found), dtype=self._dtype)[mine]
        if not all(np.array_equal(rows[name], self.column(name)[indices]) for name in ("number", "sequence")):
            raise self._file.changed()
        return rows

    def _line_of(self, places: Any) -> Any:
        return np.searchsorted(self._first.array(), places, side="right") - 1

    def row(self, index: int) -> PackedRow:
        """Return a row."""
        frame = self.frames[self.frame_of.item(index)].row
        return PackedRow(self, index, frame)

    def values(self, index: int) -> dict[str, float]:
        """Return number, sequence and metrics of a row as Python numbers."""
        return {name: column.array().item(index) for name, column in self._kept.items()}

    def read_complete(self, index: int) -> Row:
        """Return the complete row from the folder."""
        line = int(self._line_of(index))
        place = self._begin.array().item(line), self._length.array().item(line)
        identity = packed_rows.identity_of(self.numbers.item(index))
        at, sequence = index - self._first.array().item(line), self.column("sequence").item(index)
        return self._file.read_packed(place, at, identity, sequence)


def _field(column: packed_rows.Column) -> tuple[str, str] | tuple[str, str, tuple[int]]:
    """Return a column for `np.dtype`."""
    kind = _TYPES[column.type]
    return (
        (column.name, kind, (column.values,)) if column.name in packed_rows.SAMPLES else (column.name, kind)
    )


def _decode(line: bytes) -> bytes:
    """Return the packed rows of a line; nothing if it is none."""
    _before, _mark, rest = line.partition(b'"packed":"')
    try:
        return base64.b64decode(rest.partition(b'"')[0], validate=True)
    except ValueError:
        return b""


class PackedRow(Mapping[str, Any]):
    """A row of a table, with the interface of a complete row; what is not kept is read from the folder."""

    __slots__ = ("frame", "index", "table")

    def __init__(self, table: Table, index: int, frame: Row) -> None:
        self.table, self.index, self.frame = table, index, frame

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        if key not in _OWN:
            return self.frame.get(key, default)
        if key == "id":
            return packed_rows.identity_of(self.table.numbers.item(self.index))
        if key == "sequence":
            return self.table.column(key).item(self.index)
        return self.read_complete().get(key, default)

    def read_complete(self) -> Row:
        """Return the complete row from the folder.

        Raises:
            RunFolderError: it cannot be read, or has changed.
        """
        return self.table.read_complete(self.index)

    def __getitem__(self, key: str) -> Any:
        found = self.get(key, self)
        if found is self:
            raise KeyError(key)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.read_complete())

    def __len__(self) -> int:
        return len(self.read_complete())


def find_shared_values(row: Row) -> Row:
    """Return a mapping with the values that all rows of a row's frame have in common."""
    return row.frame if isinstance(row, PackedRow) else row


class Line(NamedTuple):
    """A line of packed rows: its host, its rows and their number, its words, its position and length."""

    host: bytes
    data: bytes
    rows: int
    words: list[str]
    begin: int
    length: int
