"""Measure how fast and how busy this machine is at the moment.

`tools/demo` asks this before the virtual environment exists, so only the standard library is used, by any
Python from 3.9 on.
"""

from __future__ import annotations

import os
import time
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from railyard.lab import reference

# As many as the lab has nodes, each with one processor: what two of them get at the same time counts.
_WORKERS = 2
_BENCHMARK_S = 0.8
_SAMPLE_S = 0.5
_BLOCK = b"".join(b"%d rail%d gpuserver%d\n" % (i * i, i % 8, i % 32) for i in range(3000))
# More than this share of all processors for other programs makes a demo late.
BUSY_SHARE = 0.25
_SHOWN = 3
_NAME_CHARACTERS = 60


@dataclass(frozen=True)
class Consumer:
    """A process, its command and the share of one processor that it uses."""

    pid: int
    command: str
    share: float


@dataclass(frozen=True)
class Load:
    """What else this machine does.

    Attributes:
        load_1min: the load average of the last minute, which counts the lab's own nodes too.
        cores: the processors that this process may use.
        others_share: the share of all processors that programs other than the lab use, from 0 to 1.
        consumers: those of them that use the most.
    """

    load_1min: float
    cores: int
    others_share: float
    consumers: tuple[Consumer, ...] = ()

    @property
    def is_busy(self) -> bool:
        """Whether other programs take so much that the lab becomes late."""
        return self.others_share >= BUSY_SHARE

    def __str__(self) -> str:
        cores = "1 core" if self.cores == 1 else f"{self.cores} cores"
        return (
            f"load {self.load_1min:.1f} on {cores}, of which other programs use"
            f" {100 * self.others_share:.0f} %"
        )


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0))


def cpu_slowness(duration_s: float = _BENCHMARK_S) -> float:
    """Return how many times as long the processors take for the same work as the reference machine's.

    Two processes compress for a fixed time, so the answer also contains what other programs take away.
    """
    readers = []
    for _ in range(_WORKERS):
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.write(writer, str(_blocks_per_s(duration_s)).encode())
            finally:
                os._exit(0)
        os.close(writer)
        readers.append((pid, reader))
    rates = []
    for pid, reader in readers:
        with open(reader, "rb") as pipe, suppress(ValueError):
            rates.append(float(pipe.read()))
        os.waitpid(pid, 0)
    return slowness(sum(rates))


def slowness(blocks_per_s: float) -> float:
    """Return the slowness that a rate of the benchmark stands for; 1 where nothing was measured."""
    return reference.BLOCKS_PER_S / blocks_per_s if blocks_per_s > 0 else 1.0


def _blocks_per_s(duration_s: float) -> float:
    begun = time.monotonic()
    blocks = 0
    while True:
        zlib.compress(_BLOCK, 6)
        blocks += 1
        took_s = time.monotonic() - begun
        if took_s >= duration_s:
            return blocks / took_s


def look_at_load(lab: str = "", sample_s: float = _SAMPLE_S, proc: Path = Path("/proc")) -> Load:
    """Return what else runs on this machine, looked at for half a second.

    Args:
        lab: the lab whose virtual machines are not counted.
        sample_s: for how long to look.
        proc: where the kernel shows its processes.
    """
    before, begun = _ticks(proc), time.monotonic()
    time.sleep(sample_s)
    after, took_s = _ticks(proc), time.monotonic() - begun
    return Load(load_1min(proc), cores(), *_others(before, after, took_s, f"railyard-{lab}-", proc))


def load_1min(proc: Path = Path("/proc")) -> float:
    """Return the load average of the last minute; 0 where the kernel does not tell."""
    with suppress(OSError, ValueError, IndexError):
        return float((proc / "loadavg").read_text(encoding="ascii").split()[0])
    return 0.0


def _others(
    before: dict[int, int], after: dict[int, int], took_s: float, lab_prefix: str, proc: Path
) -> tuple[float, tuple[Consumer, ...]]:
    per_s = os.sysconf("SC_CLK_TCK") * max(took_s, 0.001)
    found = []
    for pid, ticks in after.items():
        share = (ticks - before.get(pid, ticks)) / per_s
        if share > 0 and pid != os.getpid():
            command = _command(proc, pid)
            if lab_prefix not in command:
                found.append(Consumer(pid, command[:_NAME_CHARACTERS], share))
    found.sort(key=lambda one: -one.share)
    total = sum(one.share for one in found)
    return min(1.0, total / cores()), tuple(one for one in found[:_SHOWN] if one.share >= 0.1)


def _ticks(proc: Path) -> dict[int, int]:
    """Return the processor time of each process so far, in clock ticks; proc(5), `stat`, fields 14 and 15."""
    found = {}
    for entry in proc.iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError, IndexError):  # it has ended
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                found[int(entry.name)] = int(fields[11]) + int(fields[12])
    return found


def _command(proc: Path, pid: int) -> str:
    with suppress(OSError):
        words = (proc / str(pid) / "cmdline").read_bytes().decode(errors="replace").split("\0")
        text = " ".join(word for word in words if word)
        if text:
            return "".join(letter if letter.isprintable() else "?" for letter in text)
        return (proc / str(pid) / "comm").read_text(errors="replace").strip()
    return "?"
