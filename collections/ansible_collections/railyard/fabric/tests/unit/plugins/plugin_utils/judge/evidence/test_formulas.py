# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A formula says of a column what it says of each of its numbers, and never that what is missing is good."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas, row_counters

POLICY = policy.merge({"rdma_duration_s": 4, "rdma_margin_s": 1, "rdma_message_bytes": 65536})
ODD = (math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 100.0, 100.1, 0.5, 2.0**64, 2.0**32 - 1)
#: Formula -> how many numbers it takes of a row.
FORMULAS: dict[str, tuple[int, Callable[..., Any]]] = {
    "within": (3, formulas.is_within),
    **{
        kind: (1, functools.partial(formulas.is_of_kind, kind=kind))
        for kind in ("positive", "positive_count", "count", "share", "nonnegative")
    },
    "follows_from_iterations": (2, functools.partial(formulas.follows_from_iterations, policy=POLICY)),
    "is_its_message_rate": (2, functools.partial(formulas.matches_message_rate, policy=POLICY)),
    "are_near": (2, functools.partial(formulas.are_near, share=0.05)),
    "are_near_by_digit": (2, functools.partial(formulas.are_near, share=0.05, digit=1.5e-6)),
    "not_more_arrived": (2, lambda *of: formulas.is_plausible_arrival(*of, 4.0, 0.05, 4)[0]),
    "in_buffers": (2, lambda *of: formulas.is_plausible_arrival(*of, 4.0, 0.05, 4)[1]),
    "are_frames": (2, formulas.are_frames),
}


def drawn(count: int, rows: int = 400) -> list[list[float]]:
    """Return rows of numbers: near each other, odd, or anything."""
    from_seed = random.Random(count)
    found = []
    for _row in range(rows):
        base = 10 ** from_seed.uniform(-6, 6)
        near = [base * from_seed.choice((1, 0.95, 1.05, 0.9, 1.1, 2, 0.999999)) for _one in range(count)]
        found.append([from_seed.choice((one, one, one, from_seed.choice(ODD))) for one in near])
    return found


@pytest.mark.parametrize("name", FORMULAS)
def test_a_column_is_judged_as_each_of_its_rows(name: str) -> None:
    count, formula = FORMULAS[name]
    rows = drawn(count)
    with numpy.errstate(all="ignore"):
        of_column = formula(*numpy.array(rows).T)
        of_rows = [bool(formula(*row)) for row in rows]
    assert of_column.tolist() == of_rows
    assert {True, False} <= set(of_rows)
    for place in range(count):
        assert not formula(*(math.nan if at == place else 1.0 for at in range(count))), "NaN is never good"


@pytest.mark.parametrize("kind", ["positive", "positive_count", "count", "share", "nonnegative"])
def test_no_metric_is_without_end(kind: str) -> None:
    assert formulas.is_of_kind(1.0, kind)
    assert not formulas.is_of_kind(math.inf, kind)


def test_complete_counters_are_judged_by_the_column_too() -> None:
    after = [5, 4, 2**32 - 1, 2**32, 2**61]
    of_column = formulas.has_grown(numpy.array([5] * 5), numpy.array(after))
    assert (
        of_column.tolist()
        == [formulas.has_grown(5, one) for one in after]
        == [True, False, False, True, True]
    )
    assert not formulas.has_grown(5, 2**64 - 1)


@pytest.mark.parametrize(
    ("check", "asked", "least", "most"),
    [
        ("rdma_bandwidth", 2.0, 1.0, 4.001),  # all of it less both margins, and never longer than that
        ("tcp_bandwidth", 5.0, 2.5, 125.0),
        ("path_mtu", 0.0, 0.0, math.inf),
    ],
)
def test_how_long_a_window_can_be(check: str, asked: float, least: float, most: float) -> None:
    rules = {**POLICY, "iperf3_duration_s": 5}
    found = [
        of(check, rules)
        for of in (formulas.find_planned_s, formulas.find_shortest_s, formulas.find_longest_s)
    ]
    assert found == [asked, least, most]


@pytest.mark.parametrize("check", ["rdma_bandwidth", "tcp_bandwidth", "path_mtu"])
@pytest.mark.parametrize("end", ["client", "server"])
def test_what_must_have_crossed_is_bounded_alike_for_one_and_for_many(check: str, end: str) -> None:
    many = {"bandwidth_gbps": numpy.array([1.0, 50.0]), "path_mtu_bytes": numpy.array([1500.0, 9000.0]),
            "received": numpy.array([5.0, 10.0])}  # fmt: skip
    columns = (
        numpy.array([1000, 7]),
        numpy.array([1000, 7]),
        numpy.array([4.0, 6.0]),
        numpy.array([1024, 4096]),
    )

    def bounds(at: int | None) -> list[tuple[str, Any, Any]]:
        metrics, *rest = (
            ({key: column[at].item() for key, column in many.items()}, *(one[at].item() for one in columns))
            if at is not None
            else (many, *columns)
        )
        measured = row_counters.Measured(metrics, *rest)
        as_end, claims = row_counters.list_least_claims(check, end, measured, POLICY)
        allowance = proof.Allowance(1000.0, 124.0)
        each = (one for claim in claims for one in proof.bounds(claim, as_end, allowance, proof.NETDEV))
        return [(one.counter, one.at_least, one.at_most) for one in each]

    whole, single = bounds(None), [bounds(0), bounds(1)]
    assert [one[0] for one in whole] == [one[0] for one in single[0]] == [one[0] for one in single[1]]
    for place, (_counter, least, most) in enumerate(whole):
        for at in (0, 1):
            assert numpy.broadcast_to(least, 2)[at] == single[at][place][1]
            assert numpy.broadcast_to(most, 2)[at] == single[at][place][2]
