# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's facts row answers by itself: link, address and MTU of each rail. Pure."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import UNMEASURED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import causes, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer


@dataclass
class BoundFacts:
    """All nodes' facts of a run, bound to the plan once.

    Attributes:
        bound: node -> rail -> Bound, for the nodes whose facts can be trusted.
        broken: node -> what is wrong with its facts.
        iperf3: node -> version, None where unknown.
        governors: node -> the CPU frequency governors that its processors have, where it has any.
        boot_ids: node -> the boot that its facts describe.
        collected: node -> when that was, by its clock.
        owners: bare rail address -> nodes that have it on any netdev.
        obstacles: node -> what kept the controller from asking it.
        lost: nodes that answered when they were inspected, and of which there are no facts any more.
        classes: node -> the `node_class` that the plan declares for it.
        transports: node -> the transport that the plan declares for it.
        ports: node -> all RDMA ports of its facts.
        fastest: board id -> the highest rate in Gbit/s that an InfiniBand port of it runs at, and whose.
    """

    bound: dict[str, dict[str, Bound]] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    iperf3: dict[str, str | None] = field(default_factory=dict)
    governors: dict[str, str] = field(default_factory=dict)
    boot_ids: dict[str, object] = field(default_factory=dict)
    collected: dict[str, object] = field(default_factory=dict)
    owners: dict[str, list[str]] = field(default_factory=dict)
    obstacles: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()
    classes: dict[str, str] = field(default_factory=dict)
    transports: dict[str, str] = field(default_factory=dict)
    ports: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    fastest: dict[str, tuple[float, str]] = field(default_factory=dict)

    def unknown(self, node: str) -> Answer | None:
        """Return the answer to all that is asked of a node of which nothing is known, else None."""
        if node in self.bound:
            return None
        if node in self.broken:
            return Answer.unmeasured("facts_garbled", f"{node}: {self.broken[node]}")
        if node in self.lost:
            return Answer.unmeasured("facts_lost", node)
        return self.held_up(node) or Answer.unmeasured("node_unreachable", node)

    def held_up(self, node: str) -> Answer | None:
        """Return the answer to what a node gave nothing for, where the controller knows why."""
        error = self.obstacles.get(node)
        return Answer(UNMEASURED, cause=causes.explain_error(error)) if error else None


def gather(plan: Mapping[str, Any], facts: Iterable[Mapping[str, Any]], run: str) -> BoundFacts:
    """Sort the facts rows by node and bind them to the plan.

    Rows of another run or of no planned node are left aside; two different rows of one node are no facts at
    all.
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
    for node, mine in rows.items():
        problem = _problem(mine)
        if problem:
            fleet.broken[node] = problem
            continue
        row = mine[0]
        fleet.bound[node] = bind.bind(plan["nodes"][node]["rails"], row)
        fleet.boot_ids[node] = row.get("boot_id")
        fleet.collected[node] = row.get("collected")
        fleet.ports[node] = bind.ports(row)
        _remember_fastest(fleet, node)
        tools = row.get("tools")
        version = tools.get("iperf3") if isinstance(tools, Mapping) else None
        fleet.iperf3[node] = version if isinstance(version, str) else None
        cpu = row.get("cpu")
        governors = cpu.get("governors") if isinstance(cpu, Mapping) else None
        if isinstance(governors, Mapping) and governors:
            fleet.governors[node] = " and ".join(sorted(map(str, governors)))
        for address in _all_addresses(row):
            fleet.owners.setdefault(address, []).append(node)
    return fleet


def _remember_fastest(fleet: BoundFacts, node: str) -> None:
    """Keep what the node's InfiniBand ports show that their board can do."""
    for port in fleet.ports[node]:
        board, rate = port.get("board_id"), _positive(port.get("rate_gbps"))
        # A port that is down tells a rate as well, which no link has shown.
        shown = port.get("state") == "ACTIVE" and port.get("link_layer") == "InfiniBand"
        if isinstance(board, str) and board and shown and rate > fleet.fastest.get(board, (0.0, ""))[0]:
            fleet.fastest[board] = rate, f"{node} {port['hca']}"


def judge(asked: Mapping[str, Any], rail: Mapping[str, Any], fleet: BoundFacts) -> Answer:
    """Answer a facts check.

    Args:
        asked: the asked line; its check is link, address or mtu.
        rail: the plan's rail.
        fleet: all facts.
    """
    node, check = str(asked["node"]), str(asked["check"])
    if check == "address" and not _planned(rail):
        return Answer.not_applicable("the inventory declares no subnet for this rail")
    if check == "link" and fleet.transports.get(node) == "infiniband" and not _has_netdev(rail):
        basis = "the inventory names no netdev for this InfiniBand rail; its port is judged by rdma_port"
        return Answer.not_applicable(basis)
    if check == "mtu" and rail.get("mtu") is None:
        return Answer.not_applicable("the inventory declares no MTU")
    if nothing := fleet.unknown(node):
        return nothing
    bound = fleet.bound[node][str(rail["name"])]
    if bound.netdev is None:
        answer = Answer(basis="the inventory asks for this rail")
        return _found(answer, f"{node} {rail['name']}", bound)
    if check == "link":
        return _link(node, rail, bound, fleet.classes[node])
    if check == "mtu":
        return _mtu(node, rail, bound)
    return _address(node, rail, bound.netdev, fleet)


def _found(answer: Answer, on_rail: str, bound: Bound) -> Answer:
    """Turn an answer into the failure that is the first finding of the rail's binding."""
    return answer.failed(bound.findings[0].cause, f"{on_rail}: {bound.findings[0].detail}")


def _link(node: str, rail: Mapping[str, Any], bound: Bound, node_class: str) -> Answer:
    device = bound.netdev or {}
    on_rail = f"{node} {rail['name']}"
    where = f"{on_rail} ({device['netdev']})"
    observed = {key: device.get(key) for key in ("admin_up", "carrier", "operstate")}
    wanted: dict[str, Any] = {"admin_up": True, "carrier": True}
    basis = "an asked rail is up"
    rate = rail.get("rate_gbps")
    hardware = device.get("driver_class") == "hardware"
    speed = device.get("speed_mbps")
    if hardware and is_number(rate):
        wanted["speed_mbps"] = float(rate) * 1000
        observed["speed_mbps"] = speed
        basis += f", at its declared {rate:g} Gbit/s"
    answer = Answer.passed(observed, wanted, basis)
    down = device.get("admin_up") is False or device.get("carrier") is False
    # A port that the inventory does not name is no part of the link; rdma_port looks at it on RDMA rails.
    named = bound.hca if rail.get("hca") is not None else None
    if down or str(device.get("operstate")) in ("down", "lowerlayerdown", "notpresent"):
        return answer.failed(_why_down(bound.hca), where)
    if named is not None and named.get("state") not in (None, "ACTIVE"):
        detail = f"{on_rail} (HCA port {rail['hca']} is {named['state']})"
        return answer.failed(_why_down(named), detail)
    if bound.findings:
        return _found(answer, on_rail, bound)
    if node_class == "hardware" and device.get("driver_class") in ("software", "virtual"):
        # Its bounds would be those of a link that nobody can hold to anything.
        seen = f"its driver {device.get('driver')} is {device['driver_class']}"
        return answer.failed("not_hardware", f"{where}: {seen}")
    if device.get("admin_up") is not True or device.get("carrier") is not True:
        return answer.unknown("link_unknown", where)
    if device.get("driver_class") not in ("hardware", "virtual", "software"):
        return answer.unknown(
            "facts_garbled", f"{node} {device['netdev']}: driver_class {device.get('driver_class')!r}"
        )
    if "speed_mbps" in wanted:
        if not is_number(speed) or speed <= 0:
            return answer.unknown("link_unknown", f"{where}: it states no speed")
        if speed != wanted["speed_mbps"]:
            seen = f"runs at {speed / 1000:g} Gbit/s, declared {rate:g}"
            return answer.failed("link_speed", f"{where} {seen}")
    if slow := slots.trained_low(device):
        return answer.failed("slot_slow", f"{where}: {slow}")
    if hardware and not is_number(rate):
        return _undeclared_speed(answer, where, device)
    return answer


def _why_down(port: Mapping[str, Any] | None) -> str:
    """Return the cause of a link that is down: a port in state Initializing waits for its subnet manager."""
    waits = port is not None and (port.get("state"), port.get("link_layer")) == ("INIT", "InfiniBand")
    return "sm_missing" if waits else "link_down"


def _undeclared_speed(answer: Answer, where: str, device: Mapping[str, Any]) -> Answer:
    """Hold a card's speed against what its port can do; the floors of bandwidth rest on that as well."""
    runs, most = _positive(device.get("speed_mbps")), _positive(device.get("speed_max_mbps"))
    answer.observed["speed_mbps"] = device.get("speed_mbps")
    if not most:
        return answer.recorded(
            f"{where} is up; its speed is recorded, not judged: the inventory declares no rate_gbps, and the "
            "driver does not tell what the port can do; declare rate_gbps of this rail",
        )
    answer.floor["speed_mbps"], answer.ceiling["speed_mbps"] = most, max(most, runs)
    if not runs:
        return answer.unknown("link_unknown", f"{where}: it states no speed")
    if runs < most:
        seen = f"runs at {runs / 1000:g} Gbit/s, its port can do {most / 1000:g}"
        return answer.failed("link_slow", f"{where} {seen}")
    return answer


def _positive(value: Any) -> float:
    return max(float(value), 0.0) if is_number(value) else 0.0


def _mtu(node: str, rail: Mapping[str, Any], bound: Bound) -> Answer:
    device = bound.netdev or {}
    seen = device.get("mtu_bytes")
    answer = Answer.passed({"mtu_bytes": seen}, {"mtu_bytes": rail["mtu"]}, "the inventory's MTU, exactly")
    if not isinstance(seen, int) or isinstance(seen, bool) or seen <= 0:
        return answer.unknown("facts_garbled", f"{node} {device['netdev']}: mtu_bytes {seen!r}")
    if seen != rail["mtu"]:
        limit = next((one for one in bound.findings if one.cause == "mtu_too_large"), None)
        if limit is not None:
            return answer.failed("mtu_too_large", f"{node} {rail['name']}: {limit.detail}")
        # A datagram netdev takes the MTU of its partition's multicast group, whatever it was given.
        clamped = device.get("ipoib_mode") == "datagram" and seen < rail["mtu"]
        detail = f"{node} {rail['name']} ({device['netdev']}) has {seen}, the plan's is {rail['mtu']}"
        return answer.failed("ipoib_mtu_small" if clamped else "mtu_differs", detail)
    return answer


def _address(node: str, rail: Mapping[str, Any], device: Mapping[str, Any], fleet: BoundFacts) -> Answer:
    planned = _planned(rail)
    where = f"{node} {rail['name']} ({device['netdev']})"
    try:
        seen = _interfaces(device.get("addresses")) + [
            one for one in _interfaces(device.get("addresses6")) if not one.ip.is_link_local
        ]
    except ValueError as error:
        answer = Answer(observed={"addresses": None}, basis="the plan's address, and no other")
        return answer.unknown("facts_garbled", f"{node} {device['netdev']}: {error}")
    texts = sorted(str(one) for one in seen)
    wanted = {"addresses": sorted(str(one) for one in planned)}
    answer = Answer.passed({"addresses": texts}, wanted, "the plan's address, and no other")
    missing = [one for one in planned if one not in seen]
    extra = [one for one in seen if one not in planned]
    others = sorted(
        {other for one in planned for other in fleet.owners.get(str(one.ip), []) if other != node}
    )
    if others:
        detail = f"{where}: {', '.join(str(one.ip) for one in planned)} is also on {', '.join(others)}"
        return answer.failed("address_duplicate", detail)
    if missing and extra:
        return answer.failed("address_wrong", f"{where} has {', '.join(texts)}, the plan's is {missing[0]}")
    if missing:
        return answer.failed("address_missing", f"{where} has no {missing[0]}")
    if extra:
        return answer.failed("address_extra", f"{where} also has {', '.join(str(one) for one in extra)}")
    if len(texts) != len(planned):
        return answer.unknown("facts_garbled", f"{where} names an address twice")
    return answer


_Interface = ipaddress.IPv4Interface | ipaddress.IPv6Interface


def _has_netdev(rail: Mapping[str, Any]) -> bool:
    """Tell whether the plan asks for a netdev at all: an InfiniBand port without IP needs none."""
    return bool(_planned(rail)) or any(rail.get(key) is not None for key in ("netdev", "mac", "pci"))


def _planned(rail: Mapping[str, Any]) -> list[_Interface]:
    return [ipaddress.ip_interface(rail[key]) for key in ("address", "address6") if rail.get(key)]


def _interfaces(values: object) -> list[_Interface]:
    """Return a facts row's addresses.

    Raises:
        ValueError: they are no list of addresses with prefix length.
    """
    if not isinstance(values, list) or not all(isinstance(value, str) and "/" in value for value in values):
        raise ValueError(f"addresses are {values!r}")
    return [ipaddress.ip_interface(value) for value in values]


def _all_addresses(row: Mapping[str, Any]) -> set[str]:
    found: set[str] = set()
    for device in row["netdevs"]:
        for key in ("addresses", "addresses6"):
            try:
                found |= {str(one.ip) for one in _interfaces(device.get(key)) if not one.ip.is_link_local}
            except ValueError:
                continue  # the address check of that netdev says so
    return found


def _problem(rows: Sequence[Mapping[str, Any]]) -> str | None:
    if len({json.dumps(row, sort_keys=True) for row in rows}) > 1:
        return "two rows of facts that differ"
    row = rows[0]
    if row.get("schema") != 1 or isinstance(row.get("schema"), bool):
        return f"schema is {row.get('schema')!r}, not 1"
    devices = row.get("netdevs")
    if not isinstance(devices, list) or not all(isinstance(device, Mapping) for device in devices):
        return "netdevs is no list"
    if not all(isinstance(device.get("netdev"), str) for device in devices):
        return "a netdev has no name"
    names = [device["netdev"] for device in devices]
    return "a netdev stands in it twice" if len(set(names)) < len(names) else None
