# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's own count of what crossed a netdev, read before, during and after a test."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Optional

from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
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
SYS_HCA = "/sys/class/infiniband"

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


def rate_bytes_per_s(netdev: str, over_s: float, root: str = SYS) -> float:
    """Return the traffic on the netdev, the busier direction, measured over so many seconds."""
    return _rate_per_s(lambda: read(netdev, root), ("tx_bytes", "rx_bytes"), over_s)


def port_rate_bytes_per_s(hca: str, over_s: float, root: str = SYS_HCA) -> float:
    """Return the same of an RDMA port, whose traffic passes by every netdev's counters."""
    card = proof.HARDWARE
    words = _rate_per_s(lambda: read_port(hca, card.port_folder, card.port_files, root), card.bytes, over_s)
    return words * proof.unit_bytes(card.bytes[0])


def _rate_per_s(take: Callable[[], Snapshot], keys: Sequence[str], over_s: float) -> float:
    before = take()
    start = time.monotonic()
    time.sleep(over_s)
    after = take()
    elapsed = time.monotonic() - start
    deltas = [(after[key] or 0) - (before[key] or 0) for key in keys]
    return max(deltas) / elapsed


def read_port(hca: str, folder: str, files: Mapping[str, str], root: str = SYS_HCA) -> Snapshot:
    """Return counters of an RDMA port by the names that rows give them.

    Args:
        hca: the port as `device:port`.
        folder: `counters` or `hw_counters`.
        files: name in the row -> file in that folder.
        root: where sysfs has its RDMA devices.
    """
    device, _colon, port = hca.partition(":")
    return {name: _number(f"{root}/{device}/ports/{port}/{folder}/{file}") for name, file in files.items()}


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
    try:
        with open(path, encoding="ascii") as handle:
            return int(handle.read())
    except (OSError, ValueError):
        return None
