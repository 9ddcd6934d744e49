# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel counts of processors."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import counters


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        # user nice system idle iowait irq softirq steal
        ("cpu 0 0 0 0 0 0 0 0", "cpu 10 0 20 60 5 1 4 0", 35.0),
        ("cpu 0 0 0 0 0 0 0 0", "cpu 0 0 0 100 0 0 0 0", 0.0),
        # Documentation/filesystems/proc.rst: iowait may decrease.
        ("cpu 0 0 0 100 50 0 0 0", "cpu 60 0 0 100 48 0 0 0", 100.0),
        ("cpu 7 0 0 100 50 0 0 0", "cpu 7 0 0 100 50 0 0 0", None),
    ],
)
def test_a_node_is_busy_with_all_but_idling(before: str, after: str, percent: float | None) -> None:
    spans = [counters.processor_ticks(text + "\ncpu0 0 0 0 0") for text in (before, after)]
    assert counters.node_cpu_percent(*spans) == percent
