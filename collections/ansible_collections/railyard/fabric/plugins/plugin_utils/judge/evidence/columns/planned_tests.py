# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The planned tests between nodes as columns. Pure."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Column = Any
"""An array with one value per row."""

#: Counted values stay so far below 64 bits that two of them can be added.
MOST = 1 << 61
#: No row states this number of a group: it is that of its test, or up to 2^16 less.
_NO_GROUP = -(1 << 31)


class PlannedTests:
    """Planned tests between nodes, in their order.

    Attributes:
        lines: all planned tests.
        nodes: node -> its number here.
        what: (check, tool, rail, direction) -> its number here.
        at: for each test, its place among all planned tests.
        node, peer, round, group, number, of_what: for each test.
    """

    def __init__(self, lines: AskedLines, nodes: Iterable[str]) -> None:
        self.lines = lines
        self.nodes = {name: number for number, name in enumerate(nodes)}
        self.what: dict[tuple[object, ...], int] = {}
        is_test = np.array([CHECKS[kind["check"]].source == "test" for kind in lines.kinds], dtype=bool)
        mine = np.flatnonzero(is_test[lines.kind]).astype(np.int32)
        #: Test -> place in the columns of `lines`, and the inverse, with -1 at the end.
        self._places, self._place_of = mine, np.full(len(lines.kind) + 1, -1, dtype=np.int32)
        self._place_of[mine] = np.arange(len(mine))
        known = np.array([self.nodes.get(name, -1) for name in lines.names], dtype=np.int32)
        whats = np.array([self.find_what(kind) for kind in lines.kinds], dtype=np.int32)
        self.at, self.node, self.peer = lines.at[mine], known[lines.node[mine]], known[lines.peer[mine]]
        self.number, self.round, self.of_what = lines.number[mine], lines.round[mine], whats[lines.kind[mine]]
        self.group = np.where(lines.group[mine] < 0, _NO_GROUP, lines.group[mine])

    def line(self, place: int) -> AskedLine:
        """Return a planned test."""
        return self.lines.test(self._places[place])

    def only(self, places: Column) -> PlannedTests:
        """Return a selection of the tests."""
        some = copy.copy(self)
        for name in ("_places", "at", "node", "peer", "round", "group", "number", "of_what"):
            setattr(some, name, getattr(self, name)[places])
        return some

    def place(self, identity: str) -> int:
        """Return the place of a test, -1 if there is none."""
        at = self.lines.place(identity)
        return -1 if at < 0 else self._place_of.item(at)

    def find(self, numbers: Column) -> Column:
        """Return the places of the tests with these numbers, -1 if there is none."""
        return self._place_of[self.lines.find(numbers)]

    def find_what(self, of: Row) -> int:
        """Return the number of the check, tool, rail and direction of a planned test or a frame."""
        return number_key(self.what, (of["check"], of["tool"], of["rail"], of["direction"]))


def number_key(book: dict[Any, int], key: object) -> int:
    """Return a key's number; a new key gets the next one."""
    return book.setdefault(key, len(book))


def make_column(values: Iterable[int]) -> Column:
    """Return whole numbers as a column."""
    return np.fromiter(values, dtype=np.int64)
