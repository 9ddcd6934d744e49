# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the machines that answer ARP for an address on a rail: a duplicate address breaks tests in many ways.

Sends ARP requests like RFC 5227 for this node's address (from 0.0.0.0) and for the partner's, directly on the
netdev, since the kernel does not show a second reply. IPv4 only: for IPv6 the kernel has duplicate address
detection.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence

from .errors import MeasurementError
from .rail_socket import Place, packet_socket

_ETH_P_ARP = 0x0806
_FRAME = struct.Struct("!6s6sHHHBBH6s4s6s4s")
_REQUEST, _REPLY = 1, 2
# How long to listen after each request. A second owner gets two requests; more are sent only while the
# expected owner is silent, since its node may be busy.
_LISTEN_S = (0.15, 0.4, 1.0, 2.0)
_ASKED_ALWAYS = 2
_SLICE_S = 0.05
# How many frames are read beyond that time; a broadcast storm must not block the run.
_MOST_LATE = 1000


class Claimants:
    """The MAC addresses that claim each address."""

    def __init__(self) -> None:
        self.macs: dict[str, set[str]] = {}

    def get(self, address: str) -> set[str]:
        """Return the claimants of an address."""
        return self.macs.get(address, set())

    def heard(self, frame: bytes, asked: Sequence[str]) -> None:
        """Read an ARP frame: a reply, or a request whose sender has one of the addresses."""
        if len(frame) < _FRAME.size:
            return
        parts = _FRAME.unpack(frame[: _FRAME.size])
        ethertype, operation, sender_mac, sender_ip = parts[2], parts[7], parts[8], parts[9]
        address = socket.inet_ntoa(sender_ip)
        if ethertype == _ETH_P_ARP and operation in (_REQUEST, _REPLY) and address in asked:
            self.macs.setdefault(address, set()).add(mac_text(sender_mac))


def mac_text(mac: bytes) -> str:
    """Return a MAC address as text."""
    return ":".join(f"{byte:02x}" for byte in mac)


def request(own_mac: bytes, sender_ip: str, target_ip: str) -> bytes:
    """Return a broadcast ARP request frame."""
    return _FRAME.pack(
        b"\xff" * 6,
        own_mac,
        _ETH_P_ARP,
        1,
        0x0800,
        6,
        4,
        _REQUEST,
        own_mac,
        socket.inet_aton(sender_ip),
        b"\0" * 6,
        socket.inet_aton(target_ip),
    )


def hear(
    sock: socket.socket, requests: Sequence[bytes], asked: Sequence[str], awaited: Sequence[str] = ()
) -> Claimants:
    """Send the requests twice, and again while an awaited address has no owner; return the claimants.

    A process that was delayed sends and reads after its time is over: else the reply of a second owner would
    stay
    unread behind the first one.

    Raises:
        OSError: packets cannot be sent there.
    """
    claimants = Claimants()
    for number, listen_s in enumerate(_LISTEN_S):
        if number >= _ASKED_ALWAYS and all(claimants.get(address) for address in awaited):
            break
        for frame in requests:
            sock.send(frame)
        _listen(sock, listen_s, claimants, asked)
    return claimants


def _listen(sock: socket.socket, listen_s: float, claimants: Claimants, asked: Sequence[str]) -> None:
    deadline = time.monotonic() + listen_s
    late = 0
    while late < _MOST_LATE:
        over = time.monotonic() >= deadline
        late += over
        if select.select([sock], [], [], 0.0 if over else _SLICE_S)[0]:
            frame, origin = sock.recvfrom(2048)
            if origin[2] != socket.PACKET_OUTGOING:
                claimants.heard(frame, asked)
        elif over:
            break


def probe(place: Place, peer_address: str) -> Claimants | None:
    """Probe this node's address and the partner's; None if impossible (IPv6, not root, no netdev)."""
    if ":" in place.address or ":" in peer_address:
        return None
    try:
        with packet_socket(place.netdev, _ETH_P_ARP) as sock:
            own_mac = sock.getsockname()[4]
            # RFC 5227: a probe for the node's own address has no sender address, so that no cache is changed.
            requests = (
                request(own_mac, "0.0.0.0", place.address),  # noqa: S104 - an ARP field, nothing is bound
                request(own_mac, place.address, peer_address),
            )
            return hear(sock, requests, (place.address, peer_address))
    except OSError:
        return None


def but_proxies(
    place: Place, peer_address: str, claimants: Claimants | None, node_macs: Sequence[str]
) -> Claimants | None:
    """Leave out machines that answer for both addresses and are neither node: proxy ARP, or a cloud's fabric.

    They do not conflict with the owners. A machine that took an address answers only for that one.
    """
    if claimants is None:
        return None
    both = claimants.get(place.address) & claimants.get(peer_address) - set(node_macs)
    left = Claimants()
    left.macs = {address: macs - both for address, macs in claimants.macs.items()}
    return left


def own_conflict(
    place: Place, claimants: Claimants | None, own_macs: Sequence[str]
) -> MeasurementError | None:
    """Return an error if another machine claims this node's address, or None.

    The node's other netdevs do not count: on rails that share a segment they may answer for each other.
    """
    others = sorted(claimants.get(place.address) - set(own_macs)) if claimants else []
    if not others:
        return None
    return _in_use(place.host, place.rail, place.address, place.host, others)


def peer_conflict(
    place: Place, peer: str, peer_address: str, claimants: Claimants | None, peer_macs: list[str] | None
) -> MeasurementError | None:
    """Return an error if another machine claims the partner's address, or None.

    Without the partner's MAC addresses (it was not met) two claimants are a conflict and one is not.
    """
    heard = sorted(claimants.get(peer_address)) if claimants else []
    if peer_macs is not None:
        heard = [mac for mac in heard if mac not in peer_macs]
        return _in_use(peer, place.rail, peer_address, place.host, heard) if heard else None
    return _in_use(peer, place.rail, peer_address, place.host, heard) if len(heard) > 1 else None


def _in_use(owner: str, rail: str, address: str, seen_from: str, macs: list[str]) -> MeasurementError:
    return MeasurementError(
        "address_in_use",
        "{}, the address of {} on {}, is also claimed by {} (heard by {})".format(
            address, owner, rail, " and ".join(macs), seen_from
        ),
        owner,
        "find the machine with that MAC address (switch MAC table, ip neigh) and give it another address",
    )
