# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails that did not run at one time are not added up, and the verdict says which of them it was."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import aggregate


def server(rail: str, begin_s: float, end_s: float) -> dict[str, Any]:
    return {"rail": rail, "started": "2026-11-21T10:15:03.000Z", "window_s": [begin_s, end_s]}


@pytest.mark.parametrize(
    ("windows", "says"),
    [
        # The windows that were seen on emulated nodes.
        (
            [(1.564, 4.628), (2.082, 5.137)],
            "only 83 % of the time is common to all rails "
            "(rail1 began 0.52 s after the first, rail0 ended 0.51 s before the last)",
        ),
        (
            [(1.0, 4.0), (1.0, 2.0)],
            "only 33 % of the time is common to all rails "
            "(rail0 began 0.00 s after the first, rail1 ended 2.00 s before the last)",
        ),
    ],
)
def test_who_was_late_is_named(windows: list[tuple[float, float]], says: str) -> None:
    rows = [server(f"rail{number}", *window) for number, window in enumerate(windows)]
    with pytest.raises(aggregate.NotAdded) as refused:
        aggregate.add_up(rows)
    assert (refused.value.cause, str(refused.value)) == ("windows_apart", says)


def test_counters_that_a_busy_node_read_too_rarely_are_no_garbled_row() -> None:
    times = [1.0, 1.2, 2.4, 2.6, 2.8, 3.0, 5.0]  # nothing for 1.2 s of a window of 3.7 s
    sampled = {
        "t_s": times,
        "rx_bytes": [int(at * 1e9 / 8) for at in times],
        "tx_bytes": [0 for _at in times],
    }
    row = {**server("rail0", 1.3, 5.0), "metrics": {"bandwidth_gbps": 1.0}, "samples": sampled}
    with pytest.raises(aggregate.NotAdded) as refused:
        aggregate.add_up([row, {**row, "rail": "rail1"}])
    assert refused.value.cause == "samples_sparse"
