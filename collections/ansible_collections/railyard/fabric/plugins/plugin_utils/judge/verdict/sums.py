# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the sum over all rails of two nodes, of tests that ran at the same time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import AGGREGATES, CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import attempts as lasting
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import aggregate
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import sums as columns
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bounds_check
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.passing_tests import PassingTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.pair_tests import PairTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Number of sums that are calculated at once, because that makes temporary arrays.
_AT_ONCE = 1 << 12


def add_passing(lines: Iterable[AskedLine], passing: PassingTests) -> dict[str, dict[str, float]]:
    """Calculate the sums whose parts all clearly pass.

    Args:
        lines: planned sums.
        passing: the tests that clearly pass.

    Returns:
        Id -> the values of `aggregate.sum_received`; without sums that have to be judged from single rows.
    """
    asked = passing.asked
    kinds: dict[tuple[str, int], list[AskedLine]] = {}
    for line in lines:
        kinds.setdefault((line["check"], len(line["parts"])), []).append(line)
    found: dict[str, dict[str, float]] = {}
    for (check, count), sums in kinds.items():
        wanted = {number for what, number in asked.what.items() if what[0] == AGGREGATES[check]}
        for begin in range(0, len(sums) if count else 0, _AT_ONCE):
            some = sums[begin : begin + _AT_ONCE]
            tests = np.array([[asked.place(part) for part in line["parts"]] for line in some])
            ends = np.array([[asked.nodes.get(name, -1) for name in nodes_of(line)] for line in some])
            good = (tests >= 0) & passing.has(tests) & np.isin(asked.of_what[tests], sorted(wanted))
            good &= (asked.node[tests] == ends[:, :1]) & (asked.peer[tests] == ends[:, 1:])
            mine = np.flatnonzero(good.all(axis=1))
            if not len(mine):
                continue
            # What is no number compares as false, which is intended.
            with np.errstate(all="ignore"):
                each = columns.sum_received(*passing.find_servers(tests[mine]), payload=CHECKS[check].rdma)
            found |= {some[at]["id"]: one for at, one in zip(mine.tolist(), each, strict=True) if one}
    return found


def judge_sum(between: PairTests, asked: AskedLine) -> Answer:
    """Judge a sum; its parts ran at the same time in each attempt.

    Args:
        between: the run's tests between two nodes.
        asked: the planned sum.
    """
    parts = {part: line for part in asked["parts"] if (line := between.test(part))}
    if observed := between.sums.get(asked["id"]):
        answers = {1: _check(between, asked, list(parts.values()), observed)}
    else:
        rows = [row for part in parts for row in between.rows.get(part, [])]
        attempts = lasting.group_by_attempt(rows, between.confirm) or {1: []}
        answers = {
            number: _judge_attempt(between, asked, parts, attempts.get(number, []))
            for number in {1, *attempts}
        }
    return lasting.add_tries(lasting.combine_attempts(str(asked["check"]), answers, between.confirm), answers)


def _judge_attempt(
    between: PairTests, asked: AskedLine, every: Mapping[str, AskedLine], rows: Iterable[Row]
) -> Answer:
    """Judge a sum by the rows of one attempt at its parts."""
    servers, parts = [], []
    rows_of: dict[str, list[Row]] = {}
    for row in rows:
        rows_of.setdefault(str(row["id"]), []).append(row)
    for part_id in asked["parts"]:
        part = every.get(part_id)
        if part is None:
            return Answer.unmeasured("part_unmeasured", f"{part_id} was not planned")
        if part["check"] != AGGREGATES[str(asked["check"])]:
            return Answer.unmeasured("part_unmeasured", f"{part_id} is a {part['check']}")
        if (part["node"], part["peer"]) != (asked["node"], asked["peer"]):
            return Answer.unmeasured("part_unmeasured", f"{part_id} is of {part['node']} and {part['peer']}")
        pair = between.trust.pair(part, rows_of.get(part_id, []))
        if isinstance(pair, Answer):
            return Answer.unmeasured("part_unmeasured", f"{part['rail']}: {pair.cause.get('cause')}")
        servers.append(pair[1])
        parts.append(part)
    try:
        observed = aggregate.sum_received(servers, payload=CHECKS[str(asked["check"])].rdma)
    except aggregate.NotSummable as problem:
        return Answer.unmeasured(problem.cause, str(problem))
    return _check(between, asked, parts, observed)


def _check(
    between: PairTests, asked: AskedLine, parts: Sequence[AskedLine], observed: Mapping[str, float]
) -> Answer:
    """Compare a sum's values with its thresholds."""
    check, conditions = str(asked["check"]), between.conditions(asked)
    shares = [between.share(part) for part in parts]
    ends = [[between.ends(part)[end] for part in parts] for end in (0, 1)]

    def bound(able: Sequence[limits.Capability]) -> limits.Bounds:
        return limits.bound_aggregate(check, _halve_shared_ports(able, ends), conditions)

    bounds = between.cache.for_sum(asked, parts, shares, conditions, bound)
    if any(share is not None for share in shares):
        rdma = CHECKS[check].rdma
        alone = "rdma_bandwidth" if rdma else "tcp_bandwidth"
        best = [between.alone_gbps(alone, *nodes_of(asked), str(part["rail"])) for part in parts]
        best_gbps = min(slots.sum_best_per_group(one, best) for one in ends)
        able = (between.cache.capability(check, part, conditions.transport) for part in parts)
        if not rdma and any((one.rate_gbps or 0.0) > limits.MOST_GBPS for one in able):
            # There is no reference for TCP on several such rails, except that together they reach one's rate.
            best_gbps = max((one or 0.0 for one in best), default=0.0)
        bounds = limits.add_shared_slot_floor(bounds, best_gbps)
    return bounds_check.check_bounds(dict(observed), [dict(observed)], bounds)


def _halve_shared_ports(
    able: Sequence[limits.Capability], ends: Sequence[Sequence[Bound]]
) -> list[limits.Capability]:
    """Return the rails' capabilities with the rate halved for two rails on one port."""
    rails = {str(end.rail["name"]) for end in ends[0]}
    return [
        replace(one, rate_gbps=one.rate_gbps / 2)
        if one.rate_gbps is not None and any(slots.find_shared_port(end.rail) in rails for end in both)
        else one
        for one, *both in zip(able, *ends, strict=True)
    ]
