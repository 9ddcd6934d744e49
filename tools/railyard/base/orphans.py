"""Ends what a killed Ansible leaves: its workers are sessions of their own, and outlive their group.

They are known by a variable in the environment that they were started with, which nothing else has.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from contextlib import suppress
from pathlib import Path

VARIABLE = "RAILYARD_ANSIBLE_RUN"
_TERMINATE_GRACE_S = 2.0
_LOOK_EVERY_S = 0.1


def new_mark() -> str:
    """Return a value for `VARIABLE` that no other run has."""
    return secrets.token_hex(16)


def end(mark: str) -> None:
    """End all processes of the run with this mark; returns when they are gone, or were killed."""
    deadline = time.monotonic() + _TERMINATE_GRACE_S
    ended: set[int] = set()
    looks_without_any = 0
    # A process that is just being started has no environment yet, so that one look may miss it.
    while looks_without_any < 2 and time.monotonic() < deadline:
        left = marked(mark)
        looks_without_any = 0 if left else looks_without_any + 1
        # A process that gets the signal may start another before it ends.
        signal_all([pid for pid in left if pid not in ended], signal.SIGTERM)
        ended.update(left)
        time.sleep(_LOOK_EVERY_S)
    signal_all(marked(mark), signal.SIGKILL)


def marked(mark: str) -> list[int]:
    """Return the processes that were started with this mark, but for ssh's shared connections.

    Those wait for the next command to the same node, of this run or another, and end by themselves.
    """
    wanted = f"{VARIABLE}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        with suppress(OSError):  # it has ended, or it is somebody else's
            ours = wanted in (entry / "environ").read_bytes().split(b"\0")
            if ours and not (entry / "cmdline").read_bytes().startswith(b"ssh: "):
                found.append(int(entry.name))
    return found


def children(mark: str) -> list[int]:
    """Return the processes with this mark that this process has started itself: `ansible-playbook`."""
    ours = f"PPid:\t{os.getpid()}\n"
    found = []
    for pid in marked(mark):
        with suppress(OSError):  # it has ended
            if ours in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace"):
                found.append(pid)
    return found


def signal_all(pids: list[int], number: signal.Signals) -> None:
    """Send them a signal; one that is gone is passed over."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
