# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One row, and both rows of a test, as the rules see them. Pure.

`columns/views` has the same attributes for the rows of a sweep. A number that a row does not have is NaN.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers, rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV, Traffic
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import NodeRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.rail_end import RailEnd
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import unlike

_SAME_AS_ASKED = ("check", "tool", "node", "peer", "rail", "direction")
_NO_SPAN = (math.nan, math.nan)


class Known(NamedTuple):
    """What is known of a run before its rows are looked at.

    Attributes:
        run: the run id.
        policy: the merged one.
        fleet: all nodes' facts.
        ends: node -> rail -> its end.
        words: node -> by which words a tool is told of any of its rails.
        clock: when rows can have been written.
        claims: whose bytes the counters of all rows are.
    """

    run: str
    policy: Policy
    fleet: BoundFacts
    ends: Mapping[str, Mapping[str, RailEnd]]
    words: Mapping[str, set[str]]
    clock: Clock
    claims: row_counters.Claims

    @classmethod
    def of(
        cls, run: str, policy: Policy, fleet: BoundFacts, clock: Clock, claims: row_counters.Claims
    ) -> Known:
        """Return it, the ends found in the facts."""
        ends = {
            node: {rail: RailEnd(end, fleet.transports[node]) for rail, end in rails.items()}
            for node, rails in fleet.bound.items()
        }
        words = {
            node: set[str]().union(*(end.words for end in rails.values())) for node, rails in ends.items()
        }
        return cls(run, policy, fleet, ends, words, clock, claims)


class RowNumbers:
    """The numbers of a row that says `measured`, of a test between two nodes or of a node by itself.

    Attributes:
        row: the row, which is what its type says.
        policy: the merged policy.
        check: the test.
        metrics: those that it states.
        window_s: begin and end of what was measured, None where there is none.
    """

    def __init__(self, row: PairRow | NodeRow, policy: Policy, check: Check) -> None:
        self.row: Any = row
        self.policy, self.check = policy, check
        self.metrics = row_numbers.numbers_of(row)
        self.window_s = row_numbers.window_s(row)

    @property
    def windowless(self) -> bool:
        """Whether it has no window."""
        return self.window_s is None

    def has_window(self, needed: bool) -> bool:
        """Tell whether its window is an interval; unless it is needed, it may have none."""
        return self.window_s is not None or not (needed or self.row["window_s"] is not None)

    @property
    def lasted_s(self) -> float:
        """How long its window is."""
        begin, end = self.window_s or _NO_SPAN
        return end - begin

    def states(self, name: str) -> bool:
        """Tell whether it states a metric."""
        return name in self.metrics

    def metric(self, name: str) -> float:
        """Return a metric."""
        return self.metrics.get(name, math.nan)

    @property
    def iterations(self) -> float:
        """How many messages it counted."""
        return self.row.get("iterations") or math.nan


class RowEnd(RowNumbers):
    """What one end of a test between two nodes wrote.

    Attributes:
        known: what is known of the run.
        asked: the asked line.
        host: who should have written it.
        rail_end: its end of the rail.
    """

    row: PairRow

    def __init__(self, row: PairRow, known: Known, asked: AskedLine, host: str) -> None:
        super().__init__(row, known.policy, CHECKS[str(asked["check"])])
        self.known, self.asked, self.host = known, asked, host
        self.rail_end = known.ends[host][str(asked["rail"])]

    def unlike_asked(self) -> str | None:
        """Return in what it is not the asked test's row of this end, or None."""
        asked, host = self.asked, self.host
        question: Mapping[str, object] = asked
        wanted = {"schema": 1, "run": self.known.run, **{key: question[key] for key in _SAME_AS_ASKED}}
        wanted |= {"host": host, "address": self.rail_end.address}
        wanted |= {"round": asked.get("round"), "group": asked.get("group")}
        said: Mapping[str, object] = self.row
        key = unlike(said, wanted)
        return f"{key} is {said.get(key)!r}, asked was {wanted[key]!r}" if key else None

    @property
    def is_asked(self) -> bool:
        """Whether it is the asked test's row of this end."""
        return self.unlike_asked() is None

    @property
    def in_time(self) -> bool:
        """Whether it was written while the run was made."""
        return self.known.clock.outside(self.host, self.row) is None

    def told_otherwise(self) -> str | None:
        """Return in what its command lines are not those of a test on this rail, or None."""
        asked, ends = self.asked, self.known.ends
        peer, rail = str(asked["peer"] if self.host == asked["node"] else asked["node"]), str(asked["rail"])
        mine, its = self.rail_end.words, ends[peer][rail].words
        strange = self.known.words[self.host] - mine - its
        problems = (
            row_numbers.other_command(argv, self.row["tool"], mine | its, strange)
            or row_numbers.other_class(argv, asked["check"], self.policy)
            for argv in self.row.get("argv", [])
        )
        return next((problem for problem in problems if problem), None)

    @property
    def told_this_rail(self) -> bool:
        """Whether its tool was told this rail, and what else was planned."""
        return self.told_otherwise() is None

    @functools.cached_property
    def driver(self) -> Traffic | None:
        """In which counters its traffic shows; None where they are those of no driver."""
        return rdma_counters.form_of(self.row["counters"] or {}) if self.check.rdma else NETDEV

    @property
    def has_netdev(self) -> bool:
        """Whether the netdev's own counters are asked too."""
        return not self.check.rdma or self.row["netdev"] is not None

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the counters that it must bring."""
        return row_counters.counted(self.driver or NETDEV, self.has_netdev)

    def span(self, counter: str) -> tuple[float, float]:
        """Return where a counter began and ended."""
        before, after = (self.row["counters"] or {}).get(counter, (None, None))
        return _NO_SPAN if before is None or after is None else (before, after)

    def grown(self, counter: str) -> float:
        """Return by what a counter grew, in its own unit."""
        before, after = self.span(counter)
        return after - before

    def acknowledges(self, counter: str) -> bool:
        """Tell whether a counter has to grow whatever is sent, since that is acknowledged."""
        if counter not in (self.row["counters"] or {}):
            return False
        driver = nic_drivers.find((self.rail_end.bound.hca or {}).get("driver"))
        return driver is None or driver.traffic is None or driver.traffic.count_acknowledgements

    @property
    def twice(self) -> str | None:
        """In what its counters are another test's too, or None."""
        return self.known.claims.shared_by(self.row)

    @property
    def counted_once(self) -> bool:
        """Whether its counters are no other test's."""
        return self.twice is None


class RowPair:
    """Both rows of a test.

    Attributes:
        client: what the client wrote.
        server: what the server wrote.
        policy: the merged policy.
        check: the test.
    """

    def __init__(self, client: RowEnd, server: RowEnd) -> None:
        self.client, self.server, self.policy, self.check = client, server, client.policy, client.check

    def each(self) -> tuple[tuple[RowEnd, RowEnd], tuple[RowEnd, RowEnd]]:
        """Return each end, and the other one beside it."""
        return (self.client, self.server), (self.server, self.client)

    def told_otherwise(self) -> tuple[str, str] | None:
        """Return in what an end did not hear from the other one what that one wrote, or None.

        Both ends tell each other what they found, on the rail under test and sealed with the run's secret.
        Two rows that only look like a pair did not have that conversation.
        """
        for end, other in self.each():
            row, its = end.row, other.row
            boot_id, said = end.known.fleet.boot_ids.get(its["host"]), row["other_end"]
            if not boot_id:
                return "facts_garbled", f"{its['host']}: boot_id is {boot_id!r}"
            if said is None:
                heard = f"{row['host']} did not hear from {its['host']} over the rail what it found"
                return "ends_disagree", heard
            if short_rows.boot_id_of(said, boot_id) != boot_id:
                return "node_rebooted", its["host"]
            for key in short_rows.unlike(said, its):
                told = f"{its['host']} told {row['host']} of another {key} than it wrote down"
                return "ends_disagree", told
        return None

    @property
    def told_alike(self) -> bool:
        """Whether each end heard from the other one what that one wrote."""
        return self.told_otherwise() is None

    def said(self, key: str) -> tuple[object, object]:
        """Return what both ends say of a key."""
        mine: Mapping[str, object] = self.client.row
        theirs: Mapping[str, object] = self.server.row
        return mine.get(key), theirs.get(key)

    def alike(self, key: str) -> bool:
        """Tell whether both ends say the same of a key."""
        mine, theirs = self.said(key)
        return mine == theirs

    @property
    def version_known(self) -> bool:
        """Whether the client says which version its tool is."""
        return self.client.row["tool_version"] is not None

    def crossed_otherwise(self, end: RowEnd) -> str | None:
        """Tell in what an end's counters contradict the client's numbers, or None."""
        return row_counters.crossed_otherwise(end.row, self.client.row, self.policy, end.driver or NETDEV)

    def crossed(self, end: RowEnd) -> bool:
        """Tell whether an end's counters show what the client's numbers say, and not far more."""
        return self.crossed_otherwise(end) is None
