# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether one run is better than another, or whether the difference is noise. Pure.

Values of one run share its day, its temperature and other load on the nodes, so many of them can be wrong
together: a change below the minimum effect is never reported, whatever the number of values.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS

IMPROVED, WORSE = "improved", "worse"
NO_DIFFERENCE, NOT_COMPARABLE = "no significant difference", "not comparable"
#: The minimum number of values on each side for a rank test: with 3 and 3 the rarest order occurs by chance
#: in 2 of 20 cases, with 4 and 4 in 2 of 70.
RANKED_FROM = 4
#: Permitted probability that chance alone shows a difference in any row of a comparison.
CHANCE = 0.05
# Up to so many values all orders are counted; beyond that a normal distribution is close enough.
_COUNTED_UP_TO = 24


class Margin(NamedTuple):
    """How large a change must be to be reported.

    Attributes:
        ranked: minimum relative effect if a rank test confirms it; 0.05 is 5 %, 1.0 a factor of 2.
        apart: minimum relative effect if values are few, and all of one run lie beyond all of the other's.
        least: minimum effect in the metric's unit.
    """

    ranked: float
    apart: float
    least: float = 0.0


#: Railyard's own choice: no vendor publishes how far two runs of the same fabric may differ.
MARGINS = {
    "RDMA bandwidth": Margin(0.03, 0.05),
    "RDMA latency": Margin(0.05, 0.15, 0.1),
    "TCP bandwidth": Margin(0.10, 0.20),
    "TCP latency": Margin(0.10, 0.25, 1.0),
    "ping": Margin(0.20, 0.50, 10.0),
}
#: Software links and emulated nodes: rails of one healthy node lie up to a factor of 5 apart there.
SOFTWARE_MARGIN = Margin(1.0, 1.0)


def find_margin(check: str, steady: bool) -> Margin:
    """Return how large a change of a check must be to be reported.

    Args:
        check: a check whose number is compared.
        steady: both runs measured it on hardware.
    """
    if not steady:
        return SOFTWARE_MARGIN
    if check.startswith("ping"):
        return MARGINS["ping"]
    kind = "latency" if "latency" in check else "bandwidth"
    return MARGINS[f"{'RDMA' if CHECKS[check].rdma else 'TCP'} {kind}"]


def higher_is_better(metric: str) -> bool:
    """Tell whether more of a metric is better."""
    return not metric.endswith("_us")


def relative_change(before: float, after: float) -> float:
    """Return the size of a change of two positive numbers, the same both ways: 0.25 from 4 to 5, and back."""
    return max(before, after) / min(before, after) - 1


def is_enough(before: float, after: float, effect: float, least: float) -> bool:
    """Tell whether two numbers differ by a relative effect and by an amount in their unit."""
    return relative_change(before, after) >= effect and abs(after - before) >= least


def classify_change(
    before: Sequence[float], after: Sequence[float], metric: str, margin: Margin, chance: float | None
) -> str:
    """Classify a change as one of the four findings.

    Args:
        before: the values of run A, positive.
        after: those of run B.
        metric: its name shows whether higher is better.
        margin: how large a change must be.
        chance: the adjusted p of the rank test, None if there were too few values for one.
    """
    middles = statistics.median(before), statistics.median(after)
    ranked = chance is not None and chance <= CHANCE and is_enough(*middles, margin.ranked, margin.least)
    lies_apart = max(before) < min(after) or max(after) < min(before)
    if not ranked and not (lies_apart and is_enough(*middles, margin.apart, margin.least)):
        return NO_DIFFERENCE
    return IMPROVED if (middles[1] > middles[0]) == higher_is_better(metric) else WORSE


def rank_chance(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Return the two-sided p of the rank-sum test (Wilcoxon, Mann and Whitney); None for too few values.

    Exact up to 24 values, ties included: all ways to deal the ranks to the two sides are counted.
    """
    if min(len(before), len(after)) < RANKED_FROM:
        return None
    ranks = _doubled_ranks([*before, *after])
    seen, size, total = sum(ranks[: len(before)]), len(before), len(ranks)
    middle = size * (total + 1)
    if total <= _COUNTED_UP_TO:
        ways = _count_rank_sums(ranks, size)
        rare = sum(count for reached, count in ways.items() if abs(reached - middle) >= abs(seen - middle))
        return rare / math.comb(total, size)
    # Of doubled ranks: four times the variance, and half a rank of continuity is 1.
    ties = sum(count**3 - count for count in Counter(ranks).values())
    spread = size * (total - size) / 3 * (total + 1 - ties / (total * (total - 1)))
    return math.erfc(max(abs(seen - middle) - 1, 0) / math.sqrt(2 * spread)) if spread else 1.0


def adjust_for_number(chances: Sequence[float]) -> list[float]:
    """Adjust p values for their number (Holm): among many rows some differ by chance."""
    order = sorted(range(len(chances)), key=lambda at: chances[at])
    out, most = [0.0] * len(chances), 0.0
    for place, at in enumerate(order):
        most = max(most, min(chances[at] * (len(chances) - place), 1.0))
        out[at] = most
    return out


def describe_rule() -> list[str]:
    """Return the rule in sentences, as every comparison prints it."""
    steps = "; ".join(
        f"{name} {_percent(one.ranked)}, {_percent(one.apart)}"
        + (f", at least {one.least:g} µs" * bool(one.least))
        for name, one in MARGINS.items()
    )
    return [
        "Compared are proven numbers that agree in check, tool, message size, QPs, streams, MTU, direction, "
        "nodes and rail. The value is their median.",
        f"A change is reported if (1) each run has {RANKED_FROM} values or more, a rank-sum test gives "
        f"p <= {CHANCE:g}, adjusted for all rows (Holm), and the medians differ by the minimum effect, or "
        "(2) all values of one run lie beyond all of the other's, and the medians differ by the noise "
        "margin.",
        f"Minimum effect and noise margin: {steps}; if a run is not completely on hardware a factor of 2.",
        "Everything else is noise. The margins are Railyard's own choice, not a vendor's: repeat both runs "
        "before you act on a change near them.",
    ]


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return each value's rank, from 1, times 2; equal values share their mean rank."""
    order = sorted(values)
    first: dict[float, int] = {}
    for place, value in enumerate(order):
        first.setdefault(value, place)
    counts = Counter(order)
    return [2 * first[value] + 1 + counts[value] for value in values]


def _count_rank_sums(ranks: Sequence[int], size: int) -> dict[int, int]:
    """Return sum -> number of ways in which `size` of the ranks add up to it."""
    reached: list[dict[int, int]] = [{0: 1}] + [{} for _one in range(size)]
    for rank in ranks:
        for taken in range(size, 0, -1):
            for total, count in reached[taken - 1].items():
                reached[taken][total + rank] = reached[taken].get(total + rank, 0) + count
    return reached[size]
