# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check where the cables end: before the first test each rail sends beacons and listens for the others.

Nodes begin at different times, and a busy node hears nothing for a while. So a rail continues in the
background, once a second, until some time after it has heard every expected peer, or until the time limit of
a first meeting. The tests wait only until nothing new has been heard for a moment: one second for a healthy
pair, two for a broken one.
"""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import node_files
from ..cabling import arp_probe, beacon, lldp
from ..channel.errors import ErrorClass, MeasurementError
from ..channel.rail_socket import Place
from ..schedule import cable_checks, work_order
from .context import RunContext, link_state

# The longest that the tests wait; beacons that come later are received while tests run.
_MOST_S = 3.0
_QUIET_S = 1.5
_LEAST_S = 0.6
_EVERY_S, _SLOWLY_S = 0.15, 1.0
_FAST_BEACONS = 10
# Beacons sent after the last new peer, so that it receives at least one.
_AFTER_NEWS = 3
# A rail that has heard every peer keeps sending: a peer may miss beacons for a moment, and only a peer that
# keeps missing them fails.
_SPEAKS_ON_S = 10.0
_TICK_S = 0.05
#: How many names a row lists; beyond them it only counts.
NAMED = 16
# Both ARP queries to a peer that answers neither, with the time that a busy node takes to begin them.
_PROBE_S = 12.0
_ARPHRD_ETHER = "1"
# The most LLDP frames that are read.
_MOST_FRAMES = 1000

Line = Mapping[str, Any]


class Cabling:
    """All cable checks of this node, for the whole run."""

    def __init__(self, run_context: RunContext) -> None:
        self._context = run_context
        self._lines: dict[str, dict[str, Line]] = {}
        for line in cable_checks.asked_lines(run_context.order, run_context.node):
            self._lines.setdefault(str(line["rail"]), {})[str(line["check"])] = line
        self._beacons: list[BeaconListener] = []
        self._switches: list[LldpListener] = []
        if not self._lines:
            return
        places = {rail: place.netdev for rail, place in run_context.places.items()}
        chart = cable_checks.Map(run_context.order)
        for rail, checks in self._lines.items():
            failure = run_context.failures.get(rail) or _not_ethernet(run_context.places[rail])
            if failure is not None:
                for check in checks.values():
                    run_context.refuse(check, failure)
                continue
            place = run_context.places[rail]
            # Where each node has a separate network, only the switch can be heard.
            if cable_checks.CABLING in checks:
                self._beacons.append(BeaconListener(run_context, chart, place, checks, places))
            if cable_checks.NEIGHBOUR in checks:
                self._switches.append(LldpListener(run_context, place, checks[cable_checks.NEIGHBOUR]))

    def start(self) -> None:
        """Start on all rails and wait until nothing new is heard; raises nothing."""
        for one in self._beacons:
            one.start()
        deadline = time.monotonic() + _MOST_S
        for one in self._beacons:
            while not one.settled.wait(0.1) and time.monotonic() < deadline:
                if self._context.stop.is_set():
                    return

    def close(self) -> None:
        """Stop listening; each check gets its row."""
        for one in self._beacons:
            one.closing.set()
        for one in self._beacons:
            if one.is_alive():
                one.join(_PROBE_S + 1.0)
        for switch in self._switches:
            switch.close()


class BeaconListener(threading.Thread):
    """One rail: it sends beacons, receives those of others, and sends ARP queries to one neighbor."""

    def __init__(
        self,
        run_context: RunContext,
        chart: cable_checks.Map,
        place: Place,
        lines: Mapping[str, Line],
        netdevs: Mapping[str, str],
    ) -> None:
        super().__init__(daemon=True, name="cable-" + place.rail)
        self._context = run_context
        self._chart = chart
        self._place = place
        self._lines = lines
        self._netdevs = netdevs
        self._seal = beacon.Seal(str(run_context.order["run"]), str(run_context.order["secret"]))
        self._expected = set(chart.expected(run_context.node, place.rail))
        self._ring = chart.ring(run_context.node, place.rail)
        self._nonce = beacon.new_nonce()
        self._heard: dict[tuple[str, str], str] = {}
        # Unexpected senders with their nonces; accepted once they have answered this rail's nonce.
        self._guests: dict[tuple[str, str], bytes] = {}
        self._strangers = 0
        self._begun = self._until = time.monotonic()
        self._probe: threading.Thread | None = None
        self.heard_all = False
        self.settled = threading.Event()
        self.closing = threading.Event()

    def run(self) -> None:
        """Send and listen until the end; each check gets its row."""
        try:
            state = link_state(self._place.netdev)
            if state not in ("up", "unknown"):
                raise self._failure("link_down", f"{self._place.netdev} is {state}", "see its link check")
            with beacon.open_socket(self._place.netdev) as sock:
                self._begun = time.monotonic()
                self._listen(sock)
            if self._probe is not None:
                self._probe.join(_PROBE_S)
            self._context.record.add([self._row(self._lines[cable_checks.CABLING], self._summarize())])
        except MeasurementError as failure:
            self._refuse(failure)
        except OSError as error:
            fix = f"look at the link: ip -s link show dev {self._place.netdev}; the runner has to be root"
            self._refuse(self._failure("beacon_refused", f"no beacon could be sent: {error}", fix))
        finally:
            if not self._context.stop.is_set():
                self._refuse(self._unheard())  # a check that has its row gets no second one
            self.settled.set()

    def _listen(self, sock: socket.socket) -> None:
        own_mac = sock.getsockname()[4]
        patience_s = work_order.first_wait_s(self._context.order)
        last_news = next_beacon = self._begun
        since_news = 0
        while not self._context.stop.is_set() and not self.closing.is_set():
            now = time.monotonic()
            if now >= next_beacon:
                who = (self._context.node, self._place.rail)
                sock.send(self._seal.frame(own_mac, *who, self._nonce, self._guests.values()))
                since_news += 1
                next_beacon = now + (_EVERY_S if since_news < _FAST_BEACONS else _SLOWLY_S)
            if select.select([sock], [], [], _TICK_S)[0] and self._take(sock):
                last_news, since_news = time.monotonic(), 0
                next_beacon = min(next_beacon, last_news + _EVERY_S)
            self._until = time.monotonic()
            self._probe_peer()
            quiet_s = time.monotonic() - last_news
            self.heard_all = self._has_heard_all(since_news)
            if quiet_s > _QUIET_S or self.heard_all:
                self.settled.set()
            # A peer that came at the last moment has received a beacon too before this ends.
            over = time.monotonic() - self._begun > patience_s and since_news >= _AFTER_NEWS
            if over or (self.heard_all and quiet_s > _SPEAKS_ON_S):
                return

    def _take(self, sock: socket.socket) -> bool:
        """Read the beacons that have come; return whether one is from a new sender."""
        found, strangers = beacon.heard(sock, self._seal)
        self._strangers += strangers
        before = len(self._heard) + len(self._guests)
        for one in found:
            who = (one.node, one.rail)
            if who == (self._context.node, self._place.rail):
                continue
            expected = one.rail == self._place.rail and one.node in self._expected
            if not expected:
                self._guests[who] = one.nonce
            if expected or self._nonce in one.answers:
                self._heard.setdefault(who, one.mac)
        return len(self._heard) + len(self._guests) > before

    def _has_heard_all(self, since_news: int) -> bool:
        probed = not self._ring or (self._probe is not None and not self._probe.is_alive())
        long_enough = time.monotonic() - self._begun >= _LEAST_S and since_news >= _AFTER_NEWS
        awaited = [*((peer, self._place.rail) for peer in self._expected), *self._guests]
        return probed and long_enough and all(who in self._heard for who in awaited)

    def _probe_peer(self) -> None:
        """Probe the next node of the ring; once all is quiet, the next node that was heard."""
        if self._probe is not None:
            return
        for peer in self._ring if self.settled.is_set() else self._ring[:1]:
            if (peer, self._place.rail) in self._heard:
                self._probe = threading.Thread(target=self._run_probe, args=(peer,), daemon=True)
                self._probe.start()
                return

    def _run_probe(self, peer: str) -> None:
        probes = ((cable_checks.OWNER, self._probe_owner), (cable_checks.REPLY, self._probe_reply))
        try:
            rows = [
                self._row(self._lines[check], probe(peer)) for check, probe in probes if check in self._lines
            ]
        except OSError as error:
            failure = self._failure("beacon_refused", f"{peer} could not be queried: {error}", "see the row")
            self._refuse(failure)
            return
        self._context.record.add(rows)

    def _probe_owner(self, peer: str) -> dict[str, Any]:
        address = self._chart.ports[peer][self._place.rail].address
        other = self._chart.other_address(peer, self._place.rail)
        claims = arp_probe.claimants(self._place, [address] if other is None else [address, other[1]])
        return {
            "peer": peer,
            "peer_address": address,
            "peer_mac": self._heard[peer, self._place.rail],
            "claimed_by": claims[address][:NAMED],
            "other_rail": other[0] if other else None,
            "other_address": other[1] if other else None,
            "other_claimed_by": claims[other[1]][:NAMED] if other else [],
            # MAC -> node and rail, for the claimants that send beacons themselves.
            "known": {
                mac: f"{node} {rail}"
                for (node, rail), mac in self._heard.copy().items()  # another thread adds to it
                if mac in claims[address] or (other is not None and mac in claims[other[1]])
            },
        }

    def _probe_reply(self, peer: str) -> dict[str, Any]:
        address = self._chart.ports[peer][self._place.rail].address
        return {
            "peer": peer,
            "peer_address": address,
            "route_netdev": arp_probe.route_netdev(self._place.address, address),
            "replies": arp_probe.replies(self._place, address, self._netdevs),
        }

    def _summarize(self) -> dict[str, Any]:
        rail = self._place.rail
        missing = [name for name in sorted(self._expected) if (name, rail) not in self._heard]
        foreign: dict[cable_checks.Segment | None, list[str]] = {}
        for node, other in sorted(self._heard):
            if other != rail or node not in self._expected:
                port = self._chart.ports.get(node, {}).get(other)
                foreign.setdefault(port.segment if port else None, []).append(node)
        return {
            "expected": len(self._expected),
            "heard": len(self._expected) - len(missing),
            "missing": missing[:NAMED],
            "foreign": [
                {
                    "rail": segment.rail if segment else None,
                    "network": segment.network if segment else None,
                    "count": len(nodes),
                    "nodes": nodes[:NAMED],
                }
                for segment, nodes in foreign.items()
            ],
            "strangers": self._strangers,
            # By the wall clock: a rail that listened after a peer had ended has not missed it.
            "listened": [
                round(time.time() - (time.monotonic() - moment_s), 1)
                for moment_s in (self._begun, self._until)
            ],
        }

    def _row(self, line: Line, found: Mapping[str, Any]) -> dict[str, Any]:
        return build_row(self._context, line, found, time.monotonic() - self._begun)

    def _refuse(self, failure: MeasurementError) -> None:
        for check, line in self._lines.items():
            if check != cable_checks.NEIGHBOUR:
                self._context.refuse(line, failure)

    def _unheard(self) -> MeasurementError:
        message = f"no beacon of the rail's other nodes was received on {self._place.netdev}"
        return self._failure("peer_unheard", message, "see the cabling check of this rail")

    def _failure(self, error_class: ErrorClass, message: str, fix: str) -> MeasurementError:
        return MeasurementError(error_class, f"{self._place.rail}: {message}", self._place.host, fix)


class LldpListener:
    """Receives the switch's LLDP frames from the start of the run to its end."""

    def __init__(self, run_context: RunContext, place: Place, line: Line) -> None:
        self._context = run_context
        self._place = place
        self._line = line
        self._begun = time.monotonic()
        self._failure: MeasurementError | None = None
        self._sock: socket.socket | None = None
        try:
            self._sock = lldp.open_socket(place.netdev)
        except OSError as error:
            fix = "the runner has to be root"
            self._failure = place.error("beacon_refused", f"{place.rail}: LLDP: {error}", fix)

    def close(self) -> None:
        """Write the row of the neighbors that this socket or lldpd received."""
        if self._failure is not None or self._sock is None:
            if self._failure is not None:
                self._context.refuse(self._line, self._failure)
            return
        found = list(
            dict.fromkeys([*self._drain(self._sock), *lldp.daemon_says().get(self._place.netdev, [])])
        )
        neighbours = {"neighbours": [one._asdict() for one in found[: lldp.MOST]], "count": len(found)}
        row = build_row(self._context, self._line, neighbours, time.monotonic() - self._begun)
        row.update({"proof": "unproven", "proof_reason": "nothing proves what a switch reports by LLDP"})
        self._context.record.add([row])

    def _drain(self, sock: socket.socket) -> Sequence[lldp.Neighbour]:
        found: dict[lldp.Neighbour, None] = {}
        with sock:
            for _frame in range(_MOST_FRAMES):
                try:
                    frame, origin = sock.recvfrom(2048)
                except OSError:  # no more frames, or the netdev is gone
                    break
                one = lldp.read(frame) if origin[2] != beacon.PACKET_OUTGOING else None
                if one is not None:
                    found[one] = None
        return list(found)


def build_row(
    run_context: RunContext, line: Line, found: Mapping[str, Any], lasted_s: float
) -> dict[str, Any]:
    """Build the row of a cable check that has a result."""
    row = run_context.record.blank_row(line, run_context.rails[str(line["rail"])], None)
    row.update({"status": "measured", "proof": "proven", "cabling": dict(found)})
    row["metrics"] = {"listened_s": round(lasted_s, 3)}
    return row


def _not_ethernet(place: Place) -> MeasurementError | None:
    kind = node_files.read_word(f"/sys/class/net/{place.netdev}/type")
    if not kind:
        return place.error("no_netdev", f"{place.rail}: there is no {place.netdev}", "see its link check")
    if kind == _ARPHRD_ETHER:
        return None
    message = f"{place.rail}: {place.netdev} is no Ethernet netdev (ARPHRD {kind})"
    return place.error("beacon_refused", message, "set fabric_policy.beacon: false for this cluster")
