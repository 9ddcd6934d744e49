# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of one row, and of both rows of a test, for the rules. Pure.

`columns/views` has the same attributes for the rows of a sweep. A missing number is NaN.
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
from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.rail_end import RailEnd
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import unlike

_SAME_AS_PLANNED = ("check", "tool", "node", "peer", "rail", "direction")
_NO_SPAN = (math.nan, math.nan)


class RunContext(NamedTuple):
    """What is known about a run before its rows are checked.

    Attributes:
        run: the run id.
        policy: the merged policy.
        fleet: all nodes' facts.
        ends: node -> rail -> its end.
        words: node -> names of its rails that may occur in a tool's command line.
        clock: when rows may have been written.
        claims: the counters of all rows.
    """

    run: str
    policy: Policy
    fleet: BoundFacts
    ends: Mapping[str, Mapping[str, RailEnd]]
    words: Mapping[str, set[str]]
    clock: Clock
    claims: row_counters.Claims

    @classmethod
    def build(
        cls, run: str, policy: Policy, fleet: BoundFacts, clock: Clock, claims: row_counters.Claims
    ) -> RunContext:
        """Build the context, with the rails' ends from the facts."""
        ends = {
            node: {rail: RailEnd(end, fleet.transports[node]) for rail, end in rails.items()}
            for node, rails in fleet.bound.items()
        }
        words = {
            node: set[str]().union(*(end.words for end in rails.values())) for node, rails in ends.items()
        }
        return cls(run, policy, fleet, ends, words, clock, claims)


class RowNumbers:
    """The numbers of a `measured` row, of a test between two nodes or of a node by itself.

    Attributes:
        row: the validated row.
        policy: the merged policy.
        check: the test.
        metrics: its metrics that are not null.
        window_s: begin and end of the measurement, None if there is none.
    """

    def __init__(self, row: PairRow | NodeRow, policy: Policy, check: Check) -> None:
        self.row: Any = row
        self.policy, self.check = policy, check
        self.metrics = row_numbers.read_metrics(row)
        self.window_s = row_numbers.read_window_s(row)

    @property
    def has_no_window(self) -> bool:
        """Whether it has no window."""
        return self.window_s is None

    def has_window(self, needed: bool) -> bool:
        """Tell whether its window is valid; unless a window is needed, it may have none."""
        return self.window_s is not None or not (needed or self.row["window_s"] is not None)

    @property
    def lasted_s(self) -> float:
        """Length of its window."""
        begin, end = self.window_s or _NO_SPAN
        return end - begin

    def states(self, name: str) -> bool:
        """Tell whether it has a metric."""
        return name in self.metrics

    def metric(self, name: str) -> float:
        """Return a metric."""
        return self.metrics.get(name, math.nan)

    @property
    def iterations(self) -> float:
        """Number of messages that it counted."""
        return self.row.get("iterations") or math.nan


class RowEnd(RowNumbers):
    """The row of one end of a test between two nodes.

    Attributes:
        known: what is known about the run.
        asked: the planned test.
        host: the host that should have written it.
        rail_end: its end of the rail.
    """

    row: PairRow

    def __init__(self, row: PairRow, known: RunContext, asked: AskedLine, host: str) -> None:
        super().__init__(row, known.policy, CHECKS[str(asked["check"])])
        self.known, self.asked, self.host = known, asked, host
        self.rail_end = known.ends[host][str(asked["rail"])]

    def find_mismatch(self) -> str | None:
        """Return why it is not the planned test's row of this end, or None."""
        asked, host = self.asked, self.host
        planned: Mapping[str, object] = asked
        wanted = {"schema": 1, "run": self.known.run, **{key: planned[key] for key in _SAME_AS_PLANNED}}
        wanted |= {"host": host, "address": self.rail_end.address}
        wanted |= {"round": asked.get("round"), "group": asked.get("group")}
        row: Mapping[str, object] = self.row
        key = unlike(row, wanted)
        return f"{key} is {row.get(key)!r}, planned was {wanted[key]!r}" if key else None

    @property
    def is_planned(self) -> bool:
        """Whether it is the planned test's row of this end."""
        return self.find_mismatch() is None

    @property
    def is_in_time(self) -> bool:
        """Whether it was written during the run."""
        return self.known.clock.explain_outside(self.host, self.row) is None

    def find_wrong_command(self) -> str | None:
        """Return why its command lines are not those of a test on this rail, or None."""
        asked, ends = self.asked, self.known.ends
        peer, rail = str(asked["peer"] if self.host == asked["node"] else asked["node"]), str(asked["rail"])
        mine, its = self.rail_end.words, ends[peer][rail].words
        foreign = self.known.words[self.host] - mine - its
        problems = (
            row_numbers.find_wrong_command(argv, self.row["tool"], mine | its, foreign)
            or row_numbers.find_wrong_class(argv, asked["check"], self.policy)
            for argv in self.row.get("argv", [])
        )
        return next((problem for problem in problems if problem), None)

    @property
    def has_right_command(self) -> bool:
        """Whether its command lines name this rail, and the planned class."""
        return self.find_wrong_command() is None

    @functools.cached_property
    def driver(self) -> Traffic | None:
        """The counters that show its traffic; None if they are not those of one driver."""
        return rdma_counters.form_of(self.row["counters"] or {}) if self.check.rdma else NETDEV

    @property
    def has_netdev(self) -> bool:
        """Whether the netdev's counters are required too."""
        return not self.check.rdma or self.row["netdev"] is not None

    @property
    def counted(self) -> tuple[str, ...]:
        """Names of the counters that it must have."""
        return row_counters.list_required_counters(self.driver or NETDEV, self.has_netdev)

    def span(self, counter: str) -> tuple[float, float]:
        """Return a counter's values before and after."""
        before, after = (self.row["counters"] or {}).get(counter, (None, None))
        return _NO_SPAN if before is None or after is None else (before, after)

    def grown(self, counter: str) -> float:
        """Return the increase of a counter, in its unit."""
        before, after = self.span(counter)
        return after - before

    def acknowledges(self, counter: str) -> bool:
        """Tell whether a counter must grow in any test, because it counts acknowledgements."""
        if counter not in (self.row["counters"] or {}):
            return False
        driver = nic_drivers.find((self.rail_end.bound.hca or {}).get("driver"))
        return driver is None or driver.traffic is None or driver.traffic.count_acknowledgements

    @property
    def overlap(self) -> str | None:
        """How its counters overlap with another test's, or None."""
        return self.known.claims.find_overlap(self.row)

    @property
    def is_counted_once(self) -> bool:
        """Whether its counters overlap with no other test's."""
        return self.overlap is None


class RowPair:
    """Both rows of a test.

    Attributes:
        client: the client's row.
        server: the server's row.
        policy: the merged policy.
        check: the test.
    """

    def __init__(self, client: RowEnd, server: RowEnd) -> None:
        self.client, self.server, self.policy, self.check = client, server, client.policy, client.check

    def each(self) -> tuple[tuple[RowEnd, RowEnd], tuple[RowEnd, RowEnd]]:
        """Return each end together with the other one."""
        return (self.client, self.server), (self.server, self.client)

    def find_exchange_problem(self) -> tuple[str, str] | None:
        """Return why an end did not receive what the other end recorded, or None.

        Both ends exchange their results over the rail under test, authenticated with the run's secret. Two
        rows that only look like a pair did not have that exchange.
        """
        for end, other in self.each():
            row, its = end.row, other.row
            boot_id, received = end.known.fleet.boot_ids.get(its["host"]), row["other_end"]
            if not boot_id:
                return "facts_garbled", f"{its['host']}: boot_id is {boot_id!r}"
            if received is None:
                return "ends_disagree", f"{row['host']} received no result from {its['host']} over the rail"
            if packed_rows.boot_id_of(received, boot_id) != boot_id:
                return "node_rebooted", its["host"]
            for key in packed_rows.unlike(received, its):
                return "ends_disagree", f"{its['host']} sent {row['host']} another {key} than it recorded"
        return None

    @property
    def is_exchange_intact(self) -> bool:
        """Whether each end received what the other end recorded."""
        return self.find_exchange_problem() is None

    def read_both(self, key: str) -> tuple[object, object]:
        """Return both ends' values of a key."""
        client: Mapping[str, object] = self.client.row
        server: Mapping[str, object] = self.server.row
        return client.get(key), server.get(key)

    def is_equal(self, key: str) -> bool:
        """Tell whether both ends have the same value of a key."""
        client, server = self.read_both(key)
        return client == server

    @property
    def is_version_known(self) -> bool:
        """Whether the client reports its tool's version."""
        return self.client.row["tool_version"] is not None

    def find_contradiction(self, end: RowEnd) -> str | None:
        """Return how an end's counters contradict the client's results, or None."""
        return row_counters.find_contradiction(end.row, self.client.row, self.policy, end.driver or NETDEV)

    def is_confirmed(self, end: RowEnd) -> bool:
        """Tell whether an end's counters confirm the client's results, and do not show far more."""
        return self.find_contradiction(end) is None
