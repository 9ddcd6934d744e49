# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An answer becomes a verdict's line."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

ASKED = {
    "id": "7",
    "check": "link",
    "tool": "",
    "node": "gpu1",
    "peer": None,
    "rail": "rail0",
    "direction": "",
}


@pytest.mark.parametrize(
    ("cause", "proof"), [("unproven", "unproven"), ("counted_twice", "unproven"), ("no_row", None)]
)
def test_only_what_was_not_proven_says_so_where_nothing_was_measured(cause: str, proof: str | None) -> None:
    line = Answer.unmeasured(cause, "x").to_verdict(ASKED, ())
    assert (line["outcome"], line["cause_class"], line["proof"]) == ("unmeasured", cause, proof)


@pytest.mark.parametrize(
    ("own", "parts", "rows"),
    [
        (None, None, ["7"]),
        (None, ["3", "5", "4"], ["3", "4"]),
        # What an answer says that it rests on goes before, also that it rests on nothing.
        (["4", "5", "7"], ["3"], ["4", "7"]),
        ([], ["3"], []),
    ],
)
def test_a_verdict_rests_on_its_own_rows_that_there_are(
    own: list[str] | None, parts: list[str] | None, rows: list[str]
) -> None:
    assert Answer(rows=own).to_verdict({**ASKED, "parts": parts}, {"3", "4", "7"})["rows"] == rows


def test_a_cause_is_reported_for_what_did_not_pass_alone() -> None:
    explained = ("cause_class", "cause", "next")
    for made in (Answer().failed("below_floor", "x"), Answer().unknown("no_row", "x")):
        assert all(made.to_verdict(ASKED, ())[key] for key in explained)
        for outcome in ("pass", "recorded", "not_applicable"):
            made.outcome = outcome
            line = made.to_verdict(ASKED, ())
            assert [line[key] for key in explained] == [None] * 3


def test_an_answer_that_says_nothing_else_was_measured_once() -> None:
    line = Answer().to_verdict(ASKED, ())
    assert (line["outcome"], line["attempts"], line["reproduced"], line["flaky"]) == (
        "unmeasured",
        1,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (1.5, 1.5),
        (0, 0),
        (True, True),
        ("NaN", "NaN"),
        (None, None),
        (float("nan"), None),
        (float("-inf"), None),
        (10**400, None),
    ],
)
def test_a_number_that_no_float_holds_is_shown_as_none(seen: Any, shown: Any) -> None:
    line = Answer("recorded", {"x": seen, "within": {"y": {"z": seen}}}).to_verdict(ASKED, ())
    assert line["observed"] == {"x": shown, "within": {"y": {"z": shown}}}
    assert type(line["observed"]["x"]) is type(shown)
