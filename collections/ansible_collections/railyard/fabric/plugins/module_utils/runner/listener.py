# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Listen on each address for partners that connect, wait for their turn, or check whether this node is alive.

A node meets one partner at a time, but its partners of later rounds may be ahead of it. Their connections are
answered at once and kept waiting, so that a busy node is never mistaken for a dead one, and a dead one costs
its partners `rendezvous_timeout_s` once and not once per rail.

Only the roster's addresses are answered. Connections that are not yet authenticated are limited in number and
time, and the oldest makes way for a new one.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..channel import rendezvous
from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place, bind_to_rail, family_of, listen, tune
from ..schedule import rounds, work_order

_TICK_S = 1.0
_ANSWER_S = 3.0
_DIAL_S = 1.5
_PAUSE_S = 0.2
# Under the lock nothing may block: a peer whose connection does not accept a line at once has stopped
# reading.
_AT_ONCE_S = 0.0
# Connections at one address that are not yet authenticated; authentication takes milliseconds.
_MOST_UNPROVEN = 64


class Call(NamedTuple):
    """An authenticated partner that waits to be welcomed."""

    channel: rendezvous.Channel
    purpose: dict[str, Any]


class Listener:
    """Listens on all rails for the whole run and passes authenticated callers to their sessions."""

    def __init__(self, order: Mapping[str, Any], places: Mapping[str, Place], stop: threading.Event) -> None:
        self._run = str(order["run"])
        self._secret = str(order["secret"])
        self._node = str(order["node"])
        self._roster = {str(entry["name"]) for entry in order["roster"]}
        self._stop = stop
        self._lock = threading.Condition()
        self._waiting: dict[tuple[str, str], Call] = {}
        self._unproven: dict[str, list[rendezvous.Channel]] = {}
        self._unknown_callers: dict[tuple[str, str], str] = {}
        self._listeners: dict[str, socket.socket] = {}
        self.round = -1
        self.failures: dict[str, MeasurementError] = {}
        self._callers = _addresses(order)
        without_ip = [rail for rail, place in places.items() if place.management]
        for rail, place in places.items():
            rails = without_ip if place.management else [rail]
            if rail == rails[0]:
                self._open(rails, place, int(order["policy"]["base_port"]))

    def _open(self, rails: Sequence[str], place: Place, base_port: int) -> None:
        # Every rail has a separate address, so one port number serves all rails; those without IP share the
        # management address and one listener.
        try:
            listener = self._listeners[rails[0]] = listen(place, base_port)
        except MeasurementError as failure:
            self.failures.update(dict.fromkeys(rails, failure))
            return
        self._unproven[rails[0]] = []
        threading.Thread(
            target=self._serve, args=(rails, listener), daemon=True, name="listener-" + rails[0]
        ).start()

    def start(self) -> None:
        """Begin to send signs of life to waiting partners."""
        threading.Thread(target=self._tick, daemon=True, name="listener-tick").start()

    def close(self) -> None:
        """Close the listeners and the waiting connections."""
        for listener in self._listeners.values():
            listener.close()
        with self._lock:
            for call in self._waiting.values():
                call.channel.close()
            self._waiting.clear()

    def enter_round(self, number: int) -> None:
        """Set the round of this node; partners of earlier rounds are notified and disconnected."""
        with self._lock:
            self.round = number
            for key, call in list(self._waiting.items()):
                if int(call.purpose.get("round", 0)) < number:
                    self._dismiss(call)
                    del self._waiting[key]

    def get_unknown_caller(self, rail: str, address: str) -> str | None:
        """Return why the last caller from an address on a rail is not of this run, or None."""
        with self._lock:
            return self._unknown_callers.get((rail, _same(address)))

    def take(self, peer: str, rail: str, timeout_s: float) -> Call | None:
        """Wait for a partner's connection on a rail; None when it did not come in time."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            while (peer, rail) not in self._waiting:
                left = deadline - time.monotonic()
                if left <= 0 or self._stop.is_set():
                    return None
                self._lock.wait(min(left, 0.25))
            return self._waiting.pop((peer, rail))

    def _serve(self, rails: Sequence[str], listener: socket.socket) -> None:
        while not self._stop.is_set():
            try:
                sock, address = listener.accept()
            except OSError:
                if listener.fileno() < 0:
                    return
                time.sleep(_PAUSE_S)
                continue
            if not any(_same(address[0]) in self._callers.get(rail, ()) for rail in rails):
                sock.close()
                continue
            try:
                channel = rendezvous.Channel(sock, self._stop)
            except OSError:
                sock.close()
                continue
            self._make_room(rails[0], channel)
            threading.Thread(
                target=self._greet, args=(rails, channel), daemon=True, name="greet-" + rails[0]
            ).start()

    def _make_room(self, rail: str, channel: rendezvous.Channel) -> None:
        with self._lock:
            unproven = self._unproven[rail]
            unproven.append(channel)
            if len(unproven) > _MOST_UNPROVEN:
                unproven.pop(0).close()

    def _greet(self, rails: Sequence[str], channel: rendezvous.Channel) -> None:
        try:
            call = rendezvous.answer(channel, self._run, self._secret, self._node, rails, _ANSWER_S)
            if call["from"] not in self._roster:
                raise rendezvous.UnknownPeer(
                    "reports the name {!r}, which is not in this run".format(call["from"])
                )
            with self._lock:
                self._unknown_callers.pop((str(call["rail"]), _same(channel.remote)), None)
            self._admit(str(call["rail"]), channel, str(call["from"]), call.get("purpose") or {})
        except rendezvous.UnknownPeer as error:
            with self._lock:
                self._unknown_callers.update({(rail, _same(channel.remote)): str(error) for rail in rails})
            channel.close()
        except (rendezvous.ChannelClosed, rendezvous.Cancelled):
            channel.close()
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._unproven[rails[0]].remove(channel)

    def _admit(self, rail: str, channel: rendezvous.Channel, peer: str, purpose: dict[str, Any]) -> None:
        call = Call(channel, purpose)
        if purpose.get("kind") == "ask":
            channel.send({"t": "present", "round": self.round})
            channel.close()
            return
        with self._lock:
            if int(purpose.get("round", 0)) < self.round:
                self._dismiss(call)
                return
            former = self._waiting.pop((peer, rail), None)
            if former:
                former.channel.close()
            self._waiting[(peer, rail)] = call
            self._lock.notify_all()

    def _dismiss(self, call: Call) -> None:
        with contextlib.suppress(rendezvous.ChannelClosed):
            call.channel.send({"t": "gone", "round": self.round}, _AT_ONCE_S)
        call.channel.close()

    def _tick(self) -> None:
        while not self._stop.wait(_TICK_S):
            self._reassure()

    def _reassure(self) -> None:
        """Send a sign of life to waiting partners; disconnect one that does not read it."""
        with self._lock:
            for key, call in list(self._waiting.items()):
                try:
                    call.channel.send({"t": "wait", "round": self.round}, _AT_ONCE_S)
                except rendezvous.ChannelClosed:
                    call.channel.close()
                    del self._waiting[key]


def _addresses(order: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return rail -> addresses of the other nodes on it; their management addresses where it has no IP."""
    found: dict[str, set[str]] = {}
    for entry in order["roster"]:
        management = (entry.get("management") or {}).get("address")
        for rail in rounds.node_rails(order, entry) if entry["name"] != order["node"] else ():
            address = work_order.address_of(rail) or management
            if address:
                found.setdefault(str(rail["name"]), set()).add(_same(address))
    return found


def _same(address: str) -> str:
    """Return an address in canonical form."""
    return str(ipaddress.ip_address(address.partition("%")[0]))


def dial(
    place: Place,
    address: str,
    port: int,
    terms: rendezvous.Terms,
    purpose: Mapping[str, Any],
    stop: threading.Event,
) -> rendezvous.Channel:
    """Connect to a partner's listener over the rail once.

    Raises:
        OSError: the connection failed.
        rendezvous.UnknownPeer: another host answered.
        rendezvous.ChannelClosed: the answer did not come.
    """
    sock = socket.socket(family_of(address), socket.SOCK_STREAM)
    try:
        bind_to_rail(sock, place)
        tune(sock)
        sock.bind((place.address, 0))
        sock.settimeout(_DIAL_S)
        sock.connect((address, port))
        channel = rendezvous.Channel(sock, stop)
    except OSError:
        sock.close()
        raise
    try:
        rendezvous.dial(channel, terms, purpose, _ANSWER_S)
    except (rendezvous.ChannelClosed, rendezvous.UnknownPeer, rendezvous.Cancelled):
        channel.close()
        raise
    return channel
