# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the slow rails, leaves, nodes, rails of nodes and pairs from the matrix of all tests. Pure.

The component that explains the most is named first, and the tests that it explains are not attributed to
others: a rail without a good test, a leaf without a good test behind it, a node that is slow on each rail
where that is visible, a single rail of a node, and last a pair that is slower than both of its ends.
`slow_rails` explains single verdicts, from verdicts alone; here complete levels are compared, and no
threshold is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Bools, Floats, Ints, np
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.matrix import (
    NONE,
    Tests,
    Wiring,
)

#: Share of its peers' bandwidth below which an end, a leaf or a rail is slow.
SLOW = 0.9
#: Share of the planned rate below which a rail is slow, whatever the others carry.
_OF_RATE = 0.88
#: Assumed share of the planned rate of a good rail, if no rail is good.
_USUAL = 0.95
#: A component that leaves at least this share of the one above it is hardly visible, and noise may hide it.
_HIDES = 0.85
#: An end with fewer partners is assumed to be as good as its peers, unless it is slow.
_PRECISE = 12
#: A slow end differs by so many standard errors of its level.
_ERRORS = 5.0
#: Behind a rail or a leaf that carries a smaller share of the rate nothing can be seen.
DEAD = 0.02
#: With fewer equal ends on a slow rail the ends themselves may be slow, as with so many whose pairs differ.
_LEAST_ENDS = 3
#: Share of the ends behind a slow leaf that carry about the same.
_MOST_ALIKE = 0.75


class Crossing(NamedTuple):
    """Two leaves between which a rail carries only a share of its bandwidth behind the worse one."""

    rail: str
    leaf: str
    peer_leaf: str
    share: float


class Ambiguous(NamedTuple):
    """The slow component of a rail may be any of these nodes, a path between them, or the rail."""

    rail: str
    nodes: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """The slow components.

    Attributes:
        suspects: the slow components.
        doubtful: suspects that further tests may clear or confirm; `confirm.confirm` lists these tests.
        cannot_tell: ambiguous cases, if there are no further tests.
        crossing: slow paths between leaves that are not both slow; their pairs are not suspects.
    """

    suspects: tuple[Suspect, ...]
    doubtful: tuple[Suspect, ...]
    cannot_tell: tuple[Ambiguous, ...]
    crossing: tuple[Crossing, ...]


NOTHING = Findings((), (), (), ())


def find_components(tests: Tests, wiring: Wiring) -> Findings:
    """Return the slow components.

    Args:
        tests: of one bandwidth check, of all rounds including confirming ones; NaN for a planned test without
            a result.
        wiring: the nodes' rails and leaves; planned rates are used if all ends have one.
    """
    declared = not np.isnan(wiring.rate_gbps[wiring.there]).any()
    rate = np.where(wiring.there & declared, wiring.rate_gbps, 1.0)
    met, ways = [], []
    for rail, name in enumerate(wiring.rails):
        one = ends.collect_meetings(tests.of_rail(rail), rate[:, rail])
        one, slow_ways = ends.level_leaf_paths(one, wiring.leaf[:, rail])
        met.append(one)
        ways += [Crossing(name, wiring.leaves[a], wiring.leaves[b], left) for a, b, left in slow_ways]
    levels = [ends.find_levels(one, wiring.leaf[:, rail]) for rail, one in enumerate(met)]
    matrix = _Matrix(wiring, levels, declared)
    suspects = [*matrix.rails(), *matrix.leaves(), *matrix.nodes()]
    doubtful = [one for one in suspects if one.confidence == LIKELY] + list(matrix.unsure())
    for rail, (one, level) in enumerate(zip(met, levels, strict=True)):
        for pair in pairs.find_low_pairs(
            one, matrix.planned(rail, level), wiring.leaf[:, rail], matrix.is_open(rail)
        ):
            found = Suspect(
                PAIR, wiring.nodes[pair.node], wiring.rails[rail], wiring.nodes[pair.peer], None,
                pair.share, pair.meetings, CONFIRMED if pair.is_confirmed else LIKELY,
            )  # fmt: skip
            (suspects if pair.is_confirmed else doubtful).append(found)
    slow_leaves = {one.leaf for one in suspects if one.kind == LEAF}
    slow_rails = {one.rail for one in suspects if one.kind == RAIL}
    # Two slow leaves together are slower than each; the best leaf of a slow rail shows that rail.
    crossing = [
        way
        for way in ways
        if not {way.leaf, way.peer_leaf} <= slow_leaves
        and not (way.rail in slow_rails and slow_leaves & {way.leaf, way.peer_leaf})
    ]
    return Findings(tuple(suspects), tuple(doubtful), tuple(matrix.cannot_tell()), tuple(crossing))


def _find_top(level: Floats) -> float:
    """Return the bandwidth of the best of a few equal ends."""
    return ends.find_top(level, np.full(len(level), NONE))


def _is_low_throughout(share: Floats) -> bool:
    """Tell whether a leaf explains slow ends behind it: none is good, and most are about equal.

    With a leaf that carries 0.9 of the others noise puts half of its ends above SLOW, so the leaf is compared
    with other leaves before any of its nodes is named. A fault of the leaf is more likely than the same fault
    of both of two ends.
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
        #: Share of its peers below which an end is slow.
        self._limit = np.exp(-np.maximum(-np.log(SLOW), _ERRORS * errors))
        best = float(np.max(self._rail, initial=0.0))
        # If rates are planned and no rail is near its rate, no rail is a reference for the others.
        self._usual = _USUAL if declared and best < _OF_RATE else best
        self._slow_rail = self._rail < SLOW * self._usual
        #: Maximum bandwidth of an end, with the components named above it.
        self._around = np.broadcast_to(self._rail, self._level.shape).copy()
        self._explained = np.zeros(self._level.shape, dtype=bool)

    def rails(self) -> Iterator[Suspect]:
        for rail in np.flatnonzero(self._slow_rail):
            if not self.is_open(int(rail)):
                share = self._rail[rail] / self._usual
                many = int(self._met[:, rail].sum())
                yield Suspect(RAIL, rail=self._wiring.rails[rail], share=float(share), evidence=many)

    def is_open(self, rail: int) -> bool:
        """Tell whether it is ambiguous if a slow rail is slow, or each of its few nodes."""
        if not self._slow_rail[rail]:
            return False
        alike = self._met[:, rail] & (self._level[:, rail] >= SLOW * self._rail[rail])
        # If each rail is slow, all nodes but one explain it too, which is more likely if they are fewer.
        fewer = bool(self._slow_rail.all()) and int(alike.sum()) - 1 <= len(self._slow_rail)
        if alike.sum() <= _LEAST_ENDS and self._least[rail] < SLOW * SLOW * self._rail[rail]:
            return True
        return bool(alike.sum() < _LEAST_ENDS) or (fewer and len(self._slow_rail) > 1)

    def leaves(self) -> Iterator[Suspect]:
        """Yield leaves without a good end behind them, while other leaves of their rails have some."""
        wiring = self._wiring
        share = self._shares()
        slow = self._known & (share < self._limit) & self._met
        nodes = {node for node in range(len(wiring.nodes)) if self._find_node_levels(node, slow) is not None}
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
            found.append((leaf, rows, columns, _find_top(mine)))
        for leaf, rows, columns, left in found:
            self._around[rows, columns] *= left
            rails = {wiring.rails[column] for column in columns}
            evidence = int(self._partners[rows, columns].sum())
            yield Suspect(
                LEAF, rail=rails.pop() if len(rails) == 1 else None, leaf=wiring.leaves[leaf], share=left,
                evidence=evidence, confidence=CONFIRMED if evidence >= ENOUGH_PARTNERS else LIKELY,
            )  # fmt: skip

    def nodes(self) -> Iterator[Suspect]:
        """Yield nodes, and single rails that neither their node nor their leaf explains."""
        wiring, share = self._wiring, self._shares()
        slow = self._known & (share < self._limit) & self._met
        singles = []
        for node in np.flatnonzero(slow.any(axis=1)):
            mine = np.flatnonzero(slow[node])
            left = self._find_node_levels(int(node), slow)
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
        """Yield slow ends with too few good partners to be confirmed."""
        for node, rail in zip(*np.nonzero(self._unsure()), strict=True):
            yield Suspect(
                NODE_RAIL, self._wiring.nodes[node], self._wiring.rails[rail], confidence=LIKELY,
                share=float(self._shares()[node, rail]), evidence=int(self._partners[node, rail]),
            )  # fmt: skip

    def cannot_tell(self) -> Iterator[Ambiguous]:
        unsure = self._unsure()
        for rail, name in enumerate(self._wiring.rails):
            nodes = np.flatnonzero(self._met[:, rail] if self.is_open(rail) else unsure[:, rail])
            if len(nodes):
                yield Ambiguous(name, tuple(self._wiring.nodes[node] for node in nodes))

    def planned(self, rail: int, levels: ends.Levels) -> ends.Levels:
        """Return the assumed levels of a rail's ends for the search for slow pairs."""
        around = self._around[:, rail]
        good = (levels.partners < _PRECISE) & (levels.level >= SLOW * around)
        return replace(levels, level=np.where(good, around, levels.level))

    def _shares(self) -> Floats:
        """Return for each end its share of its maximum; 1 if the maximum is almost 0."""
        alive = self._around > DEAD * self._usual
        return np.where(alive, self._level / np.where(alive, self._around, 1.0), 1.0)

    def _unsure(self) -> Bools:
        return np.asarray(self._met & ~self._known & ~self._explained & (self._shares() < SLOW))

    def _behind(self) -> Iterator[tuple[int, tuple[Ints, Ints]]]:
        """Yield each leaf with the measured ends behind it, as nodes and rails."""
        rows, columns = np.nonzero(self._met & (self._wiring.leaf != NONE))
        leaf = self._wiring.leaf[rows, columns]
        turn = np.argsort(leaf, kind="stable")
        starts = np.flatnonzero(np.diff(leaf[turn], prepend=NONE))
        for part in np.split(turn, starts[1:]):
            if len(part):
                yield int(leaf[part[0]]), (rows[part], columns[part])

    def _find_node_levels(self, node: int, slow: Bools) -> Floats | None:
        """Return what a slow node leaves on each of its rails; None if it is not slow on all visible ones.

        On a slow rail either it leaves its share of the rail, or the narrowest part of the path limits the
        bandwidth. The alternative that explains more of its rails is used.
        """
        mine = np.flatnonzero(slow[node])
        if len(mine) < 2:
            return None
        share, around = self._shares()[node], self._around[node] / self._usual
        alike = np.full(len(share), _find_top(share[mine]))
        clear = mine[around[mine] >= SLOW * np.max(around[mine])]
        narrowest = _find_top(share[clear] * around[clear])
        beneath = np.minimum(narrowest / np.maximum(around, DEAD), 1.0)
        fits = [
            int((np.abs(share[mine] / np.maximum(one[mine], 1e-9) - 1) < 1 - SLOW).sum())
            for one in (alike, beneath)
        ]
        left = alike if fits[0] >= fits[1] else beneath
        # On a dead rail nothing is visible.
        good = self._met[node] & ~slow[node] & (share >= SLOW) & (around > DEAD)
        return left if (around[good] <= narrowest / _HIDES).all() else None

    def _confidence(self, node: int, rails: Ints) -> str:
        """Return the confidence: confirmed if the end had enough good partners, or all partners."""
        share = self._level[:, rails] / np.maximum(self._rail[rails], 1e-12)
        there = (self._met[:, rails] & (share >= ends.GOOD)).sum(axis=0)
        wanted = np.minimum(ENOUGH_PARTNERS, np.maximum(there, ends.LEAST_PARTNERS))
        return CONFIRMED if (self._partners[node, rails] >= wanted).any() else LIKELY
