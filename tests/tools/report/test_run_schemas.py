"""The run folder's schemas hold what the code writes, and refuse what it must never write."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded
from jsonschema import Draft202012Validator
from railyard.base import paths
from support.runs.fake_bmc import SILENT, TAKEN, with_bmcs
from support.runs.fake_gpus import with_gpus
from support.runs.fake_memory import with_memory
from support.runs.fake_run import FakeRun, exchanged
from support.runs.fake_storage import with_drives


@functools.cache
def schema(name: str) -> Draft202012Validator:
    text = (paths.repo_root() / "docs" / "schema" / f"{name}.schema.json").read_text(encoding="utf-8")
    document = json.loads(text)
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


def wrong(name: str, row: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in schema(name).iter_errors(row)]


@pytest.mark.parametrize("broken", [False, True])
def test_what_is_written_keeps_its_schema(broken: bool) -> None:
    run = FakeRun()
    if broken:
        run.facts[1]["netdevs"][1]["carrier"] = False
        run.results = run.results[:-3]
    assert wrong("manifest", run.manifest) == []
    for name, rows in (
        ("asked", run.asked),
        ("facts", run.facts),
        ("result", exchanged(run.results)),
        ("verdict", run.judge()),
    ):
        for row in rows:
            assert wrong(name, row) == [], row


def test_what_is_written_of_a_large_run_keeps_its_schemas() -> None:
    lines = list(folded.fold_verdicts(FakeRun(transport="roce").judge(), 0))
    counts = [line for line in lines if "count" in line]
    assert 0 < len(counts) < len(lines)
    for line in lines:
        assert wrong("verdict_count" if "count" in line else "verdict", line) == [], line


@pytest.mark.parametrize("replies", [(TAKEN, SILENT), (None, TAKEN)])
def test_what_is_written_of_bmcs_keeps_its_schema(replies: tuple[Any, ...]) -> None:
    run = with_bmcs(*replies)
    assert {row["id"][0] for row in run.results} == {"b", "c", "m"}
    for name, rows in (("asked", run.asked), ("result", exchanged(run.results)), ("verdict", run.judge())):
        for row in rows:
            assert wrong(name, row) == [], row


@pytest.mark.parametrize("make", [with_drives, with_memory, with_gpus])
def test_what_nodes_measure_by_themselves_keeps_its_schema(make: Callable[[], FakeRun]) -> None:
    run = make()
    run.results[-1].update({"status": "unmeasured", "metrics": {}, "proof": None})
    for name, rows in (("asked", run.asked), ("result", exchanged(run.results)), ("verdict", run.judge())):
        assert {"n"} <= {row["id"][0] for row in rows}
        for row in rows:
            assert wrong(name, row) == [], row


@pytest.mark.parametrize(
    "change",
    [
        {"floor": None},
        {"ceiling": None},
        {"ceiling": {}},
        {"proof": None},
        {"basis": None},
        {"outcome": "good"},
        {"cause": "why"},
        {"extra": 1},
    ],
)
def test_a_pass_without_floor_ceiling_basis_or_proof_is_no_verdict(change: dict[str, Any]) -> None:
    run = FakeRun()
    good = run.verdict(run.ids("tcp_bandwidth")[0])
    assert good["outcome"] == "pass"
    assert wrong("verdict", {**good, **change})


def test_a_fault_without_cause_is_no_verdict() -> None:
    run = FakeRun()
    run.results = []
    bad = run.verdict(run.ids("tcp_bandwidth")[0])
    assert wrong("verdict", bad) == []
    assert wrong("verdict", {**bad, "cause": None})
    assert wrong("verdict", {**bad, "next": None})


def test_an_obstacle_is_noted_once_as_its_schema_says(tmp_path) -> None:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base as actions
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

    folder = run_folder.RunFolder(tmp_path / "20261121T101500Z-3f2a")
    folder.path.mkdir()
    error = {"class": "not_staged", "message": "No space left on device", "host": "gpu1"}
    actions.record_node_error(folder, "gpu1", error)
    actions.record_node_error(folder, "gpu1", error)
    rows, torn = folder.rows(run_folder.OBSTACLES)
    assert not torn
    assert len(rows) == 1
    assert wrong("obstacle", rows[0]) == []
