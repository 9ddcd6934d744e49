# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lock files that only their owner can hold; waiting for one has a time limit.

Anyone who can open a file for reading can hold its `flock`. So the file that is locked has mode 0600 and no
other purpose: reports, which others may read, are never locked themselves.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator

_POLL_S = 0.05
_LOCKS = "/proc/locks"


class LockedError(OSError):
    """Another process holds the lock; the message names the file and, where the kernel tells, the process.

    Attributes:
        path: the lock file.
        holder: process id of the holder, None where it is unknown.
    """

    def __init__(self, path: str, holder: int | None, waited_s: float) -> None:
        who = f"process {holder}" if holder else "another process, which /proc/locks does not name,"
        waited = f" after {waited_s:.0f} s" if waited_s >= 1 else ""
        super().__init__(errno.EWOULDBLOCK, f"{who} still holds the lock {path}{waited}")
        self.path = path
        self.holder = holder

    def __str__(self) -> str:
        """Return the sentence alone."""
        return str(self.strerror)


@contextlib.contextmanager
def held(
    path: str | os.PathLike[str],
    patience_s: float,
    refusal: Callable[[LockedError], Exception] = lambda error: error,
) -> Iterator[int]:
    """Hold a lock file; the kernel releases it when this process ends, however it ends.

    Args:
        path: the lock file. It is made with mode 0600; an existing one of this user gets that mode.
        patience_s: how long to wait for another holder; 0 tries once.
        refusal: makes of a LockedError what is raised in its place.

    Yields:
        The descriptor of the file, whose content means nothing to the lock.

    Raises:
        LockedError: another process holds it for longer than `patience_s`.
        OSError: the file cannot be made, or is no regular file.
    """
    name = os.fspath(path)
    handle = _open(name)
    try:
        begun = time.monotonic()
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waited_s = time.monotonic() - begun
                if waited_s >= patience_s:
                    raise refusal(LockedError(name, _holder(handle), waited_s)) from None
                time.sleep(_POLL_S)
        yield handle
    finally:
        os.close(handle)


def _open(path: str) -> int:
    # A pipe in its place would block, and a link could lead to a file that others can open.
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, flags, 0o600)
    try:
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", path)
        # One that an earlier version made, or a wide umask.
        if stat.S_IMODE(state.st_mode) != 0o600 and state.st_uid == os.geteuid():
            os.fchmod(handle, 0o600)
    except OSError:
        os.close(handle)
        raise
    return handle


def _holder(handle: int) -> int | None:
    """Return the process that holds the lock by the kernel's table; None where that does not show it."""
    state = os.fstat(handle)
    wanted = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    try:
        with open(_LOCKS, encoding="ascii", errors="replace") as table:
            for line in table:
                # 1: FLOCK  ADVISORY  WRITE 4242 fe:01:131090 0 EOF; who waits has `->` in front.
                fields = line.split()
                if len(fields) > 5 and fields[1] == "FLOCK" and fields[5] == wanted and fields[4].isdigit():
                    return int(fields[4]) or None
    except OSError:
        return None
    return None
