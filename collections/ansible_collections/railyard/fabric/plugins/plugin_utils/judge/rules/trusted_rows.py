# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide whether a verdict may rest on the rows of a test: both ends', complete, proven and consistent. Pure.

A row that is not understood is not trusted. A test has no result for the first of these reasons:

 1. Nothing is known about one of its nodes (`TrustedRows.unknown`).
 2. A row names no end, or one end wrote two rows.
 3. A row is invalid (`records/pair_rows`), or reports that nothing was measured.
 4. A rule of `end_rules` does not hold for a row.
 5. A row is missing.
 6. Probes were lost, which is a failure, or only the tool missed them.
 7. A rule of `pair_rules` does not hold for both rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import cast

from ansible_collections.railyard.fabric.plugins.module_utils.records import failures, reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    FAIL,
    PROBES,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import readings
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import (
    RowEnd,
    RowPair,
    RunContext,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.end_rules import list_end_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.pair_rules import (
    NOTHING_LOST,
    list_pair_rules,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import (
    Lookup,
    Rule,
    find_broken,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Two validated rows.
Pair = tuple[PairRow, PairRow]

_ECHOES = ("peer_failed", "rendezvous_timeout", "management_timeout")


class TrustedRows:
    """Checks the rows of tests.

    Args:
        known: what is known about the run.
        why_apart: returns the cause why the two ends of a test did not connect, from the beacons of their
            rails, or None.
        read_complete: returns the complete row of a trimmed one.
    """

    def __init__(
        self,
        known: RunContext,
        why_apart: Callable[[AskedLine], dict[str, str] | None],
        read_complete: Callable[[Row], Row] = lambda row: row,
    ) -> None:
        self._known, self._fleet = known, known.fleet
        self._why_apart, self._read_complete = why_apart, read_complete
        #: (check, end) -> rules on a row; check -> rules on both rows.
        self._end_rules: dict[tuple[str, str], list[Rule | Lookup]] = {}
        self._pair_rules: dict[str, list[Rule | Lookup]] = {}
        #: Test -> its trusted pairs.
        self._good: dict[str, list[tuple[Row, Row]]] = {}
        #: Tests that clearly pass.
        self.passing: Container[str] = ()

    def pair(self, asked: AskedLine, mine: Sequence[Row]) -> Pair | Answer:
        """Return the two rows of an attempt at a test if they can be trusted, else the verdict.

        Args:
            asked: the planned test.
            mine: the attempt's rows.
        """
        if len(mine) == 2 and asked["id"] in self.passing:
            both = mine if mine[0]["end"] == "client" else mine[::-1]
            return cast("PairRow", both[0]), cast("PairRow", both[1])
        # Sums, hops and bidirectional tests read the rows of other tests again.
        for client, server in self._good.get(str(asked["id"]), ()):
            if len(mine) == 2 and all(row is client or row is server for row in mine):
                return cast("PairRow", self._read_complete(client)), cast(
                    "PairRow", self._read_complete(server)
                )
        complete = [self._read_complete(row) for row in mine]
        found = self._pair(asked, complete)
        if isinstance(found, tuple):
            good = mine if found[0] is complete[0] else mine[::-1]
            self._good.setdefault(str(asked["id"]), []).append((good[0], good[1]))
        return found

    def _pair(self, asked: AskedLine, mine: Sequence[Row]) -> Pair | Answer:
        if nothing := self.unknown(asked):
            return nothing
        node, peer = nodes_of(asked)
        by_end: dict[str, list[Row]] = {"client": [], "server": []}
        for row in mine:
            if row.get("end") not in ("client", "server"):
                return Answer.unmeasured("row_garbled", f"end is {row.get('end')!r}")
            by_end[row["end"]].append(row)
        if any(len(found) > 1 for found in by_end.values()):
            return Answer.unmeasured("duplicate_row", asked["id"])
        refused = [
            answer
            for row in mine
            if (answer := self.refused(row, asked, node if row["end"] == "client" else peer))
        ]
        if refused:
            worst = min(refused, key=_rank_answer)
            # A node without a peer only reports that; the reason for the peer's absence is more helpful.
            absent = peer if by_end["client"] else node
            echo = worst.cause.get("cause_class") in _ECHOES and len(mine) == 1
            if worst.cause.get("cause_class") == "rendezvous_timeout":
                worst.cause = self._why_apart(asked) or worst.cause
            return (self._fleet.explain_absence(absent) if echo else None) or worst
        if not mine:
            absence = self._fleet.explain_absence(node) or self._fleet.explain_absence(peer)
            return absence or Answer.unmeasured("no_row", f"{node} and {peer}")
        if len(mine) == 1:
            silent = peer if by_end["client"] else node
            return self._fleet.explain_absence(silent) or Answer.unmeasured(
                "one_ended", f"{silent} is silent"
            )
        # Rows that were not refused are valid.
        client, server = cast("PairRow", by_end["client"][0]), cast("PairRow", by_end["server"][0])
        ends = RowEnd(client, self._known, asked, node), RowEnd(server, self._known, asked, peer)
        return self._check_pair(RowPair(*ends)) or (client, server)

    def unknown(self, asked: AskedLine) -> Answer | None:
        """Return the verdict of a test if nothing is known about one of its ends."""
        node, peer = nodes_of(asked)
        return self._fleet.unknown(node) or self._fleet.unknown(peer)

    def refused(self, row: Row, asked: AskedLine, host: str) -> Answer | None:
        """Return the verdict of a row without a measurement, or of another test."""
        try:
            if row.get("status") == "measured":
                return self._broken_by(RowEnd(reader.read(PairRow, row), self._known, asked, host))
            failed = failures.read(row)
        except RefusedError as refused:
            return Answer.unmeasured("row_garbled", f"{host}: {refused}")
        ends = str(asked["node"]), str(asked["peer"])
        answer = Answer(UNMEASURED, cause=causes.explain_error(failed["error"], host, *ends))
        # A probe that was sent and never came back is a finding about the path.
        ran = failed["status"] == "failed" and failed["error"]["class"] == "tool_failed"
        if ran and asked["check"] in PROBES and self.belongs_to(row, asked):
            answer.outcome = FAIL
            answer.basis = "the probe must arrive"
        return answer

    def _broken_by(self, end: RowEnd) -> Answer | None:
        """Return the verdict of a `measured` row that violates a rule, or None."""
        key = end.check.name, end.row["end"]
        if (rules := self._end_rules.get(key)) is None:
            rules = self._end_rules[key] = list_end_rules(end.check, end.row["end"])
        for cause, seen in find_broken(rules, end):
            return Answer.unmeasured(cause, f"{end.host}: {seen}")
        return None

    def belongs_to(self, row: Row, asked: AskedLine) -> bool:
        """Tell whether a row without a measurement belongs to this run and this test."""
        planned: Mapping[str, object] = asked
        same = all(row.get(key) == planned[key] for key in ("check", "node", "peer", "rail"))
        return same and row.get("run") == self._known.run

    def _check_pair(self, pair: RowPair) -> Answer | None:
        """Return the verdict if the two rows contradict each other, their counters or their proof."""
        rows = pair.client.row, pair.server.row
        for cause, seen in NOTHING_LOST.problems(pair):
            # For a smaller path MTU the counters include the larger probes.
            came = cause == "lost_packets" and readings.find_missed_packets(*rows)
            if came:
                return Answer.unmeasured("probes_missed", came)
            lost = causes.explain(cause, seen)
            return Answer(FAIL, readings.find_observed(*rows), basis="loss must be 0", cause=lost)
        name = pair.check.name
        if (rules := self._pair_rules.get(name)) is None:
            rules = self._pair_rules[name] = list_pair_rules(pair.check)
        wrong = next(find_broken(rules, pair), None)
        return Answer.unmeasured(*wrong) if wrong else None


def _rank_answer(answer: Answer) -> tuple[bool, bool]:
    """Order the answers of two ends: a finding first, an end that only lacks its peer last."""
    return answer.outcome != FAIL, answer.cause.get("cause_class") in _ECHOES
