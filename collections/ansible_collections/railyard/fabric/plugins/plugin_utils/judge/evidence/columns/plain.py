# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which tests of a sweep plainly pass? Their rows are compared by the column; nothing but a pass comes of it.

Rows of one frame differ in a score of numbers. So of each frame one row is looked at as any other test's is
(`evidence`), and of the rest what is their own: does each number lie where no rule could object? A test is
left to the judge of single tests wherever the answer is not a plain yes, be it that a rule says no or that no
column tells: no outcome rests on anything here but a pass.

A rule that is changed in `evidence`, `row_numbers`, `row_counters` or `bounds_check` has its like in `ends`
and `pairs`; that both say the same of whatever a row may hold is tested by spoiling rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import pairs
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.ends import (
    Asked,
    Column,
    Ends,
    Known,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.pairs import Met
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    ShortRow,
    Table,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_counters import Turn
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

#: The checks that a sweep asks between two nodes, and whose rules are known here.
CHECKED = ("path_mtu", "tcp_bandwidth_concurrent", "rdma_bandwidth_concurrent")


class Rules(NamedTuple):
    """What of the judge of single tests is asked here.

    Attributes:
        known: what is known of the run's nodes.
        refuses: whether a row is not a measurement of that asked line by that host.
        shared: the turns whose counters are in part another test's.
        bounds: what bounds an asked line's numbers.
        like: what bounds rest on at an end, given its node and rail: alike ends have alike bounds.
    """

    known: Known
    refuses: Callable[[Row, AskedLine, str], object]
    shared: Collection[Turn]
    bounds: Callable[[AskedLine], Bounds]
    like: Callable[[str, str], Hashable]


class Plain:
    """The tests that plainly pass, by their ids."""

    def __init__(self) -> None:
        self._where: dict[str, tuple[Met, int, Bounds]] = {}

    def __contains__(self, identity: object) -> bool:
        return identity in self._where

    def add(self, identity: str, met: Met, place: int, bounds: Bounds) -> None:
        """Count a test among them."""
        self._where[identity] = met, place, bounds

    def answer(self, identity: str) -> Answer:
        """Return the pass of a test that is among them, as the judge of single tests would word it."""
        met, place, bounds = self._where[identity]
        shown = met.client.metrics(met.clients[place])
        theirs = met.server.metrics(met.servers[place])
        if "bandwidth_gbps" in shown and "bandwidth_gbps" in theirs:
            shown["bandwidth_gbps"] = min(shown["bandwidth_gbps"], theirs["bandwidth_gbps"])
        for key in ("cpu_percent", "node_cpu_percent"):
            if key in theirs:
                shown[f"peer_{key}"] = theirs[key]
        return Answer(PASS, shown, dict(bounds.floor), dict(bounds.ceiling), bounds.basis, proof="proven")


def find(tests: Mapping[str, AskedLine], rows: Mapping[str, Sequence[Row]], rules: Rules) -> Plain:
    """Return which tests plainly pass.

    Args:
        tests: id -> the asked line, of all that two nodes answer.
        rows: id -> all its rows.
        rules: those of single tests.
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
    ends: dict[Table, Ends] = {}
    for both, (lines, *indices) in met.items():
        kinds = [table.kind for table in both]
        if [(kind.end, kind.check) for kind in kinds] != [
            (end, kinds[0].check) for end in ("client", "server")
        ]:
            continue
        if kinds[0].check not in CHECKED:
            continue
        ends |= {table: Ends(table, rules.known) for table in both if table not in ends}
        mine, its = (ends[table] for table in both)
        # What is no number is not good, and says no more than that.
        with np.errstate(all="ignore"):
            _find(found, lines, Met(mine, _array(indices[0]), its, _array(indices[1])), rules)
    return found


def _find(found: Plain, lines: Sequence[AskedLine], met: Met, rules: Rules) -> None:
    """Add to those found the tests of two tables that plainly pass."""
    known = rules.known
    if not (met.client.eligible and met.server.eligible and pairs.comparable(met.client, met.server)):
        return
    asked = Asked(lines, known)
    good = pairs.of_one_mind(met, known.policy) & pairs.borne_out(met, known.policy)
    for ends, places in met.each():
        good &= ends.answers(places, asked)
    for ends, places in met.each():
        good &= _sound(ends, places, good, lines, rules)
    left = np.flatnonzero(good)
    some = Met(met.client, met.clients[left], met.server, met.servers[left])
    left = left[pairs.told_alike(some, known.boot_ids)]
    alike: dict[Hashable, list[int]] = {}
    for place in left.tolist():
        rail = str(lines[place]["rail"])
        node, peer = (rules.like(name, rail) for name in nodes_of(lines[place]))
        alike.setdefault((node, peer), []).append(place)
    for places in alike.values():
        bounds = rules.bounds(lines[places[0]])
        both = [(met.client, met.clients[places])]
        if met.client.check.server:
            both.append((met.server, met.servers[places]))
        for place in _array(places)[pairs.within(bounds, both)].tolist():
            identity = str(lines[place]["id"])
            if not any((identity, end, 1) in rules.shared for end in ("client", "server")):
                found.add(identity, met, place, bounds)


def _sound(ends: Ends, places: Column, good: Column, lines: Sequence[AskedLine], rules: Rules) -> Column:
    """Tell of rows whether one of their frame, good by the column, is good as a single row is looked at."""
    at = np.flatnonzero(good)
    frames = ends.frame_of[places]
    numbers, first = np.unique(frames[at], return_index=True)
    sound = np.zeros(len(ends.table.frames), dtype=bool)
    for number, one in zip(numbers.tolist(), at[first].tolist(), strict=True):
        line, row = lines[one], ends.table.whole(int(places[one]))
        host = str(line["node" if ends.kind.end == "client" else "peer"])
        frame = ends.table.frames[number].row
        sound[number] = ends.is_sound(row, frame) and not rules.refuses(row, line, host)
    return sound[frames]


def _array(values: Sequence[int]) -> Column:
    return np.array(values, dtype=np.int64)
