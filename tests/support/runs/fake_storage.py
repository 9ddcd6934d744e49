# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The healthy run of fake_run, whose nodes have measured a drive each and read its health."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import fio

from support.runs.fake_run import NODES, FakeRun
from support.runs.node_row import node_row

RATES = {
    "storage_write": 1.5e9, "storage_read": 2e9, "storage_random_read": 4e8, "storage_sync_write": 1e8,
}  # fmt: skip
_BLOCK = {"storage_write": 2**20, "storage_read": 2**20}
_SECONDS = 10


def with_drives(
    nodes: tuple[str, ...] = NODES, slow: Mapping[str, Mapping[str, float]] | None = None, **rules: Any
) -> FakeRun:
    """Return a healthy run whose nodes have like drives; `slow`: which share one does, by node and check."""
    run = FakeRun(nodes=nodes, beacon=len(nodes) == len(NODES), storage_mounts=["/data"], **rules)
    for line in run.asked:
        if line["tool"] == "fio":
            run.results.append(_row(line, (slow or {}).get(line["node"], {}).get(line["check"], 1.0)))
        elif line["tool"] == "smartctl":
            run.results.append(_health(line))
    return run


def drives_of(run: FakeRun) -> list[dict[str, Any]]:
    return [one for one in run.judge() if one["tool"] == "fio"]


def list_accounts(run: FakeRun, *nodes: str) -> list[dict[str, Any]]:
    """Return what the tests of nodes' drives say of their mount, its drives among it."""
    return [row["storage"] for row in run.results if row["host"] in nodes and row.get("storage")]


def _health(line: Mapping[str, Any]) -> dict[str, Any]:
    drive = {
        "name": "nvme0n1", "model": "FAST 9000", "bus": "nvme", "smart": "read", "said": None,
        "protocol": "NVMe", "firmware": "1.2.3", "passed": True, "exit_status": 0, "attributes": [],
        "values": {
            "critical_warning": 0, "available_spare_percent": 99, "available_spare_threshold_percent": 10,
            "used_percent": 3, "media_errors": 0, "unsafe_shutdowns": 5, "warning_temperature_min": 0,
        },
    }  # fmt: skip
    return {
        **node_row(line, (0.4, 0.9)),
        "metrics": {"drives": 1, "drives_read": 1},
        "counters": {},
        "health": {"mount": line["subject"], "drives": [drive]},
    }


def _row(line: Mapping[str, Any], share: float) -> dict[str, Any]:
    check = line["check"]
    rate = RATES[check] * share
    moved = int(rate * _SECONDS)
    grown = {True: [1000, 1000 + moved], False: [7, 7]}
    writes = fio.JOBS[check].writes
    disk = {
        "name": "nvme0n1", "model": "FAST 9000", "size_bytes": 10**12, "rotational": False, "state": "live",
        "bus": "nvme",
        "pcie": {"speed_gts": 16.0, "max_speed_gts": 16.0, "width": 4.0, "max_width": 4.0}, "hardware": True,
    }  # fmt: skip
    return {
        **node_row(line, (0.4, 0.4 + _SECONDS), ["fio", *fio.JOBS[check].options]),
        "metrics": {
            "bandwidth_bytes_per_s": rate,
            "iops": rate / _BLOCK.get(check, 4096),
            "latency_average_us": 30.0,
            "latency_p99_us": 40.0,
        },
        "counters": {"device_read_bytes": grown[not writes], "device_written_bytes": grown[writes]},
        "storage": {
            "mount": "/data", "filesystem": "xfs", "name": "nvme0n1p1", "disks": [disk],
            "file_bytes": 4 << 30, "moved_bytes": moved, "moved_s": float(_SECONDS),
        },
    }  # fmt: skip
