# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check a rail's gateways, and rails on which each node has its own network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema, values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Issue, Item, is_right

SWITCHED_FIX = "remove it, or write cabling: switched"
NO_ROUTER = "the rails are cabled back to back, so there is no router between the nodes", SWITCHED_FIX
_CABLE_FIX = "write the cable's network as the rail's subnet, as `subnet: 10.0.1.0/31`, or cabling: switched"
_GATEWAY_FIX = "write first (the leaf has the lower address) or last"


def check_gateway(fabric: Item, item: Item) -> Iterator[Issue]:
    """Check that the gateways of a rail or an override are of different families, and possible at all."""
    gateways = {key: item[key] for key in ("gateway", "gateway6") if is_right(schema.RAIL, item, key)}
    one, other = gateways.get("gateway"), gateways.get("gateway6")
    if other is not None and "." in other and ":" not in other:
        yield "gateway6", f"{other} is IPv4, which goes under gateway", schema.RAIL["gateway6"].fix
    elif one is not None and other is not None and ":" in one:
        message = f"gateway is {one}, which is IPv6 as well; only one of the two would be used"
        yield "gateway6", message, "keep one of gateway, gateway6"
    for key, value in gateways.items():
        if fabric.get("cabling") == "back_to_back" and value != "none":
            yield key, *NO_ROUTER


def check_node_prefix(fabric: Item, item: Item) -> Iterator[Issue]:
    """Check `node_prefix` and `node_prefix6` of a rail: subnets to divide, and a leaf that routes."""
    for family in ("", "6"):
        key = f"node_prefix{family}"
        if item.get(key) is None or not is_right(schema.RAIL, item, key):
            continue
        subnets = _subnets(item, family)
        if not subnets:
            fix = f"add subnet{family}; each node gets a part of it"
            yield key, f"the rail has no subnet{family} to divide", fix
        yield from _wrong_prefix(fabric, key, item[key], subnets, item.get(f"gateway{family}"))


def check_computed_node_prefix(fabric: Item) -> Iterator[Issue]:
    """Check `node_prefix` of the computed form."""
    if is_right(schema.COMPUTED, fabric, "node_prefix", "supernet", "rail_prefix"):
        address = fabric["supernet"].split("/", 1)[0]
        bits = 128 if ":" in address else 32
        rails = {"fabric": (address, fabric["rail_prefix"])}
        prefix = fabric["node_prefix"]
        if prefix >= bits:
            yield "node_prefix", f"a /{prefix} holds no two addresses", "write 31, or 127 for IPv6"
            return
        yield from _wrong_prefix(fabric, "node_prefix", prefix, rails, fabric.get("gateway"))


def _subnets(item: Item, family: str) -> dict[str, tuple[str, int]]:
    """Return a rail's sound subnets of a family as (address, prefix length), by the unit."""
    one, many = item.get(f"subnet{family}"), item.get(f"subnets{family}")
    found: dict[Any, Any] = {"": one} if one is not None else dict(many) if isinstance(many, Mapping) else {}
    check = values.subnet(6 if family else 4)
    parts = {str(unit): text.split("/", 1) for unit, text in found.items() if check(text) is None}
    return {unit: (address, int(length)) for unit, (address, length) in parts.items()}


def _wrong_prefix(
    fabric: Item, key: str, prefix: int, subnets: Mapping[str, tuple[str, int]], gateway: Any
) -> Iterator[Issue]:
    if fabric.get("transport") == "infiniband":
        message = "an InfiniBand rail is one IP network, without a router between its nodes"
        yield key, message, "remove it: all nodes of the rail are in its subnet"
        return
    if fabric.get("cabling") == "back_to_back":
        yield key, "the rails are cabled back to back: both ends of a cable are in one network", _CABLE_FIX
        return
    if gateway == "none":
        message = "each node has its own network, and without a gateway it reaches no other node"
        yield key, message, _GATEWAY_FIX
    for address, length in subnets.values():
        if length >= prefix:
            message = f"{address}/{length} cannot be divided into networks of length {prefix}"
            yield key, message, "take a larger subnet, or a longer prefix"
            return
