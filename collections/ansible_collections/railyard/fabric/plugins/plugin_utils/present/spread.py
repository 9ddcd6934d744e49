# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calculate the spread of each check's numbers over a rail's pairs and directions. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.significance import higher_is_better
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import rate_between
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import (
    Measurement,
    PassedTests,
)

#: What is shown of a check's numbers on a rail.
SHOWN = ("min", "median", "max")


@dataclass(frozen=True)
class RailSpread:
    """One check on one rail.

    Attributes:
        check: its title.
        metric: unit of its numbers, and what they are unless a bandwidth: `Gbit/s`, `µs, latency average`.
        rail: the rail, or "all rails".
        measured: how many tests have a number.
        planned: how many tests were planned.
        numbers: those of `SHOWN`, as text.
        of_rate: the same as shares of the declared rate, as text; empty where a rate is not declared, or the
            numbers are no bandwidth.
        worst: the place of the worst number: `gpu003 → gpu010`; empty where all are equal.
    """

    check: str
    metric: str
    rail: str
    measured: int
    planned: int
    numbers: tuple[str, ...]
    of_rate: str
    worst: str


def measure_spread(
    measurements: Iterable[Measurement],
    rails: Sequence[str],
    rates: Mapping[tuple[str, str], float | None],
    passed: Iterable[PassedTests] = (),
) -> tuple[RailSpread, ...]:
    """Return the spread of each check between nodes whose numbers have a unit, by check and rail.

    Unmeasured tests are planned and have no number; a check with one test per rail has no spread.

    Args:
        measurements: of the run, except those of `passed`.
        rails: their order.
        rates: the declared rate of each node's rails, in Gbit/s.
        passed: those of a large run that clearly pass.
    """
    groups: dict[tuple[str, str], tuple[list[Measurement], list[PassedTests]]] = defaultdict(lambda: ([], []))
    for item in measurements:
        if item.peer and item.outcome != "not_applicable":
            groups[item.check, item.rail][0].append(item)
    for tests in passed:
        groups[tests.first.check, tests.first.rail][1].append(tests)
    order = {rail: number for number, rail in enumerate(rails)}

    def place(key: tuple[str, str]) -> tuple[tuple[int, str], int]:
        return wording.check_order(key[0]), order.get(key[1], len(order))

    found = []
    for check, rail in sorted(groups, key=place):
        mine, alike = groups[check, rail]
        good = [item for item in mine if item.outcome != "unmeasured" and item.value is not None]
        examples = [*good, *(tests.first for tests in alike)]
        metric = next((item.metric for item in examples if item.metric and wording.unit(item.metric)), None)
        planned = len(mine) + sum(map(len, alike))
        if metric is None or planned < 2:
            continue
        if metric.endswith("mtu_bytes"):
            continue  # exact, and its verdict has it
        good = [item for item in good if item.metric == metric]
        alike = [tests for tests in alike if tests.first.metric == metric]
        values: list[float | Floats] = [
            *(float(item.observed[metric]) for item in good),
            *(tests.values for tests in alike),
        ]
        pick = min if higher_is_better(metric) else max
        worst = pick(
            (*good, *(item for tests in alike for item in tests.worst(1))),
            key=lambda item: float(item.observed[metric]),
        )
        least, middle, most = describe(values)
        found.append(
            RailSpread(
                wording.heading(check),
                _name_unit(metric),
                rail or "all rails",
                len(good) + sum(map(len, alike)),
                planned,
                tuple(map(wording.number, (least, middle, most))),
                _of_rate(good, alike, metric, [rail] if rail else rails, rates),
                f"{worst.node} → {worst.peer}" if least != most else "",
            )
        )
    return tuple(found)


def _name_unit(metric: str) -> str:
    name = wording.metric_name(metric)
    return wording.unit(metric) + ("" if name == "bandwidth" else f", {name}")


def _of_rate(
    measured: Sequence[Measurement],
    passed: Iterable[PassedTests],
    metric: str,
    rails: Sequence[str],
    rates: Mapping[tuple[str, str], float | None],
) -> str:
    """Return least, median and greatest share of the declared rate: `47 / 97 / 98 %`."""
    if not metric.endswith("_gbps"):
        return ""
    shares: list[float | Floats] = []
    for item in measured:
        rate = rate_between(rates, item.node, item.peer, rails)
        if rate is None:
            return ""
        shares.append(float(item.observed[metric]) / (2 * rate if item.direction == "bi" else rate))
    for tests in passed:
        known = [rate_between(rates, name, name, rails) or np.nan for name in tests.passes.names]
        of_node = np.array(known, dtype=np.float64)
        rate_gbps = np.minimum(of_node[tests.passes.node], of_node[tests.passes.peer])
        if np.isnan(rate_gbps).any():
            return ""
        shares.append(tests.values / (2 * rate_gbps if tests.first.direction == "bi" else rate_gbps))
    return " / ".join(f"{share * 100:.0f}" for share in describe(shares)) + " %"


def describe(values: Sequence[float | Floats]) -> tuple[float, float, float]:
    """Return minimum, median and maximum of numbers and columns of them; NaN in a column is no value."""
    numbers = np.hstack(values)
    numbers = numbers[~np.isnan(numbers)]
    return float(np.min(numbers)), float(np.median(numbers)), float(np.max(numbers))
