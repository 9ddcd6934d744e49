# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When may a verdict rest on the rows of a test? Only on both ends', whole, proven and of one mind. Pure.

Closed: what is not understood is not trusted. A test has no number, for the first of these reasons:

 1. Nothing is known of one of its nodes (`TrustedRows.unknown`).
 2. A row names no end, or one end wrote two.
 3. A row is not what its type says (`records/pair_rows`), or says itself that nothing was measured.
 4. A rule of `of_end` does not hold of a row.
 5. A row is missing.
 6. Probes were lost, which is a failure, or were missed by the tool alone.
 7. A rule of `of_pair` does not hold of both rows.
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
    Known,
    RowEnd,
    RowPair,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_end import of_end
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.of_pair import NOTHING_LOST, of_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.rule import Lookup, Rule, broken
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Two rows that are known to be what their type says.
Pair = tuple[PairRow, PairRow]

_ECHOES = ("peer_failed", "rendezvous_timeout", "management_timeout")


class TrustedRows:
    """Looks at the rows of one test after the other.

    Args:
        known: what is known of the run.
        why_apart: returns the cause why the two ends of a test did not meet, by what the rails heard of each
            other; None where nothing shows it.
        whole: returns a light row as it stands in the folder.
    """

    def __init__(
        self,
        known: Known,
        why_apart: Callable[[AskedLine], dict[str, str] | None],
        whole: Callable[[Row], Row] = lambda row: row,
    ) -> None:
        self._known, self._fleet = known, known.fleet
        self._why_apart, self._whole = why_apart, whole
        #: Check and end -> the rules on a row; check -> those on both rows.
        self._of_end: dict[tuple[str, str], list[Rule | Lookup]] = {}
        self._of_pair: dict[str, list[Rule | Lookup]] = {}
        #: Test -> its good pairs.
        self._good: dict[str, list[tuple[Row, Row]]] = {}
        #: Tests whose rows are known to be good.
        self.plain: Container[str] = ()

    def pair(self, asked: AskedLine, mine: Sequence[Row]) -> Pair | Answer:
        """Return the two rows of an attempt at a test when a verdict may rest on them, else what follows.

        Args:
            asked: the asked line.
            mine: the attempt's rows.
        """
        if len(mine) == 2 and asked["id"] in self.plain:
            both = mine if mine[0]["end"] == "client" else mine[::-1]
            return cast("PairRow", both[0]), cast("PairRow", both[1])
        # Sums, switches and both directions at once ask again of tests that were answered before.
        for client, server in self._good.get(str(asked["id"]), ()):
            if len(mine) == 2 and all(row is client or row is server for row in mine):
                return cast("PairRow", self._whole(client)), cast("PairRow", self._whole(server))
        whole = [self._whole(row) for row in mine]
        found = self._pair(asked, whole)
        if isinstance(found, tuple):
            good = mine if found[0] is whole[0] else mine[::-1]
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
            told = min(refused, key=_telling)
            # A node that met nobody says so; why its peer was not there is what helps.
            absent = peer if by_end["client"] else node
            echo = told.cause.get("cause_class") in _ECHOES and len(mine) == 1
            if told.cause.get("cause_class") == "rendezvous_timeout":
                told.cause = self._why_apart(asked) or told.cause
            return (self._fleet.explain_absence(absent) if echo else None) or told
        if not mine:
            held = self._fleet.explain_absence(node) or self._fleet.explain_absence(peer)
            return held or Answer.unmeasured("no_row", f"{node} and {peer}")
        if len(mine) == 1:
            silent = peer if by_end["client"] else node
            return self._fleet.explain_absence(silent) or Answer.unmeasured(
                "one_ended", f"{silent} is silent"
            )
        # Which has not been refused is what its type says.
        client, server = cast("PairRow", by_end["client"][0]), cast("PairRow", by_end["server"][0])
        ends = RowEnd(client, self._known, asked, node), RowEnd(server, self._known, asked, peer)
        return self._doubt(RowPair(*ends)) or (client, server)

    def unknown(self, asked: AskedLine) -> Answer | None:
        """Return the verdict of a test when nothing is known of one of its ends."""
        node, peer = nodes_of(asked)
        return self._fleet.unknown(node) or self._fleet.unknown(peer)

    def refused(self, row: Row, asked: AskedLine, host: str) -> Answer | None:
        """Return the verdict of a row that says itself that it measured nothing, or cannot be this test's."""
        try:
            if row.get("status") == "measured":
                return self._broken_by(RowEnd(reader.read(PairRow, row), self._known, asked, host))
            failed = failures.read(row)
        except RefusedError as refused:
            return Answer.unmeasured("row_garbled", f"{host}: {refused}")
        ends = str(asked["node"]), str(asked["peer"])
        answer = Answer(UNMEASURED, cause=causes.explain_error(failed["error"], host, *ends))
        # A probe that was sent and never came back is an answer about the path, not a missing one.
        ran = failed["status"] == "failed" and failed["error"]["class"] == "tool_failed"
        if ran and asked["check"] in PROBES and self.answers(row, asked):
            answer.outcome = FAIL
            answer.basis = "the probe has to arrive"
        return answer

    def _broken_by(self, end: RowEnd) -> Answer | None:
        """Return the verdict of a row that says `measured` and of which a rule does not hold."""
        key = end.check.name, end.row["end"]
        if (rules := self._of_end.get(key)) is None:
            rules = self._of_end[key] = of_end(end.check, end.row["end"])
        for cause, seen in broken(rules, end):
            return Answer.unmeasured(cause, f"{end.host}: {seen}")
        return None

    def answers(self, row: Row, asked: AskedLine) -> bool:
        """Tell whether a row without a measurement is this run's and this test's."""
        question: Mapping[str, object] = asked
        same = all(row.get(key) == question[key] for key in ("check", "node", "peer", "rail"))
        return same and row.get("run") == self._known.run

    def _doubt(self, pair: RowPair) -> Answer | None:
        """Return the verdict when the two rows contradict each other, their counters or their proof."""
        rows = pair.client.row, pair.server.row
        for cause, seen in NOTHING_LOST.problems(pair):
            # Of a path of a smaller MTU the counters hold what was tried as well.
            came = cause == "lost_packets" and readings.came_after_all(*rows)
            if came:
                return Answer.unmeasured("probes_missed", came)
            lost = causes.explain(cause, seen)
            return Answer(FAIL, readings.observed(*rows), basis="loss must be 0", cause=lost)
        name = pair.check.name
        if (rules := self._of_pair.get(name)) is None:
            rules = self._of_pair[name] = of_pair(pair.check)
        wrong = next(broken(rules, pair), None)
        return Answer.unmeasured(*wrong) if wrong else None


def _telling(answer: Answer) -> tuple[bool, bool]:
    """Order what two ends say of a test without a result: a finding first, an end that only echoes last."""
    return answer.outcome != FAIL, answer.cause.get("cause_class") in _ECHOES
