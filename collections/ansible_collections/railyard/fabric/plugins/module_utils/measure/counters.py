# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's counters of a netdev and an RDMA port before, during and after a test."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from .. import node_files
from ..catalogue import nic_drivers, rdma_counters
from ..facts import counter_file
from ..facts.hca import driver_of
from ..facts.sysfs import Reader
from .base import LEAST_OVERLAP, MOST_GAP

KEYS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
SAMPLE_PERIOD_S = 0.2
# A reading that takes longer has no exact time: its values may be that much older.
_PROMPT_S = 0.05
_TRIES = 3
# The least distance of two samples, as a share of the period.
_APART = 0.1
# Shares of a window: how near to its ends all samples are kept, and the largest distance of those in between.
_NEAR, _KEPT_APART = 1 - LEAST_OVERLAP, 0.8 * MOST_GAP
SYS = "/sys/class/net"
# Added to the lifespan: the kernel counts it in ticks of up to 10 ms.
_TICK_S = 0.02
_MOST_NAMED = 12

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Snapshot = dict[str, Optional[int]]  # noqa: UP045 - see above
ReadBytes = Callable[[], Optional["tuple[int, int]"]]


def read(netdev: str, root: str = SYS) -> Snapshot:
    """Read a netdev's counters; one that is absent or unreadable is None."""
    return {key: _read(f"{root}/{netdev}/statistics/{key}").number for key in KEYS}


def read_all(netdevs: Mapping[str, str], root: str = SYS) -> dict[str, Snapshot]:
    """Read the counters of several rails, by rail name."""
    return {rail: read(netdev, root) for rail, netdev in netdevs.items()}


def spans(before: Snapshot, after: Snapshot, keys: Iterable[str] = KEYS) -> dict[str, list[int | None]]:
    """Return `{counter: [before, after]}` as in result rows."""
    return {key: [before.get(key), after.get(key)] for key in keys}


def rate_bytes_per_s(netdev: str, over_s: float, hca: str | None = None, sys_root: str = "/sys") -> float:
    """Measure the traffic of a rail in the busier direction.

    Args:
        netdev: its netdev; empty where it has none.
        over_s: how long to measure.
        hca: its RDMA port, whose traffic most drivers do not show in the netdev's counters. A port without
            readable counters shows none; tests on it are unproven too.
        sys_root: where sysfs is.
    """
    port = Port(hca, sys_root) if hca else None

    def take() -> list[Snapshot]:
        of_netdev = read(netdev, f"{sys_root}/class/net") if netdev else {}
        return [of_netdev, port.read() if port is not None else {}]

    counted: list[tuple[str, str]] = [rdma_counters.NETDEV_BYTES]
    if port is not None and port.traffic is not None and not port.traffic.netdev_shows_rdma:
        counted.append(port.traffic.bytes)
    before = take()
    start = time.monotonic()
    time.sleep(over_s)
    after = take()
    elapsed = time.monotonic() - start
    moved = [0, 0]
    for pair, first, last in zip(counted, before, after):  # noqa: B905 - Python 3.9 has no strict
        for way, name in enumerate(pair):
            grown = (last.get(name) or 0) - (first.get(name) or 0)
            moved[way] += max(grown, 0) * rdma_counters.unit_bytes(name)
    return max(moved) / elapsed


class Port:
    """Reads the traffic counters of one RDMA port from the files of its driver.

    Of alternative files one is chosen at the start: another one is another counter.

    Attributes:
        driver: its kernel driver; None where sysfs names none.
        traffic: the counters in which its driver shows traffic; None where none can be read.
        why_not: why none can be read.
        refresh_s: the time after which the counters certainly show what happened.
    """

    def __init__(self, hca: str, sys_root: str = "/sys") -> None:
        """Find the driver and its files.

        Args:
            hca: the port as `device:port`.
            sys_root: where sysfs is.
        """
        device, _colon, port = hca.partition(":")
        self._folder = os.path.join(sys_root, "class/infiniband", device, "ports", port)
        self.driver = driver_of(Reader(sys_root), device)
        why_not = nic_drivers.why_unproven(self.driver)
        row = nic_drivers.find(self.driver)
        self.traffic = row.traffic if row is not None else None
        self._files: dict[str, list[str]] = {}
        for counter in self.traffic.counters if self.traffic is not None else ():
            found, why = self._find(counter)
            self._files[counter.name] = found
            if not found:
                why_not = f"driver {self.driver}: {why}"
                self.traffic = None
                break
        self.why_not = f"{hca}: {why_not}" if why_not else ""
        self.refresh_s = self._refresh_s(row) if row is not None and self.traffic is not None else 0.0

    def read(self) -> Snapshot:
        """Read the counters, by their names in rows; one that cannot be read is None."""
        found: Snapshot = {}
        for name, files in self._files.items():
            numbers = [_read(path).number for path in files]
            readable = [number for number in numbers if number is not None]
            found[name] = sum(readable) if files and len(readable) == len(numbers) else None
        return found

    def _find(self, counter: rdma_counters.Counter) -> tuple[list[str], str]:
        """Return the files of a counter, or why there are none: the first alternative that can be read."""
        folder = os.path.join(self._folder, counter.folder)
        problems = []
        for alternative in counter.files:
            values = {name: _read(os.path.join(folder, name)) for name in alternative}
            if all(value.number is not None for value in values.values()):
                return [os.path.join(folder, name) for name in alternative], ""
            problems += [
                f"{counter.folder}/{name}: {value.why_not}" for name, value in values.items() if value.why_not
            ]
        there = node_files.list_names(folder)
        more = len(there) - _MOST_NAMED
        listed = ", ".join(there[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        return [], f"{', '.join(problems)}; {counter.folder} holds {listed or 'no file'}"

    def _refresh_s(self, row: nic_drivers.NicDriver) -> float:
        """Return how long values of hw_counters may be cached, from `lifespan` (ms, can be configured)."""
        if not row.lifespan_ms:
            return 0.0
        kept_ms = _read(os.path.join(self._folder, rdma_counters.HW_COUNTERS, "lifespan")).number
        kept_ms = row.lifespan_ms if kept_ms is None else min(kept_ms, nic_drivers.LONGEST_LIFESPAN_MS)
        return kept_ms / 1e3 + _TICK_S


class Sampler:
    """Samples a rail's byte counters from its own thread until it is stopped.

    `read_bytes` returns the bytes (sent, received) so far, or None where they cannot be read now.
    """

    def __init__(self, name: str, started: float, read_bytes: ReadBytes) -> None:
        self._read_bytes = read_bytes
        self._started = started
        self._over = threading.Event()
        self._rows: list[list[float]] = []
        self._thread = threading.Thread(target=self._run, daemon=True, name="sampler-" + name)
        self._thread.start()

    def stop(self) -> dict[str, list[float]]:
        """Stop and return the lists `t_s` (after `started`), `tx_bytes` and `rx_bytes`."""
        self._over.set()
        self._thread.join(timeout=2 * SAMPLE_PERIOD_S)
        return self.so_far()

    def so_far(self) -> dict[str, list[float]]:
        """Return what `stop` would return, and continue."""
        rows = list(self._rows)
        return {
            "t_s": [round(row[0], 4) for row in rows],
            "tx_bytes": [row[1] for row in rows],
            "rx_bytes": [row[2] for row in rows],
        }

    def _run(self) -> None:
        tick = time.monotonic()
        while True:
            sample = self._sample()
            if sample is not None:
                self._rows.append(sample)
            # On a fixed grid, so that a late sample does not delay those after it. Missed samples are
            # skipped: samples of the same moment have no rate between them.
            now = time.monotonic()
            tick += SAMPLE_PERIOD_S * (1 + math.floor((now - tick) / SAMPLE_PERIOD_S + _APART))
            if self._over.wait(tick - now):
                return

    def _sample(self) -> list[float] | None:
        """Return the time and the bytes at that time; None where the CPU was taken away at each try.

        Otherwise the bytes at the start of a window would be too few, and its rate too high.
        """
        for _try in range(_TRIES):
            begun = time.monotonic()
            seen = self._read_bytes()
            ended = time.monotonic()
            if seen is None:
                return None
            if ended - begun <= _PROMPT_S:
                return [ended - self._started, *seen]
        return None


def received(
    samples: Mapping[str, Sequence[float]], window_s: Sequence[float] | None
) -> dict[str, list[float]]:
    """Select the samples of a receiver that a row keeps: `t_s` and `rx_bytes`.

    Rails are added up from the last begin to the first end, which are within a tenth of the window from its
    ends; there all samples are kept. In between enough are kept that the judge accepts every gap.
    """
    times, counts = list(samples["t_s"]), list(samples["rx_bytes"])
    if window_s is None:
        return {"t_s": times, "rx_bytes": counts}
    begin, end = window_s
    near_s, apart_s = _NEAR * (end - begin), _KEPT_APART * (end - begin)
    kept: list[int] = []
    for place, (before, at, after) in enumerate(
        zip([-math.inf, *times], times, [*times[1:], math.inf])  # noqa: B905 - Python 3.9 has no strict
    ):
        is_near = any(before <= last and after >= first for first, last in
                      ((begin, begin + near_s), (end - near_s, end)))  # fmt: skip
        if is_near or (begin <= at <= end and after - times[kept[-1]] > apart_s):
            kept.append(place)
    return {"t_s": [times[place] for place in kept], "rx_bytes": [counts[place] for place in kept]}


def processor_ticks(text: str) -> dict[str, int]:
    """Return `{"busy", "total"}` from the first line of /proc/stat; iowait is not busy."""
    words = text.split("\n", 1)[0].split()
    ticks = [int(word) for word in words[1:9]]
    idle = sum(ticks[3:5])
    return {"busy": sum(ticks) - idle, "total": sum(ticks)}


def read_processor_ticks() -> dict[str, int]:
    """Read the node's CPU time so far, in ticks."""
    with open("/proc/stat", encoding="ascii") as handle:
        return processor_ticks(handle.read())


def node_cpu_percent(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Return the CPU load of the node, 100 for all CPUs; None when no time has passed."""
    total = after["total"] - before["total"]
    if total <= 0:
        return None
    # The kernel's iowait may decrease, which would give more than 100.
    return min(max(round(100.0 * (after["busy"] - before["busy"]) / total, 1), 0.0), 100.0)


def _read(path: str) -> counter_file.Value:
    """Read a traffic counter; a driver returns all ones when it cannot read it."""
    value = counter_file.read(path)
    if value.number is not None and value.number >= rdma_counters.UNREADABLE:
        return counter_file.Value(None, "reads all ones")
    return value
