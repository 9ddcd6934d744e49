#!/usr/bin/env python3
"""One test run with labs at a time on this machine: those of another checkout have the same names.

    tools/labs_lock.py COMMAND...     wait for the lock, then become COMMAND, which has it until it ends

The kernel lets go of it when its holder ends, however it ends; the file that stays means nothing.
"""

from __future__ import annotations

import fcntl
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

LOCK = Path("/tmp/railyard-labs.lock")  # noqa: S108 - known to every checkout, whoever's; opened as no link
# What the holder says to its children: they have it already.
HELD = "RAILYARD_LABS_LOCK_HELD"
_POLL_S = 0.5
_SAY_EVERY_S = 60.0
_HOLDER_BYTES = 400


def take(
    say: Callable[[str], None], *, path: Path = LOCK, stopped: Callable[[], bool] = lambda: False
) -> int | None:
    """Wait until no other run has labs; return the open file that is the lock.

    Args:
        say: told who has it, at once and every minute, while there is something to wait for.
        path: the file.
        stopped: whether to give up waiting.

    Returns:
        A file descriptor to be kept open; None when a parent has the lock already, or when `stopped`.
    """
    if os.environ.get(HELD):
        return None
    handle = _open(path)
    said_at: float | None = None
    while not stopped():
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if said_at is None or time.monotonic() - said_at >= _SAY_EVERY_S:
                holder = os.pread(handle, _HOLDER_BYTES, 0).decode(errors="replace").strip()
                say(f"waiting: another test run has the labs of this machine ({holder or 'unknown'})")
                said_at = time.monotonic()
            time.sleep(_POLL_S)
            continue
        _sign(path)
        return handle
    os.close(handle)
    return None


def _open(path: Path) -> int:
    flags = os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        # Without O_CREAT first: in a sticky folder the kernel refuses that for another user's file.
        return os.open(path, os.O_RDONLY | flags)
    except FileNotFoundError:
        # Readable by all, since a lock needs no more.
        return os.open(path, os.O_RDONLY | os.O_CREAT | flags, 0o644)


def _sign(path: Path) -> None:
    """Write who has it, for those who wait; another user's file stays as it is."""
    text = f"process {os.getpid()} in {os.getcwd()}, since {time.strftime('%H:%M:%S')}\n".encode()
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        os.ftruncate(handle, 0)
        os.pwrite(handle, text, 0)
    finally:
        os.close(handle)


def main(argv: list[str]) -> None:
    """Take the lock, then become the command."""
    if not argv:
        sys.exit("usage: labs_lock.py COMMAND...")
    handle = take(lambda text: print(text, flush=True))
    if handle is not None:
        os.set_inheritable(handle, True)
    os.environ[HELD] = "1"
    os.execvp(argv[0], argv)  # noqa: S606 - a shell is what we do not want


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
