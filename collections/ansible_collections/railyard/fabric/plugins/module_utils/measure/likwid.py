# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""likwid-bench, which reads memory: what each NUMA node's own CPUs read of its own memory in a second.

Its benchmark `load` reads a vector from one end to the other, again and again, each thread pinned to a CPU of
the node and the vector in the node's memory. What is counted is the bytes read; nothing is written, so that
no cache line is fetched that nobody counts. The vector is too large for the caches.
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts import numa
from ansible_collections.railyard.fabric.plugins.module_utils.facts.numa import NumaNode
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    LEAST_OF_ASKED,
    Finished,
    failed,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NodeReading,
    NodeTool,
    NodeToolSession,
)

CHECK = "memory_bandwidth"
_MB = 10**6  # likwid's own
_LEAST_BYTES = 256 * _MB
# STREAM's rule: four times the caches at least (https://www.cs.virginia.edu/stream/ref.html).
_CACHES = 4
#: Which share of a node's free memory the vector may take.
_MOST_OF_FREE = 0.5
_WATCH_S, _SAMPLE_S = 0.5, 0.25
#: A node whose CPUs work for others for more than this share of their time is busy.
_MOST_BUSY = 0.2
#: In the time that is counted the node's CPUs have to have worked for this share of it.
LEAST_AT_WORK = 0.8
#: A rate times its time is what was read, up to how both are rounded.
_RATE_TOLERANCE = 0.02
# Memory comes in pages of 4 KiB or 2 MiB, and is counted by the page, whatever its size.
_LARGE_PAGE, _MOST_FOREIGN = 2 << 20, 0.1
_THREAD = re.compile(r"^Group: 0 Thread [0-9]+ Global Thread [0-9]+ running on hwthread ([0-9]{1,5}) ", re.M)
_TIME = re.compile(r"^Time:\s+([0-9.]+e[+-][0-9]+) sec$", re.M)
_VOLUME = re.compile(r"^Data volume \(Byte\):\s+([0-9]{1,18})$", re.M)
_SIZE = re.compile(r"^Size \(Byte\):\s+([0-9]{1,18})$", re.M)
_RATE = re.compile(r"^MByte/s:\s+([0-9]+\.[0-9]+)$", re.M)


class LikwidBench(NodeTool):
    """The memory of all NUMA nodes, one after the other."""

    name = "likwid-bench"
    package = "likwid"
    # In it the vectors are filled.
    margin_s = 60.0

    def __init__(self) -> None:
        self._reader = Reader()

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of reading, of all NUMA nodes together."""
        return float(policy["memory_bandwidth_duration_s"])

    def measure(self, play: NodeToolSession, check: str) -> NodeReading:
        """Measure each NUMA node.

        Raises:
            MeasurementError: `memory_unfit`, `busy`, or what likwid-bench says.
        """
        found = numa.nodes(self._reader)
        if not found:
            raise play.own.error(
                "memory_unfit", f"the kernel of {play.own.host} tells of no NUMA node",
                "see /sys/devices/system/node there",
            )  # fmt: skip
        seconds = _each_s(play.policy, len(found))
        read: list[dict[str, Any]] = []
        counters: dict[str, list[int]] = {}
        spans: list[float] = []
        for domain, node in enumerate(found):
            size = _vector_bytes(play, node)
            self._mind_others(play, node)
            before = self._counted(play, node)
            argv = [self.name, "-t", "load", "-s", str(seconds), "-w", f"M{domain}:{size // _MB}MB"]
            with _Clocks(self._reader, node.cpus) as clocks:
                done = play.run_with(argv, self.limit_s(play.policy))
            after = self._counted(play, node)
            # The kernel counts work, not whose it is: others may have begun meanwhile.
            self._mind_others(play, node)
            read.append({"numa_node": node.number, **_output(play, done, node), "cpu_mhz": clocks.told()})
            counters.update({name: [before[name], after[name]] for name in before})
            spans += [done.begun_s, done.ended_s]
        metrics = {"bandwidth_bytes_per_s": min(one["bandwidth_bytes_per_s"] for one in read)}
        window = [round(spans[0], 4), round(spans[-1], 4)]
        reason = unproven(metrics, read, counters, play.policy)
        return NodeReading(metrics, window, counters, reason, {"memory": read})

    def _counted(self, play: NodeToolSession, node: NumaNode) -> dict[str, int]:
        busy, foreign = counter_names(node.number)
        seen = {
            busy: numa.busy_ms(self._reader, node.cpus),
            foreign: numa.foreign(self._reader, node.number),
        }
        if None in seen.values():
            raise play.own.error(
                "memory_unfit",
                f"the kernel of {play.own.host} does not count what NUMA node {node.number} does",
                "see /proc/stat and /sys/devices/system/node there",
            )
        return {name: int(value or 0) for name, value in seen.items()}

    def _mind_others(self, play: NodeToolSession, node: NumaNode) -> None:
        """Refuse CPUs that work for others, seen twice running."""
        if play.policy["allow_busy"]:
            return
        shares = []
        for _look in range(2):
            before, begun = numa.busy_ms(self._reader, node.cpus) or 0, time.monotonic()
            time.sleep(_WATCH_S)
            worked = ((numa.busy_ms(self._reader, node.cpus) or 0) - before) / 1000
            shares.append(worked / (time.monotonic() - begun) / len(node.cpus))
            if shares[-1] <= _MOST_BUSY:
                return
        raise play.own.error(
            "busy",
            f"the CPUs of NUMA node {node.number} of {play.own.host} work for others for "
            f"{min(shares):.0%} of their time",
            "wait until the node is free, or set policy.allow_busy: true",
        )


class _Clocks:
    """Looks at CPUs' clocks while something runs on them."""

    def __init__(self, reader: Reader, cpus: Sequence[int]) -> None:
        self._reader, self._cpus = reader, cpus
        self._seen: list[list[float]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> _Clocks:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(_SAMPLE_S):
            self._seen.append(numa.clocks_mhz(self._reader, self._cpus))

    def told(self) -> dict[str, float] | None:
        """Return the lowest clock, and the median of all, of the later half; None where none is told."""
        # The vector is filled first, by one thread.
        late = [clock for clocks in self._seen[len(self._seen) // 2 :] for clock in clocks]
        return {"lowest": min(late), "median": statistics.median(late)} if late else None


def counter_names(number: int) -> tuple[str, str]:
    """Return how a row calls the time that a NUMA node's CPUs worked, and what it had from other nodes."""
    return f"numa{number}_busy_ms", f"numa{number}_foreign"


def _each_s(policy: Mapping[str, Any], nodes: int) -> int:
    """Return how long each of so many NUMA nodes is asked to read, in whole seconds as likwid-bench takes."""
    return max(1, int(float(policy["memory_bandwidth_duration_s"]) / nodes))


def unproven(
    metrics: Mapping[str, Any],
    read: Sequence[Mapping[str, Any]],
    counters: Mapping[str, Sequence[int]],
    policy: Mapping[str, Any],
) -> str | None:
    """Return why the kernel's counters do not bear out what likwid-bench claims, or None when they do.

    Args:
        metrics: the slowest NUMA node's `bandwidth_bytes_per_s`.
        read: of each NUMA node `numa_node cpus read_bytes read_s vector_bytes bandwidth_bytes_per_s`.
        counters: by `counter_names`, before and after.
        policy: the run's.
    """
    if len({one["numa_node"] for one in read}) < len(read):
        return "it lists a NUMA node twice"
    least_s = LEAST_OF_ASKED * _each_s(policy, len(read))
    for one in read:
        name, seconds, rate = f"NUMA node {one['numa_node']}", one["read_s"], one["bandwidth_bytes_per_s"]
        busy, foreign = (
            counters[counter][1] - counters[counter][0] for counter in counter_names(int(one["numa_node"]))
        )
        if seconds < least_s:
            return f"{name} was read for {seconds:g} s, less than {least_s:g}"
        if one["vector_bytes"] < _LEAST_BYTES:
            return f"the vector of {name} had {one['vector_bytes']} bytes: a cache may have held it"
        wanted_s = seconds * one["cpus"]
        if busy / 1000 < LEAST_AT_WORK * wanted_s:
            return f"the CPUs of {name} worked for {busy / 1000:g} s, reading took them {wanted_s:g} s"
        if foreign > _MOST_FOREIGN * one["vector_bytes"] / _LARGE_PAGE:
            return f"{foreign} times memory that {name} was asked for came from another"
        if abs(rate * seconds - one["read_bytes"]) > _RATE_TOLERANCE * one["read_bytes"]:
            return f"{name}: {rate:.0f} B/s for {seconds:g} s are not the {one['read_bytes']} bytes read"
    if metrics["bandwidth_bytes_per_s"] != min(one["bandwidth_bytes_per_s"] for one in read):
        return "the slowest NUMA node's rate is not the one that it states"
    return None


def _vector_bytes(play: NodeToolSession, node: NumaNode) -> int:
    size = max(_LEAST_BYTES, _CACHES * node.cache_bytes)
    size += -size % _MB
    if size > _MOST_OF_FREE * node.free_bytes:
        raise play.own.error(
            "memory_unfit",
            f"NUMA node {node.number} of {play.own.host} has {node.free_bytes / 1e9:.1f} GB free, too little "
            f"for a vector of {size / 1e9:.1f} GB",
            "free memory there (numactl --hardware; echo 1 > /proc/sys/vm/drop_caches)",
        )
    return size


def _output(play: NodeToolSession, done: Finished, node: NumaNode) -> dict[str, Any]:
    """Return what a whole run of likwid-bench says.

    Raises:
        MeasurementError: `tool_failed`.
    """
    found = [pattern.findall(done.text) for pattern in (_TIME, _VOLUME, _SIZE, _RATE)]
    cpus = sorted(map(int, _THREAD.findall(done.text)))
    if done.exit_status != 0 or any(len(one) != 1 for one in found):
        raise failed(play, "likwid-bench", f"it ended with {done.exit_status}: {done.text.strip()[-300:]}")
    if cpus != node.cpus:
        raise failed(play, "likwid-bench", f"it read by CPUs {cpus}, NUMA node {node.number} has {node.cpus}")
    (seconds,), (volume,), (size,), (rate,) = found
    return {
        "cpus": len(cpus),
        "read_bytes": int(volume),
        "read_s": float(seconds),
        "vector_bytes": int(size),
        "bandwidth_bytes_per_s": float(rate) * _MB,
    }
