# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a run from its folder: the same folder always gives the same verdicts.jsonl, byte for byte."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import (
    attempts,
    baseline,
    isolation,
    oversubscription,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    NOTHING,
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import result_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline as kept_baseline
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Order, Plan, Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: The files of a run folder that are judged.
FILES = (
    run_folder.MANIFEST, run_folder.PLAN, run_folder.ASKED, run_folder.FACTS, run_folder.OBSTACLES,
    run_folder.RESULTS, run_folder.WORK_ORDER, run_folder.CONFIRM_ORDER, kept_baseline.FILE,
)  # fmt: skip
#: In runs with more tests, passes stay in columns, and the report is made of groups of them. Documents show
#: fewer tests than this singly, so that it does not change them.
MOST_SINGLE = 5_000


@dataclass
class Judged:
    """A run's verdicts and further results.

    Attributes:
        verdicts: one for each planned test; `Verdicts` if there are many.
        exit_status: 0, 1 or 3 as in the contract of `railyard`.
        torn: files with a missing or incomplete line.
        strangers: result rows that belong to no planned test.
        incomplete: why the run is incomplete, or None.
        notes: other notes for the reader.
        findings: the slow components, by the results of all tests together, if any verdict is not good.
        not_further: why suspect components were not measured again, or None.
        crossed: the bandwidth between leaves of each rail while all of them sent to other leaves.
    """

    verdicts: Sequence[Row]
    exit_status: int
    torn: list[str] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    incomplete: str | None = None
    notes: list[str] = field(default_factory=list)
    findings: Findings = NOTHING
    not_further: str | None = None
    crossed: Sequence[oversubscription.Crossed] = ()


def judge_folder(path: str | Path, manifest: Manifest | None = None) -> Judged:
    """Judge a run folder without writing anything.

    Args:
        path: the folder.
        manifest: replaces the folder's: the one that a run gets when it ends now (`RunFolder.ended`).

    Raises:
        RunFolderError: it is not a run folder, or cannot be read.
        JudgeError: no test was planned, or plan and planned tests contradict each other.
        PolicyError: the manifest's policy is invalid.
    """
    with _pause_collector(), _read_folder(path, manifest) as read:
        manifest, plan, asked, facts, results = read.documents[:5]
        answers = verdict.judge_tests(*read.documents)
        verdicts = Verdicts(answers)
        incomplete = run_status.explain_incomplete(manifest, asked, plan, read.order, read.second)
        outcomes = {one["outcome"] for one in verdicts.rest} | ({PASS} if answers.passing else set())
        findings = isolation.find_suspects(read.order, asked, results, verdicts, verdicts.rest)
        return Judged(
            verdicts if len(verdicts) > MOST_SINGLE else list(verdicts),
            run_status.find_exit_status(outcomes, not read.torn and incomplete is None),
            read.torn,
            run_status.list_unplanned_rows(manifest, asked, answers.rows.strange),
            incomplete,
            [
                *provenance.notes(manifest, plan),
                *gpus.list_notes(plan, facts),
                *attempts.list_notes(verdicts.rest),
            ],
            findings,
            run_status.explain_not_confirmed(manifest, read.order, asked, read.second, findings),
            oversubscription.find_oversubscription(
                plan, asked, verdicts, isolation.find_isolation_check(asked)
            ),
        )


def build_baseline(path: str | Path) -> dict[str, Any]:
    """Return the baseline of a run folder; `judge_folder` decides whether the run passed.

    Raises:
        RunFolderError, JudgeError, PolicyError: as judge_folder.
    """
    with _read_folder(path) as read:
        answers = verdict.judge_tests(*read.documents)
        # Tests that clearly pass have a threshold, and need no baseline.
        return baseline.build_baseline(read.documents[0], answers.lines, answers.found)


@contextmanager
def _pause_collector() -> Iterator[None]:
    """Disable Python's garbage collector, which would scan millions of rows again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Folder(NamedTuple):
    """The content of a folder: arguments of `verdict.judge`, test schedules, files with a missing line."""

    documents: tuple[Any, ...]
    order: Order | None
    second: Order | None
    torn: list[str]


@contextmanager
def _read_folder(path: str | Path, manifest: Manifest | None = None) -> Iterator[_Folder]:
    folder = RunFolder(path)
    manifest = folder.manifest() if manifest is None else manifest
    plan = folder.plan()
    torn = []
    read = {}
    asked = AskedLines.read(folder)
    torn += [run_folder.ASKED] if asked.torn else []
    for name in (run_folder.FACTS, run_folder.OBSTACLES):
        read[name], damaged = folder.rows(name)
        torn += [name] if damaged else []
    results = result_rows.ResultRows(folder, asked.by_id)
    torn += [run_folder.RESULTS] if results.torn else []
    order = _read_order(folder, run_folder.WORK_ORDER)
    second = _read_order(folder, run_folder.CONFIRM_ORDER)
    documents = (
        manifest,
        plan,
        asked,
        read[run_folder.FACTS],
        results,
        read[run_folder.OBSTACLES],
        _list_inspected(folder, plan, order, read[run_folder.OBSTACLES]),
        kept_baseline.kept(folder, manifest, plan),
    )
    try:
        yield _Folder(documents, order, second, torn)
    finally:
        results.close()


def _read_order(folder: RunFolder, name: str) -> Order | None:
    """Return a test schedule of the run, None if it cannot be read."""
    try:
        return folder.document(name)
    except run_folder.RunFolderError:
        return None


def _list_inspected(
    folder: RunFolder,
    plan: Plan,
    order: Order | None,
    obstacles: Iterable[Row],
) -> set[str]:
    """Return the nodes that had answered when the tests were planned, from the test schedule.

    Without a schedule, a folder without facts.jsonl lost it, except for nodes that could not be inspected.
    """
    if order is None:
        if (folder.path / run_folder.FACTS).exists():
            return set()
        return set(plan.get("nodes") or ()) - {str(row.get("node")) for row in obstacles}
    try:
        roster = reader.read(list[dict[str, Any]], order.get("roster"))
        return {str(one.get("name")) for one in roster} - {*reader.read(list[str], order.get("absent"))}
    except RefusedError:
        return set()


def list_lines(judged: Judged) -> Iterator[str]:
    """Yield the lines of verdicts.jsonl."""
    return (run_folder.line(one) + "\n" for one in folded.fold_verdicts(judged.verdicts))


def write(path: str | Path, judged: Judged) -> None:
    """Replace the folder's verdicts.jsonl, and remove the outdated summary by node."""
    (Path(path) / run_folder.NODE_RESULTS).unlink(missing_ok=True)
    RunFolder(path).write(run_folder.VERDICTS, list_lines(judged))


def rejudge(path: str | Path) -> int:
    """Judge a run folder again, replace its verdicts.jsonl, and return the exit status (0, 1 or 3).

    Raises:
        RunFolderError, JudgeError, PolicyError: as judge_folder.
    """
    judged = judge_folder(path)
    write(path, judged)
    return judged.exit_status
