"""The report of a large run, made of groups of passes, has the bytes of one made of single verdicts."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
    folded,
    rejudge,
    stored_judgement,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    charts,
    comparison,
    documents,
    junit,
    meetings,
    model,
    prometheus,
    spread,
    summary,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "judge"))
sound_run = importlib.import_module("sound_run")

FILES = (documents.PAGE, "report.md", "junit.xml", prometheus.FILE, "node_results.json", "verdicts.jsonl")
#: Limits beyond which documents are folded, which a run of five nodes would not reach.
FOLDED = ((model, "ROWS_SHOWN", 5), (charts, "_BARS_SHOWN", 4), (junit, "_MOST_CASES", 0))
Row = dict[str, Any]


def sound(row: Row) -> Row:
    """Return every row as it is."""
    return row


def unproven_and_lost(row: Row) -> Row | None:
    """Lose one row, and leave the bandwidth of one node's second rail unproven."""
    if row["id"] == "m00002" and row["end"] == "server":
        return None
    is_mine = "gpu0003" in (row["node"], row["peer"]) and row["rail"] == "rail1"
    if is_mine and row["metrics"].get("bandwidth_gbps"):
        return {**row, "proof": "unproven", "proof_reason": "made so"}
    return row


def write_documents(path: Path, monkeypatch: pytest.MonkeyPatch, most_single: int) -> dict[str, Any]:
    """Judge and report a run; return all that is written and printed of it."""
    monkeypatch.setattr(rejudge, "MOST_SINGLE", most_single)
    judged = rejudge.judge_folder(path)
    assert isinstance(judged.verdicts, list) == (most_single > 1)
    rejudge.write(path, judged)
    report = model.read(path, judged)
    assert bool(report.passes) == (most_single == 1)
    documents.write_report(path, report)
    plan = RunFolder(path).plan()
    texts: dict[str, Any] = {name: (path / name).read_text(encoding="utf-8") for name in FILES}
    return {
        **texts,
        "summary": summary.summarise_verdicts(plan, judged),
        "compared": comparison.compare_run(plan, judged.verdicts),
    }


@pytest.mark.parametrize(
    ("rules", "change", "lines"),
    [
        ({"questions": "together"}, sound, 4),
        ({"questions": "together"}, unproven_and_lost, 2),
        ({}, unproven_and_lost, 4),
    ],
    ids=["sweep, all good", "sweep, one rail bad", "every test, one rail bad"],
)
def test_groups_of_passes_and_single_verdicts_give_the_same_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: Row, change: Any, lines: int
) -> None:
    path = sound_run.build(tmp_path / "made" / sound_run.RUN, 4, 2, rules=rules, change=change, packed=True)
    for module, name, limit in (*FOLDED, (meetings, "NODES_SHOWN", lines)):
        monkeypatch.setattr(module, name, limit)
    # More series than the groups leave, so that both are folded.
    monkeypatch.setattr(prometheus, "MOST_SERIES", 60)
    single = write_documents(path, monkeypatch, 10**6)
    grouped = write_documents(path, monkeypatch, 1)
    assert grouped == single


def test_a_judgement_is_kept_unless_most_of_it_is_passes_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for rules, most_single, is_kept in (({"questions": "together"}, 1, False), ({}, 10**6, True)):
        path = tmp_path / str(most_single) / "made" / sound_run.RUN
        folder = RunFolder(sound_run.build(path, 10, 2, rules=rules, packed=not is_kept))
        monkeypatch.setattr(rejudge, "MOST_SINGLE", most_single)
        state = stored_judgement.digest_files(folder)
        digest = stored_judgement.store(folder, rejudge.judge_folder(path), state)
        assert bool(digest) == (stored_judgement.load(folder, digest) is not None) == is_kept


def test_no_document_shows_so_many_tests_singly() -> None:
    limits = (model.ROWS_SHOWN, charts._BARS_SHOWN, junit._MOST_CASES, prometheus.MOST_SERIES)
    assert max(limits) < rejudge.MOST_SINGLE < folded.MOST_LINES


def test_a_value_that_some_tests_of_a_group_lack_is_left_out() -> None:
    assert spread.describe([1.0, np.array([np.nan, 2.0, 4.0])]) == (1.0, 2.0, 4.0)
