# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide the verdicts: an outer join of planned tests and measured rows. Pure.

A missing result is never a pass: each planned test begins as `unmeasured`, and only two trusted rows of it,
written by its two nodes and proven by the counters at both ends, change that.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY, WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.records import failures
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.module_utils.records.bmc_rows import CONTROLLER
from ansible_collections.railyard.fabric.plugins.module_utils.records.failures import Error
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import facts as fact_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import gpu_memory
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import attempts as lasting
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import baseline, slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import fleet as fleet_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    clock,
    result_rows,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    PlannedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RunContext
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import (
    cabling,
    collectives,
    drive_health,
    drives,
    gpu_links,
    hops,
    passing_tests,
    peers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.trusted_rows import TrustedRows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import sums
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.node_tests import NodeTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.pair_tests import PairTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Answers, Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import documents, provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Saved
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import (
    Manifest,
    Plan,
    Row,
    Verdict,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import CONFIRM_ARCHIVES


class JudgeError(ValueError):
    """There is nothing to judge, or the plan and the planned tests contradict each other."""


def judge(*documents: Any, **more: Any) -> list[Verdict]:
    """Return a verdict for each planned test, in their order; arguments and errors as `judge_tests`."""
    return list(Verdicts(judge_tests(*documents, **more)))


def judge_tests(
    manifest: Manifest,
    plan: Plan,
    asked: Sequence[AskedLine],
    facts: Iterable[Row],
    results: Iterable[Row],
    obstacles: Iterable[Row] = (),
    answered: Iterable[str] = (),
    saved: Saved | None = None,
) -> Answers:
    """Judge the tests of a run.

    Args:
        manifest: manifest.json.
        plan: plan.json.
        asked: the planned tests.
        facts: the facts rows.
        results: the result rows, complete or trimmed.
        obstacles: errors that kept a node from taking part; they only explain missing results.
        answered: nodes that were inspected; if one has no facts, they were lost.
        saved: the baseline of the run, None if it has none.

    Returns:
        The answers that `Verdicts` makes verdicts of.

    Raises:
        JudgeError: no test was planned, or a test names a node or rail that the plan does not have.
        PolicyError: the manifest's policy is invalid.
    """
    asked = asked if isinstance(asked, AskedLines) else AskedLines(asked)
    problem = documents.problem(manifest, plan, asked)
    if problem:
        raise JudgeError(problem)
    run = str(manifest["run"])
    fleet = fact_rows.bind_facts(plan, facts, run)
    fleet.obstacles = _read_obstacles(obstacles, run)
    fleet.lost = frozenset(answered) - fleet.bound.keys() - fleet.broken.keys()
    numbered = PlannedTests(asked, fleet.bound)
    rows = RowsByTest(run, results, numbered)
    times = clock.Clock(manifest, fleet.collected)
    rules = policy.merge(manifest.get("policy"))
    lost = _find_lost_rows(manifest, rows)
    read_complete = result_rows.find_row_reader(results)
    judge_one = _Judge(run, plan, rules, fleet, rows, times, read_complete, lost, numbered)
    passing, places = judge_one.passing, judge_one.places
    lines = judge_one.lines
    found = [Answer()] * len(lines)
    is_imported = provenance.imported(manifest) is not None
    for place in result_rows.order_sums_last(lines):
        found[place] = Answer.unmeasured("imported", "") if is_imported else judge_one.answer(lines[place])
    for line, answer in zip(lines, found, strict=True):
        answer.conditions = judge_one.describe_conditions(line) if answer.tries else {}
    # A sum is represented by its parts.
    parts = ((one, line) for one, line in zip(found, lines, strict=True) if line["rail"])
    fleet_rules.fail_outliers(
        ((one, judge_one.lost_of(line)) for one, line in parts),
        judge_one.confirm,
        direct=plan.get("cabling") == "back_to_back",
    )
    if saved is not None:
        baseline.compare_with_baseline(lines, found, saved, rules)
    alone = {} if rules["allow_busy"] else plan["nodes"]
    hardware = {name for name, node in alone.items() if node.get("node_class") == "hardware"}
    models = {name: gpu.model_of(seen) for name, seen in fleet.gpus.items()}
    groups = peers.group_peers(plan["nodes"], models)
    drives.compare_drives(lines, found, rows, hardware, groups)
    containers = {name for name, node in plan["nodes"].items() if node.get("node_class") == "container"}
    drive_health.check_same_drives(lines, found, rows, containers)
    lasting.mark_unsteady(lines, found, passing.lines)
    slow_rails.name_causes(lines, found, fleet, places, passing.lines)
    collectives.check_agreement(lines, found, rows)
    collectives.fail_slow_rails(lines, found)
    declared = {name: (node.get("gpus") or {}).get("count") for name, node in plan["nodes"].items()}
    gpu_links.compare_gpus(lines, found, rows, declared, hardware, groups)
    return Answers(lines, found, places, passing, rows, read_complete)


class _Judge:
    """Judges each planned test of a run, with what all of them share."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        rules: Policy,
        fleet: BoundFacts,
        rows: RowsByTest,
        times: clock.Clock,
        read_complete: Callable[[Row], Row],
        lost: Mapping[str, str],
        numbered: PlannedTests,
    ) -> None:
        chart = cabling.CablingMap(run, plan, fleet, times)
        asked = numbered.lines
        chart.read(asked.others.values(), rows)
        counted = row_counters.Claims(run, asked, rows)
        self._known = RunContext.build(run, rules, fleet, times, counted)
        trust = TrustedRows(self._known, chart.find_cause, read_complete)
        self.between = PairTests(plan, rules, fleet, asked.by_id, rows, trust)
        self.confirm = self.between.confirm
        self.lost = lost
        self._units = {name: node.get("scalable_unit") for name, node in plan["nodes"].items()}
        self.passing = trust.passing = passing_tests.find_passing(numbered, rows, self._list_functions())
        if any(transport in WITHOUT_IP for transport in fleet.transports.values()):
            passing = self.passing.places.tolist()
            self.passing.drop([at for at in passing if self.between.explain_without_ip(numbered.line(at))])
        #: The planned tests that do not clearly pass, and their places.
        self.places = np.delete(np.arange(len(asked)), numbered.at[self.passing.places]).tolist()
        self.lines = [asked[place] for place in self.places]
        self.between.lines = [line for line in self.lines if CHECKS[line["check"]].source == "test"]
        of_rails = (line for line in self.lines if CHECKS[line["check"]].source == "sum")
        self.between.sums = sums.add_passing(of_rails, self.passing) if self.passing else {}
        self._one_node = NodeTests(
            run, plan, self.between, chart, times, lost, rows, self.lines, self.passing.rows(rows.parts)
        )

    def answer(self, asked: AskedLine) -> Answer:
        check = CHECKS[str(asked["check"])]
        if check.local:
            return self._one_node.answer(asked)
        if left_out := self.between.explain_without_ip(asked):
            return left_out
        if check.source == "sum":
            return self.between.trust.unknown(asked) or sums.judge_sum(self.between, asked)
        return self.between.answer(asked)

    def _list_functions(self) -> passing_tests.RowJudge:
        """Return the functions of this judge that `passing_tests` needs."""
        between, fleet = self.between, self.between.fleet

        def describe_end(node: str, rail: str) -> tuple[object, ...]:
            share = fleet.shares.get(node, {}).get(rail)
            of_node = fleet.iperf3.get(node), share, fleet.transports[node]
            return between.cache.describe_end(node, rail), *of_node

        return passing_tests.RowJudge(
            self._known, between.trust.refused, between.bounds, functools.cache(describe_end)
        )

    def lost_of(self, asked: AskedLine) -> str:
        """Return which rows of a test's nodes are missing, or ""."""
        return next((self.lost[node] for node in nodes_of(asked) if node in self.lost), "")

    def describe_conditions(self, asked: AskedLine) -> dict[str, str]:
        """Return what comparable tests have in common; for a sum what its parts have."""
        if parts := asked.get("parts"):
            each = [self.describe_conditions(line) for part in parts if (line := self.between.test(part))]
            merged = {key: ", ".join(sorted({one[key] for one in each})) for key in each[0]}
            return {**merged, "check": str(asked["check"])}
        ends, check = self.between.ends(asked), str(asked["check"])
        rdma, client = CHECKS[check].rdma, ends[0]
        classes = [str(((end.hca if rdma else end.netdev) or {}).get("driver_class")) for end in ends]
        rate_gbps = self.between.cache.capability(check, asked).rate_gbps
        mtu_bytes = client.rail.get("mtu") or (client.netdev or {}).get("mtu_bytes")
        active_mtu_bytes = (client.hca or {}).get("active_mtu_bytes") if rdma else None
        mtus = mtu_bytes, active_mtu_bytes
        measured = row_numbers.list_required_settings(check, True, self.between.policy)
        way: object = hops.count_planned_hops(ends)
        if way is None and self._units[asked["node"]] != self._units[asked["peer"]]:
            way = fleet_rules.BETWEEN_UNITS  # over the spine, with an unknown number of switches
        if check == GPU_MEMORY:
            near = gpu_memory.describe_gpu_distance(self.between.fleet, nodes_of(asked), str(asked["rail"]))
            way = f"{way}, GPUs by {near}"
        return fleet_rules.describe_conditions(asked, measured, mtus, rate_gbps, classes, way)


def _read_obstacles(rows: Iterable[Row], run: str) -> dict[str, Error]:
    """Return node -> the first error that kept it from taking part in this run."""
    found: dict[str, Error] = {}
    for row in rows:
        if row.get("run") == run and (error := failures.error_of(row)):
            found.setdefault(str(row.get("node")), error)
    return found


def _find_lost_rows(manifest: Manifest, rows: RowsByTest) -> dict[str, str]:
    """Return node -> how many of its collected rows are missing."""
    taken = manifest.get("archives")
    here = rows.by_host()
    if taken is None:
        return {}  # a run of an earlier version
    both = [taken, manifest[CONFIRM_ARCHIVES]] if CONFIRM_ARCHIVES in manifest else [taken]
    counts: dict[str, Any] = {}
    each = (pair for archives in both if isinstance(archives, Mapping) for pair in archives.items())
    for node, one in each:
        count = one.get("rows") if isinstance(one, Mapping) else None
        known = policy.is_number(count) and policy.is_number(counts.get(node, 0))
        counts[node] = counts.get(node, 0) + count if known else count
    return {
        node: f"{counts.get(node)!r} rows were collected from {node}, {here[node]} are in the folder"
        for node in {*counts, *here} - {CONTROLLER}
        if counts.get(node) != here[node]
    }
