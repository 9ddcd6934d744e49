# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who answers for an address on a rail? Two machines with one address break every test in their own way.

Asks by ARP, as RFC 5227 does, for the own address (from 0.0.0.0) and for the partner's, straight on the
netdev, since the kernel never tells of a second answer. IPv4 only: IPv6 has its own duplicate detection
in the kernel.
"""

from __future__ import annotations

import select
import socket
import struct
import time
from collections.abc import Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place, packet_socket

_ETH_P_ARP = 0x0806
_FRAME = struct.Struct("!6s6sHHHBBH6s4s6s4s")
_REQUEST, _REPLY = 1, 2
# It is listened for so long after each question. A second owner has two to answer; the others are asked only
# where an owner who has to be there is silent: his node may be held up.
_LISTEN_S = (0.15, 0.4, 1.0, 2.0)
_ASKED_ALWAYS = 2
_SLICE_S = 0.05
# So many frames are read beyond that time; a storm must not hold the run.
_MOST_LATE = 1000


class Claimants:
    """The MAC addresses that were heard to claim each address."""

    def __init__(self) -> None:
        self.macs: dict[str, set[str]] = {}

    def of(self, address: str) -> set[str]:
        """Return the claimants of an address."""
        return self.macs.get(address, set())

    def heard(self, frame: bytes, asked: Sequence[str]) -> None:
        """Take note of an ARP frame: a reply, or a request in which somebody claims one of the addresses."""
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
    """Return an ARP request frame to everybody."""
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
    """Send the requests twice, again while an awaited address has no owner; return who claims the addresses.

    A process that is held up finds its time over when it wakes. It asks and reads what has come all the same:
    else the answer of a second owner would lie unread behind the first's.

    Raises:
        OSError: packets cannot be sent there.
    """
    claimants = Claimants()
    for number, listen_s in enumerate(_LISTEN_S):
        if number >= _ASKED_ALWAYS and all(claimants.of(address) for address in awaited):
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
    """Ask for the own address and the partner's; None when it cannot be asked (IPv6, not root, no netdev)."""
    if ":" in place.address or ":" in peer_address:
        return None
    try:
        with packet_socket(place.netdev, _ETH_P_ARP) as sock:
            own_mac = sock.getsockname()[4]
            # RFC 5227: a probe for the own address carries no sender address, so that no cache is spoilt.
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
    """Leave out who answers for both addresses and is neither node: proxy ARP, or a cloud's fabric.

    Whose an address is, it does not tell, and it is in nobody's way. A machine that took an address has
    that one alone.
    """
    if claimants is None:
        return None
    both = claimants.of(place.address) & claimants.of(peer_address) - set(node_macs)
    left = Claimants()
    left.macs = {address: macs - both for address, macs in claimants.macs.items()}
    return left


def own_conflict(
    place: Place, claimants: Claimants | None, own_macs: Sequence[str]
) -> MeasurementError | None:
    """Return the failure when another machine claims this node's own address.

    The node's other netdevs are no strangers: on rails that share a segment they may answer for each other.
    """
    others = sorted(claimants.of(place.address) - set(own_macs)) if claimants else []
    if not others:
        return None
    return _in_use(place.host, place.rail, place.address, place.host, others)


def peer_conflict(
    place: Place, peer: str, peer_address: str, claimants: Claimants | None, peer_macs: list[str] | None
) -> MeasurementError | None:
    """Return the failure when somebody else claims the partner's address.

    Without the partner's own MAC addresses (it was not met) two claimants are a conflict and one is not.
    """
    heard = sorted(claimants.of(peer_address)) if claimants else []
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
