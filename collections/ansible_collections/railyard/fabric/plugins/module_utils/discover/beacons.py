# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Send and hear beacons on many ports at once: which ports of which nodes share a network.

Without IP and without a switch's help. A beacon's node is the node's key, its rail the netdev's name.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Optional

from .. import node_files
from ..cabling import beacon, lldp
from ..records.bare_node import BareNode, Heard
from .ports import lldp_rows

#: Each port takes two sockets of the 1024 that a process may have.
MOST_PORTS = 256
# A port of a network that all ports of a thousand nodes share.
_MOST_SENDERS = 4096
_MOST_LLDP_FRAMES = 64
_KINDS = ("physical", "veth")
_ARPHRD_ETHER = 1
# <linux/sockios.h>, <linux/if.h>: struct ifreq with a name of 16 bytes, then flags.
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
_IFREQ = struct.Struct("16sH22x")


class Wanted(NamedTuple):
    """A port that is to send and hear.

    Attributes:
        netdev: its name.
        is_raised: whether it is to be raised if it is down, and put down again.
        why_not: why it neither sends nor hears; None for one that does.
    """

    netdev: str
    is_raised: bool = False
    why_not: Optional[str] = None  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it


def wanted(node: BareNode, link_up: bool) -> list[Wanted]:
    """Return a node's Ethernet ports; an InfiniBand port carries no such frames.

    Args:
        node: the node.
        link_up: whether ports that are administratively down are to be raised.
    """
    rows = {row["netdev"]: row for row in node["facts"]["netdevs"]}
    found: list[Wanted] = []
    for port in node["ports"]:
        row = rows.get(port["netdev"] or "")
        if row is None or row["kind"] not in _KINDS:
            continue
        is_down, why_not = row["admin_up"] is False, None
        if len(found) >= MOST_PORTS:
            why_not = f"beacons are sent on {MOST_PORTS} ports of a node at most"
        elif is_down and port["is_virtual_function"]:
            why_not = "it is a virtual function and administratively down"
        elif is_down and not link_up:
            why_not = "it is administratively down; --link-up raises it meanwhile"
        found.append(Wanted(row["netdev"], is_down and why_not is None, why_not))
    return found


class Ports:
    """All ports of a node: opened, heard and closed together."""

    def __init__(self, ports: Sequence[Wanted], key: str, run: str, secret: str) -> None:
        """Remember what is wanted; nothing is opened yet."""
        seal = beacon.Seal(run, secret)
        self._ports = [_Port(one, key, seal) for one in ports]

    def open(self) -> None:
        """Open all sockets, and raise what is to be raised."""
        for port in self._ports:
            port.open()

    def sources(self) -> Iterator[tuple[socket.socket, Callable[[], None]]]:
        """Yield each socket with what reads it."""
        for port in self._ports:
            yield from port.sources

    def send(self) -> None:
        """Send one beacon on each port."""
        for port in self._ports:
            port.send()

    def close(self) -> None:
        """Close all sockets and put down what was raised; raises nothing."""
        for port in self._ports:
            port.close()

    def heard(self) -> list[Heard]:
        """Return what each port heard."""
        return [port.heard() for port in self._ports]


class _Port:
    """One port: its sockets, and what it heard."""

    def __init__(self, wanted_port: Wanted, key: str, seal: beacon.Seal) -> None:
        self._netdev, self._is_raised, self._error = wanted_port
        self._key, self._seal = key, seal
        self._frame = b""
        self._sock: socket.socket | None = None
        self._switch: socket.socket | None = None
        self._was_raised = False
        self._senders: dict[tuple[str, str, str], None] = {}
        self._neighbours: dict[lldp.Neighbour, None] = {}
        self._strangers = 0
        self._speed_mbps: int | None = None

    @property
    def sources(self) -> Iterator[tuple[socket.socket, Callable[[], None]]]:
        if self._sock is not None:
            yield self._sock, self._hear
        if self._switch is not None:
            yield self._switch, self._hear_switch

    def open(self) -> None:
        if self._error is not None:
            return
        try:
            if self._is_raised:
                self._was_raised = set_up(self._netdev, True)
            self._sock = beacon.open_socket(self._netdev)
            address = self._sock.getsockname()
            if address[3] != _ARPHRD_ETHER:
                raise OSError(errno.EPROTONOSUPPORT, "it is not Ethernet")
            self._frame = self._seal.frame(address[4], self._key, self._netdev, beacon.new_nonce())
        except OSError as error:
            self._error = _explain(error)
            self._end_sockets()
            return
        with contextlib.suppress(OSError):
            self._switch = lldp.open_socket(self._netdev)

    def send(self) -> None:
        if self._sock is not None:
            # Without a link there is nothing to send on yet; what is wrong at the end is the carrier's.
            try:
                self._sock.send(self._frame)
            except OSError as error:
                self._note(error)

    def _hear(self) -> None:
        if self._sock is None:
            return
        try:
            beacons, strangers = beacon.heard(self._sock, self._seal)
        except OSError as error:
            self._note(error)
            return
        self._strangers += strangers
        for one in beacons:
            if len(self._senders) < _MOST_SENDERS:
                self._senders[one.node, one.rail, one.mac] = None

    def _hear_switch(self) -> None:
        for _frame in range(_MOST_LLDP_FRAMES):
            try:
                frame, origin = self._switch.recvfrom(2048) if self._switch else (b"", (0, 0, 0))
            except OSError:
                return
            one = lldp.read(frame) if origin[2] != beacon.PACKET_OUTGOING else None
            if one is not None and len(self._neighbours) < lldp.MOST:
                self._neighbours[one] = None

    def _note(self, error: OSError) -> None:
        """Keep what makes a port deaf for good: its netdev is gone."""
        if error.errno in (errno.ENODEV, errno.ENXIO):
            self._error = "its netdev was removed meanwhile"

    def close(self) -> None:
        carrier = node_files.read_word(os.path.join("/sys/class/net", self._netdev, "carrier"), 8)
        if self._error is None and carrier != "1" and not self._senders:
            self._error = "it has no carrier"
        if self._was_raised:
            self._speed_mbps = _speed_mbps(self._netdev)
        self._end_sockets()
        if self._was_raised:
            try:
                set_up(self._netdev, False)
            except OSError as error:
                if error.errno != errno.ENODEV:
                    self._error = f"it was raised and could not be put down again: {_explain(error)}"

    def _end_sockets(self) -> None:
        for sock in (self._sock, self._switch):
            if sock is not None:
                sock.close()
        self._sock = self._switch = None

    def heard(self) -> Heard:
        return {
            "netdev": self._netdev,
            "senders": [
                {"key": key, "netdev": netdev, "mac": mac} for key, netdev, mac in sorted(self._senders)
            ],
            "strangers": self._strangers,
            "raised": self._was_raised,
            "error": self._error,
            "neighbours": lldp_rows(self._neighbours),
            "speed_mbps": self._speed_mbps,
        }


def _speed_mbps(netdev: str) -> int | None:
    """Return what a port's link runs at, None where it is down or no speed is known."""
    text = node_files.read_word(os.path.join("/sys/class/net", netdev, "speed"), 16)
    # The kernel prints -1, or the same as an unsigned number, where it knows none.
    return int(text) if text.isdecimal() and 0 < int(text) < 1 << 31 else None


def set_up(netdev: str, up: bool) -> bool:
    """Set a netdev administratively up or down; return whether it was not so before.

    Raises:
        OSError: not root, or there is no such netdev.
    """
    name = os.fsencode(netdev)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, _IFREQ.pack(name, 0))
        _name, flags = _IFREQ.unpack(answer)
        if bool(flags & _IFF_UP) == up:
            return False
        fcntl.ioctl(sock, _SIOCSIFFLAGS, _IFREQ.pack(name, flags ^ _IFF_UP))
    return True


def _explain(error: OSError) -> str:
    if error.errno in (errno.EPERM, errno.EACCES):
        return "beacons need root on the node; let the user become root with sudo"
    return error.strerror or str(error)
