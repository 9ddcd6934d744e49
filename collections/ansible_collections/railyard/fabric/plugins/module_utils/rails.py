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
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Union

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]  # noqa: UP007 - see above
Unit = Union[int, str, None]  # noqa: UP007 - see above

# fmt: off
RAIL_KEYS = (
    "name", "netdev", "mac", "pci", "hca", "address", "address6", "subnet", "subnet6", "mtu", "gateway",
    "gateway6", "vlan", "rate_gbps", "leaf",
)
# fmt: on
_BOUND_BY = ("netdev", "mac", "pci", "hca")


class PlanError(ValueError):
    """What keeps a rail from being planned.

    Attributes:
        variable: dotted path of the variable at fault, as `fabric.rails[0].subnet` or `node_index`.
        rail: name of the rail, or None where the whole node is concerned.
        problem: what is wrong, in words that name no host (equal problems of many hosts fold into one).
        fix: what to write instead.
    """

    def __init__(self, variable: str, rail: str | None, problem: str, fix: str) -> None:
        self.variable, self.rail = variable, rail
        self.problem, self.fix = problem, fix
        where = variable if rail is None else f"{variable} (rail {rail})"
        super().__init__(f"{where}: {problem}. Fix: {fix}")


@lru_cache(maxsize=65536)
def network_of(text: str) -> Network:
    """Parse a subnet; the cache makes one object of a subnet that thousands of nodes share.

    Raises:
        ValueError: the text is no network, or has host bits set.
    """
    return ipaddress.ip_network(text)


def usable_range(network: Network) -> tuple[int, int]:
    """Return the lowest and highest address a node or gateway may have, as integers.

    IPv4: neither network nor broadcast address, except in a /31 (RFC 3021) or /32, which have none. IPv6: not
    the first address, which is the subnet-router anycast (RFC 4291), except in a /127 (RFC 6164) or /128.
    """
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.max_prefixlen - network.prefixlen >= 2:
        first += 1
        last -= 1 if network.version == 4 else 0
    return first, last


def address_text(network: Network, value: int) -> str:
    """Write an integer as an address of the network's family, without a prefix length."""
    return str(ipaddress.IPv4Address(value) if network.version == 4 else ipaddress.IPv6Address(value))


def node_number(name: str, node_index: int | None = None) -> int | None:
    """Return the node's index: `node_index`, else the number that ends the host's name, else None.

    The host's name is what stands before the first dot. A name that is an IP address has no such number. The
    place in the inventory is never used: it shifts when a node is added.

    Raises:
        PlanError: `node_index` is given and is no integer ≥ 0.
    """
    if node_index is not None:
        if isinstance(node_index, bool) or not isinstance(node_index, int) or node_index < 0:
            raise PlanError(
                "node_index",
                None,
                f"it is {node_index!r}, not a whole number ≥ 0",
                "write it as `node_index: 7`",
            )
        return int(node_index)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        match = re.search(r"([0-9]+)$", name.split(".", 1)[0])
        return int(match.group(1)) if match else None
    return None


def computed_subnet(supernet: str, rail_prefix: int, rail: int) -> str:
    """Return the `rail`-th subnet of length `rail_prefix` in `supernet`, counting from 0.

    Raises:
        PlanError: the supernet has no such subnet.
    """
    network = network_of(supernet)
    fits = network.prefixlen <= rail_prefix <= network.max_prefixlen
    if not fits or rail >> (rail_prefix - network.prefixlen):
        raise PlanError(
            "fabric.supernet",
            f"rail{rail}",
            f"{supernet} has no /{rail_prefix} number {rail} (counting from 0)",
            "take a larger supernet, or a longer rail_prefix",
        )
    base = int(network.network_address) + (rail << (network.max_prefixlen - rail_prefix))
    return f"{address_text(network, base)}/{rail_prefix}"


def rail_specs(fabric: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bring both forms of `fabric` to one: what each rail is, before a node is known.

    Returns:
        Per rail `name`, `netdev`, `mac`, `pci`, `hca`, `vlan`, `rate_gbps`, `leaf`, `mtu` (bytes), `subnets`
        and `subnets6` (unit as text → subnet; key None stands for all units), `gateway`, `gateway6` (`first`,
        `last`, an address or None) and `variable`, the path under which the inventory says so.

    Raises:
        PlanError: the supernet of the computed form is too small.
    """
    if fabric.get("rails") is not None:
        return [_explicit_spec(fabric, index, rail) for index, rail in enumerate(fabric["rails"])]
    return [_computed_spec(fabric, index) for index in range(int(fabric.get("rail_count") or 0))]


def _explicit_spec(fabric: Mapping[str, Any], index: int, rail: Mapping[str, Any]) -> dict[str, Any]:
    gateway, gateway6 = _rule(rail.get("gateway")), _rule(rail.get("gateway6"))
    if gateway is not None and ":" in gateway:
        gateway, gateway6 = None, gateway6 or gateway
    elif gateway in ("first", "last"):
        gateway6 = gateway6 or gateway
    return {
        "name": rail.get("name"),
        "netdev": rail.get("netdev"),
        "mac": _lower(rail.get("mac")),
        "pci": _lower(rail.get("pci")),
        "hca": rail.get("hca"),
        "vlan": rail.get("vlan"),
        "rate_gbps": rail.get("rate_gbps"),
        "leaf": rail.get("leaf"),
        "mtu": fabric.get("mtu"),
        "subnets": _by_unit(rail.get("subnet"), rail.get("subnets")),
        "subnets6": _by_unit(rail.get("subnet6"), rail.get("subnets6")),
        "gateway": gateway,
        "gateway6": gateway6,
        "variable": f"fabric.rails[{index}]",
    }


def _computed_spec(fabric: Mapping[str, Any], index: int) -> dict[str, Any]:
    subnets: dict[int, dict[str | None, str]] = {4: {}, 6: {}}
    if fabric.get("supernet") is not None and fabric.get("rail_prefix") is not None:
        subnet = computed_subnet(fabric["supernet"], fabric["rail_prefix"], index)
        subnets[network_of(subnet).version] = {None: subnet}
    gateway = _rule(fabric.get("gateway"))
    return {
        **dict.fromkeys(("mac", "pci", "vlan", "leaf")),
        "name": f"rail{index}",
        "netdev": _pattern(fabric.get("netdev_pattern"), index),
        "hca": _pattern(fabric.get("hca_pattern"), index),
        "rate_gbps": fabric.get("rate_gbps"),
        "mtu": fabric.get("mtu"),
        "subnets": subnets[4],
        "subnets6": subnets[6],
        "gateway": gateway,
        "gateway6": gateway,
        "variable": "fabric",
    }


def _path(spec: Mapping[str, Any], key: str, family: str) -> str:
    """Name the variable that gives a rail its subnet or gateway."""
    if spec["variable"] == "fabric":
        return "fabric.gateway" if key == "gateway" else "fabric.supernet"
    return f"{spec['variable']}.{key}{family}"


def _rule(gateway: str | None) -> str | None:
    return None if gateway in (None, "none") else str(gateway)


def _lower(text: str | None) -> str | None:
    return None if text is None else text.lower()


def _pattern(pattern: str | None, index: int) -> str | None:
    return None if pattern is None else pattern.replace("{rail}", str(index))


def _by_unit(one: str | None, many: Mapping[Any, str] | None) -> dict[str | None, str]:
    if one is not None:
        return {None: one}
    # YAML reads `1:` as a number and `su1:` as text: units are compared as text.
    return {str(unit): subnet for unit, subnet in (many or {}).items()}


def plan_rail(
    spec: Mapping[str, Any],
    number: int | None,
    host_offset: int = 0,
    scalable_unit: Unit = None,
    override: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
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
        PlanError: no address can be given, or the address is the gateway's.
    """
    override = override or {}
    rail: dict[str, Any] = dict.fromkeys(RAIL_KEYS)
    for key in ("name", "vlan", "rate_gbps", "leaf", "mtu"):
        rail[key] = spec[key]
    for key in _BOUND_BY:
        rail[key] = override[key] if key in override else spec[key]
    rail["mac"], rail["pci"] = _lower(rail["mac"]), _lower(rail["pci"])
    for family in ("", "6"):
        subnet = _subnet_of(spec, family, scalable_unit)
        override_text = override.get("address" + family)
        if override_text is not None:
            rail["address" + family] = _overriding_address(spec, family, subnet, override_text)
            subnet = subnet or str(ipaddress.ip_interface(override_text).network)
        elif subnet is not None:
            rail["address" + family] = _computed_address(spec, family, subnet, number, host_offset)
        rail["subnet" + family] = subnet
        rail["gateway" + family] = _gateway(spec, family, subnet, rail["address" + family])
    return rail


def _subnet_of(spec: Mapping[str, Any], family: str, unit: Unit) -> str | None:
    subnets: Mapping[str | None, str] = spec["subnets" + family]
    if not subnets or None in subnets:
        return subnets.get(None)
    variable = _path(spec, "subnets", family)
    known = ", ".join(sorted(str(known_unit) for known_unit in subnets))
    if unit is None:
        raise PlanError(
            "scalable_unit",
            spec["name"],
            f"{variable} holds a subnet per scalable unit, and the node names none",
            f"set the host variable scalable_unit to one of: {known}",
        )
    if str(unit) not in subnets:
        raise PlanError(
            variable,
            spec["name"],
            f"there is no subnet for scalable_unit {unit}",
            f"add it (now there: {known}), or correct the node's scalable_unit",
        )
    return subnets[str(unit)]


def _computed_address(
    spec: Mapping[str, Any], family: str, subnet: str, number: int | None, host_offset: int
) -> str:
    if number is None:
        raise PlanError(
            "node_index",
            None,
            "the host's name ends in no number and node_index is not set, so no address can be computed",
            "set the host variable node_index (a number that stays when nodes are added)",
        )
    network = network_of(subnet)
    first, last = usable_range(network)
    base = int(network.network_address)
    value = base + host_offset + number
    if not first <= value <= last:
        raise PlanError(
            _path(spec, "subnet", family),
            spec["name"],
            f"host_offset + node_index must be {first - base} to {last - base} in {subnet} (network, "
            f"broadcast and anycast addresses belong to no node); host_offset is {host_offset}",
            "take a larger subnet, or correct host_offset or node_index",
        )
    return f"{address_text(network, value)}/{network.prefixlen}"


def _overriding_address(spec: Mapping[str, Any], family: str, subnet: str | None, text: str) -> str:
    variable = f"rail_overrides.{spec['name']}.address{family}"
    version = 6 if family else 4
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        interface = None
    if interface is None or "/" not in text or interface.version != version:
        raise PlanError(
            variable,
            spec["name"],
            f"{text!r} is no IPv{version} address with its prefix length",
            "write it as %s" % ("fd00:1::77/64" if family else "10.0.1.77/24"),
        )
    network = interface.network if subnet is None else network_of(subnet)
    first, last = usable_range(network)
    if interface.network != network or not first <= int(interface.ip) <= last:
        raise PlanError(
            variable,
            spec["name"],
            f"{text} is no usable address of the rail's subnet {network}",
            f"take a free address of {network}, with that prefix length",
        )
    return str(interface)


def _gateway(spec: Mapping[str, Any], family: str, subnet: str | None, address: str | None) -> str | None:
    rule = spec["gateway" + family]
    if rule is None:
        return None
    variable = _path(spec, "gateway", family)
    if subnet is None:
        # `first` and `last` speak of every family that has a subnet; an address names one.
        if rule in ("first", "last"):
            return None
        raise PlanError(
            variable, spec["name"], "there is a gateway, but no subnet that it could be in", "add one"
        )
    network = network_of(subnet)
    first, last = usable_range(network)
    if rule in ("first", "last"):
        value = first if rule == "first" else last
    else:
        gateway = ipaddress.ip_address(rule)
        value = int(gateway)
        if gateway.version != network.version or not first <= value <= last:
            raise PlanError(
                variable,
                spec["name"],
                f"gateway {rule} is no usable address of {subnet}",
                "name an address inside the subnet, or first, last or none",
            )
    text = address_text(network, value)
    if address is not None and address.split("/", 1)[0] == text:
        raise PlanError(
            variable,
            spec["name"],
            f"gateway {text} is also a node's own address",
            "move the nodes (host_offset) or the gateway (last in place of first)",
        )
    return text


def plan_node(
    fabric: Mapping[str, Any],
    name: str,
    node_index: int | None = None,
    scalable_unit: Unit = None,
    rail_overrides: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Plan all rails of one node: a function of `fabric` and the node's own variables, of nothing else.

    Returns:
        One dict per rail, in the order of the fabric, each with all of `RAIL_KEYS` (see `plan_rail`).

    Raises:
        PlanError: the first thing that keeps a rail from being planned.
    """
    overrides = rail_overrides or {}
    number = node_number(name, node_index)
    specs = rail_specs(fabric)
    strangers = sorted(set(overrides) - {spec["name"] for spec in specs})
    if strangers:
        raise PlanError(
            f"rail_overrides.{strangers[0]}",
            strangers[0],
            "the fabric has no such rail",
            "correct the rail's name",
        )
    for spec in specs:
        if fabric.get("transport") != "infiniband" and not spec["subnets"] and not spec["subnets6"]:
            raise PlanError(
                spec["variable"], spec["name"], "the rail has no subnet", "add `subnet: 10.0.1.0/24`"
            )
    host_offset = int(fabric.get("host_offset") or 0)
    return [
        plan_rail(spec, number, host_offset, scalable_unit, overrides.get(spec["name"])) for spec in specs
    ]
