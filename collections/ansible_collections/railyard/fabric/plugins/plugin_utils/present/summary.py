# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summarise a run in one sentence, by rail and by pair, for the terminal and the report."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    NOT_APPLICABLE,
    OUTCOMES,
    OUTCOMES_WORST_FIRST,
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import (
    Divided,
    divide,
    expand_rows,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    headline,
    suspects,
    who_is_slow,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Verdict

_IN_BRACKETS = re.compile(r" \([^)]*\)")
#: States of a node's rail: the first of these that its tests have is shown.
RAIL_STATES_ORDER = (
    FAIL,
    UNMEASURED,
    suspects.MET_SUSPECT,
    # A number without a limit cannot be bad: checks with limits decide, and the counts are shown beside it.
    PASS,
    RECORDED,
    NOT_APPLICABLE,
    "absent",
)


def summarise(path: str | Path) -> dict[str, Any]:
    """Summarise a run folder; it is judged again, so an edited verdicts.jsonl changes nothing.

    Returns:
        `headline` (one sentence), `exit_status`, `counts` (outcome -> number), `rails` (`node rail
        outcome shown suspect`), `families` (`state`, `tcp`, `rdma` -> outcome -> number), `problems`
        (verdicts that fail or are unmeasured), `recorded` (why numbers have no threshold, and how many),
        `notes` (torn files, rows from unknown hosts, why the run is incomplete, an inventory that changed),
        `coverage` (as `pattern.coverage`), `suspects` (as `Suspect`), `who_is_slow` (sentences about them,
        and about what remains uncertain).

    Raises:
        RunFolderError, JudgeError, PolicyError: as rejudge.judge_folder.
    """
    folder = run_folder.RunFolder(path)
    return summarise_verdicts(folder.plan(), rejudge.judge_folder(path))


def summarise_verdicts(plan: Plan, judged: Judged) -> dict[str, Any]:
    """Summarise verdicts; see `summarise`."""
    verdicts = divide(judged.verdicts)
    found = Counter(one["outcome"] for one in verdicts.single)
    found[PASS] += sum(group.count for group in verdicts.passes)
    counts = {outcome: found[outcome] for outcome in OUTCOMES}
    notes = [f"{name}: a torn line was dropped" for name in judged.torn]
    notes += [f"not planned, ignored: {row}" for row in judged.strangers]
    notes += [judged.incomplete] if judged.incomplete else []
    notes += [note for note in judged.notes if note not in notes]
    notes += map(wording.across_leaves, judged.crossed)
    blame = suspects.find(verdicts)
    coverage = pattern.coverage(plan, verdicts.each_pair())
    return {
        "headline": headline.write(plan, verdicts, counts, judged, coverage, blame),
        "coverage": coverage,
        "exit_status": judged.exit_status,
        "counts": counts,
        "families": families(verdicts),
        "rails": _rails(plan, verdicts, blame),
        "problems": [expand_rows(one) for one in verdicts.single if one["outcome"] in (FAIL, UNMEASURED)],
        "recorded": Counter(
            _unbounded(one) for one in verdicts.single if one["outcome"] == RECORDED
        ).most_common(),
        "suspects": [one._asdict() for one in judged.findings.suspects],
        "who_is_slow": list(who_is_slow.lines(judged.findings, judged.not_further)),
        "notes": notes,
    }


def lines(summary: Mapping[str, Any], folder: str) -> list[str]:
    """Return what a terminal shows: a verdict for each rail, problems with their next step, the headline."""
    text = []
    for one in summary["rails"]:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in one["counts"].items())
        shown = "met a suspect" if one["shown"] == suspects.MET_SUSPECT else one["shown"]
        shown += ", suspect" if one["suspect"] else ""
        text.append(f"{one['node']} {one['rail']}: {shown} ({counts})")
    # Counted separately, so that TCP's results cannot hide RDMA's, or the reverse.
    tests = {family: counts for family, counts in summary["families"].items() if family != "state" and counts}
    if len(tests) > 1:
        for family, found in tests.items():
            counts = ", ".join(f"{number} {outcome}" for outcome, number in found.items())
            text.append(f"{family.upper()} tests: {counts}")
    # One cause often affects many tests: print it once, with the first place.
    folded: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for one in sorted(summary["problems"], key=lambda one: one["outcome"] != FAIL):
        folded.setdefault((one["outcome"], one["cause"], one["next"]), []).append(one)
    for (outcome, cause, next_step), found in folded.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        text.append(f"{outcome}: {headline.place(found[0])} {CHECKS[found[0]['check']].title}{more}: {cause}")
        text.append(f"  next: {next_step}")
    text += [f"slow: {sentence}" for sentence in summary["who_is_slow"]]
    text += [f"recorded: {count}, {why}" for why, count in summary["recorded"]]
    text += [f"note: {note}" for note in summary["notes"]]
    return [*text, summary["headline"], f"run folder: {folder}"]


def _unbounded(verdict: Verdict) -> str:
    """Return why a verdict has no bound: that clause of its basis, without details in brackets."""
    basis = _IN_BRACKETS.sub("", str(verdict["basis"]))
    return basis.rpartition(": ")[2].partition("; ")[0] or "no bound is known"


def families(verdicts: Sequence[Verdict] | Divided) -> dict[str, dict[str, int]]:
    """Count the outcomes of TCP tests, RDMA tests and checks of single nodes; worst first."""
    found: dict[str, Counter[str]] = {"state": Counter(), "tcp": Counter(), "rdma": Counter()}
    single, passes = divide(verdicts)
    for one, count in chain(zip(single, repeat(1)), ((group.first, group.count) for group in passes)):
        check = CHECKS[one["check"]]
        found["state" if check.local else "rdma" if check.rdma else "tcp"][one["outcome"]] += count
    return {family: _sort_counts(counts) for family, counts in found.items()}


def _sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {outcome: counts[outcome] for outcome in OUTCOMES_WORST_FIRST if outcome in counts}


def _rails(plan: Plan, verdicts: Sequence[Verdict] | Divided, blame: suspects.Blame) -> list[dict[str, Any]]:
    """Return the outcome of each node and rail: a test counts for both of its nodes.

    `shown` is `met_suspect` where only a suspect at the other end made tests bad.
    """
    outcomes: dict[tuple[str, str], Counter[str]] = {
        (name, rail["name"]): Counter() for name, node in plan["nodes"].items() for rail in node["rails"]
    }
    states: dict[tuple[str, str], set[str]] = {place: set() for place in outcomes}
    single, passes = divide(verdicts)
    for one in single:
        for node in (one["node"], one["peer"]):
            if node is not None and one["rail"] is not None:
                outcomes[(node, one["rail"])][one["outcome"]] += 1
                met = blame.only_met(one, node)
                states[(node, one["rail"])].add(suspects.MET_SUSPECT if met else one["outcome"])
    for group in passes:
        for end in (group.node, group.peer):
            for node, count in zip(*np.unique(end, return_counts=True), strict=True):
                place = (group.names[node], group.first["rail"])
                outcomes[place][PASS] += int(count)
                states[place].add(PASS)
    return [
        {
            "node": node,
            "rail": rail,
            "outcome": worst(found),
            "shown": next(
                (state for state in RAIL_STATES_ORDER if state in states[(node, rail)]), UNMEASURED
            ),
            "suspect": (node, rail) in blame.suspects,
            "counts": _sort_counts(found),
        }
        for (node, rail), found in outcomes.items()
        if found
    ]


def worst(outcomes: Iterable[str]) -> str:
    """Return the worst outcome; a group without any is unmeasured."""
    found = set(outcomes)
    return next((outcome for outcome in OUTCOMES_WORST_FIRST if outcome in found), UNMEASURED)
