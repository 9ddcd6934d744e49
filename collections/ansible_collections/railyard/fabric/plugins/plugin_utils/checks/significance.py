# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is one run better than another, or is it noise? The rule, in numbers. Pure.

Values of one run share its day, its temperature and whoever else used the nodes, so that many of them can
agree and be wrong together: no number of values makes a change below the least effect worth a word.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS

IMPROVED, WORSE = "improved", "worse"
NO_DIFFERENCE, NOT_COMPARABLE = "no difference that can be told", "not comparable"
#: The least number of values on each side of which a rank test can say anything: of 3 and 3 the rarest order
#: comes about by chance in 2 of 20 cases, of 4 and 4 in 2 of 70.
RANKED_FROM = 4
#: How often, of all rows of a comparison together, chance alone may put a difference into one.
CHANCE = 0.05
# Up to so many values all orders are counted; beyond, their distribution is as good as normal.
_COUNTED_UP_TO = 24


class Margin(NamedTuple):
    """How much has to change before a word is said of it.

    Attributes:
        ranked: least effect where a rank test speaks for it; 0.05 is a twentieth, 1.0 a factor of 2.
        apart: least effect where the values are few, and all of one run lie beyond all of the other's.
        least: least effect in the metric's own unit.
    """

    ranked: float
    apart: float
    least: float = 0.0


#: Railyard's own choice: no vendor says how far two runs of the same fabric may lie apart.
MARGINS = {
    "RDMA bandwidth": Margin(0.03, 0.05),
    "RDMA latency": Margin(0.05, 0.15, 0.1),
    "TCP bandwidth": Margin(0.10, 0.20),
    "TCP latency": Margin(0.10, 0.25, 1.0),
    "ping": Margin(0.20, 0.50, 10.0),
}
#: Software links and emulated nodes: rails of one healthy node lie up to a factor of 5 apart there.
UNSTEADY = Margin(1.0, 1.0)


def margin(check: str, steady: bool) -> Margin:
    """Return how much has to change of a check.

    Args:
        check: a check whose number is compared.
        steady: both runs measured it on hardware.
    """
    if not steady:
        return UNSTEADY
    if check.startswith("ping"):
        return MARGINS["ping"]
    kind = "latency" if "latency" in check else "bandwidth"
    return MARGINS[f"{'RDMA' if CHECKS[check].rdma else 'TCP'} {kind}"]


def higher_is_better(metric: str) -> bool:
    """Tell whether more of a metric is better."""
    return not metric.endswith("_us")


def change(before: float, after: float) -> float:
    """Return the size of a change of two positive numbers, the same both ways: 0.25 from 4 to 5, and back."""
    return max(before, after) / min(before, after) - 1


def is_enough(before: float, after: float, effect: float, least: float) -> bool:
    """Tell whether two numbers lie at least an effect, and so much in their unit, apart."""
    return change(before, after) >= effect and abs(after - before) >= least


def word(
    before: Sequence[float], after: Sequence[float], metric: str, margin: Margin, chance: float | None
) -> str:
    """Return what can be said of a change.

    Args:
        before: the values of run A, positive.
        after: those of run B.
        metric: whose name tells which way is better.
        margin: how much has to change.
        chance: the adjusted p of the rank test, None where there were too few values for one.
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
        ways = _ways(ranks, size)
        rare = sum(count for reached, count in ways.items() if abs(reached - middle) >= abs(seen - middle))
        return rare / math.comb(total, size)
    # Of doubled ranks: four times the variance, and half a rank of continuity is 1.
    ties = sum(count**3 - count for count in Counter(ranks).values())
    spread = size * (total - size) / 3 * (total + 1 - ties / (total * (total - 1)))
    return math.erfc(max(abs(seen - middle) - 1, 0) / math.sqrt(2 * spread)) if spread else 1.0


def adjusted(chances: Sequence[float]) -> list[float]:
    """Return p values adjusted for their number (Holm): of many rows some would stand out by chance."""
    order = sorted(range(len(chances)), key=lambda at: chances[at])
    out, most = [0.0] * len(chances), 0.0
    for place, at in enumerate(order):
        most = max(most, min(chances[at] * (len(chances) - place), 1.0))
        out[at] = most
    return out


def rule() -> list[str]:
    """Return the rule in sentences, as every comparison says it."""
    steps = "; ".join(
        f"{name} {_percent(one.ranked)}, {_percent(one.apart)}"
        + (f", at least {one.least:g} µs" * bool(one.least))
        for name, one in MARGINS.items()
    )
    return [
        "Compared are proven numbers that agree in check, tool, message size, QPs, streams, MTU, direction, "
        "nodes and rail. The value is their median.",
        f"A change has a word where (1) each run has {RANKED_FROM} values or more, a rank-sum test gives "
        f"p <= {CHANCE:g}, adjusted for all rows (Holm), and the medians differ by the least effect, or (2) "
        "all values of one run lie beyond all of the other's, and the medians differ by the noise margin.",
        f"Least effect and noise margin: {steps}; where a run is not all on hardware a factor of 2.",
        "All else is within noise. The margins are Railyard's own choice, no vendor's: repeat both runs "
        "before you act on a change near them.",
    ]


def _percent(share: float) -> str:
    return f"{share * 100:g} %"


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Return each value's rank, from 1, times 2; equal values share the middle of theirs."""
    order = sorted(values)
    first: dict[float, int] = {}
    for place, value in enumerate(order):
        first.setdefault(value, place)
    counts = Counter(order)
    return [2 * first[value] + 1 + counts[value] for value in values]


def _ways(ranks: Sequence[int], size: int) -> dict[int, int]:
    """Return in how many ways so many of the ranks reach each sum."""
    reached: list[dict[int, int]] = [{0: 1}] + [{} for _one in range(size)]
    for rank in ranks:
        for taken in range(size, 0, -1):
            for total, count in reached[taken - 1].items():
                reached[taken][total + rank] = reached[taken].get(total + rank, 0) + count
    return reached[size]
