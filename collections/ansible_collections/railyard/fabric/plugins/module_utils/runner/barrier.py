# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the tools of a group at the same moment, however long each takes to start.

On a slow node a transient unit takes a second to create, and a different time for each rail. So each tool is
started as a shell that waits for one line (`HeldProcess`). Once all shells of the group wait and their
servers are notified, all are released (`StartBarrier`). There is no fixed sleep, and no clocks are compared:
the sending tools of a group are all on one node.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .record import utc_now

# A constant; the command comes as arguments. It writes to the socket that is its standard input to show that
# it is ready, then waits for a line. When the runner is gone, `read` fails and nothing is run.
_SCRIPT = 'echo >&0 && read -r go && exec "$@" </dev/null'
# Any line releases it; this one is readable in a trace.
_GO = b"go\n"
_SLICE_S = 0.25
#: The time limit for notifying a server that its group begins. The message is one short line, which its
#: connection accepts at once, unless the server has read nothing for a long time.
NOTIFY_S = 1.0


class Moment(NamedTuple):
    """The start of a test, by the wall clock and by the monotonic clock."""

    text: str
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(utc_now(), time.monotonic())

    def elapsed_s(self) -> float:
        """Return the seconds since then."""
        return round(time.monotonic() - self.monotonic, 4)


class HeldProcess:
    """A tool's command line that does not run before it is released."""

    def __init__(self) -> None:
        self._socket, self.stdin = socket.socketpair()

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that waits for the release and becomes `argv`."""
        return ["/bin/sh", "-c", _SCRIPT, "railyard-hold", *argv]

    def started(self) -> None:
        """Note that the shell has its end of the socket."""
        self.stdin.close()

    def await_ready(self, within_s: float, gone: Callable[[], bool]) -> bool:
        """Return whether the shell is ready to be released; False when it is `gone` or not ready in time."""
        deadline = time.monotonic() + within_s
        while True:
            # Look once more after the deadline: this process may have been the one that was delayed.
            over = time.monotonic() >= deadline
            if select.select([self._socket], [], [], 0.0 if over else _SLICE_S)[0]:
                with contextlib.suppress(OSError):
                    return bool(self._socket.recv(1))
                return False
            if over or gone():
                return False

    def release(self) -> None:
        """Release the shell without blocking; one that has died shows it by its exit status."""
        with contextlib.suppress(OSError):
            self._socket.send(_GO, socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Close the socket: a shell that still waits then ends without running the command."""
        self.stdin.close()
        self._socket.close()


class StartBarrier:
    """Starts the tests of one group at the same moment; a test that cannot take part leaves.

    Tests are identified by their rail, so leaving twice, or after the start, changes nothing. Nothing that
    can block happens under the lock: each test notifies its own server from its own thread.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._ready: set[str] = set()
        self._over: set[str] = set()
        self._waiting: set[str] = set()
        self._notifying: set[str] = set()
        self._notify_until_s = 0.0
        self._releases: list[Callable[[], None]] = []
        self._intervals: list[list[float]] = []
        self._lock = threading.Condition()
        self._moment: Moment | None = None

    def leave(self, rail: str) -> None:
        """Take a test out of the group, before or after the start."""
        with self._lock:
            self._ready.add(rail)
            self._over.add(rail)
            self._notifying.discard(rail)
            self._lock.notify_all()

    def start(
        self,
        rail: str,
        patience_s: float,
        notify: Callable[[Moment, float], None],
        release: Callable[[], None],
    ) -> Moment:
        """Wait until all are ready, have left, or the time is over, and return the common start.

        Every server is notified before any tool fills the rails, but no test waits longer than `NOTIFY_S` for
        a server that does not read the message. A test that comes after the start begins at once, alone.

        Args:
            rail: the rail of the test that is ready.
            patience_s: how long to wait for the others, in seconds.
            notify: notifies this test's server within a number of seconds. What it raises is raised here, and
                the tool is not released.
            release: releases this test's tool; must not block or raise, since one thread calls it for all.
        """
        moment = self._await_start(rail, patience_s)
        try:
            notify(moment, NOTIFY_S)
        except BaseException:
            self.leave(rail)
            raise
        with self._lock:
            self._releases.append(release)
            self._notifying.discard(rail)
            self._lock.notify_all()
            while self._notifying and time.monotonic() < self._notify_until_s:
                self._lock.wait(0.1)
            releases, self._releases = self._releases, []
            for release_tool in releases:
                release_tool()
        return moment

    def _await_start(self, rail: str, patience_s: float) -> Moment:
        """Wait for the common start; the first thread that sees everyone ready sets it."""
        deadline = time.monotonic() + patience_s
        with self._lock:
            self._ready.add(rail)
            self._waiting.add(rail)
            self._lock.notify_all()
            while self._moment is None and len(self._ready) < self._parties and time.monotonic() < deadline:
                self._lock.wait(0.1)
            if self._moment is None:
                self._moment = Moment.now()
                self._notify_until_s = self._moment.monotonic + NOTIFY_S
                self._notifying = set(self._waiting)
                self._lock.notify_all()
            return self._moment

    def await_overlap(
        self, rail: str, interval: list[float] | None, least_s: float, patience_s: float
    ) -> list[float] | None:
        """Wait until every test of the group is over and return the interval in which all were running.

        Args:
            rail: the rail whose test is over.
            interval: when this one was certainly running, in seconds after the common start; None if it
                failed.
            least_s: the shortest overlap that counts.
            patience_s: how long to wait for the others, in seconds.

        Returns:
            The overlap; None if a test failed, the overlap is too short, or the time was over.
        """
        deadline = time.monotonic() + patience_s
        with self._lock:
            self._over.add(rail)
            if interval is not None:
                self._intervals.append(interval)
            self._lock.notify_all()
            while len(self._over) < self._parties and time.monotonic() < deadline:
                self._lock.wait(0.1)
            if len(self._intervals) < self._parties:
                return None
            begin_s = max(one[0] for one in self._intervals)
            end_s = min(one[1] for one in self._intervals)
        return [begin_s, end_s] if end_s - begin_s >= least_s else None

    def moment(self) -> Moment:
        """Return the common start; the first call sets it to now."""
        with self._lock:
            if self._moment is None:
                self._moment = Moment.now()
            return self._moment
