# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test that two nodes make together: answered by the trusted rows of its attempts. Pure."""

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


class Between:
    """Answers each test between two nodes.

    Args:
        plan: plan.json.
        rules: the merged policy.
        fleet: all nodes' facts.
        test: returns the asked line of an id, None where there is none.
        rows: id -> its rows.
        trust: says which rows a verdict may rest on.
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
        #: The tests between two nodes, but for those of a sweep that plainly pass.
        self.lines: Sequence[AskedLine] = ()
        self.trust = trust
        self.alike = bounds_cache.BoundsCache(fleet.bound)
        #: Node -> rail -> its row of the plan.
        self.rails = {
            name: {rail["name"]: rail for rail in node["rails"]} for name, node in plan["nodes"].items()
        }
        self._gpus = {name: node.get("gpus") or {} for name, node in plan["nodes"].items()}

    @cached_property
    def _by_place(self) -> dict[tuple[str, str, str, str], AskedLine]:
        """Check, node, peer and rail -> the asked line; of a sweep nobody may need it."""
        return {(line["check"], *nodes_of(line), str(line["rail"])): line for line in self.lines}

    def answer(self, asked: AskedLine) -> Answer:
        """Answer a test by what its attempts mean together."""
        check, way = asked["check"], nodes_of(asked)
        if left_out := gpu_rules.left_out(check, way, self._gpus):
            return left_out
        attempts = self.attempts(asked)
        if isinstance(attempts, Answer):
            return attempts
        answers = {number: self._attempt(asked, rows) for number, rows in attempts.items()}
        on_the_link = check in PROBES and lasting.grew_on_the_link(attempts.get(1, []))
        found = lasting.combine(check, answers, self.confirm, on_the_link)
        if check == GPU_MEMORY:
            of_host = self._proven_gbps("rdma_bandwidth", *way, str(asked["rail"]))
            found = gpu_rules.beside(found, max(of_host, default=None))
        return lasting.with_tries(found, answers)

    def attempts(self, asked: AskedLine) -> dict[int, list[Row]] | Answer:
        """Return the rows of each attempt at a test, the first always; or what is wrong with them."""
        rows = self.rows.get(str(asked["id"]), [])
        found = lasting.by_attempt(rows, self.confirm)
        if found is None:
            return Answer.unmeasured("row_garbled", f"{asked['id']}: attempts that there cannot be")
        return found or {1: []}

    def trusted_pairs(self, asked: AskedLine) -> list[Pair]:
        """Return the two rows of each attempt at a test on which a verdict may rest."""
        attempts = self.attempts(asked)
        every = [] if isinstance(attempts, Answer) else attempts.values()
        return [pair for rows in every if isinstance(pair := self.trust.pair(asked, rows), tuple)]

    def _attempt(self, asked: AskedLine, rows: Sequence[Row]) -> Answer:
        """Answer a test by the rows of one attempt at it."""
        check = CHECKS[str(asked["check"])]
        pair = self.trust.pair(asked, rows)
        if isinstance(pair, Answer):
            return pair
        own_windows = row_numbers.own_window_s(check.name, self.policy) is not None
        judged, bounds = bounds_check.judged(*pair, own_windows), self.bounds(asked)
        observed = readings.observed(*pair)
        if check.name == "rdma_bandwidth_bi":
            ways = row_numbers.each_way_gbps(*pair, self.policy)
            observed |= ways
            judged = [{**metrics, **ways} for metrics in judged]
            bounds = self._both_ways(asked, bounds)
        answer = bounds_check.weigh(observed, judged, bounds)
        if asked["tool"] != "iperf3" or answer.outcome != UNMEASURED:
            return answer
        able = self.alike.capability(check.name, asked)
        return bounds_check.by_counters(
            answer, pair, judged, bounds, able.packet.payload_bytes / able.packet.counted_bytes
        )

    def _both_ways(self, asked: AskedLine, bounds: limits.Bounds) -> limits.Bounds:
        """Hold both directions at once against what each of them carries alone."""
        (node, peer), rail = nodes_of(asked), str(asked["rail"])
        ways = ((node, peer), (peer, node))
        alone = [self.alone_gbps("rdma_bandwidth", *way, rail) for way in ways]
        able = self.alike.capability("rdma_bandwidth", asked, self.fleet.transports[asked["node"]])
        if able.links > 1:
            # On a bond each direction may have used other ports when it ran alone.
            alone = [None if gbps is None else min(gbps, able.nominal_gbps) for gbps in alone]
        return limits.add_each_direction(bounds, alone, hardware=not able.packet.software)

    def alone_gbps(self, check: str, node: str, peer: str, rail: str) -> float | None:
        """Return the most that a rail was proven to carry alone in a direction, or has to."""
        line = self._by_place.get((check, node, peer, rail))
        if line is None or self.trust.unknown(line):
            return None
        seen = self._proven_gbps(check, node, peer, rail)
        if (least := self.bounds(line).floor.get("bandwidth_gbps")) is not None:
            seen.append(least)
        return max(seen, default=None)

    def _proven_gbps(self, check: str, node: str, peer: str, rail: str) -> list[float]:
        """Return what a rail was proven to carry alone in a direction, of each attempt."""
        line = self._by_place.get((check, node, peer, rail))
        pairs = [] if line is None or self.trust.unknown(line) else self.trusted_pairs(line)
        return [readings.observed(*pair)["bandwidth_gbps"] for pair in pairs]

    def without_ip(self, asked: AskedLine) -> Answer | None:
        """Return the answer to a test that needs IP on a rail to which the inventory gives none.

        Only the plan is looked at: that an address was not found on a node never excuses a test. A sum over
        rails is not applicable as soon as one of its rails has no IP: it would be the sum of fewer rails than
        its name says.
        """
        if CHECKS[str(asked["check"])].rdma:
            return None
        parts = [line for part in asked.get("parts") or () if (line := self.test(part))] or [asked]
        for part in parts:
            for node in nodes_of(part):
                addressed = self.is_addressed(node, str(part["rail"]))
                if self.fleet.transports.get(node) in WITHOUT_IP and not addressed:
                    of = f"{part['rail']} of {node}"
                    basis = f"the inventory declares no subnet for {of}: this test needs IP on it"
                    return Answer.not_applicable(basis)
        return None

    def is_addressed(self, node: str, rail: str) -> bool:
        """Tell whether the inventory gives a rail an address, or does not have it."""
        planned = self.rails.get(node, {}).get(rail, {})
        return bool(not planned or planned.get("address") or planned.get("address6"))

    def ends(self, asked: AskedLine) -> tuple[Bound, Bound]:
        """Return a test's two ends: the rail as planned and as the node's facts show it."""
        (node, peer), rail = nodes_of(asked), str(asked["rail"])
        return self.fleet.bound[node][rail], self.fleet.bound[peer][rail]

    def bounds(self, asked: AskedLine) -> limits.Bounds:
        """Return what a test's numbers are held against."""
        conditions = self.conditions(asked, alone=asked.get("group") is None)
        return self.alike.for_test(asked, conditions)

    def conditions(self, asked: AskedLine, alone: bool = False) -> limits.Conditions:
        """Return what bounds rest on beside the ends; `alone`: no other rail is measured at the same time."""
        both = nodes_of(asked)
        versions = tuple(self.fleet.iperf3.get(end) for end in both)
        of_gpu = asked["check"] == GPU_MEMORY
        gpu = gpu_memory.find_gpu_path(self.fleet, both, str(asked["rail"])) if of_gpu else None
        share = None if alone else self.share(asked)
        return limits.Conditions(self.policy, versions, share, self.fleet.transports[asked["node"]], gpu)

    def share(self, asked: AskedLine) -> slots.Share | None:
        """Return what a test's rail is left with while both nodes' other rails run, where that is less."""
        ends = (self.fleet.shares.get(node, {}) for node in nodes_of(asked))
        return slots.find_smaller_share([found for end in ends if (found := end.get(str(asked["rail"])))])
