# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which node's rail is slow? What all bandwidth tests of a rail show together. Pure.

A test below its floor names two nodes, and one of them is slow. Whose tests are all below the floor, while
others of the same rail pass, has the slow rail. Where no test of a rail passes and the same nodes do on
another rail, it is the rail itself (with two nodes nobody can tell which of them). Where everything is slow
there is nothing to compare with, and one test alone shows nothing of a rail: both stay `below_floor`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BANDWIDTH,
    PASS,
    RDMA_BANDWIDTH,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named

_CHECKS = (*BANDWIDTH, *RDMA_BANDWIDTH)
_METRIC = "bandwidth_gbps"
#: So many tests of a rail make it slow; what one test shows may be that test's.
_LEAST_TESTS = 2


@dataclass(frozen=True)
class _Test:
    """A bandwidth test that was judged by its floor."""

    node: str
    peer: str
    answer: Answer

    @property
    def passed(self) -> bool:
        return self.answer.outcome == PASS


End = tuple[str, str]
"""A node, and whether it `sends` or `receives`."""


def name(asked: Sequence[Mapping[str, Any]], answers: Sequence[Answer]) -> None:
    """Give answers below their floor the cause `rail_slow`, where a rail explains them.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order; causes are replaced in place, outcomes never.
    """
    tests: dict[str, dict[str, list[_Test]]] = {}
    for line, answer in zip(asked, answers, strict=True):
        below = answer.cause.get("cause_class") == "below_floor"
        if line["check"] in _CHECKS and (below or answer.outcome == PASS):
            by_rail = tests.setdefault(str(line["check"]), {})
            test = _Test(str(line["node"]), str(line["peer"]), answer)
            by_rail.setdefault(str(line["rail"]), []).append(test)
    for by_rail in tests.values():
        for rail, mine in by_rail.items():
            if any(test.passed for test in mine):
                _blame_nodes(rail, mine)
            elif len(mine) >= _LEAST_TESTS:
                _blame_rail(rail, mine, {other: by_rail[other] for other in by_rail if other != rail})
    _explain_sums(asked, answers)


def guilty_ends(tests: Iterable[tuple[str, str, bool]]) -> set[End]:
    """Return the ends of which no test is good, on a rail where others are; in time linear in the tests.

    Args:
        tests: node, peer and whether it is good, of all tests of one check on one rail.
    """
    asked: dict[End, int] = {}
    good: set[End] = set()
    for node, peer, is_good in tests:
        for end in ((node, "sends"), (peer, "receives")):
            asked[end] = asked.get(end, 0) + 1
            if is_good:
                good.add(end)
    # Where nothing is good there is nothing to compare with.
    return {end for end, count in asked.items() if good and count >= _LEAST_TESTS and end not in good}


def _explain_sums(asked: Sequence[Mapping[str, Any]], answers: Sequence[Answer]) -> None:
    """Give a sum below its floor the cause of its slow part."""
    slow = {
        line["id"]: answer.cause
        for line, answer in zip(asked, answers, strict=True)
        if answer.cause.get("cause_class") == "rail_slow"
    }
    for line, answer in zip(asked, answers, strict=True):
        part = next((part for part in line.get("parts") or () if part in slow), None)
        if part is not None and answer.cause.get("cause_class") == "below_floor":
            answer.cause = slow[part]


def _blame_nodes(rail: str, tests: Sequence[_Test]) -> None:
    """Name the nodes of which no test is fast enough, on a rail where others are."""
    ends = guilty_ends((test.node, test.peer, test.passed) for test in tests)
    slow: dict[End, list[_Test]] = {}
    for test in tests:
        for end in ((test.node, "sends"), (test.peer, "receives")):
            if end in ends:
                slow.setdefault(end, []).append(test)
    said = {node: _said(node, rail, slow) for node, _way in slow}
    for test in tests:
        guilty = [end[0] for end in ((test.node, "sends"), (test.peer, "receives")) if end in slow]
        if guilty:
            test.answer.cause = causes.explain("rail_slow", "; ".join(said[node] for node in guilty))


def _said(node: str, rail: str, slow: Mapping[End, Sequence[_Test]]) -> str:
    """Return what a slow node's rail carries, the same for all of its tests."""
    sent, received = slow.get((node, "sends"), ()), slow.get((node, "receives"), ())
    mine = [*sent, *received]
    peers = {test.peer if test.node == node else test.node for test in mine}
    way = "with" if sent and received else "to" if sent else "from"
    return f"{node} {rail}: {_at_most(mine)} {way} {named(sorted(peers))}, while others of this rail pass"


def _blame_rail(rail: str, tests: Sequence[_Test], others: Mapping[str, Sequence[_Test]]) -> None:
    """Name a rail on which nothing is fast enough, where the same nodes are on another rail."""
    pairs = {(test.node, test.peer) for test in tests}
    fast = next(
        (
            other
            for other, theirs in others.items()
            if pairs <= {(test.node, test.peer) for test in theirs if test.passed}
        ),
        None,
    )
    if fast is None:
        return
    nodes = sorted({name for pair in pairs for name in pair})
    owners = " or ".join(nodes) if len(nodes) == 2 else f"all of {named(nodes)}"
    said = f"{owners} {rail}: {_at_most(tests)} between them, while the same nodes pass on {fast}"
    for test in tests:
        test.answer.cause = causes.explain("rail_slow", said)


def _at_most(tests: Sequence[_Test]) -> str:
    """Return the best number of slow tests, and what was to be reached."""
    best = max(float(test.answer.observed[_METRIC]) for test in tests)
    floor = max(float(test.answer.floor[_METRIC]) for test in tests)
    return f"{best:.3g} Gbit/s at most, floor {floor:g},"
