# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A value is what its record says, or is refused with the place and what is there."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import AtLeast, Matches, NotTwice


class Part(TypedDict):
    name: str
    size_bytes: Annotated[int, AtLeast(0)]


class _WholeOfSome(TypedDict, total=False):
    extra: bool


class Whole(_WholeOfSome):
    parts: list[Part]
    by_name: dict[str, float | str | None]
    state: Literal["up", "down", 1] | None
    address: Annotated[str, Matches("[0-9]+")]
    names: Annotated[list[str], NotTwice()]


GOOD: dict[str, Any] = {
    "parts": [{"name": "one", "size_bytes": 0}],
    "by_name": {"a": 1.5, "b": "x", "c": None, "d": 3},
    "state": None,
    "address": "12",
    "names": ["a", "b"],
}


@pytest.mark.parametrize("changes", [{}, {"extra": True}, {"state": "up"}, {"state": 1}, {"parts": []}])
def test_what_a_record_says_is_returned_as_it_is(changes: dict[str, Any]) -> None:
    value = GOOD | changes
    assert reader.read(Whole, value) is value
    assert reader.refusal(Whole, value) is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"parts": None}, "parts is None, not a list"),
        ({"parts": {}}, "parts is {}, not a list"),
        ({"parts": [{"name": "one"}]}, "parts[0].size_bytes is missing"),
        ({"parts": [{"name": 1, "size_bytes": 1}]}, "parts[0].name is 1, not text"),
        ({"parts": [{"name": "one", "size_bytes": -1}]}, "parts[0].size_bytes is -1, not at least 0"),
        ({"parts": [{"name": "one", "size_bytes": True}]}, "parts[0].size_bytes is True, not a whole number"),
        ({"parts": [{"name": "one", "size_bytes": 1.0}]}, "parts[0].size_bytes is 1.0, not a whole number"),
        ({"by_name": {"a": float("nan")}}, "by_name.a is nan, not a number or text"),
        ({"by_name": {"a": float("inf")}}, "by_name.a is inf, not a number or text"),
        ({"by_name": {"a": [1]}}, "by_name.a is [1], not a number or text"),
        ({"by_name": {1: 1}}, "by_name is 1, not text"),
        ({"by_name": []}, "by_name is [], not an object"),
        ({"state": "UP"}, "state is 'UP', not one of up, down, 1"),
        ({"state": True}, "state is True, not one of up, down, 1"),
        ({"address": "12\n"}, "address is '12\\n', not of the form [0-9]+"),
        ({"address": "\u0661"}, "address is '\\u0661', not of the form [0-9]+"),
        ({"names": ["a", "a"]}, "names is ['a', 'a'], not without duplicates"),
        ({"extra": 1}, "extra is 1, not true or false"),
        ({"more": 1}, "more is not known"),
        ({"\x1b[2J": 1}, "\\x1b[2J is not known"),
    ],
)
def test_anything_else_is_refused_with_its_place(changes: dict[str, Any], problem: str) -> None:
    assert reader.refusal(Whole, GOOD | changes, "row") == f"row.{problem}"
    with pytest.raises(reader.RefusedError):
        reader.read(Whole, GOOD | changes)


@pytest.mark.parametrize("value", [None, 5, "x", [], True, 10**400])
def test_what_is_no_object_is_no_record(value: object) -> None:
    problem = reader.refusal(Whole, value)
    assert problem is not None
    assert len(problem) < 120


def test_a_number_that_no_float_holds_is_none() -> None:
    problem = reader.refusal(Whole, GOOD | {"by_name": {"a": 10**400}})
    assert problem.startswith("by_name.a is 1000")
    assert len(problem) < 120


def test_each_key_that_is_required_is_missed() -> None:
    for key in GOOD:
        assert (
            reader.refusal(Whole, {name: one for name, one in GOOD.items() if name != key})
            == f"{key} is missing"
        )
