# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which numbers stand apart from their like? Pure, for the nodes that measure them again and for the judge.

The one place for it. A number that no authority bounds is compared with those of like tests of the same run:
of many (`apart`), of a few against what is usual among the others (`is_behind`). On hardware, from 8
like ones on, by their median and the median of the distances from it (MAD; 1.4826 of it are a standard
deviation of a normal distribution). All, software too, whose healthy medians spread up to 5 times between
rails of one emulated node: by the largest ratio between neighbours, sorted, where the worse side is at most
half. On hardware it is at most two thirds: of three nodes one is an end of so many pairs, and what the third
pair reaches is what such cards can do.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: So many like numbers have a spread of their own.
LEAST_LIKE = 8
#: How far beyond it an outlier lies, and how much of the median at least.
DEVIATIONS, OF_NORMAL = 5.0, 1.4826
BELOW_SHARE, ABOVE_TIMES, ABOVE_US = 0.10, 1.5, 1.0
#: Between neighbours, and which part of all the worse side is at most: of software, and of hardware.
APART_TIMES, WORSE_SIDE = 5.0, ((1, 2), (2, 3))


class Behind(NamedTuple):
    """How far behind what is usual a number is: a rate by a share, a time by a multiple, and by so much.

    Attributes:
        share: of what is usual, by which a rate is less.
        times: what is usual, which a time is above.
        least_us: a time that is less than so much above is no finding.
    """

    share: float
    times: float = 0.0
    least_us: float = 0.0


#: Drives of one model differ by wear, fill and temperature, and a percentile of some seconds by more than a
#: rate does; two that were said to be alike differed by a quarter, which is a remark. So it is of GPUs.
REMARK, FAR = Behind(0.20, 2.0, 100.0), Behind(0.30, 3.0, 100.0)
#: Rails of one job: far more than a busy processor sets them apart.
RAIL_OF_JOB = Behind(0.40)
#: With fewer like tests than this, nobody can say which one is the outlier.
LEAST_FEW = 3


def is_behind(value: float, usual: float, how: Behind, more_is_better: bool = True) -> bool:
    """Tell whether a number is as far behind what is usual.

    Args:
        value: the number: a rate, or microseconds.
        usual: what it is compared with.
        how: how far.
        more_is_better: of rates.
    """
    if more_is_better:
        return value < usual * (1 - how.share)
    return value > max(usual * how.times, usual + how.least_us)


def of_others(values: Mapping[Key, float], key: Key) -> float | None:
    """Return what is usual among the others: their median, None where there are none."""
    others = [value for other, value in values.items() if other != key]
    return statistics.median(others) if others else None


def spread(values: Iterable[float]) -> tuple[float, float]:
    """Return the median of some numbers, and how far from it an outlier lies: DEVIATIONS of their MAD."""
    numbers = list(values)
    usual = statistics.median(numbers)
    return usual, DEVIATIONS * OF_NORMAL * statistics.median(abs(value - usual) for value in numbers)


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
    usual, beyond = spread(values.values())
    if more_is_better:
        least = usual - max(beyond, BELOW_SHARE * usual)
        return {key for key, value in values.items() if value < least}
    most = usual + max(beyond, (ABOVE_TIMES - 1) * usual, ABOVE_US)
    return {key for key, value in values.items() if value > most}


def _times(one: float, other: float) -> float:
    return max(one, other) / min(one, other)
