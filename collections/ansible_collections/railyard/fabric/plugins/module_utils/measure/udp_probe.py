# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure the one-way path MTU: unfragmented datagrams, counted by the receiver.

ping does not show which direction has the small MTU, since its replies are as large as its requests. Here
only the direction from client to server is tested.
"""

from __future__ import annotations

import errno
import secrets
import select
import socket
import struct
import time
from collections.abc import Mapping
from typing import Any

from ..channel.rail_socket import bind_failure, bind_to_rail, enlarge_receive_buffer, family_of
from . import path_mtu
from .base import Reading, Tool, ToolSession, tool_failed
from .proof import Claim

# <linux/in.h>: set "do not fragment" and ignore the path MTU that the kernel has cached. Python has no names
# for them.
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE = 10, 3
_IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_PROBE = 23, 3
# How many other datagrams are skipped before the probe gives up.
_MOST_FOREIGN = 1000
_TOKEN = struct.Struct("!16sI")


class UdpProbe(Tool):
    """Sends sized datagrams with DF set over the rail; the receiver counts them."""

    name = "udp_probe"

    def __init__(self) -> None:
        self._server: socket.socket | None = None

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of the search, which a healthy rail does not need."""
        return 45.0

    def client(self, session: ToolSession) -> Reading:
        """Find the largest datagram that reaches the server."""
        totals = {"sent": 0, "received": 0}

        def batch(size_bytes: int, count: int) -> int:
            sent = send(session, sock, size_bytes, count, token)
            counted = session.ask({"token": token.hex(), "bytes": size_bytes, "sent": sent}) if sent else {}
            received = int(counted.get("received", 0))
            totals["sent"] += sent
            totals["received"] += received
            session.note(f"{size_bytes} bytes: sent {sent}, received {received}\n")
            return received

        def passes(size_bytes: int, count: int) -> int:
            received = 0
            for at_once in path_mtu.batches(count, size_bytes):
                received += batch(size_bytes, at_once)
                if not received:
                    break  # the rest would only take time
            return received

        token = secrets.token_bytes(16)
        with _socket(session) as sock:
            found = path_mtu.search(passes, session.mtu_bytes, int(session.policy["path_mtu_probes"]))
        if found is None:
            raise tool_failed(session, "udp_probe", f"no datagram of any size reached {session.peer_address}")
        metrics = {"path_mtu_bytes": found.size_bytes, "sent": found.sent, "received": found.received}
        claim = Claim("packets_forward", float(totals["received"]), float(totals["sent"]))
        return Reading(metrics, claim)

    def open(self, session: ToolSession) -> None:
        """Open the receiving socket."""
        self._server = _socket(session, session.port)

    def answer(self, session: ToolSession, question: Mapping[str, Any]) -> dict[str, Any]:
        """Count the received datagrams with the request's token and size."""
        if self._server is None:
            raise RuntimeError("answer() before open()")
        token = bytes.fromhex(str(question["token"]))
        size, wanted, received, foreign = int(question["bytes"]), int(question["sent"]), 0, 0
        deadline = time.monotonic() + path_mtu.LOST_AFTER_S
        while received < wanted and foreign < _MOST_FOREIGN:
            # Datagrams in the buffer count after the deadline too: this process may have been delayed.
            wait_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._server], [], [], wait_s)[0]:
                break
            data = self._server.recv(1 << 16)
            if len(data) + path_mtu.header_bytes(session.own.address) == size and data[:16] == token:
                received += 1
            else:
                foreign += 1
        session.note(f"{size} bytes: {received} of {wanted} came\n")
        return {"received": received}

    def close(self, session: ToolSession) -> Reading:
        """Close the receiving socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
        return Reading({})


def send(session: ToolSession, sock: socket.socket, size_bytes: int, count: int, token: bytes) -> int:
    """Send datagrams of a size (including headers); return how many the netdev accepted."""
    body = size_bytes - path_mtu.header_bytes(session.peer_address)
    sent = 0
    for number in range(count):
        head = _TOKEN.pack(token, number)
        try:
            sock.sendto(head + b"\0" * (body - len(head)), (session.peer_address, session.port))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                break  # larger than the netdev's MTU, which is a result too
            raise tool_failed(session, "udp_probe", f"sending failed: {error}") from error
        sent += 1
    return sent


def _socket(session: ToolSession, port: int = 0) -> socket.socket:
    family = family_of(session.own.address)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        bind_to_rail(sock, session.own)
        enlarge_receive_buffer(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_PROBE)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        sock.bind((session.own.address, port))
    except OSError as error:
        sock.close()
        raise bind_failure(session.own, port, error) from error
    return sock
