# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test whose tool lost its clock is run again, by both ends alike, and its row says how often."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import pair as runner_pair
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.rounds import Meeting


def row(test_id: str, own: str | None = None, other: str | None = None) -> dict[str, Any]:
    return {
        "id": test_id,
        "error": {"class": own} if own else None,
        "other_end": {"error": {"class": other} if other else None},
    }


def run(monkeypatch: pytest.MonkeyPatch, answers: list[list[dict[str, Any] | None]]) -> list[tuple[Any, ...]]:
    """Play a test or group whose tries end so; return id, error and tries of each row that was written."""
    rows: list[dict[str, Any]] = []
    desk = SimpleNamespace(node="a", record=SimpleNamespace(add=rows.extend))
    pair = runner_pair.PairRun(desk, None, Meeting(0, 0, "a", "b"), [])  # type: ignore[arg-type]
    tries = iter(answers)
    monkeypatch.setattr(pair, "_run_group", lambda _tests: next(tries))
    monkeypatch.setattr(pair, "_run_guarded", lambda *_all: next(tries)[0])
    tests = [{"id": f"m{number}", "rail": f"rail{number}"} for number in range(len(answers[0]))]
    pair._until_timed(tests)
    assert list(tries) == []
    return [(one["id"], (one["error"] or {}).get("class"), one["tries"]) for one in rows]


@pytest.mark.parametrize("lost", [row("m0", own="clock_lost"), row("m0", other="clock_lost")])
def test_either_ends_lost_clock_is_another_try(monkeypatch: pytest.MonkeyPatch, lost: dict[str, Any]) -> None:
    assert run(monkeypatch, [[lost], [row("m0")]]) == [("m0", None, 2)]


def test_the_last_try_counts_whatever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [[row("m0", own="clock_lost")]] * 4) == [("m0", "clock_lost", 4)]


def test_another_failure_is_not_tried_away(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(monkeypatch, [[row("m0", own="tool_failed")]]) == [("m0", "tool_failed", 1)]


def test_a_group_is_tried_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rails of a group are to be measured at once, so one of them alone would not do."""
    tries = [[row("m0"), row("m1", own="clock_lost")], [row("m0"), row("m1")]]
    assert run(monkeypatch, tries) == [("m0", None, 2), ("m1", None, 2)]


def test_a_group_that_lost_a_rail_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rail's refusal is written already; the partner may have gone."""
    assert run(monkeypatch, [[None, row("m1", own="clock_lost")]]) == [("m1", "clock_lost", 1)]
