# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tools of a group begin at one moment, however long each of them took to be started.

On a slow node it takes a second to make a transient unit, and another time for each rail. So a tool of a
group is started up to a shell that waits for one line (`HeldProcess`); when all shells of the group wait and
their servers are told, all of them are let go (`StartBarrier`). Nobody sleeps for a fixed time, and no clock
is compared: the tools of a group that send are all on one node.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import utc_now

# A constant: what it runs are its arguments. It says that it is there on the socket that is its standard
# input and waits for a line. Without one (the runner is gone) `read` fails and nothing is run.
_SCRIPT = 'echo >&0 && read -r go && exec "$@" </dev/null'
# `read` is told what to do by its return alone; the line is for who traces it.
_GO = b"go\n"
_SLICE_S = 0.25
#: How long a server may take to be told that its group begins. The word is one short line, which its
#: connection takes at once, unless the server has read nothing for a long time.
TELL_S = 1.0


class Moment(NamedTuple):
    """The start of a test, by the clock on the wall and by the one that never jumps."""

    text: str
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(utc_now(), time.monotonic())

    def now_s(self) -> float:
        """Return how long it is ago, in seconds."""
        return round(time.monotonic() - self.monotonic, 4)


class HeldProcess:
    """A tool's command line that is not run before the word is given."""

    def __init__(self) -> None:
        self._ours, self.stdin = socket.socketpair()

    def argv(self, argv: Sequence[str]) -> list[str]:
        """Return the command line that waits for the word and becomes `argv`."""
        return ["/bin/sh", "-c", _SCRIPT, "railyard-hold", *argv]

    def started(self) -> None:
        """Note that whoever waits has its end of the socket."""
        self.stdin.close()

    def waits(self, within_s: float, gone: Callable[[], bool]) -> bool:
        """Tell whether the shell waits for the word; False when `gone`, or when time ended first."""
        deadline = time.monotonic() + within_s
        while True:
            # Looked for once more when time is over: it was this process that was held up.
            over = time.monotonic() >= deadline
            if select.select([self._ours], [], [], 0.0 if over else _SLICE_S)[0]:
                with contextlib.suppress(OSError):
                    return bool(self._ours.recv(1))
                return False
            if over or gone():
                return False

    def release(self) -> None:
        """Give the word, and never wait for it to be taken; who has died shows it by its exit status."""
        with contextlib.suppress(OSError):
            self._ours.send(_GO, socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Let go of the socket: who waits still then ends without having run anything."""
        self.stdin.close()
        self._ours.close()


class StartBarrier:
    """Lets the tests of one group start at one moment; who cannot take part leaves, and holds nobody up.

    Tests are named by their rail, so that to leave twice, or after the start, changes nothing. Nothing is
    done under the lock that could block: each test tells its own server, from its own thread.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._ready: set[str] = set()
        self._over: set[str] = set()
        self._waiting: set[str] = set()
        self._telling: set[str] = set()
        self._told_by_s = 0.0
        self._releases: list[Callable[[], None]] = []
        self._intervals: list[list[float]] = []
        self._lock = threading.Condition()
        self._moment: Moment | None = None

    def leave(self, rail: str) -> None:
        """Do not take part, or no more."""
        with self._lock:
            self._ready.add(rail)
            self._over.add(rail)
            self._telling.discard(rail)
            self._lock.notify_all()

    def start(
        self,
        rail: str,
        patience_s: float,
        tell: Callable[[Moment, float], None],
        release: Callable[[], None],
    ) -> Moment:
        """Wait until all are ready (or gone, or patience ends) and return the common start.

        Every server is told before any tool begins to fill the rails, but nobody waits longer than `TELL_S`
        for a server that does not take the word.

        Args:
            rail: who is ready.
            patience_s: how long the others are waited for.
            tell: tells the own server, within so many seconds.
            release: lets the own tool go; neither blocks nor raises, since one calls it for all.

        Whatever `tell` raises is raised here, and the tool is not let go. Who comes after the start begins at
        once, alone.
        """
        moment = self._opened(rail, patience_s)
        try:
            tell(moment, TELL_S)
        except BaseException:
            self.leave(rail)
            raise
        with self._lock:
            self._releases.append(release)
            self._telling.discard(rail)
            self._lock.notify_all()
            while self._telling and time.monotonic() < self._told_by_s:
                self._lock.wait(0.1)
            releases, self._releases = self._releases, []
            for let_go in releases:
                let_go()
        return moment

    def _opened(self, rail: str, patience_s: float) -> Moment:
        """Wait until the gate opens, which whoever notices first does."""
        deadline = time.monotonic() + patience_s
        with self._lock:
            self._ready.add(rail)
            self._waiting.add(rail)
            self._lock.notify_all()
            while self._moment is None and len(self._ready) < self._parties and time.monotonic() < deadline:
                self._lock.wait(0.1)
            if self._moment is None:
                self._moment = Moment.now()
                self._told_by_s = self._moment.monotonic + TELL_S
                self._telling = set(self._waiting)
                self._lock.notify_all()
            return self._moment

    def common(
        self, rail: str, interval: list[float] | None, least_s: float, patience_s: float
    ) -> list[float] | None:
        """Wait until every test of the group is over and return when all of them were at work.

        Args:
            rail: whose test is over.
            interval: when this one was surely at work, seconds after the common start; None when it failed.
            least_s: a shorter time is none.
            patience_s: how long the others are waited for.

        Returns:
            The time that all intervals share; None when one failed, less is shared, or patience ended.
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
        """Return the common start, which is now for who asks first."""
        with self._lock:
            if self._moment is None:
                self._moment = Moment.now()
            return self._moment
