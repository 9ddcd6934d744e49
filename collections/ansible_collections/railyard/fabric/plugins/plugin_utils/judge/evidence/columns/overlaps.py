# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find packed rows whose counters may overlap with another row's, by column. The rows then decide."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    Column,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.spans import (
    MOST,
    Source,
    source_of,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    PackedRow,
    Table,
)


def find_overlapping(
    parts: Iterable[tuple[Table, Column]], elsewhere: Collection[Source]
) -> Iterator[PackedRow]:
    """Yield the rows with a counter span that overlaps another one, or may overlap.

    Args:
        parts: tables, and the rows of them to check.
        elsewhere: counters that rows other than packed ones have too.
    """
    every = []
    for table, indices in parts:
        hosts = {*table.doubtful, *(host for host, _device, _name in elsewhere)}
        of_frames = np.array([frame.row["host"] in hosts for frame in table.frames], dtype=bool)
        mine = indices[of_frames[table.frame_of[indices]]]
        if len(mine):
            every.append(_Rows(table, mine, table.rows(mine)))
    found: set[tuple[int, int]] = set()
    # One counter at a time, to save memory.
    for name in dict.fromkeys(name for rows in every for name in rows.table.kind.counters):
        found |= _find_overlapping_spans(name, every, elsewhere)
    for part, place in sorted(found):
        rows = every[part]
        yield rows.table.row(int(rows.indices[place]))


class _Rows(NamedTuple):
    """Rows of a table, and their columns."""

    table: Table
    indices: Column
    columns: Any


def _find_overlapping_spans(
    name: str, every: list[_Rows], elsewhere: Collection[Source]
) -> set[tuple[int, int]]:
    """Return the rows in which a counter of this name overlaps, or may overlap: part, and place in it."""
    numbers: dict[Source, int] = {}
    parts: list[list[Column]] = [[], [], [], [], []]
    for part, rows in enumerate(every):
        if name not in rows.table.kind.counters:
            continue
        whose = [source_of(frame.row, name) for frame in rows.table.frames]
        of_frames = np.array([numbers.setdefault(one, len(numbers)) for one in whose], dtype=np.int32)
        begin, grown = (rows.columns[f"{what} {name}"].astype(np.int64) for what in ("before", "growth"))
        places = np.arange(len(begin))
        source = of_frames[rows.table.frame_of[rows.indices]]
        for kept, values in zip(
            parts, (source, begin, grown, np.full(len(begin), part), places), strict=True
        ):
            kept.append(values)
    source, begin, grown, part_of, places = map(np.concatenate, parts)
    far = (np.abs(begin) >= MOST) | (np.abs(grown) >= MOST)
    # The sum of such numbers may be wrong.
    bad = {*source[far].tolist(), *(numbers[one] for one in numbers.keys() & set(elsewhere))}
    found = set(zip(part_of[far].tolist(), places[far].tolist(), strict=True))
    counts = ~far & (grown > 0)
    source, begin, grown, part_of, places = (one[counts] for one in (source, begin, grown, part_of, places))
    order = np.lexsort((begin, source))
    source, begin, end = source[order], begin[order], (begin + grown)[order]
    # In sorted order a span that overlaps any later span overlaps the next one.
    into = (source[1:] == source[:-1]) & (begin[1:] < end[:-1])
    bad |= set(source[1:][into].tolist())
    if bad:
        mine = order[np.isin(source, np.array(sorted(bad), dtype=np.int32))]
        found |= set(zip(part_of[mine].tolist(), places[mine].tolist(), strict=True))
    return found
