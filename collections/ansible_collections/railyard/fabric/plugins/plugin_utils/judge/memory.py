# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Does the kernel's account of a NUMA node bear out what was read of its memory? Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import likwid
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    is_number,
    is_pair,
    is_whole,
)

_WHOLE = ("numa_node", "cpus", "read_bytes", "vector_bytes")
_NUMBERS = ("read_s", "bandwidth_bytes_per_s")


def doubt(row: Mapping[str, Any], _policy: Mapping[str, Any]) -> str | None:
    """Tell why a whole row's counters do not bear its numbers out, or None."""
    told, counters = row.get("memory"), row.get("counters")
    if not isinstance(told, list) or not told or not isinstance(counters, Mapping):
        return "it holds no account of NUMA nodes"
    for one in told:
        if not isinstance(one, Mapping) or not (
            all(is_whole(one.get(key)) for key in _WHOLE) and all(is_number(one.get(key)) for key in _NUMBERS)
        ):
            return f"what it says of a NUMA node is {one!r}"
        if not all(is_pair(counters.get(name)) for name in likwid.counter_names(one["numa_node"])):
            return f"its counters are {dict(counters)!r}"
    window = row["window_s"]
    if sum(one["read_s"] for one in told) > float(window[1]) - float(window[0]) + 1.0:
        return "reading took longer than its window"
    return likwid.unproven(row["metrics"], told, counters)
