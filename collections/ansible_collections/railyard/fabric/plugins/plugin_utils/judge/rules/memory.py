# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that the kernel's counters confirm the memory bandwidth of each NUMA node. Pure."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.measure import likwid
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def find_contradiction(row: Row, policy: Policy) -> str | None:
    """Return why a complete row's counters do not confirm its results, or None."""
    measured, counters = row["memory"], row["counters"]
    # A NUMA node that is counted but not listed may be the slowest one.
    wanted = {name for one in measured for name in likwid.counter_names(one["numa_node"])}
    if set(counters) != wanted or not all(map(is_pair, counters.values())):
        return f"its counters are {counters!r}"
    window = row["window_s"]
    if sum(one["read_s"] for one in measured) > window[1] - window[0] + 1.0:
        return "reading took longer than its window"
    return likwid.unproven(row["metrics"], measured, counters, policy)
