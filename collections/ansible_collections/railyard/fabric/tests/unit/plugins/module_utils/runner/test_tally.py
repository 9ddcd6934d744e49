# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rail is suspect while a run goes on where it looks bad with each partner, and never for its partners."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner.tally import Tally
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.rounds import Meeting

NAMES = [f"gpu{number}" for number in range(1, 5)]
CHECK = "tcp_bandwidth"
LEAST_GBPS = 80.0
ORDER: dict[str, Any] = {
    "node": "gpu1",
    "roster": [{"name": name} for name in NAMES],
    "bounds": {CHECK: {rail: {"bandwidth_gbps": [LEAST_GBPS, None]} for rail in ("rail0", "rail1")}},
}


def row(rail: str, gbps: float | None = 90.0, error: str = "rendezvous_timeout") -> dict[str, Any]:
    if gbps is None:
        return {
            "check": CHECK,
            "rail": rail,
            "status": "unmeasured",
            "metrics": {},
            "error": {"class": error},
        }
    number = {"bandwidth_gbps": gbps}
    return {"check": CHECK, "rail": rail, "status": "measured", "metrics": number, "error": None}


def suspects(*meetings: list[dict[str, Any]], **order: Any) -> list[str]:
    tally = Tally({**ORDER, **order})
    for number, rows in enumerate(meetings):
        tally.over(Meeting(number, number, "gpu1", f"gpu{number + 2}"), rows)
    found: list[str] = tally.summarize()["suspects"]
    return found


GOOD, SLOW = [row("rail0"), row("rail1")], [row("rail0"), row("rail1", 39.0)]
NONE, NOTHING = [row("rail0"), row("rail1", None)], [row("rail0", None), row("rail1", None)]


@pytest.mark.parametrize(
    ("meetings", "named"),
    [
        ((GOOD, GOOD, GOOD), []),
        ((SLOW, SLOW), ["rail1"]),
        ((NONE, SLOW), ["rail1"]),
        # With one partner it may be the partner's; and one of several that is good clears the rail.
        ((SLOW,), []),
        ((SLOW, SLOW, GOOD), []),
        # A stall takes a tenth off, and what is below the bound is measured again.
        (([row("rail1", 41.0)], [row("rail1", 41.0)]), []),
        # Partners that are dead, or a tool that is missing, say nothing of this node's rails.
        ((NOTHING, NOTHING, NOTHING), []),
        ((SLOW, NOTHING, SLOW), ["rail1"]),
        (([row("rail0"), row("rail1", None, "busy")],) * 2, []),
        # Which direction is slow is the same to a rail.
        (([*GOOD, row("rail1", 20.0)],) * 2, ["rail1"]),
    ],
)
def test_a_rail_is_suspect_that_is_bad_with_each_of_two_partners(meetings: Any, named: list[str]) -> None:
    assert suspects(*meetings) == named


def test_a_partner_that_is_met_again_is_one_partner() -> None:
    tally = Tally(ORDER)
    for number in range(3):
        tally.over(Meeting(number, number, "gpu1", "gpu2"), SLOW)
    assert tally.summarize()["suspects"] == []


def test_without_a_bound_no_number_is_low() -> None:
    assert suspects(SLOW, SLOW, bounds={}) == []


def test_meetings_are_counted_of_all_that_the_node_has() -> None:
    tally = Tally(ORDER)
    assert tally.summarize() == {"round": 0, "rounds": 3, "met": 0, "meetings": 3, "suspects": []}
    tally.over(Meeting(1, 1, "gpu1", "gpu3"), GOOD)
    assert tally.summarize() == {"round": 2, "rounds": 3, "met": 1, "meetings": 3, "suspects": []}
