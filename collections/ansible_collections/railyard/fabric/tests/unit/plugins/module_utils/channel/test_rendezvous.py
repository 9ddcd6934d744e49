# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rendezvous over real sockets: mutual proof, sealed lines, strangers, silence, patience."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket, rendezvous
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import (
    Channel,
    ChannelClosed,
    Terms,
    UnknownPeer,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import listener

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0
RUN, SECRET = "20261121T101500Z-3f2a", "0123456789abcdef" * 4
TERMS = Terms(RUN, SECRET, "gpu001", "gpu002", "rail0")
Ends = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[Ends]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _address = server.accept()
        with near, far:
            yield near, far


class Answering:
    """Answers a call in a thread and keeps what came of it."""

    def __init__(
        self, sock: socket.socket, secret: str = SECRET, name: str = "gpu002", run: str = RUN
    ) -> None:
        self.channel = Channel(sock, threading.Event())
        self.result: Any = None
        self._what: Callable[[], Any] = lambda: rendezvous.answer(
            self.channel, run, secret, name, ["rail0"], SOON_S
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.result = self._what()
        except (UnknownPeer, ChannelClosed) as error:
            self.result = error

    def wait(self) -> Any:
        self._thread.join(SOON_S)
        return self.result


def dial(sock: socket.socket, terms: Terms = TERMS) -> Channel:
    channel = Channel(sock, threading.Event())
    rendezvous.dial(channel, terms, {"kind": "session", "round": 0}, SOON_S)
    return channel


class Held:
    """A clock that shows ten seconds more at each look, as to a process that gets no processor."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        self.now_s += 10.0
        return self.now_s


def test_both_prove_themselves_and_talk(ends: Ends) -> None:
    far = Answering(ends[1])
    near = dial(ends[0])
    call = far.wait()
    assert call["from"] == "gpu001"
    assert call["purpose"] == {"kind": "session", "round": 0}
    near.send({"t": "hello", "n": 1})
    far.channel.send({"t": "hello", "n": 2})
    assert far.channel.expect("hello", SOON_S)["n"] == 1
    assert near.expect("hello", SOON_S)["n"] == 2


def test_another_secret_is_a_stranger_to_both(ends: Ends) -> None:
    far = Answering(ends[1], secret="f" * 64)
    with pytest.raises(UnknownPeer, match="does not know the secret"):
        dial(ends[0])
    ends[0].close()
    assert isinstance(far.wait(), UnknownPeer)


@pytest.mark.parametrize(("name", "run"), [("gpu003", RUN), ("gpu002", "20261121T111111Z-ffff")])
def test_another_name_or_run_is_a_stranger(ends: Ends, name: str, run: str) -> None:
    Answering(ends[1], name=name, run=run)
    with pytest.raises(UnknownPeer, match="says it is"):
        dial(ends[0])


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b'{"hello": 1}\n', b"[]\n", b'{"railyard": 99}\n']
)
def test_who_speaks_something_else_is_a_stranger(ends: Ends, answer: bytes) -> None:
    ends[1].sendall(answer)
    with pytest.raises(UnknownPeer):
        dial(ends[0])


def test_a_made_up_proof_does_not_open_a_call(ends: Ends) -> None:
    # Somebody who knows every name but not the secret.
    far = Answering(ends[1])
    ends[0].sendall(
        json.dumps(
            {
                "railyard": 1,
                "run": RUN,
                "from": "gpu001",
                "to": "gpu002",
                "rail": "rail0",
                "nonce": "00",
                "purpose": {},
            }
        ).encode()
        + b"\n"
        + json.dumps({"proof": "ab" * 32}).encode()
        + b"\n"
    )
    assert isinstance(far.wait(), UnknownPeer)


def test_a_line_without_the_seal_ends_the_conversation(ends: Ends) -> None:
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    ends[0].sendall(b'{"t":"done"}\n')
    with pytest.raises(ChannelClosed, match="seal"):
        far.channel.receive(SOON_S)
    far.channel.send({"t": "x"})
    assert near.receive(SOON_S) == {"t": "x"}


def test_a_repeated_line_ends_the_conversation(ends: Ends) -> None:
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    near.send({"t": "go"})
    line = ends[1].recv(4096, socket.MSG_PEEK)
    ends[0].sendall(line)
    assert far.channel.receive(SOON_S) == {"t": "go"}
    with pytest.raises(ChannelClosed, match="seal"):
        far.channel.receive(SOON_S)


def test_a_line_too_deep_to_be_read_ends_the_conversation(ends: Ends) -> None:
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    deep = b"[" * 200000
    ends[0].sendall(near._seal("dial", 0, deep) + b" " + deep + b"\n")
    with pytest.raises(ChannelClosed, match="not JSON"):
        far.channel.receive(SOON_S)


def test_silence_has_an_end(ends: Ends) -> None:
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    begun = time.monotonic()
    with pytest.raises(ChannelClosed, match="said nothing"):
        near.receive(0.3)
    assert time.monotonic() - begun < SOON_S
    far.channel.close()
    with pytest.raises(ChannelClosed, match="closed"):
        near.receive(SOON_S)


def test_what_has_come_is_heard_by_who_was_held_up(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gpu002 said nothing for 10 s` was said of a node whose word lay there."""
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    far.channel.send({"t": "x"})
    monkeypatch.setattr(rendezvous, "time", Held())
    assert near.receive(2.0) == {"t": "x"}
    with pytest.raises(ChannelClosed, match="said nothing"):
        near.receive(2.0)


def test_the_word_to_stop_ends_a_wait(ends: Ends) -> None:
    stop = threading.Event()
    channel = Channel(ends[0], stop)
    threading.Timer(0.2, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(rendezvous.Cancelled):
        channel.receive(LONG_S)
    assert time.monotonic() - begun < SOON_S


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def order(node: str, port: int, subnet: str | None = "127.0.0.0/24") -> dict[str, Any]:
    """Two nodes on two rails of one subnet; without it they meet over management, at one address."""
    rails = [{"name": rail, **({"subnet": subnet} if subnet else {})} for rail in ("rail0", "rail1")]
    roster = [
        {"name": f"gpu00{number}", "node_index": number, "management": {"address": "127.0.0.1"}}
        for number in (1, 2)
    ]
    fabric = {"transport": "tcp" if subnet else "infiniband", "mtu": 9000, "rails": rails}
    return {
        "run": RUN,
        "secret": SECRET,
        "node": node,
        "fabrics": [fabric],
        "roster": roster,
        "policy": {"base_port": port, "rendezvous_timeout_s": 1, "first_rendezvous_timeout_s": 0},
    }


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
    # Ahead of us: told to wait, again and again, and not taken for dead.
    assert caller.receive(SOON_S) == {"t": "wait", "round": 0}
    assert caller.receive(SOON_S)["t"] == "wait"
    node.listener.enter_round(3)
    taken = node.listener.take("gpu001", "rail0", SOON_S)
    assert taken is not None
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


def test_the_lobby_remembers_strangers(node: House) -> None:
    with pytest.raises(UnknownPeer):
        node.call(terms=TERMS._replace(secret="f" * 64))
    with pytest.raises((UnknownPeer, ChannelClosed)):
        node.call(terms=TERMS._replace(dialler="gpu009")).receive(SOON_S)
    deadline = time.monotonic() + SOON_S
    while "gpu009" not in str(node.listener.stranger("rail0", "127.0.0.1")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "which is not in this run" in str(node.listener.stranger("rail0", "127.0.0.1"))
    # Whoever it was: the node itself has called since.
    node.call("ask").receive(SOON_S)
    assert node.listener.stranger("rail0", "127.0.0.1") is None


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


def test_who_has_no_address_of_the_roster_is_refused_at_once(node: House) -> None:
    with socket.create_connection(("127.0.0.1", node.port), source_address=("127.0.0.9", 0)) as sock:
        assert hung_up(sock, SOON_S)
    assert node.listener._unproven == {"rail0": []}
    assert node.listener.stranger("rail0", "127.0.0.9") is None


def test_who_says_too_much_before_it_has_proven_itself_is_a_stranger(node: House) -> None:
    """Of forty callers with four MiB each, 297 MiB were kept."""
    with socket.create_connection(("127.0.0.1", node.port)) as sock:
        sock.sendall(b"x" * (16 << 10))
        assert hung_up(sock, SOON_S)
    assert "without end" in str(node.listener.stranger("rail0", "127.0.0.1"))


def test_many_who_say_nothing_make_way_for_a_partner(node: House) -> None:
    silent = [socket.create_connection(("127.0.0.1", node.port)) for _one in range(100)]
    try:
        assert node.call("ask").receive(SOON_S)["t"] == "present"
        assert len(node.listener._unproven["rail0"]) <= 64
        assert hung_up(silent[0], SOON_S)  # long before it is given up for its silence
    finally:
        for sock in silent:
            sock.close()


def test_a_caller_that_reads_nothing_holds_up_nobody_in_the_lobby(
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
    # It may call again, and is told that we have gone on.
    node.listener.enter_round(4)
    assert node.call(round_number=3).receive(SOON_S) == {"t": "gone", "round": 4}


CALL = {"railyard": 1, "run": RUN, "from": "gpu001", "to": "gpu002", "rail": "rail0", "nonce": "00"}


@pytest.mark.parametrize("said", [b"", json.dumps({**CALL, "purpose": {}}).encode() + b"\n"])
def test_a_partner_that_hangs_up_half_way_is_no_stranger(node: House, said: bytes) -> None:
    """A busy one does, where this end or its own was held up for the seconds that an answer may take."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _address = server.accept()
    near.sendall(said)
    near.shutdown(socket.SHUT_WR)
    node.listener._greet(["rail0"], Channel(far, node.stop))
    near.close()
    assert node.listener.stranger("rail0", "127.0.0.1") is None


def test_a_caller_that_is_silent_for_too_long_is_no_stranger(ends: Ends) -> None:
    channel = Channel(ends[1], threading.Event())
    with pytest.raises(ChannelClosed, match="said nothing"):
        rendezvous.answer(channel, RUN, SECRET, "gpu002", ["rail0"], 0.1)


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n", b"[]\n", b'{"railyard": 99}\n', b"[" * 5000 + b"\n", b"x" * 9000]
)
def test_who_calls_with_something_else_is_a_stranger(ends: Ends, words: bytes) -> None:
    far = Answering(ends[1])
    ends[0].sendall(words)
    assert isinstance(far.wait(), UnknownPeer)


@pytest.mark.parametrize("purpose", [[1], "session", 7, {"kind": {"kind": []}}])
def test_a_purpose_that_is_none_is_a_strangers(ends: Ends, purpose: Any) -> None:
    near, far = ends
    answering = Answering(far)
    near.sendall(json.dumps({**CALL, "purpose": purpose}).encode() + b"\n")
    assert isinstance(answering.wait(), UnknownPeer)


def test_a_proof_that_is_no_ascii_is_wrong_like_any_other(ends: Ends) -> None:
    far = Answering(ends[1])
    said = [{**CALL, "purpose": {}}, {"proof": "\ud800\u00e9" * 32}]
    ends[0].sendall("".join(json.dumps(one) + "\n" for one in said).encode())
    assert isinstance(far.wait(), UnknownPeer)


def test_an_answer_whose_proof_is_no_ascii_is_a_strangers(ends: Ends) -> None:
    said = {"railyard": 1, "run": RUN, "from": "gpu002", "nonce": "00", "proof": "\u00e9" * 64}
    ends[1].sendall(json.dumps(said).encode() + b"\n")
    with pytest.raises(UnknownPeer, match="does not know the secret"):
        dial(ends[0])


def test_who_takes_no_line_in_time_is_deaf_and_who_is_gone_is_not(ends: Ends) -> None:
    near, far = ends
    near.setblocking(False)
    try:
        while True:
            near.send(b"\0" * 65536)
    except BlockingIOError:
        pass
    channel = Channel(near, threading.Event())
    for within_s in (0.0, 0.3):
        lasted_s = []
        for _turn in range(4):
            begun = time.monotonic()
            with pytest.raises(rendezvous.SendTimeout, match="took no line"):
                channel.send({"t": "go"}, within_s)
            lasted_s.append(time.monotonic() - begun)
        # Of four one at least was not held up.
        assert within_s <= min(lasted_s) < within_s + 2
    far.close()

    def speak() -> None:
        for _turn in range(50):
            channel.send({"t": "go"}, 0.2)
            time.sleep(0.02)

    with pytest.raises(ChannelClosed) as found:
        speak()
    assert not isinstance(found.value, rendezvous.SendTimeout)


def test_rails_without_ip_share_one_listener_and_are_told_apart_by_the_call(node: House) -> None:
    stop, port = threading.Event(), free_port()
    shared = order("gpu002", port, subnet=None)
    places = {
        rail: rail_socket.Place("gpu002", rail, "", "127.0.0.1", management=True)
        for rail in ("rail0", "rail1")
    }
    made = listener.Listener(shared, places, stop)
    try:
        assert made.obstacles == {}
        purpose = {"kind": "session", "round": 0}
        for rail in ("rail1", "rail0"):
            listener.dial(places[rail], "127.0.0.1", port, TERMS._replace(rail=rail), purpose, stop)
            assert made.take("gpu001", "rail0" if rail == "rail1" else "rail1", 0.1) is None
            assert made.take("gpu001", rail, SOON_S) is not None
        with pytest.raises(UnknownPeer):
            listener.dial(places["rail0"], "127.0.0.1", port, TERMS._replace(rail="rail7"), purpose, stop)
        # Who does not hold the address cannot be met there, and says so for each of the rails.
        gone = {rail: place._replace(address="192.0.2.1") for rail, place in places.items()}
        obstacles = listener.Listener(shared, gone, stop).obstacles
        assert {rail: one.error_class for rail, one in obstacles.items()} == dict.fromkeys(
            places, "no_management"
        )
    finally:
        stop.set()
        made.close()


def test_a_taken_port_and_a_missing_address_are_told_apart(node: House) -> None:
    with pytest.raises(MeasurementError) as taken:
        rail_socket.listen(node.place, node.port)
    assert taken.value.error_class == "port_taken"
    with pytest.raises(MeasurementError) as missing:
        rail_socket.listen(node.place._replace(address="192.0.2.1"), node.port)
    assert missing.value.error_class == "no_address"
    with pytest.raises(MeasurementError) as gone:
        rail_socket.listen(node.place._replace(netdev="nope0", address="192.0.2.1"), node.port)
    assert gone.value.error_class == "no_netdev"
    assert gone.value.status == "unmeasured"


def test_a_listener_is_seen_without_a_connection(node: House) -> None:
    assert rail_socket.is_listening("127.0.0.1", node.port)
    assert not rail_socket.is_listening("127.0.0.1", free_port())
    assert not rail_socket.is_listening("127.0.0.2", node.port)
    assert not rail_socket.is_connected("127.0.0.1", node.port)
    with socket.create_connection(("127.0.0.1", node.port)):
        assert rail_socket.is_connected("127.0.0.1", node.port)


def test_the_kernels_table_is_read_by_words_of_32_bits() -> None:
    head = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    )
    rest = "00000000:00000000 00:00000000 00000000     0        0 14363 1 0"
    four = f"   0: 0200090A:48A8 00000000:0000 0A {rest}\n"
    row = next(rail_socket.parse_tcp_table(head + four))
    assert (socket.inet_ntoa(row.local), row.local_port, row.state, row.inode) == (
        "10.9.0.2",
        18600,
        "0A",
        14363,
    )
    six = four.replace("0200090A", "0100FDFD000000000000000001000000").replace(
        "00000000:0000 0A", "00000000000000000000000000000000:0000 01"
    )
    row = next(rail_socket.parse_tcp_table(head + six))
    assert socket.inet_ntop(socket.AF_INET6, row.local) == "fdfd:1::1"
    assert row.state == "01"
