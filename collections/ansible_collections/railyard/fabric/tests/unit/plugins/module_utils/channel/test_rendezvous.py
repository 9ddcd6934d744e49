# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rendezvous over real sockets: mutual proof, sealed lines, unknown peers, silence, patience."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rendezvous
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import (
    Channel,
    ChannelClosed,
    Terms,
    UnknownPeer,
)
from support.nodes.held_up import HeldClock
from support.nodes.meeting import CALL, RUN, SECRET, TERMS

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
LONG_S, SOON_S = 600.0, 60.0
Ends = tuple[socket.socket, socket.socket]
Talk = tuple[Channel, Channel]


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


@pytest.fixture
def talk(ends: Ends) -> Talk:
    """Two nodes that have proven themselves to each other."""
    far = Answering(ends[1])
    near = dial(ends[0])
    far.wait()
    return near, far.channel


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


def test_another_secret_makes_both_unknown_peers(ends: Ends) -> None:
    far = Answering(ends[1], secret="f" * 64)
    with pytest.raises(UnknownPeer, match="does not know the secret"):
        dial(ends[0])
    ends[0].close()
    assert isinstance(far.wait(), UnknownPeer)


@pytest.mark.parametrize(("name", "run"), [("gpu003", RUN), ("gpu002", "20261121T111111Z-ffff")])
def test_another_name_or_run_is_an_unknown_peer(ends: Ends, name: str, run: str) -> None:
    Answering(ends[1], name=name, run=run)
    with pytest.raises(UnknownPeer, match="reports the name"):
        dial(ends[0])


@pytest.mark.parametrize(
    "answer", [b"SSH-2.0-OpenSSH_9.2\r\n", b'{"hello": 1}\n', b"[]\n", b'{"railyard": 99}\n']
)
def test_a_node_that_speaks_something_else_is_an_unknown_peer(ends: Ends, answer: bytes) -> None:
    ends[1].sendall(answer)
    with pytest.raises(UnknownPeer):
        dial(ends[0])


def test_a_line_without_the_seal_ends_the_conversation(ends: Ends, talk: Talk) -> None:
    near, far = talk
    ends[0].sendall(b'{"t":"done"}\n')
    with pytest.raises(ChannelClosed, match="HMAC"):
        far.receive(SOON_S)
    far.send({"t": "x"})
    assert near.receive(SOON_S) == {"t": "x"}


def test_a_repeated_line_ends_the_conversation(ends: Ends, talk: Talk) -> None:
    near, far = talk
    near.send({"t": "go"})
    line = ends[1].recv(4096, socket.MSG_PEEK)
    ends[0].sendall(line)
    assert far.receive(SOON_S) == {"t": "go"}
    with pytest.raises(ChannelClosed, match="HMAC"):
        far.receive(SOON_S)


def test_a_line_too_deep_to_be_read_ends_the_conversation(ends: Ends, talk: Talk) -> None:
    near, far = talk
    deep = b"[" * 200000
    ends[0].sendall(near._seal("dial", 0, deep) + b" " + deep + b"\n")
    with pytest.raises(ChannelClosed, match="not JSON"):
        far.receive(SOON_S)


def test_silence_has_an_end(talk: Talk) -> None:
    near, far = talk
    begun = time.monotonic()
    with pytest.raises(ChannelClosed, match="sent nothing"):
        near.receive(0.3)
    assert time.monotonic() - begun < SOON_S
    far.close()
    with pytest.raises(ChannelClosed, match="closed"):
        near.receive(SOON_S)


def test_what_has_come_is_heard_by_who_was_held_up(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    near, far = talk
    """`gpu002 said nothing for 10 s` was reported of a node whose line had arrived."""
    far.send({"t": "x"})
    monkeypatch.setattr(rendezvous, "time", HeldClock())
    assert near.receive(2.0) == {"t": "x"}
    with pytest.raises(ChannelClosed, match="sent nothing"):
        near.receive(2.0)


def test_the_word_to_stop_ends_a_wait(ends: Ends) -> None:
    stop = threading.Event()
    channel = Channel(ends[0], stop)
    threading.Timer(0.2, stop.set).start()
    begun = time.monotonic()
    with pytest.raises(rendezvous.Cancelled):
        channel.receive(LONG_S)
    assert time.monotonic() - begun < SOON_S


def test_a_caller_that_is_silent_for_too_long_is_no_unknown_peer(ends: Ends) -> None:
    channel = Channel(ends[1], threading.Event())
    with pytest.raises(ChannelClosed, match="sent nothing"):
        rendezvous.answer(channel, RUN, SECRET, "gpu002", ["rail0"], 0.1)


@pytest.mark.parametrize(
    "words", [b"GET / HTTP/1.1\r\n", b"[]\n", b'{"railyard": 99}\n', b"[" * 5000 + b"\n", b"x" * 9000]
)
def test_a_node_that_calls_with_something_else_is_an_unknown_peer(ends: Ends, words: bytes) -> None:
    far = Answering(ends[1])
    ends[0].sendall(words)
    assert isinstance(far.wait(), UnknownPeer)


@pytest.mark.parametrize("purpose", [[1], "session", 7, {"kind": {"kind": []}}])
def test_an_unknown_purpose_makes_an_unknown_peer(ends: Ends, purpose: Any) -> None:
    near, far = ends
    answering = Answering(far)
    near.sendall(json.dumps({**CALL, "purpose": purpose}).encode() + b"\n")
    assert isinstance(answering.wait(), UnknownPeer)


# The first is of somebody who knows every name but not the secret; the other is no ASCII.
@pytest.mark.parametrize("proof", ["ab" * 32, "\ud800\u00e9" * 32])
def test_a_made_up_proof_does_not_open_a_call(ends: Ends, proof: str) -> None:
    far = Answering(ends[1])
    said = [{**CALL, "purpose": {}}, {"proof": proof}]
    ends[0].sendall("".join(json.dumps(one) + "\n" for one in said).encode())
    assert isinstance(far.wait(), UnknownPeer)


def test_an_answer_whose_proof_is_no_ascii_is_an_unknown_peer(ends: Ends) -> None:
    said = {"railyard": 1, "run": RUN, "from": "gpu002", "nonce": "00", "proof": "\u00e9" * 64}
    ends[1].sendall(json.dumps(said).encode() + b"\n")
    with pytest.raises(UnknownPeer, match="does not know the secret"):
        dial(ends[0])


def test_a_node_that_takes_no_line_in_time_is_deaf_and_who_is_gone_is_not(ends: Ends) -> None:
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
            with pytest.raises(rendezvous.SendTimeout, match="read nothing"):
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
