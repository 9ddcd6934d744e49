# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tools of a group begin at one moment, however long each of them took to be started.

On a slow node it takes a second to make a transient unit, and another time for each rail. So a tool of a
group is started up to a shell that waits for one line (`Hold`); when all shells of the group wait, the last
to be ready lets all of them go (`Gate`). Nobody sleeps for a fixed time, and no clock is compared: the tools
of a group that send are all on one node.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner_record import utc_now

# A constant: what it runs are its arguments. It says that it is there on the socket that is its standard
# input and waits for a line. Without one (the runner is gone) `read` fails and nothing is run.
_SCRIPT = 'echo >&0 && read -r go && exec "$@" </dev/null'
# `read` is told what to do by its return alone; the line is for who traces it.
_GO = b"go\n"
_SLICE_S = 0.25


class Moment(NamedTuple):
    """The start of a test, by the clock on the wall and by the one that never jumps."""

    text: str
    monotonic: float

    @classmethod
    def now(cls) -> Moment:
        """Return this moment."""
        return cls(utc_now(), time.monotonic())


class Hold:
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
        while time.monotonic() < deadline:
            if select.select([self._ours], [], [], _SLICE_S)[0]:
                with contextlib.suppress(OSError):
                    return bool(self._ours.recv(1))
                return False
            if gone():
                return False
        return False

    def release(self) -> None:
        """Give the word; who has died in between shows it by its exit status."""
        with contextlib.suppress(OSError):
            self._ours.sendall(_GO)

    def close(self) -> None:
        """Let go of the socket: who waits still then ends without having run anything."""
        self.stdin.close()
        self._ours.close()


class _Party(NamedTuple):
    """What is done for one test when the gate opens."""

    tell: Callable[[Moment], None]
    release: Callable[[], None]


class Gate:
    """Lets the tests of one group start at one moment; who cannot take part leaves, and holds nobody up.

    Tests are named by their rail, so that to leave twice, or after the start, changes nothing.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._ready: set[str] = set()
        self._over: set[str] = set()
        self._waiting: list[_Party] = []
        self._intervals: list[list[float]] = []
        self._lock = threading.Condition()
        self._moment: Moment | None = None

    def leave(self, rail: str) -> None:
        """Do not take part, or no more."""
        with self._lock:
            self._ready.add(rail)
            self._over.add(rail)
            self._lock.notify_all()

    def start(
        self,
        rail: str,
        patience_s: float,
        tell: Callable[[Moment], None],
        release: Callable[[], None],
    ) -> Moment:
        """Wait until all are ready (or gone, or patience ends) and return the common start.

        Args:
            rail: who is ready.
            patience_s: how long the others are waited for.
            tell: tells the server; called for all before any tool begins to fill the rails.
            release: lets the tool go.

        Neither may raise, since the last to be ready calls them for all. Who comes after the start begins
        at once, alone.
        """
        deadline = time.monotonic() + patience_s
        with self._lock:
            self._ready.add(rail)
            self._waiting.append(_Party(tell, release))
            self._lock.notify_all()
            while self._moment is None and len(self._ready) < self._parties and time.monotonic() < deadline:
                self._lock.wait(0.1)
            moment = self._moment = self._moment or Moment.now()
            waiting, self._waiting = self._waiting, []
            for party in waiting:
                party.tell(moment)
            for party in waiting:
                party.release()
            return moment

    def common(self, rail: str, interval: list[float] | None, patience_s: float) -> list[float] | None:
        """Wait until every test of the group is over and return when all of them were at work.

        Args:
            rail: whose test is over.
            interval: when this one was surely at work, seconds after the common start; None when it failed.
            patience_s: how long the others are waited for.

        Returns:
            The time that all intervals share; None when one failed, none is shared, or patience ended.
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
        return [begin_s, end_s] if begin_s < end_s else None

    def moment(self) -> Moment:
        """Return the common start, which is now for who asks first."""
        with self._lock:
            if self._moment is None:
                self._moment = Moment.now()
            return self._moment
