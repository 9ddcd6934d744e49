# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the cause of slow tests from all tests of a check, and the run's other evidence. Pure.

A slow test has two nodes and a rail, and one of its components is the cause. An end with only slow tests on a
rail, while others of that rail are good, has the slow port; on all of its rails it is the node. A leaf behind
which every node has only slow tests, unlike another leaf, is named instead of them. A single pair whose ends
are good with others has the slow path. A rail without a good test, while its nodes are good on another one,
has the slow switch. With two nodes port, path and switch cannot be distinguished: then all candidates are
named. If everything is slow there is nothing to compare with, and the cause stays.

Isolation (`slow_components`) compares levels, of one check of a run with a matrix of tests. Here the tests of
each check get a cause, by outcomes alone: ends, leaves and pairs, from two nodes on.

Only causes are replaced; outcomes never change here.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.evidence import SLOW, Evidence
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named

#: Causes that replace those of failures that only report a bad result.
NAMED = ("rail_slow", "node_slow", "path_slow", "leaf_slow", "switch_slow")
#: Minimum number of slow tests; a single one may be an exception.
_LEAST_TESTS = 2
#: Minimum number of nodes that show whether a complete rail is slow.
_LEAST_NODES = 3
_TO_TELL = "a third node is needed to find out which"

End = tuple[str, str]
"""A node, and whether it `sends` or `receives`."""
Pair = tuple[str, str]
"""Sender and receiver."""


@dataclass(frozen=True)
class _Test:
    """A test between nodes with a result; `ways` has both directions of a bidirectional test."""

    answer: Answer
    good: bool
    ways: tuple[Pair, ...]

    @property
    def ends(self) -> tuple[End, ...]:
        return tuple(end for node, peer in self.ways for end in ((node, "sends"), (peer, "receives")))


def name_causes(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    fleet: BoundFacts,
    places: Sequence[int] = (),
    passing: Callable[[str], Iterable[tuple[int, AskedLine]]] = lambda _check: (),
) -> None:
    """Replace the causes of slow answers by those that their pattern shows, with the run's evidence.

    Args:
        asked: the planned tests.
        answers: their answers, in the same order; causes are replaced in place, outcomes never.
        fleet: the nodes' facts.
        places: their places among all planned tests.
        passing: returns further passing tests of a check, with their places.
    """
    evidence = Evidence(asked, answers, fleet)
    tests: dict[str, list[tuple[int, str, _Test]]] = {}
    for place, line, answer in zip(places or range(len(asked)), asked, answers, strict=True):
        if CHECKS[str(line["check"])].source != "test":
            continue
        slow = answer.outcome == FAIL and answer.cause.get("cause_class") in SLOW
        if slow or answer.outcome in (PASS, RECORDED):
            one = _Test(answer, not slow, _list_directions(line))
            tests.setdefault(str(line["check"]), []).append((place, str(line["rail"]), one))
        else:
            evidence.explain(line, answer)
    good = Answer(PASS)
    for check, mine in tests.items():
        if all(one.good for _place, _rail, one in mine):
            continue
        mine += [
            (place, str(line["rail"]), _Test(good, True, _list_directions(line)))
            for place, line in passing(check)
        ]
        by_rail: dict[str, list[_Test]] = {}
        for _place, rail, one in sorted(mine, key=operator.itemgetter(0)):
            by_rail.setdefault(rail, []).append(one)
        _CheckTests(by_rail, evidence).name()
    _explain_sums(asked, answers)


def _list_directions(line: AskedLine) -> tuple[Pair, ...]:
    way = nodes_of(line)
    return (way, way[::-1]) if line["check"] in BI else (way,)


def find_slow_ends(tests: Iterable[tuple[str, str, bool]]) -> set[End]:
    """Return the ends without a good test, on a rail where others have one; linear in the tests.

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
    # Without any good test there is nothing to compare with.
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


class _CheckTests:
    """All tests of one check, by rail."""

    def __init__(self, by_rail: Mapping[str, Sequence[_Test]], evidence: Evidence) -> None:
        self._by_rail, self._evidence = by_rail, evidence
        #: Rail -> pairs, and ends, with a good test.
        self._good = {
            rail: {way for test in tests if test.good for way in test.ways} for rail, tests in by_rail.items()
        }
        self._good_ends = {
            rail: {end for test in tests if test.good for end in test.ends} for rail, tests in by_rail.items()
        }
        self._slow_ends = {
            rail: find_slow_ends((*way, test.good) for test in tests for way in test.ways)
            for rail, tests in by_rail.items()
        }
        slow_ends, able = Counter[End](), Counter[End]()
        for rail, tests in by_rail.items():
            slow_ends.update(self._slow_ends[rail])
            able.update({end for test in tests for end in test.ends})
        #: Ends that are slow on all their measured rails.
        self._slow_nodes = {end for end, rails in slow_ends.items() if rails > 1 and rails == able[end]}
        #: (end, rail) -> its leaf, if that is slow.
        self._slow_leaf = dict(self._find_slow_leaves())
        self._ways = {rail: {way for test in tests for way in test.ways} for rail, tests in by_rail.items()}
        self._details: dict[tuple[str, str], str] = {}
        self._at: dict[tuple[End, str], list[_Test]] = {}
        for rail, tests in by_rail.items():
            for test in tests:
                for end in set(test.ends) & self._slow_ends[rail]:
                    self._at.setdefault((end, rail), []).append(test)

    def _find_slow_leaves(self) -> Iterator[tuple[tuple[End, str], str]]:
        """Yield the ends of each leaf with only slow ends, while another leaf has good ones."""
        for rail, tests in self._by_rail.items():
            for way in ("sends", "receives"):
                behind: dict[str, set[End]] = {}
                for end in {end for test in tests for end in test.ends if end[1] == way}:
                    if (leaf := self._evidence.find_leaf(end[0], rail)) is not None:
                        behind.setdefault(leaf, set()).add(end)
                slow = {leaf for leaf, ends in behind.items() if ends <= self._slow_ends[rail]}
                for leaf in slow if len(slow) < len(behind) else ():
                    ends = behind[leaf]
                    others = {
                        self._evidence.find_leaf(node, one) for node, _way in ends for one in self._by_rail
                    }
                    # A single slow node is more likely than its leaf, as are fewer slow nodes than leaves.
                    if len(ends) > 1 and not (ends <= self._slow_nodes and len(ends) < len(others)):
                        yield from (((end, rail), leaf) for end in ends)

    def name(self) -> None:
        for rail, tests in self._by_rail.items():
            slow = [test for test in tests if not test.good]
            nodes = {node for test in tests for way in test.ways for node in way}
            if slow and not self._good[rail] and len(nodes) >= _LEAST_NODES:
                self._name_switch(rail, slow, sorted(nodes))
            else:
                self._name_parts(rail, slow)
            for test in slow:
                if test.answer.cause["cause_class"] in SLOW:
                    test.answer.cause = self._evidence.add_evidence(test.answer.cause, test.ways[0], rail)

    def _name_parts(self, rail: str, slow: Sequence[_Test]) -> None:
        of_pair: dict[frozenset[str], list[_Test]] = {}
        for test in slow:
            of_pair.setdefault(frozenset(test.ways[0]), []).append(test)
        for test in slow:
            slow_ends = [end for end in test.ends if end in self._slow_ends[rail]]
            if slow_ends:
                test.answer.cause = self._name_ends(rail, slow_ends)
            else:
                both = of_pair[frozenset(test.ways[0])]
                test.answer.cause = self._name_path(rail, test, both)

    def _name_switch(self, rail: str, slow: Sequence[_Test], nodes: Sequence[str]) -> None:
        """Name the switch of a rail without a good test, if most of its pairs are good on another rail."""
        pairs = {way for test in slow for way in test.ways}
        other = max(self._good, key=lambda one: (len(pairs & self._good[one]), one))
        fast = len(pairs & self._good[other])
        if 2 * fast < len(pairs):
            return
        same = "the same nodes" if fast == len(pairs) else f"{fast} of these {len(pairs)} pairs"
        best = _describe_best(slow)
        detail = f"all of {named(nodes)} {rail}: {best} between them, while {same} pass on {other}"
        cause = self._evidence.build_cause("switch_slow", detail, nodes, rail)
        for test in slow:
            test.answer.cause = cause

    def _name_ends(self, rail: str, slow_ends: Sequence[End]) -> dict[str, str]:
        """Name the ports, nodes or leaves without a good test on a rail where others have one."""
        leaves = list(dict.fromkeys(filter(None, (self._slow_leaf.get((end, rail)) for end in slow_ends))))
        alone = [end for end in slow_ends if (end, rail) not in self._slow_leaf]
        nodes = list(dict.fromkeys(node for node, _way in alone))
        all_rails = all(end in self._slow_nodes for end in alone)
        details = [self._describe_leaf(leaf, rail) for leaf in leaves]
        details += [self._describe_node(node, rail, all_rails) for node in nodes]
        kind = "leaf_slow" if not nodes else "node_slow" if all_rails and not leaves else "rail_slow"
        named_nodes = nodes or [node for node, _way in slow_ends]
        return self._evidence.build_cause(kind, "; ".join(details), named_nodes, rail)

    def _describe_leaf(self, leaf: str, rail: str) -> str:
        """Return the details of a slow leaf, the same for all of its tests."""
        if (leaf, rail) not in self._details:
            ends = sorted(end for (end, on), of in self._slow_leaf.items() if (of, on) == (leaf, rail))
            slow = [test for end in ends for test in self._at.get((end, rail), ())]
            ways = {way for _node, way in ends}
            to = "to and from" if len(ways) > 1 else "from" if "sends" in ways else "to"
            nodes = named(sorted({node for node, _way in ends}))
            where = f"leaf {leaf} ({rail}), {to} all of {nodes} behind it"
            self._details[leaf, rail] = f"{where}: {_describe_best(slow)} while others of this rail pass"
        return self._details[leaf, rail]

    def _describe_node(self, node: str, rail: str, all_rails: bool) -> str:
        """Return the details of a slow port, or of a node on all its rails, the same for all of its tests."""
        place = node, "" if all_rails else rail
        if place not in self._details:
            rails = list(self._by_rail) if all_rails else [rail]
            ways = [
                [test for one in rails for test in self._at.get(((node, way), one), ())]
                for way in ("sends", "receives")
            ]
            slow = [*ways[0], *ways[1]]
            peers = {name for test in slow for way in test.ways for name in way} - {node}
            to = "with" if all(ways) else "to" if ways[0] else "from"
            others = "these rails" if all_rails else "this rail"
            where = f"{node}, all of its rails" if all_rails else f"{node} {rail}"
            best = f"{_describe_best(slow)} {to} {named(sorted(peers))}"
            self._details[place] = f"{where}: {best}, while others of {others} pass"
        return self._details[place]

    def _name_path(self, rail: str, test: _Test, both: Sequence[_Test]) -> dict[str, str]:
        """Name the path of a pair whose ends are good with others; else all candidates.

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
            detail = f"{node} to {peer}, {rail}: {detail}, while both pass with others on this rail"
            return self._evidence.build_cause("path_slow", detail, [node, peer], rail)
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
            # A single test may be an exception: its cause stays, with all candidates.
            remain = f"{test.answer.cause['cause']}; it may be {may}{than}"
            return {**test.answer.cause, "cause": remain}
        detail = f"{may}: {_describe_best(both)} between them{than}; {_TO_TELL}"
        return self._evidence.build_cause(kind, detail, left, rail)


def _describe_best(tests: Sequence[_Test]) -> str:
    """Return the best result of slow tests, and the threshold."""
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
