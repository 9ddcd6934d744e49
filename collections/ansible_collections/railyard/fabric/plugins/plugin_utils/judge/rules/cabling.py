# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find where the cables end, from the beacons that every port received. Pure.

A port belongs where most of its rail's ports are: a port that receives more beacons from another rail than
from its own is at the wrong place; a port in the majority is not, although it receives a misplaced port's
beacons. Between equal halves (as with two nodes) either half may be wrong, and both are named.
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
#: Minimum common listening time of two ports: with less, one of them may have been delayed.
_OVERLAP_S = 5.0
#: A MAC address that answers for all of at least so many addresses is a proxy; for one it is a second owner.
_PROXIED = 2


@dataclass
class ForeignPorts:
    """Ports of another segment whose beacons a port receives."""

    rail: str
    network: str
    count: int
    nodes: list[str]


@dataclass
class PortReport:
    """The beacons that one port received, from its row, checked against the plan."""

    segment: Segment
    expected: int
    heard: int
    missing: list[str]
    listened: tuple[float, float]
    foreign: list[ForeignPorts] = field(default_factory=list)

    @property
    def own_count(self) -> int:
        """Return the number of ports of its segment that it is connected to, including itself."""
        return self.heard + 1

    @property
    def strongest(self) -> ForeignPorts | None:
        """Return the other segment with the most beacons."""
        return max(self.foreign, key=lambda one: one.count, default=None)


class CablingMap:
    """All ports of a run and the beacons that each of them received."""

    def __init__(self, run: str, plan: Plan, fleet: BoundFacts, clock: Clock) -> None:
        self._run = run
        self._clock = clock
        self._fleet = fleet
        self._nodes: Mapping[str, Row] = plan["nodes"]
        self.segments: dict[Place, Segment] = {}
        self.members: dict[Segment, list[str]] = {}
        self.reports: dict[Place, PortReport] = {}
        self._why_not: dict[Place, Answer] = {}
        #: Segment -> members with facts; rail -> node -> address; place -> nodes that did not receive it.
        self._answered: dict[Segment, set[str]] = {}
        self._addresses: dict[str, dict[str, str]] = {}
        self._missed_by: dict[Place, list[str]] = {}
        #: The rail whose PCI function is on the same port: both functions receive the same beacons.
        self._wires: dict[Place, object] = {}
        #: Rail -> MAC addresses that answer for every address, and are not a node's.
        self._proxies: dict[str, set[str]] = {}
        for node, planned in plan["nodes"].items():
            for rail in planned["rails"]:
                cidr = rail.get("address") or rail.get("address6")
                self._wires[node, str(rail["name"])] = rail.get("shares_wire_with")
                if cidr:
                    segment = (str(rail["name"]), str(ipaddress.ip_interface(cidr).network))
                    self.segments[node, segment[0]] = segment
                    self.members.setdefault(segment, []).append(node)
                    self._addresses.setdefault(segment[0], {})[node] = _strip_prefix(rail)
        for segment, members in self.members.items():
            self._answered[segment] = {
                name for name in members if name in fleet.bound or name in fleet.broken
            }

    def read(self, asked: Iterable[AskedLine], rows: Mapping[str, Sequence[Row]]) -> None:
        """Read the rows of all cabling tests of the run."""
        owners: dict[str, list[Row | Answer]] = {}
        for line in asked:
            if line["check"] == cable_checks.OWNER:
                owners.setdefault(str(line["rail"]), []).append(self.read_trusted(line, rows))
            if line["check"] == "cabling":
                place = (str(line["node"]), str(line["rail"]))
                found = self.read_trusted(line, rows)
                report = found if isinstance(found, Answer) else self._read_report(place, found)
                if isinstance(report, PortReport):
                    self.reports[place] = report
                    for name in report.missing if report.heard else ():
                        self._missed_by.setdefault((name, place[1]), []).append(place[0])
                else:
                    self._why_not[place] = report
        ports = {mac for node in self._fleet.bound for mac in self._ports(node)}
        self._proxies = {rail: find_proxies(found) - ports for rail, found in owners.items()}

    def read_trusted(self, line: AskedLine, rows: Mapping[str, Sequence[Row]]) -> Row | Answer:
        """Return the cabling part of the node's row, or the verdict if it cannot be trusted."""
        node, rail = str(line["node"]), str(line["rail"])
        if nothing := self._fleet.unknown(node):
            return nothing
        mine = rows.get(str(line["id"]), ())
        if len(mine) != 1:
            absence = None if mine else self._fleet.explain_absence(node)
            return absence or Answer.unmeasured("duplicate_row" if mine else "no_row", f"{node} {rail}")
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
            "address": _strip_prefix(bound.rail),
            "end": "client",
            "status": "measured",
            # Nothing proves what a switch announces.
            **({} if line["check"] == "neighbour" else {"proof": "proven", "proof_reason": None}),
            "error": None,
            "netdev": (bound.netdev or {}).get("netdev"),
        }
        if wrong := unlike(row, wanted):
            return Answer.unmeasured("row_garbled", f"{node}: {wrong} is {row.get(wrong)!r}")
        heard: Row = row.get("cabling", {})
        if refused := cable_rows.refusal(str(line["check"]), heard):
            return Answer.unmeasured("row_garbled", f"{node}: {refused}")
        if outside := self._clock.explain_outside(node, row):
            return Answer.unmeasured("row_garbled", f"{node}: {outside}")
        return heard

    def _read_report(self, place: Place, heard: Row) -> PortReport | Answer:
        """Read the beacons that a port received, with all possible checks against the plan."""
        node = place[0]
        segment = self.segments.get(place)
        members = self.members.get(segment or ("", ""), [])
        answered = self._answered.get(segment or ("", ""), set())
        expected = len(answered) - 1  # without the port itself
        if len(members) > 1 and not expected:
            return _explain_unheard(next(name for name in members if name != node))
        missing, count = heard["missing"], heard["heard"]
        begin, end = heard["listened"]
        good = (
            segment is not None
            and heard["expected"] == expected
            and count <= expected
            and set(missing) <= answered - {node}
            and 0 < begin <= end
            and all(self._clock.covers(node, moment_s) for moment_s in (begin, end))
            and all(len(one["nodes"]) <= one["count"] for one in heard["foreign"])
        )
        if not good or segment is None:
            return Answer.unmeasured("row_garbled", f"{node}: cabling is {dict(heard)!r}")
        left = expected - count
        if len(missing) != min(left, NAMED):
            detail = f"{node}: {left} were not received, missing is {missing!r}"
            return Answer.unmeasured("row_garbled", detail)
        wire = self._wires.get(place)
        strange = [ForeignPorts(**one) for one in heard["foreign"] if wire is None or one["rail"] != wire]
        return PortReport(segment, expected, count, missing, (begin, end), strange)

    def _together(self, report: PortReport, other: Place) -> bool:
        """Tell whether two ports listened at the same time, so that they could receive each other."""
        peer = self.reports.get(other)
        if peer is None:
            return False
        begin, end = max(report.listened[0], peer.listened[0]), min(report.listened[1], peer.listened[1])
        return end - begin >= _OVERLAP_S

    def is_misplaced(self, place: Place) -> bool:
        """Tell whether a port receives at least as many ports of another segment as of its own."""
        report = self.reports.get(place)
        other = report.strongest if report else None
        return report is not None and other is not None and other.count >= report.own_count

    def is_alone(self, place: Place) -> bool:
        """Tell whether a port receives no beacons at all."""
        report = self.reports.get(place)
        return report is not None and not report.heard and not report.foreign and report.expected > 0

    def judge(self, line: AskedLine, rows: Mapping[str, Sequence[Row]]) -> Answer:
        """Judge a test of a rail's cable or of its other end."""
        node, rail = str(line["node"]), str(line["rail"])
        if line["check"] == "cabling":
            return self.judge_cable(line)
        heard = self.read_trusted(line, rows)
        if isinstance(heard, Answer):
            return heard
        if line["check"] == cable_checks.NEIGHBOUR:
            return neighbours.judge_switch(node, self._fleet.bound[node][rail].rail, heard["neighbours"])
        peer = heard["peer"]
        if peer in self._nodes and self._fleet.unknown(peer):
            return _explain_unheard(peer)
        own = {place: mac for mac, place in self._ports(peer).items()}.get(f"{peer} {rail}")
        if line["check"] == cable_checks.OWNER and own not in (None, heard["peer_mac"]):
            detail = f"{node} expected {heard['peer_mac']} at {peer} {rail}, its facts have {own}"
            return Answer.unmeasured("row_garbled", detail)
        bound = self._fleet.bound[node][rail]
        planned = {**bound.rail, "netdev": (bound.netdev or {}).get("netdev")}
        if line["check"] == cable_checks.OWNER:
            # Ports that had sent no beacon yet are known from the facts.
            heard = {**heard, "known": {**self._ports(peer), **heard["known"]}}
        check, proxies = str(line["check"]), self._proxies.get(rail, set())
        return neighbours.judge(check, node, planned, heard, self._addresses.get(rail, {}), proxies)

    def _ports(self, node: str) -> dict[str, str]:
        """Return MAC -> node and rail, for a node's rails."""
        bound = self._fleet.bound.get(node, {})
        macs = {rail: (one.netdev or {}).get("mac") for rail, one in bound.items()}
        return {str(mac): f"{node} {rail}" for rail, mac in macs.items() if mac}

    def judge_cable(self, line: AskedLine) -> Answer:
        """Judge a cabling test."""
        place = (str(line["node"]), str(line["rail"]))
        if place in self._why_not:
            return self._why_not[place]
        report = self.reports[place]
        where = f"{place[0]} {place[1]}"
        observed = {"heard": report.heard, "foreign": sum(one.count for one in report.foreign)}
        wanted = {"heard": report.expected, "foreign": 0}
        basis = "each port of a rail receives every other port of the rail, and none of another rail"
        answer = Answer.passed(observed, wanted, basis)
        if not report.expected:
            return answer.unknown("beacon_silent", f"{where}: no other node of the segment answers")
        other = report.strongest
        if other is not None:
            found = self._judge_foreign(answer, place, report, other)
            if found is not None:
                return found
        if report.missing:
            return self._judge_missing(answer, place, report)
        # Peers that receive others but not this port, which receives them, if both listened at the same time.
        deaf = [name for name in self._missed_by.get(place, ()) if self._together(report, (name, place[1]))]
        if deaf:
            return answer.failed(
                "beacon_one_way", f"{where} receives {named(deaf)}, which does not receive it"
            )
        guests = [f"{name} {one.rail}" for one in report.foreign for name in one.nodes]
        if guests:
            return answer.unknown("peer_miswired", f"{where} also receives {named(guests)}")
        return answer

    def _judge_foreign(
        self, answer: Answer, place: Place, report: PortReport, other: ForeignPorts
    ) -> Answer | None:
        """Judge a port that receives another segment; None if another port is the cause."""
        node, rail = place
        where = f"{node} {rail}"
        size = len(self.members[report.segment])
        their_size = len(self.members.get((other.rail, other.network), ()))
        label = other.rail if other.rail != rail else f"{other.rail} of {other.network}"
        whom = f"{named(other.nodes, count=other.count)} on {label}"
        if report.own_count * 2 > size and other.count * 2 > their_size:
            return answer.failed("rails_joined", f"{where} receives {whom}, and {report.heard} on its own")
        if other.count < report.own_count:
            return None
        if other.rail == rail:
            detail = f"{where} receives {whom}, and {report.heard} of its own subnet"
            return answer.failed("wrong_leaf", detail)
        tie = other.count == report.own_count
        back = self.reports.get((node, other.rail))
        there = back.strongest if back and self.is_misplaced((node, other.rail)) else None
        first, second = sorted((rail, other.rail))
        if there is not None and there.rail == rail:
            owners = f"{node} or {named(other.nodes, count=other.count)}" if tie else node
            detail = f"{first} and {second} of {owners}: {where} receives {whom}"
            if tie:
                detail += "; there is no majority, so either may be swapped"
            return answer.failed("rails_swapped", detail)
        detail = f"{where} receives {whom}, and {report.heard} of {report.expected} on its own"
        return answer.failed("rail_crossed", detail)

    def _judge_missing(self, answer: Answer, place: Place, report: PortReport) -> Answer:
        """Judge a port of the right segment that does not receive all of it."""
        node, rail = place
        where = f"{node} {rail}"
        lost = report.expected - report.heard
        listened = [name for name in report.missing if self._together(report, (name, rail))]
        left = [
            name
            for name in listened
            if not self.is_misplaced((name, rail)) and not self.is_alone((name, rail))
        ]
        if not any(one.heard or one.foreign for one in self.reports.values()):
            return answer.unknown("beacon_silent", f"{where} and all others of this run")
        if self.is_alone(place) and any(not self.is_misplaced((name, rail)) for name in listened):
            return answer.failed(
                "rail_isolated",
                f"{where} receives none of {named(report.missing, count=lost)}",
            )
        if left and report.own_count * 2 <= len(self.members[report.segment]):
            there = [
                name for name in self.members[report.segment] if name not in report.missing and name != node
            ]
            heard = named(there, count=report.heard)
            detail = f"{where} only receives {heard}, and not {named(report.missing, count=lost)}"
            return answer.failed("wrong_peer", detail)
        missing = named(report.missing, count=lost)
        return answer.unknown("peer_miswired", f"{where} does not receive {missing}")

    def find_cause(self, test: AskedLine) -> dict[str, str] | None:
        """Return why the ends of a test could not connect, if a cable ends at the wrong place."""
        for node in nodes_of(test):
            if (node, str(test["rail"])) in self.reports:
                answer = self.judge_cable({**test, "node": node})
                if answer.outcome == FAIL:
                    return answer.cause
        return None


def _explain_unheard(peer: str) -> Answer:
    return Answer.unmeasured("peer_unheard", f"nothing is known about {peer}")


def find_proxies(found: Sequence[Row | Answer]) -> set[str]:
    """Return the MAC addresses that answer for every address of a rail; none if a node's row is missing."""
    rows = [one for one in found if not isinstance(one, Answer)]
    if len(rows) < len(found) or len({one["peer_address"] for one in rows}) < _PROXIED:
        return set()
    return set.intersection(*(set(one["claimed_by"]) for one in rows))


def _strip_prefix(rail: Row) -> str:
    return str(rail.get("address") or rail.get("address6")).split("/", maxsplit=1)[0]
