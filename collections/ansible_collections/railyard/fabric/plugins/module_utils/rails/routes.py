# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a rail leads beyond its own subnet: the same rail's other scalable units, and what is declared.

A rail-optimised fabric has a leaf per rail and scalable unit, and a subnet each; nodes of two units meet on a
rail only through that rail's gateway. Without such a route the packets would leave by the frontend's default.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .addresses import Network, PlanError, network_of


class UnitNetworks:
    """The subnets that a rail has in its scalable units, as the fewest networks that hold exactly these.

    Made once for a fabric, so that the routes of a node take as long with 256 units as with two: of 32 units
    beside each other a node gets 5 routes instead of 31.
    """

    def __init__(self, subnets: Mapping[str | None, str]) -> None:
        """Merge the subnets, which are of one family; the key None stands for all units."""
        self.names = sorted(unit for unit in subnets if unit is not None)
        self._distinct = set(subnets.values())
        self._merged: list[Network] = []
        # The nodes of a unit have one own subnet.
        self._others: dict[str | None, list[str]] = {}

    def has_others(self, own: str | None) -> bool:
        """Tell whether any unit has another subnet than this one."""
        return bool(self._distinct - {own})

    def others(self, own: str | None) -> list[str]:
        """Return the networks that hold all units' subnets but this one."""
        if own not in self._others:
            self._others[own] = self._without(own)
        return self._others[own]

    def _without(self, own: str | None) -> list[str]:
        if not self._merged:
            # One family each: what collapse_addresses wants. Its types do not say that it keeps the family.
            distinct: list[Any] = [network_of(text) for text in self._distinct]
            self._merged = list(ipaddress.collapse_addresses(distinct))
        if own is None or own not in self._distinct:
            return [str(network) for network in self._merged]
        inside: Any = network_of(own)
        found: list[str] = []
        for network in self._merged:
            block: Any = network
            if inside == block:
                continue
            if inside.subnet_of(block):
                found += [str(part) for part in block.address_exclude(inside)]
            else:
                found.append(str(block))
        return found


def routes_of(spec: Mapping[str, Any], rail: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a rail's routes as `{"to": CIDR, "via": bare address}`, IPv4 first, then by network.

    Args:
        spec: one element of `rails.rail_specs`.
        rail: the rail as planned so far, with `subnet`, `subnet6`, `gateway` and `gateway6`.

    Raises:
        PlanError: a route has no gateway in its family, or leads to the rail's own subnet. Units whose rail
            has `gateway: none` are declared not to meet on it, and get no route.
    """
    routes: dict[str, str] = {}
    for family in ("", "6"):
        own, gateway = rail["subnet" + family], rail["gateway" + family]
        units: UnitNetworks = spec["units" + family]
        if spec["node_prefix" + family] is not None and own is not None:
            # The node's own network is the longer prefix, so the route to all of them does it no harm.
            routes.update(dict.fromkeys(units.others(None) if gateway is not None else (), str(gateway)))
            continue
        if gateway is None and spec["gateway" + family] != "none" and units.has_others(own):
            raise PlanError(
                _gateway_variable(spec, family),
                spec["name"],
                f"the rail has no gateway between its scalable units ({', '.join(units.names)})",
                "name the leaf's address, first or last; or `none` where units do not meet on this rail",
            )
        if gateway is not None:
            routes.update(dict.fromkeys(units.others(own), gateway))
    for target in spec["routes"]:
        family = "6" if network_of(target).version == 6 else ""
        own = rail["subnet" + family]
        if own is not None and _is_inside(target, own):
            where = "is" if target == own else "is inside"
            raise PlanError(
                _routes_variable(spec),
                spec["name"],
                f"{target} {where} the rail's own subnet, which needs no route",
                "remove it: routes name what lies behind the rail's gateway",
            )
        if rail["gateway" + family] is None:
            raise PlanError(
                _gateway_variable(spec, family),
                spec["name"],
                f"the rail has no IPv{family or 4} gateway for its route to {target}",
                "name the leaf's address, first or last; or remove the route",
            )
        routes[target] = rail["gateway" + family]
    return [{"to": target, "via": routes[target]} for target in _in_order(tuple(routes))]


@lru_cache(maxsize=8192)
def _is_inside(target: str, subnet: str) -> bool:
    one, other = network_of(target), network_of(subnet)
    return one.prefixlen >= other.prefixlen and one.network_address in other


@lru_cache(maxsize=8192)
def _in_order(targets: tuple[str, ...]) -> tuple[str, ...]:
    # All nodes of a unit have the same routes on a rail: they are put in order once.
    return tuple(sorted(targets, key=_order))


def _order(target: str) -> tuple[int, int, int]:
    network = network_of(target)
    return network.version, int(network.network_address), network.prefixlen


def _gateway_variable(spec: Mapping[str, Any], family: str) -> str:
    return "fabric.gateway" if spec["variable"] == "fabric" else f"{spec['variable']}.gateway{family}"


def _routes_variable(spec: Mapping[str, Any]) -> str:
    return "fabric.rail_routes" if spec["variable"] == "fabric" else f"{spec['variable']}.routes"
