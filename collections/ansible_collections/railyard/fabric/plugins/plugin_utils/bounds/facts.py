# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bind all nodes' facts to the plan, for thresholds and rules. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as records
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus, Hca, NodeFacts
from ansible_collections.railyard.fabric.plugins.module_utils.records.failures import Error
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link, rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import UNMEASURED
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import one_machine


@dataclass
class BoundFacts:
    """All nodes' facts of a run, bound to the plan.

    Attributes:
        bound: node -> rail -> Bound, for nodes with trusted facts.
        broken: node -> what is wrong with its facts.
        iperf3: node -> version, None if unknown.
        governors: node -> its CPU frequency governors, if it has any.
        boot_ids: node -> the boot id in its facts.
        collected: node -> time of collection, by the node's clock.
        owners: bare rail address -> nodes that have it on any netdev.
        obstacles: node -> the error that kept it from taking part.
        lost: nodes that were inspected and whose facts are missing.
        classes: node -> its declared `node_class`.
        transports: node -> its declared transport.
        ports: node -> all RDMA ports in its facts.
        fastest: board id -> the highest rate in Gbit/s of an active InfiniBand port, and which port.
        pkeys: the P_Keys of all InfiniBand rails' ports.
        gpus: node -> the GPUs in its facts.
        gpus_garbled: node -> what is wrong with its GPU facts.
        shares: node -> rail -> its bandwidth while all of the node's rails run, if that is less than alone.
    """

    bound: dict[str, dict[str, Bound]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    iperf3: dict[str, str | None] = field(default_factory=dict)
    governors: dict[str, str] = field(default_factory=dict)
    boot_ids: dict[str, str | None] = field(default_factory=dict)
    collected: dict[str, object] = field(default_factory=dict)
    owners: dict[str, list[str]] = field(default_factory=dict)
    obstacles: dict[str, Error] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    classes: dict[str, str] = field(default_factory=dict)
    transports: dict[str, str] = field(default_factory=dict)
    ports: dict[str, list[Hca]] = field(default_factory=dict)
    fastest: dict[str, tuple[float, str]] = field(default_factory=dict)
    pkeys: rdma.Pkeys = field(default_factory=rdma.Pkeys)
    gpus: dict[str, Gpus] = field(default_factory=dict)
    gpus_garbled: dict[str, str] = field(default_factory=dict)
    shares: dict[str, dict[str, slots.Share]] = field(default_factory=dict)

    def unknown(self, node: str) -> Answer | None:
        """Return the answer to all tests of a node about which nothing is known, else None."""
        if node in self.bound:
            return None
        if node in self.broken:
            return Answer.unmeasured("facts_garbled", f"{node}: {self.broken[node]}")
        if node in self.lost:
            return Answer.unmeasured("facts_lost", node)
        return self.explain_absence(node) or Answer.unmeasured("node_unreachable", node)

    def explain_absence(self, node: str) -> Answer | None:
        """Return the answer to tests without a result of a node, if the controller knows why."""
        error = self.obstacles.get(node)
        return Answer(UNMEASURED, cause=causes.explain_error(error)) if error else None


def bind_facts(plan: Mapping[str, Any], facts: Iterable[Mapping[str, Any]], run: str) -> BoundFacts:
    """Group the facts rows by node and bind them to the plan.

    Rows of other runs and of unplanned nodes are ignored; two different rows of one node are rejected.
    """
    declared = plan["nodes"].items()
    fleet = BoundFacts(
        classes={name: str(node.get("node_class")) for name, node in declared},
        transports={name: str(node.get("transport")) for name, node in declared},
    )
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in facts:
        node = row.get("node")
        if row.get("run") == run and isinstance(node, str) and node in plan["nodes"]:
            rows.setdefault(node, []).append(row)
    same = one_machine.find(plan["nodes"], (mine[0] for mine in rows.values()))
    for node, mine in rows.items():
        if node in same:
            fleet.broken[node] = one_machine.explain(node, same[node])
            continue
        try:
            row = _read_facts(mine)
        except RefusedError as refused:
            fleet.broken[node] = f"its facts: {refused}"
            continue
        try:
            fleet.gpus[node] = records.read_gpus(row)
        except RefusedError as refused:
            fleet.gpus_garbled[node] = str(refused)
        fleet.bound[node] = bind.bind(plan["nodes"][node]["rails"], row)
        fleet.shares[node] = bounds.find_shares(fleet.bound[node])
        fleet.boot_ids[node] = row["boot_id"]
        fleet.collected[node] = row["collected"]
        fleet.ports[node] = row["hcas"]
        if fleet.transports[node] == "infiniband":
            fleet.pkeys.add(fleet.bound[node].values())
        _update_fastest(fleet, node)
        fleet.iperf3[node] = row["tools"].get("iperf3")
        if governors := row["cpu"]["governors"]:
            fleet.governors[node] = " and ".join(sorted(governors))
        for address in _list_addresses(row):
            fleet.owners.setdefault(address, []).append(node)
    return fleet


def _update_fastest(fleet: BoundFacts, node: str) -> None:
    """Update the highest rates that boards have shown with the node's InfiniBand ports."""
    for port in fleet.ports[node]:
        board, rate_gbps = port["board_id"], port["rate_gbps"] or 0.0
        # A port that is down reports a rate too, but no link has reached it.
        shown = port["state"] == "ACTIVE" and port["link_layer"] == "InfiniBand"
        if board and shown and rate_gbps > fleet.fastest.get(board, (0.0, ""))[0]:
            fleet.fastest[board] = rate_gbps, f"{node} {port['hca']}"


def _list_addresses(row: NodeFacts) -> set[str]:
    found: set[str] = set()
    for device in row["netdevs"]:
        for addresses in (device["addresses"], device["addresses6"]):
            try:
                found |= {str(one.ip) for one in link.interfaces(addresses) if not one.ip.is_link_local}
            except ValueError:
                continue  # the address check of that netdev reports it
    return found


def _read_facts(rows: Sequence[Mapping[str, Any]]) -> NodeFacts:
    """Return a node's facts.

    Raises:
        RefusedError: there are two rows that differ, or the row is not understood.
    """
    if len(rows) > 1 and len({json.dumps(row, sort_keys=True) for row in rows}) > 1:
        raise RefusedError("two rows that differ")
    return records.read(rows[0])
