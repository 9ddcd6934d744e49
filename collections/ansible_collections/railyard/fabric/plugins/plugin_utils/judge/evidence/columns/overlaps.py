# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short rows of which a counter may be another row's too, by the column. Who counts what twice, rows tell."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    ShortRow,
    Table,
)

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Source = tuple[str, str, str]
"""A host, its netdev or port, and the counter's name."""
#: Beyond it two values of a column do not add up.
_MOST = 1 << 61


def suspected(
    parts: Iterable[tuple[Table, Any]], source_of: Callable[[Any, str], Source], elsewhere: Collection[Source]
) -> Iterator[ShortRow]:
    """Yield the rows of which a counter's span reaches into another's, or may do so.

    Args:
        parts: tables, and which of their rows count.
        source_of: returns whose counter it is that a row, or its frame, brings.
        elsewhere: counters that other rows than short ones bring too.
    """
    numbers: dict[Source, int] = {}
    spans: list[list[Any]] = [[], [], [], []]
    bad: set[int] = set()
    beyond: set[int] = set()
    rows: list[tuple[int, Table, Any]] = []
    first = 0
    for table, indices in parts:
        frames = table.frame_of.array()[indices]
        places = np.arange(first, first + len(indices), dtype=np.int64)
        rows.append((first, table, indices))
        first += len(indices)
        for number, name in enumerate(table.kind.counters):
            place = table.kind.of_counters + 2 * number
            begin, grown = (table.column(at)[indices].astype(np.int64) for at in (place, place + 1))
            whose = [source_of(frame.row, name) for frame in table.frames]
            source = np.array([numbers.setdefault(one, len(numbers)) for one in whose], dtype=np.int64)[
                frames
            ]
            far = (np.abs(begin) >= _MOST) | (np.abs(grown) >= _MOST)
            bad |= set(source[far].tolist()) | {numbers[one] for one in whose if one in elsewhere}
            # It is no number here, but one that its row may claim.
            beyond |= set(places[far].tolist())
            counts = ~far & (grown > 0)
            for kept, values in zip(spans, (source, begin, begin + grown, places), strict=True):
                kept.append(values[counts])
    if not spans[0]:
        return
    source, begin, end, places = (np.concatenate(one) for one in spans)
    order = np.lexsort((begin, source))
    source, begin, end, places = (one[order] for one in (source, begin, end, places))
    # Sorted, none reaches into another unless it does into the next.
    into = (source[1:] == source[:-1]) & (begin[1:] < end[:-1])
    bad |= set(source[1:][into].tolist())
    if bad:
        near = np.isin(source, np.array(sorted(bad), dtype=np.int64))
        firsts = [begin for begin, _table, _indices in rows]
        for place in sorted(beyond | set(places[near].tolist())):
            begin, table, indices = rows[bisect.bisect_right(firsts, place) - 1]
            yield table.row(int(indices[place - begin]))
