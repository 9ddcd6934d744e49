# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which networks the fabrics claim, where two claims overlap, and which rail an address falls into."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import rails
from ansible_collections.railyard.fabric.plugins.plugin_utils import route_checks
from ansible_collections.railyard.fabric.plugins.plugin_utils.fabric_fields import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory_model import Located, Origin

_FIX = "give each rail a subnet of its own, which shares no address with another network"


class Claim(NamedTuple):
    """One network and who has it: a rail (perhaps in one scalable unit), another network or the frontend."""

    network: Any
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
        self._by_length: dict[tuple[int, int], dict[int, Claim]] = {}
        self._routes_by_length: dict[tuple[int, int], dict[int, Claim]] = {}
        self._unlike: list[Located] = []

    def add(self, fabric: Mapping[str, Any], specs: Sequence[Mapping[str, Any]], origin: Origin) -> None:
        """Add what one fabric, already without refused values, claims."""
        mtu, infiniband = fabric.get("mtu"), fabric.get("transport") == "infiniband"
        unlike: Finding | None = None
        for spec in specs:
            for family in ("", "6"):
                for unit, subnet in spec[f"subnets{family}"].items():
                    key = f"subnet{family}" if unit is None else f"subnets{family}.{unit}"
                    variable = (
                        "fabric.supernet" if spec["variable"] == "fabric" else f"{spec['variable']}.{key}"
                    )
                    owner = f"rail {spec['name']}" + ("" if unit is None else f" in unit {unit}")
                    network = rails.network_of(subnet)
                    claim = Claim(network, owner, spec["name"], variable, origin, mtu, infiniband)
                    # Two units of one rail may not share a network either.
                    unlike = unlike or _unlike(claim, self._rails.setdefault((network, owner), claim))
            for target in spec["routes"]:
                variable = route_checks.variable_of(spec)
                owner = f"a route of rail {spec['name']}"
                claim = Claim(rails.network_of(target), owner, spec["name"], variable, origin)
                self._routes.setdefault((claim.network, owner), claim)
        self._unlike += [] if unlike is None else [(unlike, origin)]
        for index, item in enumerate(fabric.get("networks") or []):
            if item.get("subnet") is not None:
                variable = f"fabric.networks[{index}].subnet"
                owner = f"network {item.get('name')}"
                self._add_other(Claim(rails.network_of(item["subnet"]), owner, None, variable, origin))
        address = (fabric.get("frontend") or {}).get("address")
        if address is not None:
            network = ipaddress.ip_interface(address).network
            self._add_other(Claim(network, "the frontend", None, "fabric.frontend.address", origin))

    def _add_other(self, claim: Claim) -> None:
        self._others.setdefault((claim.network, claim.owner), claim)

    def unlike(self) -> Iterator[Located]:
        """Yield each fabric whose nodes share a rail's network with nodes that speak otherwise on it."""
        yield from self._unlike

    def overlaps(self) -> Iterator[Located]:
        """Yield each rail network that shares addresses with another claim, by one sorted sweep."""
        claims = sorted(self._rails.values(), key=lambda claim: _span(claim.network))
        yield from _sweep(claims)
        others = sorted(self._others.values(), key=lambda claim: _span(claim.network))
        yield from _sweep(others)
        for other in others:
            for claim in claims:
                if claim.network.version == other.network.version and claim.network.overlaps(other.network):
                    yield _overlap(claim, other)

    def overlapping(self, network: Any, rail: str | None, rails_alone: bool = False) -> Claim | None:
        """Return a claim that shares addresses with a network; those of one rail do not count, if named."""
        claims = [*self._rails.values(), *(() if rails_alone else self._others.values())]
        others = (one for one in claims if rail is None or one.rail != rail)
        return next((one for one in others if one.network.overlaps(network)), None)

    def rail_with(self, address: Any) -> Claim | None:
        """Return the rail network that contains an address; a look-up per prefix length in use."""
        return _containing(address, self._by_length, self._rails.values())

    def route_with(self, address: Any) -> Claim | None:
        """Return the declared route that contains an address."""
        return _containing(address, self._routes_by_length, self._routes.values())


def _sweep(claims: Iterable[Claim]) -> Iterator[Located]:
    """Yield each of the claims, which are in order, that overlaps one before it."""
    widest: Claim | None = None
    for claim in claims:
        if widest is not None and claim.network.overlaps(widest.network):
            yield _overlap(claim, widest)
        if widest is None or _end(claim.network) > _end(widest.network):
            widest = claim


def _unlike(claim: Claim, first: Claim) -> Finding | None:
    """Return what keeps two fabrics' nodes on one network of a rail from understanding each other."""
    where = f"{claim.network} of {claim.owner}"
    if claim.infiniband != first.infiniband:
        message = f"other nodes have {where} on {'InfiniBand' if first.infiniband else 'Ethernet'}"
        return Finding("fabric.transport", message, "give each transport subnets of its own")
    if None not in (claim.mtu, first.mtu) and claim.mtu != first.mtu:
        message = f"{claim.mtu}, and other nodes on {where} have {first.mtu}"
        return Finding("fabric.mtu", message, "write the same mtu for all nodes that share a network")
    return None


def _containing(
    address: Any, by_length: dict[tuple[int, int], dict[int, Claim]], all_claims: Iterable[Claim]
) -> Claim | None:
    if not by_length:
        for claim in all_claims:
            host_bits = claim.network.max_prefixlen - claim.network.prefixlen
            key = int(claim.network.network_address) >> host_bits
            by_length.setdefault((claim.network.version, host_bits), {})[key] = claim
    for (version, host_bits), claims in by_length.items():
        if version == address.version and int(address) >> host_bits in claims:
            return claims[int(address) >> host_bits]
    return None


def _span(network: Any) -> tuple[int, int, int]:
    return network.version, int(network.network_address), network.prefixlen


def _end(network: Any) -> tuple[int, int]:
    return network.version, int(network.broadcast_address)


def _overlap(claim: Claim, other: Claim) -> Located:
    message = f"{claim.network} of {claim.owner} overlaps {other.network} of {other.owner}"
    return Finding(claim.variable, message, _FIX, None, claim.rail), claim.origin
