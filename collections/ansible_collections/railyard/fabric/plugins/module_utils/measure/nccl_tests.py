# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests inside one node: what its GPUs reach together, over NVLink or PCI Express alone.

One process has all GPUs (`-g`), so that nothing crosses a card of the network. The number is busbw of the
greatest size, out of place: of alltoall the other half is not checked.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import gpu_tool
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import failed
from ansible_collections.railyard.fabric.plugins.module_utils.measure.gpu_tool import GpuTool
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NodeReading,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl import nccl_tests

COLLECTIVES = {
    "nccl_all_reduce": "all_reduce",
    "nccl_all_gather": "all_gather",
    "nccl_alltoall": "alltoall",
}
#: busbw is algbw by so many times (n-1)/n (nccl-tests, doc/PERFORMANCE.md).
_WAYS = {"nccl_all_reduce": 2, "nccl_all_gather": 1, "nccl_alltoall": 1}
# Sizes that double come to twice the greatest; each is done 25 times (5 to warm up) out of place and in
# place, and once more of each to be checked.
_TIMES = 2 * 2 * 26
#: CUDA and NCCL begin on all GPUs; of a driver without persistence they are woken first.
_BEGIN_S, _MARGIN_S = 15.0, 90.0
# GPUs behind PCI Express 3.0, and what is not waited for.
_USUAL_BYTES_PER_S, _SLOWEST_BYTES_PER_S = 6e9, 1e9
#: A size is half of the greatest at least, up to how elements are shared among GPUs.
_LEAST_OF_MOST = 0.45
#: How far numbers of three to four digits may lie from what follows from each other.
_TOLERANCE, _DIGIT = 0.02, 0.011
_VERSION = re.compile(
    r"^# nccl-tests version (\S{1,40}) nccl-headers=[0-9]+ nccl-library=([0-9]{1,9})\s*$", re.M
)


class NcclTests(GpuTool):
    """All collectives of a node's GPUs."""

    name = "nccl-tests"
    folder = "nccl_tests_folder"

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds that GPUs take which are joined by PCI Express alone."""
        return _BEGIN_S + int(policy["nccl_tests_most_bytes"]) * _TIMES / _USUAL_BYTES_PER_S

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds after which nobody waits any more."""
        return _MARGIN_S + int(policy["nccl_tests_most_bytes"]) * _TIMES / _SLOWEST_BYTES_PER_S

    def program_of(self, check: str, policy: Mapping[str, Any]) -> str:
        """Return the path of the collective's program, which the site has built."""
        return os.path.join(str(policy[self.folder]), f"{COLLECTIVES[check]}_perf")

    def measure(self, play: NodeToolSession, check: str) -> NodeReading:
        """Measure one collective.

        Raises:
            MeasurementError: `tool_missing`, `gpu_unfit`, `gpu_wrong`, `tool_too_old`, or what it says.
        """
        program = self.built(play, check)
        gpus = self.gpus(play, 2)
        most = int(play.policy["nccl_tests_most_bytes"])
        argv = [program, "-b", "8", "-e", str(most), "-f", "2", "-g", str(len(gpus)), "-c", "1"]
        done, output = self.ran(play, argv, nccl_tests.parse)
        if output["gpus"] != len(gpus):
            raise gpu_tool.other_number(play, self.name, output["gpus"], len(gpus))
        if output["collective"] not in (None, COLLECTIVES[check]):
            raise failed(play, program, f"it says that it is {output['collective']}")
        sizes = [
            {"size_bytes": row["bytes"], **row["out_of_place"]}
            for row in output["rows"]
            if row["out_of_place"] and row["bytes"]
        ]
        if not sizes or any(one["wrong"] is None for one in sizes):
            raise play.own.error(
                "tool_too_old", f"{program} of {play.own.host} does not count wrong values",
                "build nccl-tests 2.13 or later (github.com/NVIDIA/nccl-tests)",
            )  # fmt: skip
        last = sizes[-1]
        version = _VERSION.search(done.text)
        told: dict[str, Any] = {
            "version": version.group(1) if version else None,
            "nccl_version": version.group(2) if version else None,
            "gpus": gpus,
            "joined": [[self.joined(one, other) for other in gpus] for one in gpus],
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
        doubt = unproven(check, metrics, told["sizes"], play.policy)
        return NodeReading(metrics, done.window_s, {}, doubt, {"nccl_tests": told})


def unproven(
    check: str, metrics: Mapping[str, Any], sizes: Sequence[Mapping[str, Any]], policy: Mapping[str, Any]
) -> str | None:
    """Return in what nccl-tests' numbers contradict what was asked, or each other; None when they do not.

    Args:
        check: a key of `COLLECTIVES`.
        metrics: of the greatest size, with the number of GPUs.
        sizes: `size_bytes time_us algbw_GBps busbw_GBps` of each size in turn.
        policy: the run's.
    """
    last, gpus = sizes[-1], int(metrics["gpus"])
    most = int(policy["nccl_tests_most_bytes"])
    if not _LEAST_OF_MOST * most <= last["size_bytes"] <= most:
        return f"its greatest size is {last['size_bytes']} bytes, asked was {most}"
    for one, other in zip(sizes, sizes[1:]):  # noqa: B905, RUF007 - 3.9
        if one["size_bytes"] >= other["size_bytes"]:
            return f"{other['size_bytes']} bytes come after {one['size_bytes']}"
    for key in ("busbw_GBps", "algbw_GBps", "size_bytes"):
        if metrics[key] != last[key]:
            return f"{key} is {metrics[key]:g}, that of the greatest size {last[key]:g}"
    rate = last["size_bytes"] / last["time_us"] / 1e3
    if abs(last["algbw_GBps"] - rate) > _TOLERANCE * rate + _DIGIT:
        return f"{last['size_bytes']} bytes in {last['time_us']:g} us are not {last['algbw_GBps']:g} GB/s"
    follows = last["algbw_GBps"] * _WAYS[check] * (gpus - 1) / gpus
    if abs(last["busbw_GBps"] - follows) > _TOLERANCE * follows + _DIGIT:
        return f"busbw is {last['busbw_GBps']:g}, by algbw and {gpus} GPUs {follows:.4g} GB/s"
    return None
