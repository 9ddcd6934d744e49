# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node is looked at seldom, in time for its lease, and not for longer than the controller calculates."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import waiting

MISSED = None
YEAR_S = 365 * 86400


def seen(left_s: float | None, done: bool = False, finished: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "done": done, "left_s": left_s, "finished_tests": finished, "total_tests": 9, "current": None,
        "round": 0, "rounds": 1, "met": 0, "meetings": 1, "suspects": [], **more,
    }  # fmt: skip


def wait(*looks: Any, lease_s: float = 90, deadline_s: float = 1000) -> tuple[Any, list[float], list[str]]:
    """Return the end of a wait, the pauses before each look, and what was printed; the last look repeats."""
    pauses: list[float] = []
    told: list[str] = []

    def look() -> Any:
        found = looks[min(len(pauses), len(looks)) - 1]
        if found is MISSED:
            raise waiting.MissedError("no answer")
        return found

    end = waiting.until_done(
        look, pauses.append, lambda: sum(pauses), lease_s, deadline_s, told.append, told.extend
    )
    return end, pauses, told


def test_the_last_look_comes_when_the_tests_should_be_done() -> None:
    end, pauses, told = wait(seen(100), seen(20), seen(0, done=True, finished=9))
    assert end["done"]
    # The lease of 90 s would be lost after a pause of 60 s and two looks.
    assert pauses == [5, 30, 22]
    assert told == [
        "measuring: 1 of 9 tests done, about 2 min left",
        "measuring: 1 of 9 tests done, about 20 s left",
        "measuring: 9 of 9 tests done",
    ]


@pytest.mark.parametrize(("lease_s", "longest_s"), [(24, 8), (90, 30), (180, 120), (600, 435)])
def test_a_look_that_fails_and_the_one_after_it_are_in_time_for_the_lease(
    lease_s: float, longest_s: float
) -> None:
    _end, pauses, _told = wait(seen(YEAR_S), seen(0, done=True), lease_s=lease_s)
    assert pauses[1] == longest_s


def test_what_a_node_says_of_its_time_does_not_hold_the_controller() -> None:
    end, pauses, told = wait(seen(YEAR_S), deadline_s=300)
    assert not end["done"]
    assert 300 < sum(pauses) <= 330
    assert len(told) == 1
    _end, pauses, _told = wait(seen(None), deadline_s=300)
    assert set(pauses) == {5}


def test_one_look_may_come_to_nothing_two_may_not() -> None:
    end, pauses, _told = wait(seen(50), MISSED, seen(50), MISSED, seen(0, done=True))
    assert end["done"]
    assert pauses == [5, 30, 5, 30, 5]
    with pytest.raises(waiting.MissedError):
        wait(seen(50), MISSED, MISSED)


def test_rounds_pairs_and_new_suspects_are_reported() -> None:
    far = {"round": 3, "rounds": 7, "met": 2, "meetings": 6}
    looks = (seen(100, **far), seen(100, **far, suspects=["rail1"]), seen(100, **far, suspects=["rail1"]))
    _end, _pauses, told = wait(*looks, seen(0, done=True))
    assert told == [
        "measuring: 1 of 9 tests done, 3 of 7 rounds, 2 of 6 pairs, about 2 min left",
        "rail1",
        "measuring: 1 of 9 tests done",
    ]


@pytest.mark.parametrize(("lease_s", "limit_s"), [(24, 45), (90, 45), (180, 45), (720, 180)])
def test_a_site_with_slow_nodes_gives_a_look_more_time(lease_s: float, limit_s: float) -> None:
    assert waiting.look_limit_s(lease_s) == limit_s
