# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce by torch: how long each size takes, and whether the sum is right.

Two rates, as nccl-tests names them: algbw is bytes over time; busbw is algbw x 2(n-1)/n, what each rank's
wire carries each way in a ring, and so what a rail's rate bounds. A single rank has no wire: its busbw is 0.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: How often each size is reduced before it is timed.
WARM_UP = 2
_LEAST, _MOST = 3, 1000
_FLOAT_BYTES = 4
# A prime, so that no chunk of a ring begins with the same number as another.
_PATTERN = 251


class Group:
    """The processes of a job, as torch knows them.

    Attributes:
        torch: the module.
        rank: this process's.
        world: how many there are.
        parts: over how many rails an all-reduce is spread, one operation on each.
        device: where tensors are, `cpu` or `cuda:K`.
    """

    def __init__(self, torch: Any, rank: int, world: int, parts: int, device: str) -> None:
        self.torch = torch
        self.dist = torch.distributed
        self.rank = rank
        self.world = world
        self.parts = parts
        self.device = device

    @property
    def wire_factor(self) -> float:
        """Return how many times its size an all-reduce sends from each rank in a ring."""
        return 2.0 * (self.world - 1) / self.world

    def settle(self) -> None:
        """Wait until the device has done what it was given."""
        if self.device != "cpu":
            self.torch.cuda.synchronize()

    def slowest(self, numbers: Sequence[float]) -> list[float]:
        """Return for each number the greatest that any rank has."""
        tensor = self.torch.tensor(numbers, dtype=self.torch.float64, device=self.device)
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return [float(number) for number in tensor.tolist()]

    def timed(self, step: Callable[[], object], prepare: Callable[[], object], times: int) -> list[float]:
        """Return the slowest rank's seconds for each of so many steps."""
        seconds = []
        for _time in range(times):
            prepare()
            self.settle()
            begun = time.monotonic()
            step()
            self.settle()
            seconds.append(time.monotonic() - begun)
        return self.slowest(seconds)

    def sum_up(self, tensor: Any) -> None:
        """All-reduce a tensor, spread over the rails.

        ProcessGroupGloo gives each operation to the next of its interfaces in turn, so that as many at once
        as there are interfaces use all of them; NCCL spreads one operation by itself.
        """
        works = [self.dist.all_reduce(part, async_op=True) for part in tensor.chunk(self.parts)]
        for work in works:
            work.wait()


def sizes_up_to(most_bytes: int) -> list[int]:
    """Return the sizes of a sweep: 4 KiB, four times as much each, and the greatest."""
    sizes = [size for size in (4096 << (2 * step) for step in range(20)) if size < most_bytes]
    return [*sizes, most_bytes]


def sweep(
    group: Group, sizes: Sequence[int], duration_s: float, tell: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any]:
    """Measure all sizes within some seconds, and tell a line for each.

    Args:
        group: the processes.
        sizes: bytes, growing.
        duration_s: how long all sizes may take; a size that would take longer than what is left is left out,
            the first one never.
        tell: takes `{t, size_bytes, iterations, time_us, time_min_us, algbw_GBps, busbw_GBps, wrong}`: the
            median and the least of the slowest rank's times.

    Returns:
        `{t, moved_bytes, left_out_bytes}`: what each rank sent in all, and the sizes that were left out.
    """
    begun = time.monotonic()
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
        last_s, iterations, line = _size(group, size, share_s)
        moved += (iterations + WARM_UP) * size * group.wire_factor
        tell(line)
    return {"t": "swept", "moved_bytes": round(moved), "left_out_bytes": left_out}


def _size(group: Group, size: int, share_s: float) -> tuple[float, int, dict[str, Any]]:
    torch = group.torch
    count = max(size // _FLOAT_BYTES, 1)
    # Whole numbers, which floats add exactly; by its place each has its own: a chunk in a wrong one shows.
    pattern = torch.arange(count, dtype=torch.float32, device=group.device).remainder_(_PATTERN)
    right = pattern * group.world + group.world * (group.world + 1) / 2
    pattern += group.rank + 1
    buffer = torch.empty_like(pattern)

    def wrong() -> float:
        return float((buffer != right).sum())

    def fill() -> None:
        buffer.copy_(pattern)

    group.timed(lambda: group.sum_up(buffer), fill, WARM_UP)
    bad = wrong()
    # A shaped or buffered wire is quick at first: never more than twice as often as it was looked at.
    seconds = group.timed(lambda: group.sum_up(buffer), fill, _LEAST)
    while len(seconds) < _MOST and sum(seconds) < share_s:
        fit = (share_s - sum(seconds)) / max(seconds[-1], 1e-6)
        more = int(min(max(fit, 1), len(seconds), _MOST - len(seconds)))
        seconds += group.timed(lambda: group.sum_up(buffer), fill, more)
    iterations = len(seconds)
    bad = group.slowest([max(bad, wrong())])[0]
    median_s = statistics.median(seconds)
    algbw = count * _FLOAT_BYTES / median_s / 1e9
    line = {
        "t": "size",
        "size_bytes": count * _FLOAT_BYTES,
        "iterations": iterations,
        "time_us": round(median_s * 1e6, 1),
        "time_min_us": round(min(seconds) * 1e6, 1),
        "algbw_GBps": _digits(algbw),
        "busbw_GBps": _digits(algbw * group.wire_factor),
        "wrong": int(bad),
    }
    return median_s, iterations, line


def _digits(number: float) -> float:
    return float(f"{number:.5g}")
