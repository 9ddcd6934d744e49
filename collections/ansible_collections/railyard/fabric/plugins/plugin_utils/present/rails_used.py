# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe what a test ran over: HCA, GID, MTU and NUMA node of each end, and the cable between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.grouping import place_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row


@dataclass(frozen=True)
class Conditions:
    """What one end of an RDMA test ran over, as text."""

    where: str
    hca: str
    gid: str
    active_mtu: str
    qps: str
    message: str
    numa: str


def has_conditions(check: str) -> bool:
    """Tell whether the report shows what the ends of a check ran over."""
    return check.startswith("rdma")


def conditions(results: Iterable[Row]) -> dict[str, tuple[Conditions, ...]]:
    """Return test id -> what each end ran over, the client first; for RDMA tests only."""
    found: dict[str, list[Conditions]] = defaultdict(list)
    for row in sorted(results, key=lambda row: str(row.get("end"))):
        if has_conditions(str(row.get("check"))):
            found[str(row.get("id"))].append(_describe_end(row))
    return {identity: tuple(ends) for identity, ends in found.items()}


def cables(plan: Plan, facts: Iterable[Row]) -> dict[tuple[str, str], str]:
    """Return node and rail → the cable there for people: `gpuserver1 rail0 (ens6) to gpuserver2 (ens6)`."""
    by_node = {str(row.get("node")): row for row in facts}
    ends: dict[str, dict[str, tuple[Mapping[str, Any], str]]] = defaultdict(dict)
    for name, node in (plan.get("nodes") or {}).items():
        for rail in node["rails"]:
            ends[str(rail["name"])][str(name)] = rail, _netdev(rail, by_node.get(str(name)) or {})
    named = {}
    for rail_name, of_rail in ends.items():
        direct = plan.get("cabling") == "back_to_back" and len(of_rail) == 2
        for name, (rail, netdev) in of_rail.items():
            far = f"leaf {rail['leaf']}" if rail.get("leaf") else "its switch"
            if direct:
                [(peer, (_rail, other))] = [item for item in of_rail.items() if item[0] != name]
                far = f"{peer}{_in_brackets(other)}"
            named[name, rail_name] = f"cable of {name} {rail_name}{_in_brackets(netdev)} to {far}"
    return named


def _describe_end(row: Row) -> Conditions:
    index, kind = row.get("gid_index"), row.get("gid_type")
    size = row.get("message_bytes")
    gpu = f", GPU {row['gpu']} ({wording.quantity_text(row.get('gpu_name'))})" if row.get("gpu") else ""
    return Conditions(
        where=place_text(str(row.get("host")), "", str(row.get("rail"))),
        hca=wording.quantity_text(row.get("hca")) + gpu,
        gid="unknown" if index is None else f"{wording.number(index)} ({wording.quantity_text(kind)})",
        active_mtu=wording.quantity("active_mtu_bytes", row.get("active_mtu_bytes")),
        qps=wording.number(row.get("qps")),
        message="unknown" if size is None else wording.quantity("message_bytes", size),
        numa=_numa(row.get("numa_node"), row.get("pinned")),
    )


def _numa(node: object, pinned: object) -> str:
    if pinned is True:
        return f"pinned to node {wording.number(node)}"
    known = isinstance(node, int) and not isinstance(node, bool) and node >= 0
    return f"not pinned; the HCA is at node {node}" if known else "not pinned; no NUMA node is known"


def _netdev(rail: Mapping[str, Any], row: Row) -> str:
    """Return the netdev of a rail: the plan's, else the one with the rail's address."""
    if rail.get("netdev"):
        return str(rail["netdev"])
    wanted = {rail.get("address"), rail.get("address6")} - {None}
    devices = row.get("netdevs")
    # Malformed facts are judged elsewhere; here they only give no name.
    for device in devices if isinstance(devices, list) else ():
        if isinstance(device, Mapping) and wanted & {
            *_texts(device, "addresses"),
            *_texts(device, "addresses6"),
        }:
            return str(device.get("netdev") or "")
    return ""


def _texts(device: Mapping[str, Any], key: str) -> list[str]:
    values = device.get(key)
    return [value for value in values if isinstance(value, str)] if isinstance(values, list) else []


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""
