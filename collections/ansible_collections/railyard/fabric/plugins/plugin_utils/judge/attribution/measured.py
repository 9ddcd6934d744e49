# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What isolation reads: the tests of a run in columns, and how its nodes are wired. Pure.

Names become numbers once; millions of tests are then a few arrays. All that is known of a fault is what
these numbers show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.wiring import ends
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none; matplotlib itself brings it to whoever installs Railyard
    np = None  # type: ignore[assignment]

NONE = -1
"""In place of a leaf's or a rail's number: it has none."""


@dataclass(frozen=True)
class Wiring:
    """The nodes of a run and where their rails end.

    Attributes:
        nodes, rails, leaves: their names; everywhere else they are numbers, places in these.
        leaf: of each node and rail the leaf it ends at, or NONE where none is declared.
        rate_gbps: of each node and rail the planned rate; NaN where none is declared.
        there: whether a node has a rail.
    """

    nodes: tuple[str, ...]
    rails: tuple[str, ...]
    leaves: tuple[str, ...]
    leaf: NDArray[np.int64]
    rate_gbps: NDArray[np.float64]
    there: NDArray[np.bool_]


@dataclass(frozen=True)
class Tests:
    """Tests of one kind of all meetings, each in one direction; every column has a number for each test.

    Attributes:
        meeting: tests of two nodes with the same number are of the same meeting: a pair that meets again has
            another one.
        sender, receiver, rail: numbers of a `Wiring`.
        gbps: what was measured; NaN where nothing came back.
    """

    meeting: NDArray[np.int64]
    sender: NDArray[np.int64]
    receiver: NDArray[np.int64]
    rail: NDArray[np.int64]
    gbps: NDArray[np.float64]

    def of_rail(self, rail: int) -> Tests:
        """Return the tests on one rail."""
        mine = np.flatnonzero(self.rail == rail)
        return Tests(
            self.meeting[mine], self.sender[mine], self.receiver[mine], self.rail[mine], self.gbps[mine]
        )


def joined(parts: Sequence[Tests]) -> Tests:
    """Return the tests of several orders as one."""
    names = ("meeting", "sender", "receiver", "rail", "gbps")
    return Tests(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def wiring(order: Order) -> Wiring:
    """Return how the nodes of a work order are wired.

    Args:
        order: its common part; `roster`, `fabrics` and `rails` are read.
    """
    planned = ends(order)
    rails = tuple(dict.fromkeys(end.rail for mine in planned.values() for end in mine))
    leaves = tuple(
        dict.fromkeys(end.leaf for mine in planned.values() for end in mine if end.leaf is not None)
    )
    place = {name: number for number, name in enumerate(rails)}
    number = {name: number for number, name in enumerate(leaves)}
    shape = (len(planned), len(rails))
    leaf = np.full(shape, NONE, dtype=np.int64)
    rate, there = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    for row, mine in enumerate(planned.values()):
        for end in mine:
            column = place[end.rail]
            there[row, column] = True
            if end.leaf is not None:
                leaf[row, column] = number[end.leaf]
            if end.rate_gbps is not None:
                rate[row, column] = end.rate_gbps
    return Wiring(tuple(planned), rails, leaves, leaf, rate, there)
