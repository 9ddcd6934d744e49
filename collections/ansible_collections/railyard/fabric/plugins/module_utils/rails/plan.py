# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The address rule: from `fabric` and a node's own variables to that node's rails.

This is the only place in Railyard where a rail's address is computed. It is pure and uses the standard
library alone, since the filter (roles), the plan (controller) and the runner (node) must all get the same
answer.
It trusts that preflight has looked at keys and types; what it cannot compute it refuses with `PlanError`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Union, cast

from ..catalogue.tests import WITHOUT_IP
from ..documents import Rail
from .addresses import (
    Network,
    PlanError,
    address_text,
    computed_subnet,
    host_address,
    network_of,
    node_network,
    node_number,
    usable_range,
)
from .gateways import beside_gateway, gateway_of, gateway_rule, gateway_rules, overriding_address, variable_of
from .routes import UnitNetworks, routes_of

# What other parts of Railyard know under this module's name.
__all__ = [
    "ABSENT",
    "RAIL_KEYS",
    "Network",
    "PlanError",
    "absent_rails",
    "address_text",
    "computed_subnet",
    "network_of",
    "node_number",
    "plan_node",
    "plan_rail",
    "rail_specs",
    "usable_range",
]

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Unit = Union[int, str, None]  # noqa: UP007 - see above

# fmt: off
#: What only rails have of which it is true: a wire that is shared, a subnet of which each node has a part.
_OF_SOME = ("shares_wire_with", "divided_subnet", "divided_subnet6")
RAIL_KEYS = tuple(key for key in Rail.__annotations__ if key not in _OF_SOME)
# fmt: on
_BOUND_BY = ("netdev", "mac", "pci", "hca")
ROUTE_TABLE_BASE = 6100
#: In `rail_overrides` in place of a mapping: the node lacks this rail.
ABSENT = "absent"
BOND_REFUSED = "is on a bond: one RDMA connection is one flow, so a bond gives it one port's rate"
BOND_FIX = (
    "make each port of the bond a rail of its own, with its own subnet; or declare the bond of one card's "
    "ports (RoCE LAG), as `bond: {mode: 802.3ad, ports: [ens1f0np0, ens1f1np1]}`"
)


def rail_specs(fabric: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring both forms of `fabric` to one: what each rail is, before a node is known.

    Returns:
        Per rail `name`, `netdev`, `mac`, `pci`, `hca`, `vlan`, `rate_gbps`, `leaf`, `leaves`, `mtu` (bytes),
        `subnets` and `subnets6` (unit as text → subnet; key None stands for all units), `units` and `units6`
        (the same as `UnitNetworks`, from which routes are made), `gateway`, `gateway6`
        (`first`, `last`, `none`, an address or None), `node_prefix` and `node_prefix6` (prefix length of each
        node's own part of the subnet, or None where the nodes share it), `routes` (networks behind the
        gateway), `table` (number of the rail's routing table), `ipoib_mode`, `link_local`, `accept_ra`,
        `bond`, `shares_wire_with` (the rail on the same wire, or None) and `variable`, the path
        under which the inventory says so.

    Raises:
        PlanError: the supernet of the computed form is too small.
    """
    if fabric.get("rails") is not None:
        specs = [_explicit_spec(fabric, index, rail) for index, rail in enumerate(fabric["rails"])]
    else:
        specs = [_computed_spec(fabric, index) for index in range(int(fabric.get("rail_count") or 0))]
    wires = {spec["name"]: spec["shares_wire_with"] for spec in specs if spec.get("shares_wire_with")}
    # One of the two is enough to say it.
    wires |= {other: name for name, other in wires.items() if other not in wires}
    base = fabric.get("route_table_base")
    link_local = fabric.get("link_local")
    for index, spec in enumerate(specs):
        spec["table"] = (ROUTE_TABLE_BASE if base is None else int(base)) + index
        spec["link_local"] = ["ipv6"] if link_local is None else list(link_local)
        spec["accept_ra"] = bool(fabric.get("accept_ra"))
        spec["shares_wire_with"] = wires.get(spec["name"])
        for family in ("", "6"):
            spec["units" + family] = UnitNetworks(spec["subnets" + family])
    return specs


def _ipoib_mode(fabric: Mapping[str, Any], own: str | None) -> str | None:
    if fabric.get("transport") != "infiniband":
        return None
    return str(own or fabric.get("ipoib_mode") or "datagram")


def _explicit_spec(fabric: Mapping[str, Any], index: int, rail: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": rail.get("name"),
        "netdev": rail.get("netdev"),
        "mac": _lower(rail.get("mac")),
        "pci": _lower(rail.get("pci")),
        "hca": rail.get("hca"),
        "vlan": rail.get("vlan"),
        "rate_gbps": rail.get("rate_gbps"),
        "leaf": rail.get("leaf"),
        "shares_wire_with": rail.get("shares_wire_with"),
        "leaves": {str(unit): leaf for unit, leaf in (rail.get("leaves") or {}).items()},
        "mtu": fabric.get("mtu"),
        "subnets": _by_unit(rail.get("subnet"), rail.get("subnets")),
        "subnets6": _by_unit(rail.get("subnet6"), rail.get("subnets6")),
        **gateway_rules(rail),
        "node_prefix": rail.get("node_prefix"),
        "node_prefix6": rail.get("node_prefix6"),
        "routes": [str(network_of(target)) for target in rail.get("routes") or []],
        "ipoib_mode": _ipoib_mode(fabric, rail.get("ipoib_mode")),
        "bond": rail.get("bond"),
        "variable": f"fabric.rails[{index}]",
    }


def _computed_spec(fabric: Mapping[str, Any], index: int) -> dict[str, Any]:
    subnets: dict[int, dict[str | None, str]] = {4: {}, 6: {}}
    if fabric.get("supernet") is not None and fabric.get("rail_prefix") is not None:
        subnet = computed_subnet(fabric["supernet"], fabric["rail_prefix"], index)
        subnets[network_of(subnet).version] = {None: subnet}
    gateway = fabric.get("gateway")
    routes = [
        computed_subnet(other, fabric["rail_prefix"], index, "fabric.rail_routes")
        for other in fabric.get("rail_routes") or []
    ]
    return {
        **dict.fromkeys(("mac", "pci", "vlan", "leaf", "bond")),
        "name": f"rail{index}",
        "netdev": _pattern(fabric.get("netdev_pattern"), index),
        "hca": _pattern(fabric.get("hca_pattern"), index),
        "rate_gbps": fabric.get("rate_gbps"),
        "leaves": {},
        "mtu": fabric.get("mtu"),
        "subnets": subnets[4],
        "subnets6": subnets[6],
        "gateway": gateway,
        "gateway6": gateway,
        # The supernet is of one family, and so is the length of its parts.
        "node_prefix": fabric.get("node_prefix"),
        "node_prefix6": fabric.get("node_prefix"),
        "routes": routes,
        "ipoib_mode": _ipoib_mode(fabric, None),
        "variable": "fabric",
    }


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _pattern(pattern: str | None, index: int) -> str | None:
    return None if pattern is None else pattern.replace("{rail}", str(index))


def _by_unit(one: str | None, many: Mapping[Any, str] | None) -> dict[str | None, str]:
    # One spelling of a network, so that equal ones are equal text (IPv6 has many).
    if one is not None:
        return {None: str(network_of(one))}
    # YAML reads `1:` as a number and `su1:` as text: units are compared as text.
    return {str(unit): str(network_of(subnet)) for unit, subnet in (many or {}).items()}


def plan_rail(
    spec: Mapping[str, Any],
    number: int | None,
    host_offset: int = 0,
    scalable_unit: Unit = None,
    override: Mapping[str, Any] | None = None,
) -> Rail:
    """Plan one rail of one node.

    Args:
        spec: one element of `rail_specs`.
        number: the node's index (`node_number`); may be None where no address is computed from it.
        host_offset: address = network + host_offset + number.
        scalable_unit: the node's unit, wanted where the rail has a subnet per unit.
        override: this rail's part of the node's `rail_overrides`.

    Returns:
        A dict with all of `RAIL_KEYS`; what is unknown is None; addresses are in CIDR form, gateways bare.

    Raises:
        PlanError: no address can be given, the address is the gateway's, a route has no gateway, or `bond` is
            no mapping.
    """
    override = override or {}
    if not isinstance(override, Mapping):
        fix = f"write a mapping, as {{netdev: ens7}}, or {ABSENT} where the node lacks the rail"
        raise PlanError(f"rail_overrides.{spec['name']}", spec["name"], f"it is {override!r}", fix)
    bond = spec["bond"]
    if bond is not None and not isinstance(bond, Mapping):
        raise PlanError(f"{spec['variable']}.bond", spec["name"], f"the rail {BOND_REFUSED}", BOND_FIX)
    rail: dict[str, Any] = dict.fromkeys(RAIL_KEYS)
    rail["bond"] = None if bond is None else {"mode": bond["mode"], "ports": list(bond["ports"])}
    for key in ("name", "vlan", "rate_gbps", "leaf", "mtu", "accept_ra"):
        rail[key] = spec[key]
    if spec.get("shares_wire_with") is not None:
        rail["shares_wire_with"] = spec["shares_wire_with"]
    rail["link_local"] = list(spec["link_local"])
    if spec["leaves"]:
        rail["leaf"] = _of_unit(spec, "leaves", f"{spec['variable']}.leaves", scalable_unit, "leaf")
    for key in _BOUND_BY:
        rail[key] = override[key] if key in override else spec[key]
    rail["mac"], rail["pci"] = _lower(rail["mac"]), _lower(rail["pci"])
    for family in ("", "6"):
        subnet, rule = _subnet_of(spec, family, scalable_unit), gateway_rule(spec, override, family)
        override_text = override.get("address" + family)
        variable, of_node = variable_of(spec, "subnet", family), spec["node_prefix" + family]
        if subnet is not None and of_node is not None:
            rail["divided_subnet" + family] = subnet
        if override_text is not None:
            rail["address" + family] = overriding_address(spec, family, subnet, override_text)
            subnet = str(ipaddress.ip_interface(override_text).network)
        elif subnet is not None and of_node is not None:
            subnet = node_network(variable, spec["name"], subnet, of_node, number, host_offset)
            rail["address" + family] = beside_gateway(subnet, gateway_of(spec, family, rule, subnet, None))
        elif subnet is not None:
            rail["address" + family] = host_address(variable, spec["name"], subnet, number, host_offset)
        rail["subnet" + family] = subnet
        rail["gateway" + family] = gateway_of(spec, family, rule, subnet, rail["address" + family])
        # A rail with `gateway: none` and node_prefix is an error of the schema already.
        alone = rail["gateway" + family] is None and spec["gateway" + family] != "none"
        if alone and of_node is not None and subnet is not None:
            raise PlanError(
                rule.variable,
                spec["name"],
                f"each node has a /{of_node} of its own on the rail, and no gateway leads to the others",
                "write first or last at the rail, or the leaf's address in the node's rail_overrides",
            )
    if rail["address"] is not None or rail["address6"] is not None:
        # The site manages a bond's network: it has no table of Railyard.
        rail["table"] = spec["table"] if rail["bond"] is None else None
        rail["ipoib_mode"] = spec["ipoib_mode"]
    rail["routes"] = routes_of(spec, rail)
    return cast("Rail", rail)


def _subnet_of(spec: Mapping[str, Any], family: str, unit: Unit) -> str | None:
    subnets: Mapping[str | None, str] = spec["subnets" + family]
    if not subnets or None in subnets:
        return subnets.get(None)
    return _of_unit(spec, "subnets" + family, variable_of(spec, "subnets", family), unit, "subnet")


def _of_unit(spec: Mapping[str, Any], key: str, variable: str, unit: Unit, what: str) -> str:
    known = ", ".join(sorted(str(known_unit) for known_unit in spec[key]))
    if unit is None:
        raise PlanError(
            "scalable_unit",
            spec["name"],
            f"{variable} holds a {what} per scalable unit, and the node names none",
            f"set the host variable scalable_unit to one of: {known}",
        )
    if str(unit) not in spec[key]:
        raise PlanError(
            variable,
            spec["name"],
            f"there is no {what} for scalable_unit {unit}",
            f"add it (now there: {known}), or correct the node's scalable_unit",
        )
    return str(spec[key][str(unit)])


def plan_node(
    fabric: Mapping[str, Any],
    name: str,
    node_index: int | None = None,
    scalable_unit: Unit = None,
    rail_overrides: Mapping[str, Any] | None = None,
    specs: Sequence[Mapping[str, Any]] | None = None,
) -> list[Rail]:
    """Plan all rails of one node: a function of `fabric` and the node's own variables, of nothing else.

    Args:
        fabric: what the inventory says of the fabric.
        name: the node's name.
        node_index: its index, where the inventory gives one.
        scalable_unit: its unit, where there are units.
        rail_overrides: what is different for this node, by rail; `absent` where it lacks the rail.
        specs: `rail_specs(fabric)`, where it is known already: it grows with the number of units.

    Returns:
        One dict per rail that the node has, in the order of the fabric, each with all of `RAIL_KEYS` (see
        `plan_rail`).

    Raises:
        PlanError: the first thing that keeps a rail from being planned.
    """
    overrides = rail_overrides or {}
    number = node_number(name, node_index)
    specs = rail_specs(fabric) if specs is None else specs
    strangers = sorted(set(overrides) - {spec["name"] for spec in specs}, key=str)
    if strangers:
        raise PlanError(
            f"rail_overrides.{strangers[0]}",
            strangers[0],
            "the fabric has no such rail",
            "correct the rail's name",
        )
    for spec in specs:
        if fabric.get("transport") not in WITHOUT_IP and not spec["subnets"] and not spec["subnets6"]:
            raise PlanError(
                spec["variable"], spec["name"], "the rail has no subnet", "add `subnet: 10.0.1.0/24`"
            )
    host_offset, lacking = int(fabric.get("host_offset") or 0), absent_rails(overrides)
    return [
        plan_rail(spec, number, host_offset, scalable_unit, overrides.get(spec["name"]))
        for spec in specs
        if spec["name"] not in lacking
    ]


def absent_rails(rail_overrides: object) -> set[str]:
    """Return the names of the rails that a node lacks, by its `rail_overrides`."""
    if not isinstance(rail_overrides, Mapping):
        return set()
    return {str(name) for name, override in rail_overrides.items() if override == ABSENT}
