# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When may a verdict rest on the rows of a test? Only on both ends', whole, proven and of one mind. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    PROBES,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import (
    bounds_check,
    cabling,
    causes,
    counter_claims,
    row_checks,
    row_checks_rdma,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer, unmeasured
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.facts import BoundFacts

Rows = Mapping[str, Sequence[Mapping[str, Any]]]
Pair = tuple[Mapping[str, Any], Mapping[str, Any]]

# What an end says when it is the other that has something to tell.
_ECHOES = ("peer_failed", "rendezvous_timeout", "management_timeout")


class Evidence:
    """Looks at the rows of one test after the other.

    Args:
        run: the run id.
        rules: the merged policy.
        fleet: all nodes' facts.
        chart: what the rails heard of each other, which explains why two ends did not meet.
        claims: whose bytes the counters of all rows are.
    """

    def __init__(
        self,
        run: str,
        rules: dict[str, Any],
        fleet: BoundFacts,
        chart: cabling.CablingMap,
        claims: counter_claims.Claims,
    ) -> None:
        self._run = run
        self._policy = rules
        self._fleet = fleet
        self._chart = chart
        self._claims = claims

    def pair(self, asked: Mapping[str, Any], rows: Rows) -> Pair | Answer:
        """Return the two rows of a test when a verdict may rest on them, else the verdict that follows."""
        if nothing := self.unknown(asked):
            return nothing
        mine = rows.get(str(asked["id"]), [])
        by_end: dict[str, list[Mapping[str, Any]]] = {"client": [], "server": []}
        for row in mine:
            end = row.get("end")
            if not isinstance(end, str) or end not in by_end:
                return unmeasured("row_garbled", f"end is {end!r}")
            by_end[end].append(row)
        if any(len(found) > 1 for found in by_end.values()):
            return unmeasured("duplicate_row", str(asked["id"]))
        refused = [
            answer
            for row in mine
            if (answer := self._refused(row, asked, asked["node" if row["end"] == "client" else "peer"]))
        ]
        if refused:
            told = min(refused, key=_telling)
            # A node that met nobody says so; why its peer was not there is what helps.
            absent = asked["peer"] if by_end["client"] else asked["node"]
            echo = told.cause.get("cause_class") in _ECHOES and len(mine) == 1
            if told.cause.get("cause_class") == "rendezvous_timeout":
                told.cause = self._chart.finding(asked) or told.cause
            return (self._held_up(absent) if echo else None) or told
        if not mine:
            held = self._held_up(asked["node"]) or self._held_up(asked["peer"])
            return held or unmeasured("no_row", f"{asked['node']} and {asked['peer']}")
        if len(mine) == 1:
            silent = asked["peer"] if by_end["client"] else asked["node"]
            return self._held_up(silent) or unmeasured("one_ended", f"{silent} is silent")
        client, server = by_end["client"][0], by_end["server"][0]
        return self._doubt(client, server) or (client, server)

    def unknown(self, asked: Mapping[str, Any]) -> Answer | None:
        """Return the verdict of a test when nothing is known of one of its ends."""
        cause = self._fleet.why_unknown(asked["node"]) or self._fleet.why_unknown(asked["peer"])
        return Answer(UNMEASURED, cause=cause) if cause else None

    def _held_up(self, node: str) -> Answer | None:
        """Return the verdict of a test to which a node gave no row, when the controller knows why."""
        error = self._fleet.obstacles.get(str(node))
        return Answer(UNMEASURED, cause=causes.explain_error(error)) if error else None

    def _refused(self, row: Mapping[str, Any], asked: Mapping[str, Any], host: str) -> Answer | None:
        """Return the verdict of a row that says itself that it measured nothing, or cannot be this test's."""
        error = row.get("error")
        status = row.get("status")
        if status == "measured":
            bound = self._fleet.bound[host][str(asked["rail"])]
            problem = row_checks.identity_problem(row, asked, self._run, bound)
            problem = problem or row_checks.content_problem(row, self._policy)
            if problem:
                return unmeasured("row_garbled", f"{host}: {problem}")
            other_mtu = row_checks.condition_problem(row, bound)
            if other_mtu:
                return unmeasured("mtu_differs", other_mtu)
            if not CHECKS[str(asked["check"])].rdma:
                return None
            wrong = row_checks_rdma.row_problem(row, bound, self._fleet.transports[host], self._policy)
            return unmeasured(*wrong) if wrong else None
        if status not in ("failed", "unmeasured") or not isinstance(error, Mapping):
            return unmeasured("row_garbled", f"{host}: status is {status!r}, error {error!r}")
        ends = str(asked["node"]), str(asked["peer"])
        answer = Answer(UNMEASURED, cause=causes.explain_error(error, host, *ends))
        # A probe that was sent and never came back is an answer about the path, not a missing one.
        ran = status == "failed" and error.get("class") == "tool_failed" and asked["check"] in PROBES
        if ran and self.answers(row, asked):
            answer.outcome = FAIL
            answer.basis = "the probe has to arrive"
        return answer

    def answers(self, row: Mapping[str, Any], asked: Mapping[str, Any]) -> bool:
        """Tell whether a row without a measurement is this run's and this test's."""
        keys = ("check", "node", "peer", "rail")
        return row.get("run") == self._run and all(row.get(key) == asked[key] for key in keys)

    def _doubt(self, client: Mapping[str, Any], server: Mapping[str, Any]) -> Answer | None:
        """Return the verdict when the two rows contradict each other, their counters or their proof."""
        lost = bounds_check.lost(client)
        if lost:
            # Of a path of a smaller MTU the counters hold what was tried as well.
            came = (
                bounds_check.came_after_all(client, server) if lost["cause_class"] == "lost_packets" else None
            )
            if came:
                return unmeasured("probes_missed", came)
            return Answer(FAIL, bounds_check.observed(client, server), basis="loss must be 0", cause=lost)
        for row, other in ((client, server), (server, client)):
            boot_id = self._fleet.boot_ids.get(str(other["host"]))
            if not boot_id:
                return unmeasured("facts_garbled", f"{other['host']}: boot_id is {boot_id!r}")
            if row_checks.rebooted(row, boot_id):
                return unmeasured("node_rebooted", str(other["host"]))
            apart = row_checks.exchange_problem(row, other)
            if apart:
                return unmeasured("ends_disagree", apart)
        apart = row_checks.disagreement(client, server, self._policy)
        if apart:
            return unmeasured("ends_disagree", apart)
        wrong = row_checks_rdma.pair_problem(client, server, self._policy)
        if wrong:
            return unmeasured(*wrong)
        for row in (client, server):
            if row.get("proof") != "proven":
                reason = row.get("proof_reason") or f"it says {row.get('proof')!r}"
                return unmeasured("unproven", f"{row['host']} ({row['end']}): {reason}")
            problem = row_checks.counter_problem(row, client, self._policy)
            if problem:
                return unmeasured("unproven", f"{row['host']} ({row['end']}): {problem}")
            twice = self._claims.shared(row)
            if twice:
                return unmeasured("counted_twice", f"{row['host']} ({row['end']}): {twice}")
        return None


def _telling(answer: Answer) -> tuple[bool, bool]:
    """Order what two ends say of a test without a result: a finding first, an end that only echoes last."""
    return answer.outcome != FAIL, answer.cause.get("cause_class") in _ECHOES
