# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How two nodes meet where one of them is held up in between."""

from __future__ import annotations

import queue
import socket
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import ChannelClosed
from ansible_collections.railyard.fabric.plugins.module_utils.runner import listener
from ansible_collections.railyard.fabric.plugins.module_utils.runner import session as runner_meeting
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.rounds import Meeting
from support.nodes.meeting import free_port

# Guards against hanging alone: the tests hold where any process sleeps for ten seconds at any moment.
SOON_S = 60.0
ORDER = {"run": "20261121T101500Z-3f2a", "secret": "s" * 64}


def make_context(node: str, number: int, policy: dict[str, Any], **order: Any) -> Any:
    """Return what a meeting uses of a run's context on the node with this number."""
    return SimpleNamespace(
        node=node,
        order={**ORDER, "node": node, "policy": policy, **order},
        policy=policy,
        begun=0.0,
        stop=threading.Event(),
        boot_id="b",
        versions={},
        places={"rail0": Place(node, "rail0", "lo", f"127.0.0.{number}")},
    )


class Line:
    """A conversation whose partner says hello, or has hung up."""

    def __init__(self, gone: bool) -> None:
        self.gone = gone
        self.closed = False

    def send(self, _message: object) -> None:
        pass

    def expect(self, kind: str, _timeout_s: float) -> dict[str, Any]:
        if self.gone:
            raise ChannelClosed("10.0.1.2 closed the connection")
        return {"t": kind, "node": "gpu002"}

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("node", ["gpu001", "gpu002"])
@pytest.mark.parametrize(("gone", "patience_s"), [(1, SOON_S), (3, SOON_S), (99, 0.5)])
def test_a_node_that_hung_up_before_its_hello_is_met_once_more(
    monkeypatch: pytest.MonkeyPatch, node: str, gone: int, patience_s: float
) -> None:
    """Its patience ended while this end was held up; it calls again, and nothing waited for that call."""
    policy = {"rendezvous_timeout_s": patience_s, "first_rendezvous_timeout_s": 0, "base_port": 1}
    context = make_context(node, 1, policy)
    lines: list[Line] = []

    def answer(_call: object, wait: runner_meeting.MeetingDeadline) -> Line:
        if wait.over():
            raise MeasurementError("rendezvous_timeout", "nobody called", "gpu002", "look")
        lines.append(Line(gone=len(lines) < gone))
        return lines[-1]

    monkeypatch.setattr(runner_meeting, "_PAUSE_S", 0.1)
    monkeypatch.setattr(runner_meeting, "_call", answer)
    monkeypatch.setattr(runner_meeting, "_await", answer)
    open_listener: Any = None
    meeting = Meeting(0, 0, "gpu001", "gpu002")
    session = runner_meeting.Session(context, open_listener, meeting, "rail0", {"ip": "10.0.1.2"})

    def meet() -> None:
        runner_meeting.meet(session, runner_meeting.MeetingDeadline(context))

    if gone == 99:
        with pytest.raises(MeasurementError, match=r"nobody called|closed the connection"):
            meet()
        assert session.channel is None
        assert len(lines) < 20
    else:
        meet()
        said: Any = session.channel
        assert said is lines[gone]
        assert session.hello["node"] == "gpu002"
    assert [one.closed for one in lines if one.gone] == [True] * len(lines[:gone])


class Node:
    """One of two nodes on loopback, with a listener of its own; it meets the other in a thread."""

    def __init__(self, number: int, port: int, patience_s: float = SOON_S) -> None:
        name, other = f"gpu00{number}", 3 - number
        rails = [{"name": "rail0", "subnet": "127.0.0.0/24"}]
        policy = {"base_port": port, "rendezvous_timeout_s": patience_s, "first_rendezvous_timeout_s": 0}
        roster = [{"name": f"gpu00{one}", "node_index": one} for one in (1, 2)]
        fabrics = [{"transport": "tcp", "mtu": 9000, "rails": rails}]
        self.context = make_context(name, number, policy, fabrics=fabrics, roster=roster)
        self.stop = self.context.stop
        self.listener = listener.Listener(self.context.order, self.context.places, self.stop)
        meeting = Meeting(0, 0, "gpu001", "gpu002")
        peer_rail = {"ip": f"127.0.0.{other}"}
        self.session = runner_meeting.Session(self.context, self.listener, meeting, "rail0", peer_rail)
        self.listener.enter_round(0)
        self.failure: MeasurementError | None = None
        self.wait = runner_meeting.MeetingDeadline(self.context)
        self._thread = threading.Thread(target=self._meet)

    def begin(self) -> Node:
        self._thread.start()
        return self

    def _meet(self) -> None:
        try:
            runner_meeting.meet(self.session, self.wait)
        except MeasurementError as failure:
            self.failure = failure

    def met(self) -> str | None:
        """Return who was met at last."""
        self._thread.join(2 * SOON_S)
        self.stop.set()
        self.listener.close()
        return self.session.hello.get("node")


def stranger(server: socket.socket, calls: queue.Queue[int]) -> None:
    """Answer every call with two bytes of no protocol, until the server is closed; note each."""
    while True:
        try:
            caller = server.accept()[0]
        except OSError:
            return
        with caller:
            caller.sendall(b"x\n")
        calls.put(1)


def two_bytes(number: int, port: int) -> None:
    """Say two bytes to a node's rendezvous from the other's address, as any user of that other can."""
    with socket.create_connection(
        (f"127.0.0.{number}", port), source_address=(f"127.0.0.{3 - number}", 0)
    ) as sock:
        sock.sendall(b"x\n")
        while sock.recv(4096):
            pass


@pytest.mark.parametrize("comes", [True, False])
def test_two_bytes_of_an_unknown_peer_do_not_keep_a_partner_from_being_met(comes: bool) -> None:
    """They once lost all tests of the pair."""
    port = free_port()
    node = Node(2, port, SOON_S if comes else 1.0)
    two_bytes(2, port)
    node.begin()
    partner = Node(1, port).begin() if comes else None
    assert node.met() == ("gpu001" if comes else None)
    assert partner is None or partner.met() == "gpu002"
    assert comes or (node.failure is not None and node.failure.error_class == "stranger")


@pytest.mark.parametrize("comes", [True, False])
def test_an_unknown_peer_at_the_partners_address_is_named_when_patience_ends(comes: bool) -> None:
    port = free_port()
    calls: queue.Queue[int] = queue.Queue()
    with socket.create_server(("127.0.0.2", port)) as server:
        threading.Thread(target=stranger, args=(server, calls), daemon=True).start()
        node = Node(1, port).begin()
        for _call in range(2):  # who calls again has heard the first answer
            calls.get(timeout=SOON_S)
        if not comes:
            node.wait._deadline = 0.0
            assert node.met() is None
            assert node.failure.error_class == "stranger"
            return
        server.shutdown(socket.SHUT_RDWR)
    partner = Node(2, port).begin()
    assert (node.met(), partner.met()) == ("gpu002", "gpu001")


@pytest.mark.parametrize("number", [1, 2])
def test_a_node_that_was_held_up_until_its_patience_was_over_has_looked_once(number: int) -> None:
    """A partner was "not met: no answer" that had never been called."""
    port = free_port()
    partner = Node(3 - number, port).begin()
    late = Node(number, port)
    # The caller waits in the lobby by then; who answers has a listener from the beginning.
    lobby = time.monotonic() + SOON_S
    while number == 2 and not late.listener._waiting and time.monotonic() < lobby:
        time.sleep(0.02)
    late.wait._deadline = 0.0
    late.begin()
    assert (late.met(), partner.met()) == (f"gpu00{3 - number}", f"gpu00{number}")
