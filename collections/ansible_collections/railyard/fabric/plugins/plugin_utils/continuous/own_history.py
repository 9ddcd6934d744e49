# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare a node's numbers with its own of before, rail by rail. Pure.

A saved baseline holds numbers of links, and a run of today's idle nodes pairs other nodes than those. The
median over a node's partners is the node's own, for any partners. Which difference counts is decided by the
rule of `railyard compare` (`checks.significance`).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import RunResult

#: With so many of its last good runs a node is compared.
GOOD_RUNS = 5


class Compared(NamedTuple):
    """One number of a node's rail beside those of its last good runs.

    Attributes:
        node, rail, check: where; the rail is empty for a sum of all rails.
        metric: what is compared; its name carries the unit.
        value: the number of this run.
        before: those of the last good runs, newest first; empty where the rail was never measured.
        word: one of the results of `significance`, or `recorded` where there is nothing to compare with.
    """

    node: str
    rail: str
    check: str
    metric: str
    value: float
    before: tuple[float, ...]
    word: str

    @property
    def usual(self) -> float | None:
        """The median of the last good runs."""
        return statistics.median(self.before) if self.before else None


def compare(run: RunResult, earlier: Sequence[RunResult]) -> list[Compared]:
    """Compare each node and rail of a run with its own numbers of before.

    Args:
        run: the run.
        earlier: the cluster's runs, newest first; those that are not older than the run are left aside.
    """
    older = [one for one in earlier if one.run < run.run and one.settings == run.settings]
    found = []
    for node, mine in run.nodes.items():
        good = [one for one in older if node in one.nodes and one.nodes[node].is_good]
        for (check, rail), value in mine.numbers.items():
            metric = str(comparison.metric(check))
            times = [one for one in good if (check, rail) in one.nodes[node].numbers][:GOOD_RUNS]
            before = tuple(one.nodes[node].numbers[check, rail] for one in times)
            word = RECORDED
            if before:
                steady = run.is_steady and all(one.is_steady for one in times)
                margin = significance.find_margin(check, steady)
                chance = significance.rank_chance(before, [value])
                word = significance.classify_change(before, [value], metric, margin, chance)
            found.append(Compared(node, rail, check, metric, value, before, word))
    return found


def worse(found: Iterable[Compared]) -> list[Compared]:
    """Return what became worse, the largest change first."""
    mine = [one for one in found if one.word == significance.WORSE and one.usual]
    return sorted(mine, key=lambda one: -significance.relative_change(one.usual or 1.0, one.value))
