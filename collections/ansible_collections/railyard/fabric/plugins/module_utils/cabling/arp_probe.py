# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Questions to one neighbour on a rail: who answers for its address, and by which rail are replies sent?

IPv4; each takes a fraction of a second where somebody answers.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import bounded
from ..channel.arp import hear, request
from ..channel.rail_socket import Place, bind_to_rail, packet_socket
from .beacon import PACKET_OUTGOING

_ETH_P_IP, _ETH_P_ARP = 0x0800, 0x0806
# A busy node answers late: listen longer, and send again, only where there is no reply.
_LISTEN_S = (0.4, 1.0, 2.0)
_SLICE_S = 0.05
# So many looks are taken beyond that time; traffic without end must not hold the run.
_MOST_LATE = 1000
_ECHOES = 3
_ECHO = struct.Struct("!BBHHH")
_ECHO_REQUEST, _ECHO_REPLY = 8, 0
_TOKEN_BYTES = 16
_PATIENCE_S = 5


def claimants(place: Place, addresses: Sequence[str]) -> dict[str, list[str]]:
    """Return, for each requested address on the rail, the MAC addresses that claim it.

    The first address is the one that has to have an owner there.

    Raises:
        OSError: packets cannot be sent there.
    """
    with packet_socket(place.netdev, _ETH_P_ARP) as sock:
        own_mac = sock.getsockname()[4]
        requests = [request(own_mac, place.address, address) for address in addresses]
        heard = hear(sock, requests, addresses, addresses[:1])
    return {address: sorted(heard.get(address)) for address in addresses}


def replies(place: Place, peer_address: str, netdevs: Mapping[str, str]) -> dict[str, int]:
    """Ping the peer over one rail and count the replies on every rail.

    Args:
        place: the rail.
        peer_address: the peer's address on it.
        netdevs: all own rails, rail name -> netdev.

    Returns:
        rail name -> replies that arrived on its netdev, whatever the kernel made of them afterwards.

    Raises:
        OSError: packets cannot be sent there.
    """
    token, identity = os.urandom(_TOKEN_BYTES), int.from_bytes(os.urandom(2), "big")
    counts = dict.fromkeys(netdevs, 0)
    ears: dict[int, tuple[socket.socket, str]] = {}
    try:
        for rail, netdev in netdevs.items():
            ear = packet_socket(netdev, _ETH_P_IP, socket.SOCK_DGRAM)
            ears[ear.fileno()] = (ear, rail)
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as sock:
            bind_to_rail(sock, place)
            sock.bind((place.address, 0))
            for attempt, listen_s in enumerate(_LISTEN_S):
                if any(counts.values()):
                    break
                for number in range(_ECHOES):
                    sock.sendto(echo(identity, _ECHOES * attempt + number, token), (peer_address, 0))
                deadline = time.monotonic() + listen_s
                late = 0
                while late < _MOST_LATE and sum(counts.values()) < _ECHOES:
                    # What has come is read after the deadline too: a process that was held up has missed
                    # nothing.
                    over = time.monotonic() >= deadline
                    late += over
                    heard = select.select(list(ears), [], [], 0.0 if over else _SLICE_S)[0]
                    if over and not heard:
                        break
                    for ready in heard:
                        ear, rail = ears[ready]
                        packet, origin = ear.recvfrom(2048)
                        if origin[2] != PACKET_OUTGOING and is_reply(packet, peer_address, identity, token):
                            counts[rail] += 1
    finally:
        for ear, _rail in ears.values():
            ear.close()
    return counts


def echo(identity: int, number: int, token: bytes) -> bytes:
    """Return an ICMP echo request."""
    blank = _ECHO.pack(_ECHO_REQUEST, 0, 0, identity, number) + token
    return _ECHO.pack(_ECHO_REQUEST, 0, _checksum(blank), identity, number) + token


def is_reply(packet: bytes, peer_address: str, identity: int, token: bytes) -> bool:
    """Tell whether an IPv4 packet is the peer's reply to one of our requests."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_ICMP:
        return False
    at = (packet[0] & 0x0F) * 4
    if len(packet) < at + _ECHO.size + len(token) or packet[12:16] != socket.inet_aton(peer_address):
        return False
    kind, _code, _sum, told, _number = _ECHO.unpack_from(packet, at)
    return kind == _ECHO_REPLY and told == identity and packet[at + _ECHO.size :][: len(token)] == token


def route_netdev(own_address: str, peer_address: str) -> str | None:
    """Return the netdev by which this node would reply to the peer; None where iproute2 does not tell."""
    argv = ["ip", "-j", "route", "get", peer_address, "from", own_address]
    try:
        return read_route(bounded.ask(argv, _PATIENCE_S, subprocess.DEVNULL).text)
    except bounded.ToolError:
        return None


def read_route(text: str) -> str | None:
    """Read the netdev from `ip -j route get`."""
    try:
        routes: Any = json.loads(text)
    except ValueError:
        return None
    first = routes[0] if isinstance(routes, list) and routes else None
    netdev = first.get("dev") if isinstance(first, Mapping) else None
    return netdev if isinstance(netdev, str) else None


def _checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
