# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure oversubscription: the bandwidth between leaves while all of their nodes send to other leaves. Pure.

A fabric may be oversubscribed by design, and there is no threshold, so it is reported and has no verdict.
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
    """A rail's worst round in which every pair was between two leaves, and every leaf of the rail had a pair.

    Attributes:
        rail: its name.
        share: sum of the results of its tests, divided by the sum of what they would carry alone.
        round: the round's number in the run.
        pairs: number of pairs that measured at once.
        leaves: number of the rail's leaves.
        declared: the bandwidth alone is the planned rate of the slower end; else it is that end's bandwidth
            with partners behind its own leaf.
    """

    rail: str
    share: float
    round: int
    pairs: int
    leaves: int
    declared: bool


def find_oversubscription(
    plan: Row, asked: Iterable[AskedLine], verdicts: Iterable[Row], check: str | None
) -> list[Crossed]:
    """Return the worst such round of each rail that has one.

    Args:
        plan: the run's.
        asked: the planned tests.
        verdicts: their verdicts, in the same order.
        check: the bandwidth check.
    """
    leaf, rate = (_read_plan(plan, key) for key in ("leaf", "rate_gbps"))
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
        crossed = {
            number: tests
            for number, tests in rounds.items()
            if (rail, number) not in mixed and _list_leaves(tests, leaf) == leaves[rail]
        }
        ends = {end for tests in crossed.values() for one, other, _gbps in tests for end in (one, other)}
        for level, declared in ((alone, False), (rate, True)):
            if crossed and ends <= level.keys():
                shares = {number: _calculate_share(tests, level) for number, tests in crossed.items()}
                worst = min(shares, key=lambda number: (shares[number], number))
                pairs = len({frozenset(both) for *both, _gbps in crossed[worst]})
                found.append(Crossed(rail, shares[worst], worst, pairs, len(leaves[rail]), declared))
                break
    return found


def _read_plan(plan: Row, key: str) -> dict[End, Any]:
    """Return end -> its value of a key in the plan, if it has one."""
    return {
        (name, rail["name"]): rail[key]
        for name, node in plan["nodes"].items()
        for rail in node["rails"]
        if rail.get(key) is not None
    }


def _list_leaves(tests: Iterable[_Test], leaf: Mapping[End, Any]) -> set[Any]:
    return {leaf[end] for one, other, _gbps in tests for end in (one, other)}


def _calculate_share(tests: Sequence[_Test], level: Mapping[End, float]) -> float:
    """Return the sum of the results, divided by the sum of the slower ends' levels."""
    return sum(gbps for *_both, gbps in tests) / sum(
        min(level[one], level[other]) for one, other, _gbps in tests
    )
