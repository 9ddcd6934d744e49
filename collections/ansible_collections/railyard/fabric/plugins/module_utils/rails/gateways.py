# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A rail's gateway at one node, and what of the node's address depends on it."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import Any, NamedTuple

from .addresses import PlanError, address_text, network_of, usable_range


def gateway_rules(item: Mapping[str, Any]) -> dict[str, str | None]:
    """Return `gateway` and `gateway6` of a rail or override; `first`, `last`, `none` are of both families."""
    gateway, gateway6 = item.get("gateway"), item.get("gateway6")
    if gateway is not None and ":" in gateway:
        gateway, gateway6 = None, gateway6 or gateway
    elif gateway in ("first", "last", "none"):
        gateway6 = gateway6 or gateway
    return {"gateway": gateway, "gateway6": gateway6}


def variable_of(spec: Mapping[str, Any], key: str, family: str) -> str:
    """Name the variable that gives a rail its subnet or gateway."""
    if spec["variable"] == "fabric":
        return "fabric.gateway" if key == "gateway" else "fabric.supernet"
    return f"{spec['variable']}.{key}{family}"


def overriding_address(spec: Mapping[str, Any], family: str, subnet: str | None, text: str) -> str:
    """Return the address that a node's `rail_overrides` give it, in CIDR form.

    Raises:
        PlanError: it is no address that a node may have in the rail's subnet.
    """
    refuse = functools.partial(PlanError, f"rail_overrides.{spec['name']}.address{family}", spec["name"])
    version = 6 if family else 4
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        interface = None
    if interface is None or "/" not in text or interface.version != version:
        raise refuse(
            f"{text!r} is no IPv{version} address with its prefix length",
            "write it as %s" % ("fd00:1::77/64" if family else "10.0.1.77/24"),
        )
    network = interface.network if subnet is None else network_of(subnet)
    whole, of_node = network, spec["node_prefix" + family]
    own: Any = interface.network
    fits = own == whole
    if of_node is not None:
        # The node's own part of the subnet is where the address says.
        network, fits = own, own.prefixlen == of_node and own.subnet_of(whole)
    first, last = usable_range(network)
    if not fits or not first <= int(interface.ip) <= last:
        length = "that prefix length" if of_node is None else f"prefix length {of_node} (node_prefix)"
        raise refuse(
            f"{text} is no usable address of the rail's subnet {whole}",
            f"take a free address of {whole}, with {length}",
        )
    return str(interface)


class Rule(NamedTuple):
    """`first`, `last`, `none`, an address or None, and the variable that says so."""

    value: str | None
    variable: str


def gateway_rule(spec: Mapping[str, Any], override: Mapping[str, Any], family: str) -> Rule:
    """Return what the inventory says of a node's gateway on a rail: the override before the rail."""
    own = gateway_rules(override)["gateway" + family]
    if own is not None:
        # `first` under `gateway` is that of both families.
        key = f"gateway{family}" if override.get(f"gateway{family}") is not None else "gateway"
        return Rule(own, f"rail_overrides.{spec['name']}.{key}")
    return Rule(spec["gateway" + family], variable_of(spec, "gateway", family))


def beside_gateway(subnet: str, gateway: str | None) -> str:
    """Return the first address of a node's own network that is not the gateway's, in CIDR form."""
    network = network_of(subnet)
    first, _last = usable_range(network)
    taken = gateway is not None and address_text(network, first) == gateway
    return f"{address_text(network, first + taken)}/{network.prefixlen}"


def gateway_of(
    spec: Mapping[str, Any], family: str, told: Rule, subnet: str | None, address: str | None
) -> str | None:
    """Return the gateway's bare address in a node's subnet, or None where there is none.

    Args:
        spec: one element of `rail_specs`.
        family: "" for IPv4, "6" for IPv6.
        told: what the inventory says.
        subnet: the node's subnet.
        address: the node's own, in CIDR form, which the gateway may not have.

    Raises:
        PlanError: it is no address that the node's gateway may have.
    """
    rule = told.value
    if rule is None or rule == "none":
        return None
    refuse = functools.partial(PlanError, told.variable, spec["name"])
    if subnet is None:
        # `first` and `last` apply to every family that has a subnet; an address is of one.
        if rule in ("first", "last"):
            return None
        raise refuse("there is a gateway, but no subnet that it could be in", "add one")
    network = network_of(subnet)
    first, last = usable_range(network)
    if family and rule not in ("first", "last") and ipaddress.ip_address(rule).is_link_local:
        # A router announces itself by such an address; it is reached over the rail's own.
        if "ipv6" not in spec["link_local"]:
            raise refuse(
                f"gateway {rule} is link-local, and link_local leaves the rail without such an address",
                "add ipv6 to link_local, or name an address inside the subnet",
            )
        return str(ipaddress.ip_address(rule))
    if rule in ("first", "last"):
        value = first if rule == "first" else last
    else:
        gateway = ipaddress.ip_address(rule)
        value = int(gateway)
        if gateway.version != network.version or not first <= value <= last:
            raise refuse(
                f"gateway {rule} is no usable address of {subnet}",
                "name an address inside the subnet, or first, last or none",
            )
    text = address_text(network, value)
    if address is not None and address.split("/", 1)[0] == text:
        raise refuse(
            f"gateway {text} is also a node's own address",
            "move the nodes (host_offset) or the gateway (last in place of first), that of one node "
            "in its rail_overrides",
        )
    return text
