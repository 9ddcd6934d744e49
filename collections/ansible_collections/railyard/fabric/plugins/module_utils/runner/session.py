# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Connect two nodes on a rail: who calls, how long each waits, and what they exchange first."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from ..channel import arp, rendezvous
from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place
from ..schedule import work_order
from ..schedule.rounds import Meeting
from .context import RUNNER_VERSION, RunContext, link_state, own_macs
from .listener import Listener, dial
from .record import netdev_mtu_bytes

_TURN_S = 3.5
_PAUSE_S = 0.2
_HELLO_S = 10.0


class MeetingDeadline:
    """How long to wait for a partner on the rails of one meeting.

    At the run's start nodes begin at different times, so the first wait is long. Once the partner was met on
    one rail, the other rails get the short wait. A partner that reports an earlier round extends the wait.
    """

    def __init__(self, run_context: RunContext, again: bool = False) -> None:
        self._lock = threading.Lock()
        self._short_s = float(run_context.policy["rendezvous_timeout_s"])
        self._deadline = time.monotonic() + self._short_s
        if not again:
            first = run_context.begun + work_order.first_wait_s(run_context.order)
            self._deadline = max(first, self._deadline)

    def met(self) -> None:
        """Note that the partner has been met on a rail."""
        with self._lock:
            self._deadline = min(self._deadline, time.monotonic() + self._short_s)

    def busy(self) -> None:
        """Note that the partner is alive but not ready yet."""
        with self._lock:
            self._deadline = max(self._deadline, time.monotonic() + self._short_s)

    def over(self) -> bool:
        """Return whether the wait is over."""
        return time.monotonic() > self._deadline


class Session:
    """The connection of one meeting on one rail, or the reason why there is none.

    Args:
        run_context: this node's side of the run.
        listener: where the partner connects.
        meeting: the meeting.
        rail: the rail.
        peer_rail: the partner's, as `work_order.rails_of` has it.
    """

    def __init__(
        self,
        run_context: RunContext,
        listener: Listener,
        meeting: Meeting,
        rail: str,
        peer_rail: Mapping[str, Any],
    ) -> None:
        self.run_context = run_context
        self.listener = listener
        self.meeting = meeting
        self.place = run_context.places[rail]
        self.peer = meeting.peer if meeting.node == run_context.node else meeting.node
        self.peer_address = str(peer_rail["management" if self.place.management else "ip"])
        self.port = int(run_context.policy["base_port"])
        self.channel: rendezvous.Channel | None = None
        self.hello: dict[str, Any] = {}
        self.failure: MeasurementError | None = None
        self.busy: MeasurementError | None = None
        self.pending_begin: dict[str, Any] | None = None
        self.reconnects_left = 2
        # Without IP on the rail: the ports that were found at both ends before the current test.
        self.ports: dict[str, str] = {}

    def exchange(self) -> dict[str, Any] | None:
        """Return a row's `exchange`: where the ends met; None over the rail itself."""
        if not self.place.management:
            return None
        own = {"over": "management", "address": self.place.address, "peer_address": self.peer_address}
        return {**own, **self.ports}

    def drop(self) -> None:
        """Close the channel; the partner notices."""
        if self.channel is not None:
            self.channel.close()
        self.channel = None
        self.pending_begin = None


def open_session(session: Session, wait: MeetingDeadline) -> None:
    """Check for address conflicts, meet the partner and exchange identities; raises only `Cancelled`."""
    place = session.place
    claimants = None if place.management else arp.probe(place, session.peer_address)
    try:
        meet(session, wait)
    except MeasurementError as failure:
        session.failure = failure
    macs = session.hello.get("macs") if session.channel else None
    mine = own_macs()
    if macs is not None:
        claimants = arp.but_proxies(place, session.peer_address, claimants, [*mine, *macs])
    conflict = arp.own_conflict(place, claimants, mine) or arp.peer_conflict(
        place, session.peer, session.peer_address, claimants, macs
    )
    if conflict:
        session.failure = conflict
    elif session.failure and claimants and claimants.get(session.peer_address):
        macs_text = " and ".join(sorted(claimants.get(session.peer_address)))
        session.failure.message += f"; ARP replies for {session.peer_address} come from {macs_text}"


def meet(session: Session, wait: MeetingDeadline) -> None:
    """Open the session's channel: the node that is first in the roster calls, the other answers.

    Raises:
        MeasurementError: the partner was not met.
        Cancelled: the runner has to stop.
    """
    run_context = session.run_context
    reach = _call if session.meeting.node == run_context.node else _await
    while session.channel is None:
        channel = reach(session, wait)
        wait.met()
        try:
            channel.send(_hello(run_context, session.place))
            session.hello = channel.expect("hello", _HELLO_S)
        except rendezvous.ChannelClosed as error:
            # The partner may have given up while this end was delayed: then it is about to call again.
            channel.close()
            if wait.over():
                raise _not_met(session, str(error)) from error
            run_context.stop.wait(_PAUSE_S)
            continue
        session.channel = channel


def _hello(run_context: RunContext, place: Place) -> dict[str, Any]:
    return {
        "t": "hello",
        "node": run_context.node,
        "boot_id": run_context.boot_id,
        "runner": RUNNER_VERSION,
        "versions": run_context.versions,
        "macs": own_macs(),
        "netdev": place.netdev,
        "mtu_bytes": netdev_mtu_bytes(place.netdev),
    }


def _call(session: Session, wait: MeetingDeadline) -> rendezvous.Channel:
    """Call until the partner sends `welcome`."""
    last, unknown, called = "no answer", None, False
    # At least once: this process may have been delayed for the whole wait.
    while not (called and wait.over()):
        rendezvous.raise_if_stopped(session.run_context.stop)
        called = True
        try:
            channel = _dial(session, "session")
        except (OSError, rendezvous.ChannelClosed, rendezvous.UnknownPeer) as error:
            last = getattr(error, "strerror", None) or str(error)
            unknown = last if isinstance(error, rendezvous.UnknownPeer) else unknown
            session.run_context.stop.wait(_PAUSE_S)
            continue
        unknown = None
        try:
            welcomed = _await_welcome(session, channel, wait)
        except rendezvous.ChannelClosed as error:
            last = str(error)
            channel.close()
            continue
        if welcomed:
            return channel
    raise _not_met(session, last, unknown)


def _await_welcome(session: Session, channel: rendezvous.Channel, wait: MeetingDeadline) -> bool:
    while True:
        message = channel.receive(_TURN_S)
        if message.get("t") == "welcome":
            return True
        if message.get("t") == "gone":
            channel.close()
            raise _gone_on(session, message)
        if int(message.get("round", -1)) < session.meeting.round:
            wait.busy()
        elif wait.over():
            channel.close()
            return False


def _await(session: Session, wait: MeetingDeadline) -> rendezvous.Channel:
    """Wait for the partner's call, and check in between whether it is alive."""
    stop, rail = session.run_context.stop, session.place.rail
    last, unknown, alive, checked = "it did not call", None, False, False
    while not (checked and wait.over()):
        rendezvous.raise_if_stopped(stop)
        checked = True
        caller = session.listener.take(session.peer, rail, 1.0)
        if caller:
            try:
                caller.channel.send({"t": "welcome"})
                return caller.channel
            except rendezvous.ChannelClosed as error:
                last = str(error)
                continue
        try:
            last, alive = _check_alive(session, wait), True
        except (OSError, rendezvous.ChannelClosed, rendezvous.UnknownPeer) as error:
            last = str(error)
            unknown = last if isinstance(error, rendezvous.UnknownPeer) else unknown
    rendezvous.raise_if_stopped(stop)
    unknown = unknown or session.listener.get_unknown_caller(rail, session.peer_address)
    raise _not_met(session, last, None if alive else unknown)


def _check_alive(session: Session, wait: MeetingDeadline) -> str:
    channel = _dial(session, "ask")
    try:
        answer = channel.expect("present", _TURN_S)
    finally:
        channel.close()
    their_round = int(answer.get("round", -1))
    if their_round > session.meeting.round:
        raise _gone_on(session, answer)
    if their_round < session.meeting.round:
        wait.busy()
    return "it is alive but did not call"


def _dial(session: Session, kind: str) -> rendezvous.Channel:
    order, node, place = session.run_context.order, session.run_context.node, session.place
    terms = rendezvous.Terms(str(order["run"]), str(order["secret"]), node, session.peer, place.rail)
    purpose = {"kind": kind, "round": session.meeting.round}
    return dial(place, session.peer_address, session.port, terms, purpose, session.run_context.stop)


def _unknown_peer(session: Session, why: str) -> MeasurementError:
    place = session.place
    look = f"ip neigh show dev {place.netdev} on {place.host}"
    if place.management:
        look = f"ip route get {session.peer_address} on {place.host}, ip addr on {session.peer}"
    return MeasurementError(
        "stranger",
        f"{session.peer_address} on {place.way} is not {session.peer} of this run: it {why}",
        session.peer,
        f"find out which machine has {session.peer_address} ({look})",
    )


def _gone_on(session: Session, message: Mapping[str, Any]) -> MeasurementError:
    return MeasurementError(
        "rendezvous_timeout",
        f"{session.peer} has continued with round {message.get('round')} without {session.run_context.node}",
        session.peer,
        f"see the rows of {session.peer} for the reason, or raise policy.rendezvous_timeout_s",
    )


def _not_met(session: Session, last: str, unknown: str | None = None) -> MeasurementError:
    """Return the error of an expired wait; an unknown host at the partner's address is reported only then."""
    if unknown is not None:
        return _unknown_peer(session, unknown)
    if session.place.management:
        return MeasurementError(
            "management_timeout",
            f"{session.peer} was not met at {session.peer_address} over {session.place.way}: {last}",
            session.peer,
            f"on {session.place.host} run: ip route get {session.peer_address}; ping {session.peer_address}; "
            f"firewalls between the two must allow TCP port {session.port} and those after it "
            "(fabric_policy.base_port); set another address with management_address",
        )
    return MeasurementError(
        "rendezvous_timeout",
        f"{session.peer} was not met at {session.peer_address} on {session.place.rail}: {last} "
        f"({session.place.netdev} of {session.place.host} is {link_state(session.place.netdev)})",
        session.peer,
        "check the link and the address on both nodes: ip -s link show; ip addr show; "
        f"ping -I {session.place.netdev} {session.peer_address}",
    )
