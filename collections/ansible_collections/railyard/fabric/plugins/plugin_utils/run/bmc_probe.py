# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Asks BMCs whether they are there: from the controller, many at a time, and nobody logs in.

A BMC is there when it takes a TCP connection. Each port that is tried has a socket of its own, so a refusal
is heard. A thousand silent BMCs take `ceil(1000 / AT_ONCE)` times the patience for one and port, twice.
"""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

#: Far below the usual limit of 1,024 open files of a process.
AT_ONCE = 128
#: Who was not heard is asked once more after this: a BMC that restarts or is busy takes seconds.
ASK_AGAIN_AFTER_S = 10.0
ANSWERED, REFUSED, SILENT, NO_WAY = "answered", "refused", "silent", "no_way"
# Best first: a BMC with several ports is what its best one says.
_BEST = (ANSWERED, REFUSED, SILENT, NO_WAY)
# What the controller's own kernel says, of its ways or of its own want, before anything has left it.
# EHOSTUNREACH is none of them: it comes too when nobody answers ARP for an address of its own network.
_OWN_FAULTS = (
    errno.ENETUNREACH, errno.EACCES, errno.EPERM, errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT,
    errno.ENOBUFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
)  # fmt: skip


@dataclass
class Reply:
    """What came of asking one BMC.

    Attributes:
        state: `answered`, `refused`, `silent` or `no_way`.
        port: that answered, or the last that was asked.
        round_trip_us: from the question to its answer or refusal.
        sent: how many connections were tried at that port.
        message: the kernel's word, where it had one.
    """

    state: str
    port: int
    round_trip_us: float | None = None
    sent: int = 0
    message: str | None = None


@dataclass
class _Question:
    """The connection to one port of one BMC."""

    node: str
    address: str
    port: int
    sock: socket.socket | None = None
    started: float = 0.0
    sent: int = 0
    reply: Reply | None = None

    def ends(self, state: str, message: str | None = None, round_trip_us: float | None = None) -> None:
        self.reply = Reply(state, self.port, round_trip_us, self.sent, message)


def ask(addresses: Mapping[str, str], ports: Sequence[int], timeout_s: float) -> dict[str, Reply]:
    """Ask BMCs whether they are there.

    Args:
        addresses: node -> its BMC's address.
        ports: TCP ports; a BMC has answered when one of them has.
        timeout_s: the longest to wait for one.

    Returns:
        node -> reply, for every node.
    """
    questions = [_Question(node, address, port) for node, address in addresses.items() for port in ports]
    _walk(questions, timeout_s)
    unheard = {node for node, reply in _best(questions).items() if reply.state in (SILENT, NO_WAY)}
    if unheard:
        time.sleep(ASK_AGAIN_AFTER_S)
        again = [one for one in questions if one.node in unheard]
        for one in again:
            one.reply = None
        _walk(again, timeout_s)
    return _best(questions)


def _best(questions: Sequence[_Question]) -> dict[str, Reply]:
    found: dict[str, Reply] = {}
    for one in questions:
        reply = one.reply or Reply(SILENT, one.port, sent=one.sent)
        best = found.get(one.node)
        if best is None or _BEST.index(reply.state) < _BEST.index(best.state):
            found[one.node] = reply
    return found


def _walk(questions: Sequence[_Question], timeout_s: float) -> None:
    waiting = deque(questions)
    asked: dict[int, _Question] = {}
    with selectors.DefaultSelector() as selector:
        while waiting or asked:
            while waiting and len(asked) < AT_ONCE:
                one = waiting.popleft()
                _connect(one)
                if one.reply is None and one.sock is not None:
                    # A connection is made, or refused, when its socket can be written to.
                    asked[selector.register(one.sock, selectors.EVENT_WRITE).fd] = one
                else:
                    _close(one)
            for key, _mask in selector.select(0.1 if asked else 0):
                _connected(asked[key.fd])
            now = time.monotonic()
            for fd, one in list(asked.items()):
                if one.reply is None and now - one.started >= timeout_s:
                    one.ends(SILENT)
                if one.reply is not None:
                    selector.unregister(fd)
                    del asked[fd]
                    _close(one)


def _connect(one: _Question) -> None:
    try:
        one.sock = socket.socket(
            socket.AF_INET6 if ":" in one.address else socket.AF_INET, socket.SOCK_STREAM
        )
        one.sock.setblocking(False)
        code = one.sock.connect_ex((one.address, one.port))
    except OSError as error:
        code = error.errno or errno.EIO
    one.started = time.monotonic()
    if code in (0, errno.EINPROGRESS):
        one.sent += 1
    else:
        _failed(one, code)


def _connected(one: _Question) -> None:
    code = one.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if one.sock else 0
    if code:
        _failed(one, code)
    else:
        one.ends(ANSWERED, round_trip_us=(time.monotonic() - one.started) * 1e6)


def _failed(one: _Question, code: int) -> None:
    if code == errno.ECONNREFUSED:
        one.ends(REFUSED, os.strerror(code), (time.monotonic() - one.started) * 1e6)
    else:
        one.ends(NO_WAY if code in _OWN_FAULTS else SILENT, os.strerror(code))


def _close(one: _Question) -> None:
    if one.sock is not None:
        one.sock.close()
        one.sock = None
