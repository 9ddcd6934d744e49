"""While packed rows are read, a host is noticed if any two spans of one of its counters overlap."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import Frame
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.spans import (
    MOST,
    Added,
    Spans,
    source_of,
)

HOSTS = ("gpu01", "gpu02", "gpu03")


class Row(NamedTuple):
    """A row: its frame, its spans, and the position of its line."""

    frame: dict[str, str]
    spans: dict[str, tuple[int, int]]
    begin: int


def frame_of(host: str, rail: int) -> dict[str, str]:
    # Two rails are VLANs of one port.
    return {"host": host, "netdev": f"ens0.{rail}", "hca": f"mlx5_{rail // 2}:1"}


def add(spans: Spans, kinds: dict[tuple[str, ...], list[Frame]], rows: list[Row]) -> None:
    """Add rows as `Tables` does: those with the same counters together, whatever is between them."""
    parts = []
    for counters in dict.fromkeys(tuple(row.spans) for row in rows):
        mine = [row for row in rows if tuple(row.spans) == counters]
        frames = kinds.setdefault(counters, [])
        for row in mine:
            if row.frame not in [one.row for one in frames]:
                frames.append(Frame(row.frame, 0, (), "", 0))
        of = [next(at for at, one in enumerate(frames) if one.row == row.frame) for row in mine]
        values = [tuple(value for span in row.spans.values() for value in span) for row in mine]
        dtype = [(f"{what} {name}", "<i8") for name in counters for what in ("before", "growth")]
        columns: Any = np.array(values, dtype=dtype)
        parts.append(Added(frames, counters, columns, np.array(of), np.array([row.begin for row in mine])))
    spans.add(parts)


def overlapping(rows: list[Row]) -> set[str]:
    """Return the hosts with spans that overlap, by comparing each two."""
    by_source: dict[Any, list[tuple[int, int]]] = {}
    for row in rows:
        for name, (before, growth) in row.spans.items():
            if growth > 0:
                by_source.setdefault(source_of(row.frame, name), []).append((before, before + growth))
    return {
        source[0]
        for source, found in by_source.items()
        for one, other in combinations(found, 2)
        if one[0] < other[1] and other[0] < one[1]
    }


@pytest.mark.parametrize("seed", range(150))
def test_no_overlap_is_missed_and_rows_in_order_are_not_doubted(seed: int) -> None:
    draw = random.Random(seed)
    now: dict[Any, int] = {}
    rows = []
    for turn in range(draw.randint(2, 60)):
        frame = frame_of(draw.choice(HOSTS), draw.randrange(4))
        names = draw.choice((("rx_bytes",), ("rx_bytes", "port_rcv_data"), ("port_rcv_data",)))
        made = {}
        for name in names:
            source = source_of(frame, name)
            before = now.get(source, 100) + draw.choice((0, 0, 1, 50))
            growth = draw.choice((0, 1, 30))
            if seed % 3 and frame["host"] != "gpu03" and draw.random() < 0.1:
                before, growth = before + draw.choice((-60, -1, 40)), growth + draw.choice((-40, 0, 70))
            made[name] = (before, growth)
            now[source] = before + growth
        # The rows of a line have the same counters.
        in_line = bool(rows) and tuple(rows[-1].spans) == names and draw.random() < 0.5
        rows.append(Row(frame, made, rows[-1].begin if in_line else turn))
    spans, kinds = Spans(), dict[tuple[str, ...], list[Frame]]()
    at = 0
    while at < len(rows):
        end = at + draw.randint(1, 12)
        # Lines are read whole.
        while 0 < end < len(rows) and rows[end].begin == rows[end - 1].begin:
            end += 1
        add(spans, kinds, rows[at:end])
        at = end
    assert overlapping(rows) <= spans.doubtful
    assert "gpu03" not in spans.doubtful
    assert not spans.doubtful or seed % 3


@pytest.mark.parametrize("span", [(MOST, 1), (-MOST, 1), (5, MOST), (5, -1)])
def test_a_counter_that_cannot_be_compared_is_doubtful(span: tuple[int, int]) -> None:
    spans = Spans()
    rows = [("gpu01", span), ("gpu02", (0, 1))]
    add(spans, {}, [Row(frame_of(host, 0), {"rx_bytes": one}, at) for at, (host, one) in enumerate(rows)])
    assert spans.doubtful == {"gpu01"}
