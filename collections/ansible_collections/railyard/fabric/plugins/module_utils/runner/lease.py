# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may use this node: one run of one controller at a time, for as long as the controller shows life."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError

FOLDER = "/run/railyard"
FILE = "lease.json"
_ALIVE = ".alive"
# What is done under the lock takes milliseconds, on an emulated node a second.
_LOCK_PATIENCE_S = 15.0


def text_time(seconds: float) -> str:
    """Return a Unix time as `2026-11-21T10:15:00Z`."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Lease:
    """The node's lease file: it holds for its `lease_s` after the last sign of life, by the node's own clock.

    A sign of life is a write to the file that belongs to whom the controller logs in as: to become root for
    each would take more of a slow node than all the rest of a look.
    """

    def __init__(self, folder: str = FOLDER) -> None:
        self._folder = folder
        self.path = os.path.join(folder, FILE)
        # What `lost_by` saw of the last sign of life, and since when by the clock that is never set.
        self._sign: tuple[int, ...] = ()
        self._seen_at = 0.0

    def alive_path(self, run: str) -> str:
        """Return the file that a run's controller writes to as its sign of life."""
        return os.path.join(self._folder, run + _ALIVE)

    def read(self) -> dict[str, Any] | None:
        """Return `{"run", "controller", "since_s", "until_s"}` (Unix seconds), None when nobody holds it."""
        try:
            with open(self.path, encoding="utf-8") as handle:
                held = json.load(handle)
                touched_s = os.fstat(handle.fileno()).st_mtime
        except (OSError, ValueError):
            return None  # a torn file is nobody's lease
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
        """Return how many seconds the lease still holds if nobody renews it, 0 when nobody holds it."""
        held = self.holder()
        return max(0.0, float(held["until_s"]) - time.time()) if held else 0.0

    def take(self, run: str, controller: str, lease_s: float, host: str) -> dict[str, Any]:
        """Take the lease or renew one's own; an expired one is taken over.

        Raises:
            MeasurementError: `lease`: another run holds it; says who, since when and until when.
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
                        text_time(float(held.get("since_s", 0))),
                        text_time(float(held["until_s"])),
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
        """Give the run's lease back; another's is left alone."""
        with self._locked():
            held = self.read()
            if not held or held["run"] != run:
                return False
            os.unlink(self.path)
            self._forget_signs()
            return True

    def lost_by(self, run: str) -> str | None:
        """Return why a run may not go on, None while its lease holds.

        Whoever goes on asking is told by how long no sign of life was seen: the clock on the wall, by which
        the files are dated, may be set in between.
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
            return "the lease ended at {}: the controller has shown no life".format(
                text_time(float(held["until_s"]))
            )
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
        """Make the file for signs of life; it belongs to whom sudo says that we came from."""
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
    fix = f"see what it does (`ps -fp {error.holder or 'PID'}`) and end it; the lock goes with it"
    return MeasurementError("lease", str(error), socket.gethostname(), fix)
