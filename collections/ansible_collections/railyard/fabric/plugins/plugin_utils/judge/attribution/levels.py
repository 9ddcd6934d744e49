# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the bandwidth (level) of each end of a rail, independent of its partners. Pure, linear in the tests.

A test shows the worse of two ends, so an end's level rests on its tests with partners that are good with
others. Good partners and levels are found together in a few iterations, the fastest ends first. Medians are
used throughout, so that one bad test, or one bad path, does not change a level.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.railyard.fabric.plugins.module_utils.measure.outliers import OF_NORMAL
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Bools, Floats, Ints, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.matrix import NONE, Tests

#: Share of the rail's level from which an end is a good partner.
GOOD = 0.95
#: Without good partners, the factor by which a partner must be faster with others than the end.
_BETTER = 1.1
#: With fewer partners an end cannot be distinguished from the path to its only partner.
LEAST_PARTNERS = 2
#: Levels this close to the best are equal, except for noise.
AT_THE_TOP = 0.93
_TURNS = 8
#: Quantile that is good if a tenth of the values is.
_FAR_UP = 0.9
#: Number of partners from which one or two of them do not change the median.
_MANY = 6
#: Share of the bandwidth behind the worse leaf below which a path between two leaves is slow.
_GOOD_CROSSING = 0.9
#: Number of meetings from which their usual bandwidth is known.
CROWD = 8


@dataclass(frozen=True)
class Meetings:
    """The meetings on one rail, one per row; both directions are one number.

    Attributes:
        meeting: its number.
        node, peer: the lower and the higher number of its nodes.
        mean, best, least: of the results, as a share of the planned rate; 0 without a result.
    """

    meeting: Ints
    node: Ints
    peer: Ints
    mean: Floats
    best: Floats
    least: Floats


@dataclass(frozen=True)
class Levels:
    """The levels of one rail's ends, as shares of the planned rate.

    Attributes:
        level: of each node; if it is not `known`, a lower limit.
        partners: number of good partners that it rests on.
        known: whether these are enough.
        met: whether the node had any meeting on this rail.
        rail: the level of the rail's good ends.
        least: the lowest result of a pair.
        spread: of meetings around the expectation (the MAD, in natural logarithms, as a sigma).
    """

    level: Floats
    partners: Ints
    known: Bools
    met: Bools
    rail: float
    least: float
    spread: float


def collect_meetings(tests: Tests, rate: Floats) -> Meetings:
    """Return the meetings of one rail's tests.

    Args:
        tests: of one rail.
        rate: the rate of each node; a test's result is divided by the lower one of its ends.
    """
    node = np.minimum(tests.sender, tests.receiver)
    peer = np.maximum(tests.sender, tests.receiver)
    share = tests.gbps / np.minimum(rate[tests.sender], rate[tests.receiver])
    many = len(rate)
    key = (node * many + peer) * (int(np.max(tests.meeting, initial=0)) + 1) + tests.meeting
    turn = np.argsort(key, kind="stable")
    key, share = key[turn], share[turn]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    measured = ~np.isnan(share)
    value = np.where(measured, share, 0.0)
    if not len(starts):
        empty = np.zeros(0)
        return Meetings(*(np.zeros(0, dtype=np.int64),) * 3, empty, empty, empty)
    count = np.add.reduceat(measured.astype(np.int64), starts)
    first = turn[starts]
    return Meetings(
        tests.meeting[first],
        node[first],
        peer[first],
        np.add.reduceat(value, starts) / np.maximum(count, 1),
        np.maximum.reduceat(value, starts),
        # A missing result says nothing about the other direction.
        np.where(count > 0, np.minimum.reduceat(np.where(measured, share, np.inf), starts), 0.0),
    )


def level_leaf_paths(met: Meetings, leaf: Ints) -> tuple[Meetings, list[tuple[int, int, float]]]:
    """Scale the meetings so that each path between two leaves is as fast as the worse of the two leaves.

    An end whose partners are all behind another leaf is not slow because the path there is. Paths on which
    all meetings are slower are scaled.

    Returns:
        The meetings, and the slow paths: two leaves, and their remaining share.
    """
    count = int(np.max(leaf, initial=NONE)) + 1
    one, other = leaf[met.node], leaf[met.peer]
    rows = np.flatnonzero((one != NONE) & (other != NONE))
    if count < 2 or not len(rows):
        return met, []
    key = (np.minimum(one, other) * count + np.maximum(one, other))[rows]
    turn = np.lexsort((met.mean[rows], key))
    starts = np.flatnonzero(np.diff(key[turn], prepend=-1))
    counts = np.diff(np.append(starts, len(turn)))
    enough = counts >= CROWD
    # A path is slow if all its meetings are, and not only those of slow nodes.
    high = starts + np.ceil(_FAR_UP * (counts - 1)).astype(np.int64)
    kinds, carried = key[turn][starts][enough], met.mean[rows][turn][high[enough]]
    within = np.full(count, np.nan)
    same = kinds // count == kinds % count
    within[kinds[same] % count] = carried[same]
    worse = np.fmin(within[kinds // count], within[kinds % count])
    worse[np.isnan(within[kinds // count]) | np.isnan(within[kinds % count])] = np.nan
    slow = ~same & (carried > 0) & (carried < _GOOD_CROSSING * worse)
    factor = np.ones(count * count)
    factor[kinds[slow]] = worse[slow] / carried[slow]
    scale = np.ones(len(met.mean))
    scale[rows] = factor[key]
    ways = [
        (int(way // count), int(way % count), float(left))
        for way, left in zip(kinds[slow], carried[slow] / worse[slow], strict=True)
    ]
    if not ways:
        return met, []
    return replace(met, mean=met.mean * scale, best=met.best * scale, least=met.least * scale), ways


def find_levels(met: Meetings, leaf: Ints) -> Levels:
    """Return the level of each end of a rail.

    Args:
        met: the meetings on this rail.
        leaf: of each node its leaf on this rail, or NONE.
    """
    many = len(leaf)
    node, peer, value = _merge_pairs(met, many)
    table, partner = _tabulate_by_end(node, peer, value, many)
    # A high quantile: good ends look good as long as a tenth of their partners is good.
    level = np.nan_to_num(_take_quantile(table, _FAR_UP))
    rail = find_top(level, leaf)
    partners, known = np.zeros(many, dtype=np.int64), np.zeros(many, dtype=bool)
    there = partner != NONE
    most = np.nan_to_num(np.max(np.where(there, table, 0.0), axis=1, initial=0.0))
    for _turn in range(_TURNS):
        good = there & (level[partner] >= GOOD * rail)
        better = there & (level[partner] >= _BETTER * level[:, None]) & (level[partner] > 0)
        enough = good.sum(axis=1) >= LEAST_PARTNERS
        used = np.where(enough[:, None], good, better)
        partners = used.sum(axis=1)
        known = partners >= LEAST_PARTNERS
        chosen = np.where(used, table, np.nan)
        # Of few partners one may be on a bad path and another may have a bad result: an end with one good
        # meeting is good.
        few = np.nan_to_num(_take_quantile(chosen, 1.0))
        found = np.where(partners < _MANY, few, np.nan_to_num(_take_quantile(chosen, 0.5)))
        found = np.where(known, found, most)
        converged = np.allclose(found, level, rtol=1e-3, atol=1e-9)
        level, rail = found, find_top(found, leaf)
        if converged:
            break
    least = float(np.min(value, initial=np.inf))
    spread = _find_spread(node, peer, value, level, rail)
    return Levels(level, partners, known, there.any(axis=1), rail, least, spread)


def find_top(level: Floats, leaf: Ints) -> float:
    """Return the level of the good ends: those of the best leaf, or the upper tenth.

    Args:
        level: of each end.
        leaf: of each end, or NONE.
    """
    behind = np.flatnonzero(leaf != NONE)
    if len(behind):
        turn = behind[np.lexsort((level[behind], leaf[behind]))]
        starts = np.flatnonzero(np.diff(leaf[turn], prepend=NONE))
        counts = np.diff(np.append(starts, len(turn)))
        best = float(np.max(level[turn][starts + counts // 2]))
    elif len(level):
        best = float(np.sort(level)[int(np.ceil(_FAR_UP * (len(level) - 1)))])
    else:
        return 0.0
    near = level[level >= AT_THE_TOP * best]
    return float(np.median(near)) if len(near) else best


def find_expected(levels_: Levels, node: Ints, peer: Ints) -> Floats:
    """Return the expected bandwidth of meetings with good paths.

    For two slow ends it is the product of both shares, which is lower than either, so that a path is not a
    suspect because of its ends.
    """
    if levels_.rail <= 0:
        return np.zeros(len(node))
    return np.asarray(levels_.level[node] * levels_.level[peer] / levels_.rail)


def _merge_pairs(met: Meetings, many: int) -> tuple[Ints, Ints, Floats]:
    """Return each pair with the median of its meetings."""
    key = met.node * many + met.peer
    turn = np.lexsort((met.mean, key))
    starts = np.flatnonzero(np.diff(key[turn], prepend=-1))
    counts = np.diff(np.append(starts, len(turn)))
    value = met.mean[turn]
    middle = (value[starts + (counts - 1) // 2] + value[starts + counts // 2]) / 2
    first = turn[starts]
    return met.node[first], met.peer[first], middle


def _tabulate_by_end(node: Ints, peer: Ints, value: Floats, many: int) -> tuple[Floats, Ints]:
    """Return for each end a row with its pairs' values, and one with its partners; padded."""
    end, other = np.concatenate((node, peer)), np.concatenate((peer, node))
    turn = np.argsort(end, kind="stable")
    end = end[turn]
    counts = np.bincount(end, minlength=many)
    column = np.arange(len(end)) - (np.cumsum(counts) - counts)[end]
    shape = (many, int(np.max(counts, initial=0)))
    table, partner = np.full(shape, np.nan), np.full(shape, NONE, dtype=np.int64)
    table[end, column] = np.concatenate((value, value))[turn]
    partner[end, column] = other[turn]
    return table, partner


def _take_quantile(table: Floats, share: float) -> Floats:
    """Return a quantile of each row; NaN for an empty one."""
    if not table.shape[1]:
        return np.full(table.shape[0], np.nan)
    count = (~np.isnan(table)).sum(axis=1)
    place = np.ceil(share * np.maximum(count - 1, 0)).astype(np.int64)
    return np.asarray(np.sort(table, axis=1)[np.arange(len(table)), place])


def _find_spread(
    node: Ints,
    peer: Ints,
    value: Floats,
    level: Floats,
    rail: float,
) -> float:
    if rail <= 0:
        return 0.0
    planned = level[node] * level[peer] / rail
    # Two slow ends together are not noise.
    good = level >= GOOD * rail
    seen = (value > 0) & good[node] & good[peer]
    if not seen.any():
        return 0.0
    off = np.log(value[seen] / planned[seen])
    return float(OF_NORMAL * np.median(np.abs(off - np.median(off))))
