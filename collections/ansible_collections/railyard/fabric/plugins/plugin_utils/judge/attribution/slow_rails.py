# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is slow, and why? What all tests of a check show together, and the run's facts. Pure.

A slow test names two nodes and a rail, and one of its parts is the cause. Whose tests on a rail are all slow,
while others of that rail are good, has the slow port; where that holds on all of its rails it is the node. A
leaf behind which that holds for every node, while it does not behind another leaf, is named in their place.
A pair alone, whose ends are good with others, has the slow path. A rail on which nothing is good, while its
nodes are on another one, has the slow switch. Two nodes cannot tell port, path and switch apart: then those
that remain are named. Where everything is slow there is nothing to compare with, and the cause stays.

Isolation (`culprits`) compares whole levels, of one check of a run that has a matrix of tests. Here each
check's tests give their own verdicts a cause, by outcomes alone: ends, leaves and pairs, from two nodes on.

Only causes are replaced; an outcome never changes here.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    FAIL,
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.signs import SLOW, Signs
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named

#: What failures become that say no more than that a number is bad.
NAMED = ("rail_slow", "node_slow", "path_slow", "leaf_slow", "switch_slow")
#: So many tests of a rail make it slow; what one test shows may be that test's.
_LEAST_TESTS = 2
#: Fewer nodes do not show whether a whole rail is slow.
_LEAST_NODES = 3
_TO_TELL = "it takes a third node to tell which"

End = tuple[str, str]
"""A node, and whether it `sends` or `receives`."""
Pair = tuple[str, str]
"""Who sends, and to whom."""


@dataclass(frozen=True)
class _Test:
    """A test between nodes that has a number; `ways` are both directions where it ran in both at once."""

    answer: Answer
    good: bool
    ways: tuple[Pair, ...]

    @property
    def ends(self) -> tuple[End, ...]:
        return tuple(end for node, peer in self.ways for end in ((node, "sends"), (peer, "receives")))


def name(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    fleet: BoundFacts,
    places: Sequence[int] = (),
    passing: Callable[[str], Iterable[tuple[int, AskedLine]]] = lambda _check: (),
) -> None:
    """Give slow answers the cause that their pattern shows, with what the run's facts say of it.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order; causes are replaced in place, outcomes never.
        fleet: the nodes' facts.
        places: where they stand among all asked lines.
        passing: returns the asked lines of further tests of a check, which pass, and where they stand.
    """
    seen = Signs(asked, answers, fleet)
    tests: dict[str, list[tuple[int, str, _Test]]] = {}
    for place, line, answer in zip(places or range(len(asked)), asked, answers, strict=True):
        if CHECKS[str(line["check"])].source != "test":
            continue
        slow = answer.outcome == FAIL and answer.cause.get("cause_class") in SLOW
        if slow or answer.outcome in (PASS, RECORDED):
            one = _Test(answer, not slow, _ways(line))
            tests.setdefault(str(line["check"]), []).append((place, str(line["rail"]), one))
        else:
            seen.explain(line, answer)
    good = Answer(PASS)
    for check, mine in tests.items():
        if all(one.good for _place, _rail, one in mine):
            continue
        mine += [(place, str(line["rail"]), _Test(good, True, _ways(line))) for place, line in passing(check)]
        by_rail: dict[str, list[_Test]] = {}
        for _place, rail, one in sorted(mine, key=operator.itemgetter(0)):
            by_rail.setdefault(rail, []).append(one)
        _Check(by_rail, seen).name()
    _explain_sums(asked, answers)


def _ways(line: AskedLine) -> tuple[Pair, ...]:
    way = nodes_of(line)
    return (way, way[::-1]) if line["check"] in BI else (way,)


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


def _explain_sums(asked: Sequence[AskedLine], answers: Sequence[Answer]) -> None:
    """Give a sum below its floor the cause of its slow part."""
    slow = {
        line["id"]: answer.cause
        for line, answer in zip(asked, answers, strict=True)
        if answer.cause.get("cause_class") in NAMED
    }
    for line, answer in zip(asked, answers, strict=True):
        part = next((part for part in line.get("parts") or () if part in slow), None)
        if part is not None and answer.cause.get("cause_class") == "below_floor":
            answer.cause = slow[part]


class _Check:
    """All tests of one check, by rail."""

    def __init__(self, by_rail: Mapping[str, Sequence[_Test]], seen: Signs) -> None:
        self._by_rail, self._seen = by_rail, seen
        #: Rail -> pairs, and ends, that have a good test.
        self._good = {
            rail: {way for test in tests if test.good for way in test.ways} for rail, tests in by_rail.items()
        }
        self._good_ends = {
            rail: {end for test in tests if test.good for end in test.ends} for rail, tests in by_rail.items()
        }
        self._guilty = {
            rail: guilty_ends((*way, test.good) for test in tests for way in test.ways)
            for rail, tests in by_rail.items()
        }
        guilty, able = Counter[End](), Counter[End]()
        for rail, tests in by_rail.items():
            guilty.update(self._guilty[rail])
            able.update({end for test in tests for end in test.ends})
        #: Ends that are slow on all rails on which they were measured.
        self._slow_nodes = {end for end, rails in guilty.items() if rails > 1 and rails == able[end]}
        #: End and rail -> its leaf, where that is slow.
        self._slow_leaf = dict(self._find_slow_leaves())
        self._ways = {rail: {way for test in tests for way in test.ways} for rail, tests in by_rail.items()}
        self._said: dict[tuple[str, str], str] = {}
        self._at: dict[tuple[End, str], list[_Test]] = {}
        for rail, tests in by_rail.items():
            for test in tests:
                for end in set(test.ends) & self._guilty[rail]:
                    self._at.setdefault((end, rail), []).append(test)

    def _find_slow_leaves(self) -> Iterator[tuple[tuple[End, str], str]]:
        """Yield the ends of each leaf all of whose ends are guilty, while those of another leaf are not."""
        for rail, tests in self._by_rail.items():
            for way in ("sends", "receives"):
                behind: dict[str, set[End]] = {}
                for end in {end for test in tests for end in test.ends if end[1] == way}:
                    if (leaf := self._seen.leaf_of(end[0], rail)) is not None:
                        behind.setdefault(leaf, set()).add(end)
                slow = {leaf for leaf, ends in behind.items() if ends <= self._guilty[rail]}
                for leaf in slow if len(slow) < len(behind) else ():
                    ends = behind[leaf]
                    others = {self._seen.leaf_of(node, one) for node, _way in ends for one in self._by_rail}
                    # A single node is likelier than its leaf, as are fewer slow nodes than leaves.
                    if len(ends) > 1 and not (ends <= self._slow_nodes and len(ends) < len(others)):
                        yield from (((end, rail), leaf) for end in ends)

    def name(self) -> None:
        for rail, tests in self._by_rail.items():
            slow = [test for test in tests if not test.good]
            nodes = {node for test in tests for way in test.ways for node in way}
            if slow and not self._good[rail] and len(nodes) >= _LEAST_NODES:
                self._blame_switch(rail, slow, sorted(nodes))
            else:
                self._blame_parts(rail, slow)
            for test in slow:
                if test.answer.cause["cause_class"] in SLOW:
                    test.answer.cause = self._seen.more(test.answer.cause, test.ways[0], rail)

    def _blame_parts(self, rail: str, slow: Sequence[_Test]) -> None:
        of_pair: dict[frozenset[str], list[_Test]] = {}
        for test in slow:
            of_pair.setdefault(frozenset(test.ways[0]), []).append(test)
        for test in slow:
            guilty = [end for end in test.ends if end in self._guilty[rail]]
            if guilty:
                test.answer.cause = self._blame_ends(rail, guilty)
            else:
                both = of_pair[frozenset(test.ways[0])]
                test.answer.cause = self._blame_between(rail, test, both)

    def _blame_switch(self, rail: str, slow: Sequence[_Test], nodes: Sequence[str]) -> None:
        """Name a rail on which nothing is good, where most of its pairs are on another one."""
        pairs = {way for test in slow for way in test.ways}
        other = max(self._good, key=lambda one: (len(pairs & self._good[one]), one))
        fast = len(pairs & self._good[other])
        if 2 * fast < len(pairs):
            return
        same = "the same nodes" if fast == len(pairs) else f"{fast} of these {len(pairs)} pairs"
        said = f"all of {named(nodes)} {rail}: {_told(slow)} between them, while {same} pass on {other}"
        cause = self._seen.cause("switch_slow", said, nodes, rail)
        for test in slow:
            test.answer.cause = cause

    def _blame_ends(self, rail: str, guilty: Sequence[End]) -> dict[str, str]:
        """Name the ports, nodes or leaves with which nothing is good on a rail where others are."""
        leaves = list(dict.fromkeys(filter(None, (self._slow_leaf.get((end, rail)) for end in guilty))))
        alone = [end for end in guilty if (end, rail) not in self._slow_leaf]
        nodes = list(dict.fromkeys(node for node, _way in alone))
        whole = all(end in self._slow_nodes for end in alone)
        said = [self._of_leaf(leaf, rail) for leaf in leaves]
        said += [self._of_node(node, rail, whole) for node in nodes]
        kind = "leaf_slow" if not nodes else "node_slow" if whole and not leaves else "rail_slow"
        return self._seen.cause(kind, "; ".join(said), nodes or [node for node, _way in guilty], rail)

    def _of_leaf(self, leaf: str, rail: str) -> str:
        """Return what the ends behind a slow leaf carry, the same for all of their tests."""
        if (leaf, rail) not in self._said:
            ends = sorted(end for (end, on), of in self._slow_leaf.items() if (of, on) == (leaf, rail))
            slow = [test for end in ends for test in self._at.get((end, rail), ())]
            ways = {way for _node, way in ends}
            to = "to and from" if len(ways) > 1 else "from" if "sends" in ways else "to"
            nodes = named(sorted({node for node, _way in ends}))
            where = f"leaf {leaf} ({rail}), {to} all of {nodes} behind it"
            self._said[leaf, rail] = f"{where}: {_told(slow)} while others of this rail pass"
        return self._said[leaf, rail]

    def _of_node(self, node: str, rail: str, whole: bool) -> str:
        """Return what a slow port carries, the same for all of its tests; of a node that of all its rails."""
        place = node, "" if whole else rail
        if place not in self._said:
            rails = list(self._by_rail) if whole else [rail]
            ways = [
                [test for one in rails for test in self._at.get(((node, way), one), ())]
                for way in ("sends", "receives")
            ]
            slow = [*ways[0], *ways[1]]
            peers = {name for test in slow for way in test.ways for name in way} - {node}
            to = "with" if all(ways) else "to" if ways[0] else "from"
            others = "these rails" if whole else "this rail"
            where = f"{node}, all of its rails" if whole else f"{node} {rail}"
            said = f"{where}: {_told(slow)} {to} {named(sorted(peers))}, while others of {others} pass"
            self._said[place] = said
        return self._said[place]

    def _blame_between(self, rail: str, test: _Test, both: Sequence[_Test]) -> dict[str, str]:
        """Name the path of a pair whose ends are good with others; else all that it may be.

        Args:
            rail: the rail.
            test: the slow test.
            both: the slow tests of its two nodes, in either direction.
        """
        node, peer = test.ways[0]
        left = sorted({end[0] for end in test.ends if end not in self._good_ends[rail]})
        if not left:
            cause = test.answer.cause
            detail = cause["cause"].removeprefix(f"{causes.CAUSES[cause['cause_class']].sentence}: ")
            said = f"{node} to {peer}, {rail}: {detail}, while both pass with others on this rail"
            return self._seen.cause("path_slow", said, [node, peer], rail)
        measured = [one for one, ways in self._ways.items() if (node, peer) in ways]
        fast = next((one for one in measured if (node, peer) in self._good[one]), None)
        path = f"the path between {' and '.join(sorted((node, peer)))}"
        if fast is not None:
            kind, may = "rail_slow", f"{' or '.join(left)} {rail}, or {path}"
            than = f", while the same nodes pass on {fast}"
        elif len(measured) > 1 and any(self._good[one] for one in measured):
            kind, may, than = "node_slow", f"{' or '.join(left)}, all of its rails", ""
        else:
            return test.answer.cause
        if len(both) < _LEAST_TESTS:
            # It may be the test's own: the cause stays, with all that remains.
            remain = f"{test.answer.cause['cause']}; it may be {may}{than}"
            return {**test.answer.cause, "cause": remain}
        said = f"{may}: {_told(both)} between them{than}; {_TO_TELL}"
        return self._seen.cause(kind, said, left, rail)


def _told(tests: Sequence[_Test]) -> str:
    """Return the best number of slow tests, and what was to be reached."""
    answer = tests[0].answer
    beyond = [
        metric
        for metric, seen in answer.observed.items()
        if seen < answer.floor.get(metric, seen) or seen > answer.ceiling.get(metric, seen)
    ]
    metric = next((one for one in (*beyond, *outliers.METRICS) if one in answer.observed), None)
    if metric is None:
        return "slow"
    least = metric.endswith("_gbps")
    best, limit = (max, "floor") if least else (min, "ceiling")
    unit = "Gbit/s at most" if least else f"us at least ({metric.removesuffix('_us')})"
    values = [float(test.answer.observed[metric]) for test in tests if metric in test.answer.observed]
    limits = [bound[metric] for test in tests if metric in (bound := getattr(test.answer, limit))]
    return f"{best(values):.3g} {unit}," + (f" {limit} {best(limits):g}," if limits else "")
