# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""likwid-bench measures each NUMA node by its own CPUs; what the kernel does not confirm proves nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.facts import numa
from ansible_collections.railyard.fabric.plugins.module_utils.facts.numa import NumaNode
from ansible_collections.railyard.fabric.plugins.module_utils.measure import likwid
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import NodeToolSession
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import memory
from support.nodes.tool_session import refusal
from support.runs.fake_memory import memory_of, with_memory
from support.runs.fake_run import FakeRun

# As likwid-bench 5.2.2 of Debian 12 printed it, lines of the same kind left out.
PRINTED = """\
Running without Marker API. Activate Marker API with -m on commandline.
Allocate: Process running on hwthread 0 (Domain M0) - Vector length 32000000/256000000 Offset 0 Alignment 512
Initialization: First thread in domain initializes the whole stream
--------------------------------------------------------------------------------
LIKWID MICRO BENCHMARK
Test: load
Using 1 work groups
Using 2 threads
Group: 0 Thread 0 Global Thread 0 running on hwthread {0} - Vector length 16000000 Offset 0
Group: 0 Thread 1 Global Thread 1 running on hwthread {1} - Vector length 16000000 Offset 16000000
Cycles:\t\t\t13250669991
CPU Clock:\t\t2596056346
Time:\t\t\t{2:e} sec
Iterations:\t\t32
Size (Byte):\t\t256000000
Size per thread:\t128000000
Data volume (Byte):\t{3}
MByte/s:\t\t{4:.2f}
Loads per update:\t1
"""
GIB = 1 << 30
NODES = [NumaNode(0, [0, 1], 4 * GIB, 32 << 20), NumaNode(1, [2, 3], 4 * GIB, 32 << 20)]


class Desk(NodeToolSession):
    """Stands in for runner and node: 40 GB in 2 s of the first NUMA node, 30 GB of the second."""

    def __init__(self) -> None:
        self.policy = {"memory_bandwidth_duration_s": 5, "allow_busy": False}
        self.own = Place("gpu1", "", "", "")
        self.peer_address = ""
        self.subject, self.node_class = None, "hardware"
        self.argvs: list[list[str]] = []
        self.cpus = [[0, 1], [2, 3]]
        self.at_work, self.from_elsewhere = 1.0, 0
        self.others, self.others_later = 0, 0
        self.worked_ms, self.foreign = 1000, 5

    def run_with(self, argv: list[str], limit_s: float, stdin: int = -1) -> Finished:
        place = len(self.argvs)
        self.argvs.append(argv)
        self.worked_ms += int(2 * 2000 * self.at_work)
        self.foreign += self.from_elsewhere
        self.others += self.others_later
        volume = (40, 30)[place] * 10**9
        text = PRINTED.format(*self.cpus[place], 2.0, volume, volume / 2.0 / 1e6)
        return Finished(0, text, 0.1 + 3 * place, 0.0, 2.9 + 3 * place)

    def busy_ms(self, _reader: object, _cpus: object) -> int:
        self.worked_ms += self.others
        return self.worked_ms


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk()
    monkeypatch.setattr(numa, "nodes", lambda _reader: NODES)
    monkeypatch.setattr(numa, "busy_ms", made.busy_ms)
    monkeypatch.setattr(numa, "foreign", lambda _reader, _number: made.foreign)
    monkeypatch.setattr(numa, "clocks_mhz", lambda _reader, _cpus: [2100.0, 2000.0, 2600.0])
    monkeypatch.setattr(likwid, "_WATCH_S", 0.01)
    return made


def row_of(desk: Desk) -> dict[str, Any]:
    reading = likwid.LikwidBench().measure(desk, likwid.CHECK)
    return {
        "metrics": reading.metrics, "counters": reading.counters, "window_s": reading.window_s,
        "proof_reason": reading.doubt, **(reading.extra or {}),
    }  # fmt: skip


def test_the_slowest_numa_nodes_rate_counts(desk: Desk) -> None:
    row = row_of(desk)
    assert row["metrics"] == {"bandwidth_bytes_per_s": 15e9}
    assert [(one["numa_node"], one["cpus"], one["bandwidth_bytes_per_s"]) for one in row["memory"]] == [
        (0, 2, 20e9), (1, 2, 15e9),
    ]  # fmt: skip
    # 5 s for two nodes: 2 s each. Four times 32 MiB is less than the 256 MB that it is at least.
    assert desk.argvs == [
        ["likwid-bench", "-t", "load", "-s", "2", "-w", f"M{domain}:256MB"] for domain in range(2)
    ]
    assert row["window_s"] == [0.1, 5.9]
    assert row["counters"]["numa1_busy_ms"] == [5000, 9000]
    assert row["proof_reason"] is memory.find_contradiction(row, desk.policy) is None


def test_the_clocks_are_read_while_it_runs(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likwid, "_SAMPLE_S", 0.01)
    run, read, clocks_mhz = desk.run_with, threading.Event(), numa.clocks_mhz
    monkeypatch.setattr(numa, "clocks_mhz", lambda *given: (read.set(), clocks_mhz(*given))[1])
    monkeypatch.setattr(desk, "run_with", lambda *given: (read.wait(60), run(*given))[1])
    assert row_of(desk)["memory"][0]["cpu_mhz"] == {"lowest": 2000.0, "median": 2100.0}


def test_a_large_cache_takes_a_larger_vector(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numa, "nodes", lambda _reader: [NumaNode(0, [0, 1], 16 * GIB, 400 << 20)])
    row_of(desk)
    # Four times 400 MiB are 1677.7 MB.
    assert desk.argvs[0][-1] == "M0:1678MB"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"at_work": 0.5}, "the CPUs of NUMA node 0 worked for 2 s, less than the 4 s of reading"),
        ({"from_elsewhere": 13}, "13 pages that were requested from NUMA node 0 came from another NUMA node"),
    ],
)
def test_what_the_kernel_does_not_confirm_proves_nothing(
    desk: Desk, change: dict[str, Any], says: str
) -> None:
    vars(desk).update(change)
    row = row_of(desk)
    assert row["proof_reason"] == memory.find_contradiction(row, desk.policy) == says


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"counters": {"numa0_busy_ms": [1, 2]}}, "its counters are"),
        ({"window_s": [0.0, 2.0]}, "longer than its window"),
        ({"metrics": {"bandwidth_bytes_per_s": 20e9}}, "is not that of the slowest NUMA node"),
    ],
)
def test_the_judge_calculates_it_again(desk: Desk, change: dict[str, Any], says: str) -> None:
    assert says in str(memory.find_contradiction({**row_of(desk), **change}, desk.policy))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        # J3: a moment, a vector that a cache holds, one NUMA node twice.
        ({"read_s": 0.001}, "was read for 0.001 s, less than 1"),
        ({"vector_bytes": 1024}, "had 1024 bytes: a cache may have held it"),
        ({"numa_node": 1}, "a NUMA node twice"),
    ],
)
def test_less_than_was_requested_proves_nothing(desk: Desk, change: dict[str, Any], says: str) -> None:
    row = row_of(desk)
    row["memory"][0].update(change)
    listed = {name for one in row["memory"] for name in likwid.counter_names(one["numa_node"])}
    row["counters"] = {name: span for name, span in row["counters"].items() if name in listed}
    assert says in str(memory.find_contradiction(row, desk.policy))


def test_a_numa_node_that_is_counted_and_not_listed_proves_nothing(desk: Desk) -> None:
    """J3: the slowest one left out."""
    row = row_of(desk)
    del row["memory"][1]
    row["metrics"] = {"bandwidth_bytes_per_s": row["memory"][0]["bandwidth_bytes_per_s"]}
    assert "its counters are" in str(memory.find_contradiction(row, desk.policy))


def test_a_rate_that_is_not_its_bytes_in_its_time(desk: Desk) -> None:
    row = row_of(desk)
    row["memory"][0]["read_bytes"] *= 2
    assert "20000000000 B/s for 2 s are not the 80000000000 bytes" in str(
        memory.find_contradiction(row, desk.policy)
    )


@pytest.mark.parametrize(
    ("change", "nodes", "reason", "says"),
    [
        ({}, [], "memory_unfit", "lists no NUMA node"),
        ({}, [NumaNode(0, [0, 1], GIB // 4, 0)], "memory_unfit", "too little for a vector of 0.3 GB"),
        ({"others": 20}, NODES, "busy", "other processes use"),
        ({"others_later": 20}, NODES, "busy", "other processes use"),
        ({"cpus": [[0, 2]]}, NODES, "tool_failed", "it used the CPUs [0, 2], NUMA node 0 has [0, 1]"),
    ],
)
def test_what_is_not_measured(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, Any],
    nodes: list[NumaNode],
    reason: str,
    says: str,
) -> None:
    vars(desk).update(change)
    monkeypatch.setattr(numa, "nodes", lambda _reader: nodes)
    error = refusal(row_of, desk).as_error()
    assert error["class"] == reason
    assert says in error["message"]


@pytest.mark.parametrize("torn", [PRINTED.index("MByte"), PRINTED.index("Data")])
def test_an_incomplete_run_says_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch, torn: int) -> None:
    text = PRINTED[:torn].format(0, 1, 2.0, 40 * 10**9)
    monkeypatch.setattr(desk, "run_with", lambda *_given: Finished(0, text, 0.1, 0.1, 2.9))
    with pytest.raises(MeasurementError, match="it ended with 0"):
        row_of(desk)


def test_what_is_confirmed_is_recorded_unless_the_site_bounds_it() -> None:
    for rules, outcome in (
        ({}, "recorded"),
        ({"floors": {"memory_bandwidth": {"bandwidth_bytes_per_s": [1.9e11, 4e11]}}}, "pass"),
        ({"floors": {"memory_bandwidth": {"bandwidth_bytes_per_s": [2.1e11, 4e11]}}}, "fail"),
    ):
        found = memory_of(with_memory(**rules))
        assert [(one["outcome"], one["proof"], one["rail"]) for one in found] == [
            (outcome, "proven", None)
        ] * 2


def test_nothing_is_planned_unless_the_policy_says_so() -> None:
    assert not any(line["tool"] == "likwid-bench" for line in FakeRun().asked)
