# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is slow: from the matrix of all tests to rails, leaves, nodes, rails of nodes and pairs. Pure.

What explains the most is named first, and what it explains is nobody else's: a rail on which nothing is
good, a leaf behind which nothing is, a node that is slow on each rail where that can be seen, a single rail
of a node; last a pair that is slower than both of its ends. `slow_rails` beside it gives the verdicts of a
run their causes, from verdicts alone; here whole levels are compared, and no bound is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    CONFIRMED,
    ENOUGH_PARTNERS,
    LEAF,
    LIKELY,
    NODE,
    NODE_RAIL,
    PAIR,
    RAIL,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import levels as ends
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import pairs
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.measured import (
    NONE,
    Tests,
    Wiring,
)

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none; see measured.py
    np = None  # type: ignore[assignment]

#: Of what its like carries: below it an end, a leaf or a rail is slow.
SLOW = 0.9
#: Of the planned rate: a rail that carries less is slow, whatever the others do.
_OF_RATE = 0.88
#: What a good rail carries of its planned rate where no rail is good.
_USUAL = 0.95
#: What leaves so much of what is above it hardly shows, and noise may hide it.
_HIDES = 0.85
#: An end that met fewer partners is taken to be as good as its like, unless it is slow.
_PRECISE = 12
#: A slow end stands out by so many standard errors of its level.
_ERRORS = 5.0
#: Nothing can be told of what lies behind a rail or a leaf that carries less of the rate.
DEAD = 0.02
#: Fewer alike ends on a slow rail may as well be slow themselves, as may so many whose pairs differ.
_LEAST_ENDS = 3
#: So many of the ends behind a leaf carry about the same, where the leaf is what slows them.
_MOST_ALIKE = 0.75


class Crossing(NamedTuple):
    """Two leaves between which a rail carries only a share of what it does behind the worse one."""

    rail: str
    leaf: str
    peer_leaf: str
    share: float


class CannotTell(NamedTuple):
    """Something on a rail is slow, and it may be any of these nodes, a path between them, or the rail."""

    rail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """What the tests show.

    Attributes:
        suspects: who is slow.
        doubtful: what further meetings may clear or confirm; `confirm.confirm` lists those.
        cannot_tell: what stays open when there are no further meetings.
        crossing: ways between leaves that are slow and whose leaves are not both; no pair is accused of that.
    """

    suspects: tuple[Suspect, ...]
    doubtful: tuple[Suspect, ...]
    cannot_tell: tuple[CannotTell, ...]
    crossing: tuple[Crossing, ...]


NOTHING = Findings((), (), (), ())


def isolate(tests: Tests, wiring: Wiring) -> Findings:
    """Return who is slow.

    Args:
        tests: of one check that grows with what a path carries, of all meetings, those of confirming rounds
            too; a test that was asked and did not come back is among them, with NaN.
        wiring: the nodes' rails and leaves; planned rates count where all ends have one.
    """
    declared = not np.isnan(wiring.rate_gbps[wiring.there]).any()
    rate = np.where(wiring.there & declared, wiring.rate_gbps, 1.0)
    met, ways = [], []
    for rail, name in enumerate(wiring.rails):
        one = ends.meetings(tests.of_rail(rail), rate[:, rail])
        one, slow_ways = ends.level_crossing(one, wiring.leaf[:, rail])
        met.append(one)
        ways += [Crossing(name, wiring.leaves[a], wiring.leaves[b], left) for a, b, left in slow_ways]
    levels = [ends.levels(one, wiring.leaf[:, rail]) for rail, one in enumerate(met)]
    matrix = _Matrix(wiring, levels, declared)
    suspects = [*matrix.rails(), *matrix.leaves(), *matrix.nodes()]
    doubtful = [one for one in suspects if one.confidence == LIKELY] + list(matrix.unsure())
    for rail, (one, level) in enumerate(zip(met, levels, strict=True)):
        for pair in pairs.low(one, matrix.planned(rail, level), wiring.leaf[:, rail], matrix.is_open(rail)):
            found = Suspect(
                PAIR, wiring.nodes[pair.node], wiring.rails[rail], wiring.nodes[pair.peer], None,
                pair.share, pair.meetings, CONFIRMED if pair.accused else LIKELY,
            )  # fmt: skip
            (suspects if pair.accused else doubtful).append(found)
    slow_leaves = {one.leaf for one in suspects if one.kind == LEAF}
    slow_rails = {one.rail for one in suspects if one.kind == RAIL}
    # Two slow leaves leave less than each; the best leaf of a slow rail is that rail.
    crossing = [
        way
        for way in ways
        if not {way.leaf, way.peer_leaf} <= slow_leaves
        and not (way.rail in slow_rails and slow_leaves & {way.leaf, way.peer_leaf})
    ]
    return Findings(tuple(suspects), tuple(doubtful), tuple(matrix.cannot_tell()), tuple(crossing))


def _top(level: NDArray[np.float64]) -> float:
    """Return what the best of a few alike ends carry."""
    return ends.top(level, np.full(len(level), NONE))


def _is_low_throughout(share: NDArray[np.float64]) -> bool:
    """Tell whether a leaf explains that some ends behind it are slow: none is good, and most are alike.

    Of a leaf that carries 0.9 of the others noise puts half of its ends above SLOW: the leaf is compared with
    other leaves before any of its nodes is named. That both of two ends have the same fault is less likely
    than that their leaf has it.
    """
    middle = float(np.median(share))
    alike = int((np.abs(share / max(middle, DEAD) - 1) < 1 - ends.AT_THE_TOP).sum())
    wanted = max(2, int(np.ceil(_MOST_ALIKE * len(share))))
    return middle < ends.AT_THE_TOP and float(np.max(share)) < ends.GOOD and alike >= wanted


class _Matrix:
    """The levels of all ends, nodes down and rails across, and what explains the slow ones."""

    def __init__(self, wiring: Wiring, levels: Sequence[ends.Levels], declared: bool) -> None:
        self._wiring = wiring
        empty = np.zeros((len(wiring.nodes), 0))
        self._level = np.column_stack([empty, *[one.level for one in levels]])
        self._partners = np.column_stack([empty, *[one.partners for one in levels]])
        self._known = np.column_stack([empty, *[one.known for one in levels]]).astype(bool)
        self._met = np.column_stack([empty, *[one.met for one in levels]]).astype(bool)
        self._rail = np.array([one.rail for one in levels])
        self._least = np.array([one.least for one in levels])
        errors = 1.25 * np.array([one.spread for one in levels]) / np.sqrt(np.maximum(self._partners, 1))
        #: Below this share of its like an end is slow.
        self._limit = np.exp(-np.maximum(-np.log(SLOW), _ERRORS * errors))
        best = float(np.max(self._rail, initial=0.0))
        # Where rates are planned and no rail comes near its own, none of them is the measure.
        self._usual = _USUAL if declared and best < _OF_RATE else best
        self._slow_rail = self._rail < SLOW * self._usual
        #: What an end can carry at most, by what is named above it.
        self._around = np.broadcast_to(self._rail, self._level.shape).copy()
        self._explained = np.zeros(self._level.shape, dtype=bool)

    def rails(self) -> Iterator[Suspect]:
        for rail in np.flatnonzero(self._slow_rail):
            if not self.is_open(int(rail)):
                share = self._rail[rail] / self._usual
                many = int(self._met[:, rail].sum())
                yield Suspect(RAIL, rail=self._wiring.rails[rail], share=float(share), evidence=many)

    def is_open(self, rail: int) -> bool:
        """Tell whether nobody can say if a slow rail is slow, or each of its few nodes."""
        if not self._slow_rail[rail]:
            return False
        alike = self._met[:, rail] & (self._level[:, rail] >= SLOW * self._rail[rail])
        # Where each rail is slow, all nodes but one explain it too: fewer of them than rails are likelier.
        fewer = bool(self._slow_rail.all()) and int(alike.sum()) - 1 <= len(self._slow_rail)
        if alike.sum() <= _LEAST_ENDS and self._least[rail] < SLOW * SLOW * self._rail[rail]:
            return True
        return bool(alike.sum() < _LEAST_ENDS) or (fewer and len(self._slow_rail) > 1)

    def leaves(self) -> Iterator[Suspect]:
        """Name leaves behind which nothing is good, while other leaves of their rails are."""
        wiring = self._wiring
        share = self._shares()
        slow = self._known & (share < self._limit) & self._met
        nodes = {node for node in range(len(wiring.nodes)) if self._whole(node, slow) is not None}
        found = []
        for leaf, places in self._behind():
            rows, columns = places
            mine = share[rows, columns]
            many = int(slow[rows, columns].sum())
            if not (many and _is_low_throughout(mine)) and (many < 2 or (mine >= SLOW).any()):
                continue
            behind = set(rows.tolist())
            others = {int(one) for one in wiring.leaf[rows].ravel() if one != NONE}
            if behind <= nodes and len(behind) < len(others):
                # Fewer slow nodes than slow leaves explain the same.
                continue
            found.append((leaf, rows, columns, _top(mine)))
        for leaf, rows, columns, left in found:
            self._around[rows, columns] *= left
            rails = {wiring.rails[column] for column in columns}
            evidence = int(self._partners[rows, columns].sum())
            yield Suspect(
                LEAF, rail=rails.pop() if len(rails) == 1 else None, leaf=wiring.leaves[leaf], share=left,
                evidence=evidence, confidence=CONFIRMED if evidence >= ENOUGH_PARTNERS else LIKELY,
            )  # fmt: skip

    def nodes(self) -> Iterator[Suspect]:
        """Name nodes, and what of single rails neither their node nor their leaf explains."""
        wiring, share = self._wiring, self._shares()
        slow = self._known & (share < self._limit) & self._met
        singles = []
        for node in np.flatnonzero(slow.any(axis=1)):
            mine = np.flatnonzero(slow[node])
            left = self._whole(int(node), slow)
            if left is not None:
                self._explained[node] = True
                yield Suspect(
                    NODE, wiring.nodes[node], share=float(np.min(left)),
                    evidence=int(np.max(self._partners[node, mine])),
                    confidence=self._confidence(int(node), mine),
                )  # fmt: skip
                mine = mine[(share[node, mine] < SLOW * left[mine]) & (left[mine] > DEAD)]
            self._explained[node, mine] = True
            singles += [
                Suspect(
                    NODE_RAIL, wiring.nodes[node], wiring.rails[rail], share=float(share[node, rail]),
                    evidence=int(self._partners[node, rail]),
                    confidence=self._confidence(int(node), np.array([rail])),
                )
                for rail in mine
            ]  # fmt: skip
        yield from singles

    def unsure(self) -> Iterator[Suspect]:
        """Name slow ends that met too few good partners to be accused."""
        for node, rail in zip(*np.nonzero(self._unsure()), strict=True):
            yield Suspect(
                NODE_RAIL, self._wiring.nodes[node], self._wiring.rails[rail], confidence=LIKELY,
                share=float(self._shares()[node, rail]), evidence=int(self._partners[node, rail]),
            )  # fmt: skip

    def cannot_tell(self) -> Iterator[CannotTell]:
        unsure = self._unsure()
        for rail, name in enumerate(self._wiring.rails):
            nodes = np.flatnonzero(self._met[:, rail] if self.is_open(rail) else unsure[:, rail])
            if len(nodes):
                yield CannotTell(name, tuple(self._wiring.nodes[node] for node in nodes))

    def planned(self, rail: int, levels: ends.Levels) -> ends.Levels:
        """Return what the ends of a rail are taken to carry where their pairs are looked at."""
        around = self._around[:, rail]
        good = (levels.partners < _PRECISE) & (levels.level >= SLOW * around)
        return replace(levels, level=np.where(good, around, levels.level))

    def _shares(self) -> NDArray[np.float64]:
        """Return of each end what it carries of what it could; 1 where that is next to nothing."""
        alive = self._around > DEAD * self._usual
        return np.where(alive, self._level / np.where(alive, self._around, 1.0), 1.0)

    def _unsure(self) -> NDArray[np.bool_]:
        return np.asarray(self._met & ~self._known & ~self._explained & (self._shares() < SLOW))

    def _behind(self) -> Iterator[tuple[int, tuple[NDArray[np.int64], NDArray[np.int64]]]]:
        """Yield each leaf with the ends behind it that were measured, as nodes and rails."""
        rows, columns = np.nonzero(self._met & (self._wiring.leaf != NONE))
        leaf = self._wiring.leaf[rows, columns]
        turn = np.argsort(leaf, kind="stable")
        starts = np.flatnonzero(np.diff(leaf[turn], prepend=NONE))
        for part in np.split(turn, starts[1:]):
            if len(part):
                yield int(leaf[part[0]]), (rows[part], columns[part])

    def _whole(self, node: int, slow: NDArray[np.bool_]) -> NDArray[np.float64] | None:
        """Return what a slow node leaves on each of its rails; None if it is not slow wherever that shows.

        On a slow rail it leaves its share of that, or, where the narrowest part of the way decides, only what
        is beneath the rail shows. Whichever explains more of its rails is taken.
        """
        mine = np.flatnonzero(slow[node])
        if len(mine) < 2:
            return None
        share, around = self._shares()[node], self._around[node] / self._usual
        alike = np.full(len(share), _top(share[mine]))
        clear = mine[around[mine] >= SLOW * np.max(around[mine])]
        narrowest = _top(share[clear] * around[clear])
        beneath = np.minimum(narrowest / np.maximum(around, DEAD), 1.0)
        fits = [
            int((np.abs(share[mine] / np.maximum(one[mine], 1e-9) - 1) < 1 - SLOW).sum())
            for one in (alike, beneath)
        ]
        left = alike if fits[0] >= fits[1] else beneath
        # On a dead rail nobody is seen.
        good = self._met[node] & ~slow[node] & (share >= SLOW) & (around > DEAD)
        return left if (around[good] <= narrowest / _HIDES).all() else None

    def _confidence(self, node: int, rails: NDArray[np.int64]) -> str:
        """Tell whether an end met good partners enough, or all that there are."""
        share = self._level[:, rails] / np.maximum(self._rail[rails], 1e-12)
        there = (self._met[:, rails] & (share >= ends.GOOD)).sum(axis=0)
        wanted = np.minimum(ENOUGH_PARTNERS, np.maximum(there, ends.LEAST_PARTNERS))
        return CONFIRMED if (self._partners[node, rails] >= wanted).any() else LIKELY
