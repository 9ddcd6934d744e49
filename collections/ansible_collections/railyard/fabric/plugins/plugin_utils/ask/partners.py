# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pair nodes for the patterns other than the circle of all pairs: rings and leaves. Pure.

Each function returns rounds of pairs of roster positions; a node is in a round at most once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds

Rounds = list[list[list[int]]]


def ring(nodes: int) -> Rounds:
    """Return the rounds in which each of so many nodes meets the one before and the one after it."""
    ends = [sorted((place, (place + 1) % nodes)) for place in range(nodes if nodes > 2 else 1)]
    # The last place of an odd number meets the first when no other pair does.
    last = [ends.pop()] if nodes % 2 and nodes > 1 else []
    return [turn for turn in (ends[::2], ends[1::2], last) if turn]


def per_leaf(leaves: Sequence[Hashable]) -> Rounds:
    """Return the rounds in which every two nodes of a leaf meet.

    Args:
        leaves: of each node what it ends at.
    """
    of_leaf: dict[Hashable, list[str]] = defaultdict(list)
    for place, leaf in enumerate(leaves):
        of_leaf[leaf].append(str(place))
    made: Rounds = []
    for players in of_leaf.values():
        for turn in range(rounds.rounds_of_all(len(players))):
            if turn == len(made):
                made.append([])
            made[turn] += [[int(first), int(second)] for first, second in rounds.partners(players, turn)]
    return [sorted(turn) for turn in made]


def across_leaves(leaves: Sequence[Hashable]) -> Rounds:
    """Return the rounds in which each node meets one of another leaf: one, where no leaf has more than half.

    Nodes left over by a larger leaf or an odd number meet a node that has met already, in a further round.

    Args:
        leaves: of each node what it ends at; of at least two leaves.
    """
    waiting: dict[Hashable, list[int]] = defaultdict(list)
    for place, leaf in enumerate(leaves):
        waiting[leaf].append(place)
    made = [_largest_first(waiting)]
    while left := [place for places in waiting.values() for place in places]:
        # All of one leaf: else two of them would have met.
        others = [place for place, leaf in enumerate(leaves) if leaf != leaves[left[0]]]
        pairs = [sorted(both) for both in zip(left, others, strict=False)]
        del waiting[leaves[left[0]]][: len(pairs)]
        made.append(sorted(pairs))
    return made


def _largest_first(waiting: dict[Hashable, list[int]]) -> list[list[int]]:
    """Pair nodes of the two leaves that have most left, which leaves as few as can be; takes them out."""
    pairs: list[list[int]] = []
    while True:
        by_size = sorted(waiting.values(), key=len, reverse=True)
        if len(by_size) < 2 or not by_size[1]:
            return sorted(pairs)
        pairs.append(sorted((by_size[0].pop(0), by_size[1].pop(0))))
