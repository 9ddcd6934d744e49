# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon: one small broadcast frame that says which node and rail sent it, sealed with the run's secret.

It needs no address, no ARP and no route, so that it tells where a cable really ends, even where IP is
broken by what is wrong with the cables. It uses an EtherType that IEEE 802 sets aside for local use.
"""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.duplicate_address import mac_text
from ansible_collections.railyard.fabric.plugins.module_utils.rail_socket import packet_socket

#: IEEE 802 Local Experimental EtherType 1.
ETHERTYPE = 0x88B5
_BROADCAST = b"\xff" * 6
_HEADER = struct.Struct("!6s6sH")
_MAGIC = b"RYB1"
_SEAL_BYTES = 16
_RUN_BYTES = 8
_LEAST_FRAME_BYTES = 60
_LONGEST_NAME_BYTES = 255
# Python has no name for it: a frame that this host sent itself.
PACKET_OUTGOING = 4


class Beacon(NamedTuple):
    """Who says that it is on this wire, and the MAC address that it sent from."""

    node: str
    rail: str
    mac: str


class Seal:
    """Makes and reads the beacons of one run."""

    def __init__(self, run: str, secret: str) -> None:
        self._run = hashlib.sha256(run.encode()).digest()[:_RUN_BYTES]
        self._key = hashlib.sha256(b"railyard beacon " + secret.encode()).digest()

    def frame(self, mac: bytes, node: str, rail: str) -> bytes:
        """Return the whole Ethernet frame of a node's rail."""
        body = self._run + _text(node) + _text(rail)
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
        rail, end = _name(rest, after)
        if ethertype != ETHERTYPE or node is None or rail is None or rest[:_RUN_BYTES] != self._run:
            return None
        if not hmac.compare_digest(seal, self._sign(mac, rest[:end])):
            return None
        return Beacon(node, rail, mac_text(mac))

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
    while True:
        try:
            frame, origin = sock.recvfrom(2048)
        except BlockingIOError:
            return found, strangers
        if origin[2] == PACKET_OUTGOING:
            continue
        one = seal.read(frame)
        if one is None:
            strangers += 1
        else:
            found.append(one)


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
