# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the report's content from the run folder: plain data for page, Markdown and JUnit."""

from __future__ import annotations

import functools
import os
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue, policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import (
    Divided,
    Verdicts,
    divide,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, clean_all, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    comparison,
    environment,
    grouping,
    meetings,
    node_results,
    rails_used,
    size_curves,
    spread,
    summary,
    suspects,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.environment import Property
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import (
    Measurement,
    PassedTests,
    badness,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.rails_used import Conditions
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.spread import RailSpread
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan, Verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import run_file

# Beyond this many nodes, rows of the picture that look the same are folded into one.
_NODES_SHOWN = 16
# Beyond this many lines, a table shows the worst and the number of the others.
ROWS_SHOWN = 60
#: Returns the run's rows of some tests.
_Results = Callable[[Collection[str]], "list[dict[str, Any]]"]


@dataclass(frozen=True)
class RailRow:
    """A line of the picture: nodes whose rails have equal outcomes."""

    nodes: tuple[str, ...]
    outcomes: tuple[str, ...]
    shares: tuple[str, ...] = ()
    """For a single node: outcomes of each rail's checks, such as `11 pass, 8 recorded`."""
    is_suspect: tuple[bool, ...] = ()
    """For each rail: no test of some check with this node is good, while other nodes' tests are."""

    @property
    def label(self) -> str:
        """The nodes, folded."""
        return fold_names(self.nodes)

    @property
    def states(self) -> tuple[str, ...]:
        """The outcome of each rail, as text."""
        words = (wording.outcome(outcome).word for outcome in self.outcomes)
        return tuple(
            f"{word}, suspect" if suspect else word
            for word, suspect in zip(words, self.is_suspect, strict=True)
        )


@dataclass(frozen=True)
class Reason:
    """The source of a bound.

    Attributes:
        number: its reference in the check's table, from 1.
        bounds: floor and ceiling, or the one right value, as (label, text); empty where there is none.
        basis: the source, or why there is no bound.
        count: how many of the check's tests it applies to.
    """

    number: int
    bounds: tuple[tuple[str, str], ...]
    basis: str
    count: int


@dataclass(frozen=True)
class CheckTable:
    """The verdicts of one check; of many, the worst."""

    check: str
    title: str
    counts: dict[str, int]
    shown: tuple[Measurement, ...]
    left_out: int
    reasons: tuple[Reason, ...]
    """The sources of the bounds of the lines shown, the most frequent first."""
    conditions: tuple[Conditions, ...] = ()
    """HCA, GID, MTU and NUMA of the RDMA tests shown; equal ones are one line."""

    def reason(self, item: Measurement) -> int | str:
        """Return the number of a line's reason; empty where there is none."""
        mine = (item.bounds, item.basis)
        return next((one.number for one in self.reasons if (one.bounds, one.basis) == mine), "")


@dataclass(frozen=True)
class Report:
    """The content of the report."""

    run: str
    cluster: str
    headline: str
    exit_status: int
    counts: dict[str, int]
    recorded: tuple[tuple[str, int], ...]
    """(why numbers have no bound, how many), the most frequent first."""
    started: str
    ended: str
    interrupted: bool
    incomplete: str
    """Why the run is incomplete: its end, planned tests or a line are missing; else empty."""
    rails: tuple[str, ...]
    rows: tuple[RailRow, ...]
    node_count: int
    problems: tuple[grouping.Problem, ...]
    who_is_slow: tuple[str, ...]
    """Slow components by the numbers of all tests, and what remains uncertain; a sentence each."""
    measurements: tuple[Measurement, ...]
    """Those of a small run; of a large one without `passes`."""
    tables: tuple[CheckTable, ...]
    spreads: tuple[RailSpread, ...]
    environment: tuple[tuple[str, str], ...]
    policy: tuple[tuple[str, str], ...]
    nodes: tuple[Property, ...]
    notes: tuple[str, ...]
    plan: dict[str, Any]
    compared: comparison.Compared
    """RDMA compared with TCP; without rows where RDMA was not planned."""
    meetings: meetings.Meetings
    """Client by server on each rail; without matrices for a few nodes."""
    curves: tuple[size_curves.Curve, ...]
    """Bandwidth of the collectives at each size; empty where none were planned."""
    coverage: dict[str, int]
    """How many pairs of nodes were tested, as `pattern.coverage` returns it."""
    by_node: node_results.RunResult
    """What was found of each node."""
    fabric: run_file.RunFabric | None = None
    """What `validate --fabric` found of the InfiniBand fabric; None where it was not read."""
    passes: tuple[PassedTests, ...] = ()
    """Measurements of a large run that clearly pass."""

    @property
    def verdict(self) -> str:
        """The outcome of the run that its exit status means."""
        return {0: "pass", 1: "fail"}.get(self.exit_status, "unmeasured")


def read(run_dir: str | os.PathLike[str], judged: rejudge.Judged | None = None) -> Report:
    """Read a run folder, and judge it unless the caller has.

    Raises:
        RunFolderError, JudgeError, PolicyError: the folder is no run, cannot be read, or cannot be judged.
    """
    folder = run_folder.RunFolder(Path(run_dir))
    manifest, plan = clean_all(folder.manifest()), clean_all(folder.plan())
    judged = judged or rejudge.judge_folder(Path(run_dir))
    incomplete = [judged.incomplete or "", *(f"{name} lost a line" for name in judged.torn)]
    total = clean_all(summary.summarise_verdicts(folder.plan(), judged))
    facts = _of_run(manifest, folder.rows(run_folder.FACTS)[0])
    single, groups = divide(judged.verdicts)
    passes = [replace(one, first=clean_all(one.first), names=clean_all(list(one.names))) for one in groups]
    verdicts = Divided(clean_all(list(single)), passes)
    cables = rails_used.cables(plan, facts)
    measurements = tuple(Measurement.of_verdict(one, cables) for one in verdicts.single)
    passed = tuple(PassedTests(Measurement.of_verdict(one.first), one) for one in passes)
    start, end = (environment.record(manifest.get(key)) for key in ("start", "end"))
    rails, rows = _rails(plan, total)
    results = functools.partial(_results, folder, manifest, judged.verdicts)
    nodes = environment.describe_nodes(plan, facts)
    return Report(
        run=str(manifest.get("run", folder.name)),
        cluster=str(manifest.get("cluster", "")),
        headline=str(total["headline"]),
        exit_status=int(total["exit_status"]),
        counts={name: int(total["counts"].get(name, 0)) for name in wording.OUTCOMES},
        recorded=tuple((str(why), int(count)) for why, count in total["recorded"]),
        started=_moment(start.get("at", "unknown")),
        ended=_moment(end.get("at", "")),
        interrupted=end.get("reason") != "completed",
        incomplete=clean("; ".join(incomplete).strip("; ")),
        rails=rails,
        rows=rows,
        node_count=len(plan.get("nodes") or {}),
        problems=tuple(grouping.group(total["problems"], cables)),
        who_is_slow=tuple(total["who_is_slow"]),
        measurements=measurements,
        tables=tuple(_with_conditions(_tables(measurements, passed), results)),
        spreads=spread.measure_spread(measurements, rails, comparison.declared_rates(plan), passed),
        environment=environment.describe_run(manifest, plan),
        policy=environment.pairs(manifest.get("policy") or {}),
        nodes=nodes,
        notes=(*(str(note) for note in total.get("notes") or ()), *environment.findings(nodes)),
        plan=plan,
        compared=comparison.compare_run(plan, verdicts, facts, policy.merge(manifest.get("policy"))),
        meetings=meetings.build_matrices(plan, verdicts, suspects.find(verdicts)),
        curves=_curves(measurements, results),
        coverage=total["coverage"],
        by_node=node_results.summarise(
            manifest,
            plan,
            verdicts,
            is_whole=not (judged.incomplete or judged.torn),
            is_steady=node_results.is_all_hardware(plan, facts, str(manifest.get("run"))),
        ),
        fabric=clean_all(run_file.load(folder)),
        passes=passed,
    )


def _of_run(manifest: Manifest, rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of this run; rows of another run support no verdict."""
    mine: list[dict[str, Any]] = clean_all([row for row in rows if row.get("run") == manifest.get("run")])
    return mine


def _moment(timestamp: object) -> str:
    """Shorten `2026-11-21T10:15:03.120Z` to `2026-11-21 10:15:03 UTC`; leave other text unchanged."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?Z", str(timestamp))
    return f"{found[1]} {found[2]} UTC" if found else str(timestamp)


def _rails(plan: Plan, total: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[RailRow, ...]]:
    """Return the rails and a row of outcomes per node; of many nodes, equal rows are folded."""
    seen = {(str(cell["node"]), str(cell["rail"])): cell for cell in total["rails"]}
    names = [str(rail["name"]) for node in (plan.get("nodes") or {}).values() for rail in node["rails"]]
    rails = tuple(dict.fromkeys([*names, *sorted(rail for _node, rail in seen)]))
    few = len(plan.get("nodes") or {}) <= _NODES_SHOWN
    alike: dict[RailRow, list[str]] = defaultdict(list)
    for name, node in (plan.get("nodes") or {}).items():
        has = {str(rail["name"]) for rail in node["rails"]}
        cells = [seen.get((name, rail), {} if rail in has else {"shown": "absent"}) for rail in rails]
        row = RailRow(
            (name,) if few else (),
            tuple(str(cell.get("shown", "not_applicable")) for cell in cells),
            tuple(_share(cell.get("counts") or {}) for cell in cells) if few else (),
            tuple(bool(cell.get("suspect")) for cell in cells),
        )
        alike[row].append(name)
    rows = tuple(replace(row, nodes=tuple(nodes)) for row, nodes in alike.items())
    order = summary.RAIL_STATES_ORDER
    return rails, rows if few else tuple(
        sorted(rows, key=lambda row: (not any(row.is_suspect), *sorted(map(order.index, row.outcomes))))
    )


def _share(counts: Mapping[str, int]) -> str:
    """Return the number of each outcome of a rail's checks, such as `11 pass, 8 recorded`."""
    shown = [
        (name, counts.get(name, 0)) for name in catalogue.OUTCOMES_WORST_FIRST if name != "not_applicable"
    ]
    # Bad outcomes first, then passes; numbers without a limit last.
    shown.sort(key=lambda one: one[0] == "recorded")
    return ", ".join(f"{count} {wording.outcome(name).word}" for name, count in shown if count)


def _tables(measurements: tuple[Measurement, ...], passed: Iterable[PassedTests]) -> tuple[CheckTable, ...]:
    by_check: dict[str, tuple[list[Measurement], list[PassedTests]]] = defaultdict(lambda: ([], []))
    for measurement in measurements:
        by_check[measurement.check][0].append(measurement)
    for group in passed:
        by_check[group.first.check][1].append(group)
    tables = []
    for check in sorted(by_check, key=wording.check_order):
        single, groups = by_check[check]
        outcomes = Counter(measurement.outcome for measurement in single)
        outcomes["pass"] += sum(map(len, groups))
        shown = [*single, *(item for group in groups for item in group.worst(ROWS_SHOWN))]
        if groups or len(single) > ROWS_SHOWN:
            shown = sorted(shown, key=badness)[:ROWS_SHOWN]
        tables.append(
            CheckTable(
                check=check,
                title=wording.heading(check),
                counts={name: outcomes.get(name, 0) for name in wording.OUTCOMES},
                shown=tuple(shown),
                left_out=outcomes.total() - len(shown),
                reasons=_reasons(single, groups, shown),
            )
        )
    return tuple(tables)


def _with_conditions(tables: Iterable[CheckTable], results: _Results) -> Iterator[CheckTable]:
    """Add HCA, GID, MTU and NUMA of the RDMA tests; only rows of the lines shown are read."""
    tables = list(tables)
    wanted = {item.id for table in tables if rails_used.has_conditions(table.check) for item in table.shown}
    known = rails_used.conditions(results(wanted))
    for table in tables:
        mine = dict.fromkeys(one for item in table.shown for one in known.get(item.id, ()))
        yield replace(table, conditions=tuple(mine))


def _curves(measurements: Iterable[Measurement], results: _Results) -> tuple[size_curves.Curve, ...]:
    wanted = size_curves.ids(measurements)
    return size_curves.build_curves(results(wanted), wanted)


def _results(
    folder: run_folder.RunFolder,
    manifest: Manifest,
    verdicts: Sequence[Verdict],
    wanted: Collection[str],
) -> list[dict[str, Any]]:
    """Return the rows of these tests; the file is not read where none is wanted."""
    if isinstance(verdicts, Verdicts):
        return _of_run(manifest, verdicts.read_rows(wanted))
    found = folder.each_row(run_folder.RESULTS, wanted) if wanted else ()
    return _of_run(manifest, [row for row in found if row is not None])


def _reasons(
    single: list[Measurement], groups: Iterable[PassedTests], shown: list[Measurement]
) -> tuple[Reason, ...]:
    # Format equal bounds once: few differ, and formatting is slow.
    alike: dict[tuple[str, str, str], list[Measurement]] = defaultdict(list)
    for item in single:
        alike[repr(item.floor), repr(item.ceiling), item.basis].append(item)
    counts: Counter[tuple[tuple[tuple[str, str], ...], str]] = Counter()
    for items in alike.values():
        counts[items[0].bounds, items[0].basis] += len(items)
    for group in groups:
        counts[group.first.bounds, group.first.basis] += len(group)
    wanted = {(item.bounds, item.basis) for item in shown if item.bounds or item.basis}
    ranked = [(bound, count) for bound, count in counts.most_common() if bound in wanted]
    return tuple(Reason(number, *bound, count) for number, (bound, count) in enumerate(ranked, start=1))
