# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what the kernel counts on a netdev and an RDMA port, before, during and after a test."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from ansible_collections.railyard.fabric.plugins.module_utils import node_files
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.facts import counter_file
from ansible_collections.railyard.fabric.plugins.module_utils.facts.hca import driver_of
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OVERLAP, MOST_GAP

KEYS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
SAMPLE_PERIOD_S = 0.2
# A reading that took longer tells of no moment: what it read may be older than its time, by all of that.
_PROMPT_S = 0.05
_TRIES = 3
# Samples are so much of a period apart at least.
_APART = 0.1
# Shares of a window: as far from its ends all samples are kept, and so far apart are those between at most.
_NEAR, _KEPT_APART = 1 - LEAST_OVERLAP, 0.8 * MOST_GAP
SYS = "/sys/class/net"
# Beside the lifespan: the kernel counts it in ticks, of which the longest take 10 ms.
_TICK_S = 0.02
_MOST_NAMED = 12

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Snapshot = dict[str, Optional[int]]  # noqa: UP045 - see above
ReadBytes = Callable[[], Optional["tuple[int, int]"]]


def read(netdev: str, root: str = SYS) -> Snapshot:
    """Return the netdev's counters; one that is absent or unreadable is None."""
    return {key: _number(f"{root}/{netdev}/statistics/{key}") for key in KEYS}


def read_all(netdevs: Mapping[str, str], root: str = SYS) -> dict[str, Snapshot]:
    """Return the counters of several rails, by rail name."""
    return {rail: read(netdev, root) for rail, netdev in netdevs.items()}


def spans(before: Snapshot, after: Snapshot, keys: Iterable[str] = KEYS) -> dict[str, list[int | None]]:
    """Return `{counter: [before, after]}`, the form that result rows carry."""
    return {key: [before.get(key), after.get(key)] for key in keys}


def rate_bytes_per_s(netdev: str, over_s: float, hca: str | None = None, sys_root: str = "/sys") -> float:
    """Return the traffic of a rail, the busier direction, measured over so many seconds.

    Args:
        netdev: its netdev; empty where it has none.
        over_s: how long to look.
        hca: its RDMA port, whose traffic most drivers carry past the netdev's counters. A port whose counters
            cannot be read shows none: what is measured on it is not proven either.
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
    """Reads the traffic counters of one RDMA port, in the files that its driver has them in.

    Which alternative of a file counts is settled once: another one is another counter.

    Attributes:
        driver: its kernel driver; None where sysfs names none.
        traffic: in which counters its driver shows traffic; None where none can be read.
        why_not: why none can be read.
        refresh_s: how long after a moment the counters surely show it.
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
        """Return the counters by the names that rows give them; one that cannot be read is None."""
        found: Snapshot = {}
        for name, files in self._files.items():
            numbers = [_read(path).number for path in files]
            whole = [number for number in numbers if number is not None]
            found[name] = sum(whole) if files and len(whole) == len(numbers) else None
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
        """Return how long a value of hw_counters may be kept: `lifespan`, in ms, which a site may set."""
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
        """End it and return the lists `t_s` (after `started`), `tx_bytes` and `rx_bytes`."""
        self._over.set()
        self._thread.join(timeout=2 * SAMPLE_PERIOD_S)
        return self.so_far()

    def so_far(self) -> dict[str, list[float]]:
        """Return what `stop` would, and go on."""
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
            # Against a fixed grid, so that a late sample does not delay those after it. What was missed is
            # not made up for: samples of one moment have no rate between them.
            now = time.monotonic()
            tick += SAMPLE_PERIOD_S * (1 + math.floor((now - tick) / SAMPLE_PERIOD_S + _APART))
            if self._over.wait(tick - now):
                return

    def _sample(self) -> list[float] | None:
        """Return the time and the bytes of that time; None where the processor was taken away each time.

        The bytes that a window begins with would be too few otherwise, and its rate too high.
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
    """Return what a row keeps of a receiver's samples: `t_s` and `rx_bytes`, all near its window's ends.

    Rails are added up from where the last of them begins to where the first ends, at most a tenth of the
    window within it. Between these moments so many are kept that no gap is one that the judge refuses.
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
        tells = any(before <= last and after >= first for first, last in
                    ((begin, begin + near_s), (end - near_s, end)))  # fmt: skip
        if tells or (begin <= at <= end and after - times[kept[-1]] > apart_s):
            kept.append(place)
    return {"t_s": [times[place] for place in kept], "rx_bytes": [counts[place] for place in kept]}


def processor_ticks(text: str) -> dict[str, int]:
    """Return `{"busy", "total"}` from the first line of /proc/stat; waiting for a disk is not work."""
    words = text.split("\n", 1)[0].split()
    ticks = [int(word) for word in words[1:9]]
    idle = sum(ticks[3:5])
    return {"busy": sum(ticks) - idle, "total": sum(ticks)}


def read_processor_ticks() -> dict[str, int]:
    """Return the node's processor time so far, in ticks."""
    with open("/proc/stat", encoding="ascii") as handle:
        return processor_ticks(handle.read())


def node_cpu_percent(before: Mapping[str, int], after: Mapping[str, int]) -> float | None:
    """Return how busy the whole node was, 100 meaning every processor; None for no time at all."""
    total = after["total"] - before["total"]
    if total <= 0:
        return None
    # The kernel's iowait may decrease, which would make a busy node busier than it can be.
    return min(max(round(100.0 * (after["busy"] - before["busy"]) / total, 1), 0.0), 100.0)


def _number(path: str) -> int | None:
    return _read(path).number


def _read(path: str) -> counter_file.Value:
    """Read a counter of traffic; all ones are what a driver answers that could not read it."""
    value = counter_file.read(path)
    if value.number is not None and value.number >= rdma_counters.UNREADABLE:
        return counter_file.Value(None, "reads all ones")
    return value
