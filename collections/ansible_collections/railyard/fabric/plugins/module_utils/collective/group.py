# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The processes of a job, as torch knows them, and how long a step takes the slowest of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any


class Group:
    """The processes of a job.

    Attributes:
        torch: the module.
        rank: this process's.
        world: how many there are.
        processes: how many of them are on this node.
        parts: over how many rails an operation is spread, one part on each.
        device: where tensors are, `cpu` or `cuda:K`.
    """

    def __init__(self, torch: Any, rank: int, world: int, processes: int, parts: int, device: str) -> None:
        self.torch = torch
        self.dist = torch.distributed
        self.rank = rank
        self.world = world
        self.processes = processes
        self.parts = parts
        self.device = device

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
