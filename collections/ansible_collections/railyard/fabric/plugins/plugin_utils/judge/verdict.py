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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    AGGREGATES,
    CHECKS,
    PASS,
    PROBES,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import (
    aggregate,
    alike,
    baseline,
    bmc,
    bounds_check,
    cabling,
    clock,
    collectives,
    drives,
    evidence,
    gpus,
    hops,
    light_rows,
    link_errors,
    node_rows,
    rdma_facts,
    row_counters,
    row_numbers,
    run_status,
    slots,
    slow_rails,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import attempts as lasting
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import facts as fact_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import fleet as fleet_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.columns import plain
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.columns.ends import Known
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import documents
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Saved
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import CONFIRM_ARCHIVES

Rows = dict[str, list[Mapping[str, Any]]]


class JudgeError(ValueError):
    """There is nothing to judge, or the plan and the asked lines contradict each other."""


def judge(
    manifest: Mapping[str, Any],
    plan: Mapping[str, Any],
    asked: Sequence[Mapping[str, Any]],
    facts: Iterable[Mapping[str, Any]],
    results: Iterable[Mapping[str, Any]],
    obstacles: Iterable[Mapping[str, Any]] = (),
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
    found, rows = _judged(manifest, plan, asked, facts, results, obstacles, answered, saved)
    return [answer.line(line, rows) for line, answer in zip(asked, found, strict=True)]


def answers(
    manifest: Mapping[str, Any],
    plan: Mapping[str, Any],
    asked: Sequence[Mapping[str, Any]],
    facts: Iterable[Mapping[str, Any]],
    results: Iterable[Mapping[str, Any]],
    obstacles: Iterable[Mapping[str, Any]],
    answered: Iterable[str],
    saved: Saved | None,
) -> list[Answer]:
    """Return what `judge` makes verdicts of; arguments and errors are the same."""
    return _judged(manifest, plan, asked, facts, results, obstacles, answered, saved)[0]


def _judged(
    manifest: Mapping[str, Any],
    plan: Mapping[str, Any],
    asked: Sequence[Mapping[str, Any]],
    facts: Iterable[Mapping[str, Any]],
    results: Iterable[Mapping[str, Any]],
    obstacles: Iterable[Mapping[str, Any]],
    answered: Iterable[str],
    saved: Saved | None,
) -> tuple[list[Answer], Rows]:
    problem = documents.problem(manifest, plan, asked)
    if problem:
        raise JudgeError(problem)
    run = str(manifest["run"])
    fleet = fact_rows.gather(plan, facts, run)
    fleet.obstacles = _obstacles(obstacles, run)
    fleet.lost = frozenset(answered) - fleet.bound.keys() - fleet.broken.keys()
    tests = {str(line["id"]): line for line in asked}
    rows = _by_id(results, tests)
    times = clock.Clock(manifest, fleet.collected)
    rules = policy.merge(manifest.get("policy"))
    court = _Judge(run, plan, rules, fleet, tests, rows, times, light_rows.whole_of(results))
    court.lost = _rows_lost(manifest, rows)
    said = {place: court.answer(asked[place]) for place in light_rows.in_turn(asked)}
    found = [said[place] for place in range(len(asked))]
    for line, answer in zip(asked, found, strict=True):
        answer.like = court.like(line) if answer.tries else {}
    # A sum's parts stand for it.
    parts = ((one, line) for one, line in zip(found, asked, strict=True) if line["rail"])
    fleet_rules.settle(((one, court.lost_of(line)) for one, line in parts), court.confirm)
    if saved is not None:
        baseline.settle(asked, found, saved, rules)
    alone = {} if rules["allow_busy"] else plan["nodes"]
    hardware = {name for name, node in alone.items() if node.get("node_class") == "hardware"}
    drives.settle(asked, found, rows, hardware)
    lasting.unsteady(asked, found)
    slow_rails.name(asked, found, fleet)
    collectives.compare(asked, found)
    return found, rows


class _Judge:
    """What all verdicts of a run share."""

    def __init__(
        self,
        run: str,
        plan: Mapping[str, Any],
        rules: dict[str, Any],
        fleet: BoundFacts,
        tests: Mapping[str, Mapping[str, Any]],
        rows: Rows,
        times: clock.Clock,
        whole: Callable[[evidence.Row], evidence.Row],
    ) -> None:
        self.run = run
        self.policy = rules
        self.confirm = int(rules["confirm"])
        self.lost: dict[str, str] = {}
        self.fleet = fleet
        self.tests = tests
        self.rows = rows
        self._latencies: dict[str, list[hops.Sample]] | None = None
        self.chart = cabling.CablingMap(run, plan, fleet, times)
        self.chart.read(tests.values(), rows)
        between = [line for line in tests.values() if CHECKS[str(line["check"])].source == "test"]
        counted = row_counters.Claims(run, between, rows)
        self.trust = evidence.Evidence(run, rules, fleet, self.chart, counted, times, whole)
        self._times = times
        self._alike = alike.Alike(fleet.bound)
        self._bmcs = {name: str(node.get("bmc_address")) for name, node in plan["nodes"].items()}
        self._gpus = {name: node.get("gpus") or {} for name, node in plan["nodes"].items()}
        self._usual_gpus = gpus.usual(plan, fleet)
        self._no_bmc_answers = bmc.nobody(tests.values(), rows)
        self._share_a_slot = {
            name for name, rails in fleet.bound.items() if limits.slots_shared(list(rails.values()))
        }
        self._units = {name: node.get("scalable_unit") for name, node in plan["nodes"].items()}
        self._contested = self._claimed_by_others()
        self._tests_of: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        self._rails = {
            name: {rail["name"]: rail for rail in node["rails"]} for name, node in plan["nodes"].items()
        }
        self._between = {(line["check"], line["node"], line["peer"], line["rail"]): line for line in between}
        for line in between:
            if not self._without_ip(line):
                for end in (line["node"], line["peer"]):
                    self._tests_of.setdefault((str(end), str(line["rail"])), []).append(line)
        self._plain = self.trust.plain = plain.find(
            {str(line["id"]): line for line in between}, rows, self._rules_of_columns(counted)
        )

    def answer(self, asked: Mapping[str, Any]) -> Answer:
        check = CHECKS[str(asked["check"])]
        if check.local:
            return self._local(asked)
        if asked["id"] in self._plain:
            return self._plain.answer(str(asked["id"]))
        if left_out := self._without_ip(asked):
            return left_out
        if check.source == "sum":
            return self.trust.unknown(asked) or self._aggregate(asked)
        attempts = self._attempts(asked)
        if isinstance(attempts, Answer):
            return attempts
        answers = {number: self._attempt(asked, rows) for number, rows in attempts.items()}
        on_the_link = check.name in PROBES and lasting.grew_on_the_link(attempts.get(1, []))
        found = lasting.combine(check.name, answers, self.confirm, on_the_link)
        return _with_tries(found, answers)

    def _rules_of_columns(self, counted: row_counters.Claims) -> plain.Rules:
        """Return what of these rules `plain` asks."""
        fleet, ends = self.fleet, self.trust.ends
        addressed = {
            (node, rail): fleet.transports[node] != "infiniband" or self._is_addressed(node, rail)
            for node, rails in ends.items()
            for rail in rails
        }
        known = Known(
            self.policy,
            ends,
            self.trust.all_words,
            fleet.boot_ids,
            self._times,
            {name: number for number, name in enumerate(ends)},
            addressed,
            {},
        )

        def like(node: str, rail: str) -> tuple[object, ...]:
            of_node = fleet.iperf3.get(node), node in self._share_a_slot, fleet.transports[node]
            return self._alike.kind_of(node, rail), *of_node

        return plain.Rules(known, self.trust.refused, counted.shared, self._bounds, functools.cache(like))

    def _is_addressed(self, node: str, rail: str) -> bool:
        """Tell whether the inventory gives a rail an address, or does not have it."""
        planned = self._rails.get(node, {}).get(rail, {})
        return bool(not planned or planned.get("address") or planned.get("address6"))

    def lost_of(self, asked: Mapping[str, Any]) -> str:
        """Return which rows of a test's nodes are not there any more, or nothing."""
        return next((self.lost[asked[end]] for end in ("node", "peer") if asked[end] in self.lost), "")

    def like(self, asked: Mapping[str, Any]) -> dict[str, str]:
        """Return what makes a test like another; of a sum what its parts have."""
        if parts := asked.get("parts"):
            each = [self.like(self.tests[part]) for part in parts]
            said = {key: ", ".join(sorted({one[key] for one in each})) for key in each[0]}
            return {**said, "check": str(asked["check"])}
        ends, check = self._ends(asked), str(asked["check"])
        rdma, client = CHECKS[check].rdma, ends[0]
        classes = [str(((end.hca if rdma else end.netdev) or {}).get("driver_class")) for end in ends]
        rate_gbps = self._alike.capability(check, asked).rate_gbps
        mtu_bytes = client.rail.get("mtu") or (client.netdev or {}).get("mtu_bytes")
        active_mtu_bytes = (client.hca or {}).get("active_mtu_bytes") if rdma else None
        mtus = mtu_bytes, active_mtu_bytes
        measured = row_numbers.as_asked(check, True, self.policy)
        way: object = hops.planned(ends)
        if way is None and self._units[asked["node"]] != self._units[asked["peer"]]:
            way = "between units"  # over the spine, by however many switches
        return fleet_rules.like_of(asked, measured, mtus, rate_gbps, classes, way)

    def _attempts(self, asked: Mapping[str, Any]) -> dict[int, list[Mapping[str, Any]]] | Answer:
        """Return the rows of each attempt at a test, the first always; or what is wrong with them."""
        rows = self.rows.get(str(asked["id"]), [])
        found = lasting.by_attempt(rows, self.confirm)
        if found is None:
            return Answer.unmeasured("row_garbled", f"{asked['id']}: attempts that there cannot be")
        return found or {1: []}

    def _attempt(self, asked: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Answer:
        """Answer a test by the rows of one attempt at it."""
        check = CHECKS[str(asked["check"])]
        pair = self.trust.pair(asked, rows)
        if isinstance(pair, Answer):
            return pair
        own_windows = row_numbers.own_window_s(check.name, self.policy) is not None
        judged, bounds = bounds_check.judged(*pair, own_windows), self._bounds(asked)
        observed = bounds_check.observed(*pair)
        if check.name == "rdma_bandwidth_bi":
            ways = row_numbers.each_way_gbps(*pair, self.policy)
            observed |= ways
            judged = [{**metrics, **ways} for metrics in judged]
            bounds = self._both_ways(asked, bounds)
        answer = bounds_check.weigh(observed, judged, bounds)
        if asked["tool"] != "iperf3" or answer.outcome != UNMEASURED:
            return answer
        able = self._alike.capability(check.name, asked)
        return bounds_check.by_counters(
            answer, pair, judged, bounds, able.packet.payload_bytes / able.packet.counted_bytes
        )

    def _both_ways(self, asked: Mapping[str, Any], bounds: limits.Bounds) -> limits.Bounds:
        """Hold both directions at once against what each of them carries alone."""
        ways = ((asked["node"], asked["peer"]), (asked["peer"], asked["node"]))
        alone = [self._alone_gbps("rdma_bandwidth", *way, asked["rail"]) for way in ways]
        able = self._alike.capability("rdma_bandwidth", asked, self.fleet.transports[asked["node"]])
        return limits.each_way(bounds, alone, hardware=not able.packet.software)

    def _alone_gbps(self, check: str, node: object, peer: object, rail: object) -> float | None:
        """Return the most that a rail was proven to carry alone in a direction, or has to."""
        line = self._between.get((check, node, peer, rail))
        if line is None or self.trust.unknown(line):
            return None
        attempts = self._attempts(line)
        every = [] if isinstance(attempts, Answer) else attempts.values()
        pairs = [pair for rows in every if isinstance(pair := self.trust.pair(line, rows), tuple)]
        seen = [bounds_check.observed(*pair)["bandwidth_gbps"] for pair in pairs]
        if (least := self._bounds(line).floor.get("bandwidth_gbps")) is not None:
            seen.append(least)
        return max(seen, default=None)

    def _without_ip(self, asked: Mapping[str, Any]) -> Answer | None:
        """Return the answer to a test that needs IP on an InfiniBand rail to which the inventory gives none.

        Only the plan is looked at: that an address was not found on a node never excuses a test. A sum over
        rails is not applicable as soon as one of its rails has no IP: it would be the sum of fewer rails than
        its name says.
        """
        if CHECKS[str(asked["check"])].rdma:
            return None
        parts = [self.tests[part] for part in asked.get("parts") or () if part in self.tests] or [asked]
        for part in parts:
            for node in (str(part["node"]), str(part["peer"])):
                addressed = self._is_addressed(node, str(part["rail"]))
                if self.fleet.transports.get(node) == "infiniband" and not addressed:
                    of = f"{part['rail']} of {node}"
                    basis = f"the inventory declares no subnet for {of}: this test needs IP on it"
                    return Answer.not_applicable(basis)
        return None

    def _local(self, asked: Mapping[str, Any]) -> Answer:
        """Answer what is asked of one node: from its facts, or from the error counters in its rows."""
        node, rail = str(asked["node"]), str(asked["rail"])
        check = CHECKS[str(asked["check"])]
        if check.source == "bmc":
            mine, address = self.rows.get(str(asked["id"]), []), self._bmcs[node]
            found = bmc.judge(asked, self.run, address, mine, self.fleet.owners, self._no_bmc_answers)
            outside = self._times.outside(bmc.CONTROLLER, mine[0]) if len(mine) == 1 else None
            return Answer.unmeasured("row_garbled", f"{bmc.CONTROLLER}: {outside}") if outside else found
        if check.source == "node":
            mine = self.rows.get(str(asked["id"]), [])
            known = self.fleet.unknown(node) or (None if mine else self.fleet.held_up(node))
            return known or node_rows.judge(
                asked, self.run, mine, self.policy, self._times, self.fleet.bound[node]
            )
        if check.source == "gpus":
            return gpus.judge(asked, self._gpus[node], self.fleet, self._usual_gpus)
        if check.source == "counters":
            if nothing := self.fleet.unknown(node):
                return nothing
            mine, bound = self._tests_of.get((node, rail), []), self.fleet.bound[node][rail]
            return link_errors.judge(
                asked, self.run, mine, self.rows, bound, self.confirm, self.lost.get(node)
            )
        if check.source == "cabling":
            return self.chart.judge(asked, self.rows)
        if check.source == "hops":
            return self._hops(asked)
        if check.rdma:
            return rdma_facts.judge(asked, self._rails[node][rail], self.fleet)
        answer = fact_rows.judge(asked, self._rails[node][rail], self.fleet)
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
            wrote = {row.get("host") for row in self.rows.get(str(test["id"]), [])}
            for host in (str(test["node"]), str(test["peer"])):
                known = host in self.fleet.bound and host not in self.fleet.obstacles
                if known and host not in wrote:
                    return (
                        f"{host} wrote no row of test {test['id']}, in which it may have heard another owner"
                    )
        return None

    def _hops(self, asked: Mapping[str, Any]) -> Answer:
        """Answer whether a rail's latencies fit the switches that are planned on the way."""
        if nothing := self.fleet.unknown(str(asked["node"])):
            return nothing
        if self._latencies is None:
            self._latencies = hops.by_rail(self._trusted_latencies())
        return hops.judge(asked, self._latencies)

    def _trusted_latencies(self) -> Iterator[hops.Sample]:
        """Yield each latency test's sample: of several attempts the quickest, since a switch adds to each."""
        for line in hops.tests(self.tests.values()):
            attempts = self._attempts(line)
            every = [] if isinstance(attempts, Answer) else attempts.values()
            pairs = [pair for rows in every if isinstance(pair := self.trust.pair(line, rows), tuple)]
            samples = [hops.sample(line, pair[0]["metrics"], self.fleet.bound) for pair in pairs]
            if samples:
                yield min(samples, key=lambda sample: sample.latency_us)

    def _claimed_by_others(self) -> dict[tuple[str, str], str]:
        """Return (node, rail) -> what was seen, for rail addresses that somebody else was heard to claim.

        The node's own facts cannot show it: a stranger is found by who asks on the rail.
        """
        found: dict[tuple[str, str], str] = {}
        for identity, asked in self.tests.items():
            for row in self.rows.get(identity, []):
                error = row.get("error")
                if not isinstance(error, Mapping) or error.get("class") not in ("address_in_use", "stranger"):
                    continue
                owner = error.get("host")
                if owner in (asked["node"], asked["peer"]) and self.trust.answers(row, asked):
                    found.setdefault((str(owner), str(asked["rail"])), str(error.get("message") or ""))
        return found

    def _ends(self, asked: Mapping[str, Any]) -> tuple[Bound, Bound]:
        rail = str(asked["rail"])
        return self.fleet.bound[str(asked["node"])][rail], self.fleet.bound[str(asked["peer"])][rail]

    def _bounds(self, asked: Mapping[str, Any]) -> limits.Bounds:
        conditions = self._conditions(asked, alone=asked.get("group") is None)
        return self._alike.for_test(asked, conditions)

    def _conditions(self, asked: Mapping[str, Any], alone: bool = False) -> limits.Conditions:
        both = (asked["node"], asked["peer"])
        shared = not self._share_a_slot.isdisjoint(both)
        versions = tuple(self.fleet.iperf3.get(end) for end in both)
        return limits.Conditions(
            self.policy, versions, shared and not alone, self.fleet.transports[asked["node"]]
        )

    def _aggregate(self, asked: Mapping[str, Any]) -> Answer:
        """Answer a sum; its parts were measured at once at each attempt."""
        parts = [self.tests[part] for part in asked["parts"] if part in self.tests]
        rows = [row for part in parts for row in self.rows.get(str(part["id"]), [])]
        attempts = lasting.by_attempt(rows, self.confirm) or {1: []}
        answers = {number: self._sum(asked, attempts.get(number, [])) for number in {1, *attempts}}
        return _with_tries(lasting.combine(str(asked["check"]), answers, self.confirm), answers)

    def _sum(self, asked: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Answer:
        """Answer a sum by the rows of one attempt at its parts."""
        servers, able = [], []
        conditions = self._conditions(asked)
        for part_id in asked["parts"]:
            part = self.tests.get(part_id)
            if part is None:
                return Answer.unmeasured("part_unmeasured", f"{part_id} was not asked")
            if part["check"] != AGGREGATES[str(asked["check"])]:
                return Answer.unmeasured("part_unmeasured", f"{part_id} is a {part['check']}")
            if (part["node"], part["peer"]) != (asked["node"], asked["peer"]):
                return Answer.unmeasured(
                    "part_unmeasured", f"{part_id} is of {part['node']} and {part['peer']}"
                )
            pair = self.trust.pair(part, [row for row in rows if row.get("id") == part_id])
            if isinstance(pair, Answer):
                return Answer.unmeasured("part_unmeasured", f"{part['rail']}: {pair.cause.get('cause')}")
            servers.append(pair[1])
            able.append(self._alike.capability(str(asked["check"]), part, conditions.transport))
        rdma = CHECKS[str(asked["check"])].rdma
        try:
            observed = aggregate.add_up(servers, payload=rdma)
        except aggregate.NotAdded as problem:
            return Answer.unmeasured(problem.cause, str(problem))
        bounds = limits.for_aggregate(str(asked["check"]), able, conditions)
        if conditions.shared_slot:
            alone = "rdma_bandwidth" if rdma else "tcp_bandwidth"
            best = [self._alone_gbps(alone, asked["node"], asked["peer"], row["rail"]) for row in servers]
            parts = [self.tests[str(row["id"])] for row in servers]
            ends = [[self._ends(part)[end] for part in parts] for end in (0, 1)]
            both = [slots.together_gbps(one) for one in ends]
            slot_gbps = None if None in both else min(one for one in both if one is not None)
            data_gbps = limits.data_gbps(able, conditions.transport) if rdma else None
            best_gbps = min(slots.best_gbps(one, best) for one in ends)
            if not rdma and any((one.rate_gbps or 0.0) > limits.MOST_GBPS for one in able):
                # What TCP reaches on several such rails no authority says; that one does not slow the others.
                best_gbps = max((one or 0.0 for one in best), default=0.0)
            bounds = limits.of_shared_slot(bounds, best_gbps, data_gbps, slot_gbps)
        return bounds_check.weigh(observed, [observed], bounds)


def _with_tries(found: Answer, attempts: Mapping[int, Answer]) -> Answer:
    """Keep what was seen in the attempts that no authority bounds, and how many there were."""
    found.attempts = max(found.attempts, len(attempts))
    found.tries = {n: dict(one.observed) for n, one in attempts.items() if one.outcome == RECORDED}
    return found


def _obstacles(rows: Iterable[Mapping[str, Any]], run: str) -> dict[str, Mapping[str, Any]]:
    """Return node -> the first error that the controller met there in this run."""
    found: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        error = row.get("error")
        if row.get("run") == run and isinstance(error, Mapping):
            found.setdefault(str(row.get("node")), error)
    return found


def _by_id(results: Iterable[Mapping[str, Any]], tests: Mapping[str, Mapping[str, Any]]) -> Rows:
    """Return test -> the rows by those who were asked it: nobody else has a say in it."""
    rows: Rows = {}
    writers = {identity: run_status.writers(line) for identity, line in tests.items()}
    for row in results:
        identity = str(row.get("id"))
        if row.get("host") in writers.get(identity, ()):
            rows.setdefault(identity, []).append(row)
    return rows


def _rows_lost(manifest: Mapping[str, Any], rows: Rows) -> dict[str, str]:
    """Return node -> which of the rows that it handed over are not there any more."""
    taken = manifest.get("archives")
    here = Counter(str(row.get("host")) for mine in rows.values() for row in mine)
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
        for node in {*said, *here} - {bmc.CONTROLLER}
        if said.get(node) != here[node]
    }
