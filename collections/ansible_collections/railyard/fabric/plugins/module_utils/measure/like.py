# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which numbers stand apart from their like? Pure, for the nodes that measure them again and for the judge.

A number that no authority bounds is held against those of like tests of the same run. On hardware, from 8
like ones on, by their median and the median of the distances from it (MAD; 1.4826 of it are a standard
deviation of a normal distribution). All, software too, whose healthy medians spread up to 5 times between
rails of one emulated node: by the largest ratio between neighbours, sorted, where the worse side is at most
half. On hardware it is at most two thirds: of three nodes one is an end of so many pairs, and what the third
pair reaches is what such cards can do.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping
from typing import TypeVar

Key = TypeVar("Key", bound=Hashable)

#: So many like numbers have a spread of their own.
LEAST_LIKE = 8
#: How far beyond it an outlier lies, and how much of the median at least.
DEVIATIONS, OF_NORMAL = 5.0, 1.4826
BELOW_SHARE, ABOVE_TIMES, ABOVE_US = 0.10, 1.5, 1.0
#: Between neighbours, and which part of all the worse side is at most: of software, and of hardware.
APART_TIMES, WORSE_SIDE = 5.0, ((1, 2), (2, 3))


def apart(values: Mapping[Key, float], more_is_better: bool, hardware: bool) -> set[Key]:
    """Return whose numbers stand apart to the worse.

    Args:
        values: test -> its number, above 0: Gbit/s, or microseconds.
        more_is_better: of bandwidths.
        hardware: all ends are cards.
    """
    found = _beyond_spread(values, more_is_better) if hardware and len(values) >= LEAST_LIKE else set()
    ranked = sorted(values, key=lambda key: values[key], reverse=more_is_better)
    ratios = [_times(values[ranked[place - 1]], values[ranked[place]]) for place in range(1, len(ranked))]
    if not ratios or max(ratios) < APART_TIMES:
        return found
    worse_side = ranked[ratios.index(max(ratios)) + 1 :]
    most, of = WORSE_SIDE[hardware]
    return found | set(worse_side) if of * len(worse_side) <= most * len(ranked) else found


def _beyond_spread(values: Mapping[Key, float], more_is_better: bool) -> set[Key]:
    usual = statistics.median(values.values())
    spread = DEVIATIONS * OF_NORMAL * statistics.median(abs(value - usual) for value in values.values())
    if more_is_better:
        least = usual - max(spread, BELOW_SHARE * usual)
        return {key for key, value in values.items() if value < least}
    most = usual + max(spread, (ABOVE_TIMES - 1) * usual, ABOVE_US)
    return {key for key, value in values.items() if value > most}


def _times(one: float, other: float) -> float:
    return max(one, other) / min(one, other)
