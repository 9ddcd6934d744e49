# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find outliers among comparable numbers. Pure, for repetition on the nodes and for the judge.

This is the only place for this rule; its thresholds are data, by kind of number. A number without a threshold
is compared in one of three ways:

- with many comparable numbers (`find_outliers`). On hardware, from 8 numbers on, by their median and the
median
  absolute deviation (MAD; 1.4826 MAD are a standard deviation of a normal distribution). On hardware and on
  software, whose healthy medians spread up to 5 times between rails of one emulated node: by the largest
  ratio
  between neighbors in sorted order. On software the worse side is at most half. On hardware it is at most two
  thirds: of three nodes a bad one is an end of two of three pairs, and the third pair shows what such NICs
  reach;
- with the median of a few others (`find_behind`): drives and GPUs of one model;
- with a reference value (`behind`): the best rail of a job, what both ends of a pair carry.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

Key = TypeVar("Key", bound=Hashable)

#: The side of the median on which a number is worse.
BELOW, ABOVE, EITHER = "below", "above", "either"
#: The least distance of an outlier from the median in standard deviations, and MADs per standard deviation.
DEVIATIONS, OF_NORMAL = 5.0, 1.4826
#: The least ratio between neighbors, and the largest share of the worse side: on software, on hardware.
APART_TIMES, WORSE_SIDE = 5.0, ((1, 2), (2, 3))
#: How many tests of a drive or a node have to be behind: a single short test may be bad once.
REPRODUCED = 2


class Kind(NamedTuple):
    """The limits for outliers among comparable numbers, in addition to DEVIATIONS.

    Attributes:
        worse: the side on which a number is an outlier.
        share: the least difference as a share of the median.
        least: the least difference in the number's unit.
        values: with fewer numbers there is no spread.
    """

    worse: str
    share: float = 0.0
    least: float = 0.0
    values: int = 8


class Few(NamedTuple):
    """The limits for numbers that are compared with the median of a few others, see `behind`.

    Attributes:
        named: what they are, for messages.
        remark: the share at which it is reported.
        fault: the share at which it fails.
        least: the least difference for both.
        outliers: the kind by which an outlier fails too; None where the limit alone decides.
        values: with fewer numbers none fails, since it is ambiguous which one is wrong.
    """

    named: str
    remark: float
    fault: float
    least: float = 0.0
    outliers: Kind | None = None
    values: int = 3


RATE, TIME_US = Kind(BELOW, 0.10), Kind(ABOVE, 0.50, 1.0)
#: The ratio of two runs at the same place.
CHANGE = Kind(EITHER)
#: The metric by which tests between two nodes are compared: the first of these that a test has,
METRICS = {"bandwidth_gbps": RATE, "latency_p50_us": TIME_US, "rtt_average_us": TIME_US}
#: and each direction of a bidirectional test, which the sum would hide.
WAYS = {"forward_gbps": RATE, "reverse_gbps": RATE}
KINDS: Mapping[str, Kind] = {**METRICS, **WAYS}
#: Drives of one model differ by wear, fill level and temperature, and a percentile over some seconds differs
#: more than a rate. Two equal drives differed by a quarter, which is a remark. The same applies to GPUs.
DRIVE_RATE, DRIVE_US = Few("drives", 0.80, 0.70), Few("drives", 2.0, 3.0, least=100.0)
GPU_RATE = Few("GPUs", 0.80, 0.70, outliers=RATE)
#: The share of the best rail of a job; a busy CPU alone causes a far smaller difference.
RAIL_OF_JOB = 0.60


def behind(value: Any, reference: Any, share: float, least: float = 0.0) -> Any:
    """Return whether a number is behind a reference value, or which of a column of rates are.

    Args:
        value: the number.
        reference: the reference value.
        share: of the reference. Below 1: a rate is behind when it is lower. From 1 on: a time is behind when
            it is higher.
        least: a time is behind only when it exceeds the reference by at least this much.
    """
    if share < 1:
        return value < reference * share
    return value > max(reference * share, reference + least)


def find_outliers(values: Mapping[Key, float], kind: Kind, hardware: bool) -> set[Key]:
    """Return the keys of outliers on the worse side.

    Args:
        values: test -> its number, above 0.
        kind: the limits, and the worse side.
        hardware: all ends are hardware NICs.
    """
    found = find_beyond_spread(values, kind) if hardware else set()
    ranked = sorted(values, key=lambda key: values[key], reverse=kind.worse == BELOW)
    numbers = [values[key] for key in ranked]
    pairs = (numbers[at - 1 : at + 1] for at in range(1, len(numbers)))
    ratios = [max(pair) / min(pair) for pair in pairs]
    if not ratios or max(ratios) < APART_TIMES:
        return found
    worse_side = ranked[ratios.index(max(ratios)) + 1 :]
    most, of = WORSE_SIDE[hardware]
    return found | set(worse_side) if of * len(worse_side) <= most * len(ranked) else found


def find_beyond_spread(values: Mapping[Key, float], kind: Kind) -> set[Key]:
    """Return the keys of numbers beyond the spread of all; none where there are too few numbers."""
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
    """Return the keys that are behind the median of the others, and whether each fails."""
    enough = len(values) >= few.values
    apart = find_outliers(values, few.outliers, hardware=True) if few.outliers else set()
    found: dict[Key, bool] = {}
    for key, usual in medians_of_others(values).items():
        fails = enough and (key in apart or behind(values[key], usual, few.fault, few.least))
        if fails or behind(values[key], usual, few.remark, few.least):
            found[key] = fails
    return found


def medians_of_others(values: Mapping[Key, float]) -> dict[Key, float]:
    """Return for each number the median of all others; nothing for a single number."""
    # Sorted once: there may be thousands, and each slice stays in order.
    ranked = sorted(values, key=lambda key: values[key])
    numbers, several = [values[key] for key in ranked], enumerate(ranked) if len(values) > 1 else ()
    return {key: statistics.median(numbers[:place] + numbers[place + 1 :]) for place, key in several}


def median_and_mad(values: Iterable[float]) -> tuple[float, float]:
    """Return the median of some numbers and their median absolute deviation."""
    numbers = list(values)
    usual = statistics.median(numbers)
    return usual, statistics.median(abs(value - usual) for value in numbers)
