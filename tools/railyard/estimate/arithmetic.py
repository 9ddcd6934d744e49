"""The arithmetic of a step of data-parallel training. Pure; bytes, bytes/s and seconds."""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from typing import NamedTuple

from railyard.estimate.job import Job

_FORWARD, _BACKWARD = 1, 2
_OPERATIONS = 2  # a multiplication and an addition for each parameter and token
#: (message's bytes, bus bandwidth in bytes/s), the sizes ascending.
Curve = Sequence[tuple[int, float]]


class AllReduce(NamedTuple):
    """Seconds of one all-reduce of all gradients at the links' rates; None where a rate was not given.

    Attributes:
        rule_of_thumb_s: twice the gradients over the narrowest link.
        exact_s: what a ring over all GPUs sends over it.
        in_node_s: reduce-scatter and all-gather within the nodes, together.
        between_nodes_s: the all-reduce of the nodes' shares, over all rails, between the two.
    """

    rule_of_thumb_s: float
    exact_s: float
    in_node_s: float | None
    between_nodes_s: float

    @property
    def hierarchical_s(self) -> float | None:
        """The three steps, one after the other."""
        return None if self.in_node_s is None else self.in_node_s + self.between_nodes_s


class Step(NamedTuple):
    """How communication and compute of a step go together; None where compute is not known.

    Attributes:
        exposed_s: communication that is left when compute is done, if they overlap as far as they can.
        hidden: whether nothing is left.
        scaling_efficiency: compute by the whole step: 1 is as many times as fast as there are GPUs.
    """

    exposed_s: float | None
    hidden: bool | None
    scaling_efficiency: float | None


def ring_factor(ranks: int) -> float:
    """Return how many times its data each of so many ranks sends in a ring's all-reduce."""
    return 2 * (ranks - 1) / ranks


def narrowest_bytes_per_s(job: Job) -> float:
    """Return the rate that a ring over all GPUs goes at; infinite for one GPU, which sends nothing."""
    ways = [job.in_node_bytes_per_s if job.gpus > 1 else None]
    ways += [job.between_nodes_bytes_per_s if job.nodes > 1 else None]
    return min([way for way in ways if way is not None], default=math.inf)


def all_reduce(job: Job) -> AllReduce:
    """Return how long a job's gradients take."""
    size, narrowest = job.gradient_bytes, narrowest_bytes_per_s(job)
    within: float | None = 0.0
    if job.gpus > 1:
        rate = job.in_node_bytes_per_s
        within = None if rate is None else ring_factor(job.gpus) * size / rate
    between = 0.0
    if job.nodes > 1 and job.between_nodes_bytes_per_s is not None:
        between = ring_factor(job.nodes) * size / job.between_nodes_bytes_per_s
    return AllReduce(2 * size / narrowest, ring_factor(job.ranks) * size / narrowest, within, between)


def passes(job: Job) -> int:
    """Return how many passes through the model a step takes: the backward one counts as two."""
    return _FORWARD * (2 if job.recompute else 1) + _BACKWARD


def compute_s(job: Job) -> float | None:
    """Return how long the GPUs compute in a step; None where an option for it was not given."""
    if job.seqlen is None or job.global_batch is None or job.peak_tflops is None or job.mfu is None:
        return None
    operations = passes(job) * _OPERATIONS * job.params * job.seqlen * job.global_batch
    return operations / (job.ranks * job.peak_tflops * 1e12 * job.mfu)


def step(communication_s: float, computing_s: float | None) -> Step:
    """Return what of the communication compute does not hide, both beginning at once."""
    if computing_s is None:
        return Step(None, None, None)
    exposed_s = max(communication_s - computing_s, 0.0)
    return Step(exposed_s, exposed_s == 0, computing_s / (computing_s + exposed_s))


def busbw_at(curve: Curve, size_bytes: float) -> float | None:
    """Return a measured bus bandwidth at a size, in bytes/s, between the sizes that were measured.

    Between two sizes it goes evenly with the size's logarithm, since such tables double from row to row.
    Above the largest it is taken as there, which is too low if anything. Below the smallest that would be too
    high: None.
    """
    above = bisect.bisect_left(curve, (size_bytes, 0.0))
    if above == len(curve):
        return curve[-1][1]
    size, rate = curve[above]
    if size == size_bytes:
        return rate
    if above == 0:
        return None
    smaller, lower = curve[above - 1]
    return lower + (rate - lower) * math.log(size_bytes / smaller) / math.log(size / smaller)
