# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of rows that a node writes of itself: what is written, and what is no such row."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import node_rows as records
from support import record_schema
from support.runs import spoil
from support.runs.fake_gpus import with_gpus
from support.runs.fake_memory import with_memory
from support.runs.fake_storage import with_drives

ROWS = {
    (row["tool"], row["check"]): row
    for run in (with_drives(), with_gpus(), with_memory())
    for row in run.results
    if row["tool"] in records.ACCOUNTS
}


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row["check"])
def test_a_value_of_another_type_is_refused(row: dict[str, Any]) -> None:
    assert records.refusal(row) is None
    refused = 0
    for path in spoil.places(row):
        if path[0] in ("raw", "tool", "check"):
            continue  # what a line is of is compared with what was planned
        for odd in spoil.ODD:
            if records.refusal(spoil.put(row, path, odd)) is not None:
                refused += 1
            else:
                assert spoil.may_be(odd, spoil.at(row, path)), (path, odd)
    assert refused > 200


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row["check"])
def test_a_key_that_is_gone_or_unknown_is_refused(row: dict[str, Any]) -> None:
    free = ("metrics", "counters", "matrices", "values", "raw")  # whose keys are names of what was measured
    for path in [(), *spoil.places(row)]:
        holder = spoil.at(row, path)
        if not isinstance(holder, dict) or (path and path[-1] in free):
            continue
        spoilt = copy.deepcopy(row)
        spoil.at(spoilt, path)["no_such_key"] = 1
        assert "no_such_key is not known" in str(records.refusal(spoilt)), path
        for key in holder.keys() - {"group", "subject", "tool", "check"}:
            spoilt = copy.deepcopy(row)
            del spoil.at(spoilt, path)[key]
            assert f"{key} is missing" in str(records.refusal(spoilt)), (path, key)


@pytest.mark.parametrize("key", ["storage", "health", "memory", "nccl_tests", "nvbandwidth"])
def test_an_account_is_what_the_schema_says(key: str) -> None:
    document = record_schema.read("result")
    schema = record_schema.strip_descriptions(document["properties"][key], document)
    assert schema == record_schema.schema_of(records._KINDS[key])


def test_a_job_is_what_the_schema_says() -> None:
    document = record_schema.read("result")
    schema = record_schema.strip_descriptions(document["properties"]["collective"], document)
    sweep, training = (record_schema.schema_of(kind) for kind in (records.Sweep, records.Training))
    assert schema["properties"] == {**sweep["properties"], **training["properties"]}
    assert set(schema["required"]) == set(sweep["required"]) & set(training["required"])
