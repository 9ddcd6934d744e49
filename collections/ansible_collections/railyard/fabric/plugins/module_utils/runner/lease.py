# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lease a node to one run of one controller at a time, for as long as the controller shows signs of life."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any

from .. import owner_lock
from ..channel.errors import MeasurementError

FOLDER = "/run/railyard"
FILE = "lease.json"
_ALIVE = ".alive"
# Work under the lock takes milliseconds, on an emulated node a second.
_LOCK_PATIENCE_S = 15.0


def format_time(seconds: float) -> str:
    """Format a Unix time as `2026-11-21T10:15:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Lease:
    """The node's lease file: it is valid for `lease_s` after the last sign of life, by the node's clock.

    A sign of life is a write to a file that belongs to the user that the controller logs in as: on a slow
    node
    becoming root for each would cost more than the rest of a poll.
    """

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self.path = os.path.join(folder, FILE)
        # The last sign of life that `lost_by` saw, and when, by the monotonic clock.
        self._sign: tuple[int, ...] = ()
        self._seen_at = 0.0

    def alive_path(self, run: str) -> str:
        """Return the file that a run's controller writes to as its sign of life."""
        return os.path.join(self._folder, run + _ALIVE)

    def read(self) -> dict[str, Any] | None:
        """Return `{"run", "controller", "since_s", "until_s"}` (Unix seconds), None without a lease."""
        try:
            with open(self.path, encoding="utf-8") as handle:
                held = json.load(handle)
                touched_s = os.fstat(handle.fileno()).st_mtime
        except (OSError, ValueError):
            return None  # a damaged file is no lease
        if not isinstance(held, dict) or not {"run", "lease_s"} <= set(held):
            return None
        with contextlib.suppress(OSError):
            touched_s = max(touched_s, os.stat(self.alive_path(str(held["run"]))).st_mtime)
        return {**held, "until_s": touched_s + float(held["lease_s"])}

    def holder(self, now_s: float | None = None) -> dict[str, Any] | None:
        """Return the lease if it has not expired."""
        held = self.read()
        now = time.time() if now_s is None else now_s
        return held if held and float(held["until_s"]) > now else None

    def left_s(self) -> float:
        """Return how many seconds the lease lasts if it is not renewed, 0 when there is none."""
        held = self.holder()
        return max(0.0, float(held["until_s"]) - time.time()) if held else 0.0

    def take(self, run: str, controller: str, lease_s: float, host: str) -> dict[str, Any]:
        """Take the lease or renew it; an expired one is taken over.

        Raises:
            MeasurementError: `lease`: another run holds it; the message has the holder, start and end.
        """
        with self._locked():
            now = time.time()
            held = self.holder(now)
            if held and held["run"] != run:
                raise MeasurementError(
                    "lease",
                    "{} is measuring for run {} of {} since {}; its lease ends at {}".format(
                        host,
                        held["run"],
                        held.get("controller", "another controller"),
                        format_time(float(held.get("since_s", 0))),
                        format_time(float(held["until_s"])),
                    ),
                    host,
                    "wait for that run, or stop it: the lease ends by itself when its controller is gone",
                )
            since = held["since_s"] if held else now
            lease = {"run": run, "controller": controller, "since_s": since, "lease_s": lease_s}
            self._forget_signs()
            self._write(lease)
            self._allow_signs(run)
            return {**lease, "until_s": now + lease_s}

    def release(self, run: str) -> bool:
        """Release the run's lease; one of another run stays."""
        with self._locked():
            held = self.read()
            if not held or held["run"] != run:
                return False
            os.unlink(self.path)
            self._forget_signs()
            return True

    def lost_by(self, run: str) -> str | None:
        """Return why a run may not continue, None while its lease is valid.

        Call it regularly: it counts the time without a sign of life by the monotonic clock, since the wall
        clock,
        by which files are dated, may be set in between.
        """
        held = self.read()
        if held is None:
            return "the lease is gone"
        if held["run"] != run:
            return "run {} has taken the lease over".format(held["run"])
        sign = self._signs(run)
        if sign != self._sign:
            self._sign, self._seen_at = sign, time.monotonic()
        if time.monotonic() - self._seen_at >= float(held["lease_s"]):
            ended = format_time(float(held["until_s"]))
            return f"the lease ended at {ended}: the controller showed no sign of life"
        return None

    def _signs(self, run: str) -> tuple[int, ...]:
        found = []
        for path in (self.path, self.alive_path(run)):
            with contextlib.suppress(OSError):
                found.append(os.stat(path).st_mtime_ns)
        return tuple(found)

    def _write(self, lease: dict[str, Any]) -> None:
        draft = self.path + ".new"
        with open(draft, "w", encoding="utf-8") as handle:
            json.dump(lease, handle, sort_keys=True)
        os.replace(draft, self.path)

    def _allow_signs(self, run: str) -> None:
        """Create the file for signs of life; it belongs to the user that called sudo."""
        path = self.alive_path(run)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        try:
            user = os.environ.get("SUDO_UID", "")
            if user.isdigit() and os.geteuid() == 0:
                os.fchown(handle, int(user), -1)
        finally:
            os.close(handle)

    def _forget_signs(self) -> None:
        for name in os.listdir(self._folder):
            if name.endswith(_ALIVE):
                os.unlink(os.path.join(self._folder, name))

    def _locked(self) -> contextlib.AbstractContextManager[int]:
        os.makedirs(self._folder, mode=0o755, exist_ok=True)
        return owner_lock.held(os.path.join(self._folder, "lease.lock"), _LOCK_PATIENCE_S, _held_by)


def _held_by(error: owner_lock.LockedError) -> MeasurementError:
    fix = f"see what it does (`ps -fp {error.holder or 'PID'}`) and end it; that releases the lock"
    return MeasurementError("lease", str(error), socket.gethostname(), fix)
