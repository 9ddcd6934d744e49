# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where do the cables end? What every port heard of the others' beacons, put together. Pure.

A port belongs where the most of its rail's ports are: whoever hears more ports of another rail than of its
own is at the wrong place; who is in the majority is not, though it hears the one that is. Between equal
halves (two nodes, to begin with) nobody can tell which half is wrong, and both are named.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.records import cable_rows, failures
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.module_utils.runner.cabling import NAMED
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL, UNMEASURED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import neighbours
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row, unlike

Place = tuple[str, str]
Segment = tuple[str, str]
#: Of two ports that listened together for less one may have been held up: neither is deaf.
_OVERLAP_S = 5.0
#: Who answers for so many addresses, and for all, is a proxy; for one it is a second owner.
_PROXIED = 2


@dataclass
class Foreign:
    """Ports of another segment that a port hears."""

    rail: str
    network: str
    count: int
    nodes: list[str]


@dataclass
class Report:
    """What one port heard, taken from its row and checked against the plan."""

    segment: Segment
    expected: int
    heard: int
    missing: list[str]
    listened: tuple[float, float]
    foreign: list[Foreign] = field(default_factory=list)

    @property
    def own(self) -> int:
        """Return how many ports of its own segment are where this port is, itself among them."""
        return self.heard + 1

    @property
    def strongest(self) -> Foreign | None:
        """Return the other segment that is heard the most."""
        return max(self.foreign, key=lambda one: one.count, default=None)


class CablingMap:
    """All ports of a run and what each of them heard."""

    def __init__(self, run: str, plan: Plan, fleet: BoundFacts, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._fleet = fleet
        self._nodes: Mapping[str, Row] = plan["nodes"]
        self.segments: dict[Place, Segment] = {}
        self.members: dict[Segment, list[str]] = {}
        self.reports: dict[Place, Report] = {}
        self._why_not: dict[Place, Answer] = {}
        #: Per segment its members of which something is known; per rail each node's address; who misses whom.
        self._answered: dict[Segment, set[str]] = {}
        self._addresses: dict[str, dict[str, str]] = {}
        self._missed_by: dict[Place, list[str]] = {}
        #: The rail whose PCI function is on the same wire: what one function hears, the other hears too.
        self._wires: dict[Place, object] = {}
        #: Per rail the MAC addresses that answer for every address, and are no node's.
        self._proxies: dict[str, set[str]] = {}
        for node, planned in plan["nodes"].items():
            for rail in planned["rails"]:
                cidr = rail.get("address") or rail.get("address6")
                self._wires[node, str(rail["name"])] = rail.get("shares_wire_with")
                if cidr:
                    segment = (str(rail["name"]), str(ipaddress.ip_interface(cidr).network))
                    self.segments[node, segment[0]] = segment
                    self.members.setdefault(segment, []).append(node)
                    self._addresses.setdefault(segment[0], {})[node] = _address(rail)
        for segment, members in self.members.items():
            self._answered[segment] = {
                name for name in members if name in fleet.bound or name in fleet.broken
            }

    def read(self, asked: Iterable[AskedLine], rows: Mapping[str, Sequence[Row]]) -> None:
        """Take in the rows of all cabling lines of the run."""
        owners: dict[str, list[Row | Answer]] = {}
        for line in asked:
            if line["check"] == cable_checks.OWNER:
                owners.setdefault(str(line["rail"]), []).append(self.trusted(line, rows))
            if line["check"] == "cabling":
                place = (str(line["node"]), str(line["rail"]))
                found = self.trusted(line, rows)
                told = found if isinstance(found, Answer) else self._report(place, found)
                if isinstance(told, Report):
                    self.reports[place] = told
                    for name in told.missing if told.heard else ():
                        self._missed_by.setdefault((name, place[1]), []).append(place[0])
                else:
                    self._why_not[place] = told
        ports = {mac for node in self._fleet.bound for mac in self._ports(node)}
        self._proxies = {rail: proxies_of(told) - ports for rail, told in owners.items()}

    def trusted(self, line: AskedLine, rows: Mapping[str, Sequence[Row]]) -> Row | Answer:
        """Return what the node's one row tells, or the verdict when there is nothing to trust."""
        node, rail = str(line["node"]), str(line["rail"])
        if nothing := self._fleet.unknown(node):
            return nothing
        mine = rows.get(str(line["id"]), ())
        if len(mine) != 1:
            held_up = None if mine else self._fleet.explain_absence(node)
            return held_up or Answer.unmeasured("duplicate_row" if mine else "no_row", f"{node} {rail}")
        row = mine[0]
        if row.get("status") != "measured" and (error := failures.error_of(row)):
            return Answer(UNMEASURED, cause=causes.explain_error(error, node))
        bound = self._fleet.bound[node][rail]
        wanted = {
            "schema": 1,
            "run": self._run,
            "host": node,
            "node": node,
            "rail": rail,
            **{key: line[key] for key in ("check", "tool", "peer", "direction")},
            "address": _address(bound.rail),
            "end": "client",
            "status": "measured",
            # What a switch says of itself nothing proves.
            **({} if line["check"] == "neighbour" else {"proof": "proven", "proof_reason": None}),
            "error": None,
            "netdev": (bound.netdev or {}).get("netdev"),
        }
        if wrong := unlike(row, wanted):
            return Answer.unmeasured("row_garbled", f"{node}: {wrong} is {row.get(wrong)!r}")
        told: Row = row.get("cabling", {})
        if refused := cable_rows.refusal(str(line["check"]), told):
            return Answer.unmeasured("row_garbled", f"{node}: {refused}")
        if outside := self._clock.outside(node, row):
            return Answer.unmeasured("row_garbled", f"{node}: {outside}")
        return told

    def _report(self, place: Place, told: Row) -> Report | Answer:
        """Read what a port heard; everything that it can be held against the plan for is."""
        node = place[0]
        segment = self.segments.get(place)
        members = self.members.get(segment or ("", ""), [])
        answered = self._answered.get(segment or ("", ""), set())
        expected = len(answered) - 1  # its own row is there, so it is one of them
        if len(members) > 1 and not expected:
            return _unheard(next(name for name in members if name != node))
        missing, heard = told["missing"], told["heard"]
        begin, end = told["listened"]
        good = (
            segment is not None
            and told["expected"] == expected
            and heard <= expected
            and set(missing) <= answered - {node}
            and 0 < begin <= end
            and all(self._clock.covers(node, moment_s) for moment_s in (begin, end))
            and all(len(one["nodes"]) <= one["count"] for one in told["foreign"])
        )
        if not good or segment is None:
            return Answer.unmeasured("row_garbled", f"{node}: cabling is {dict(told)!r}")
        left = expected - heard
        if len(missing) != min(left, NAMED):
            return Answer.unmeasured("row_garbled", f"{node}: {left} were not heard, missing is {missing!r}")
        wire = self._wires.get(place)
        strange = [Foreign(**one) for one in told["foreign"] if wire is None or one["rail"] != wire]
        return Report(segment, expected, heard, missing, (begin, end), strange)

    def _together(self, report: Report, other: Place) -> bool:
        """Tell whether two ports listened at the same time; one that had gone could not be heard."""
        peer = self.reports.get(other)
        if peer is None:
            return False
        begin, end = max(report.listened[0], peer.listened[0]), min(report.listened[1], peer.listened[1])
        return end - begin >= _OVERLAP_S

    def misplaced(self, place: Place) -> bool:
        """Tell whether a port hears more ports of another segment than of its own."""
        report = self.reports.get(place)
        other = report.strongest if report else None
        return report is not None and other is not None and other.count >= report.own

    def alone(self, place: Place) -> bool:
        """Tell whether a port hears nobody at all."""
        report = self.reports.get(place)
        return report is not None and not report.heard and not report.foreign and report.expected > 0

    def judge(self, line: AskedLine, rows: Mapping[str, Sequence[Row]]) -> Answer:
        """Answer what is asked of a rail's cable, or of whom it leads to."""
        node, rail = str(line["node"]), str(line["rail"])
        if line["check"] == "cabling":
            return self.answer(line)
        told = self.trusted(line, rows)
        if isinstance(told, Answer):
            return told
        if line["check"] == cable_checks.NEIGHBOUR:
            return neighbours.judge_switch(node, self._fleet.bound[node][rail].rail, told["neighbours"])
        peer = told["peer"]
        if peer in self._nodes and self._fleet.unknown(peer):
            return _unheard(peer)
        own = {place: mac for mac, place in self._ports(peer).items()}.get(f"{peer} {rail}")
        if line["check"] == cable_checks.OWNER and own not in (None, told["peer_mac"]):
            said = f"{node} took {told['peer_mac']} for {peer} {rail}, whose facts say {own}"
            return Answer.unmeasured("row_garbled", said)
        bound = self._fleet.bound[node][rail]
        planned = {**bound.rail, "netdev": (bound.netdev or {}).get("netdev")}
        if line["check"] == cable_checks.OWNER:
            # Who had sent no beacon yet when it was asked is known by its facts.
            told = {**told, "known": {**self._ports(peer), **told["known"]}}
        check, proxies = str(line["check"]), self._proxies.get(rail, set())
        return neighbours.judge(check, node, planned, told, self._addresses.get(rail, {}), proxies)

    def _ports(self, node: str) -> dict[str, str]:
        """Return MAC -> node and rail, of a node's rails."""
        bound = self._fleet.bound.get(node, {})
        macs = {rail: (one.netdev or {}).get("mac") for rail, one in bound.items()}
        return {str(mac): f"{node} {rail}" for rail, mac in macs.items() if mac}

    def answer(self, line: AskedLine) -> Answer:
        """Answer a cabling line."""
        place = (str(line["node"]), str(line["rail"]))
        if place in self._why_not:
            return self._why_not[place]
        report = self.reports[place]
        where = f"{place[0]} {place[1]}"
        observed = {"heard": report.heard, "foreign": sum(one.count for one in report.foreign)}
        wanted = {"heard": report.expected, "foreign": 0}
        basis = "each port of a rail hears every other port of it, and none of another rail"
        answer = Answer.passed(observed, wanted, basis)
        if not report.expected:
            return answer.unknown("beacon_silent", f"{where}: no other node of the segment answers")
        other = report.strongest
        if other is not None:
            found = self._foreign(answer, place, report, other)
            if found is not None:
                return found
        if report.missing:
            return self._missing(answer, place, report)
        # Peers that hear others and not this port, which hears them; not those that had gone when it came.
        deaf = [name for name in self._missed_by.get(place, ()) if self._together(report, (name, place[1]))]
        if deaf:
            return answer.failed("beacon_one_way", f"{where} hears {named(deaf)}, which does not hear it")
        guests = [f"{name} {one.rail}" for one in report.foreign for name in one.nodes]
        if guests:
            return answer.unknown("peer_miswired", f"{where} also hears {named(guests)}")
        return answer

    def _foreign(self, answer: Answer, place: Place, report: Report, other: Foreign) -> Answer | None:
        """Answer a port that hears another segment, where that is the port's own matter."""
        node, rail = place
        where = f"{node} {rail}"
        size = len(self.members[report.segment])
        their_size = len(self.members.get((other.rail, other.network), ()))
        label = other.rail if other.rail != rail else f"{other.rail} of {other.network}"
        whom = f"{named(other.nodes, count=other.count)} on {label}"
        if report.own * 2 > size and other.count * 2 > their_size:
            return answer.failed("rails_joined", f"{where} hears {whom}, and {report.heard} on its own")
        if other.count < report.own:
            return None
        if other.rail == rail:
            return answer.failed("wrong_leaf", f"{where} hears {whom}, and {report.heard} of its own subnet")
        tie = other.count == report.own
        back = self.reports.get((node, other.rail))
        there = back.strongest if back and self.misplaced((node, other.rail)) else None
        first, second = sorted((rail, other.rail))
        if there is not None and there.rail == rail:
            owners = f"{node} or {named(other.nodes, count=other.count)}" if tie else node
            said = f"{first} and {second} of {owners}: {where} hears {whom}"
            if tie:
                said += "; as many say so as do not, so that either may be the one"
            return answer.failed("rails_swapped", said)
        said = f"{where} hears {whom}, and {report.heard} of {report.expected} on its own"
        return answer.failed("rail_crossed", said)

    def _missing(self, answer: Answer, place: Place, report: Report) -> Answer:
        """Answer a port of the right segment that does not hear all of it."""
        node, rail = place
        where = f"{node} {rail}"
        lost = report.expected - report.heard
        listened = [name for name in report.missing if self._together(report, (name, rail))]
        left = [
            name for name in listened if not self.misplaced((name, rail)) and not self.alone((name, rail))
        ]
        if not any(one.heard or one.foreign for one in self.reports.values()):
            return answer.unknown("beacon_silent", f"{where} and all others of this run")
        if self.alone(place) and any(not self.misplaced((name, rail)) for name in listened):
            return answer.failed(
                "rail_isolated",
                f"{where} hears none of {named(report.missing, count=lost)}",
            )
        if left and report.own * 2 <= len(self.members[report.segment]):
            there = [
                name for name in self.members[report.segment] if name not in report.missing and name != node
            ]
            heard = named(there, count=report.heard)
            said = f"{where} hears {heard} alone, and not {named(report.missing, count=lost)}"
            return answer.failed("wrong_peer", said)
        return answer.unknown("peer_miswired", f"{where} does not hear {named(report.missing, count=lost)}")

    def finding(self, test: AskedLine) -> dict[str, str] | None:
        """Return why the ends of a test could not meet, where the cable of one ends elsewhere."""
        for node in nodes_of(test):
            if (node, str(test["rail"])) in self.reports:
                answer = self.answer({**test, "node": node})
                if answer.outcome == FAIL:
                    return answer.cause
        return None


def _unheard(peer: str) -> Answer:
    return Answer.unmeasured("peer_unheard", f"nothing is known of {peer}")


def proxies_of(told: Sequence[Row | Answer]) -> set[str]:
    """Return who answers for every address that a rail's nodes asked for; where one is silent, nobody."""
    rows = [one for one in told if not isinstance(one, Answer)]
    if len(rows) < len(told) or len({one["peer_address"] for one in rows}) < _PROXIED:
        return set()
    return set.intersection(*(set(one["claimed_by"]) for one in rows))


def _address(rail: Row) -> str:
    return str(rail.get("address") or rail.get("address6")).split("/", maxsplit=1)[0]
