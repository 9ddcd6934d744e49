# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How much of it leaves let through when all of their nodes send to other leaves at once. Pure.

A fabric may be built so, and nobody has said how much of it is enough: it is recorded, and no verdict.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

End = tuple[str, str]
_Test = tuple[End, End, float]


class Crossed(NamedTuple):
    """A rail's worst round in which every pair was of two leaves, and none of the rail's leaves had no pair.

    Attributes:
        rail: its name.
        share: the sum of what its tests carried, of the sum of what they would alone.
        round: the round's number in the run.
        pairs: how many measured at once.
        leaves: how many the rail has.
        declared: what tests would carry alone is the planned rate of the lesser end; else it is what that end
            carries with partners of its own leaf.
    """

    rail: str
    share: float
    round: int
    pairs: int
    leaves: int
    declared: bool


def of(plan: Row, asked: Iterable[AskedLine], verdicts: Iterable[Row], check: str | None) -> list[Crossed]:
    """Return for each rail with such a round the worst one.

    Args:
        plan: the run's.
        asked: its asked lines.
        verdicts: the verdict of each of them, in their order.
        check: the bandwidth that is read.
    """
    leaf, rate = (_planned(plan, key) for key in ("leaf", "rate_gbps"))
    leaves: dict[str, set[Any]] = defaultdict(set)
    for (_node, rail), ends_at in leaf.items():
        leaves[rail].add(ends_at)
    several = {rail for rail, ends_at in leaves.items() if len(ends_at) > 1}
    if not several or check is None:
        return []
    crossing: dict[str, dict[int, list[_Test]]] = defaultdict(lambda: defaultdict(list))
    inside: dict[End, list[float]] = defaultdict(list)
    mixed = set()
    for line, verdict in zip(asked, verdicts, strict=True):
        rail, (node, peer), number = str(line["rail"]), nodes_of(line), line["round"] or 0
        if line["check"] != check or rail not in several:
            continue
        one, other = (node, rail), (peer, rail)
        gbps = (verdict["observed"] or {}).get("bandwidth_gbps")
        if one not in leaf or other not in leaf:
            mixed.add((rail, number))
        elif leaf[one] == leaf[other]:
            mixed.add((rail, number))
            if gbps:
                inside[one].append(float(gbps))
                inside[other].append(float(gbps))
        elif gbps is not None:
            crossing[rail][number].append((one, other, float(gbps)))
    alone = {end: statistics.median(seen) for end, seen in inside.items()}
    found = []
    for rail, rounds in crossing.items():
        whole = {
            number: tests
            for number, tests in rounds.items()
            if (rail, number) not in mixed and _leaves(tests, leaf) == leaves[rail]
        }
        ends = {end for tests in whole.values() for one, other, _gbps in tests for end in (one, other)}
        for level, declared in ((alone, False), (rate, True)):
            if whole and ends <= level.keys():
                shares = {number: _share(tests, level) for number, tests in whole.items()}
                worst = min(shares, key=lambda number: (shares[number], number))
                pairs = len({frozenset(both) for *both, _gbps in whole[worst]})
                found.append(Crossed(rail, shares[worst], worst, pairs, len(leaves[rail]), declared))
                break
    return found


def _planned(plan: Row, key: str) -> dict[End, Any]:
    """Return what the plan says of each end, where it says so."""
    return {
        (name, rail["name"]): rail[key]
        for name, node in plan["nodes"].items()
        for rail in node["rails"]
        if rail.get(key) is not None
    }


def _leaves(tests: Iterable[_Test], leaf: Mapping[End, Any]) -> set[Any]:
    return {leaf[end] for one, other, _gbps in tests for end in (one, other)}


def _share(tests: Sequence[_Test], level: Mapping[End, float]) -> float:
    """Return what tests carry together, of what each would as its lesser end does."""
    return sum(gbps for *_both, gbps in tests) / sum(
        min(level[one], level[other]) for one, other, _gbps in tests
    )
