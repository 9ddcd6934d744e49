# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure memory bandwidth with likwid-bench: how fast the CPUs of each NUMA node read its local memory.

Its benchmark `load` reads a vector repeatedly, each thread pinned to a CPU of the node and the vector in the
node's memory. It counts the bytes read and writes nothing, so there are no uncounted cache line fetches. The
vector is too large for the caches.
"""

from __future__ import annotations

import re
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..facts import numa
from ..facts.numa import NumaNode
from ..facts.sysfs import Reader
from .base import LEAST_OF_ASKED, Finished, tool_failed
from .node_tool import NodeReading, NodeTool, NodeToolSession

CHECK = "memory_bandwidth"
_MB = 10**6  # as likwid counts
_LEAST_BYTES = 256 * _MB
# STREAM's rule: at least four times the caches (https://www.cs.virginia.edu/stream/ref.html).
_CACHES = 4
#: The share of a node's free memory that the vector may take.
_MOST_OF_FREE = 0.5
_WATCH_S, _SAMPLE_S = 0.5, 0.25
#: A NUMA node with more than this share of other CPU load is busy.
_MOST_BUSY = 0.2
#: The least share of the measured time for which the node's CPUs must have worked.
LEAST_AT_WORK = 0.8
#: Rate times duration must equal the bytes read, up to rounding.
_RATE_TOLERANCE = 0.02
# The kernel counts pages, of 4 KiB or 2 MiB.
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
    # Includes the time for filling the vectors.
    margin_s = 60.0

    def __init__(self) -> None:
        self._reader = Reader()

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of reading for all NUMA nodes together."""
        return float(policy["memory_bandwidth_duration_s"])

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Measure each NUMA node.

        Raises:
            MeasurementError: `memory_unfit`, `busy`, or the error of likwid-bench.
        """
        found = numa.nodes(self._reader)
        if not found:
            raise session.own.error(
                "memory_unfit", f"the kernel of {session.own.host} lists no NUMA node",
                "see /sys/devices/system/node there",
            )  # fmt: skip
        seconds = _each_s(session.policy, len(found))
        read: list[dict[str, Any]] = []
        counters: dict[str, list[int]] = {}
        spans: list[float] = []
        for domain, node in enumerate(found):
            size = _vector_bytes(session, node)
            self._check_idle(session, node)
            before = self._read_counters(session, node)
            argv = [self.name, "-t", "load", "-s", str(seconds), "-w", f"M{domain}:{size // _MB}MB"]
            with _Clocks(self._reader, node.cpus) as clocks:
                done = session.run_with(argv, self.limit_s(session.policy))
            after = self._read_counters(session, node)
            # The kernel counts the work of all processes: others may have started meanwhile.
            self._check_idle(session, node)
            read.append(
                {"numa_node": node.number, **_output(session, done, node), "cpu_mhz": clocks.summarize()}
            )
            counters.update({name: [before[name], after[name]] for name in before})
            spans += [done.begun_s, done.ended_s]
        metrics = {"bandwidth_bytes_per_s": min(one["bandwidth_bytes_per_s"] for one in read)}
        window = [round(spans[0], 4), round(spans[-1], 4)]
        reason = unproven(metrics, read, counters, session.policy)
        return NodeReading(metrics, window, counters, reason, {"memory": read})

    def _read_counters(self, session: NodeToolSession, node: NumaNode) -> dict[str, int]:
        busy, foreign = counter_names(node.number)
        seen = {busy: numa.busy_ms(self._reader, node.cpus), foreign: numa.foreign(self._reader, node.number)}
        if None in seen.values():
            raise session.own.error(
                "memory_unfit",
                f"the kernel of {session.own.host} has no counters for NUMA node {node.number}",
                "see /proc/stat and /sys/devices/system/node there",
            )
        return {name: int(value or 0) for name, value in seen.items()}

    def _check_idle(self, session: NodeToolSession, node: NumaNode) -> None:
        """Raise `busy` if other processes use the CPUs in two samples in a row."""
        if session.policy["allow_busy"]:
            return
        shares = []
        for _look in range(2):
            before, begun = numa.busy_ms(self._reader, node.cpus) or 0, time.monotonic()
            time.sleep(_WATCH_S)
            worked = ((numa.busy_ms(self._reader, node.cpus) or 0) - before) / 1000
            shares.append(worked / (time.monotonic() - begun) / len(node.cpus))
            if shares[-1] <= _MOST_BUSY:
                return
        raise session.own.error(
            "busy",
            f"other processes use {min(shares):.0%} of the CPUs of NUMA node {node.number} on "
            f"{session.own.host}",
            "wait until the node is free, or set policy.allow_busy: true",
        )


class _Clocks:
    """Samples the clock rates of CPUs."""

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

    def summarize(self) -> dict[str, float] | None:
        """Return the lowest and the median clock of the later half; None where there is none."""
        # The vector is filled first, by one thread.
        late = [clock for clocks in self._seen[len(self._seen) // 2 :] for clock in clocks]
        return {"lowest": min(late), "median": statistics.median(late)} if late else None


def counter_names(number: int) -> tuple[str, str]:
    """Return a row's counters of a NUMA node: the busy time of its CPUs, its allocations elsewhere."""
    return f"numa{number}_busy_ms", f"numa{number}_foreign"


def _each_s(policy: Mapping[str, Any], nodes: int) -> int:
    """Return how long each NUMA node reads, in whole seconds as likwid-bench takes them."""
    return max(1, int(float(policy["memory_bandwidth_duration_s"]) / nodes))


def unproven(
    metrics: Mapping[str, Any],
    read: Sequence[Mapping[str, Any]],
    counters: Mapping[str, Sequence[int]],
    policy: Mapping[str, Any],
) -> str | None:
    """Return why the kernel's counters do not confirm the claim of likwid-bench, or None.

    Args:
        metrics: `bandwidth_bytes_per_s` of the slowest NUMA node.
        read: per NUMA node `numa_node cpus read_bytes read_s vector_bytes bandwidth_bytes_per_s`.
        counters: by `counter_names`, before and after.
        policy: the run's policy.
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
            return f"the CPUs of {name} worked for {busy / 1000:g} s, less than the {wanted_s:g} s of reading"
        if foreign > _MOST_FOREIGN * one["vector_bytes"] / _LARGE_PAGE:
            return f"{foreign} pages that were requested from {name} came from another NUMA node"
        if abs(rate * seconds - one["read_bytes"]) > _RATE_TOLERANCE * one["read_bytes"]:
            return f"{name}: {rate:.0f} B/s for {seconds:g} s are not the {one['read_bytes']} bytes read"
    if metrics["bandwidth_bytes_per_s"] != min(one["bandwidth_bytes_per_s"] for one in read):
        return "the bandwidth is not that of the slowest NUMA node"
    return None


def _vector_bytes(session: NodeToolSession, node: NumaNode) -> int:
    size = max(_LEAST_BYTES, _CACHES * node.cache_bytes)
    size += -size % _MB
    if size > _MOST_OF_FREE * node.free_bytes:
        raise session.own.error(
            "memory_unfit",
            f"NUMA node {node.number} of {session.own.host} has {node.free_bytes / 1e9:.1f} GB free, "
            f"too little for a vector of {size / 1e9:.1f} GB",
            "free memory there (numactl --hardware; echo 1 > /proc/sys/vm/drop_caches)",
        )
    return size


def _output(session: NodeToolSession, done: Finished, node: NumaNode) -> dict[str, Any]:
    """Parse the output of likwid-bench.

    Raises:
        MeasurementError: `tool_failed`.
    """
    found = [pattern.findall(done.text) for pattern in (_TIME, _VOLUME, _SIZE, _RATE)]
    cpus = sorted(map(int, _THREAD.findall(done.text)))
    if done.exit_status != 0 or any(len(one) != 1 for one in found):
        raise tool_failed(
            session, "likwid-bench", f"it ended with {done.exit_status}: {done.text.strip()[-300:]}"
        )
    if cpus != node.cpus:
        raise tool_failed(
            session, "likwid-bench", f"it used the CPUs {cpus}, NUMA node {node.number} has {node.cpus}"
        )
    (seconds,), (volume,), (size,), (rate,) = found
    return {
        "cpus": len(cpus),
        "read_bytes": int(volume),
        "read_s": float(seconds),
        "vector_bytes": int(size),
        "bandwidth_bytes_per_s": float(rate) * _MB,
    }
