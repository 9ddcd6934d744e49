# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One-way path MTU: datagrams that may not be broken up, counted by the receiver.

ping cannot tell which way is small, since its replies come back as large as they went. Here only the way from
client to server is tried.
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

from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import (
    bind_obstacle,
    bind_to_rail,
    enlarge_receive_buffer,
    family_of,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure import path_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    Reading,
    Tool,
    ToolSession,
    failed,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim

# <linux/in.h>: set "do not fragment" and disregard what the kernel has learnt about the path, since that is
# what is being asked. Python has no names for them.
_IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE = 10, 3
_IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_PROBE = 23, 3
# So many datagrams of others are passed over before the rest of ours is given up.
_MOST_STRANGE = 1000
_TOKEN = struct.Struct("!16sI")


class UdpProbe(Tool):
    """Sends sized datagrams with DF set over the rail; the receiver says how many came."""

    name = "udp_probe"

    def __init__(self) -> None:
        self._server: socket.socket | None = None

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the time of the search, which a healthy rail does not need."""
        return 45.0

    def client(self, play: ToolSession) -> Reading:
        """Find the largest datagram that reaches the server."""
        totals = {"sent": 0, "received": 0}

        def batch(size_bytes: int, count: int) -> int:
            sent = send(play, sock, size_bytes, count, token)
            heard = play.ask({"token": token.hex(), "bytes": size_bytes, "sent": sent}) if sent else {}
            received = int(heard.get("received", 0))
            totals["sent"] += sent
            totals["received"] += received
            play.note(f"{size_bytes} bytes: sent {sent}, received {received}\n")
            return received

        def passes(size_bytes: int, count: int) -> int:
            received = 0
            for at_once in path_mtu.batches(count, size_bytes):
                received += batch(size_bytes, at_once)
                if not received:
                    break  # what is left would only be waited for
            return received

        token = secrets.token_bytes(16)
        with _socket(play) as sock:
            found = path_mtu.search(passes, play.mtu_bytes, int(play.policy["path_mtu_probes"]))
        if found is None:
            raise failed(play, "udp_probe", f"no datagram of any size reached {play.peer_address}")
        metrics = {"path_mtu_bytes": found.size_bytes, "sent": found.sent, "received": found.received}
        claim = Claim("packets_forward", float(totals["received"]), float(totals["sent"]))
        return Reading(metrics, claim)

    def open(self, play: ToolSession) -> None:
        """Open the receiving socket."""
        self._server = _socket(play, play.port)

    def answer(self, play: ToolSession, question: Mapping[str, Any]) -> dict[str, Any]:
        """Count the datagrams of the question's token and size that have come."""
        if self._server is None:
            raise RuntimeError("answer() before open()")
        token = bytes.fromhex(str(question["token"]))
        size, wanted, received, strange = int(question["bytes"]), int(question["sent"]), 0, 0
        deadline = time.monotonic() + path_mtu.LOST_AFTER_S
        while received < wanted and strange < _MOST_STRANGE:
            # What has come is counted after the deadline too: a process that was held up has lost nothing.
            wait_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._server], [], [], wait_s)[0]:
                break
            data = self._server.recv(1 << 16)
            if len(data) + path_mtu.header_bytes(play.own.address) == size and data[:16] == token:
                received += 1
            else:
                strange += 1
        play.note(f"{size} bytes: {received} of {wanted} came\n")
        return {"received": received}

    def close(self, play: ToolSession) -> Reading:
        """Close the receiving socket."""
        if self._server is not None:
            self._server.close()
            self._server = None
        return Reading({})


def send(play: ToolSession, sock: socket.socket, size_bytes: int, count: int, token: bytes) -> int:
    """Send so many datagrams of a size (headers included); return how many the own netdev took."""
    body = size_bytes - path_mtu.header_bytes(play.peer_address)
    sent = 0
    for number in range(count):
        head = _TOKEN.pack(token, number)
        try:
            sock.sendto(head + b"\0" * (body - len(head)), (play.peer_address, play.port))
        except OSError as error:
            if error.errno == errno.EMSGSIZE:
                break  # larger than the own netdev's MTU: an answer too
            raise failed(play, "udp_probe", f"sending failed: {error}") from error
        sent += 1
    return sent


def _socket(play: ToolSession, port: int = 0) -> socket.socket:
    family = family_of(play.own.address)
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        bind_to_rail(sock, play.own)
        enlarge_receive_buffer(sock)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _IPV6_PMTUDISC_PROBE)
        else:
            sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_PROBE)
        sock.bind((play.own.address, port))
    except OSError as error:
        sock.close()
        raise bind_obstacle(play.own, port, error) from error
    return sock
