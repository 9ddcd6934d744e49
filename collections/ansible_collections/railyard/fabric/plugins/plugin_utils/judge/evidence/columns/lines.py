# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect lines of packed rows in tables. Pure."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.spans import Added, Spans
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    File,
    Kind,
    Line,
    PackedRow,
    Table,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: A line as `row_packer.Packer` writes it, without strings that need escaping.
_LINE = re.compile(
    rb'\{"count":([1-9][0-9]{0,5}),"host":"([^"\\\x00-\x1f]+)","packed":"([A-Za-z0-9+/]+={0,2})"'
    rb',"words":\[((?:"[^"\\\x00-\x1f]*",?)*)\]\}\n'
)
_NESTED = frozenset(
    ("argv", "metrics", "counters", "other_rails", "link_errors", "claim", "exchange", "raw", "other_end",
     "samples")
)  # fmt: skip
#: Keys of a frame that must be strings.
_NAMED = ("check", "tool", "rail", "direction", "host", "end", "status", "proof")
#: Maximum number of tables, and of columns; a sweep has fewer.
_MOST_TABLES, _MOST_COLUMNS = 64, 256
#: Maximum time of a frame.
_LAST_MS = 2 * 10**14


class Tables:
    """Collects the lines of valid packed rows.

    Attributes:
        spans: finds the hosts with counters that may overlap.

    Args:
        frames: collects their frames.
        file: reads the file again.
    """

    def __init__(self, frames: packed_rows.Frames, file: File) -> None:
        self.frames, self._file = frames, file
        self.spans = Spans()
        self._tables: dict[Kind, Table] = {}
        #: Host and number of a frame -> its kind, and the size of its rows.
        self._kinds: dict[tuple[bytes, bytes], tuple[Kind, int]] = {}

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def in_file(self) -> Iterator[tuple[int, PackedRow]]:
        """Yield all rows with their positions, in the order of the file."""
        every = list(self)
        begin = [table.begin for table in every]
        table_of = np.repeat(np.arange(len(every)), [len(table) for table in every])
        index = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(table)) for table in every)])
        places = np.concatenate([np.zeros(0, np.int64), *begin])
        for at in np.argsort(places, kind="stable").tolist():
            yield int(places[at]), every[table_of[at]].row(int(index[at]))

    def take(self, begin: int, block: bytes) -> Iterator[tuple[int, bytes]]:
        """Collect rows from a block at a position; yield the lines that must be parsed separately.

        Only rows that `Frames.rows` can expand are collected.
        """
        alike: dict[Kind, list[Line]] = {}
        end = 0
        for found in _LINE.finditer(block):
            if found.start() != end:
                break
            end = found.end()
            count, host, packed, words = found.groups()
            try:
                data = base64.b64decode(packed, validate=True)
                texts = json.loads(b"[" + words + b"]")
                known = self._kind(host, data)
            except ValueError:
                known = None
            if known is None or len(data) != int(count) * known[1]:
                yield begin + found.start(), found.group()
                continue
            alike.setdefault(known[0], []).append(
                Line(host, data, int(count), texts, begin + found.start(), end - found.start())
            )
        added: list[Added] = []
        for kind, lines in alike.items():
            yield from self._take(kind, lines, begin, block, added)
        self.spans.add(added)
        if end < len(block):
            first, *rest = io.BytesIO(block[end:])
            yield begin + end, first
            if rest:
                yield from self.take(begin + end + len(first), b"".join(rest))

    def _take(
        self, kind: Kind, lines: Sequence[Line], begin: int, block: bytes, added: list[Added]
    ) -> Iterator[tuple[int, bytes]]:
        """Collect the rows of lines with one kind; yield the lines that cannot be collected."""

        def find(host: bytes, data: bytes) -> packed_rows.Frame | None:
            known = self._kind(host, data)
            return self.frames.frame_of(host.decode(), data) if known and known[0] == kind else None

        table = self._tables.get(kind)
        if table is None and len(self._tables) < _MOST_TABLES:
            table = Table(kind, self.spans.doubtful, self._file)
        if table is not None and (rows := table.add(lines, find)):
            self._tables[kind] = table
            added.append(rows)
            return
        if len(lines) > 1 and table is not None:
            for line in lines:
                yield from self._take(kind, [line], begin, block, added)
            return
        for line in lines:
            at = line.begin - begin
            yield line.begin, block[at : at + line.length]

    def _kind(self, host: bytes, data: bytes) -> tuple[Kind, int] | None:
        """Return the kind of a host's packed row, and its size; None if no row of its frame can be expanded.

        Raises:
            ValueError: the host is no text.
        """
        key = host, data[:4]
        if (known := self._kinds.get(key)) is not None:
            return known
        frame = self.frames.frame_of(host.decode(), data)
        if frame is None or not 0 <= frame.begun < _LAST_MS or len(frame.columns) > _MOST_COLUMNS:
            return None
        row = frame.row
        try:
            if not _is_well_formed(row):
                return None
            # Any other fault of the frame is a fault of each of its rows.
            line = packed_rows.packed_line(host.decode(), [data[:4] + bytes(frame.row_bytes - 4)], [""])
            if None in self.frames.rows(line):
                return None
            varying = [(argv, at) for argv in row["argv"] for at, word in enumerate(argv) if word is None]
            ports = tuple(at > 0 and argv[at - 1] == "-p" for argv, at in varying)
            kind = Kind(row["check"], row["end"], frame.columns, ports)
        except (TypeError, LookupError):
            return None
        self._kinds[key] = kind, frame.row_bytes
        return self._kinds[key]


def _is_well_formed(frame: Row) -> bool:
    """Tell whether a frame has only strings and numbers, and strings in its command lines."""
    try:
        reader.read(list[str], [frame.get(key) for key in _NAMED])
        reader.read(list[list[str | None]], frame["argv"])
    except reader.RefusedError:
        return False
    return not any(isinstance(value, (dict, list)) for key, value in frame.items() if key not in _NESTED)
