# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All-reduce, all-gather and all-to-all by torch: what each sends, and whether what came is right.

A size is what nccl-tests calls so: what a rank gives to an all-reduce or an all-to-all, and what it gets of
an all-gather. ProcessGroupGloo gives each operation to the next of its interfaces in turn, so that as many at
once as there are interfaces use all of them: an operation is done in parts, one for each rail. NCCL spreads
one by itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from .group import Group

NAMES = ALLREDUCE, ALLGATHER, ALLTOALL = ("allreduce", "allgather", "alltoall")
_FLOAT_BYTES = 4
# A prime, so that no chunk of a ring begins with the same number as another.
_PATTERN = 251
# The largest prime with which all numbers are integers below 2^24, up to which floats are exact.
_BLOCKS = 65521
# Below that gloo's and TCP's headers are too much of a message for the counters' proof: 19 % at 4 KiB were
# seen, 5 % at 16.
_LEAST_MESSAGE_BYTES = 16384


def wire_factor(name: str, ranks: int) -> float:
    """Return busbw by algbw: how many times a size each rank's wire carries each way.

    By doc/PERFORMANCE.md of nccl-tests.
    """
    return (2.0 if name == ALLREDUCE else 1.0) * (ranks - 1) / ranks


def rails_factor(name: str, ranks: int, processes: int) -> float:
    """Return how many times a size a node's rails carry each way.

    The ring of an all-reduce or an all-gather comes into a node once and leaves it once. In an all-to-all
    each of its processes has a block for each process of the others, which always crosses the network.
    """
    return processes * (ranks - processes) / ranks if name == ALLTOALL else wire_factor(name, ranks)


def least_bytes(name: str, ranks: int) -> int:
    """Return the size below which a message between two ranks is mostly headers."""
    return 0 if name == ALLREDUCE else _LEAST_MESSAGE_BYTES * ranks


def kind(group: Group, name: str) -> type[Operation]:
    """Return by which class all ranks of a group do an operation, by what their torch has."""
    if name == ALLREDUCE:
        return AllReduce
    if name == ALLGATHER:
        at_once = group.device != "cpu" and hasattr(group.dist, "all_gather_into_tensor")
        return AllGatherAtOnce if at_once else AllGather
    return AllToAll if group.device != "cpu" or _all_have_all_to_all(group) else AllToAllByPairs


class Operation:
    """One operation of one size: `fill`, `run`, and then `wrong`.

    Attributes:
        call: torch's own name of what it is done by.
        size_bytes: the size that it has, which is divided evenly among ranks and rails.
    """

    call = ""

    def __init__(self, group: Group, size_bytes: int) -> None:
        self._group = group
        self.size_bytes = size_bytes

    def fill(self) -> None:
        """Make the tensors such that what an earlier run left in them is no right result."""
        raise NotImplementedError

    def run(self) -> None:
        """Do it, on all rails at once."""
        for work in self._started():
            work.wait()

    def wrong(self) -> int:
        """Return how many numbers are not what they have to be."""
        raise NotImplementedError

    def _started(self) -> list[Any]:
        raise NotImplementedError


class AllReduce(Operation):
    """All ranks' numbers are added up, and each gets the sums."""

    call = "all_reduce"

    def __init__(self, group: Group, size_bytes: int) -> None:
        count = max(size_bytes // _FLOAT_BYTES, 1)
        super().__init__(group, count * _FLOAT_BYTES)
        # Whole numbers, which floats add exactly; by its place each has its own: a chunk in a wrong one
        # shows.
        self._given = _places(group, count)
        self._right = self._given * group.world + group.world * (group.world + 1) / 2
        self._given += group.rank + 1
        self._got = group.torch.empty_like(self._given)

    def fill(self) -> None:
        """Give what is to be added up, in place."""
        self._got.copy_(self._given)

    def wrong(self) -> int:
        """Return how many sums are wrong."""
        return int((self._got != self._right).sum())

    def _started(self) -> list[Any]:
        group = self._group
        return [group.dist.all_reduce(part, async_op=True) for part in self._got.chunk(group.parts)]


class _Exchange(Operation):
    """Blocks go from rank to rank; each number says whose block it is in, for whom, and at which place."""

    def __init__(self, group: Group, size_bytes: int) -> None:
        unit_bytes = _FLOAT_BYTES * group.world * group.parts
        count = max(size_bytes // unit_bytes, 1)
        super().__init__(group, count * unit_bytes)
        torch, ranks, parts = group.torch, range(group.world), range(group.parts)
        places = _places(group, count)
        # Of each part a line for each rank.
        self._given = [_marked(torch, places, self._gives(group.rank, ranks), part, group) for part in parts]
        self._right = [_marked(torch, places, self._gets(group.rank, ranks), part, group) for part in parts]
        self._got = [torch.empty_like(right) for right in self._right]

    def fill(self) -> None:
        for got in self._got:
            got.fill_(-1)

    def wrong(self) -> int:
        pairs = zip(self._got, self._right)  # noqa: B905 - Python 3.9
        return sum(int((got != right).sum()) for got, right in pairs)

    def _gives(self, own: int, ranks: Sequence[int]) -> list[int]:
        """Return the numbers of the blocks that a rank gives."""
        raise NotImplementedError

    def _gets(self, own: int, ranks: Sequence[int]) -> list[int]:
        """Return the numbers of the blocks that a rank gets, by whom they are from."""
        raise NotImplementedError


class AllGather(_Exchange):
    """Each rank has a block, and gets those of all."""

    call = "all_gather"

    def _gives(self, own: int, ranks: Sequence[int]) -> list[int]:
        return [own]

    def _gets(self, own: int, ranks: Sequence[int]) -> list[int]:
        return list(ranks)

    def _started(self) -> list[Any]:
        pairs = zip(self._got, self._given)  # noqa: B905 - Python 3.9
        return [self._group.dist.all_gather(list(got), given[0], async_op=True) for got, given in pairs]


class AllGatherAtOnce(AllGather):
    """The same into one tensor, which spares a GPU a copy."""

    call = "all_gather_into_tensor"

    def _started(self) -> list[Any]:
        gather = self._group.dist.all_gather_into_tensor
        pairs = zip(self._got, self._given)  # noqa: B905 - Python 3.9
        return [gather(got.view(-1), given[0], async_op=True) for got, given in pairs]


class AllToAll(_Exchange):
    """Each rank has a block for each, and gets one of each."""

    call = "all_to_all_single"

    def _gives(self, own: int, ranks: Sequence[int]) -> list[int]:
        return [own * len(ranks) + rank for rank in ranks]

    def _gets(self, own: int, ranks: Sequence[int]) -> list[int]:
        return [rank * len(ranks) + own for rank in ranks]

    def _started(self) -> list[Any]:
        pairs = zip(self._got, self._given)  # noqa: B905 - Python 3.9
        return [self._group.dist.all_to_all_single(got, given, async_op=True) for got, given in pairs]


class AllToAllByPairs(AllToAll):
    """The same by messages between two, where torch's gloo has nothing else; its tag says by which rail."""

    call = "isend, irecv"

    def _started(self) -> list[Any]:
        dist, own, world = self._group.dist, self._group.rank, self._group.world
        # Each begins with its neighbour: else all would send to the first rank first.
        others = [(own + step) % world for step in range(1, world)]
        works: list[Any] = []
        for part, got in enumerate(self._got):
            works += [dist.irecv(got[peer], peer, tag=part) for peer in others]
        for part, given in enumerate(self._given):
            works += [dist.isend(given[peer], peer, tag=part) for peer in others]
            self._got[part][own].copy_(given[own])
        return works


def _places(group: Group, count: int) -> Any:
    torch = group.torch
    return torch.arange(count, dtype=torch.float32, device=group.device).remainder_(_PATTERN)


def _marked(torch: Any, places: Any, blocks: Sequence[int], part: int, group: Group) -> Any:
    """Return a line of numbers for each block, which no other block of another part or rank has."""
    marks = [(block * group.parts + part) % _BLOCKS * _PATTERN for block in blocks]
    return torch.tensor(marks, dtype=torch.float32, device=group.device)[:, None] + places[None, :]


def _all_have_all_to_all(group: Group) -> bool:
    """Tell whether all_to_all_single of every rank works, by a small one.

    Unlike versions do not try: those that have it would wait for those that have not.
    """
    torch = group.torch
    version = float(zlib.crc32(str(torch.__version__).encode()))
    greatest, least = group.slowest([version, -version])
    lacks = 1.0
    if greatest == -least:
        numbers = torch.zeros(group.world)
        try:
            group.dist.all_to_all_single(torch.empty_like(numbers), numbers)
            lacks = 0.0
        except (AttributeError, RuntimeError):
            lacks = 1.0
    return group.slowest([lacks])[0] == 0.0
