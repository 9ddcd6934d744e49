# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's answer in one sentence, and folded by rail and pair; terminal and report both take it from here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    NOT_APPLICABLE,
    OUTCOMES,
    RECORDED,
    UNMEASURED,
    WORST_FIRST,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import suspects, who_is_slow, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Verdict

_IN_BRACKETS = re.compile(r" \([^)]*\)")
#: How many places a sentence names before it says "and N more".
NAMED = 3
#: What a node's rail is shown as, worst first.
STATES_WORST_FIRST = (FAIL, UNMEASURED, suspects.MET_SUSPECT, *WORST_FIRST[2:], "absent")


def summarise(path: str | Path) -> dict[str, Any]:
    """Summarise a run folder; its verdicts are judged anew, so an edited verdicts.jsonl changes nothing.

    Returns:
        `headline` (one sentence), `exit_status`, `counts` (outcome -> number), `rails` (`node rail
        outcome shown suspect`), `families` (`state`, `tcp`, `rdma` -> outcome -> number), `problems`
        (verdicts that fail or are unmeasured), `recorded` (why nothing bounds a number, and of how many),
        `notes` (torn files, rows of strangers, why the run is incomplete, an inventory that has changed),
        `coverage` (as `pattern.coverage`), `suspects` (as `Suspect`), `who_is_slow` (what is told of them,
        and of what stays in doubt).

    Raises:
        RunFolderError, JudgeError, PolicyError: as rejudge.judge_folder.
    """
    folder = run_folder.RunFolder(path)
    return of(folder.plan(), rejudge.judge_folder(path))


def of(plan: Plan, judged: Judged) -> dict[str, Any]:
    """Summarise verdicts; see `summarise`."""
    verdicts = judged.verdicts
    found = Counter(one["outcome"] for one in verdicts)
    counts = {outcome: found[outcome] for outcome in OUTCOMES}
    notes = [f"{name}: a torn line was dropped" for name in judged.torn]
    notes += [f"not asked: {stranger}" for stranger in judged.strangers]
    notes += [judged.incomplete] if judged.incomplete else []
    notes += [note for note in judged.notes if note not in notes]
    notes += map(wording.across_leaves, judged.crossed)
    blame = suspects.find(verdicts)
    coverage = pattern.coverage(plan, verdicts)
    return {
        "headline": headline(plan, verdicts, counts, judged, coverage),
        "coverage": coverage,
        "exit_status": judged.exit_status,
        "counts": counts,
        "families": families(verdicts),
        "rails": _rails(plan, verdicts, blame),
        "problems": [one for one in verdicts if one["outcome"] in (FAIL, UNMEASURED)],
        "recorded": Counter(_unbounded(one) for one in verdicts if one["outcome"] == RECORDED).most_common(),
        "suspects": [one._asdict() for one in judged.findings.suspects],
        "who_is_slow": list(who_is_slow.lines(judged.findings, judged.not_further)),
        "notes": notes,
    }


def lines(summary: Mapping[str, Any], folder: str) -> list[str]:
    """Return what a terminal shows: a verdict for each rail, problems with their next step, the sentence."""
    text = []
    for one in summary["rails"]:
        counts = ", ".join(f"{number} {outcome}" for outcome, number in one["counts"].items())
        shown = "met a suspect" if one["shown"] == suspects.MET_SUSPECT else one["shown"]
        shown += ", suspect" if one["suspect"] else ""
        text.append(f"{one['node']} {one['rail']}: {shown} ({counts})")
    # Said apart, so that what TCP shows cannot hide what RDMA does not, nor the other way round.
    tests = {family: counts for family, counts in summary["families"].items() if family != "state" and counts}
    if len(tests) > 1:
        for family, found in tests.items():
            said = ", ".join(f"{number} {outcome}" for outcome, number in found.items())
            text.append(f"{family.upper()} tests: {said}")
    # One cause often keeps many tests from being measured: it is said once, with the first place it bites.
    folded: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for one in sorted(summary["problems"], key=lambda one: one["outcome"] != FAIL):
        folded.setdefault((one["outcome"], one["cause"], one["next"]), []).append(one)
    for (outcome, cause, next_step), found in folded.items():
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        text.append(f"{outcome}: {place(found[0])} {CHECKS[found[0]['check']].title}{more}: {cause}")
        text.append(f"  next: {next_step}")
    text += [f"slow: {told}" for told in summary["who_is_slow"]]
    text += [f"recorded: {count}, {why}" for why, count in summary["recorded"]]
    text += [f"note: {note}" for note in summary["notes"]]
    return [*text, summary["headline"], f"run folder: {folder}"]


def _unbounded(verdict: Verdict) -> str:
    """Return why a verdict has no bound: the clause of its basis that says so, without what is its own."""
    basis = _IN_BRACKETS.sub("", str(verdict["basis"]))
    return basis.rpartition(": ")[2].partition("; ")[0] or "no bound is known"


def families(verdicts: Iterable[Verdict]) -> dict[str, dict[str, int]]:
    """Count the outcomes of TCP's tests, of RDMA's, and of what each node was asked alone; worst first."""
    found: dict[str, list[str]] = {"state": [], "tcp": [], "rdma": []}
    for one in verdicts:
        check = CHECKS[one["check"]]
        found["state" if check.local else "rdma" if check.rdma else "tcp"].append(one["outcome"])
    return {
        family: {outcome: outcomes.count(outcome) for outcome in WORST_FIRST if outcome in outcomes}
        for family, outcomes in found.items()
    }


def headline(
    plan: Plan,
    verdicts: Sequence[Verdict],
    counts: Mapping[str, int],
    judged: Judged,
    met: Mapping[str, int] | None = None,
) -> str:
    """Return the answer in one sentence."""
    nodes = len(plan["nodes"])
    rails = len({rail["name"] for node in plan["nodes"].values() for rail in node["rails"]})
    what = f"{_asked_of(plan, verdicts)}: {wording.count(nodes, 'node')}, {wording.count(rails, 'rail')}: "
    met = met or pattern.coverage(plan, verdicts)
    if met["pairs"] < met["of_pairs"]:
        what = f"{what.removesuffix(': ')}, {met['pairs']} of {wording.count(met['of_pairs'], 'pair')}: "
    asked = len(verdicts) - counts[NOT_APPLICABLE]
    bad = []
    failed = [one for one in verdicts if one["outcome"] == FAIL]
    unmeasured = [one for one in verdicts if one["outcome"] == UNMEASURED]
    if failed:
        bad.append(f"{len(failed)} of {asked} asked checks failed ({_named(failed)})")
    if unmeasured:
        silent = _unreachable(unmeasured)
        # What failed explains most of what could not be measured; without it, say where.
        why = (
            f" (unreachable: {', '.join(silent)})" if silent else "" if failed else f" ({_named(unmeasured)})"
        )
        bad.append(f"{len(unmeasured)} of {asked} unmeasured{why}")
    if bad:
        said = ", ".join(bad)
    else:
        settled = f"{counts['pass']} pass, {counts['recorded']} recorded"
        unproven = sum(one["outcome"] == RECORDED and one["proof"] != "proven" for one in verdicts)
        proven = f", all but {unproven} proven" if unproven else " and proven"
        said = f"all {asked} asked checks measured{proven} ({settled})"
        if not asked:
            said = "nothing of what was asked applies, so nothing is known"
    if judged.torn or judged.incomplete:
        reasons = [f"{', '.join(judged.torn)} lost a line"] if judged.torn else []
        reasons += [judged.incomplete] if judged.incomplete else []
        if not bad:
            said = f"{asked} checks measured ({settled}), but not all that should be"
        said += f"; incomplete: {' and '.join(reasons)}"
    return what + said + "."


def place(verdict: Verdict) -> str:
    """Return where a verdict belongs: node, peer and rail, or what of the node was asked about."""
    if verdict["peer"] is None:
        what = verdict["rail"] or verdict.get("subject")
        return f"{verdict['node']} {what}" if what else str(verdict["node"])
    return f"{verdict['node']} -> {verdict['peer']} {verdict['rail'] or 'all rails'}"


def _asked_of(plan: Plan, verdicts: Iterable[Verdict]) -> str:
    transport = plan.get("transport")
    rdma = any(CHECKS[one["check"]].rdma and not CHECKS[one["check"]].local for one in verdicts)
    if transport == "tcp":
        return "TCP only, RDMA not asked"
    if rdma:
        named = {"roce": "RDMA over Ethernet", "infiniband": "RDMA over InfiniBand", "efa": "RDMA over EFA"}
        return named.get(str(transport), "RDMA and TCP")
    return f"TCP only, RDMA not measured though the inventory declares {transport}"


def _unreachable(verdicts: Iterable[Verdict]) -> list[str]:
    """Name the nodes that did not answer: those whose own facts checks say so."""
    found = [
        one["node"] for one in verdicts if one["cause_class"] == "node_unreachable" and one["peer"] is None
    ]
    return list(dict.fromkeys(found))


def _named(verdicts: Sequence[Verdict]) -> str:
    places: dict[str, list[str]] = {}
    for one in verdicts:
        titles = places.setdefault(place(one), [])
        title = CHECKS[one["check"]].title
        if title not in titles:
            titles.append(title)
    # Local checks first: a link that is down explains the tests that did not run over it.
    ordered = sorted(places, key=lambda name: "->" in name)
    said = [f"{name}: {', '.join(places[name])}" for name in ordered[:NAMED]]
    more = len(ordered) - len(said)
    return "; ".join(said) + (f"; and {more} more" if more > 0 else "")


def _rails(plan: Plan, verdicts: Iterable[Verdict], blame: suspects.Blame) -> list[dict[str, Any]]:
    """Fold to one outcome for each node and rail: a test counts for both of its ends.

    `shown` leaves out what a suspect at the other end spoiled, and says that it was met.
    """
    outcomes: dict[tuple[str, str], list[str]] = {
        (name, rail["name"]): [] for name, node in plan["nodes"].items() for rail in node["rails"]
    }
    own: dict[tuple[str, str], set[str]] = {place: set() for place in outcomes}
    for one in verdicts:
        for node in (one["node"], one["peer"]):
            if node is not None and one["rail"] is not None:
                outcomes[(node, one["rail"])].append(one["outcome"])
                met = blame.only_met(one, node)
                own[(node, one["rail"])].add(suspects.MET_SUSPECT if met else one["outcome"])
    return [
        {
            "node": node,
            "rail": rail,
            "outcome": worst(found),
            "shown": next((state for state in STATES_WORST_FIRST if state in own[(node, rail)]), UNMEASURED),
            "suspect": (node, rail) in blame.suspects,
            "counts": {outcome: found.count(outcome) for outcome in WORST_FIRST if outcome in found},
        }
        for (node, rail), found in outcomes.items()
        if found
    ]


def worst(outcomes: Iterable[str]) -> str:
    """Return the outcome that a group is shown as; a group without any is unmeasured."""
    found = set(outcomes)
    return next((outcome for outcome in WORST_FIRST if outcome in found), UNMEASURED)
