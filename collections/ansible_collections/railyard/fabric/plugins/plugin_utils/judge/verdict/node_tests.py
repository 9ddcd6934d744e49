# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the tests of one node, by its facts, counters and rows, and by the rows of its neighbors. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.records import failures
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.module_utils.records.bmc_rows import CONTROLLER
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import ByRail
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import (
    bmc,
    cabling,
    gpus,
    hops,
    link_errors,
    node_rows,
    rdma_facts,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import facts as fact_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.pair_tests import PairTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan


class NodeTests:
    """Judges each test of one node.

    Args:
        run: the run id.
        plan: plan.json.
        between: the tests between two nodes.
        chart: the beacons that the rails received.
        times: when rows may have been written.
        lost: node -> which of its rows are missing.
        rows: id -> its rows.
        lines: the planned tests, without those that clearly pass.
        passing: the rows of these.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        between: PairTests,
        chart: cabling.CablingMap,
        times: clock.Clock,
        lost: Mapping[str, str],
        rows: RowsByTest,
        lines: Sequence[AskedLine],
        passing: ByRail,
    ) -> None:
        self._run = run
        self._between = between
        self._fleet, self._lines, self._rows = between.fleet, lines, rows
        self._chart = chart
        self._times = times
        self._lost = lost
        self._latencies: dict[str, list[hops.Sample]] | None = None
        self._bmcs = {name: str(node.get("bmc_address")) for name, node in plan["nodes"].items()}
        self._gpus = {name: node.get("gpus") or {} for name, node in plan["nodes"].items()}
        self._usual_gpus = gpus.find_usual(plan, self._fleet)
        self._no_bmc_answers = bmc.is_none_reachable(lines, self._rows)
        self._contested = self._claimed_by_others()
        self._passing = passing
        #: (node, rail) -> its tests, without those that clearly pass.
        self._tests_of: dict[tuple[str, str], list[AskedLine]] = {}
        for line in between.lines:
            if not between.explain_without_ip(line):
                for end in (line["node"], line["peer"]):
                    self._tests_of.setdefault((str(end), str(line["rail"])), []).append(line)

    def answer(self, asked: AskedLine) -> Answer:
        """Judge a test of one node."""
        node, rail = str(asked["node"]), str(asked["rail"])
        check = CHECKS[str(asked["check"])]
        if check.source == "bmc":
            mine, address = self._rows.get(str(asked["id"]), []), self._bmcs[node]
            found = bmc.judge(asked, self._run, address, mine, self._fleet.owners, self._no_bmc_answers)
            outside = self._times.explain_outside(CONTROLLER, mine[0]) if len(mine) == 1 else None
            return Answer.unmeasured("row_garbled", f"{CONTROLLER}: {outside}") if outside else found
        if check.source == "node":
            mine = self._rows.get(str(asked["id"]), [])
            known = self._fleet.unknown(node) or (None if mine else self._fleet.explain_absence(node))
            return known or node_rows.judge(
                asked, self._run, mine, self._between.policy, self._times, self._fleet.bound[node]
            )
        if check.source == "gpus":
            return gpus.judge(asked, self._gpus[node], self._fleet, self._usual_gpus)
        if check.source == "counters":
            if nothing := self._fleet.unknown(node):
                return nothing
            tests, bound = self._tests_of.get((node, rail), []), self._fleet.bound[node][rail]
            return link_errors.judge(
                asked,
                self._run,
                tests,
                self._rows,
                bound,
                self._between.confirm,
                self._lost.get(node),
                self._between.policy.get("adaptive_routing") is True,
                self._passing.find(node, rail),
            )
        if check.source == "cabling":
            return self._chart.judge(asked, self._rows)
        if check.source == "hops":
            return self._hops(asked)
        if check.rdma:
            return rdma_facts.judge(asked, self._between.rails[node][rail], self._fleet)
        answer = fact_rows.judge(asked, self._between.rails[node][rail], self._fleet)
        seen = self._contested.get((node, rail))
        if check.name == "address" and answer.outcome == PASS:
            if seen is not None:
                return answer.failed("address_duplicate", f"{node} {rail}: {seen}")
            if gone := self._row_gone(node, rail):
                return answer.unknown("no_row", f"{node} {rail}: {gone}")
        return answer

    def _row_gone(self, node: str, rail: str) -> str | None:
        """Return a test on a rail with a missing row, which may report another owner of the address."""
        for test in self._tests_of.get((node, rail), []):
            wrote = [
                tables.find_shared_values(row).get("host") for row in self._rows.get(str(test["id"]), [])
            ]
            for host in nodes_of(test):
                if host in wrote:
                    continue
                fleet = self._fleet
                answered = host in fleet.bound or host in fleet.broken or host in fleet.lost
                if answered and host not in fleet.obstacles:
                    return f"{host} wrote no row of test {test['id']}, which may report another owner"
        return None

    def _hops(self, asked: AskedLine) -> Answer:
        """Judge whether a rail's latencies match the planned number of switches."""
        if nothing := self._fleet.unknown(str(asked["node"])):
            return nothing
        if self._latencies is None:
            self._latencies = hops.group_by_rail(self._trusted_latencies())
        return hops.judge(asked, self._latencies)

    def _trusted_latencies(self) -> Iterator[hops.Sample]:
        """Yield each latency test's sample: the fastest attempt, since a switch slows down all of them."""
        for line in hops.select_tests(self._lines):
            pairs = self._between.trusted_pairs(line)
            samples = [hops.make_sample(line, pair[0]["metrics"], self._fleet.bound) for pair in pairs]
            if samples:
                yield min(samples, key=lambda sample: sample.latency_us)

    def _claimed_by_others(self) -> dict[tuple[str, str], str]:
        """Return (node, rail) -> details, for rail addresses that another host claims.

        The node's own facts cannot show it: only a neighbor on the rail finds the other host.
        """
        found: dict[tuple[str, str], str] = {}
        # Short rows have no error.
        for identity, mine in self._rows.others.items():
            asked = self._between.test(identity)
            if asked is None:
                continue
            for row in mine:
                if row.get("error") is None or (error := failures.error_of(row)) is None:
                    continue
                owner, claimed = error.get("host"), error["class"] in ("address_in_use", "stranger")
                answers = owner in (asked["node"], asked["peer"]) and self._between.trust.belongs_to(
                    row, asked
                )
                if claimed and answers:
                    found.setdefault((str(owner), str(asked["rail"])), error["message"])
        return found
