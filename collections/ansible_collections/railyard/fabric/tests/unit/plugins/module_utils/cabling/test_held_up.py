# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner whose processor is taken away for seconds between any two of its lines asks and hears the same."""

from __future__ import annotations

import itertools
import select
import socket
import struct
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.cabling import arp_probe, beacon
from ansible_collections.railyard.fabric.plugins.module_utils.channel import arp
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.runner import cabling

PLACE = Place("gpu001", "rail0", "ens6", "10.0.1.1")
MINE, PEER, OTHER = (bytes.fromhex(f"02000000000{number}") for number in (1, 2, 3))
PEER_ADDRESS = "10.0.1.2"


class Clock:
    """What stands for `time`; `hold` is the processor gone for a while."""

    def __init__(self, look_s: float = 0.05) -> None:
        self.now_s = 1000.0
        self._look_s = look_s

    def monotonic(self) -> float:
        self.now_s += self._look_s
        return self.now_s

    time = monotonic

    def hold(self) -> None:
        self.now_s += 5.0


class Wire:
    """A packet socket whose questions are answered at once by so many frames."""

    def __init__(self, clock: Clock, answers: Callable[[bytes], list[bytes]], held_at: str) -> None:
        self._here, self._there = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._clock, self._answers, self._held_at = clock, answers, held_at
        self.sent: list[bytes] = []

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._here.close()
        self._there.close()

    def fileno(self) -> int:
        return self._here.fileno()

    def getsockname(self) -> tuple[Any, ...]:
        if self._held_at == "opened":
            self._clock.hold()
        return ("ens6", 0x0806, 0, 1, MINE)

    def take(self, frame: bytes) -> None:
        self._there.send(frame)

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)
        for answer in self._answers(frame):
            self.take(answer)
        if self._held_at == "sent":
            self._clock.hold()

    def recvfrom(self, _size: int) -> tuple[bytes, tuple[Any, ...]]:
        frame = self._here.recv(2048)
        if self._held_at == "heard":
            self._clock.hold()
        return frame, ("ens6", 0x0806, 0, 1, b"")


def two_owners(frame: bytes) -> list[bytes]:
    """The owner of the peer's address and a second one answer who asks for it."""
    asked, target = struct.unpack_from("!H", frame, 20)[0], frame[38:42]
    if asked != 1 or target != socket.inet_aton(PEER_ADDRESS):
        return []
    head = frame[:20] + b"\x00\x02"
    return [head + mac + target + frame[22:32] for mac in (PEER, OTHER)]


@pytest.mark.parametrize("held_at", ["never", "opened", "sent", "heard"])
def test_a_second_owner_is_heard_however_often_the_runner_is_held_up(
    monkeypatch: pytest.MonkeyPatch, held_at: str
) -> None:
    """It once read the first answer, found its time over, and called the address singly owned."""
    clock, wires = Clock(), []

    def packet_socket(_netdev: str, _ethertype: int) -> Wire:
        wires.append(Wire(clock, two_owners, held_at))
        return wires[-1]

    for module in (arp, arp_probe):
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "packet_socket", packet_socket)
    macs = [arp.mac_text(mac) for mac in (PEER, OTHER)]
    assert arp_probe.claimants(PLACE, [PEER_ADDRESS]) == {PEER_ADDRESS: macs}
    found = arp.probe(PLACE, PEER_ADDRESS)
    assert found.get(PEER_ADDRESS) == set(macs)
    # Both nodes send both questions twice.
    assert [len(wire.sent) for wire in wires] == [2, 4]


@pytest.mark.parametrize(("held_s", "questions"), [(0.1, 2), (0.5, 2), (0.8, 3), (1.5, 3), (9.0, 4)])
def test_an_owner_whose_node_is_held_up_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, held_s: float, questions: int
) -> None:
    """What comes to a node that is held up waits there, and all of it is answered when it goes on."""
    clock = Clock(look_s=0.01)
    begun_s, waiting = clock.now_s, []

    class HeldUp(Wire):
        def select(self, *_lists: Any) -> tuple[list[Any], ...]:
            if clock.now_s - begun_s >= held_s:
                for frame in waiting[:]:
                    waiting.remove(frame)
                    for answer in two_owners(frame)[:1]:
                        self.take(answer)
            return select.select([self], [], [], 0.0)

    wire = HeldUp(clock, lambda frame: waiting.append(frame) or [], "never")
    monkeypatch.setattr(arp, "time", clock)
    monkeypatch.setattr(arp, "select", wire)
    monkeypatch.setattr(arp_probe, "packet_socket", lambda *_where: wire)
    owners = arp_probe.claimants(PLACE, [PEER_ADDRESS, "10.0.0.2"])[PEER_ADDRESS]
    assert owners == ([] if held_s > 3 else [arp.mac_text(PEER)])
    assert len(wire.sent) == 2 * questions


class Echo:
    """A raw socket: what it sends is answered, the first time over its own rail and then over another."""

    def __init__(self, wires: dict[str, Wire], from_packet: int = 1) -> None:
        self._wires = wires
        self._count = 1 - from_packet

    def __enter__(self) -> Echo:
        return self

    def __exit__(self, *_exception: object) -> None:
        pass

    def bind(self, _address: object) -> None:
        pass

    def sendto(self, packet: bytes, address: tuple[str, int]) -> None:
        head = b"\x45" + bytes(8) + b"\x01" + bytes(2) + socket.inet_aton(address[0]) + bytes(4)
        self._count += 1
        if self._count > 0:
            self._wires["ens6" if self._count == 1 else "ens6d1"].take(head + b"\0" + packet[1:])


# The fourth packet is the first of the second try, the tenth would be of a fourth.
@pytest.mark.parametrize(
    ("held_at", "from_packet"), [("never", 1), ("heard", 1), ("never", 4), ("never", 10)]
)
def test_replies_by_another_rail_are_heard_by_a_runner_that_was_held_up(
    monkeypatch: pytest.MonkeyPatch, held_at: str, from_packet: int
) -> None:
    clock = Clock()
    wires: dict[str, Wire] = {}

    def packet_socket(netdev: str, _ethertype: int, _kind: int) -> Wire:
        wires[netdev] = Wire(clock, lambda _frame: [], held_at)
        return wires[netdev]

    class Sockets:
        """The module `socket`, whose raw socket echoes."""

        def __getattr__(self, name: str) -> Any:
            return getattr(socket, name)

        def socket(self, *_kind: int) -> Echo:
            return Echo(wires, from_packet)

    monkeypatch.setattr(arp_probe, "time", clock)
    monkeypatch.setattr(arp_probe, "_SLICE_S", 0.0)
    monkeypatch.setattr(arp_probe, "packet_socket", packet_socket)
    monkeypatch.setattr(arp_probe, "socket", Sockets())
    monkeypatch.setattr(arp_probe, "bind_to_rail", lambda _sock, _place: None)
    counts = arp_probe.replies(PLACE, PEER_ADDRESS, {"rail0": "ens6", "rail1": "ens6d1"})
    assert counts == ({"rail0": 1, "rail1": 2} if from_packet < 10 else {"rail0": 0, "rail1": 0})


class Street:
    """A rail on which another node speaks once, in the moment in which this one is about to go."""

    def __init__(self, clock: Clock, comes_at_s: float) -> None:
        self._clock, self._comes_at_s = clock, comes_at_s
        self._come = False
        self.since_news = 0
        self.sent_at_s: list[float] = []

    def getsockname(self) -> tuple[Any, ...]:
        return ("ens6", beacon.ETHERTYPE, 0, 1, MINE)

    def send(self, _frame: bytes) -> None:
        self.since_news += 1
        self.sent_at_s.append(self._clock.now_s)

    def select(self, _read: Any, _write: Any, _error: Any, wait_s: float) -> tuple[list[Any], ...]:
        self._clock.now_s += wait_s
        heard = not self._come and self._clock.now_s >= self._comes_at_s
        return ([self], [], []) if heard else ([], [], [])

    def heard(self, _sock: object, _seal: object) -> tuple[list[beacon.Beacon], int]:
        self._come, self.since_news = True, 0
        return [beacon.Beacon("gpu002", "rail0", arp.mac_text(PEER), b"", frozenset())], 0


def test_a_node_that_comes_when_another_is_about_to_go_hears_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock(look_s=0.0)
    street = Street(clock, clock.now_s + 4.99)
    monkeypatch.setattr(cabling, "time", clock)
    monkeypatch.setattr(cabling, "select", street)
    monkeypatch.setattr(cabling.beacon, "heard", street.heard)
    policy = {"first_rendezvous_timeout_s": 5}
    order = {"run": "20261121T101500Z-3f2a", "secret": "s" * 64, "policy": policy}
    context: Any = SimpleNamespace(node="gpu001", order=order, policy=policy, stop=threading.Event())
    others = ["gpu002", "gpu003"]  # the third never comes
    chart: Any = SimpleNamespace(expected=lambda *_place: others, ring=lambda *_place: [])
    ear = cabling.BeaconListener(context, chart, PLACE, {}, {})
    sock: Any = street
    ear._listen(sock)
    assert street.since_news == 3
    # It has not listened while it waited for its other questions afterwards.
    gone_s = clock.now_s
    clock.hold()
    begun_s, until_s = ear._summarize()["listened"]
    assert begun_s == 1000.0
    assert until_s == pytest.approx(gone_s, abs=0.1)


def test_who_has_heard_all_speaks_on_for_one_that_was_deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(look_s=0.0)
    street = Street(clock, clock.now_s + 0.2)
    monkeypatch.setattr(cabling, "time", clock)
    monkeypatch.setattr(cabling, "select", street)
    monkeypatch.setattr(cabling.beacon, "heard", street.heard)
    policy = {"first_rendezvous_timeout_s": 45}
    order = {"run": "20261121T101500Z-3f2a", "secret": "s" * 64, "policy": policy}
    context: Any = SimpleNamespace(node="gpu001", order=order, policy=policy, stop=threading.Event())
    chart: Any = SimpleNamespace(expected=lambda *_place: ["gpu002"], ring=lambda *_place: [])
    ear = cabling.BeaconListener(context, chart, PLACE, {}, {})
    settled_at_s: list[float] = []
    monkeypatch.setattr(ear.settled, "set", lambda: settled_at_s.append(clock.now_s))
    sock: Any = street
    ear._listen(sock)
    # The tests do not wait for it.
    assert settled_at_s[0] < 1001
    # A node that was deaf until some second hears one in the next.
    assert clock.now_s == pytest.approx(1010.2, abs=0.2)
    assert max(b - a for a, b in itertools.pairwise(street.sent_at_s)) == pytest.approx(1.0, abs=0.1)
    assert street.sent_at_s[-1] > 1009


def test_a_node_that_is_heard_while_a_row_is_made_does_not_spoil_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions are sent in a separate thread, while the rail goes on to listen."""
    order = {"run": "20261121T101500Z-3f2a", "secret": "s" * 64}
    port = SimpleNamespace(address=PEER_ADDRESS)
    chart: Any = SimpleNamespace(
        expected=lambda *_place: ["gpu002"],
        ring=lambda *_place: ["gpu002"],
        ports={"gpu002": {"rail0": port}},
        other_address=lambda *_place: None,
    )
    context: Any = SimpleNamespace(node="gpu001", order=order)
    ear = cabling.BeaconListener(context, chart, PLACE, {}, {})
    mac = arp.mac_text(PEER)
    ear._heard["gpu002", "rail0"] = mac

    class Claimed(list[str]):
        """A list of claimants; while it is read, another node is heard."""

        def __contains__(self, one: object) -> bool:
            ear._heard["gpu003", "rail0"] = arp.mac_text(OTHER)
            return super().__contains__(one)

        def __getitem__(self, _place: Any) -> Any:
            return self

    claims = {PEER_ADDRESS: Claimed([mac])}
    monkeypatch.setattr(arp_probe, "claimants", lambda _place, _addresses: claims)
    assert ear._probe_owner("gpu002")["known"] == {mac: "gpu002 rail0"}
