# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose rail is it, where tests between nodes are not good? Pure, and linear in the verdicts.

One slow NIC spoils a test with every other node of its rail, so that the worst of each node's tests paints
all of them red. The rule is the one by which the judge names a slow rail (`judge.attribution.slow_rails`),
for every check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    NOT_APPLICABLE,
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import slow_rails

#: How a rail is shown whose tests are not good with suspects alone.
MET_SUSPECT = "met_suspect"

Place = tuple[str, str]
"""Node and rail."""


@dataclass
class Blame:
    """Who spoiled the tests between nodes.

    Attributes:
        suspects: rails of nodes with which no test of some check is good, while others of that rail are.
        by_test: check and rail -> the ends that spoil it, as `slow_rails.guilty_ends` has them.
    """

    suspects: set[Place] = field(default_factory=set)
    by_test: dict[Place, set[slow_rails.End]] = field(default_factory=dict)

    def only_met(self, verdict: Mapping[str, Any], node: str) -> bool:
        """Tell whether a verdict is not good by its other end alone, seen from a node."""
        if verdict["peer"] is None or verdict["outcome"] in (PASS, RECORDED, NOT_APPLICABLE):
            return False
        ends = self.by_test.get((verdict["check"], verdict["rail"]), set())
        guilty = {
            end[0] for end in ((verdict["node"], "sends"), (verdict["peer"], "receives")) if end in ends
        }
        return bool(guilty) and node not in guilty


def find(verdicts: Iterable[Mapping[str, Any]]) -> Blame:
    """Return who is to blame, for each check and rail by itself."""
    tests: dict[Place, list[tuple[str, str, bool]]] = {}
    for one in verdicts:
        if one["peer"] is not None and one["rail"] is not None and one["outcome"] != NOT_APPLICABLE:
            is_good = one["outcome"] in (PASS, RECORDED)
            tests.setdefault((one["check"], one["rail"]), []).append((one["node"], one["peer"], is_good))
    blame = Blame()
    for (check, rail), mine in tests.items():
        if ends := slow_rails.find_slow_ends(mine):
            blame.by_test[check, rail] = ends
            blame.suspects |= {(node, rail) for node, _way in ends}
    return blame
