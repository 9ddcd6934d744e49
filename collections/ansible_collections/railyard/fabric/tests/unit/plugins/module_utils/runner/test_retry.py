# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test whose tool lost its clock is run again, by both ends alike, and its row says how often."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import pair as runner_pair
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.rounds import Meeting


class Book:
    """Takes the rows that the real record would write."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, rows: list[dict[str, Any]]) -> None:
        self.rows.extend(rows)


class Desk:
    """As much of a bench as the loop touches."""

    node = "a"

    def __init__(self) -> None:
        self.record = Book()


def row(test_id: str, own: str | None = None, other: str | None = None) -> dict[str, Any]:
    return {
        "id": test_id,
        "error": {"class": own} if own else None,
        "other_end": {"error": {"class": other} if other else None},
    }


def run(monkeypatch: pytest.MonkeyPatch, answers: list[list[dict[str, Any] | None]]) -> Book:
    """Play a test or group whose tries end so; return what was written."""
    desk = Desk()
    pair = runner_pair.PairRun(desk, None, Meeting(0, 0, "a", "b"), [])  # type: ignore[arg-type]
    tries = iter(answers)
    monkeypatch.setattr(pair, "_run_group", lambda _tests: next(tries))
    monkeypatch.setattr(pair, "_run_guarded", lambda *_all: next(tries)[0])
    tests = [{"id": f"m{number}", "rail": f"rail{number}"} for number in range(len(answers[0]))]
    pair._until_timed(tests)
    assert list(tries) == []
    return desk.record


@pytest.mark.parametrize("lost", [row("m0", own="clock_lost"), row("m0", other="clock_lost")])
def test_either_ends_lost_clock_is_another_try(monkeypatch: pytest.MonkeyPatch, lost: dict[str, Any]) -> None:
    book = run(monkeypatch, [[lost], [row("m0")]])
    assert [(one["error"], one["tries"]) for one in book.rows] == [(None, 2)]


def test_the_last_try_counts_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    book = run(monkeypatch, [[row("m0", own="clock_lost")] for _try in range(4)])
    assert [(one["error"]["class"], one["tries"]) for one in book.rows] == [("clock_lost", 4)]


def test_another_failure_is_not_tried_away(monkeypatch: pytest.MonkeyPatch) -> None:
    book = run(monkeypatch, [[row("m0", own="tool_failed")]])
    assert [one["tries"] for one in book.rows] == [1]


def test_a_group_is_tried_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rails of a group are to be measured at once, so one of them alone would not do."""
    book = run(monkeypatch, [[row("m0"), row("m1", own="clock_lost")], [row("m0"), row("m1")]])
    assert [(one["id"], one["error"], one["tries"]) for one in book.rows] == [
        ("m0", None, 2),
        ("m1", None, 2),
    ]


def test_a_group_that_lost_a_rail_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rail's refusal is written already; the partner may have gone."""
    book = run(monkeypatch, [[None, row("m1", own="clock_lost")]])
    assert [one["id"] for one in book.rows] == ["m1"]
