# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests between nodes ask, as columns. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import BEYOND
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Column = Any
"""An array of one value for each row."""

#: What is counted stays so far below what fills 64 bits that two of them add up.
MOST = 1 << 61


class Asked:
    """Tests between nodes that are columns of the asked lines, in their order.

    Attributes:
        lines: all asked lines.
        nodes: node -> its number here.
        what: check, tool, rail and direction, which lines and rows say alike -> their number here.
        at: of each test where it stands among all asked lines.
        node, peer, round, group, number, of_what: of each test.
    """

    def __init__(self, lines: AskedLines, nodes: Iterable[str]) -> None:
        self.lines = lines
        self.nodes = {name: number for number, name in enumerate(nodes)}
        self.what: dict[tuple[object, ...], int] = {}
        is_test = np.array([CHECKS[kind["check"]].source == "test" for kind in lines.kinds], dtype=bool)
        mine = np.flatnonzero(is_test[lines.kind])
        #: Of each test where it stands in the columns of the lines; of each of these its test, at the end -1.
        self._places, self._place_of = mine, np.full(len(lines.kind) + 1, -1, dtype=np.int32)
        self._place_of[mine] = np.arange(len(mine))
        known = np.array([self.nodes.get(name, -1) for name in lines.names], dtype=np.int32)
        whats = np.array([self.numbered(kind) for kind in lines.kinds], dtype=np.int32)
        self.at, self.node, self.peer = lines.at[mine], known[lines.node[mine]], known[lines.peer[mine]]
        self.number, self.round, self.of_what = lines.number[mine], lines.round[mine], whats[lines.kind[mine]]
        self.group = np.where(lines.group[mine] < 0, BEYOND, lines.group[mine].astype(np.int64))

    def line(self, place: int) -> AskedLine:
        """Return the asked line of a test."""
        return self.lines.test(self._places[place])

    def only(self, places: Column) -> Asked:
        """Return some of them."""
        some = copy.copy(self)
        for name in ("_places", "at", "node", "peer", "round", "group", "number", "of_what"):
            setattr(some, name, getattr(self, name)[places])
        return some

    def place(self, identity: str) -> int:
        """Return the place of a test, -1 where there is none."""
        at = self.lines.place(identity)
        return -1 if at < 0 else self._place_of.item(at)

    def find(self, numbers: Column) -> Column:
        """Return the places of the tests of these numbers, -1 where there is none."""
        return self._place_of[self.lines.find(numbers)]

    def numbered(self, said: Mapping[str, Any]) -> int:
        """Return the number of what a line, or a frame, says of its test."""
        return number_in(self.what, (said["check"], said["tool"], said["rail"], said["direction"]))


def number_in(book: dict[Any, int], key: object) -> int:
    """Return a key's number in a book, in which it is written if it is new."""
    return book.setdefault(key, len(book))


def array_of(values: Iterable[int]) -> Column:
    """Return whole numbers as a column."""
    return np.fromiter(values, dtype=np.int64)
