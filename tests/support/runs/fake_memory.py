# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The healthy run of fake_run, whose nodes have measured the memory of two NUMA nodes each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.runs.fake_run import FakeRun
from support.runs.node_row import node_row

_SECONDS, _CPUS = 4.0, 32
RATES = (2.5e11, 2.0e11)


def with_memory(**rules: Any) -> FakeRun:
    run = FakeRun(memory_bandwidth=True, **rules)
    run.results += [_row(line) for line in run.asked if line["tool"] == "likwid-bench"]
    return run


def memory_of(run: FakeRun) -> list[dict[str, Any]]:
    return [one for one in run.judge() if one["tool"] == "likwid-bench"]


def _row(line: Mapping[str, Any]) -> dict[str, Any]:
    told = [
        {
            "numa_node": number, "cpus": _CPUS, "read_bytes": int(rate * _SECONDS), "read_s": _SECONDS,
            "vector_bytes": 10**9, "bandwidth_bytes_per_s": rate,
            "cpu_mhz": {"lowest": 2000.0, "median": 2600.0},
        }
        for number, rate in enumerate(RATES)
    ]  # fmt: skip
    worked_ms = int(_SECONDS * _CPUS * 1000)
    return {
        **node_row(line, (0.1, 9.0)),
        "metrics": {"bandwidth_bytes_per_s": min(RATES)},
        "counters": {
            f"numa{number}_{name}": [7, 7 + grown]
            for number in range(len(RATES))
            for name, grown in (("busy_ms", worked_ms), ("foreign", 0))
        },
        "memory": told,
    }
