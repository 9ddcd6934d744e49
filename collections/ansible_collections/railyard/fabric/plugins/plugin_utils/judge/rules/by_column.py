# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests of a sweep plainly pass? Their rows are compared by the column; nothing but a pass comes of it.

Rows of one frame differ in a score of numbers. So of each frame one row is looked at as any other test's is,
and of the rest what is their own: the same rules (`of_end`, `of_pair`) are asked of their columns. A test is
left to the judge of single tests wherever the answer is not a plain yes, be it that a rule says no or that no
column tells: no outcome rests on anything here but a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, readings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.asked import (
    Asked,
    Column,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    ShortRow,
    Table,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.views import (
    ColumnEnd,
    ColumnPair,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import Known
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_end import of_end
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_pair import NOTHING_LOST, of_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import hold
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

#: The checks that a sweep asks between two nodes.
CHECKED = ("path_mtu", "tcp_bandwidth_concurrent", "rdma_bandwidth_concurrent")


class Court(NamedTuple):
    """What of the judge of single tests is asked here.

    Attributes:
        known: what is known of the run.
        refuses: whether a row is not a measurement of that asked line by that host.
        bounds: what bounds an asked line's numbers.
        like: what bounds rest on at an end, given its node and rail: alike ends have alike bounds.
    """

    known: Known
    refuses: Callable[[Row, AskedLine, str], object]
    bounds: Callable[[AskedLine], Bounds]
    like: Callable[[str, str], Hashable]


class Plain:
    """The tests that plainly pass, by their ids."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[ColumnPair, int, Bounds]] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._where

    def add(self, identity: str, pair: ColumnPair, place: int, bounds: Bounds) -> None:
        """Count a test among them."""
        self._where[identity] = pair, place, bounds

    def answer(self, identity: str) -> Answer:
        """Return the pass of a test that is among them, as the judge of single tests would word it."""
        pair, place, bounds = self._where[identity]
        shown = readings.beside(pair.client.seen(place), pair.server.seen(place))
        # Alike tests share their bounds, of which there may be millions.
        return Answer(PASS, shown, bounds.floor, bounds.ceiling, bounds.basis, proof="proven")


def find(tests: Mapping[str, AskedLine], rows: Mapping[str, Sequence[Row]], court: Court) -> Plain:
    """Return which tests plainly pass.

    Args:
        tests: id -> the asked line, of all that two nodes answer.
        rows: id -> all its rows.
        court: the judge of single tests.
    """
    met: dict[tuple[Table, Table], tuple[list[AskedLine], list[int], list[int]]] = {}
    for identity, line in tests.items():
        one, *others = rows.get(identity, ()) or (None,)
        other = others[0] if len(others) == 1 else None
        if isinstance(one, ShortRow) and isinstance(other, ShortRow):
            client, server = (one, other) if one.table.kind.end == "client" else (other, one)
            lines, clients, servers = met.setdefault((client.table, server.table), ([], [], []))
            lines.append(line)
            clients.append(client.index)
            servers.append(server.index)
    found = Plain()
    nodes = {name: number for number, name in enumerate(court.known.ends)}
    for (mine, its), (lines, *indices) in met.items():
        ends = [(table.kind.end, table.kind.check) for table in (mine, its)]
        check = mine.kind.check
        if check not in CHECKED or ends != [("client", check), ("server", check)]:
            continue
        # What is no number is not good, and says no more than that.
        with np.errstate(all="ignore"):
            asked = Asked(lines, nodes)
            both = [
                ColumnEnd(table, np.array(places, dtype=np.int64), court.known, asked)
                for table, places in zip((mine, its), indices, strict=True)
            ]
            if all(end.can_be_told for end in both):
                _find(found, ColumnPair(*both), court)
    return found


def _find(found: Plain, pair: ColumnPair, court: Court) -> None:
    """Add to those found the tests of two tables that plainly pass."""
    good = np.ones(len(pair.client.places), dtype=bool)
    for end in pair.each():
        good &= end.can_be_counted
        good = hold(of_end(pair.check, end.kind.end), end, good)
    good = hold([NOTHING_LOST, *of_pair(pair.check)], pair, good)
    for end in pair.each():
        good &= _sound(end, good, court)
    lines = pair.client.asked.lines
    alike: dict[Hashable, list[int]] = {}
    for place in np.flatnonzero(good).tolist():
        rail = str(lines[place]["rail"])
        node, peer = (court.like(name, rail) for name in nodes_of(lines[place]))
        alike.setdefault((node, peer), []).append(place)
    for places in alike.values():
        bounds = court.bounds(lines[places[0]])
        for place in np.array(places)[_within(bounds, pair, places)].tolist():
            found.add(str(lines[place]["id"]), pair, place, bounds)


def _within(bounds: Bounds, pair: ColumnPair, places: Sequence[int]) -> Column:
    """Tell which numbers of tests at these places lie within their bounds, as a pass needs it."""
    good = np.ones(len(places), dtype=bool)
    if not bounds.floor or set(bounds.floor) != set(bounds.ceiling):
        return ~good
    for end in pair.each() if CHECKS[pair.check.name].server else (pair.client,):
        for name, least in bounds.floor.items():
            good &= formulas.within(least, end.metric(name)[places], bounds.ceiling[name])
    return good


def _sound(end: ColumnEnd, good: Column, court: Court) -> Column:
    """Tell of rows whether one of their frame, good by the column, is good as a single row is looked at."""
    at = np.flatnonzero(good)
    numbers, first = np.unique(end.frame_of[at], return_index=True)
    sound = np.zeros(len(end.table.frames), dtype=bool)
    for number, one in zip(numbers.tolist(), at[first].tolist(), strict=True):
        line, row = end.asked.lines[one], end.table.whole(int(end.places[one]))
        host = str(line["node" if end.kind.end == "client" else "peer"])
        frame = end.table.frames[number].row
        sound[number] = end.is_sound(row, frame) and not court.refuses(row, line, host)
    return sound[end.frame_of]
