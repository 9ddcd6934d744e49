# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Collect the networks of all fabrics, and find overlaps and the rail of an address."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import (
    IPAddress,
    IPNetwork,
    IPSet,
    meet,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Located, Origin
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, Item

_ROUTE_FIX = "route to each network through one rail; a network with its own interface needs no route"
_FIX = "give each rail its own subnet, which overlaps no other network"


class Claim(NamedTuple):
    """A network and its owner: a rail (perhaps in one scalable unit), another network or the frontend."""

    network: IPNetwork
    owner: str
    rail: str | None
    variable: str
    origin: Origin
    mtu: Any = None
    infiniband: bool = False


class Networks:
    """Collects claims; the same rail's same network, claimed by several fabrics, is one claim."""

    def __init__(self) -> None:
        self._rails: dict[tuple[Any, str | None], Claim] = {}
        self._others: dict[tuple[Any, str], Claim] = {}
        self._routes: dict[tuple[Any, str | None], Claim] = {}
        #: Fabrics whose nodes share a rail's network with nodes of another transport or MTU.
        self.unlike: list[Located] = []

    def add(self, fabric: Item, specs: Sequence[Item], origin: Origin) -> None:
        """Add the networks of one fabric, which has no refused values any more."""
        unlike: Finding | None = None
        for claim in _claims(fabric, specs, origin):
            key = (claim.network, claim.owner)
            if claim.rail is None:
                self._others.setdefault(key, claim)
            else:
                # Two units of one rail may not share a network either.
                unlike = unlike or _unlike(claim, self._rails.setdefault(key, claim))
        self.unlike += [] if unlike is None else [(unlike, origin)]
        for spec in specs:
            for target in spec["routes"]:
                owner = f"a route of rail {spec['name']}"
                claim = Claim(IPNetwork(target), owner, spec["name"], _routes_variable(spec), origin)
                self._routes.setdefault((claim.network, owner), claim)

    def overlaps(self) -> Iterator[Located]:
        """Yield each rail network that shares addresses with another claim."""
        claims, others = (
            sorted(held.values(), key=lambda claim: claim.network) for held in (self._rails, self._others)
        )
        yield from _sweep(claims)
        yield from _sweep(others)
        if not self._rail_addresses.isdisjoint(_addresses(others)):
            for other in others:
                yield from (_overlap(claim, other) for claim in claims if meet(claim.network, other.network))

    def overlapping(self, network: IPNetwork, rail: str | None, rails_alone: bool = False) -> Claim | None:
        """Return a claim that shares addresses with a network; those of one rail do not count, if named."""
        claims = [*self._rails.values(), *(() if rails_alone else self._others.values())]
        others = (one for one in claims if rail is None or one.rail != rail)
        return next((one for one in others if meet(one.network, network)), None)

    def rail_with(self, address: IPAddress) -> Claim | None:
        """Return the rail network that contains an address."""
        return _containing(address, self._rail_addresses, self._rails.values())

    def route_with(self, address: IPAddress) -> Claim | None:
        """Return the declared route that contains an address."""
        return _containing(address, self._route_addresses, self._routes.values())

    @cached_property
    def _rail_addresses(self) -> IPSet:
        return _addresses(self._rails.values())

    @cached_property
    def _route_addresses(self) -> IPSet:
        return _addresses(self._routes.values())


def check_routes(fabric: Item, specs: Sequence[Item], origin: Origin) -> Iterator[Finding]:
    """Yield declared routes that another rail has as well, or that lead away from another network.

    A route that is wider than a network does it no harm, since the longer prefix wins; one that is equal or
    inside it takes its traffic. Once per fabric, not per node.

    Args:
        fabric: the fabric, without refused values.
        specs: its rails, as of `rails.rail_specs`.
        origin: where it is defined.
    """
    owners: dict[str, str] = {}
    claims = list(_claims(fabric, specs, origin))
    for spec in specs:
        name = str(spec["name"])
        for target in spec["routes"]:
            owner = owners.setdefault(target, name)
            if owner != name:
                message = f"route to {target}: rail {owner} has it as well, and only one of them is used"
                yield Finding(_routes_variable(spec), message, _ROUTE_FIX, None, name)
                continue
            network = IPNetwork(target)
            taken = (one for one in claims if one.rail != name and network in one.network)
            for claim in itertools.islice(taken, 1):
                what = f"rail {claim.rail}" if claim.rail else claim.owner
                message = f"route to {target} takes traffic from {claim.network} of {what}"
                yield Finding(_routes_variable(spec), message, _ROUTE_FIX, None, name)


def _routes_variable(spec: Item) -> str:
    """Name the variable that declares a rail's routes."""
    return "fabric.rail_routes" if spec["variable"] == "fabric" else f"{spec['variable']}.routes"


def _claims(fabric: Item, specs: Sequence[Item], origin: Origin) -> Iterator[Claim]:
    """Yield the networks of a fabric: its rails', those beside the rails, the frontend's."""
    mtu, infiniband = fabric.get("mtu"), fabric.get("transport") == "infiniband"
    for spec in specs:
        for family in ("", "6"):
            for unit, subnet in spec[f"subnets{family}"].items():
                key = f"subnet{family}" if unit is None else f"subnets{family}.{unit}"
                variable = "fabric.supernet" if spec["variable"] == "fabric" else f"{spec['variable']}.{key}"
                owner = f"rail {spec['name']}" + ("" if unit is None else f" in unit {unit}")
                yield Claim(IPNetwork(subnet), owner, str(spec["name"]), variable, origin, mtu, infiniband)
    for index, item in enumerate(fabric.get("networks") or []):
        if item.get("subnet") is not None:
            variable = f"fabric.networks[{index}].subnet"
            yield Claim(IPNetwork(item["subnet"]), f"network {item.get('name')}", None, variable, origin)
    address = (fabric.get("frontend") or {}).get("address")
    if address is not None:
        yield Claim(IPNetwork(address).cidr, "the frontend", None, "fabric.frontend.address", origin)


def _addresses(claims: Iterable[Claim]) -> IPSet:
    return IPSet([claim.network for claim in claims])


def _containing(address: IPAddress, known: IPSet, claims: Iterable[Claim]) -> Claim | None:
    """Return the claim with an address; the set avoids a search of all claims for each node."""
    return next((one for one in claims if address in one.network), None) if address in known else None


def _sweep(claims: Iterable[Claim]) -> Iterator[Located]:
    """Yield each of the claims, which are in order, that overlaps one before it, and so is inside it."""
    widest: Claim | None = None
    for claim in claims:
        if widest is not None and claim.network in widest.network:
            yield _overlap(claim, widest)
        else:
            widest = claim


def _unlike(claim: Claim, first: Claim) -> Finding | None:
    """Return why nodes of two fabrics on one network of a rail cannot communicate, or None."""
    where = f"{claim.network} of {claim.owner}"
    if claim.infiniband != first.infiniband:
        message = f"other nodes have {where} on {'InfiniBand' if first.infiniband else 'Ethernet'}"
        return Finding("fabric.transport", message, "give each transport its own subnets")
    if None not in (claim.mtu, first.mtu) and claim.mtu != first.mtu:
        message = f"{claim.mtu}, and other nodes on {where} have {first.mtu}"
        return Finding("fabric.mtu", message, "write the same mtu for all nodes that share a network")
    return None


def _overlap(claim: Claim, other: Claim) -> Located:
    message = f"{claim.network} of {claim.owner} overlaps {other.network} of {other.owner}"
    return Finding(claim.variable, message, _FIX, None, claim.rail), claim.origin
