# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails that did not run at one time are not added up, and the verdict says which of them it was."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils import aggregate


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
