# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare RDMA with GPU memory and with host memory, to find a slow path to the GPU. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def explain_omission(check: str, nodes: Sequence[str], declared: Mapping[str, Row]) -> Answer | None:
    """Return the answer to a test with a node that has no GPU by the inventory, else None."""
    without = next((node for node in nodes if declared[node].get("count") == 0), None)
    if check != GPU_MEMORY or without is None:
        return None
    return Answer.not_applicable(f"the inventory declares that {without} has no GPU")


def compare_with_host_memory(answer: Answer, host_gbps: float | None) -> Answer:
    """Add the bandwidth from host memory, and distinguish a slow path to the GPU from a slow rail.

    Args:
        answer: the answer for GPU memory.
        host_gbps: bandwidth from host memory in the same direction; None if not measured.
    """
    seen = answer.observed.get("bandwidth_gbps")
    if host_gbps is None or seen is None:
        return answer
    answer.observed |= {
        "host_memory_gbps": host_gbps,
        "of_host_memory_percent": round(100 * seen / host_gbps, 1),
    }
    least = answer.floor.get("bandwidth_gbps")
    slow = answer.outcome == FAIL and answer.cause.get("cause_class") == "below_floor"
    if slow and least is not None and host_gbps >= least:
        detail = f"bandwidth_gbps {seen:g}, floor {least:g}; {host_gbps:g} from host memory"
        answer.failed("gpu_path_slow", detail, answer.proof)
    return answer
