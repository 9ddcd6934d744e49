# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the rail that causes bad tests between nodes. Pure, and linear in the verdicts.

One slow NIC makes the tests with every other node of its rail bad, so that the worst outcome would mark
all of them. The rule is the one by which the judge names a slow rail (`judge.attribution.slow_rails`),
for every check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    NOT_APPLICABLE,
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Divided, divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Verdict

#: State of a rail whose tests are bad only with suspects.
MET_SUSPECT = "met_suspect"

Place = tuple[str, str]
"""Node and rail."""


@dataclass
class Blame:
    """The ends that made tests between nodes bad.

    Attributes:
        suspects: (node, rail) with no good test of some check, while other nodes on that rail have one.
        by_test: (check, rail) -> the ends at fault, as `slow_rails.find_slow_ends` returns them.
    """

    suspects: set[Place] = field(default_factory=set)
    by_test: dict[tuple[str, str | None], set[slow_rails.End]] = field(default_factory=dict)

    def guilty(self, verdict: Mapping[str, Any]) -> set[str]:
        """Return the nodes that caused a bad test between nodes, as far as the run shows it."""
        ends = self.by_test.get((verdict["check"], verdict["rail"]), set())
        both = ((verdict["node"], "sends"), (verdict["peer"], "receives"))
        return {end[0] for end in both if verdict["peer"] is not None and end in ends}

    def only_met(self, verdict: Mapping[str, Any], node: str) -> bool:
        """Tell whether only the other end of a node made a test bad."""
        if verdict["outcome"] in (PASS, RECORDED, NOT_APPLICABLE):
            return False
        guilty = self.guilty(verdict)
        return bool(guilty) and node not in guilty


def find(verdicts: Sequence[Verdict] | Divided, *, in_sums: bool = False) -> Blame:
    """Find the ends at fault, for each check and rail separately.

    Args:
        verdicts: those of a run.
        in_sums: also of tests of all rails together, by the same rule; their rail is None.
    """
    tests: dict[tuple[str, str | None], list[tuple[str, str, bool]]] = {}
    single, passes = divide(verdicts)
    for one in single:
        has_place = one["peer"] is not None and (in_sums or one["rail"] is not None)
        if has_place and one["outcome"] != NOT_APPLICABLE:
            is_good = one["outcome"] in (PASS, RECORDED)
            tests.setdefault((one["check"], one["rail"]), []).append((one["node"], one["peer"], is_good))
    for group in passes:
        mine = tests.setdefault((group.first["check"], group.first["rail"]), [])
        # That an end has a good test counts, not how many.
        mine += [(*ends, True) for ends in group.ends()]
    blame = Blame()
    for (check, rail), mine in tests.items():
        if ends := slow_rails.find_slow_ends(mine):
            blame.by_test[check, rail] = ends
            blame.suspects |= {(node, rail) for node, _way in ends if rail is not None}
    return blame
