# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the NUMA nodes that have CPUs and memory, and their kernel counters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import NamedTuple

from .sysfs import Reader

_CPU = ("devices", "system", "cpu")
_NODE = ("devices", "system", "node")
_SIZE = re.compile(r"([0-9]{1,9})([KMG])\Z")
_UNIT = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_FREE = re.compile(r"^Node [0-9]+ MemFree: +([0-9]{1,15}) kB$", re.MULTILINE)
_FOREIGN = re.compile(r"^numa_foreign ([0-9]{1,20})$", re.MULTILINE)
# Fields of a line of /proc/stat: user, nice and system; iowait, interrupts and steal do not count as busy.
_WORK = slice(1, 4)
#: The most CPUs of a valid list.
_MOST_CPUS = 8192


class NumaNode(NamedTuple):
    """A NUMA node: its number, its CPUs, its free memory, and the total size of its last-level caches."""

    number: int
    cpus: list[int]
    free_bytes: int
    cache_bytes: int


def nodes(reader: Reader) -> list[NumaNode]:
    """Return the NUMA nodes with CPUs and memory, by number; a GPU's memory may be a node without CPUs."""
    found = []
    for name in reader.names(reader.sys(*_NODE)):
        number = re.fullmatch(r"node([0-9]{1,4})", name)
        if number:
            cpus = cpu_list(reader.text(reader.sys(*_NODE, name, "cpulist")))
            free = _FREE.search(reader.text(reader.sys(*_NODE, name, "meminfo")) or "")
            if cpus and free and int(free[1]):
                found.append(NumaNode(int(number[1]), cpus, int(free[1]) << 10, _cache_bytes(reader, cpus)))
    return sorted(found)


def cpu_list(text: str | None) -> list[int]:
    """Parse a list of CPUs as the kernel writes it, `0-3,8`; none where it is invalid."""
    cpus: list[int] = []
    for part in (text or "").split(","):
        span = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", part.strip())
        if span is None:
            return []
        cpus += range(int(span[1]), min(int(span[2] or span[1]), int(span[1]) + _MOST_CPUS) + 1)
    return sorted(set(cpus))


def busy_ms(reader: Reader, cpus: Iterable[int]) -> int | None:
    """Return the total busy time of CPUs since boot; None where it is unknown."""
    wanted, ticks = {f"cpu{cpu}" for cpu in cpus}, 0
    try:
        with open(reader.proc("stat"), encoding="utf-8") as handle:
            for line in handle:
                words = line.split()
                if not line.startswith("cpu"):
                    break
                if words[0] in wanted:
                    wanted.remove(words[0])
                    ticks += sum(map(int, words[_WORK]))
    except (OSError, ValueError):
        return None
    return None if wanted else ticks * 1000 // os.sysconf("SC_CLK_TCK")


def foreign(reader: Reader, number: int) -> int | None:
    """Return how many pages that a node should provide came from another (numa_miss); None where unknown."""
    found = _FOREIGN.search(reader.text(reader.sys(*_NODE, f"node{number}", "numastat")) or "")
    return int(found[1]) if found else None


def clocks_mhz(reader: Reader, cpus: Iterable[int]) -> list[float]:
    """Return the current clock rates of CPUs that report them (virtual ones do not)."""
    said = (reader.number(reader.sys(*_CPU, f"cpu{cpu}", "cpufreq", "scaling_cur_freq")) for cpu in cpus)
    return [khz / 1000 for khz in said if khz]


def _cache_bytes(reader: Reader, cpus: Iterable[int]) -> int:
    """Add up the last-level caches of CPUs, each once."""
    caches: dict[str, int] = {}
    for cpu in cpus:
        folder, last = reader.sys(*_CPU, f"cpu{cpu}", "cache"), (0, "", 0)
        for name in reader.names(folder):
            level = reader.number(os.path.join(folder, name, "level"))
            size = _SIZE.match(reader.text(os.path.join(folder, name, "size")) or "")
            shared = reader.text(os.path.join(folder, name, "shared_cpu_list")) or str(cpu)
            if level and size:
                last = max(last, (level, shared, int(size[1]) * _UNIT[size[2]]))
        caches[last[1]] = last[2]
    return sum(caches.values())
