# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner whose processor is taken away for seconds between any two of its lines asks and hears the same."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import duplicate_address, rail_probe
from ansible_collections.railyard.fabric.plugins.module_utils.rail_socket import Place

PLACE = Place("gpu001", "rail0", "ens6", "10.0.1.1")
MINE, PEER, OTHER = (bytes.fromhex(f"02000000000{number}") for number in (1, 2, 3))
PEER_ADDRESS = "10.0.1.2"


class Clock:
    """What stands for `time`; `hold` is the processor gone for a while."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        self.now_s += 0.05
        return self.now_s

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

    for module in (duplicate_address, rail_probe):
        monkeypatch.setattr(module, "time", clock)
        monkeypatch.setattr(module, "packet_socket", packet_socket)
    macs = [duplicate_address.mac_text(mac) for mac in (PEER, OTHER)]
    assert rail_probe.claimants(PLACE, [PEER_ADDRESS]) == {PEER_ADDRESS: macs}
    found = duplicate_address.probe(PLACE, PEER_ADDRESS)
    assert found is not None
    assert found.of(PEER_ADDRESS) == set(macs)
    # Both questions of both are asked twice.
    assert [len(wire.sent) for wire in wires] == [2, 4]


class Echo:
    """A raw socket: what it sends is answered, the first time over its own rail and then over another."""

    def __init__(self, wires: dict[str, Wire]) -> None:
        self._wires = wires
        self._count = 0

    def __enter__(self) -> Echo:
        return self

    def __exit__(self, *_exception: object) -> None:
        pass

    def bind(self, _address: object) -> None:
        pass

    def sendto(self, packet: bytes, address: tuple[str, int]) -> None:
        head = b"\x45" + bytes(8) + b"\x01" + bytes(2) + socket.inet_aton(address[0]) + bytes(4)
        self._count += 1
        self._wires["ens6" if self._count == 1 else "ens6d1"].take(head + b"\0" + packet[1:])


@pytest.mark.parametrize("held_at", ["never", "heard"])
def test_replies_by_another_rail_are_heard_by_a_runner_that_was_held_up(
    monkeypatch: pytest.MonkeyPatch, held_at: str
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
            return Echo(wires)

    monkeypatch.setattr(rail_probe, "time", clock)
    monkeypatch.setattr(rail_probe, "packet_socket", packet_socket)
    monkeypatch.setattr(rail_probe, "socket", Sockets())
    monkeypatch.setattr(rail_probe, "bind_to_rail", lambda _sock, _place: None)
    counts = rail_probe.replies(PLACE, PEER_ADDRESS, {"rail0": "ens6", "rail1": "ens6d1"})
    assert counts == {"rail0": 1, "rail1": 2}
