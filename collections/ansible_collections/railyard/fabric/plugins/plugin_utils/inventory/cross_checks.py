# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the rails of a fabric and all nodes together, in linear time.

A value that the schema refuses is left out before planning, so that one bad key neither hides other errors
nor causes a second message about itself.
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import lag, plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import (
    host_variables,
    schema_checks,
    subnet_keys,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import overrides as override_checks
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import IPAddress, address_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.hardware import check_nvlink_domains
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines.yaml_nodes import steps_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Located, Node, Origin
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.networks import Networks, check_routes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.other_networks import OtherAddresses
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import SELECTORS, Finding, Item

UNDEFINED = "it is not defined"
BACK_TO_BACK_NODES_MAX = 2
# A refused value takes with it what means nothing without it.
_DEPENDENTS = {
    "subnet": ("gateway", "routes", "node_prefix"),
    "subnets": ("subnet", "gateway", "routes", "node_prefix"),
    "subnet6": ("gateway6", "gateway", "routes", "node_prefix6"),
    "subnets6": ("subnet6", "gateway6", "gateway", "routes", "node_prefix6"),
    "supernet": ("rail_prefix", "gateway", "rail_routes", "node_prefix"),
    "rail_prefix": ("supernet", "gateway", "rail_routes", "node_prefix"),
    # Without it, the size of the nodes' networks is unknown.
    "node_prefix": ("subnet", "subnets", "supernet", "rail_prefix", "gateway", "routes", "rail_routes"),
    "node_prefix6": ("subnet6", "subnets6", "gateway6", "routes"),
    "gateway": ("routes", "rail_routes"),
    "gateway6": ("routes",),
}

# Names of VLANs (decimal) and InfiniBand partitions (hexadecimal) on a port.
_CHILD = re.compile(r"\.([0-9]{1,4}|[0-9a-f]{4})$")
# In these, a refused inner value is left out alone; any other key is left out as a unit.
_PARTS = ("rails", "networks", "frontend")


@dataclass
class _Fabric:
    """One distinct fabric: its valid part, and where it comes from."""

    sound: dict[str, Any]
    specs: list[dict[str, Any]]
    origin: Origin
    nodes: int = 0


@dataclass
class _Seen:
    """What nodes have used so far: address, index or MAC → the node that has it."""

    addresses: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)
    gateways: dict[tuple[int, str], tuple[str, str, Origin]] = field(default_factory=dict)
    indexes: dict[tuple[int, str, int], str] = field(default_factory=dict)
    macs: dict[str, tuple[str, str]] = field(default_factory=dict)
    beside: OtherAddresses = field(default_factory=OtherAddresses)
    # Per rail the number of nodes that have it: of those cabled back to back, and of all.
    joined: Counter[str] = field(default_factory=Counter)
    having: Counter[str] = field(default_factory=Counter)
    # Rails whose subnets overlap others: that is reported; equal addresses that follow from it are not.
    overlapping: frozenset[str | None] = frozenset()


def check(nodes: Sequence[Node]) -> Iterator[Located]:
    """Yield the errors in nodes' fabrics and variables, with the groups that lead to the file."""
    fabrics: dict[int, _Fabric] = {}
    networks = Networks()
    for node in nodes:
        origin = Origin(node.groups, node.name)
        if node.fabric is None:
            fix = "define it in group_vars/all/fabric.yml (inventories/v100-pair shows one)"
            yield Finding("fabric", UNDEFINED, fix, node.name), origin
            continue
        if id(node.fabric) not in fabrics:
            findings = list(schema_checks.check_fabric(node.fabric))
            sound = _without_refused(node.fabric, findings)
            fabric = _Fabric(sound, _specs(sound), origin)
            fabrics[id(node.fabric)] = fabric
            networks.add(sound, fabric.specs, origin)
            findings += _check_interfaces(fabric.specs, fabric, set())
            findings += check_routes(sound, fabric.specs, fabric.origin)
            yield from ((finding, origin) for finding in findings)
        fabrics[id(node.fabric)].nodes += 1
    yield from _check_sharing(fabrics.values())
    yield from networks.unlike
    overlaps = list(networks.overlaps())
    yield from overlaps
    seen = _Seen(overlapping=frozenset(finding.rail for finding, _origin in overlaps))
    for node in nodes:
        if node.fabric is not None:
            for finding in _check_node(node, fabrics[id(node.fabric)], networks, seen):
                yield replace(finding, host=node.name), Origin(node.groups, node.name)
    yield from _check_rails_of_nodes(list(fabrics.values()), seen)
    yield from _check_gateways(seen)
    yield from check_nvlink_domains(nodes)
    yield from subnet_keys.check_nodes(nodes)


def _without_refused(fabric: Any, findings: Sequence[Finding]) -> dict[str, Any]:
    """Copy a fabric without the values that findings are about; an item that is no mapping becomes empty."""
    if not isinstance(fabric, Mapping):
        return {}
    named = [path for finding in findings for path in (finding.variable, finding.meant) if path]
    refused = [steps for path in named if (steps := steps_of(path)[1:])]
    top = {
        steps[0]
        for steps in refused
        if len(steps) == 1 or steps[0] not in _PARTS or not isinstance(fabric.get(steps[0]), (Mapping, list))
    }
    top = _with_dependents(top)
    sound = {key: value for key, value in fabric.items() if key not in top}
    for key in ("rails", "networks"):
        if key in sound and isinstance(sound[key], list):
            sound[key] = [
                _item_without(
                    item, {steps[2] for steps in refused if steps[:2] == [key, str(index)] and steps[2:]}
                )
                for index, item in enumerate(sound[key])
            ]
    if "frontend" in sound:
        gone = {steps[1] for steps in refused if steps[0] == "frontend" and steps[1:]}
        sound["frontend"] = _item_without(sound["frontend"], gone)
    return sound


def _item_without(item: Any, refused: set[str]) -> dict[str, Any]:
    if not isinstance(item, Mapping):
        return {}
    gone = _with_dependents(refused)
    # Without its refused gateway a rail would seem to lack one: there, `none` says that none is missed.
    none = {key: "none" for key in ("gateway", "gateway6") if key in gone}
    return {**{key: value for key, value in item.items() if key not in gone}, **none}


def _with_dependents(keys: set[str]) -> set[str]:
    return keys.union(*(_DEPENDENTS.get(key, ()) for key in keys))


def _specs(sound: Item) -> list[dict[str, Any]]:
    try:
        return plan.rail_specs(sound)
    except plan.PlanError:
        return []  # the schema has reported that the supernet is too small


def _check_interfaces(specs: Sequence[Item], fabric: _Fabric, overridden: set[str]) -> Iterator[Finding]:
    """Check that each rail has its own interface; with overrides, only what these change."""
    others = [
        (item.get("netdev"), f"network {item.get('name')}") for item in fabric.sound.get("networks") or []
    ]
    others.append(((fabric.sound.get("frontend") or {}).get("netdev"), "the frontend"))
    taken = {_port(netdev): owner for netdev, owner in others if netdev is not None}
    for key in SELECTORS:
        owners: dict[str, tuple[str, str]] = {}
        for spec, value in _named_by(specs, key):
            name = str(spec["name"])
            # The two ports of a ConnectX-3 share their PCI address; another key has to distinguish them.
            if value is None or (key == "pci" and any(spec[more] for more in ("netdev", "mac", "hca"))):
                continue
            port = _port(value) if key == "netdev" else value
            other, other_value = owners.setdefault(port, (name, value))
            # With overrides, what an override has changed is the place to look, whichever rail comes first.
            named = other if overridden and name not in overridden else name
            variable = f"{spec.get('variable', 'fabric')}.{key}"
            if variable == f"fabric.{key}":
                variable = f"rail_overrides.{named}.{key}" if overridden else f"fabric.{key}_pattern"
            if other != name and (not overridden or {name, other} & overridden):
                rival = other if named == name else name
                message = f"{key} {value} is also that of rail {rival}"
                if other_value != value:
                    message = f"netdevs {other_value} and {value} are on one port, and rail {rival} has it"
                fix = "give each rail its own interface"
                if key == "pci":
                    fix += "; where two ports share the address, name each by netdev as well"
                yield Finding(variable, message, fix, None, named)
            if key == "netdev" and port in taken and (not overridden or name in overridden):
                message = f"netdev {value} is that of {taken[port]}"
                fix = "use a rail's interface for nothing else: change one of the two"
                yield Finding(variable, message, fix, None, name)


def _named_by(specs: Sequence[Item], key: str) -> Iterator[tuple[Item, Any]]:
    """Yield rails with the names of their interfaces, of a bond also its ports, which are reserved."""
    for spec in specs:
        yield spec, spec[key]
        if key == "netdev":
            yield from ((spec, port) for port in lag.ports(spec))


def _port(netdev: str) -> str:
    """Return the port that carries a netdev: of a VLAN or an InfiniBand partition, what is before its dot."""
    return _CHILD.sub("", netdev)


def _check_rails_of_nodes(fabrics: Sequence[_Fabric], seen: _Seen) -> Iterator[Located]:
    """Check how many nodes have each rail: a cable has two ends, and a rail needs at least one node."""
    nodes = max(seen.joined.values(), default=0)
    if nodes > BACK_TO_BACK_NODES_MAX:
        joined = next((one for one in fabrics if one.sound.get("cabling") == "back_to_back"), fabrics[0])
        message = f"back_to_back joins at most {BACK_TO_BACK_NODES_MAX} nodes, and there are {nodes}"
        yield Finding("fabric.cabling", message, "write switched, or remove nodes"), joined.origin
    for fabric in fabrics:
        for spec in fabric.specs:
            if spec["name"] is not None and not seen.having[spec["name"]]:
                variable = spec["variable"] if spec["variable"] != "fabric" else "fabric.rail_count"
                message = "every node lacks this rail (rail_overrides), so the rail does not exist"
                fix = "remove the rail, or `absent` at the nodes that have it"
                yield Finding(variable, message, fix, None, spec["name"]), fabric.origin


def _check_sharing(fabrics: Iterable[_Fabric]) -> Iterator[Located]:
    """Check values that depend on the number of nodes."""
    for fabric in fabrics:
        address = (fabric.sound.get("frontend") or {}).get("address")
        if address is not None and fabric.nodes > 1:
            message = f"{address} would be the address of {fabric.nodes} nodes"
            fix = "use dhcp4: true, or a fabric per node"
            yield Finding("fabric.frontend.address", message, fix), fabric.origin


def _check_node(node: Node, fabric: _Fabric, networks: Networks, seen: _Seen) -> Iterator[Finding]:
    """Check one node's variables, plan its rails, and record what it uses."""
    findings = list(host_variables.check_host_variables(node))
    yield from findings
    yield from _check_ansible_host(node, networks)
    if not any(finding.variable == "management_address" for finding in findings):
        yield from _check_management_address(node, networks)
    overrides = override_checks.sound(node.rail_overrides)
    specs = [spec for spec in fabric.specs if spec["name"] is not None]
    names = {spec["name"] for spec in specs}
    lacking = plan.absent_rails(node.rail_overrides)
    # A rail without a name, or a fabric without rails, is reported elsewhere.
    is_complete = bool(specs) and len(specs) == len(fabric.specs)
    for unknown in sorted((set(overrides) | lacking) - names) if is_complete else ():
        fix = f"correct the name; rails: {', '.join(sorted(names))}"
        yield Finding(f"rail_overrides.{unknown}", "the fabric has no such rail", fix, None, unknown)
    yield from override_checks.check_absent(specs, lacking)
    specs = [spec for spec in specs if spec["name"] not in lacking]
    seen.having.update(spec["name"] for spec in specs)
    if fabric.sound.get("cabling") == "back_to_back":
        seen.joined.update(spec["name"] for spec in specs)
    if any(steps_of(finding.variable)[0] in ("node_index", "scalable_unit") for finding in findings):
        return  # every address would be a guess
    number = plan.node_number(node.name, node.node_index)
    offset = fabric.sound.get("host_offset") or 0
    planned, reported = [], set()
    for spec in specs:
        try:
            planned.append(
                plan.plan_rail(spec, number, offset, node.scalable_unit, overrides.get(spec["name"]))
            )
        except plan.PlanError as error:
            if (error.variable, error.problem, error.rail) not in reported:
                yield Finding(error.variable, error.problem, error.fix, None, error.rail)
            reported.add((error.variable, error.problem, error.rail))
    if overrides:
        yield from _check_interfaces(planned, fabric, set(overrides))
        yield from override_checks.check(fabric.sound, specs, planned, overrides, networks)
    twin = yield from _check_taken(node, number, planned, overrides, fabric, seen)
    refused = frozenset(steps_of(finding.variable)[0] for finding in findings)
    for finding in seen.beside.check(node, fabric.sound, networks, refused, twin):
        if (finding.variable, finding.message, finding.rail) not in reported:
            yield finding


def _check_ansible_host(node: Node, networks: Networks) -> Iterator[Finding]:
    address = address_of(node.ansible_host or "")
    if address is None:
        return  # a name: only a resolver knows its address
    claim, route = networks.rail_with(address), networks.route_with(address)
    if claim is None and route is not None:
        message = f"it is inside {route.network}, {route.owner}: answers to Ansible would leave by it"
        fix = "route only to the fabric's networks, not to the network that Ansible connects over"
        yield Finding("ansible_host", message, fix, None, route.rail)
    if claim is not None:
        message = (
            f"{address} is inside {claim.network} of {claim.owner}: Ansible would cut its own connection"
        )
        fix = "connect over the frontend; a rail carries only the fabric's traffic"
        yield Finding("ansible_host", message, fix, None, claim.rail)


def _check_management_address(node: Node, networks: Networks) -> Iterator[Finding]:
    if node.management_address is None:
        return
    address = ipaddress.ip_address(node.management_address)
    claim = networks.rail_with(IPAddress(node.management_address))
    if claim is not None:
        message = (
            f"{address} is inside {claim.network} of {claim.owner}: the control channel must not use a rail"
        )
        fix = "name the node's address on the management network"
        yield Finding("management_address", message, fix, None, claim.rail)
    local = address.is_loopback or address.is_link_local or address.is_unspecified
    if local or address.is_multicast or (address.version == 4 and address.is_reserved):
        message = f"{address} is not an address at which another node can reach this one"
        yield Finding("management_address", message, "name the node's address on the management network")


def _check_taken(
    node: Node,
    number: int | None,
    planned: Sequence[Item],
    overrides: Mapping[str, Item],
    fabric: _Fabric,
    seen: _Seen,
) -> Generator[Finding, None, str | None]:
    """Check that no other node has this node's index, addresses or MACs; return the one with its index."""
    twin = None
    computed = any(
        rail[key] is not None and overrides.get(rail["name"], {}).get(key) is None
        for rail in planned
        for key in ("address", "address6")
    )
    if computed and number is not None:
        twin = seen.indexes.setdefault((id(fabric), str(node.scalable_unit), number), node.name)
        if twin != node.name:
            fix = "give each node its own node_index (default: the number at the end of its name)"
            yield Finding("node_index", f"index {number} is also that of {twin}", fix)
    origin = Origin(node.groups, node.name)
    declared = {spec["name"]: spec["variable"] for spec in fabric.specs}
    for rail in planned:
        name = rail["name"]
        for family, version in (("", 4), ("6", 6)):
            address = rail["address" + family]
            if rail["gateway" + family] is not None:
                gateway = (version, rail["gateway" + family])
                where = "rail_overrides." + name if overrides.get(name, {}).get("gateway") else declared[name]
                seen.gateways.setdefault(gateway, (name, f"{where}.gateway", origin))
            if address is None:
                continue
            override = overrides.get(name, {}).get("address" + family) is not None
            bare = address.split("/", 1)[0]
            other, other_rail = seen.addresses.setdefault((version, bare), (node.name, name))
            if (other, other_rail) == (node.name, name) or (other == twin != node.name and not override):
                continue
            if name == other_rail or not seen.overlapping & {name, other_rail}:
                variable = f"rail_overrides.{name}.address{family}" if override else "node_index"
                message = f"address {bare} is already that of {other} on rail {other_rail}"
                fix = "change the node_index or the override of one of them"
                yield Finding(variable, message, fix, None, name)
        if rail["mac"] is not None:
            other, other_rail = seen.macs.setdefault(rail["mac"], (node.name, name))
            if other != node.name:
                is_override = overrides.get(name, {}).get("mac") is not None
                variable = f"rail_overrides.{name}.mac" if is_override else f"{declared[name]}.mac"
                message = f"MAC {rail['mac']} is already that of {other} on rail {other_rail}"
                fix = "a MAC belongs to one interface: set it in the rail_overrides of its node"
                yield Finding(variable, message, fix, None, name)
    return twin if twin != node.name else None


def _check_gateways(seen: _Seen) -> Iterator[Located]:
    """Check that no gateway is the address of another node; the address rule checks its own node."""
    for (version, gateway), (rail, variable, origin) in seen.gateways.items():
        owner = seen.addresses.get((version, gateway))
        if owner is not None:
            message = f"gateway {gateway} of rail {rail} is the address of {owner[0]} on rail {owner[1]}"
            fix = "move the nodes (host_offset, node_index) or the gateway"
            yield Finding(variable, message, fix, owner[0], rail), origin
