# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the numbers that stand apart from comparable ones. Pure, for the nodes' repetition and for the judge.

The one place for this rule; its thresholds are data, by kind of number. A number that no source bounds is
compared in one of three ways:

- with many comparable numbers (`find_outliers`). On hardware, from 8 on, by their median and the median of
  the distances from it (MAD; 1.4826 of it are a standard deviation of a normal distribution). On software
  too, whose healthy medians spread up to 5 times between rails of one emulated node: by the largest ratio
  between neighbours, sorted, where the worse side is at most half. On hardware it is at most two thirds: of
  three nodes one is an end of so many pairs, and what the third pair reaches is what such cards can do;
- with the median of a few others (`find_behind`): drives and GPUs of one model;
- with a reference value (`behind`): the best rail of a job, what both ends of a pair carry.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: On which side of the median a number is worse.
BELOW, ABOVE, EITHER = "below", "above", "either"
#: How many standard deviations from the median an outlier lies at least; what makes one of a MAD.
DEVIATIONS, OF_NORMAL = 5.0, 1.4826
#: Between neighbours, and which part of all the worse side is at most: of software, and of hardware.
APART_TIMES, WORSE_SIDE = 5.0, ((1, 2), (2, 3))
#: So many tests of a drive or a node have to be behind: one number of some seconds may be bad once.
REPRODUCED = 2


class Kind(NamedTuple):
    """How far numbers of one kind lie from the median of many, beside DEVIATIONS of their own spread.

    Attributes:
        worse: the side on which a number is an outlier.
        share: of the median that it differs by at least.
        least: by which it differs at least, in its own unit.
        values: fewer have no spread of their own.
    """

    worse: str
    share: float = 0.0
    least: float = 0.0
    values: int = 8


class Few(NamedTuple):
    """How far numbers of one kind lie behind the median of a few others; the limits are those of `behind`.

    Attributes:
        named: what they are, as messages name them.
        remark: the share at which it is reported.
        fault: the share at which it fails.
        least: of both limits.
        outliers: the kind of an outlier that fails as well; None where the limit alone decides.
        values: of fewer nobody can tell which one is wrong, and none fails.
    """

    named: str
    remark: float
    fault: float
    least: float = 0.0
    outliers: Kind | None = None
    values: int = 3


RATE, TIME_US = Kind(BELOW, 0.10), Kind(ABOVE, 0.50, 1.0)
#: B's number by A's, of the same place in two runs.
CHANGE = Kind(EITHER)
#: What is compared of a test between two nodes: the first of these that it has,
METRICS = {"bandwidth_gbps": RATE, "latency_p50_us": TIME_US, "rtt_average_us": TIME_US}
#: and of both directions at once each by itself, which their sum would hide.
WAYS = {"forward_gbps": RATE, "reverse_gbps": RATE}
KINDS: Mapping[str, Kind] = {**METRICS, **WAYS}
#: Drives of one model differ by wear, fill and temperature, and a percentile of some seconds by more than a
#: rate does; two that were said to be alike differed by a quarter, which is a remark. So it is of GPUs.
DRIVE_RATE, DRIVE_US = Few("drives", 0.80, 0.70), Few("drives", 2.0, 3.0, least=100.0)
GPU_RATE = Few("GPUs", 0.80, 0.70, outliers=RATE)
#: The share of the best rail of a job, which far more than a busy processor sets apart from others.
RAIL_OF_JOB = 0.60


def behind(value: Any, reference: Any, share: float, least: float = 0.0) -> Any:
    """Tell whether a number is behind a reference value, or which of a column of rates are.

    Args:
        value: the number.
        reference: what it is compared with.
        share: of the reference. A rate is behind below a share under 1, a time above one from 1 on.
        least: a time that is less than so much above the reference is not behind.
    """
    if share < 1:
        return value < reference * share
    return value > max(reference * share, reference + least)


def find_outliers(values: Mapping[Key, float], kind: Kind, hardware: bool) -> set[Key]:
    """Return whose numbers stand apart from many to the worse.

    Args:
        values: test -> its number, above 0.
        kind: what is an outlier, and to which side.
        hardware: all ends are cards.
    """
    found = find_beyond_spread(values, kind) if hardware else set()
    ranked = sorted(values, key=lambda key: values[key], reverse=kind.worse == BELOW)
    ratios = [_times(values[ranked[place - 1]], values[ranked[place]]) for place in range(1, len(ranked))]
    if not ratios or max(ratios) < APART_TIMES:
        return found
    worse_side = ranked[ratios.index(max(ratios)) + 1 :]
    most, of = WORSE_SIDE[hardware]
    return found | set(worse_side) if of * len(worse_side) <= most * len(ranked) else found


def find_beyond_spread(values: Mapping[Key, float], kind: Kind) -> set[Key]:
    """Return whose numbers lie beyond the spread of all; none where there are too few for one."""
    if len(values) < kind.values:
        return set()
    usual, mad = median_and_mad(values.values())
    margin = max(DEVIATIONS * OF_NORMAL * mad, kind.share * usual, kind.least)
    if kind.worse == EITHER:
        return {key for key, value in values.items() if abs(value - usual) > margin}
    if kind.worse == BELOW:
        return {key for key, value in values.items() if value < usual - margin}
    return {key for key, value in values.items() if value > usual + margin}


def find_behind(values: Mapping[Key, float], few: Few) -> dict[Key, bool]:
    """Return who is behind the median of the others, and whether so far that it fails."""
    enough = len(values) >= few.values
    apart = find_outliers(values, few.outliers, hardware=True) if few.outliers else set()
    found: dict[Key, bool] = {}
    for key, usual in medians_of_others(values).items():
        fails = enough and (key in apart or behind(values[key], usual, few.fault, few.least))
        if fails or behind(values[key], usual, few.remark, few.least):
            found[key] = fails
    return found


def medians_of_others(values: Mapping[Key, float]) -> dict[Key, float]:
    """Return of each number the median of all others; none of a single one."""
    # Sorted once: there may be thousands, and each slice is in order.
    ranked = sorted(values, key=lambda key: values[key])
    numbers, several = [values[key] for key in ranked], enumerate(ranked) if len(values) > 1 else ()
    return {key: statistics.median(numbers[:place] + numbers[place + 1 :]) for place, key in several}


def median_and_mad(values: Iterable[float]) -> tuple[float, float]:
    """Return the median of some numbers, and the median of their distances from it."""
    numbers = list(values)
    usual = statistics.median(numbers)
    return usual, statistics.median(abs(value - usual) for value in numbers)


def _times(one: float, other: float) -> float:
    return max(one, other) / min(one, other)
