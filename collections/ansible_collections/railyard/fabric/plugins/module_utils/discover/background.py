# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that sends and hears beacons while the controller waits, and hands over what was heard.

It outlives the module that started it, keeps all in memory, and is met at an abstract Unix socket: no file is
made anywhere. It ends when what it heard is collected, when a signal asks it to, or after its longest time;
each of these ways puts down the ports that it raised. SIGKILL alone leaves them up.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import json
import os
import selectors
import signal
import socket
import struct
import time
import warnings
from collections.abc import Sequence
from typing import NamedTuple

from ..records import reader
from ..records.bare_node import Heard
from .beacons import Ports, Wanted

_EVERY_S = 0.5
# To put ports down takes a second each where the driver has many queues to end.
_COLLECT_S = 30.0
_TALK_S = 10.0
_MOST_BYTES = 64 << 20
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_PEER = struct.Struct("3i")


class Discovery(NamedTuple):
    """One discovery on one node."""

    run: str
    secret: str
    key: str

    @property
    def address(self) -> bytes:
        """Return the abstract address at which the process is met."""
        names = "\0".join((self.run, self.key)).encode()
        mark = hmac.new(self.secret.encode(), b"railyard discover " + names, hashlib.sha256).hexdigest()
        return b"\0railyard-discover-" + mark[:32].encode()


class CollectError(Exception):
    """What was heard cannot be fetched; the text has the reason and what to do."""


def start(discovery: Discovery, ports: Sequence[Wanted], longest_s: float) -> bool:
    """Start the process; return whether none of this discovery was here already.

    Raises:
        OSError: no process or socket can be made.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener:
        try:
            # Only one of two that start at once can bind the address.
            listener.bind(discovery.address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
        listener.listen(8)
        with warnings.catch_warnings():
            # Python 3.12 and later warn about a fork with threads; the child takes none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            _detach(listener, discovery, ports, longest_s)
        os.waitpid(child, 0)
    return True


def _detach(listener: socket.socket, discovery: Discovery, ports: Sequence[Wanted], longest_s: float) -> None:
    """Become a daemon and do the work; never return into the module's code."""
    try:
        os.setsid()
        if os.fork() == 0:
            os.chdir("/")
            _let_go(listener.fileno())
            _serve(listener, Ports(ports, discovery.key, discovery.run, discovery.secret), longest_s)
    except BaseException:  # noqa: S110 - there is no one to report to
        pass
    finally:
        os._exit(0)


def _let_go(kept: int) -> None:
    """Close all that the module had open: SSH waits until its pipes are closed."""
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(quiet, stream)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) != kept:
            with contextlib.suppress(OSError):
                os.close(int(name))


def _serve(listener: socket.socket, ports: Ports, longest_s: float) -> None:
    """Send and hear until somebody collects, a signal comes or time is over; then hand over."""
    ended: list[int] = []
    for one in _SIGNALS:
        # Kept, not raised: what is being put down is not to be interrupted.
        signal.signal(one, lambda number, _frame: ended.append(number))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    collector: socket.socket | None = None
    try:
        ports.open()
        collector = _until_collected(listener, ports, time.monotonic() + longest_s, ended)
    finally:
        ports.close()
    if collector is not None:
        with collector, contextlib.suppress(OSError):
            collector.sendall(json.dumps(ports.heard()).encode())


def _until_collected(
    listener: socket.socket, ports: Ports, deadline: float, ended: Sequence[int]
) -> socket.socket | None:
    next_s = 0.0
    with selectors.DefaultSelector() as waiting:
        waiting.register(listener, selectors.EVENT_READ, None)
        for sock, hear in ports.sources():
            waiting.register(sock, selectors.EVENT_READ, hear)
        while not ended and time.monotonic() < deadline:
            if time.monotonic() >= next_s:
                ports.send()
                next_s = time.monotonic() + _EVERY_S
            for event, _mask in waiting.select(max(0.0, min(next_s, deadline) - time.monotonic())):
                if event.data is not None:
                    event.data()
                    continue
                with contextlib.suppress(OSError):
                    collector, _address = listener.accept()
                    collector.settimeout(_TALK_S)
                    if _is_trusted(collector):
                        return collector
                    collector.close()
    return None


def _is_trusted(sock: socket.socket) -> bool:
    """Return whether the other end is root or this user: an abstract address has no permissions."""
    _pid, uid, _gid = _PEER.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
    return uid in (0, os.geteuid())


def collect(discovery: Discovery) -> list[Heard]:
    """Return what the ports heard, and end the process.

    Raises:
        CollectError: there is no such process, or it did not answer as it should.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_COLLECT_S)
            sock.connect(discovery.address)
            if not _is_trusted(sock):
                raise CollectError(
                    "another user's process answers in place of the one for beacons. Find it by ss -xp"
                )
            data = _read(sock)
    except ConnectionRefusedError as error:
        raise CollectError(
            "the process that sent beacons is gone: its longest time was over, or it was killed. Fix: run the"
            " command again"
        ) from error
    except OSError as error:
        raise CollectError(
            f"the process that sends beacons does not answer: {error}. Fix: run the command again"
        ) from error
    try:
        rows = json.loads(data)
        return [reader.read(Heard, row, f"beacons[{at}]") for at, row in enumerate(rows)]
    except (ValueError, TypeError) as error:
        raise CollectError(
            f"the answer of the process that sent beacons is damaged: {error}. Fix: run the command again"
        ) from error


def _read(sock: socket.socket) -> bytes:
    deadline = time.monotonic() + _COLLECT_S
    data = b""
    while len(data) <= _MOST_BYTES:
        sock.settimeout(max(0.1, deadline - time.monotonic()))
        part = sock.recv(1 << 16)
        if not part:
            return data
        data += part
    raise OSError(errno.EMSGSIZE, "its answer is too long")
