"""Writes the healthy run of fake_run as a folder, for the tests of report, judgement and command line.

Numbers are chosen here, not measured: rails of 10 Gbit/s (declared) that carry 9.4 of TCP and 9.6 of RDMA,
whose latency of 5 µs is below TCP's 21, so that RDMA is faster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.runs.fake_run import NODES, FakeRun, exchanged

Row = dict[str, Any]
Change = Callable[[Row], Row | None]

#: What FakeRun lets one direction of a bandwidth test carry, and how many observations an RDMA latency has.
FAKE_GBPS, FAKE_OBSERVATIONS = 0.95, 2000
#: Gbit/s of one direction.
GBPS = {
    "tcp_bandwidth": 9.4,
    "tcp_bandwidth_bi": 8.3,
    "tcp_bandwidth_concurrent": 9.4,
    "rdma_bandwidth": 9.6,
    "rdma_bandwidth_bi": 9.0,
    "rdma_bandwidth_concurrent": 9.2,
}
LATENCIES = {
    "tcp_latency": {"latency_average_us": 21.9, "latency_p50_us": 21.0},
    "rdma_latency": {
        "latency_average_us": 5.2,
        "latency_p50_us": 5.0,
        "latency_p99_us": 7.5,
        "latency_p999_us": 12.0,
        "latency_min_us": 4.4,
        "latency_max_us": 60.0,
        "observations": 100_000,
    },
}


def scale(row: dict[str, Any], gbps: float | None, latencies: dict[str, float] | None = None) -> None:
    """Let a bandwidth row carry another rate, or a latency row other numbers, with counters that confirm it.

    Args:
        row: one end's row as FakeRun makes it; changed.
        gbps: what one direction carries; None where the row is of no bandwidth.
        latencies: metrics of the client's end, where the row is of a latency that is to be another.
    """
    times = 1.0
    if gbps is not None:
        times = gbps / FAKE_GBPS
        row["metrics"] |= {
            name: value * times for name, value in row["metrics"].items() if name.endswith(("_gbps", "_mpps"))
        }
        if "iterations" in row:
            row["iterations"] = round(row["iterations"] * times)
    elif latencies:
        row["metrics"] |= latencies if row["metrics"] else {}
        times = latencies.get("observations", FAKE_OBSERVATIONS) / FAKE_OBSERVATIONS
    for name, (before, after) in row["counters"].items():
        row["counters"][name] = [before, before + round((after - before) * times)]
    if "samples" in row:
        row["samples"]["rx_bytes"] = [round(value * times) for value in row["samples"]["rx_bytes"]]


class TenGbps(FakeRun):
    """The healthy run with numbers that differ from test to test, as a report's charts need them."""

    cabled = False

    def _row(self, line: Row, end: str) -> Row:
        row, check = super()._row(line, end), line["check"]
        spread = int(line["id"][1:]) % 7
        if check == "ping_rtt" and end == "client":
            row["metrics"]["rtt_average_us"] += spread
        gbps = GBPS.get(check)
        if gbps is not None and not check.startswith("rdma"):
            gbps -= spread / 100
        scale(row, gbps, LATENCIES.get(check))
        return row


def build_run(
    folder: Path,
    *,
    nodes: tuple[str, ...] = NODES,
    rails: int = 2,
    change_fact: Change = lambda row: row,
    change_result: Change = lambda row: row,
    end: Row | None = None,
    manifest: Row | None = None,
    rdma: bool = False,
) -> Path:
    """Write a run folder.

    Args:
        folder: `<reports>/<cluster>/<run>`; made.
        nodes: their names, in order.
        rails: how many each node has.
        change_fact: called with each facts row; returns it changed, or None to leave it out.
        change_result: the same for each result row.
        end: the end record; default: completed.
        manifest: further keys of the manifest.
        rdma: declare RoCE on software ports of virtual nodes, and ask and answer it.
    """
    (folder / "raw").mkdir(parents=True)
    kind = {"transport": "roce", "node_class": "virtual"} if rdma else {}
    tests = {"bidirectional": rdma, "rdma_tests": ["ib_write_bw", "ib_write_lat"]}
    run = TenGbps(10.0, nodes=nodes, rails=rails, **kind, **tests)
    results = [change_result(row) for row in run.results]
    rows = {
        "facts": [change_fact(row) for row in run.facts],
        "asked": run.asked,
        "results": exchanged([row for row in results if row is not None]),
    }
    named = {"cluster": folder.parent.name}
    told = {**run.manifest, **named}
    if end is not None:
        told["end"] = end or None
    told |= manifest or {}
    run.policy = told["policy"]
    documents = {
        "manifest": told,
        "plan": {**run.sealed(), **named},
        "work_order": run.order,
    }
    for name, document in documents.items():
        text = json.dumps(document, sort_keys=True, indent=1) + "\n"
        (folder / f"{name}.json").write_text(text, encoding="utf-8")
    for name, lines in rows.items():
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in lines if row is not None)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def slow_and_silent(row: dict[str, Any]) -> dict[str, Any] | None:
    """gpuserver2 → gpuserver1 is slow on rail1; one end of a latency test on rail0 says nothing."""
    if (row["check"], row["node"], row["rail"]) == ("tcp_bandwidth", "gpuserver2", "rail1"):
        row["metrics"].update(bandwidth_gbps=3.1, sent_gbps=3.11)
    if (row["check"], row["node"], row["rail"], row["end"]) == (
        "tcp_latency",
        "gpuserver1",
        "rail0",
        "server",
    ):
        return None
    return row
