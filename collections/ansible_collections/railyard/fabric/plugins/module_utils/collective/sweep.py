# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long an operation of each size takes, and whether its result is right.

Two rates, as nccl-tests names them: algbw is bytes over time; busbw is algbw by what each rank's wire has to
carry each way, such as 2(n-1)/n in the ring of an all-reduce, and so what a rail's rate bounds. A single rank
has no wire: its busbw is 0.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import operations
from .group import Group

#: How often each size is done before it is timed.
WARM_UP = 2
_LEAST, _MOST = 3, 1000


def sizes_up_to(most_bytes: int) -> list[int]:
    """Return the sizes of a sweep: 4 KiB, four times as much each, and the greatest."""
    sizes = [size for size in (4096 << (2 * step) for step in range(20)) if size < most_bytes]
    return [*sizes, most_bytes]


def sweep(
    group: Group,
    name: str,
    sizes: Sequence[int],
    duration_s: float,
    tell: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Measure all sizes of an operation within some seconds, and tell a line for each.

    Args:
        group: the processes.
        name: one of `operations.NAMES`.
        sizes: bytes, growing; those of which a message would be mostly headers are left out, the last never.
        duration_s: how long all sizes may take; a size that would take longer than what is left is left out,
            the first one never.
        tell: takes `{t, size_bytes, iterations, time_us, time_min_us, algbw_GBps, busbw_GBps, wrong}`: the
            median and the least of the slowest rank's times.

    Returns:
        `{t, call, moved_bytes, left_out_bytes}`: by what of torch's it was done, what this node sent in all,
        and the sizes that did not fit the time.
    """
    begun = time.monotonic()
    kind = operations.kind(group, name)
    factor = operations.rails_factor(name, group.world, group.processes)
    least = operations.least_bytes(name, group.world)
    sizes = [size for size in sizes if size >= least] or sizes[-1:]
    moved, last_s = 0.0, 0.0
    left_out: list[int] = []
    for index, size in enumerate(sizes):
        if index:
            # A quarter of the size takes a quarter of the time, or more where waiting is most of it.
            expected_s = last_s * size / sizes[index - 1] * (WARM_UP + _LEAST)
            if group.slowest([time.monotonic() - begun])[0] + expected_s > duration_s:
                left_out = list(sizes[index:])
                break
        # The small ones, which are many and quick, leave half of the time to the greatest.
        share_s = duration_s / (2 * len(sizes)) if index + 1 < len(sizes) else duration_s / 2
        last_s, line = _size(group, kind(group, size), operations.wire_factor(name, group.world), share_s)
        moved += (line["iterations"] + WARM_UP) * line["size_bytes"] * factor
        tell(line)
    return {"t": "swept", "call": kind.call, "moved_bytes": round(moved), "left_out_bytes": left_out}


def _size(
    group: Group, operation: operations.Operation, wire_factor: float, share_s: float
) -> tuple[float, dict[str, Any]]:
    group.timed(operation.run, operation.fill, WARM_UP)
    bad = operation.wrong()
    # A shaped or buffered wire is quick at first: never more than twice as often as it was looked at.
    seconds = group.timed(operation.run, operation.fill, _LEAST)
    while len(seconds) < _MOST and sum(seconds) < share_s:
        fit = (share_s - sum(seconds)) / max(seconds[-1], 1e-6)
        more = int(min(max(fit, 1), len(seconds), _MOST - len(seconds)))
        seconds += group.timed(operation.run, operation.fill, more)
    bad = int(group.slowest([max(bad, operation.wrong())])[0])
    median_s = statistics.median(seconds)
    algbw = operation.size_bytes / median_s / 1e9
    line = {
        "t": "size",
        "size_bytes": operation.size_bytes,
        "iterations": len(seconds),
        "time_us": round(median_s * 1e6, 1),
        "time_min_us": round(min(seconds) * 1e6, 1),
        "algbw_GBps": _digits(algbw),
        "busbw_GBps": _digits(algbw * wire_factor),
        "wrong": bad,
    }
    return median_s, line


def _digits(number: float) -> float:
    return float(f"{number:.5g}")
