# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A question is what its record and the published schema say, or it is refused."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from support import record_schema
from support.runs.fake_run import FakeRun


def test_the_record_has_the_keys_and_types_of_the_schema() -> None:
    published = record_schema.strip_descriptions(record_schema.read("asked"), record_schema.read("asked"))
    mine = record_schema.schema_of(AskedLine)
    assert mine["required"] == sorted(published["required"])
    assert mine["properties"].keys() == published["properties"].keys()
    for key, value in mine["properties"].items():
        assert value.get("type") == published["properties"][key].get("type") or key in OF_SOME, key


#: The schema has no null for what is left out instead.
OF_SOME = ("traffic_class", "service_level")


def test_what_a_run_asks_is_read() -> None:
    lines: list[Any] = FakeRun(transport="roce").asked
    assert [reader.refusal(AskedLine, line) for line in lines] == [None] * len(lines)
    between = next(line for line in lines if line["peer"] is not None)
    assert nodes_of(between) == (between["node"], between["peer"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"round": True}, "round is True, not a whole number"),
        ({"node": None}, "node is None, not text"),
        ({"direction": "both"}, "direction is 'both', not one of uni, bi, local"),
        ({"parts": []}, "parts is [], not a list with at least one value"),
        ({"parts": ["m00001", "m00001"]}, "parts is ['m00001', 'm00001'], not without duplicates"),
        ({"schema": 2}, "schema is 2, not one of 1"),
        ({"colour": "red"}, "colour is not known"),
    ],
)
def test_what_is_no_question_is_refused_with_its_place(change: dict[str, Any], said: str) -> None:
    line = {**FakeRun().asked[0], **change}
    assert reader.refusal(AskedLine, line) == said
