# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run nccl-tests inside one node: the bandwidth of its GPUs over NVLink or PCI Express.

One process has all GPUs (`-g`), so nothing crosses a NIC. The result is busbw of the largest size, out of
place: in-place alltoall does not check its data.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..parsers.nccl import nccl_tests
from . import gpu_tool
from .base import tool_failed
from .gpu_tool import GpuTool
from .node_tool import NodeReading, NodeToolSession

COLLECTIVES = {"nccl_all_reduce": "all_reduce", "nccl_all_gather": "all_gather", "nccl_alltoall": "alltoall"}
#: busbw is algbw times this factor times (n-1)/n (nccl-tests, doc/PERFORMANCE.md).
_WAYS = {"nccl_all_reduce": 2, "nccl_all_gather": 1, "nccl_alltoall": 1}
# Doubling sizes add up to twice the largest; each runs 25 times (5 for warm-up) out of place and in place,
# and once more for the check.
_TIMES = 2 * 2 * 26
#: Start of CUDA and NCCL on all GPUs; without persistence mode they wake up first.
_BEGIN_S, _MARGIN_S = 15.0, 90.0
# GPUs behind PCI Express 3.0, and the slowest rate that the time limit allows for.
_USUAL_BYTES_PER_S, _SLOWEST_BYTES_PER_S = 6e9, 1e9
#: The largest size is at least half of the configured one, up to how elements are divided among GPUs.
_LEAST_OF_MOST = 0.45
#: The tolerance between numbers of three to four digits.
_TOLERANCE, _DIGIT = 0.02, 0.011
_VERSION = re.compile(
    r"^# nccl-tests version (\S{1,40}) nccl-headers=[0-9]+ nccl-library=([0-9]{1,9})\s*$", re.M
)


class NcclTests(GpuTool):
    """All collectives of a node's GPUs."""

    name = "nccl-tests"
    folder = "nccl_tests_folder"

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds that GPUs without NVLink take."""
        return _BEGIN_S + int(policy["nccl_tests_most_bytes"]) * _TIMES / _USUAL_BYTES_PER_S

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which the program is stopped."""
        return _MARGIN_S + int(policy["nccl_tests_most_bytes"]) * _TIMES / _SLOWEST_BYTES_PER_S

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the path of the collective's program."""
        return os.path.join(str(policy[self.folder]), f"{COLLECTIVES[check]}_perf")

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Measure one collective.

        Raises:
            MeasurementError: `tool_missing`, `gpu_unfit`, `gpu_wrong`, `tool_too_old`, or the tool's error.
        """
        program = self.find_program(session, check)
        gpus = self.gpus(session, 2)
        most = int(session.policy["nccl_tests_most_bytes"])
        argv = [program, "-b", "8", "-e", str(most), "-f", "2", "-g", str(len(gpus)), "-c", "1"]
        done, output = self.run_program(session, argv, nccl_tests.parse)
        if output["gpus"] != len(gpus):
            raise gpu_tool.other_number(session, self.name, output["gpus"], len(gpus))
        if output["collective"] not in (None, COLLECTIVES[check]):
            raise tool_failed(session, program, f"it reports the collective {output['collective']}")
        sizes = [
            {"size_bytes": row["bytes"], **row["out_of_place"]}
            for row in output["rows"]
            if row["out_of_place"] and row["bytes"]
        ]
        if not sizes or any(one["wrong"] is None for one in sizes):
            raise session.own.error(
                "tool_too_old", f"{program} of {session.own.host} does not count wrong values",
                "build nccl-tests 2.13 or later (github.com/NVIDIA/nccl-tests)",
            )  # fmt: skip
        last = sizes[-1]
        version = _VERSION.search(done.text)
        details: dict[str, Any] = {
            "version": version.group(1) if version else None,
            "nccl_version": version.group(2) if version else None,
            "gpus": gpus,
            "joined": [[self.find_link(one, other) for other in gpus] for one in gpus],
            "sizes": [
                {key: one[key] for key in ("size_bytes", "time_us", "algbw_GBps", "busbw_GBps")}
                for one in sizes
            ],
        }
        metrics = {
            "busbw_GBps": last["busbw_GBps"],
            "algbw_GBps": last["algbw_GBps"],
            "size_bytes": last["size_bytes"],
            "gpus": len(gpus),
        }
        doubt = unproven(check, metrics, details["sizes"], session.policy)
        return NodeReading(metrics, done.window_s, {}, doubt, {"nccl_tests": details})


def unproven(
    check: str, metrics: Mapping[str, Any], sizes: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]
) -> str | None:
    """Return how the numbers of nccl-tests contradict the configuration or each other, or None.

    Args:
        check: a key of `COLLECTIVES`.
        metrics: those of the largest size, with the number of GPUs.
        sizes: `size_bytes time_us algbw_GBps busbw_GBps` of each size in order.
        policy: the run's policy.
    """
    last, gpus = sizes[-1], int(metrics["gpus"])
    most = int(policy["nccl_tests_most_bytes"])
    if not _LEAST_OF_MOST * most <= last["size_bytes"] <= most:
        return f"its largest size is {last['size_bytes']} bytes, configured is {most}"
    for one, other in zip(sizes, sizes[1:]):  # noqa: B905, RUF007 - 3.9
        if one["size_bytes"] >= other["size_bytes"]:
            return f"the size {other['size_bytes']} bytes comes after {one['size_bytes']}"
    for key in ("busbw_GBps", "algbw_GBps", "size_bytes"):
        if metrics[key] != last[key]:
            return f"{key} is {metrics[key]:g}, that of the largest size {last[key]:g}"
    rate = last["size_bytes"] / last["time_us"] / 1e3
    if abs(last["algbw_GBps"] - rate) > _TOLERANCE * rate + _DIGIT:
        return f"{last['size_bytes']} bytes in {last['time_us']:g} us are not {last['algbw_GBps']:g} GB/s"
    follows = last["algbw_GBps"] * _WAYS[check] * (gpus - 1) / gpus
    if abs(last["busbw_GBps"] - follows) > _TOLERANCE * follows + _DIGIT:
        return f"busbw is {last['busbw_GBps']:g} GB/s, expected from algbw and {gpus} GPUs is {follows:.4g}"
    return None
