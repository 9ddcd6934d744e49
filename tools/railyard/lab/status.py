"""What a lab looks like at this moment, read from where it really is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from railyard.base.paths import repo_root
from railyard.lab import naming, network, owners, speed, state
from railyard.lab.nodes import NodeState
from railyard.lab.process import CommandError
from railyard.lab.topology import Node
from railyard.lab.wiring import Lab, rail_link


def collect(lab: Lab) -> dict[str, Any]:
    """Return the lab's state as JSON can hold it.

    Returns:
        `{"schema", "name", "up", "topology", "namespace", "management", "way_out", "nodes", "faults",
        "other_checkout", "speed"}`; `nodes` is `{NAME: {"kind", "condition", "address", "pid", "ssh",
        "rails": [...]}}`, and a rail of a node that is off has null where nothing can be known.
        `other_checkout` is the checkout that has a lab of this name up instead of this one, else null;
        nothing else is reported of that lab.
    """
    states = lab.states()
    record = state.load(lab.name)
    other = _other_checkout(lab.name, states)
    if other:
        states, record = {}, None
    there = lab.network.exists() and not other
    nodes = {node.name: _node(lab, node, states.get(node.name)) for node in lab.topology.nodes}
    management = lab.topology.management
    return {
        "schema": 1,
        "name": lab.name,
        "up": there and all(node["condition"] == "running" for node in nodes.values()),
        "topology": str(lab.topology.source),
        "namespace": lab.network.name if there else None,
        "management": {
            "netdev": management.netdev,
            "subnet": str(management.subnet),
            "controller": str(management.controller),
            "controller_link": naming.controller_link(lab.name),
        },
        "way_out": there and bool(network.slirp_pids(lab.network.name)),
        "nodes": nodes,
        "faults": [asdict(fault) for fault in record.faults] if record else [],
        "state_torn": bool(record and record.torn),
        "other_checkout": other or None,
        "speed": asdict(record.speed) if record and record.speed else None,
    }


def _other_checkout(lab: str, states: Mapping[str, NodeState]) -> str:
    """Return the checkout that has a lab of this name up, "" where it is this one or there is none."""
    seen = [found.checkout for found in states.values()] + [owners.running_labs().get(lab, "")]
    return next((checkout for checkout in seen if owners.is_foreign(checkout, repo_root())), "")


def text(found: dict[str, Any]) -> str:
    """Return what `collect` found as lines for a person."""
    if found.get("other_checkout"):
        refusal = owners.refuse_name(found["name"], found["other_checkout"])
        here = f"lab {found['name']}: not up from this checkout ({repo_root()})"
        return f"{here}\n{refusal.message}; {refusal.fix}"
    lines = [f"lab {found['name']}: {'up' if found['up'] else 'not up, or not whole'}"]
    for name, node in found["nodes"].items():
        lines.append(f"  {name}  {node['kind']}  {node['condition']}  {node['address']}")
        for rail in node["rails"]:
            if rail["mtu_bytes"] is None:
                continue
            rate = "unshaped" if rail["rate_gbps"] is None else f"{rail['rate_gbps']:g} Gbit/s"
            carrier = "carrier" if rail["carrier"] else "no carrier"
            lines.append(
                f"    {rail['name']}  {rail['netdev']}  {rail['mac']}"
                f"  MTU {rail['mtu_bytes']}  {carrier}  {rate}"
            )
    lines.extend(
        f"  fault: {fault['kind']} {fault['target']}, since {fault['since']}" for fault in found["faults"]
    )
    measured = speed.load(found.get("speed"))
    if measured is not None:
        lines.append(f"  {measured}")
    first = next(iter(found["nodes"].values()))
    lines.append(f"  look around: {shlex.join(first['ssh'])}")
    if found["namespace"] and not found["way_out"]:
        lines.append("  package mirrors are not reachable; `railyard lab up` repairs it")
    return "\n".join(lines)


def _node(lab: Lab, node: Node, found: NodeState | None) -> dict[str, Any]:
    # A node that is off cannot be read.
    inner = _netdevs(lab, node) if found and found.condition == "running" else {}
    rails = []
    for position, rail in enumerate(lab.topology.rails):
        known: dict[str, Any] = dict.fromkeys(("mac", "admin_up", "carrier", "mtu_bytes", "rate_gbps"))
        if rail.netdev in inner:
            link = inner[rail.netdev]
            known["mac"], known["mtu_bytes"] = link["address"], link["mtu"]
            known["admin_up"], known["carrier"] = ("UP" in link["flags"], "LOWER_UP" in link["flags"])
            known["rate_gbps"] = lab.kind(node).rate_gbps(node, rail_link(lab, node, position))
        rails.append({"name": rail.name, "netdev": rail.netdev, **known})
    return {
        "kind": node.kind,
        "condition": found.condition if found else "absent",
        "address": str(node.address),
        "pid": found.pid if found else 0,
        "ssh": lab.keys.ssh_argv(node),
        "rails": rails,
    }


def _netdevs(lab: Lab, node: Node) -> dict[str, dict[str, Any]]:
    try:
        return network.links_of(lab.kind(node).as_root(node, "ip"))
    except CommandError:
        return {}  # it is booting, or its SSH is broken: `condition` and `ssh` are what there is to say
