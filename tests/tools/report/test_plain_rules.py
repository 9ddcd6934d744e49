"""Each rule of the columns alone: a row of a sweep that only it rejects keeps its test from passing.

One quantity of a sound sweep is changed, in one row or in both, and the other end knows of the change.
Other rows of the same frames come before these, so that it is their own numbers that are weighed. If a rule
of the columns goes, its case passes by the column, and the rows one by one still say no.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import result_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import views
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import passing_tests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import asked_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from support.runs.sweeps import record_passing
from tools.report.column_cases import LEFT, PLAIN, REFUSED, TABLE
from tools.report.one_change import spoilt


@pytest.fixture(scope="module")
def place(tmp_path_factory: Any) -> Path:
    made: Path = tmp_path_factory.mktemp("rules")
    return made


def verdicts(folder: RunFolder) -> dict[str, Any]:
    """Return id -> verdict."""
    with rejudge._read_folder(folder.path) as read:
        return {one["id"]: one for one in verdict.judge(*read.documents)}


@pytest.mark.parametrize("name", TABLE)
def test_what_a_rule_holds_against_a_row_keeps_its_test_from_passing(
    name: str, place: Path, monkeypatch: Any
) -> None:
    *changed, expected = TABLE[name]
    folder, identity = spoilt(*changed, place)
    found = record_passing(monkeypatch)
    by_columns = verdicts(folder)
    outcome = by_columns[identity]["outcome"]
    word = PLAIN if identity in found[0] else LEFT if outcome == "pass" else REFUSED
    assert word == expected
    if word != PLAIN:
        return  # the rows one by one have shown it
    # Held whole, a row is in no column.
    monkeypatch.setattr(result_rows.ResultRows, "_size", lambda _rows: (False, False))
    assert verdicts(folder) == by_columns


def test_a_test_without_bounds_is_left_to_single_rows() -> None:
    for bounds in (Bounds(), Bounds({"a": 1.0}, {}), Bounds({"a": 1.0}, {"b": 2.0}), Bounds({}, {"a": 1.0})):
        assert not passing_tests._are_within(bounds, None, [0, 0]).any()  # type: ignore[arg-type]  # no row is read


@pytest.mark.parametrize(
    ("group", "number"),
    [("g00058", 58), ("g123456", 123456), ("g58", None), ("g000058", None), (None, None),
     ("gx", None), ("g\u0665\u0665\u0665\u0665\u0665", None), ("h00058", None)],
)  # fmt: skip
def test_a_group_that_no_runner_writes_has_no_number(group: str | None, number: int | None) -> None:
    assert asked_lines.number_of(group, "g") == (-1 if number is None else number)


@pytest.mark.parametrize(
    ("words", "sound"),
    [
        ("a b", True),
        ("a", True),
        ("other", False),
        ("a other", False),
        ("a its", True),
        ("its", False),
        ("a --tclass=106", False),
    ],
)
def test_a_frames_command_line_is_of_its_rail_whoever_the_peer_is(words: str, sound: bool) -> None:
    """In one row of a frame another rail's word may be the peer's too, and in the next one be none of its."""
    policy = {"idle_bytes_per_s": 1, "busy_bytes_per_s": 1, "allow_busy": False}
    rails = {"rail0": SimpleNamespace(words={"a", "b"})}
    known = SimpleNamespace(policy=policy, ends={"gpu1": rails}, words={"gpu1": {"a", "b", "other"}})
    row = {"host": "gpu1", "rail": "rail0", "proof": "proven", "other_rails": {}, "netdev": "a",
           "check": "rdma_bandwidth"}  # fmt: skip
    ends: Any = SimpleNamespace(known=known, policy=policy)
    assert views.ColumnEnd.is_sound(ends, row, {"argv": [words.split()]}) is sound
