# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's listener over real sockets: a caller waits, has to wait, is handed over, or is an unknown peer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import (
    Channel,
    ChannelClosed,
    Terms,
    UnknownPeer,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import listener
from support.nodes import node_run
from support.nodes.meeting import CALL, RUN, SECRET, TERMS, free_port

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0


def order(node: str, port: int, subnet: str | None = "127.0.0.0/24") -> dict[str, Any]:
    """Two nodes on two rails of one subnet; without it they meet over management, at one address."""
    rails = [{"name": rail, **({"subnet": subnet} if subnet else {})} for rail in ("rail0", "rail1")]
    waits = {"base_port": port, "rendezvous_timeout_s": 1, "first_rendezvous_timeout_s": 0}
    made = node_run.order(node, ("gpu001", "gpu002"), rails, **waits)
    made["fabrics"][0]["transport"] = "tcp" if subnet else "infiniband"
    for entry in made["roster"]:
        entry["management"] = {"address": "127.0.0.1"}
    return {**made, "run": RUN, "secret": SECRET}


class House:
    """gpu002's listener on loopback, and how gpu001 calls it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.place = rail_socket.Place("gpu002", "rail0", "lo", "127.0.0.1")
        self.stop = threading.Event()
        self.listener = listener.Listener(order("gpu002", self.port), {"rail0": self.place}, self.stop)
        self.listener.start()

    def call(self, kind: str = "session", round_number: int = 0, terms: Terms = TERMS) -> Channel:
        purpose = {"kind": kind, "round": round_number}
        return listener.dial(self.place, "127.0.0.1", self.port, terms, purpose, self.stop)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.setattr(listener, "_ANSWER_S", LONG_S)
    monkeypatch.setattr(listener, "_DIAL_S", SOON_S)
    made = House()
    yield made
    made.stop.set()
    made.listener.close()


def test_the_lobby_keeps_a_caller_waiting_and_hands_it_over(node: House) -> None:
    node.listener.enter_round(0)
    caller = node.call(round_number=3)
    # Ahead of this node: it has to wait, again and again, and is not taken for dead.
    assert caller.receive(SOON_S) == {"t": "wait", "round": 0}
    assert caller.receive(SOON_S)["t"] == "wait"
    node.listener.enter_round(3)
    taken = node.listener.take("gpu001", "rail0", SOON_S)
    taken.channel.send({"t": "welcome"})
    words = [caller.receive(SOON_S)["t"]]
    while words[-1] == "wait":
        words.append(caller.receive(SOON_S)["t"])
    assert words[-1] == "welcome"
    assert node.listener.take("gpu001", "rail0", 0.1) is None


def test_the_lobby_says_that_it_lives_and_that_it_has_gone_on(node: House) -> None:
    node.listener.enter_round(5)
    assert node.call("ask").receive(SOON_S) == {"t": "present", "round": 5}
    assert node.call(round_number=4).receive(SOON_S) == {"t": "gone", "round": 5}


def test_the_lobby_remembers_unknown_peers(node: House) -> None:
    with pytest.raises(UnknownPeer):
        node.call(terms=TERMS._replace(secret="f" * 64))
    with pytest.raises((UnknownPeer, ChannelClosed)):
        node.call(terms=TERMS._replace(dialler="gpu009")).receive(SOON_S)
    deadline = time.monotonic() + SOON_S
    while (
        "gpu009" not in str(node.listener.get_unknown_caller("rail0", "127.0.0.1"))
        and time.monotonic() < deadline
    ):
        time.sleep(0.02)
    assert "which is not in this run" in str(node.listener.get_unknown_caller("rail0", "127.0.0.1"))
    # No matter which peer it was: the node itself has called since.
    node.call("ask").receive(SOON_S)
    assert node.listener.get_unknown_caller("rail0", "127.0.0.1") is None


def hung_up(sock: socket.socket, within_s: float) -> bool:
    """Tell whether the other end closes a connection in time, whatever it says before."""
    sock.settimeout(within_s)
    try:
        while sock.recv(4096):
            pass
    except ConnectionError:
        return True
    except socket.timeout:  # noqa: UP041 - in 3.9 it is no TimeoutError
        return False
    return True


def test_a_node_that_has_no_address_of_the_roster_is_refused_at_once(node: House) -> None:
    with socket.create_connection(("127.0.0.1", node.port), source_address=("127.0.0.9", 0)) as sock:
        assert hung_up(sock, SOON_S)
    assert node.listener._unproven == {"rail0": []}
    assert node.listener.get_unknown_caller("rail0", "127.0.0.9") is None


def test_a_node_that_says_too_much_before_it_has_proven_itself_is_an_unknown_peer(node: House) -> None:
    """Of forty callers with four MiB each, 297 MiB were kept."""
    with socket.create_connection(("127.0.0.1", node.port)) as sock:
        sock.sendall(b"x" * (16 << 10))
        assert hung_up(sock, SOON_S)
    assert "too long" in str(node.listener.get_unknown_caller("rail0", "127.0.0.1"))


def test_many_who_say_nothing_make_way_for_a_partner(node: House) -> None:
    silent = [socket.create_connection(("127.0.0.1", node.port)) for _one in range(100)]
    try:
        assert node.call("ask").receive(SOON_S)["t"] == "present"
        assert len(node.listener._unproven["rail0"]) <= 64
        assert hung_up(silent[0], SOON_S)  # long before it is given up for its silence
    finally:
        for sock in silent:
            sock.close()


def test_a_caller_that_reads_nothing_holds_up_no_one_in_the_lobby(
    node: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line to it once had ten seconds, under the lock that every other caller needs."""
    node.listener.enter_round(0)
    caller = node.call(round_number=3)
    caller.receive(SOON_S)
    given_s: list[float] = []
    with node.listener._lock:
        waiting = node.listener._waiting["gpu001", "rail0"].channel
        send = waiting.send
        monkeypatch.setattr(waiting, "send", lambda words, *more: given_s.append(*more) or send(words, *more))
        waiting._sock.setblocking(False)
        try:
            while True:
                waiting._sock.send(b"\0" * 65536)
        except BlockingIOError:
            pass
        node.listener._reassure()
        assert node.listener._waiting == {}
    assert given_s == [0.0]
    # It may call again, and gets the answer that this node has gone on.
    node.listener.enter_round(4)
    assert node.call(round_number=3).receive(SOON_S) == {"t": "gone", "round": 4}


@pytest.mark.parametrize("said", [b"", json.dumps({**CALL, "purpose": {}}).encode() + b"\n"])
def test_a_partner_that_hangs_up_half_way_is_no_unknown_peer(node: House, said: bytes) -> None:
    """A busy one does, where this end or its own was held up for the seconds that an answer may take."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _address = server.accept()
    near.sendall(said)
    near.shutdown(socket.SHUT_WR)
    node.listener._greet(["rail0"], Channel(far, node.stop))
    near.close()
    assert node.listener.get_unknown_caller("rail0", "127.0.0.1") is None


def test_rails_without_ip_share_one_listener_and_are_distinguished_by_the_call(node: House) -> None:
    stop, port = threading.Event(), free_port()
    shared = order("gpu002", port, subnet=None)
    places = {
        rail: rail_socket.Place("gpu002", rail, "", "127.0.0.1", management=True)
        for rail in ("rail0", "rail1")
    }
    made = listener.Listener(shared, places, stop)
    try:
        assert made.failures == {}
        purpose = {"kind": "session", "round": 0}
        for rail in ("rail1", "rail0"):
            listener.dial(places[rail], "127.0.0.1", port, TERMS._replace(rail=rail), purpose, stop)
            assert made.take("gpu001", "rail0" if rail == "rail1" else "rail1", 0.1) is None
            assert made.take("gpu001", rail, SOON_S) is not None
        with pytest.raises(UnknownPeer):
            listener.dial(places["rail0"], "127.0.0.1", port, TERMS._replace(rail="rail7"), purpose, stop)
        # Who does not hold the address cannot be met there, and says so for each of the rails.
        gone = {rail: place._replace(address="192.0.2.1") for rail, place in places.items()}
        failures = listener.Listener(shared, gone, stop).failures
        assert {rail: one.error_class for rail, one in failures.items()} == dict.fromkeys(
            places, "no_management"
        )
    finally:
        stop.set()
        made.close()
