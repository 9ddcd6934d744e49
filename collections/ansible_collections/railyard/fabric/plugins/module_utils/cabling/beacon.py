# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon: one small broadcast frame that says which node and rail sent it, sealed with the run's secret.

It needs no address, no ARP and no route, so that it tells where a cable really ends, even where IP is
broken by what is wrong with the cables. It uses an EtherType that IEEE 802 sets aside for local use.

Anybody can record a beacon of one rail and send it on another. So each carries its sender's nonce, and the
nonces of those that the sender did not expect to hear: who is answered so is truly on one wire with it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket
import struct
from collections.abc import Collection
from typing import NamedTuple

from ..channel.arp import mac_text
from ..channel.rail_socket import packet_socket

#: IEEE 802 Local Experimental EtherType 1.
ETHERTYPE = 0x88B5
_BROADCAST = b"\xff" * 6
_HEADER = struct.Struct("!6s6sH")
_MAGIC = b"RYB2"
_SEAL_BYTES = 16
_RUN_BYTES = 8
_LEAST_FRAME_BYTES = 60
_LONGEST_NAME_BYTES = 255
_NONCE_BYTES = 8
# So many fit a frame of 1500 bytes beside the longest names; of more each beacon answers others.
_MOST_ANSWERS = 100
# How many frames are read at once: a flood must not keep this node from sending.
_AT_ONCE = 1000
# Python has no name for it: a frame that this host sent itself.
PACKET_OUTGOING = 4


class Beacon(NamedTuple):
    """Who says that it is on this wire, the MAC address that it sent from, and whom it answers."""

    node: str
    rail: str
    mac: str
    nonce: bytes
    answers: frozenset[bytes]


def new_nonce() -> bytes:
    """Return what a rail of a run is answered by."""
    return secrets.token_bytes(_NONCE_BYTES)


class Seal:
    """Makes and reads the beacons of one run."""

    def __init__(self, run: str, secret: str) -> None:
        self._run = hashlib.sha256(run.encode()).digest()[:_RUN_BYTES]
        self._key = hashlib.sha256(b"railyard beacon " + secret.encode()).digest()

    def frame(self, mac: bytes, node: str, rail: str, nonce: bytes, answers: Collection[bytes] = ()) -> bytes:
        """Return the whole Ethernet frame of a node's rail."""
        if len(answers) > _MOST_ANSWERS:
            answers = secrets.SystemRandom().sample(list(answers), _MOST_ANSWERS)
        body = self._run + _text(node) + _text(rail) + nonce + bytes((len(answers),)) + b"".join(answers)
        frame = _HEADER.pack(_BROADCAST, mac, ETHERTYPE) + _MAGIC + self._sign(mac, body) + body
        return frame.ljust(_LEAST_FRAME_BYTES, b"\0")

    def read(self, frame: bytes) -> Beacon | None:
        """Return the beacon of a frame; None for another run's, a damaged or a forged one."""
        start = _HEADER.size + len(_MAGIC)
        if len(frame) < start + _SEAL_BYTES or frame[_HEADER.size : start] != _MAGIC:
            return None
        _to, mac, ethertype = _HEADER.unpack_from(frame)
        seal = frame[start : start + _SEAL_BYTES]
        rest = frame[start + _SEAL_BYTES :]
        node, after = _name(rest, _RUN_BYTES)
        rail, at = _name(rest, after)
        if ethertype != ETHERTYPE or node is None or rail is None or rest[:_RUN_BYTES] != self._run:
            return None
        begin = at + _NONCE_BYTES + 1
        end = begin + _NONCE_BYTES * int.from_bytes(rest[begin - 1 : begin], "big")
        if not hmac.compare_digest(seal, self._sign(mac, rest[:end])):
            return None
        answers = frozenset(rest[one : one + _NONCE_BYTES] for one in range(begin, end, _NONCE_BYTES))
        return Beacon(node, rail, mac_text(mac), rest[at : begin - 1], answers)

    def _sign(self, mac: bytes, body: bytes) -> bytes:
        return hmac.new(self._key, mac + body, hashlib.sha256).digest()[:_SEAL_BYTES]


def open_socket(netdev: str) -> socket.socket:
    """Open a socket that sends and hears beacons on one netdev.

    Raises:
        OSError: not root, no such netdev, or no packet sockets.
    """
    sock = packet_socket(netdev, ETHERTYPE)
    sock.setblocking(False)
    return sock


def heard(sock: socket.socket, seal: Seal) -> tuple[list[Beacon], int]:
    """Return the beacons that have come since, and how many frames were none of this run's."""
    found: list[Beacon] = []
    strangers = 0
    for _frame in range(_AT_ONCE):
        try:
            frame, origin = sock.recvfrom(2048)
        except BlockingIOError:
            break
        if origin[2] == PACKET_OUTGOING:
            continue
        one = seal.read(frame)
        if one is None:
            strangers += 1
        else:
            found.append(one)
    return found, strangers


def _text(name: str) -> bytes:
    data = name.encode("utf-8")[:_LONGEST_NAME_BYTES]
    return bytes((len(data),)) + data


def _name(data: bytes, at: int) -> tuple[str | None, int]:
    if at >= len(data):
        return None, at
    end = at + 1 + data[at]
    if end > len(data):
        return None, at
    return data[at + 1 : end].decode("utf-8", "replace"), end
