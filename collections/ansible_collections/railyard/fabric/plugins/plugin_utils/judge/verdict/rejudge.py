# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a run from its folder alone: the same folder always gives the same verdicts.jsonl, byte for byte."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.culprits import (
    NOTHING,
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import light_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpus
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline as kept_baseline
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Order, Plan, Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: What is read of a run folder to judge it.
FILES = (
    run_folder.MANIFEST, run_folder.PLAN, run_folder.ASKED, run_folder.FACTS, run_folder.OBSTACLES,
    run_folder.RESULTS, run_folder.WORK_ORDER, run_folder.CONFIRM_ORDER, kept_baseline.FILE,
)  # fmt: skip


@dataclass
class Judged:
    """A run's verdicts and what they mean.

    Attributes:
        verdicts: one for each asked line; `Verdicts` where there are many.
        exit_status: 0, 1 or 3 as in the contract of `railyard`.
        torn: the files of which a line was lost.
        strangers: result rows that answer nothing that was asked.
        incomplete: why the run is incomplete, or None.
        notes: what else a reader has to know.
        findings: who is slow, by the numbers of all tests together, of runs in which something is not good.
        not_further: why nobody of those in doubt measured further, or None.
        crossed: how much the leaves of a rail let through when all of them sent to others at once.
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
        manifest: in place of the folder's: the one that a run gets when it ends now (`RunFolder.ended`).

    Raises:
        RunFolderError: it is no run folder, or cannot be read.
        JudgeError: nothing was asked, or plan and asked lines contradict each other.
        PolicyError: the manifest's policy is not one.
    """
    with _without_collector(), _read(path, manifest) as read:
        manifest, plan, asked, facts, results = read.documents[:5]
        answers = verdict.answers(*read.documents)
        verdicts = Verdicts(answers)
        incomplete = run_status.incomplete(manifest, asked, plan, read.order, read.second)
        outcomes = {one["outcome"] for one in verdicts.rest} | ({PASS} if answers.plain else set())
        findings = isolation.of(read.order, asked, results, verdicts, verdicts.rest)
        return Judged(
            verdicts if len(verdicts) > folded.MOST_LINES else list(verdicts),
            run_status.status_of(outcomes, not read.torn and incomplete is None),
            read.torn,
            run_status.strangers(manifest, asked, answers.rows.strange),
            incomplete,
            [*provenance.notes(manifest, plan), *gpus.notes(plan, facts), *attempts.notes(verdicts.rest)],
            findings,
            run_status.why_not_further(manifest, read.order, asked, read.second, findings),
            oversubscription.of(plan, asked, verdicts, isolation.check_of(asked.distinct())),
        )


def baseline_of(path: str | Path) -> dict[str, Any]:
    """Return the baseline that a run folder gives; whether it passed is for `judge_folder` to say.

    Raises:
        RunFolderError, JudgeError, PolicyError: as judge_folder.
    """
    with _read(path) as read:
        answers = verdict.answers(*read.documents)
        # What passes plainly has a bound.
        return baseline.document(read.documents[0], answers.lines, answers.found)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python from looking for cycles in millions of rows, which are trees, each time that they grew."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


class _Folder(NamedTuple):
    """What is judged of a folder: arguments of `verdict.judge`, the work orders, files that lost a line."""

    documents: tuple[Any, ...]
    order: Order | None
    second: Order | None
    torn: list[str]


@contextmanager
def _read(path: str | Path, manifest: Manifest | None = None) -> Iterator[_Folder]:
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
    results = light_rows.Rows(folder, asked.by_id)
    torn += [run_folder.RESULTS] if results.torn else []
    order = _work_order(folder, run_folder.WORK_ORDER)
    second = _work_order(folder, run_folder.CONFIRM_ORDER)
    documents = (
        manifest,
        plan,
        asked,
        read[run_folder.FACTS],
        results,
        read[run_folder.OBSTACLES],
        _inspected(folder, plan, order, read[run_folder.OBSTACLES]),
        kept_baseline.kept(folder, manifest, plan),
    )
    try:
        yield _Folder(documents, order, second, torn)
    finally:
        results.close()


def _work_order(folder: RunFolder, name: str) -> Mapping[str, Any] | None:
    """Return a work order of the run, None where there is none that can be read."""
    try:
        return folder.document(name)
    except run_folder.RunFolderError:
        return None


def _inspected(
    folder: RunFolder,
    plan: Plan,
    order: Order | None,
    obstacles: Iterable[Row],
) -> set[str]:
    """Return the nodes that had answered when the questions were fixed, as the work order says.

    Without one, a folder that has no facts.jsonl at all lost it, but for nodes that could not be inspected.
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


def written(judged: Judged) -> str:
    """Return the text of verdicts.jsonl."""
    return "".join(run_folder.line(one) + "\n" for one in folded.lines(judged.verdicts))


def write(path: str | Path, judged: Judged) -> None:
    """Replace the folder's verdicts.jsonl; the summary by node, which was made from the old ones, goes."""
    (Path(path) / run_folder.NODE_RESULTS).unlink(missing_ok=True)
    RunFolder(path).write(run_folder.VERDICTS, written(judged))


def rejudge(path: str | Path) -> int:
    """Judge a run folder again, replace its verdicts.jsonl, and return the exit status (0, 1 or 3).

    Raises:
        RunFolderError, JudgeError, PolicyError: as judge_folder.
    """
    judged = judge_folder(path)
    write(path, judged)
    return judged.exit_status
