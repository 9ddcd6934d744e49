# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule that was merged into `outliers` gives what its own formula gave, at its boundaries too.

The formulas are written out as they stood in the modules that had them. Groups are drawn so that many numbers
lie exactly at a threshold of the others, or one float beside it.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers

Values = dict[int, float]
GROUPS = 4000
#: Shares and multiples of a median, and sums, at which any of the rules begins.
FACTORS = (0.6, 0.7, 0.8, 0.88, 0.9, 0.93, 1.0, 1.1, 1.5, 2.0, 3.0, 1 / 5, 5.0)
ADDED = (-100.0, -1.0, 0.0, 0.3, 1.0, 100.0)
SIGMAS = 5.0 * 1.4826


def groups(seed: int, most: int = 24) -> Iterator[Values]:
    """Yield groups of 1 to so many numbers, with some at a threshold of the others."""
    chance = random.Random(seed)
    for number in range(GROUPS):
        spread, middle = chance.choice((0.0, 0.01, 0.1, 0.8)), 10 ** chance.uniform(-1, 4)
        values = [
            middle * chance.lognormvariate(0, spread) if spread else float(round(middle) or 1)
            for _one in range(chance.randint(1, most))
        ]
        for place in chance.sample(range(len(values)), chance.randint(0, min(3, len(values) - 1))):
            others = values[:place] + values[place + 1 :]
            usual = statistics.median(others)
            mad = statistics.median(abs(value - usual) for value in others)
            value = chance.choice(
                [usual * chance.choice(FACTORS), usual + chance.choice(ADDED), usual + SIGMAS * mad,
                 usual - SIGMAS * mad]
            )  # fmt: skip
            value = chance.choice([value, math.nextafter(value, math.inf), math.nextafter(value, 0.0)])
            values[place] = value if value > 0 else usual
        yield dict(enumerate(values if number % 2 else [round(value, 1) or 0.1 for value in values]))


def named(values: list[float]) -> Values:
    return dict(enumerate(values))


def old_spread(values: Values) -> tuple[float, float]:
    numbers = list(values.values())
    usual = statistics.median(numbers)
    return usual, 5.0 * 1.4826 * statistics.median(abs(value - usual) for value in numbers)


def old_apart(values: Values, more_is_better: bool, hardware: bool) -> set[int]:
    """Return what `like.apart` did: of the fleet, of the node's repetition, and of GPUs."""
    found = set()
    if hardware and len(values) >= 8:
        usual, beyond = old_spread(values)
        if more_is_better:
            least = usual - max(beyond, 0.10 * usual)
            found = {key for key, value in values.items() if value < least}
        else:
            most = usual + max(beyond, (1.5 - 1) * usual, 1.0)
            found = {key for key, value in values.items() if value > most}
    ranked = sorted(values, key=lambda key: values[key], reverse=more_is_better)
    ratios = [
        max(values[one], values[other]) / min(values[one], values[other]) for one, other in pairwise(ranked)
    ]
    if not ratios or max(ratios) < 5.0:
        return found
    worse_side = ranked[ratios.index(max(ratios)) + 1 :]
    most_of, of = ((1, 2), (2, 3))[hardware]
    return found | set(worse_side) if of * len(worse_side) <= most_of * len(ranked) else found


def old_behind_others(values: Values, more_is_better: bool, apart: set[int]) -> dict[int, bool]:
    """Return what `drives` and `gpu_links` did: who is behind the median of the others, and who fails."""
    found = {}
    for key, value in values.items():
        others = [other for place, other in values.items() if place != key]
        if not others:
            continue
        usual = statistics.median(others)
        if more_is_better:
            remark, far = value < usual * (1 - 0.20), value < usual * (1 - 0.30)
        else:
            remark, far = value > max(usual * 2.0, usual + 100.0), value > max(usual * 3.0, usual + 100.0)
        fails = len(values) >= 3 and (far or key in apart)
        if fails or remark:
            found[key] = fails
    return found


@pytest.mark.parametrize("hardware", [True, False])
@pytest.mark.parametrize("metric", ["bandwidth_gbps", "latency_p50_us"])
def test_the_fleet_and_the_nodes_find_the_same_tests(metric: str, hardware: bool) -> None:
    some = 0
    for values in groups(1):
        old = old_apart(values, metric.endswith("_gbps"), hardware)
        assert outliers.find_outliers(values, outliers.KINDS[metric], hardware) == old, values
        some += bool(old)
    assert some > GROUPS / 100


@pytest.mark.parametrize(
    ("few", "more_is_better"),
    [(outliers.DRIVE_RATE, True), (outliers.DRIVE_US, False), (outliers.GPU_RATE, True)],
)
def test_drives_and_gpus_are_behind_their_peers_as_before(few: outliers.Few, more_is_better: bool) -> None:
    remarks = faults = 0
    for values in groups(2, most=14):
        enough = few == outliers.GPU_RATE and len(values) >= 3
        apart = old_apart(values, more_is_better=True, hardware=True) if enough else set()
        old = old_behind_others(values, more_is_better, apart)
        assert outliers.find_behind(values, few) == old, values
        remarks += len(old)
        faults += sum(old.values())
    assert 0 < faults < remarks


def test_places_of_two_runs_change_apart_from_the_others_as_before() -> None:
    """`compare` asks for both sides, by the distance: `usual - beyond` is another float at the boundary."""
    some = 0
    for values in groups(3):
        middle, usual = old_spread(values)
        old = {
            key for key, ratio in values.items() if not (len(values) >= 8 and abs(ratio - middle) <= usual)
        }
        few = len(values) < outliers.CHANGE.values
        assert set(values if few else outliers.find_beyond_spread(values, outliers.CHANGE)) == old, values
        some += bool(old) and not few
    assert some > GROUPS / 100


def test_the_distance_decides_of_a_change_where_the_two_sides_would_say_otherwise() -> None:
    chance, otherwise = random.Random(8), 0
    for _run in range(GROUPS):
        middle, mad = chance.uniform(0.5, 2.0), chance.uniform(0.001, 0.05)
        # Another number beside these leaves their median and their MAD as they are.
        others = [middle - mad] * 4 + [middle] * 4 + [middle + mad] * 4
        beyond = SIGMAS * statistics.median(abs(value - middle) for value in others[:4] + others[8:])
        values = named([*others, chance.choice([middle - beyond, middle + beyond])])
        usual, most = old_spread(values)
        old = {key for key, ratio in values.items() if not abs(ratio - usual) <= most}
        assert outliers.find_beyond_spread(values, outliers.CHANGE) == old, values
        by_side = {key for key, ratio in values.items() if ratio < usual - most or ratio > usual + most}
        otherwise += by_side != old
    assert otherwise > GROUPS / 100


def test_a_rail_of_a_job_is_behind_the_best_one_as_before() -> None:
    some = 0
    for values in groups(4):
        best = max(values.values())
        for value in values.values():
            old = value < best * (1 - 0.40)
            assert outliers.behind(value, best, outliers.RAIL_OF_JOB) == old, values
            some += old
    assert some > GROUPS / 100


def test_pairs_are_low_by_columns_as_before() -> None:
    chance = np.random.default_rng(5)
    for _run in range(GROUPS // 4):
        planned = chance.uniform(0, 1, 64)
        share = np.exp(-max(-np.log(0.88), 4.0 * chance.uniform(0, 0.06))) / 0.88
        for low, factor in ((0.88, share), (0.93, share), (0.7, share * share)):
            seen = planned * low * factor * chance.choice([0.5, 1.0, 1.0, 1.1], 64)
            beside = np.nextafter(seen, chance.choice([0.0, 2.0], 64))
            measured = np.where(chance.uniform(size=64) < 0.5, seen, beside)
            old = measured < low * factor * planned
            assert (outliers.behind(measured, planned, low * factor) == old).all()
            assert old.any()
            assert not old.all()


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
    # Of two nobody can tell which one is wrong.
    assert outliers.find_behind(named([value, others]), few).get(0) is (None if found is None else False)


def test_the_median_of_all_others_is_that_of_each_without_itself() -> None:
    for values in groups(6, most=9):
        assert outliers.medians_of_others(values) == {
            key: statistics.median(value for other, value in values.items() if other != key)
            for key in values
            if len(values) > 1
        }
    assert outliers.medians_of_others({}) == {}


def test_latencies_over_hops_have_their_spread_as_before() -> None:
    for values in groups(7):
        others = list(values.values())
        usual = statistics.median(others)
        assert outliers.median_and_mad(others) == (
            usual,
            statistics.median(abs(one - usual) for one in others),
        )


def test_each_metric_is_compared_in_the_order_and_to_the_side_that_it_was() -> None:
    assert list(outliers.METRICS) == ["bandwidth_gbps", "latency_p50_us", "rtt_average_us"]
    assert list(outliers.WAYS) == ["forward_gbps", "reverse_gbps"]
    for metric, kind in outliers.KINDS.items():
        assert kind.worse == (outliers.BELOW if metric.endswith("_gbps") else outliers.ABOVE)
