# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The input of isolation: the tests of a run in columns, and the wiring of its nodes. Pure.

Names are replaced by numbers, so that millions of tests are a few arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Bools, Floats, Ints, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.wiring import ends
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order

NONE = -1
"""Number of a missing leaf or rail."""


@dataclass(frozen=True)
class Wiring:
    """The nodes of a run and the leaves of their rails.

    Attributes:
        nodes, rails, leaves: names; everywhere else their places in these are used.
        leaf: for each node and rail the leaf, or NONE if none is declared.
        rate_gbps: for each node and rail the planned rate; NaN if none is declared.
        there: whether a node has a rail.
    """

    nodes: tuple[str, ...]
    rails: tuple[str, ...]
    leaves: tuple[str, ...]
    leaf: Ints
    rate_gbps: Floats
    there: Bools


@dataclass(frozen=True)
class Tests:
    """Tests of one check in one direction each; every column has one number per test.

    Attributes:
        meeting: tests of one pair with the same number belong to one meeting; a repetition has another
            number.
        sender, receiver, rail: numbers of a `Wiring`.
        gbps: the result; NaN if missing.
    """

    meeting: Ints
    sender: Ints
    receiver: Ints
    rail: Ints
    gbps: Floats

    def of_rail(self, rail: int) -> Tests:
        """Return the tests on one rail."""
        mine = np.flatnonzero(self.rail == rail)
        return Tests(
            self.meeting[mine], self.sender[mine], self.receiver[mine], self.rail[mine], self.gbps[mine]
        )


def join_tests(parts: Sequence[Tests]) -> Tests:
    """Concatenate the tests of several schedules."""
    names = ("meeting", "sender", "receiver", "rail", "gbps")
    return Tests(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def read_wiring(order: Order) -> Wiring:
    """Return the wiring of the nodes of a test schedule.

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
