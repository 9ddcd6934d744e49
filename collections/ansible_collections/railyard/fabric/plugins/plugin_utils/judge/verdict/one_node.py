# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of one node: by its facts, counters and rows, and what others heard of it. Pure."""

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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.between import Between
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan


class OneNode:
    """Answers each question of one node.

    Args:
        run: the run id.
        plan: plan.json.
        between: the tests between two nodes, in which something of either shows.
        chart: what the rails heard of each other.
        times: when rows can have been written.
        lost: node -> which of its rows are not there any more.
        rows: id -> its rows.
        lines: the asked lines, but for those of tests that plainly pass.
        plain: the rows of these.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        between: Between,
        chart: cabling.CablingMap,
        times: clock.Clock,
        lost: Mapping[str, str],
        rows: RowsByTest,
        lines: Sequence[AskedLine],
        plain: ByRail,
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
        self._usual_gpus = gpus.usual(plan, self._fleet)
        self._no_bmc_answers = bmc.nobody(lines, self._rows)
        self._contested = self._claimed_by_others()
        self._plain = plain
        #: Node and rail -> its tests, but for those that plainly pass.
        self._tests_of: dict[tuple[str, str], list[AskedLine]] = {}
        for line in between.lines:
            if not between.without_ip(line):
                for end in (line["node"], line["peer"]):
                    self._tests_of.setdefault((str(end), str(line["rail"])), []).append(line)

    def answer(self, asked: AskedLine) -> Answer:
        """Answer what is asked of one node: from its facts, or from the error counters in its rows."""
        node, rail = str(asked["node"]), str(asked["rail"])
        check = CHECKS[str(asked["check"])]
        if check.source == "bmc":
            mine, address = self._rows.get(str(asked["id"]), []), self._bmcs[node]
            found = bmc.judge(asked, self._run, address, mine, self._fleet.owners, self._no_bmc_answers)
            outside = self._times.outside(CONTROLLER, mine[0]) if len(mine) == 1 else None
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
                self._plain.of(node, rail),
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
        """Tell of a test on a rail whose end wrote no row: whom it heard claim the address is not known."""
        for test in self._tests_of.get((node, rail), []):
            wrote = [tables.shared(row).get("host") for row in self._rows.get(str(test["id"]), [])]
            for host in nodes_of(test):
                if host in wrote:
                    continue
                fleet = self._fleet
                answered = host in fleet.bound or host in fleet.broken or host in fleet.lost
                if answered and host not in fleet.obstacles:
                    return (
                        f"{host} wrote no row of test {test['id']}, in which it may have heard another owner"
                    )
        return None

    def _hops(self, asked: AskedLine) -> Answer:
        """Answer whether a rail's latencies fit the switches that are planned on the way."""
        if nothing := self._fleet.unknown(str(asked["node"])):
            return nothing
        if self._latencies is None:
            self._latencies = hops.by_rail(self._trusted_latencies())
        return hops.judge(asked, self._latencies)

    def _trusted_latencies(self) -> Iterator[hops.Sample]:
        """Yield each latency test's sample: of several attempts the quickest, since a switch adds to each."""
        for line in hops.tests(self._lines):
            pairs = self._between.trusted_pairs(line)
            samples = [hops.sample(line, pair[0]["metrics"], self._fleet.bound) for pair in pairs]
            if samples:
                yield min(samples, key=lambda sample: sample.latency_us)

    def _claimed_by_others(self) -> dict[tuple[str, str], str]:
        """Return (node, rail) -> what was seen, for rail addresses that somebody else was heard to claim.

        The node's own facts cannot show it: a stranger is found by who asks on the rail.
        """
        found: dict[tuple[str, str], str] = {}
        # A short row brings no error.
        for identity, mine in self._rows.others.items():
            asked = self._between.test(identity)
            if asked is None:
                continue
            for row in mine:
                if row.get("error") is None or (error := failures.error_of(row)) is None:
                    continue
                owner, claimed = error.get("host"), error["class"] in ("address_in_use", "stranger")
                answers = owner in (asked["node"], asked["peer"]) and self._between.trust.answers(row, asked)
                if claimed and answers:
                    found.setdefault((str(owner), str(asked["rail"])), error["message"])
        return found
