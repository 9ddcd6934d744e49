# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Open sockets that are bound to a rail, and read the kernel's tables of sockets."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from .. import node_files
from .errors import ErrorClass, MeasurementError

# A path that drops large packets must not block the rendezvous that reports it.
_SMALL_SEGMENT_BYTES = 1000
# Above every port of `registry.tool_port` for up to 32 rails, and below the ephemeral ones.
_PORTS_APART = 4096
_PORTS_TO_TRY = 4
# <asm-generic/socket.h>: more than net.core.rmem_max, for root. Python has no name for it.
_SO_RCVBUFFORCE = 33
# 256 beacons fill the usual 208 KiB, and a thousand nodes send them in 38 ms; a node may have less.
_RECEIVE_BUFFER_BYTES = 8 << 20
_LISTEN = "0A"
_ESTABLISHED = "01"
# An IPv4 address as an IPv6 socket shows it.
_MAPPED = b"\0" * 10 + b"\xff\xff"


class Place(NamedTuple):
    """A node's address and netdev on a rail.

    For an InfiniBand rail without IP `management` is set: the address is the node's on the management
    network, over
    which the two ends meet instead, and the netdev may be empty.
    """

    host: str
    rail: str
    netdev: str
    address: str
    management: bool = False

    @property
    def way(self) -> str:
        """Return the network over which the ends meet, for messages."""
        return f"the management network (for {self.rail})" if self.management else self.rail

    def error(self, error_class: ErrorClass, message: str, fix: str) -> MeasurementError:
        """Return an error of this node."""
        return MeasurementError(error_class, message, self.host, fix)


class SocketRow(NamedTuple):
    """A line of /proc/net/tcp or tcp6: addresses as bytes in network order."""

    local: bytes
    local_port: int
    remote: bytes
    remote_port: int
    state: str
    inode: int


def packet_socket(netdev: str, ethertype: int, kind: int = socket.SOCK_RAW) -> socket.socket:
    """Open a packet socket that receives one EtherType on one netdev, and never anything else.

    A packet socket that is created with its protocol receives from every netdev until it is bound, so a reply
    on another rail could be taken for one of this rail. With protocol 0 it receives nothing (packet(7)).

    Args:
        netdev: the netdev.
        ethertype: as in the frame, in host byte order.
        kind: SOCK_RAW (frames with their Ethernet header) or SOCK_DGRAM (without).

    Raises:
        OSError: not root, no such netdev, or no packet sockets.
    """
    sock = socket.socket(socket.AF_PACKET, kind, 0)
    try:
        enlarge_receive_buffer(sock)
        sock.bind((netdev, ethertype))
    except OSError:
        sock.close()
        raise
    return sock


def enlarge_receive_buffer(sock: socket.socket) -> None:
    """Enlarge a socket's receive buffer for the time in which its process has no CPU."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
    except OSError:  # not root: what net.core.rmem_max allows
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)


def family_of(address: str) -> int:
    """Return AF_INET6 for an address with a colon, else AF_INET."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def bind_to_rail(sock: socket.socket, place: Place) -> None:
    """Bind the socket to the rail's netdev; without root the address alone has to do.

    The proof by counters detects traffic that takes another path. The management network is routed by the
    node.
    """
    if place.management:
        return
    with contextlib.suppress(PermissionError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, place.netdev.encode() + b"\0")


def tune(sock: socket.socket) -> None:
    """Let a rendezvous connection detect a dead partner within seconds, and keep its packets small."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, _SMALL_SEGMENT_BYTES)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 3)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 12000)


def listen(place: Place, port: int) -> socket.socket:
    """Open the rail's rendezvous listener.

    Raises:
        MeasurementError: `no_netdev`, `no_address`, `no_management` or `port_taken`, with the fix.
    """
    sock: socket.socket | None = None
    try:
        sock = socket.socket(family_of(place.address), socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bind_to_rail(sock, place)
        tune(sock)
        sock.bind((place.address, port))
        sock.listen(64)
    except OSError as error:
        if sock is not None:
            sock.close()
        raise bind_failure(place, port, error) from error
    return sock


def bind_failure(place: Place, port: int, error: OSError) -> MeasurementError:
    """Return why the rail's address and port could not be used."""
    if place.management and error.errno == errno.EADDRNOTAVAIL:
        return no_management(place.host, place.rail, f"{place.host} does not have {place.address} now")
    if error.errno == errno.ENODEV or not os.path.isdir("/sys/class/net/" + place.netdev):
        return place.error(
            "no_netdev",
            f"{place.host} has no netdev {place.netdev}, which {place.rail} needs",
            "set the rail's netdev to one that exists (ip -br link), or fix the NIC",
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return place.error(
            "no_address",
            f"{place.host} does not have the address {place.address} of {place.rail} on {place.netdev}",
            f"provision the rails (railyard provision), then check: ip addr show dev {place.netdev}",
        )
    if error.errno == errno.EADDRINUSE:
        return port_taken(place, port)
    return place.error(
        "internal",
        f"cannot listen on {place.address} port {port} of {place.netdev}: {error}",
        f"check the address and the netdev: ip addr show dev {place.netdev}",
    )


def no_management(host: str, rail: str, why: str) -> MeasurementError:
    """Return the error of a rail without IP whose ends cannot meet: the management address is unknown."""
    return MeasurementError(
        "no_management",
        f"{rail} of {host} has no IP, so the ends meet over the management network, where the address of "
        f"{host} is unknown: {why}",
        host,
        f"set the host variable management_address of {host} to an address that the other nodes can reach, "
        "or give the rails a subnet (IPoIB)",
    )


def port_taken(place: Place, port: int) -> MeasurementError:
    """Return the error of a TCP port in use, with the process where it is visible."""
    return place.error(
        "port_taken",
        f"TCP port {port} on {place.address} ({place.host}) is in use{_holder(port)}",
        f"stop what listens there (ss -ltnp 'sport = :{port}') or set policy.base_port",
    )


def is_listening(address: str, port: int) -> bool:
    """Return whether a TCP socket listens on the port, on this address or on all; without connecting."""
    for row in _tcp_rows(address):
        if row.state == _LISTEN and row.local_port == port and _covers(row.local, address):
            return True
    return False


def past_closing(address: str, port: int) -> int:
    """Return the port, or a higher one while the kernel still has closed connections of this one.

    A tool that was killed leaves its port in TIME_WAIT for a minute, and sockperf cannot bind it then. A port
    with a listening process is returned unchanged: that process has to be reported, not avoided.
    """
    for candidate in range(port, port + _PORTS_TO_TRY * _PORTS_APART, _PORTS_APART):
        rows = [row for row in _tcp_rows(address) if row.local_port == candidate]
        if not rows or any(row.state == _LISTEN for row in rows):
            return candidate
    return port


def is_connected(address: str, port: int) -> bool:
    """Return whether this host has a TCP connection to the address and port."""
    packed = socket.inet_pton(family_of(address), address)
    return any(
        row.state == _ESTABLISHED and row.remote_port == port and row.remote == packed
        for row in _tcp_rows(address)
    )


def callers(address: str, port: int) -> set[tuple[str, int]]:
    """Return address and port of each peer with a current or recent TCP connection to a port of this host."""
    found = set()
    for row in _tcp_rows(address):
        if row.state != _LISTEN and row.local_port == port and _covers(row.local, address):
            raw = row.remote[12:] if row.remote.startswith(_MAPPED) else row.remote
            caller = socket.inet_ntop(socket.AF_INET if len(raw) == 4 else socket.AF_INET6, raw)
            found.add((caller, row.remote_port))
    return found


def parse_tcp_table(text: str) -> Iterator[SocketRow]:
    """Yield the rows of /proc/net/tcp or tcp6; other lines are skipped."""
    for line in text.splitlines()[1:]:
        words = line.split()
        if len(words) < 10:
            continue
        local, local_port = _endpoint(words[1])
        remote, remote_port = _endpoint(words[2])
        yield SocketRow(local, local_port, remote, remote_port, words[3], int(words[9]))


def _endpoint(word: str) -> tuple[bytes, int]:
    address, port = word.split(":")
    raw = bytes.fromhex(address)
    # The kernel prints each 32-bit word in the host's byte order.
    swapped = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return swapped, int(port, 16)


def _covers(local: bytes, address: str) -> bool:
    packed = socket.inet_pton(family_of(address), address)
    return not any(local) or local in (packed, _MAPPED + packed)


def _tcp_rows(address: str) -> Iterator[SocketRow]:
    # An IPv6 socket that listens on all addresses accepts IPv4 too, so both tables count.
    tables = ("/proc/self/net/tcp6",) if ":" in address else ("/proc/self/net/tcp", "/proc/self/net/tcp6")
    for table in tables:
        yield from parse_tcp_table(node_files.read_text(table) or "")


def _holder(port: int) -> str:
    """Return ` by NAME (pid N)` for the process that listens on the port, or nothing where it is unknown."""
    inodes = {
        f"socket:[{row.inode}]"
        for address in ("0.0.0.0", "::")  # noqa: S104 - which family's table to read, nothing is bound
        for row in _tcp_rows(address)
        if row.state == _LISTEN and row.local_port == port
    }
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if _holds(pid, inodes):
            return f" by {node_files.read_word(f'/proc/{pid}/comm') or 'a process'} (pid {pid})"
    return ""


def _holds(pid: str, inodes: set[str]) -> bool:
    folder = f"/proc/{pid}/fd"
    try:
        return any(os.readlink(os.path.join(folder, name)) in inodes for name in os.listdir(folder))
    except OSError:
        return False
