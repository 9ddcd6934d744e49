# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planned tests (asked.jsonl). Tests between nodes are columns; one line is a dict while it is used.

All pairs of 1,024 nodes with 8 rails are 4.2 million lines that differ in their nodes and three numbers. As
dicts they take 700 bytes each, here 30.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast, overload

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import Frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import GrowingArray, Ints, NDArray, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: As the controller writes the line of a test: what is alike in many, and of its own id, nodes and numbers.
_LINE = re.compile(
    rb'(\{"check":"[^"\\\n]*","direction":"[^"\\\n]*","group":)(?:"g([0-9]{5}|[1-9][0-9]{5,17})"|null)'
    rb',"id":"m([0-9]{5}|[1-9][0-9]{5,7})","node":"([^"\\\x00-\x1f]*)","peer":"([^"\\\x00-\x1f]*)"'
    rb'(,"rail":"[^"\\\n]*","round":)(0|[1-9][0-9]{0,8})(,"schema":1,[^{}\\\n]*\})\n'
)
#: What of such a line is in none of its groups: without a group, and with one.
_AROUND, _GROUPED = len(b'null,"id":"m","node":"","peer":""\n'), len(b'"g"') - len(b"null")
_BEGINS = b'{"check":'
_NONE, _HALF = -1, 1 << 31


class AskedLines(Sequence[AskedLine]):
    """The planned tests of a run, in the order of the file.

    Attributes:
        torn: a line was lost.
        fingerprint: count and digest of the lines as the controller writes them.
        kinds: a template line for each kind of line.
        names: the nodes; columns hold indexes into this list.
        at: for each line in the columns its index among all lines.
        kind, node, peer, number, group, round: for each line in the columns; `_NONE` for no group.
        others: index among all lines -> line, for lines that are not in the columns.

    Args:
        lines: planned tests that do not come from a folder; none of them is in columns.
    """

    def __init__(self, lines: Sequence[AskedLine] = ()) -> None:
        self.kinds: list[AskedLine] = []
        self.others: dict[int, AskedLine] = dict(enumerate(lines))
        self.torn, self._digest = False, hashlib.sha256()
        self._count = len(lines)
        self._kind_of: dict[tuple[Any, ...], int] = {}
        self._nodes: dict[bytes, int] = {}
        self._finish()

    def _finish(self, taken: Sequence[GrowingArray] = ()) -> None:
        """Make the columns of what was taken."""
        columns = [one.array() for one in taken or _new_columns()]
        self.at, self.kind, self.node, self.peer, self.number, self.group, self.round = columns
        self.names = [name.decode() for name in self._nodes]
        self.fingerprint = {"count": self._count, "sha256": self._digest.hexdigest()}
        #: Of each line its place in the columns, or _NONE.
        self._where = np.full(self._count, _NONE, dtype=np.int32)
        self._where[self.at] = np.arange(len(self.at))
        #: Number -> place in the columns.
        self._place_of = np.full(int(self.number.max(initial=_NONE)) + 1, _NONE, dtype=np.int32)
        self._place_of[self.number] = np.arange(len(self.number))
        self._others = {str(line.get("id")): line for line in self.others.values()}

    @classmethod
    def read(cls, folder: RunFolder) -> AskedLines:
        """Return what asked.jsonl holds; no file means no lines.

        Raises:
            RunFolderError: the file is there and cannot be read.
        """
        made = cls()
        columns = _new_columns()
        path = folder.path / run_folder.ASKED
        with run_folder.reading(path), suppress(FileNotFoundError), folder.open(path.name) as stream:
            for _begin, block in json_lines.blocks(stream, _BEGINS):
                made._take(block, columns)
        made._finish(columns)
        return made

    def _take(self, block: bytes, columns: Sequence[GrowingArray]) -> None:
        """Take lines; those of tests are added to the columns."""
        found = _LINE.findall(block)
        lengths = (sum(map(len, one)) + _AROUND + (_GROUPED if one[1] else 0) for one in found)
        if sum(lengths) == len(block) and self._take_tests(block, found, columns):
            return
        lines = list(io.BytesIO(block))
        for line in lines if len(lines) > 1 else ():
            self._take(line, columns)
        for raw in json_lines.lines(io.BytesIO(block)) if len(lines) == 1 else ():
            for row in (None,) if raw is None else json_lines.rows_of(raw, Frames()):
                if row is None:
                    self.torn = True
                    continue
                self.others[self._count] = cast("AskedLine", row)
                self._digest.update((run_folder.line(row) + "\n").encode())
                self._count += 1

    def _take_tests(
        self, block: bytes, found: Sequence[tuple[bytes, ...]], columns: Sequence[GrowingArray]
    ) -> bool:
        """Take the lines of tests into the columns; tell whether they all are what they look like."""
        head, group, number, node, peer, rail, at, tail = zip(*found, strict=True)
        alike = list(zip(head, map(bool, group), rail, tail, strict=True))
        kinds, nodes = self._kind_of, self._nodes
        try:
            for kind in dict.fromkeys(alike):
                if kind not in kinds:
                    kinds[kind] = self._new_kind(*kind)
            for name in dict.fromkeys((*node, *peer)):
                name.decode()
                nodes.setdefault(name, len(nodes))
        except ValueError:
            return False
        here = [kinds[kind] for kind in alike]
        if _NONE in here:
            return False
        numbers, groups = (np.array([int(one or _NONE) for one in values]) for values in (number, group))
        parts = (
            np.arange(self._count, self._count + len(found)),
            np.array(here),
            np.array([nodes[name] for name in node]),
            np.array([nodes[name] for name in peer]),
            numbers,
            groups,
            np.array([int(one) for one in at]),
        )
        for column, part in zip(columns, parts, strict=True):
            column.add(part.astype(np.int32) if part.max() < _HALF else part)
        self._digest.update(block)
        self._count += len(found)
        return True

    def _new_kind(self, head: bytes, grouped: bool, rail: bytes, tail: bytes) -> int:
        """Return the number of a new kind, `_NONE` unless its lines are as the controller writes them.

        Raises:
            ValueError: they are no JSON.
        """
        group = b'"g00000"' if grouped else b"null"
        text = (head + group + b',"id":"m00000","node":"a","peer":"b"' + rail + b"0" + tail).decode()
        line = json_lines.read(text)
        if run_folder.line(line) != text:
            return _NONE
        self.kinds.append(line)
        return len(self.kinds) - 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[AskedLine]:
        return map(self._at, range(self._count))

    @overload
    def __getitem__(self, at: int) -> AskedLine: ...

    @overload
    def __getitem__(self, at: slice) -> list[AskedLine]: ...

    def __getitem__(self, at: int | slice) -> AskedLine | list[AskedLine]:
        places = range(self._count)[at]
        return self._at(places) if isinstance(places, int) else list(map(self._at, places))

    def _at(self, place: int) -> AskedLine:
        at: int = self._where.item(place)
        return self.others[place] if at == _NONE else self.test(at)

    def test(self, at: int) -> AskedLine:
        """Return a line that is in the columns."""
        line: AskedLine = self.kinds[self.kind.item(at)].copy()
        group = self.group.item(at)
        line["id"], line["round"] = f"m{self.number.item(at):05d}", self.round.item(at)
        line["node"], line["peer"] = self.names[self.node.item(at)], self.names[self.peer.item(at)]
        line["group"] = None if group == _NONE else f"g{group:05d}"
        return line

    def by_id(self, identity: str) -> AskedLine | None:
        """Return the line of an id, None where there is none; of several, which are refused, any of them."""
        if (other := self._others.get(identity)) is not None:
            return other
        at = self.place(identity)
        return None if at == _NONE else self.test(at)

    def place(self, identity: str) -> int:
        """Return the index of a test in the columns, `_NONE` where it is not there."""
        number = number_of(identity, "m")
        return self._place_of.item(number) if 0 <= number < len(self._place_of) else _NONE

    def find(self, numbers: NDArray[Any]) -> Ints:
        """Return the indexes of the tests with these numbers in the columns, `_NONE` where there is none."""
        known = (numbers >= 0) & (numbers < len(self._place_of))
        return np.append(self._place_of, _NONE)[np.where(known, numbers, _NONE)]

    def distinct(self) -> list[AskedLine]:
        """Return a subset of the lines that has each check with each of its nodes and rails."""
        first = np.full((2, len(self.kinds), len(self.names)), _NONE, dtype=np.int32)
        for of_end, end in zip(first, (self.node, self.peer), strict=True):
            # Of equal indexes the last one counts.
            of_end[self.kind[::-1], end[::-1]] = np.arange(len(self.kind), dtype=np.int32)[::-1]
        return self._in_order(first[first != _NONE])

    def doubtful(
        self, rails: Mapping[str, Collection[str]], is_test: Callable[[str], bool]
    ) -> list[AskedLine]:
        """Return the lines that have to be checked one by one, in their order.

        All others equal the first of their kind, which is among these, for two other nodes that have
        the rail; and no two lines have the same id.

        Args:
            rails: node -> its rails.
            is_test: tells whether a check is a test between two nodes.
        """
        has = np.zeros((len(self.kinds), max(len(self.names), 1)), dtype=bool)
        for number, kind in enumerate(self.kinds):
            if is_test(kind["check"]):
                has[number, : len(self.names)] = [kind["rail"] in rails.get(name, ()) for name in self.names]
        good = has[self.kind, self.node] & has[self.kind, self.peer] & (self.node != self.peer)
        good[np.unique(self.kind, return_index=True)[1]] = False
        last = self._place_of[self.number]
        good &= last == np.arange(len(last))
        good[last[~good]] = False
        for identity in self._others:
            if (at := self.place(identity)) != _NONE:
                good[at] = False
        return self._in_order(np.flatnonzero(~good))

    def _in_order(self, tests: Ints) -> list[AskedLine]:
        places = {*self.others, *self.at[tests].tolist()}
        return [self._at(place) for place in sorted(places)]


def _new_columns() -> list[GrowingArray]:
    return [GrowingArray() for _column in range(7)]


def number_of(name: str | None, letter: str) -> int:
    """Return the number of a group, or of a test, `_NONE` where it is written otherwise."""
    if name and name[1:].isascii() and name[1:].isdigit() and len(name) <= 19:
        number = int(name[1:])
        return number if name == f"{letter}{number:05d}" else _NONE
    return _NONE
