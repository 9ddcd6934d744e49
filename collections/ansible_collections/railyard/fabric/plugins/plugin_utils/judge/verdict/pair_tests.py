# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge tests between two nodes by the trusted rows of their attempts. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import GPU_MEMORY, WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds_cache, gpu_memory, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    PROBES,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import attempts as lasting
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    readings,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bounds_check
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import gpu_memory as gpu_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.trusted_rows import (
    Pair,
    TrustedRows,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row

Rows = Mapping[str, Sequence[Row]]


class PairTests:
    """Judges each test between two nodes.

    Args:
        plan: plan.json.
        rules: the merged policy.
        fleet: all nodes' facts.
        test: returns the planned test of an id, None if there is none.
        rows: id -> its rows.
        trust: decides which rows a verdict may rest on.
    """

    def __init__(
        self,
        plan: Plan,
        rules: Policy,
        fleet: BoundFacts,
        test: Callable[[str], AskedLine | None],
        rows: Rows,
        trust: TrustedRows,
    ) -> None:
        self.policy = rules
        self.confirm = int(rules["confirm"])
        self.fleet = fleet
        self.test = test
        self.rows = rows
        #: The planned tests between two nodes, without those of a sweep that clearly pass.
        self.lines: Sequence[AskedLine] = ()
        #: Id of a sum -> its values, if all of its parts clearly pass.
        self.sums: Mapping[str, Mapping[str, float]] = {}
        self.trust = trust
        self.cache = bounds_cache.BoundsCache(fleet.bound)
        #: Node -> rail -> its row of the plan.
        self.rails = {
            name: {rail["name"]: rail for rail in node["rails"]} for name, node in plan["nodes"].items()
        }
        self._gpus = {name: node.get("gpus") or {} for name, node in plan["nodes"].items()}

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, str], AskedLine]:
        """(check, node, peer, rail) -> the planned test; built only when it is needed."""
        return {(line["check"], *nodes_of(line), str(line["rail"])): line for line in self.lines}

    def answer(self, asked: AskedLine) -> Answer:
        """Judge a test by all its attempts."""
        check, way = asked["check"], nodes_of(asked)
        if left_out := gpu_rules.explain_omission(check, way, self._gpus):
            return left_out
        attempts = self.attempts(asked)
        if isinstance(attempts, Answer):
            return attempts
        answers = {number: self._attempt(asked, rows) for number, rows in attempts.items()}
        on_the_link = check in PROBES and lasting.has_link_errors(attempts.get(1, []))
        found = lasting.combine_attempts(check, answers, self.confirm, on_the_link)
        if check == GPU_MEMORY:
            of_host = self._proven_gbps("rdma_bandwidth", *way, str(asked["rail"]))
            found = gpu_rules.compare_with_host_memory(found, max(of_host, default=None))
        return lasting.add_tries(found, answers)

    def attempts(self, asked: AskedLine) -> dict[int, list[Row]] | Answer:
        """Return attempt -> its rows, always with the first attempt; or the answer if they are invalid."""
        rows = self.rows.get(str(asked["id"]), [])
        found = lasting.group_by_attempt(rows, self.confirm)
        if found is None:
            return Answer.unmeasured("row_garbled", f"{asked['id']}: invalid number of an attempt")
        return found or {1: []}

    def trusted_pairs(self, asked: AskedLine) -> list[Pair]:
        """Return the trusted pairs of rows of a test, one per attempt."""
        attempts = self.attempts(asked)
        every = [] if isinstance(attempts, Answer) else attempts.values()
        return [pair for rows in every if isinstance(pair := self.trust.pair(asked, rows), tuple)]

    def _attempt(self, asked: AskedLine, rows: Sequence[Row]) -> Answer:
        """Judge a test by the rows of one attempt."""
        check = CHECKS[str(asked["check"])]
        pair = self.trust.pair(asked, rows)
        if isinstance(pair, Answer):
            return pair
        own_windows = row_numbers.find_own_window_s(check.name, self.policy) is not None
        judged, bounds = bounds_check.list_checked_metrics(*pair, own_windows), self.bounds(asked)
        observed = readings.find_observed(*pair)
        if check.name == "rdma_bandwidth_bi":
            ways = row_numbers.calculate_each_direction(*pair, self.policy)
            observed |= ways
            judged = [{**metrics, **ways} for metrics in judged]
            bounds = self._both_ways(asked, bounds)
        answer = bounds_check.check_bounds(observed, judged, bounds)
        if asked["tool"] != "iperf3" or answer.outcome != UNMEASURED:
            return answer
        able = self.cache.capability(check.name, asked)
        return bounds_check.check_bounds_by_counters(
            answer, pair, judged, bounds, able.packet.payload_bytes / able.packet.counted_bytes
        )

    def _both_ways(self, asked: AskedLine, bounds: limits.Bounds) -> limits.Bounds:
        """Add thresholds to a bidirectional test by what each direction carries alone."""
        (node, peer), rail = nodes_of(asked), str(asked["rail"])
        ways = ((node, peer), (peer, node))
        alone = [self.alone_gbps("rdma_bandwidth", *way, rail) for way in ways]
        able = self.cache.capability("rdma_bandwidth", asked, self.fleet.transports[asked["node"]])
        if able.links > 1:
            # On a bond each direction may have used another port when it ran alone.
            alone = [None if gbps is None else min(gbps, able.nominal_gbps) for gbps in alone]
        return limits.add_each_direction(bounds, alone, hardware=not able.packet.software)

    def alone_gbps(self, check: str, node: str, peer: str, rail: str) -> float | None:
        """Return the highest proven bandwidth of a rail alone in a direction, or its floor."""
        line = self._by_place.get((check, node, peer, rail))
        if line is None or self.trust.unknown(line):
            return None
        seen = self._proven_gbps(check, node, peer, rail)
        if (least := self.bounds(line).floor.get("bandwidth_gbps")) is not None:
            seen.append(least)
        return max(seen, default=None)

    def _proven_gbps(self, check: str, node: str, peer: str, rail: str) -> list[float]:
        """Return the proven bandwidth of a rail alone in a direction, of each attempt."""
        line = self._by_place.get((check, node, peer, rail))
        pairs = [] if line is None or self.trust.unknown(line) else self.trusted_pairs(line)
        return [readings.find_observed(*pair)["bandwidth_gbps"] for pair in pairs]

    def explain_without_ip(self, asked: AskedLine) -> Answer | None:
        """Return the answer to a test that needs IP on a rail without an address in the inventory, or None.

        Only the plan counts: an address that is missing on a node never excuses a test. A sum over rails is
        not applicable as soon as one of its rails has no IP, because it would be a sum of fewer rails.
        """
        if CHECKS[str(asked["check"])].rdma:
            return None
        parts = [line for part in asked.get("parts") or () if (line := self.test(part))] or [asked]
        for part in parts:
            for node in nodes_of(part):
                addressed = self.is_addressed(node, str(part["rail"]))
                if self.fleet.transports.get(node) in WITHOUT_IP and not addressed:
                    rail = f"{part['rail']} of {node}"
                    basis = f"the inventory declares no subnet for {rail}, and this test needs IP"
                    return Answer.not_applicable(basis)
        return None

    def is_addressed(self, node: str, rail: str) -> bool:
        """Tell whether a rail has an address in the inventory, or is not in it."""
        planned = self.rails.get(node, {}).get(rail, {})
        return bool(not planned or planned.get("address") or planned.get("address6"))

    def ends(self, asked: AskedLine) -> tuple[Bound, Bound]:
        """Return a test's two ends: the planned rail, bound to the node's facts."""
        (node, peer), rail = nodes_of(asked), str(asked["rail"])
        return self.fleet.bound[node][rail], self.fleet.bound[peer][rail]

    def bounds(self, asked: AskedLine) -> limits.Bounds:
        """Return a test's thresholds."""
        conditions = self.conditions(asked, alone=asked.get("group") is None)
        return self.cache.for_test(asked, conditions)

    def conditions(self, asked: AskedLine, alone: bool = False) -> limits.Conditions:
        """Return the conditions of thresholds; `alone`: no other rail is measured at the same time."""
        both = nodes_of(asked)
        versions = tuple(self.fleet.iperf3.get(end) for end in both)
        of_gpu = asked["check"] == GPU_MEMORY
        gpu = gpu_memory.find_gpu_path(self.fleet, both, str(asked["rail"])) if of_gpu else None
        share = None if alone else self.share(asked)
        return limits.Conditions(self.policy, versions, share, self.fleet.transports[asked["node"]], gpu)

    def share(self, asked: AskedLine) -> slots.Share | None:
        """Return the bandwidth of a test's rail while both nodes' other rails run, if that is less."""
        ends = (self.fleet.shares.get(node, {}) for node in nodes_of(asked))
        return slots.find_smaller_share([found for end in ends if (found := end.get(str(asked["rail"])))])
