# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the test plan of a run: one line per test, fixed before anything is measured. Pure.

Tests of a node that does not answer stay planned, so that they become verdicts instead of a shorter list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import tests as catalogue
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan as rails_plan
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu, link, rdma
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks, node_tests
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.request import local_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import AGGREGATES, CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Order, Plan, Row

#: The controller's own time to start a runner: what lies between the first and the last of them.
_START_S_EACH = 0.15


class AskError(ValueError):
    """The test plan would be empty."""


def work_order(
    run: str,
    plan: Plan,
    fabrics: Mapping[str, Mapping[str, Any]],
    policy: Policy,
    reached: Iterable[str],
    rails: Sequence[str] | None = None,
    management: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Any]:
    """Build the part of the test schedule that all nodes share.

    Args:
        run: the run id.
        plan: the plan of the nodes that the run covers.
        fabrics: node name -> its `fabric` variable, as the inventory holds it.
        policy: the merged policy.
        reached: the nodes that answered; the others are `absent`.
        rails: only these rails, or None for all.
        management: node -> what `management.entries` says of it, for nodes with rails without IP.
    """
    distinct: list[Mapping[str, Any]] = []
    places: dict[str, int] = {}
    roster = []
    for name, node in plan["nodes"].items():
        # Nodes of one entry have the same rails, which is why what rails they have is found once for each.
        lacking = sorted(rails_plan.absent_rails(node.get("rail_overrides")))
        key = json.dumps([fabrics[name], lacking], sort_keys=True)
        if key not in places:
            places[key] = len(distinct)
            distinct.append(fabrics[name])
        roster.append(
            {
                "name": name,
                "node_index": node.get("node_index"),
                "scalable_unit": node.get("scalable_unit"),
                "rail_overrides": node.get("rail_overrides") or {},
                "fabric": places[key],
                **_gpus_of(node),
                **({"management": dict(management[name])} if management and name in management else {}),
            }
        )
    answered = set(reached)
    order = {
        "schema": 1,
        "run": run,
        "fabrics": [dict(fabric) for fabric in distinct],
        "roster": roster,
        "absent": [name for name in plan["nodes"] if name not in answered],
        "seed": 0,
        "start_skew_s": round(len(roster) * _START_S_EACH),
        "policy": dict(policy),
        "rails": list(rails) if rails is not None else None,
    }
    return {**order, **pattern.choose_pattern(order)}


def asked_lines(plan: Plan, order: Order, second: Order | None = None) -> list[AskedLine]:
    """Return all planned tests: facts, BMCs, GPUs, cables, tests, link errors, hops, nodes alone, aggregates.

    Args:
        plan: the plan of the nodes that the run covers.
        order: the common part of the test schedule.
        second: that of the second order, whose tests and aggregates come last.

    Returns:
        The lines of asked.jsonl; an aggregate names its `parts`.

    Raises:
        AskError: there is nothing to ask.
    """
    return list(_each_line(plan, order, second))


def _each_line(plan: Plan, order: Order, second: Order | None = None) -> Iterator[AskedLine]:
    """Yield what `asked_lines` returns, of which there may be millions."""
    facts = list(_facts_lines(plan, order.get("rails")))
    yield from facts
    yield from _bmc_lines(plan, order["policy"])
    yield from _gpu_lines(plan)
    yield from cable_checks.asked_lines(order)
    tests = _Tests()
    yield from tests.each(order)
    yield from _link_error_lines(plan, tests)
    yield from _hops_lines(plan, tests)
    yield from node_tests.asked_lines(order)
    yield from _aggregate_lines(tests)
    if second is not None:
        further = _Tests()
        yield from further.each(second)
        yield from _aggregate_lines(further, len(tests.parts))
    if not facts and not tests.covered:
        raise AskError(
            "nothing is planned: no node of group gpu_nodes has a rail; give `fabric` rails, or widen --limit"
        )


class _Tests:
    """Yields the tests of a schedule, and keeps the data for the lines that depend on them.

    Attributes:
        covered: check -> nodes and rails that it covers.
        parts: group -> the ids of its tests that are added up, as one text, because there may be millions.
        alike: for each of these groups its tests' check, tool, node, peer and round.
    """

    def __init__(self) -> None:
        self.covered: dict[str, set[tuple[object, object]]] = {}
        self.parts: dict[str, str] = {}
        self.alike: list[tuple[str, str, str, str, int | None]] = []

    def each(self, order: Order) -> Iterator[AskedLine]:
        """Yield the tests."""
        added_up = set(AGGREGATES.values())
        for test in schedule.asked_tests(order):
            check, rail, group = test["check"], test["rail"], test.get("group")
            covered = self.covered.setdefault(check, set())
            covered.add((test["node"], rail))
            covered.add((test["peer"], rail))
            if group is not None and check in added_up:
                if group in self.parts:
                    self.parts[group] += f" {test['id']}"
                else:
                    self.parts[group] = test["id"]
                    self.alike.append((check, test["tool"], test["node"], str(test["peer"]), test["round"]))
            yield test


def fingerprint(lines: Sequence[Row]) -> dict[str, Any]:
    """Return count and digest of the planned tests for the manifest, so that a lost line is noticed."""
    if isinstance(lines, AskedLines):
        return lines.fingerprint
    digest = hashlib.sha256()
    for one in lines:
        digest.update((folder.line(one) + "\n").encode())
    return {"count": len(lines), "sha256": digest.hexdigest()}


def fingerprint_of(text: str) -> dict[str, Any]:
    """Return the same of the text of asked.jsonl."""
    return {"count": text.count("\n"), "sha256": hashlib.sha256(text.encode("utf-8")).hexdigest()}


def find_missing_tests(
    manifest: Manifest, plan: Plan, order: Order | None, lines: Sequence[Row], second: Order | None = None
) -> str | None:
    """Return why the planned tests do not follow from plan, policy and schedules, or None."""
    if order is None:
        return "work_order.json is missing, so the tests that had to be planned are unknown"
    foreign = "work_order.json is not of this run's plan and policy"
    try:
        named = [str(entry["name"]) for entry in order["roster"]]
        if order["run"] != manifest.get("run") or order["policy"] != manifest.get("policy"):
            return foreign
        if named != list(plan["nodes"]):
            return foreign
        of_gpus = any(order["policy"].get(one.wanted) for one in catalogue.NODE_TESTS if one.least_gpus)
        declared = [_gpus_of(node) for node in plan["nodes"].values()]
        said = [{"gpus": entry["gpus"]} if "gpus" in entry else {} for entry in order["roster"]]
        if of_gpus and said != declared:
            return foreign
        if fewer := pattern.problem(order):
            return fewer
        if second is not None and not pattern.goes_on(order, second):
            return f"{folder.CONFIRM_ORDER} does not belong to this run's work_order.json"
        wanted, alike = 0, True
        for line, one in zip_longest(lines, _each_line(plan, order, second)):
            alike = alike and line == one
            wanted += one is not None
    except (AskError, schedule.ScheduleError, ValueError, LookupError, TypeError, AttributeError) as error:
        return f"work_order.json is incomplete: {error}"
    if not alike:
        return f"asked.jsonl has {len(lines)} lines, not the {wanted} that had to be planned"
    return None


def alone(lines: Sequence[Row]) -> str | None:
    """Return which rails no test between nodes covers, or None.

    Such a rail's own state is looked at, but nothing is measured over it: a lone node, one that --limit
    cut off from the others, or a rail that no other node has.
    """
    lines = distinct(lines)
    tested = _covered(line for line in lines if line["peer"] is not None)
    # A BMC and GPUs are on no rail.
    looked_at = dict.fromkeys(
        (line["node"], line["rail"]) for line in lines if line["peer"] is None and line["rail"] is not None
    )
    left = [f"{node} {rail}" for node, rail in looked_at if (node, rail) not in tested]
    if not left:
        return None
    return f"nothing is measured over {named(left)}: no second node of this run has that rail"


def rdma_left_out(plan: Plan, lines: Sequence[Row]) -> str | None:
    """Return where the inventory declares RDMA but no test covers it, or None.

    A check of a port is no test of it: RDMA is tested only on rails with a planned RDMA test.
    """
    rdma_tests = {name for name, check in CHECKS.items() if check.rdma and check.source == "test"}
    lines = distinct(lines)
    tested = _covered(line for line in lines if line["check"] in rdma_tests)
    transports = {name: node.get("transport") for name, node in plan.get("nodes", {}).items()}
    left = {
        (line["node"], line["rail"]): transports[line["node"]]
        for line in lines
        if line["peer"] is None
        and line["rail"] is not None
        and transports.get(line["node"]) in catalogue.RDMA_TRANSPORTS
        and (line["node"], line["rail"]) not in tested
    }
    if not left:
        return None
    places = named([f"{node} {rail}" for node, rail in left])
    declared = " and ".join(sorted({str(transport) for transport in left.values()}))
    return f"the inventory declares {declared}, and no RDMA test covers {places}"


def distinct(lines: Sequence[Row]) -> Sequence[Row]:
    """Return lines of each check, node and rail, of which there may be many."""
    return lines.distinct() if isinstance(lines, AskedLines) else lines


def _covered(tests: Iterable[Row]) -> set[tuple[object, object]]:
    """Return the nodes and rails that tests between nodes run over."""
    return {(test[end], test["rail"]) for test in tests for end in ("node", "peer")}


def _rails_covered(
    plan: Plan, covered: Collection[tuple[object, object]]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the planned rails that tests between nodes run over, each with its node."""
    for name, node in plan["nodes"].items():
        yield from ((name, rail) for rail in node["rails"] if (name, rail["name"]) in covered)


def _local_lines(letter: str, questions: Iterable[tuple[str, str, str, str | None]]) -> Iterator[AskedLine]:
    """Yield questions to one node each, as (check, tool, node, rail), numbered one after the other."""
    for number, question in enumerate(questions):
        yield local_line(f"{letter}{number:05d}", *question)


def _facts_lines(plan: Plan, rails: object) -> Iterator[AskedLine]:
    questions = (
        (check, "rail_info", name, rail["name"])
        for name, node in plan["nodes"].items()
        for rail in node["rails"]
        if not isinstance(rails, list) or rail["name"] in rails
        for check in link.CHECKS + rdma.CHECKS.get(str(node.get("transport")), ())
    )
    return _local_lines("f", questions)


def _bmc_lines(plan: Plan, policy: Policy) -> Iterator[AskedLine]:
    """Plan the check of the BMC for each node that declares one."""
    declared = [name for name, node in plan["nodes"].items() if node.get("bmc_address") is not None]
    return _local_lines("b", (("bmc", str(policy["bmc_check"]), name, None) for name in declared))


def _gpus_of(node: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of a planned node's GPUs for its schedule, where the inventory declares it."""
    return {"gpus": int(node["gpus"]["count"])} if node.get("gpus") else {}


def _gpu_lines(plan: Plan) -> Iterator[AskedLine]:
    """Plan the checks of GPUs for each node that declares them."""
    declared = {name: node["gpus"] for name, node in plan["nodes"].items() if node.get("gpus") is not None}
    questions = (
        (check, "rail_info", name, None) for name in declared for check in gpu.checks(declared[name])
    )
    return _local_lines("g", questions)


def _link_error_lines(plan: Plan, tests: _Tests) -> Iterator[AskedLine]:
    """Plan the check of error counters for each node and rail that a test covers."""
    rails = _rails_covered(plan, set[tuple[object, object]]().union(*tests.covered.values()))
    return _local_lines("e", (("link_errors", "counters", name, rail["name"]) for name, rail in rails))


def _hops_lines(plan: Plan, tests: _Tests) -> Iterator[AskedLine]:
    """Plan the check of hops for each node and rail with a leaf in the inventory."""
    rails = _rails_covered(plan, tests.covered.get("rdma_latency", ()))
    planned = ((name, rail["name"]) for name, rail in rails if rail.get("leaf") is not None)
    return _local_lines("h", (("hops", "ib_write_lat", *place) for place in planned))


def _aggregate_lines(tests: _Tests, first: int = 0) -> Iterator[AskedLine]:
    """Plan the sum of all rails for each group of tests; the ids begin with this number."""
    sums = {part: name for name, part in AGGREGATES.items()}
    each = zip(tests.alike, tests.parts.values(), strict=True)
    for number, ((check, tool, node, peer, turn), parts) in enumerate(each, first):
        yield {
            "schema": 1,
            "id": f"a{number:05d}",
            "check": sums[check],
            "tool": tool,
            "node": node,
            "peer": peer,
            "rail": None,
            "direction": "uni",
            "round": turn,
            "parts": parts.split(" "),
        }
