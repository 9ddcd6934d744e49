# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is an outlier among its peers, and what only varies."""

from __future__ import annotations

import random

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers


def named(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def kind(more_is_better: bool) -> outliers.Kind:
    return outliers.RATE if more_is_better else outliers.TIME_US


@pytest.mark.parametrize(
    ("values", "more", "hardware", "found"),
    [
        # A card's latency of 5 ms among 2.2 us; 3.4 us is more than half above, 3.2 us less than 1 us above.
        ([2.2] * 31 + [5000.0], False, True, {31}),
        ([2.2] * 31 + [3.4], False, True, {31}),
        ([2.2] * 31 + [3.25], False, True, set()),
        ([0.5] * 31 + [1.4], False, True, set()),
        # Bandwidth a tenth below, and what is better is no finding.
        ([392.0] * 15 + [352.0], True, True, {15}),
        ([392.0] * 15 + [353.0], True, True, set()),
        ([392.0] * 15 + [800.0], True, True, set()),
        # Exactly a tenth below, half above or 1 us above is not more than that.
        ([100.0] * 8 + [90.0], True, True, set()),
        ([10.0] * 8 + [15.0], False, True, set()),
        ([1.0] * 8 + [2.0], False, True, set()),
        # Eight have a spread of their own, seven have not.
        ([392.0] * 7 + [352.0], True, True, {7}),
        ([392.0] * 6 + [352.0], True, True, set()),
        # A MAD of 2 around 100: 5 x 1.4826 x 2 below it are 85.174.
        ([98.0] * 6 + [100.0] * 3 + [102.0] * 6 + [85.1], True, True, {15}),
        ([98.0] * 6 + [100.0] * 3 + [102.0] * 6 + [85.2], True, True, set()),
        # A wide spread has no outlier within it.
        ([float(value) for value in range(80, 120)], True, True, set()),
        # Five times between neighbours: of software half at most, of cards two thirds. One node of four is
        # an end of half of all pairs, and their spread is as wide as that.
        ([20.5] * 12 + [2050.0] * 12, False, True, set(range(12, 24))),
        ([20.5] * 4 + [410.0] * 8, False, True, set(range(4, 12))),
        ([20.5] * 4 + [410.0] * 9, False, True, set()),
        ([20.5] * 4 + [410.0] * 8, False, False, set()),
        ([10.0, 9.0, 8.0, 1.7], True, True, set()),
        ([10.0, 9.0, 8.0, 1.6], True, True, {3}),
        ([10.0, 9.0, 1.0, 1.1], True, False, {2, 3}),
        ([10.0, 1.0, 1.1, 1.2], True, False, set()),
        ([300.0, 340.0, 420.0, 2200.0], False, False, {3}),
        ([300.0, 340.0, 1400.0, 6900.0], False, False, set()),
        ([5.0], True, False, set()),
        ([], True, True, set()),
    ],
)
def test_outliers_among_peers(values: list[float], more: bool, hardware: bool, found: set[int]) -> None:
    assert outliers.find_outliers(named(values), kind(more), hardware) == found


def test_healthy_noise_has_next_to_no_outliers() -> None:
    """The noise of the design: 1 % bias, 3 % log-normal."""
    chance = random.Random(1)
    found = 0
    for _run in range(50):
        values = [380 * chance.lognormvariate(0, 0.03) * chance.uniform(0.99, 1.01) for _test in range(64)]
        found += len(outliers.find_outliers(named(values), outliers.RATE, True))
    assert found <= 1


@pytest.mark.parametrize(
    ("values", "found"),
    [
        # 5 x 1.4826 x 0.02 to either side of 1.
        ([0.98] * 4 + [1.0] * 4 + [1.02] * 4 + [1.1483], {12}),
        ([0.98] * 4 + [1.0] * 4 + [1.02] * 4 + [1.1482], set()),
        ([0.98] * 4 + [1.0] * 4 + [1.02] * 4 + [0.8517], {12}),
        ([0.98] * 4 + [1.0] * 4 + [1.02] * 4 + [0.8518], set()),
        # The distance decides: 0.5 less the margin is rounded to this very number.
        ([0.488] * 4 + [0.5] * 4 + [0.512] * 4 + [0.4110439999999999], {12}),
        ([1.0] * 7 + [9.0], {7}),
        ([1.0] * 6 + [9.0], set()),
    ],
)
def test_a_change_is_beyond_the_spread_to_either_side(values: list[float], found: set[int]) -> None:
    assert outliers.find_beyond_spread(named(values), outliers.CHANGE) == found


@pytest.mark.parametrize(
    ("value", "others", "few", "found"),
    [
        # Exactly at a limit is not behind it.
        (70.0, 100.0, outliers.DRIVE_RATE, False),
        (69.9, 100.0, outliers.DRIVE_RATE, True),
        (80.0, 100.0, outliers.GPU_RATE, None),
        (79.9, 100.0, outliers.GPU_RATE, False),
        (600.0, 200.0, outliers.DRIVE_US, False),
        (600.1, 200.0, outliers.DRIVE_US, True),
        # Three times 20 us are 60, and less than 100 above is no finding.
        (120.0, 20.0, outliers.DRIVE_US, None),
        (120.1, 20.0, outliers.DRIVE_US, True),
        (400.0, 200.0, outliers.DRIVE_US, None),
        (400.1, 200.0, outliers.DRIVE_US, False),
    ],
)
def test_where_a_number_is_behind_a_few(
    value: float, others: float, few: outliers.Few, found: bool | None
) -> None:
    assert outliers.find_behind(named([value, others, others]), few).get(0) is found
    # Of two it is not known which one is wrong.
    assert outliers.find_behind(named([value, others]), few).get(0) is (None if found is None else False)


def test_of_gpus_an_outlier_fails_that_is_less_far_behind_than_the_limits() -> None:
    values = named([100.0] * 8 + [85.0])
    assert outliers.find_behind(values, outliers.GPU_RATE) == {8: True}
    assert outliers.find_behind(values, outliers.DRIVE_RATE) == {}


def test_the_median_of_all_others_is_that_of_each_without_itself() -> None:
    assert outliers.medians_of_others({"a": 8.0, "b": 1.0, "c": 4.0, "d": 2.0}) == {
        "b": 4.0,
        "d": 4.0,
        "c": 2.0,
        "a": 2.0,
    }
    assert outliers.medians_of_others({"a": 8.0}) == {}


def test_which_of_a_column_are_behind_a_reference() -> None:
    column = np.array([59.9, 60.0, 80.0])
    assert outliers.behind(column, 100.0, outliers.RAIL_OF_JOB).tolist() == [True, False, False]


def test_each_metric_is_compared_in_its_order_and_to_its_side() -> None:
    assert list(outliers.METRICS) == ["bandwidth_gbps", "latency_p50_us", "rtt_average_us"]
    assert list(outliers.WAYS) == ["forward_gbps", "reverse_gbps"]
    for metric, kind in outliers.KINDS.items():
        assert kind.worse == (outliers.BELOW if metric.endswith("_gbps") else outliers.ABOVE)
