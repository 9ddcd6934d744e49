# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who is slow, and why? What all tests of a check show together, and the run's facts. Pure.

A slow test names two nodes and a rail, and one of its parts is to blame. Whose tests on a rail are all slow,
while others of that rail are good, has the slow port; where that holds on all of its rails it is the node.
A pair alone, whose ends are good with others, has the slow path. A rail on which nothing is good, while its
nodes are on another one, has the slow switch. Two nodes cannot tell port, path and switch apart: then those
that remain are named. Where everything is slow there is nothing to compare with, and the cause stays.

Only causes are replaced; an outcome never changes here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    FAIL,
    PASS,
    RECORDED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Failures that say no more than that a number is bad, and what they become.
SLOW = ("below_floor", "too_slow", "stands_apart")
NAMED = ("rail_slow", "node_slow", "path_slow", "switch_slow")
#: So many tests of a rail make it slow; what one test shows may be that test's.
_LEAST_TESTS = 2
#: Fewer nodes do not show whether a whole rail is slow.
_LEAST_NODES = 3
#: What a node that could not meet its peer says where nothing came back: a runner that is not there refuses.
_SILENCE = re.compile(r"was not met at .*(?:timed out|No route to host)")
_BEST_GOVERNOR = "performance"
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


def name(asked: Sequence[AskedLine], answers: Sequence[Answer], fleet: BoundFacts) -> None:
    """Give slow answers the cause that their pattern shows, with what the run's facts say of it.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order; causes are replaced in place, outcomes never.
        fleet: the nodes' facts.
    """
    seen = _Seen(asked, answers, fleet)
    tests: dict[str, dict[str, list[_Test]]] = {}
    for line, answer in zip(asked, answers, strict=True):
        if CHECKS[str(line["check"])].source != "test":
            continue
        slow = answer.outcome == FAIL and answer.cause.get("cause_class") in SLOW
        if slow or answer.outcome in (PASS, RECORDED):
            way = str(line["node"]), str(line["peer"])
            ways = (way, way[::-1]) if line["check"] in BI else (way,)
            by_rail = tests.setdefault(str(line["check"]), {})
            by_rail.setdefault(str(line["rail"]), []).append(_Test(answer, not slow, ways))
        else:
            seen.explain(line, answer)
    for by_rail in tests.values():
        if not all(test.good for mine in by_rail.values() for test in mine):
            _Check(by_rail, seen).name()
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

    def __init__(self, by_rail: Mapping[str, Sequence[_Test]], seen: _Seen) -> None:
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
        self._ways = {rail: {way for test in tests for way in test.ways} for rail, tests in by_rail.items()}
        self._said: dict[tuple[str, str], str] = {}
        self._at: dict[tuple[End, str], list[_Test]] = {}
        for rail, tests in by_rail.items():
            for test in tests:
                for end in set(test.ends) & self._guilty[rail]:
                    self._at.setdefault((end, rail), []).append(test)

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
        """Name the ports, or the nodes, with which nothing is good on a rail where others are."""
        nodes = list(dict.fromkeys(node for node, _way in guilty))
        whole = all(end in self._slow_nodes for end in guilty)
        said = "; ".join(self._of_node(node, rail, whole) for node in nodes)
        return self._seen.cause("node_slow" if whole else "rail_slow", said, nodes, rail)

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


#: What may differ between nodes, how it is read of a rail's end, and the command that shows it.
_RAIL_FACTS: tuple[tuple[str, Callable[[Bound], object], str], ...] = (
    ("PCIe lanes", lambda end: _inner(end.netdev, "pci_link").get("width"), "lspci -vv -s PCI"),
    ("PCIe GT/s", lambda end: _inner(end.netdev, "pci_link").get("speed_gts"), "lspci -vv -s PCI"),
    ("link Mbit/s", lambda end: (end.netdev or {}).get("speed_mbps"), "ethtool NETDEV"),
    ("RDMA MTU", lambda end: (end.hca or {}).get("active_mtu_bytes"), "ibv_devinfo -d DEVICE"),
    ("GID", lambda end: getattr(rdma.choice(end), "type", None), "ibv_devinfo -v -d DEVICE"),
    ("the card's NUMA node", lambda end: _said(end.netdev, "numa_node"), "lspci -vv -s PCI"),
)


def _said(device: Row | None, key: str) -> str | None:
    """Return a number that is a name: none is better than another."""
    value = (device or {}).get(key)
    return None if value is None else str(value)


def _inner(device: Row | None, key: str) -> Mapping[str, Any]:
    inner = (device or {}).get(key)
    return inner if isinstance(inner, Mapping) else {}


class _Seen:
    """What a run knows of its nodes and rails beside the tests between them."""

    def __init__(self, asked: Sequence[AskedLine], answers: Sequence[Answer], fleet: BoundFacts) -> None:
        self._fleet = fleet
        self._causes: dict[tuple[str, str], dict[str, str]] = {}
        #: Node and rail -> check -> its answer, of what is asked of a rail alone.
        self._local: dict[Pair, dict[str, Answer]] = {}
        for line, answer in zip(asked, answers, strict=True):
            if CHECKS[str(line["check"])].local and line["rail"] is not None:
                place = str(line["node"]), str(line["rail"])
                self._local.setdefault(place, {})[str(line["check"])] = answer

    def cause(self, kind: str, said: str, nodes: Sequence[str], rail: str) -> dict[str, str]:
        """Return a slow test's cause, with what is known of the nodes that it names."""
        if (kind, said) not in self._causes:
            likely = next(self._signs(kind, nodes, rail), None)
            self._causes[kind, said] = causes.explain(kind, said, None, likely, self._known(nodes, rail))
        return self._causes[kind, said]

    def more(self, cause: dict[str, str], nodes: Pair, rail: str) -> dict[str, str]:
        """Return a cause that no pattern replaced, with what is known of both ends."""
        kind = str(cause["cause_class"])
        both = sorted(nodes)
        said = self.cause(kind, f"{' '.join(both)} {rail}", both, rail)
        return {**cause, "next": said["next"]}

    def explain(self, line: AskedLine, answer: Answer) -> None:
        """Say more of a test that met nobody, or whose packets are too large, where other checks do."""
        rail, kind = str(line["rail"]), answer.cause.get("cause_class")
        both = [str(line["node"]), str(line["peer"])]
        wanted = {"rendezvous_timeout": "reply_path", "path_mtu_small": "mtu"}.get(str(kind))
        answered = [self._local.get((node, rail), {}).get(str(wanted)) for node in both]
        if not all(one is not None and one.outcome == PASS for one in answered):
            return
        if wanted == "mtu":
            likely = f"what lies between {' and '.join(both)}: both have the planned MTU"
            command = causes.CAUSES["path_mtu_small"].command
        elif not _SILENCE.search(answer.cause["cause"]):
            return
        else:
            likely = f"a firewall that drops TCP on {' or '.join(both)}: pings pass on this rail"
            command = "nft list ruleset"
        # A row's own fix knows the ports that have to be open.
        fix = None if answer.cause["next"].startswith("Likely ") else answer.cause["next"]
        said = causes.explain(str(kind), "", fix, (likely, command), self._known(both[:1], rail))
        answer.cause = {**answer.cause, "next": said["next"]}

    def _signs(self, kind: str, nodes: Sequence[str], rail: str) -> Iterator[tuple[str, str]]:
        """Yield what speaks for a cause, and the command that shows it, the surest first."""
        rails = {one for node, one in self._local if node in nodes} if kind == "node_slow" else {rail}
        places = [(node, one) for node in nodes for one in sorted(rails) if (node, one) in self._local]
        for node, one in places:
            for check, answer in self._local[node, one].items():
                cause = causes.CAUSES.get(str(answer.cause.get("cause_class")))
                # What one node has does not slow the whole rail.
                if answer.outcome == FAIL and cause is not None and kind != "switch_slow":
                    found = f"what the {CHECKS[check].title} check of {node} {one} says: {cause.sentence}"
                    yield found, cause.command
        if kind in ("node_slow", *SLOW):
            yield from self._differs(nodes, self._fleet.governors, "CPU governor", "cpupower frequency-info")
            yield from self._differs(nodes, self._fleet.iperf3, "iperf3", "iperf3 --version")
        for node, one in places:
            errors = self._local[node, one].get("link_errors", Answer()).observed
            paused = next((name for name in errors if "pause" in name), None)
            if paused is not None:
                yield f"pauses: {paused} of {node} {one} grew by {errors[paused]}", "ethtool -S NETDEV"
        if kind in ("rail_slow", "node_slow", *SLOW):
            for what, read, command in _RAIL_FACTS:
                ends = {node: mine[rail] for node, mine in self._fleet.bound.items() if rail in mine}
                yield from self._differs(
                    nodes, {node: read(end) for node, end in ends.items()}, what, command
                )

    def _differs(
        self, nodes: Sequence[str], values: Mapping[str, object], what: str, command: str
    ) -> Iterator[tuple[str, str]]:
        """Yield what one of the nodes has otherwise than the others of the fleet, and not better."""
        for node in nodes:
            mine = values.get(node)
            others = [value for other, value in values.items() if other != node and value is not None]
            if mine is None or not others:
                continue
            by_text = {repr(value): value for value in others}
            usual = by_text[max(by_text, key=list(map(repr, others)).count)]
            better = mine > usual if is_number(mine) and is_number(usual) else mine == _BEST_GOVERNOR
            if mine != usual and not better:
                yield f"{what} {mine} on {node}, {usual} on the others", command

    def _known(self, nodes: Sequence[str], rail: str) -> dict[str, str]:
        """Return what the placeholders of commands stand for, where that is the same on all these nodes."""
        told = []
        for node in nodes:
            end = self._fleet.bound.get(node, {}).get(rail)
            device, port = (end.netdev or {}, end.hca or {}) if end else ({}, {})
            hca = str(port.get("hca") or "").split(":", maxsplit=1)[0]
            told.append({"NETDEV": device.get("netdev"), "PCI": device.get("pci"), "DEVICE": hca})
        return {
            word: str(value)
            for word, value in told[0].items()
            if value and all(one[word] == value for one in told)
        }
