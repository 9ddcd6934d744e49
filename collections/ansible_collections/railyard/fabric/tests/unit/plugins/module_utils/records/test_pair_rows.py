# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A row of a test between two nodes is what its record and the published schema say, or it is refused."""

from __future__ import annotations

import functools
from typing import Any, get_type_hints

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import failures, reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from support import record_schema
from support.runs import spoil
from support.runs.fake_run import FakeRun

KINDS = ({}, {"transport": "roce"}, {"transport": "infiniband", "driver_class": "hardware"})
#: Whatever a node says there is kept and not read.
NOT_READ = ("raw", "error")


@functools.cache
def rows() -> list[dict[str, Any]]:
    """Return a row of each check and end of healthy runs."""
    found = {}
    for kind in KINDS:
        for row in FakeRun(**kind).results:
            if CHECKS[row["check"]].source == "test":
                found[row["check"], row["end"], row["hca"]] = row
    return list(found.values())


def types(schema: dict[str, Any]) -> set[str]:
    said = schema.get("type")
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    named = {type(value).__name__ for value in values}
    of = {"str": "string", "int": "integer", "NoneType": "null"}
    return {of[name] for name in named} | set([said] if isinstance(said, str) else said or ())


def test_a_healthy_row_is_read_and_its_keys_are_published() -> None:
    assert len(rows()) > 20
    document = record_schema.read("result")
    published = document["properties"]
    for key, kind in get_type_hints(PairRow, include_extras=True).items():
        if key not in NOT_READ:
            mine = record_schema.schema_of(kind)
            assert types(mine) <= types(record_schema.strip_descriptions(published[key], document)), key
    assert set(document["required"]) <= PairRow.__required_keys__
    for row in rows():
        assert reader.refusal(PairRow, row) is None


@pytest.mark.parametrize(
    "garbage", [b"x", True, 10**400, {"a": 1}, [None, "x", 5], float("nan")], ids=lambda one: repr(one)[:9]
)
def test_a_value_of_another_type_is_refused_wherever_it_is(garbage: Any) -> None:
    refused = 0
    for row in rows()[::3]:
        for place in spoil.places(row):
            unread = place[0] in NOT_READ or place[:2] == ("other_end", "error")
            # In a list of equal elements the first two represent all.
            further = any(isinstance(part, int) and part > 1 for part in place)
            if unread or further or type(spoil.at(row, place)) is type(garbage) is not int:
                continue
            said = reader.refusal(PairRow, spoil.put(row, place, garbage))
            assert said is not None, (row["check"], place, garbage)
            assert str(place[0]) in said
            refused += 1
    assert refused > 500


@pytest.mark.parametrize("key", sorted(PairRow.__required_keys__))
def test_what_every_row_has_is_missed(key: str) -> None:
    for row in rows():
        rest = {name: row[name] for name in row if name != key}
        assert reader.refusal(PairRow, rest) == f"{key} is missing"
        assert reader.refusal(PairRow, {**row, "colour": "red"}) == "colour is not known"


@pytest.mark.parametrize(
    ("status", "error", "known"),
    [
        ("failed", {"class": "deadline", "message": "x", "host": None, "fix": None}, True),
        ("unmeasured", {"class": "deadline", "message": "x"}, True),
        ("fine", {"class": "deadline", "message": "x"}, False),
        ("failed", {"class": 5, "message": "x"}, False),
        ("failed", {"class": "deadline", "message": "x", "host": ["gpu1"]}, False),
        ("failed", {"message": "x"}, False),
        ("failed", "deadline", False),
        ("failed", None, False),
    ],
)
def test_why_there_is_no_result_is_understood_or_refused(status: str, error: Any, known: bool) -> None:
    row = {"status": status, "error": error}
    if known:
        assert failures.read(row)["error"] == error
    else:
        with pytest.raises(reader.RefusedError):
            failures.read(row)
    assert (failures.error_of(row) is not None) is (known or status == "fine")
