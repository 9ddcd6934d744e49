# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find short rows whose counters may overlap with another row's, by column. The rows then decide."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    ShortRow,
    Table,
)

Source = tuple[str, str, str]
"""A host, its netdev or port, and the counter's name."""
#: Beyond it two values of a column cannot be added.
_MOST = 1 << 61


def find_overlapping(
    parts: Iterable[tuple[Table, Any]], source_of: Callable[[Any, str], Source], elsewhere: Collection[Source]
) -> Iterator[ShortRow]:
    """Yield the rows with a counter span that overlaps another one, or may overlap.

    Args:
        parts: tables, and the rows of them to check.
        source_of: returns the device of a counter of a row or frame.
        elsewhere: counters that rows other than short ones have too.
    """
    rows = list(parts)
    firsts = [0, *itertools.accumulate(len(indices) for _table, indices in rows)]
    found: set[int] = set()
    # One counter at a time, to save memory.
    for name in dict.fromkeys(name for table, _indices in rows for name in table.kind.counters):
        found |= _find_overlapping_spans(name, rows, firsts, source_of, elsewhere)
    for place in sorted(found):
        number = bisect.bisect_right(firsts, place) - 1
        table, indices = rows[number]
        yield table.row(int(indices[place - firsts[number]]))


def _find_overlapping_spans(
    name: str,
    rows: Sequence[tuple[Table, Any]],
    firsts: Sequence[int],
    source_of: Callable[[Any, str], Source],
    elsewhere: Collection[Source],
) -> set[int]:
    """Return the places of the rows in which a counter of this name overlaps, or may overlap."""
    numbers: dict[Source, int] = {}
    bad: set[int] = set()
    found: set[int] = set()
    spans: list[list[Any]] = [[], [], [], []]
    for (table, indices), first in zip(rows, firsts, strict=False):
        places = np.arange(first, first + len(indices), dtype=np.int32)
        whose = [source_of(frame.row, name) for frame in table.frames]
        every = np.array([numbers.setdefault(one, len(numbers)) for one in whose], dtype=np.int32)
        source = every[table.frame_of.array()[indices]]
        for number in (at for at, one in enumerate(table.kind.counters) if one == name):
            place = table.kind.counters_at + 2 * number
            begin, grown = (table.column(at)[indices].astype(np.int64) for at in (place, place + 1))
            far = (np.abs(begin) >= _MOST) | (np.abs(grown) >= _MOST)
            bad |= set(source[far].tolist()) | {numbers[one] for one in whose if one in elsewhere}
            # The column cannot hold the number, but its row may claim it.
            found |= set(places[far].tolist())
            counts = ~far & (grown > 0)
            for kept, values in zip(spans, (source, begin, begin + grown, places), strict=True):
                kept.append(values[counts])
    source, begin, end, places = (np.concatenate(one) for one in spans)
    order = np.lexsort((begin, source))
    source, begin, end = source[order], begin[order], end[order]
    # In sorted order a span that overlaps any later span overlaps the next one.
    into = (source[1:] == source[:-1]) & (begin[1:] < end[:-1])
    bad |= set(source[1:][into].tolist())
    if bad:
        found |= set(places[order[np.isin(source, np.array(sorted(bad), dtype=np.int32))]].tolist())
    return found
