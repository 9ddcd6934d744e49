# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run nvbandwidth: copies between the host and each GPU, and between each two GPUs, one after the other.

The copy engines do each copy 3 times, and the received data is compared with the sent; the medians count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..parsers.gpu import nvbandwidth
from . import gpu_tool
from .base import tool_failed
from .gpu_tool import GpuTool
from .node_tool import NodeReading, NodeToolSession

Matrix = Sequence[Sequence[Any]]
#: Check -> nvbandwidth's test -> the metric that is its lowest number.
COPIES: Mapping[str, Mapping[str, str]] = {
    "gpu_host_bandwidth": {
        "host_to_device_memcpy_ce": "host_to_gpu_GBps",
        "device_to_host_memcpy_ce": "gpu_to_host_GBps",
    },
    "gpu_peer_bandwidth": {"device_to_device_memcpy_read_ce": "peer_GBps"},
}
_PASSED = "Passed"
_PLANNED_S = 60.0
# 240 pairs of 16 GPUs over PCI Express, 26 GB each.
_LIMIT_S = 600.0


class NvBandwidth(GpuTool):
    """All copies of a node's GPUs."""

    name = "nvbandwidth"
    folder = "nvbandwidth_folder"

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds that eight GPUs without NVLink take."""
        return _PLANNED_S

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which the program is stopped."""
        return _LIMIT_S

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Measure the copies of a check.

        Raises:
            MeasurementError: `tool_missing`, `gpu_unfit`, `gpu_wrong`, or the tool's error.
        """
        program, wanted = self.find_program(session, check), COPIES[check]
        listed = self.gpus(session, 2 if check == "gpu_peer_bandwidth" else 1)
        done, output = self.run_program(session, [program, "-j", "-t", *wanted], nvbandwidth.parse)
        tests = {str(test["test"]): test for test in output["tests"]}
        if len(output["gpus"]) != len(listed):
            raise gpu_tool.other_number(session, self.name, len(output["gpus"]), len(listed))
        if set(tests) != set(wanted) or len(output["tests"]) != len(wanted):
            raise tool_failed(session, program, f"it ran {sorted(tests)} instead of {sorted(wanted)}")
        waived = any(test["status"] != _PASSED for test in tests.values())
        if waived and check != "gpu_peer_bandwidth":
            raise tool_failed(session, program, "it waived a test that every GPU can do")
        if waived or not copied(check, output["tests"][0]["matrix"]):
            raise session.own.error(
                "gpu_unfit", f"{session.own.host}: no GPU can access the memory of another",
                "see `nvidia-smi topo -p2p r`: some GPUs do not support it; else ACS or the IOMMU blocks it",
            )  # fmt: skip
        gpus = _order_gpus(output["gpus"], listed)
        matrices = {name: tests[name]["matrix"] for name in wanted}
        details = {
            "version": output["version"],
            "gpus": gpus,
            "joined": [[self.find_link(one, other) for other in gpus] for one in gpus],
            "matrices": matrices,
        }
        metrics = {**least(check, matrices), "gpus": len(gpus)}
        doubt = unproven(check, metrics, matrices)
        return NodeReading(metrics, done.window_s, {}, doubt, {"nvbandwidth": details})


def copied(check: str, matrix: Matrix) -> list[float]:
    """Return the bandwidths of all copies of a test, without those of a GPU to itself."""
    peer = check == "gpu_peer_bandwidth"
    return [
        cell
        for row, cells in enumerate(matrix)
        for column, cell in enumerate(cells)
        if cell is not None and not (peer and row == column)
    ]


def least(check: str, matrices: Mapping[str, Matrix]) -> dict[str, float]:
    """Return a check's metrics: the slowest copy of each test."""
    return {metric: min(copied(check, matrices[name])) for name, metric in COPIES[check].items()}


def unproven(check: str, metrics: Mapping[str, Any], matrices: Mapping[str, Matrix]) -> str | None:
    """Return how nvbandwidth's numbers contradict the GPUs or each other, or None."""
    gpus = int(metrics["gpus"])
    for name, matrix in matrices.items():
        rows = gpus if check == "gpu_peer_bandwidth" else 1
        if len(matrix) != rows or any(len(cells) != gpus for cells in matrix):
            return f"the matrix of {name} does not match {gpus} GPUs"
        seen = copied(check, matrix)
        if check == "gpu_host_bandwidth" and len(seen) != gpus:
            return f"{name} copied to {len(seen)} of {gpus} GPUs"
        if not seen or min(seen) <= 0:
            return f"{name} has a copy without bandwidth"
    if least(check, matrices) != {key: value for key, value in metrics.items() if key != "gpus"}:
        return "a metric is not that of the slowest copy"
    return None


def _order_gpus(
    seen: Sequence[Mapping[str, Any]], listed: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the GPUs in CUDA's order, which may differ from nvidia-smi's; unmatched ones are unknown."""
    by_address = {one["pci"]: one for one in listed}
    unknown = {"index": None, "pcie_generation": None, "pcie_lanes": None}
    return [
        {**unknown, "name": gpu["name"], "pci": gpu["pci"], **by_address.get(gpu["pci"], {})}
        for gpu in sorted(seen, key=lambda one: int(one["index"]))
    ]
