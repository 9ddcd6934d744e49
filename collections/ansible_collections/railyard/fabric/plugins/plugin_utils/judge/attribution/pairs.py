# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find pairs that are slower than both of their ends, in the first and in three further meetings. Pure.

One test in a hundred is low by chance, and there are millions of pairs: one meeting never confirms a slow
pair.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.measure.outliers import behind
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, Ints, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import FURTHER_MEETINGS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import levels as ends

#: A pair is confirmed if its first meeting and so many further ones are low, and none is good. Shares of what
#: its ends carry: a meeting is low if its directions carry less together and none of them is good,
_LOW, _NONE_GOOD = 0.88, 0.93
#: or if one direction carries less than chance explains.
_ONE_WAY = 0.7
#: Number of sigmas of the rail's meetings by which it must differ from noise.
_SIGMAS = 4.0


class LowPair(NamedTuple):
    """A pair all of whose meetings on a rail are low.

    Attributes:
        node, peer: their numbers.
        share: its bandwidth as a share of what its ends carry.
        meetings: their number.
        is_confirmed: whether these are enough.
    """

    node: int
    peer: int
    share: float
    meetings: int
    is_confirmed: bool


def find_low_pairs(
    met: ends.Meetings, levels: ends.Levels, leaf: Ints, open_: bool = False
) -> Iterator[LowPair]:
    """Yield the pairs of a rail that are low in all their meetings.

    Args:
        met: the meetings on this rail.
        levels: the levels of its ends.
        leaf: for each node its leaf on this rail, or `matrix.NONE`.
        open_: whether the rail's ends cannot be distinguished from their paths: no pair is confirmed, all are
            doubtful until they had enough meetings.
    """
    if not len(met.node):
        return
    planned = _find_planned(met, levels, leaf)
    noise = np.exp(-max(-np.log(_LOW), _SIGMAS * levels.spread)) / _LOW
    is_low = behind(met.mean, planned, _LOW * noise) & behind(met.best, planned, _NONE_GOOD * noise)
    is_low |= behind(met.least, planned, _ONE_WAY * noise * noise)
    is_low |= open_
    # A dead end explains missing results.
    is_low &= planned > 0
    key = met.node * len(levels.level) + met.peer
    turn = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[turn], prepend=-1))
    count = np.diff(np.append(starts, len(turn)))
    for place in np.flatnonzero(np.logical_and.reduceat(is_low[turn], starts)):
        rows = turn[starts[place] : starts[place] + count[place]]
        meetings = int(count[place])
        if open_ and meetings > FURTHER_MEETINGS:
            continue
        share = float(np.median(met.mean[rows] / planned[rows]))
        yield LowPair(
            int(met.node[rows[0]]), int(met.peer[rows[0]]), share, meetings, meetings > FURTHER_MEETINGS
        )


def _find_planned(met: ends.Meetings, levels: ends.Levels, leaf: Ints) -> Floats:
    """Return the expected bandwidth of meetings with good paths.

    Two slow ends carry the product of their shares, or more: behind one slow leaf both have the same reason.
    The usual bandwidth of meetings of the two leaves decides.
    """
    planned = ends.find_expected(levels, met.node, met.peer)
    slow = levels.level < ends.GOOD * levels.rail
    rows = np.flatnonzero(slow[met.node] & slow[met.peer] & (planned > 0))
    if len(rows):
        one, other = leaf[met.node[rows]], leaf[met.peer[rows]]
        key = np.minimum(one, other) * (int(np.max(leaf)) + 2) + np.maximum(one, other)
        more = met.mean[rows] / planned[rows]
        turn = np.lexsort((more, key))
        starts = np.flatnonzero(np.diff(key[turn], prepend=np.min(key) - 1))
        counts = np.diff(np.append(starts, len(turn)))
        middle = more[turn][starts + counts // 2]
        factor = np.where(counts >= ends.CROWD, np.maximum(middle, 1.0), 1.0)
        most = np.minimum(levels.level[met.node[rows]], levels.level[met.peer[rows]])
        planned[rows[turn]] = np.minimum(planned[rows[turn]] * np.repeat(factor, counts), most[turn])
    return planned
