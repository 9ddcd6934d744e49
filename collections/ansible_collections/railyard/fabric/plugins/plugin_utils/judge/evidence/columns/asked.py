# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests ask, as columns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import BEYOND

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Column = Any
"""An array of one value for each row."""

#: What is counted stays so far below what fills 64 bits that two of them add up.
MOST = 1 << 61


class Asked:
    """What tests ask, by the column.

    Attributes:
        lines: their asked lines.
        nodes: node -> its number here.
        what: check, tool, rail and direction, which lines and rows say alike -> their number here.
    """

    def __init__(self, lines: Sequence[AskedLine], nodes: Mapping[str, int]) -> None:
        self.lines, self.nodes = lines, nodes
        self.what: dict[object, int] = {}
        self.node = array_of(nodes.get(str(line["node"]), -1) for line in lines)
        self.peer = array_of(nodes.get(str(line["peer"]), -1) for line in lines)
        self.round = array_of(counted(line.get("round")) for line in lines)
        groups = {line.get("group"): number_of(line.get("group")) for line in lines}
        self.group = array_of(groups[line.get("group")] for line in lines)
        self.number = array_of(int(line["id"][1:]) for line in lines)
        self.of_what = array_of(self.numbered(line) for line in lines)

    def numbered(self, said: Mapping[str, Any]) -> int:
        """Return the number of what a line, or a frame, says of its test."""
        return number_in(self.what, (said["check"], said["tool"], said["rail"], said["direction"]))


def number_in(book: dict[object, int], key: object) -> int:
    """Return a key's number in a book, in which it is written if it is new."""
    return book.setdefault(key, len(book))


def array_of(values: Iterable[int]) -> Column:
    """Return whole numbers as a column."""
    return np.fromiter(values, dtype=np.int64)


def counted(value: int | None) -> int:
    """Return a whole number as a column holds it, BEYOND in place of anything else."""
    return value if value is not None and abs(value) < MOST else BEYOND


def number_of(group: str | None) -> int:
    """Return a group's number, BEYOND where it is written otherwise."""
    if group and group[1:].isascii() and group[1:].isdigit() and len(group) < 18:
        number = int(group[1:])
        return number if group == f"g{number:05d}" else BEYOND
    return BEYOND
