"""Limit memory and CPU time of work on untrusted input."""

from __future__ import annotations

import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

_MIB = 1 << 20
# An exception that somebody swallowed comes once more.
_AGAIN_S = 0.5


class TooExpensiveError(Exception):
    """The work needs more than it may use; the message says how much that is."""


@contextmanager
def confined(memory_bytes: int, cpu_s: float) -> Iterator[None]:
    """Limit the memory of this process, and the processor time from here on, until the context ends.

    It works in the main thread. What the process has mapped already stays; a stricter limit of the caller's
    own (`ulimit`) stays too.

    Args:
        memory_bytes: of the whole process, of which part is in use already.
        cpu_s: processor time of the work.

    Raises:
        TooExpensiveError: a limit was reached.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise TooExpensiveError(f"takes more than {cpu_s:.0f} s of processor time")

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    # RLIMIT_DATA counts what is mapped.
    limit = _status_bytes("VmData") + max(0, memory_bytes - _status_bytes("VmRSS"))
    for other in (soft, hard):
        limit = limit if other == resource.RLIM_INFINITY else min(limit, other)
    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    signal.setitimer(signal.ITIMER_PROF, cpu_s, _AGAIN_S)
    try:
        yield
    except MemoryError:
        raise TooExpensiveError(f"takes more than {memory_bytes // _MIB} MiB of memory") from None
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def _status_bytes(key: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) << 10
    raise RuntimeError(f"/proc/self/status has no {key} on {sys.platform}")
