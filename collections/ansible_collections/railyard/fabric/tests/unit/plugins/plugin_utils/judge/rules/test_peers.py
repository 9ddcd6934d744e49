# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What fails for being behind its peers, and why nothing does: one rule for drives and GPUs."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import peers

OF_TWO = "either of the two may be wrong, and "
GPUS, DRIVES = outliers.GPU_RATE, outliers.DRIVE_US


@pytest.mark.parametrize(
    ("ways", "few", "own", "found"),
    [
        # 30 % behind in both directions; in the second one alone, of which the first one's median is shown.
        ([[50.0, 100.0, 110.0], [60.0, 90.0, 90.0]], GPUS, True, (True, 105.0, "")),
        ([[100.0, 100.0, 110.0], [60.0, 90.0, 90.0]], GPUS, True, (False, 105.0, "")),
        # Far behind in one direction and a fifth in the other.
        ([[50.0, 100.0, 110.0], [70.0, 90.0, 90.0]], GPUS, True, (False, 105.0, "")),
        ([[50.0, 100.0, 110.0]], GPUS, True, (True, 105.0, "")),
        ([[50.0, 100.0, 110.0]], GPUS, False, (False, 105.0, "others may use these GPUs, and ")),
        ([[900.0, 200.0, 220.0]], DRIVES, True, (True, 210.0, "")),
        ([[900.0, 200.0, 220.0]], DRIVES, False, (False, 210.0, "others may use these drives, and ")),
        ([[900.0, 200.0]], DRIVES, True, (False, 200.0, OF_TWO)),
        ([[50.0, 100.0], [50.0, 100.0]], GPUS, False, (False, 100.0, OF_TWO)),
        ([[90.0, 100.0, 110.0]], GPUS, True, None),
        ([[50.0]], GPUS, True, None),
    ],
)
def test_what_fails_and_why_nothing_does(
    ways: list[list[float]], few: outliers.Few, own: bool, found: tuple[bool, float, str] | None
) -> None:
    seen = list(peers.find_behind([dict(enumerate(way)) for way in ways], few, own))
    assert seen == ([] if found is None else [(0, *found)])
