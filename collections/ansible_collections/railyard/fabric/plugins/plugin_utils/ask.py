# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of a cluster: one line for each question, fixed before anything is measured. Pure.

A node that does not answer stays asked, so that its silence is a verdict and not a shorter list.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils import run_folder

FACTS_CHECKS = ("link", "address", "mtu")
#: How many rails a sentence names before it says "and N more".
NAMED = 4


class AskError(ValueError):
    """Nothing would be asked: a run that asks nothing can prove nothing."""


def work_order(
    run: str,
    plan: Mapping[str, Any],
    fabrics: Mapping[str, Mapping[str, Any]],
    policy: Mapping[str, Any],
    reached: Iterable[str],
    rails: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Build the part of the work order that all nodes share.

    Args:
        run: the run id.
        plan: the plan of the nodes that the run covers.
        fabrics: node name -> its `fabric` variable, as the inventory holds it.
        policy: the merged policy.
        reached: the nodes that answered; the others are `absent`.
        rails: only these rails, or None for all.
    """
    distinct: list[Mapping[str, Any]] = []
    places: dict[str, int] = {}
    roster = []
    for name, node in plan["nodes"].items():
        key = json.dumps(fabrics[name], sort_keys=True)
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
            }
        )
    answered = set(reached)
    return {
        "schema": 1,
        "run": run,
        "fabrics": [dict(fabric) for fabric in distinct],
        "roster": roster,
        "absent": [name for name in plan["nodes"] if name not in answered],
        "pattern": "all_pairs",
        "seed": 0,
        "policy": dict(policy),
        "rails": list(rails) if rails is not None else None,
    }


def asked_lines(plan: Mapping[str, Any], order: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return every asked line of a run: facts checks, the schedule's tests, the aggregates.

    Args:
        plan: the plan of the nodes that the run covers.
        order: the common part of the work order.

    Returns:
        The lines of asked.jsonl; an aggregate names its `parts`.

    Raises:
        AskError: there is nothing to ask.
    """
    lines = list(_facts_lines(plan, order.get("rails")))
    tests = [dict(test) for test in schedule.asked_tests(order)]
    lines += tests
    lines += _aggregate_lines(tests)
    if not lines:
        raise AskError(
            "nothing is asked: no node of group gpu_nodes has a rail; give `fabric` rails, or widen --limit"
        )
    return lines


def fingerprint(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what the manifest keeps of the asked lines, so that a line lost later is noticed."""
    digest = hashlib.sha256()
    for one in lines:
        digest.update(run_folder.line(one).encode("utf-8") + b"\n")
    return {"count": len(lines), "sha256": digest.hexdigest()}


def alone(lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Tell which rails no test between nodes covers, or None.

    Such a rail's own state is looked at, but nothing is measured over it: a lone node, one that --limit
    cut off from the others, or a rail that no other node has.
    """
    tested: set[tuple[object, object]] = set()
    looked_at: dict[tuple[object, object], None] = {}
    for line in lines:
        if line["peer"] is None:
            looked_at[line["node"], line["rail"]] = None
        else:
            tested |= {(line["node"], line["rail"]), (line["peer"], line["rail"])}
    left = [place for place in looked_at if place not in tested]
    if not left:
        return None
    named = ", ".join(f"{node} {rail}" for node, rail in left[:NAMED])
    more = f" and {len(left) - NAMED} more" if len(left) > NAMED else ""
    return f"nothing is measured over {named}{more}: no second node of this run has that rail"


def rdma_left_out(plan: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str | None:
    """Tell that the inventory declares RDMA and nothing asks for it, or None; `tcp` is how not to ask."""
    declared = {node.get("transport") for node in plan.get("nodes", {}).values()} & {"roce", "infiniband"}
    if not declared or any(str(line["check"]).startswith("rdma") for line in lines):
        return None
    return f"the inventory declares {' and '.join(sorted(declared))}, and this version asks nothing of RDMA"


def patience_s(order: Mapping[str, Any]) -> int:
    """Return how long, at most, the nodes may need from the start for all their rounds.

    Each node bounds its own tests; this bound is the controller's, for a node that stops talking
    altogether. It is what every test would take were each to run into its deadline in the busiest node's
    share, plus the meetings.
    """
    policy = order["policy"]
    nodes = len(order["roster"])
    rails = max(
        (len(fabric.get("rails") or []) or int(fabric.get("rail_count") or 1)) for fabric in order["fabrics"]
    )
    bandwidth = float(policy["iperf3_duration_s"]) + float(policy["iperf3_omit_s"])
    ping = float(policy["ping_count"]) * float(policy["ping_interval_s"])
    alone = bandwidth + float(policy["sockperf_duration_s"]) + ping + 5 * 2.0
    per_pair = 2 * (rails * alone + bandwidth + 4.0)
    rounds = max(nodes - 1, 0) + nodes % 2
    # Twice, since tools take their time to start on a loaded node; and a partner that is gone costs a
    # rendezvous each.
    waits = rounds * 2 * (rails * 6) * float(policy["rendezvous_timeout_s"])
    return int(float(policy["first_rendezvous_timeout_s"]) + 2 * rounds * per_pair + waits + 30)


def _facts_lines(plan: Mapping[str, Any], rails: object) -> Iterable[dict[str, Any]]:
    number = 0
    for name, node in plan["nodes"].items():
        for rail in node["rails"]:
            if isinstance(rails, list) and rail["name"] not in rails:
                continue
            for check in FACTS_CHECKS:
                yield {
                    "schema": 1,
                    "id": f"f{number:05d}",
                    "check": check,
                    "tool": "rail_info",
                    "node": name,
                    "peer": None,
                    "rail": rail["name"],
                    "direction": "local",
                    "round": None,
                }
                number += 1


def _aggregate_lines(tests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for test in tests:
        if test.get("group") is not None and test["check"] == "tcp_bandwidth_concurrent":
            groups.setdefault(str(test["group"]), []).append(test)
    return [
        {
            "schema": 1,
            "id": f"a{number:05d}",
            "check": "aggregate_bandwidth",
            "tool": parts[0]["tool"],
            "node": parts[0]["node"],
            "peer": parts[0]["peer"],
            "rail": None,
            "direction": "uni",
            "round": parts[0]["round"],
            "parts": [part["id"] for part in parts],
        }
        for number, parts in enumerate(groups.values())
    ]
