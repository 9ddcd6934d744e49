# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check from the controller that BMCs answer, many at a time, without a login.

A BMC answers when it accepts a TCP connection. Each port has its own socket, so refusals are seen. A thousand
silent BMCs take `ceil(1000 / AT_ONCE)` times the timeout for one BMC and port, twice.
"""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

#: Far below the usual limit of 1,024 open files of a process.
AT_ONCE = 128
#: Silent BMCs are tried once more after this: one that restarts or is busy takes seconds.
ASK_AGAIN_AFTER_S = 10.0
ANSWERED, REFUSED, SILENT, NO_WAY = "answered", "refused", "silent", "no_way"
# Best first: the best port decides.
_BEST = (ANSWERED, REFUSED, SILENT, NO_WAY)
# Errors of the controller itself: no route or no resources.
# EHOSTUNREACH is not among them: it is also the result of an unanswered ARP request in the local network.
_OWN_FAULTS = (
    errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT,
    errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
)  # fmt: skip


@dataclass
class Reply:
    """The result of checking one BMC.

    Attributes:
        state: `answered`, `refused`, `silent` or `no_way`.
        port: the port that answered, or the last that was tried.
        round_trip_us: from the connection attempt to the answer or refusal.
        sent: how many connections were tried at that port.
        message: the kernel's error message, if any.
    """

    state: str
    port: int
    round_trip_us: float | None = None
    sent: int = 0
    message: str | None = None


def ask(addresses: Mapping[str, str], ports: Sequence[int], timeout_s: float) -> dict[str, Reply]:
    """Check that BMCs answer.

    Args:
        addresses: node -> its BMC's address.
        ports: TCP ports; a BMC has answered when one of them has.
        timeout_s: the longest to wait for one.

    Returns:
        node -> reply, for every node.
    """
    replies = _ask(addresses, ports, timeout_s)
    unheard = [node for node, reply in replies.items() if reply.state in (SILENT, NO_WAY)]
    if unheard:
        time.sleep(ASK_AGAIN_AFTER_S)
        for node, reply in _ask({node: addresses[node] for node in unheard}, ports, timeout_s).items():
            reply.sent += replies[node].sent
            replies[node] = reply
    return replies


def _ask(addresses: Mapping[str, str], ports: Sequence[int], timeout_s: float) -> dict[str, Reply]:
    """Try each port of each BMC once; return the best reply per node."""
    questions = [(node, port) for node in addresses for port in ports]
    found: dict[str, Reply] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = pool.map(lambda one: _connect(addresses[one[0]], one[1], timeout_s), questions)
        for (node, _port), reply in zip(questions, replies, strict=True):
            if node not in found or _BEST.index(reply.state) < _BEST.index(found[node].state):
                found[node] = reply
    return found


def _connect(address: str, port: int, timeout_s: float) -> Reply:
    began = time.monotonic()
    state, message, sent = ANSWERED, None, 1
    try:
        socket.create_connection((address, port), timeout_s).close()
    except TimeoutError as error:
        state, message = SILENT, error.strerror
    except OSError as error:
        refused, own = isinstance(error, ConnectionRefusedError), error.errno in _OWN_FAULTS
        state, message = (
            REFUSED if refused else NO_WAY if own else SILENT,
            os.strerror(error.errno or errno.EIO),
        )
        sent = 0 if own else 1
    heard = state in (ANSWERED, REFUSED)
    return Reply(state, port, (time.monotonic() - began) * 1e6 if heard else None, sent, message)
