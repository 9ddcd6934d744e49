# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a verdict is decided: an outer join of what was asked with what was measured. Pure.

A number that was not measured is never a pass: each asked line begins as `unmeasured`, and only two trusted
rows of one test, written by the two nodes that the line names and proven by the counters at both ends, lead
out of it.
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
    light_rows,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.asked import Asked
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import Known
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import (
    by_column,
    cabling,
    collectives,
    drive_health,
    drives,
    gpu_links,
    hops,
    peers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.trusted_rows import TrustedRows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import sums
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.between import Between
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.one_node import OneNode
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Answers, Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import documents
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Saved
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan, Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import CONFIRM_ARCHIVES

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]


class JudgeError(ValueError):
    """There is nothing to judge, or the plan and the asked lines contradict each other."""


def judge(
    manifest: Manifest,
    plan: Plan,
    asked: Sequence[AskedLine],
    facts: Iterable[Row],
    results: Iterable[Row],
    obstacles: Iterable[Row] = (),
    answered: Iterable[str] = (),
    saved: Saved | None = None,
) -> list[dict[str, Any]]:
    """Judge a run.

    Args:
        manifest: manifest.json.
        plan: plan.json.
        asked: the asked lines.
        facts: the facts rows.
        results: the result rows, held or light.
        obstacles: what kept the controller from inspecting or starting a node; it explains silence, no more.
        answered: nodes that are known to have been inspected: if one has no facts, they were lost.
        saved: the baseline that the run is held against, None where it has none.

    Returns:
        One verdict for each asked line, in their order.

    Raises:
        JudgeError: nothing was asked, or a line asks of a node or rail that the plan does not have.
        PolicyError: the manifest's policy is not one.
    """
    found = answers(manifest, plan, asked, facts, results, obstacles, answered, saved)
    return list(Verdicts(found))


def answers(
    manifest: Manifest,
    plan: Plan,
    asked: Sequence[AskedLine],
    facts: Iterable[Row],
    results: Iterable[Row],
    obstacles: Iterable[Row],
    answered: Iterable[str],
    saved: Saved | None,
) -> Answers:
    """Return what `judge` makes verdicts of; arguments and errors are the same."""
    asked = asked if isinstance(asked, AskedLines) else AskedLines(asked)
    problem = documents.problem(manifest, plan, asked)
    if problem:
        raise JudgeError(problem)
    run = str(manifest["run"])
    fleet = fact_rows.bind_facts(plan, facts, run)
    fleet.obstacles = _obstacles(obstacles, run)
    fleet.lost = frozenset(answered) - fleet.bound.keys() - fleet.broken.keys()
    numbered = Asked(asked, fleet.bound)
    rows = RowsByTest(run, results, numbered)
    times = clock.Clock(manifest, fleet.collected)
    rules = policy.merge(manifest.get("policy"))
    lost = _rows_lost(manifest, rows)
    court = _Judge(run, plan, rules, fleet, rows, times, light_rows.whole_of(results), lost, numbered)
    plain, places = court.plain, court.places
    lines = court.lines
    found = [Answer()] * len(lines)
    for place in light_rows.in_turn(lines):
        found[place] = court.answer(lines[place])
    for line, answer in zip(lines, found, strict=True):
        answer.conditions = court.like(line) if answer.tries else {}
    # A sum's parts stand for it.
    parts = ((one, line) for one, line in zip(found, lines, strict=True) if line["rail"])
    fleet_rules.settle(
        ((one, court.lost_of(line)) for one, line in parts),
        court.confirm,
        direct=plan.get("cabling") == "back_to_back",
    )
    if saved is not None:
        baseline.settle(lines, found, saved, rules)
    alone = {} if rules["allow_busy"] else plan["nodes"]
    hardware = {name for name, node in alone.items() if node.get("node_class") == "hardware"}
    models = {name: gpu.model_of(seen) for name, seen in fleet.gpus.items()}
    groups = peers.groups(plan["nodes"], models)
    drives.settle(lines, found, rows, hardware, groups)
    containers = {name for name, node in plan["nodes"].items() if node.get("node_class") == "container"}
    drive_health.settle(lines, found, rows, containers)
    lasting.unsteady(lines, found, plain.lines)
    slow_rails.name(lines, found, fleet, places, plain.lines)
    collectives.agree(lines, found, rows)
    collectives.compare(lines, found)
    declared = {name: (node.get("gpus") or {}).get("count") for name, node in plan["nodes"].items()}
    gpu_links.settle(lines, found, rows, declared, hardware, groups)
    return Answers(lines, found, places, plain, rows)


class _Judge:
    """Sends each asked line to who answers it; what all verdicts of a run share."""

    def __init__(
        self,
        run: str,
        plan: Plan,
        rules: Policy,
        fleet: BoundFacts,
        rows: RowsByTest,
        times: clock.Clock,
        whole: Callable[[Row], Row],
        lost: Mapping[str, str],
        numbered: Asked,
    ) -> None:
        chart = cabling.CablingMap(run, plan, fleet, times)
        asked = numbered.lines
        chart.read(asked.others.values(), rows)
        counted = row_counters.Claims(run, asked, rows)
        self._known = Known.of(run, rules, fleet, times, counted)
        trust = TrustedRows(self._known, chart.finding, whole)
        self.between = Between(plan, rules, fleet, asked.by_id, rows, trust)
        self.confirm = self.between.confirm
        self.lost = lost
        self._units = {name: node.get("scalable_unit") for name, node in plan["nodes"].items()}
        self.plain = trust.plain = by_column.find(numbered, rows, self._court())
        if any(transport in WITHOUT_IP for transport in fleet.transports.values()):
            passing = self.plain.places.tolist()
            self.plain.drop([at for at in passing if self.between.without_ip(numbered.line(at))])
        #: Where the lines stand that do not plainly pass, and these lines.
        self.places = np.delete(np.arange(len(asked)), numbered.at[self.plain.places]).tolist()
        self.lines = [asked[place] for place in self.places]
        self.between.lines = [line for line in self.lines if CHECKS[line["check"]].source == "test"]
        self._one_node = OneNode(
            run, plan, self.between, chart, times, lost, rows, self.lines, self.plain.rows(rows.parts)
        )

    def answer(self, asked: AskedLine) -> Answer:
        check = CHECKS[str(asked["check"])]
        if check.local:
            return self._one_node.answer(asked)
        if left_out := self.between.without_ip(asked):
            return left_out
        if check.source == "sum":
            return self.between.trust.unknown(asked) or sums.answer(self.between, asked)
        return self.between.answer(asked)

    def _court(self) -> by_column.Court:
        """Return what of this judge `by_column` asks."""
        between, fleet = self.between, self.between.fleet

        def like(node: str, rail: str) -> tuple[object, ...]:
            share = fleet.shares.get(node, {}).get(rail)
            of_node = fleet.iperf3.get(node), share, fleet.transports[node]
            return between.alike.describe_end(node, rail), *of_node

        return by_column.Court(self._known, between.trust.refused, between.bounds, functools.cache(like))

    def lost_of(self, asked: AskedLine) -> str:
        """Return which rows of a test's nodes are not there any more, or nothing."""
        return next((self.lost[node] for node in nodes_of(asked) if node in self.lost), "")

    def like(self, asked: AskedLine) -> dict[str, str]:
        """Return what makes a test like another; of a sum what its parts have."""
        if parts := asked.get("parts"):
            each = [self.like(line) for part in parts if (line := self.between.test(part))]
            said = {key: ", ".join(sorted({one[key] for one in each})) for key in each[0]}
            return {**said, "check": str(asked["check"])}
        ends, check = self.between.ends(asked), str(asked["check"])
        rdma, client = CHECKS[check].rdma, ends[0]
        classes = [str(((end.hca if rdma else end.netdev) or {}).get("driver_class")) for end in ends]
        rate_gbps = self.between.alike.capability(check, asked).rate_gbps
        mtu_bytes = client.rail.get("mtu") or (client.netdev or {}).get("mtu_bytes")
        active_mtu_bytes = (client.hca or {}).get("active_mtu_bytes") if rdma else None
        mtus = mtu_bytes, active_mtu_bytes
        measured = row_numbers.as_asked(check, True, self.between.policy)
        way: object = hops.planned(ends)
        if way is None and self._units[asked["node"]] != self._units[asked["peer"]]:
            way = fleet_rules.BETWEEN_UNITS  # over the spine, by however many switches
        if check == GPU_MEMORY:
            near = gpu_memory.describe_gpu_distance(self.between.fleet, nodes_of(asked), str(asked["rail"]))
            way = f"{way}, GPUs by {near}"
        return fleet_rules.like_of(asked, measured, mtus, rate_gbps, classes, way)


def _obstacles(rows: Iterable[Row], run: str) -> dict[str, Error]:
    """Return node -> the first error that the controller met there in this run."""
    found: dict[str, Error] = {}
    for row in rows:
        if row.get("run") == run and (error := failures.error_of(row)):
            found.setdefault(str(row.get("node")), error)
    return found


def _rows_lost(manifest: Manifest, rows: RowsByTest) -> dict[str, str]:
    """Return node -> which of the rows that it handed over are not there any more."""
    taken = manifest.get("archives")
    here = rows.by_host()
    if taken is None:
        return {}  # a run of an earlier version
    told = [taken, manifest[CONFIRM_ARCHIVES]] if CONFIRM_ARCHIVES in manifest else [taken]
    said: dict[str, Any] = {}
    each = (pair for archives in told if isinstance(archives, Mapping) for pair in archives.items())
    for node, one in each:
        count = one.get("rows") if isinstance(one, Mapping) else None
        known = policy.is_number(count) and policy.is_number(said.get(node, 0))
        said[node] = said.get(node, 0) + count if known else count
    return {
        node: f"{node} handed {said.get(node)!r} rows over, {here[node]} of them are here"
        for node in {*said, *here} - {CONTROLLER}
        if said.get(node) != here[node]
    }
