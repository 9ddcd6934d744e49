# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small training job by torch's DistributedDataParallel: samples a second of one process and of all.

The same model and data for everybody who asks, by fixed seeds. Each step ends with an all-reduce of all
gradients, which DDP begins while it still goes back through the layers; a step without it (`no_sync`) tells
which share of a step the network costs.
"""

from __future__ import annotations

import contextlib
import math
import statistics
import time
from collections.abc import Callable
from typing import Any

from . import operations
from .group import Group

# Of three parts of the time: alone, with the others' gradients, and without them. Steps at least and at most.
_LEAST, _MOST, _WARM_UP = 5, 500, 2
_FEATURES = 256
_SEED = 20260101
# width, layers, samples a step: 0.4 million parameters for a processor, 67 million for a GPU.
_ON_CPU, _ON_GPU = (512, 1, 32), (4096, 4, 512)


def train(group: Group, duration_s: float) -> dict[str, Any]:
    """Train for about so many seconds.

    Returns:
        `{t, steps, gradient_bytes, moved_bytes, samples_per_s, alone_samples_per_s, efficiency_percent,
        communication_percent, loss_first, loss_last, ranks_differ}`. `samples_per_s` is of all processes
        together, `alone_samples_per_s` the mean of what each did alone at the same time;
        `efficiency_percent` holds the first against all that they did alone.
    """
    torch, dist = group.torch, group.dist
    width, layers, batch = _ON_CPU if group.device == "cpu" else _ON_GPU
    torch.manual_seed(_SEED)
    model = _model(torch, width, layers).to(group.device)
    teacher = torch.randn(_FEATURES, 1, device=group.device) / math.sqrt(_FEATURES)
    torch.manual_seed(_SEED + 1 + group.rank)
    data = torch.randn(batch, _FEATURES, device=group.device)
    target = torch.tanh(data @ teacher)
    job = _Job(group, data, target, duration_s / 3)

    alone_s = job.measure(model, True)
    rate_alone = batch / statistics.median(alone_s)
    rates = torch.tensor([rate_alone], dtype=torch.float64, device=group.device)
    dist.all_reduce(rates)

    torch.manual_seed(_SEED)
    model = _model(torch, width, layers).to(group.device)
    ids = None if group.device == "cpu" else [torch.device(group.device).index]
    together = torch.nn.parallel.DistributedDataParallel(model, device_ids=ids)
    losses = job.losses = []
    sync_s = group.slowest(job.measure(together, True, agree=True))
    steps = len(losses)
    quiet_s = group.slowest(job.measure(together, False, agree=True))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    seconds, quiet = statistics.median(sync_s), statistics.median(quiet_s)
    rate = group.world * batch / seconds
    factor = operations.wire_factor(operations.ALLREDUCE, group.world)
    loss = torch.tensor([losses[0], losses[steps - 1]], dtype=torch.float64, device=group.device)
    dist.all_reduce(loss)
    first, last = (float(number) / group.world for number in loss.tolist())
    return {
        "t": "trained",
        "steps": steps,
        "gradient_bytes": 4 * parameters,
        "moved_bytes": round(4 * parameters * steps * factor),
        "samples_per_s": round(rate, 2),
        "alone_samples_per_s": round(float(rates[0]) / group.world, 2),
        "efficiency_percent": round(100 * rate / float(rates[0]), 1),
        "communication_percent": round(100 * max(1 - quiet / seconds, 0.0), 1),
        "loss_first": first if math.isfinite(first) else None,
        "loss_last": last if math.isfinite(last) else None,
        "ranks_differ": job.differ_after_sync,
    }


class _Job:
    """One rank's data, and the loop over it."""

    def __init__(self, group: Group, data: Any, target: Any, seconds: float) -> None:
        self._group = group
        self._data = data
        self._target = target
        self._seconds = seconds
        self.losses: list[float] = []
        self.differ_after_sync = False

    def measure(self, model: Any, sync: bool, agree: bool = False) -> list[float]:
        """Return the seconds of each step; by all ranks alike many steps where they must agree."""
        group = self._group
        optimizer = group.torch.optim.SGD(model.parameters(), lr=0.01)
        quiet: Callable[[], Any] = contextlib.nullcontext if sync else model.no_sync
        warm = [self._step(model, optimizer, quiet) for _step in range(_WARM_UP)][-1:]
        times = self._seconds / max(*(group.slowest(warm) if agree else warm), 1e-6)
        steps = range(int(min(max(times, _LEAST), _MOST)))
        measured = [self._step(model, optimizer, quiet) for _step in steps]
        if sync and agree:
            self._compare(model)
        return measured

    def _step(self, model: Any, optimizer: Any, quiet: Callable[[], Any]) -> float:
        self._group.settle()
        begun = time.monotonic()
        with quiet():
            loss = ((model(self._data) - self._target) ** 2).mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        self._group.settle()
        ended = time.monotonic()
        self.losses.append(float(loss.detach()))
        return ended - begun

    def _compare(self, model: Any) -> None:
        """Note whether the ranks hold the same parameters, as they must when each got the same gradients."""
        total = float(sum(parameter.detach().double().abs().sum() for parameter in model.parameters()))
        greatest, least = self._group.slowest([total, -total])
        self.differ_after_sync = greatest + least != 0.0


def _model(torch: Any, width: int, layers: int) -> Any:
    inner: list[Any] = []
    for _layer in range(layers):
        inner += [torch.nn.Linear(width, width), torch.nn.ReLU()]
    first = [torch.nn.Linear(_FEATURES, width), torch.nn.ReLU()]
    return torch.nn.Sequential(*first, *inner, torch.nn.Linear(width, 1))
