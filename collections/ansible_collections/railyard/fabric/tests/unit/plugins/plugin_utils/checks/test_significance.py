# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rule that decides whether a change is reported: no noise, and no chance."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.significance import (
    IMPROVED,
    NO_DIFFERENCE,
    WORSE,
    Margin,
)


@pytest.mark.parametrize(
    ("before", "after", "chance"),
    [
        ([1, 2, 3], [4, 5, 6], None),  # three and three cannot be rarer than 1 in 10
        ([1, 2, 3, 4], [5, 6, 7, 8], 2 / 70),
        ([5, 6, 7, 8], [1, 2, 3, 4], 2 / 70),
        ([1, 2, 3, 5], [4, 6, 7, 8], 4 / 70),
        ([7] * 5, [7] * 6, 1.0),
    ],
)
def test_rank_chance(before, after, chance):
    assert significance.rank_chance(before, after) == (None if chance is None else pytest.approx(chance))


def test_rank_chance_is_what_counting_all_orders_gives():
    dice = random.Random(17)
    for size, other in ((4, 4), (4, 6), (5, 7)):
        values = [dice.randint(1, 6) for _one in range(size + other)]  # many ties
        middles = [sum(one < value for one in values) + (values.count(value) + 1) / 2 for value in values]
        usual = size * (len(values) + 1) / 2
        sums = [sum(dealt) for dealt in itertools.combinations(middles, size)]
        rare = [abs(one - usual) >= abs(sum(middles[:size]) - usual) for one in sums]
        assert significance.rank_chance(values[:size], values[size:]) == pytest.approx(sum(rare) / len(rare))


def test_of_many_values_the_chance_is_near_the_counted_one(monkeypatch):
    dice = random.Random(5)
    before, after = ([dice.choice(range(30)) + shift for _one in range(12)] for shift in (0, 6))
    counted = significance.rank_chance(before, after)
    monkeypatch.setattr(significance, "_COUNTED_UP_TO", 0)
    assert significance.rank_chance(before, after) == pytest.approx(counted, rel=0.02)
    assert significance.rank_chance([1.0] * 50, [1.0] * 50) == 1.0


def test_the_more_rows_the_rarer_each_has_to_be():
    assert significance.adjust_for_number([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert significance.adjust_for_number([0.9, 0.6]) == [1.0, 1.0]
    assert significance.adjust_for_number([]) == []


GBPS, MICROS = "bandwidth_gbps", "latency_p50_us"
STEADY = Margin(0.05, 0.15)


@pytest.mark.parametrize(
    ("before", "after", "metric", "margin", "chance", "word"),
    [
        ([100], [110], GBPS, STEADY, None, NO_DIFFERENCE),  # few: within the noise margin
        ([100], [116], GBPS, STEADY, None, IMPROVED),
        ([116], [100], GBPS, STEADY, None, WORSE),  # the same both ways
        ([100], [116], MICROS, STEADY, None, WORSE),
        ([116], [100], MICROS, STEADY, None, IMPROVED),
        ([100, 101, 130], [120, 135, 140], GBPS, STEADY, None, NO_DIFFERENCE),  # large, but overlapping
        ([100, 101, 130], [131, 135, 140], GBPS, STEADY, None, IMPROVED),
        ([100] * 9, [106] * 9, GBPS, STEADY, 0.05, IMPROVED),  # many, and the minimum effect
        ([100] * 9, [106] * 9, GBPS, STEADY, 0.051, NO_DIFFERENCE),
        (
            [100] * 9,
            [104] * 9,
            GBPS,
            STEADY,
            1e-9,
            NO_DIFFERENCE,
        ),  # significant, but below the minimum effect
        ([0.85], [1.2], MICROS, Margin(0.05, 0.15, 0.1), None, WORSE),
        ([0.10], [0.15], MICROS, Margin(0.05, 0.15, 0.1), None, NO_DIFFERENCE),  # a digit or two of the tool
        ([1.0], [1.99], GBPS, significance.SOFTWARE_MARGIN, None, NO_DIFFERENCE),
        ([1.0], [2.0], GBPS, significance.SOFTWARE_MARGIN, None, IMPROVED),
    ],
)
def test_a_change_is_classified(before, after, metric, margin, chance, word):
    assert significance.classify_change(before, after, metric, margin, chance) == word


@pytest.mark.parametrize(
    ("check", "steady", "margin"),
    [
        ("rdma_bandwidth_bi", True, "RDMA bandwidth"),
        ("aggregate_bandwidth", True, "TCP bandwidth"),
        ("rdma_latency", True, "RDMA latency"),
        ("tcp_latency", True, "TCP latency"),
        ("ping_rtt", True, "ping"),
        ("rdma_bandwidth", False, None),
    ],
)
def test_margin_of_a_check(check, steady, margin):
    wanted = significance.MARGINS[margin] if margin else significance.SOFTWARE_MARGIN
    assert significance.find_margin(check, steady) == wanted
    assert margin is None or margin in " ".join(significance.describe_rule())


@pytest.mark.parametrize("values", [1, 2, 4, 12])
@pytest.mark.parametrize(("check", "noise"), [("rdma_bandwidth", 0.01), ("tcp_bandwidth", 0.03)])
def test_two_runs_of_one_fabric_differ_in_nothing(values, check, noise):
    """Noise of each value, and a third of it of the whole day: of 60 comparisons of 8 rows, 3 may err."""
    dice = random.Random(f"{values} {check}")
    margin, wrong = significance.find_margin(check, True), 0
    for _comparison in range(60):
        days = [100 * math.exp(dice.gauss(0, noise / 3)) for _run in "ab"]
        rows = [
            [[day * math.exp(dice.gauss(0, noise)) for _one in range(values)] for day in days]
            for _row in range(8)
        ]
        chances = [significance.rank_chance(*row) for row in rows]
        adjusted = significance.adjust_for_number(chances) if None not in chances else chances
        said = {
            significance.classify_change(*row, GBPS, margin, one)
            for row, one in zip(rows, adjusted, strict=True)
        }
        wrong += said != {NO_DIFFERENCE}
    assert wrong <= 3
