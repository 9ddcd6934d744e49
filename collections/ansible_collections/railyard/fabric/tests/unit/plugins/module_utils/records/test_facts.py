# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of facts: what the collector writes on this machine, and what is no such row."""

from __future__ import annotations

import copy
import subprocess
import typing
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as records
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from support import record_schema
from support.runs import spoil
from support.runs.fake_run import FakeRun

HEALTHY = FakeRun(transport="roce", driver_class="hardware", node_class="hardware").facts[0]


def _run(argv: Sequence[str]) -> str | None:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except FileNotFoundError:
        return None


def test_what_is_collected_here_is_a_record() -> None:
    row = node.collect(Reader(), _run, None)
    assert reader.refusal(records.NodeFacts, {**row, "node": "here"}) is None
    records.read_gpus(records.read({**row, "node": "here"}))


def test_each_key_of_facts_that_is_gone_is_missed() -> None:
    for path in spoil.places(HEALTHY):
        row = copy.deepcopy(HEALTHY)
        holder = spoil.at(row, path[:-1])
        if not isinstance(holder, dict) or path[0] in ("run", "gpus"):
            continue
        if path[:1] == ("tools",) or path[-2:-1] in (("pkey_indices",), ("counters",), ("hw_counters",)):
            continue  # its keys are what the node has
        del holder[path[-1]]
        with pytest.raises(reader.RefusedError, match=f"{path[-1]} is missing"):
            records.read(row)


@pytest.mark.parametrize("odd", spoil.ODD, ids=lambda one: ascii(one)[:12])
def test_a_value_of_another_type_is_refused_or_may_be_so(odd: Any) -> None:
    refused = 0
    for path in spoil.places(HEALTHY):
        try:
            read = records.read(spoil.put(HEALTHY, path, odd))
            records.read_gpus(read)
        except reader.RefusedError:
            refused += 1
            continue
        if path[:2] == ("gpus", "rows"):
            continue  # nvidia-smi's words are read by the rules
        assert spoil.may_be(odd, spoil.at(HEALTHY, path)), (path, odd)
    assert refused > 20


def test_a_name_twice_is_refused() -> None:
    for what in ("netdevs", "hcas"):
        row = copy.deepcopy(HEALTHY)
        row[what].append(row[what][0])
        with pytest.raises(reader.RefusedError, match=f"^{what} names"):
            records.read(row)


def test_garbled_gpus_leave_the_rest_as_it_is() -> None:
    row = {**HEALTHY, "gpus": {"pci": 5}}
    facts = records.read(row)
    with pytest.raises(reader.RefusedError, match=r"^gpus\.pci is 5"):
        records.read_gpus(facts)
    del row["gpus"]
    with pytest.raises(reader.RefusedError, match=r"^gpus is missing"):
        records.read_gpus(records.read(row))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": [{"pci": 7}]},
        {"rows": [{"name": "H100"}]},
        {"rows": [{"pci": "0000:17:00.0", "name": [1]}]},
        {"nvlink": [{"gpu": "x"}]},
        {"near": [{"nic": "a", "by": "far", "gpus": []}]},
        {"near": [{"nic": "0000:18:00.0", "by": "close", "gpus": []}]},
        {"errors": {"rows": "x"}},
        {"errors": {"rows": {"class": "odd", "message": "x"}}},
        {"topology": {"GPU0": 1}},
        {"pci": ["0000:17:00.0", "0000:17:00.0"]},
        # J5: one GPU has one address, and an XID is a number.
        {"pci": ["0000:17:00.0", "00000000:17:00.0"]},
        {"pci": ["0000:1b:00.0", "0000:1B:00.0"]},
        {"rows": [{"pci": "00000000:17:00.0"}]},
        {"rows": [{"pci": "0000:1B:00.0"}]},
        {"xids": {"first": 9, "next": 3, "since_s": 0.0, "seen": []}},
        {"xids": {"first": 0, "next": 1, "since_s": 0.0, "seen": [{"xid": "79"}]}},
    ],
)
def test_gpus_of_another_form_are_refused(change: dict[str, Any]) -> None:
    row = {**HEALTHY, "gpus": {**HEALTHY["gpus"], **change}}
    with pytest.raises(reader.RefusedError, match=r"^gpus\."):
        records.read_gpus(records.read(row))


def test_the_records_are_what_the_schema_says() -> None:
    document = record_schema.read("facts")
    hints = typing.get_type_hints(records.NodeFacts, include_extras=True)
    whole = record_schema.strip_descriptions(document, document)
    assert whole["properties"].pop("gpus") == record_schema.schema_of(records.Gpus)
    assert hints.pop("gpus") is Any
    assert whole["properties"] == {name: record_schema.schema_of(hint) for name, hint in hints.items()}
    assert whole["required"] == sorted(records.NodeFacts.__required_keys__)
