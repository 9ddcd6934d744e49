# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what a switch announces by LLDP (IEEE 802.1AB), from frames or from lldpd.

A switch speaks every 30 s as a rule, so the socket stays open while the run does its other work; silence says
nothing about the cable. Nothing in a frame proves who sent it; but no bridge passes on what is sent to LLDP's
own addresses, so that it comes from the cable's other end.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import bounded
from ..channel.rail_socket import packet_socket

ETHERTYPE = 0x88CC
_HEADER_BYTES = 14
# <linux/if_packet.h>; Python has no names for them.
_SOL_PACKET, _ADD_MEMBERSHIP, _MULTICAST = 263, 1, 0
_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
# IEEE 802.1AB: nearest bridge, nearest non-TPMR bridge, nearest customer bridge.
_ADDRESSES = (_NEAREST_BRIDGE, bytes.fromhex("0180c2000003"), bytes.fromhex("0180c2000000"))
_END, _CHASSIS, _PORT, _SYSTEM_NAME = 0, 1, 2, 5
# Subtypes whose value is a MAC address, of a chassis and of a port.
_MAC_CHASSIS, _MAC_PORT = 4, 3
_PATIENCE_S = 5
#: A port with more neighbours than this has a hub behind it: more names would not help.
MOST = 4


class Neighbour(NamedTuple):
    """Who is at the other end of the cable, as it says itself."""

    switch: str | None
    chassis: str
    port: str


def read(frame: bytes) -> Neighbour | None:
    """Return the neighbour of an LLDP frame; None if it is damaged, of another kind, or from afar."""
    if len(frame) < _HEADER_BYTES or int.from_bytes(frame[12:14], "big") != ETHERTYPE:
        return None
    if frame[:6] not in _ADDRESSES:
        return None
    values: dict[int, bytes] = {}
    at = _HEADER_BYTES
    while at + 2 <= len(frame):
        head = int.from_bytes(frame[at : at + 2], "big")
        kind, length = head >> 9, head & 0x1FF
        at += 2
        if kind == _END:
            break
        if at + length > len(frame):
            return None
        values.setdefault(kind, frame[at : at + length])
        at += length
    if _CHASSIS not in values or _PORT not in values:
        return None
    name = values.get(_SYSTEM_NAME, b"").decode("utf-8", "replace").strip("\0 ") or None
    port = _identity(values[_PORT], _MAC_PORT)
    return Neighbour(name, _identity(values[_CHASSIS], _MAC_CHASSIS), port)


def open_socket(netdev: str) -> socket.socket:
    """Open a socket that hears LLDP on one netdev.

    Raises:
        OSError: not root, no such netdev, or no packet sockets.
    """
    sock = packet_socket(netdev, ETHERTYPE)
    try:
        request = struct.pack("=IHH8s", socket.if_nametoindex(netdev), _MULTICAST, 6, _NEAREST_BRIDGE)
        sock.setsockopt(_SOL_PACKET, _ADD_MEMBERSHIP, request)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def daemon_says() -> dict[str, list[Neighbour]]:
    """Return netdev -> neighbours as lldpd knows them; nothing where there is no lldpd."""
    try:
        return read_lldpctl(bounded.ask(["lldpctl", "-f", "json"], _PATIENCE_S, subprocess.DEVNULL).text)
    except bounded.ToolError:
        return {}


def read_lldpctl(text: str) -> dict[str, list[Neighbour]]:
    """Read `lldpctl -f json`: `interface` is an object for one neighbour, a list of them for more."""
    try:
        told = json.loads(text).get("lldp", {}).get("interface", {})
    except (ValueError, AttributeError):
        return {}
    found: dict[str, list[Neighbour]] = {}
    for one in told if isinstance(told, list) else [told]:
        for netdev, entry in one.items() if isinstance(one, Mapping) else ():
            if isinstance(entry, Mapping):
                found.setdefault(str(netdev), []).append(_entry(entry))
    return found


def _entry(entry: Mapping[str, Any]) -> Neighbour:
    chassis = entry.get("chassis")
    name: str | None = None
    if isinstance(chassis, Mapping) and "id" not in chassis and len(chassis) == 1:
        # The system's name is the key; a system without one has its fields there instead.
        (name, chassis) = next(iter(chassis.items()))
    port = entry.get("port")
    return Neighbour(name, _value(chassis), _value(port))


def _value(part: object) -> str:
    identity = part.get("id") if isinstance(part, Mapping) else None
    value = identity.get("value") if isinstance(identity, Mapping) else None
    return str(value) if value is not None else ""


def _identity(value: bytes, mac_subtype: int) -> str:
    if value[:1] == bytes((mac_subtype,)) and len(value) == 7:
        return ":".join(f"{byte:02x}" for byte in value[1:])
    return value[1:].decode("utf-8", "replace").strip("\0 ")
