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

_FIX = "give each rail a subnet of its own, which shares no address with another network"


class Claim(NamedTuple):
    """One network and who has it: a rail (perhaps in one scalable unit), another network or the frontend."""

    network: Any
    owner: str
    rail: str | None
    variable: str
    groups: tuple[str, ...]


class Networks:
    """Collects claims; the same rail's same network, claimed by several fabrics, is one claim."""

    def __init__(self) -> None:
        self._rails: dict[tuple[Any, str | None], Claim] = {}
        self._others: dict[tuple[Any, str], Claim] = {}
        self._routes: dict[tuple[Any, str | None], Claim] = {}
        self._by_length: dict[tuple[int, int], dict[int, Claim]] = {}
        self._routes_by_length: dict[tuple[int, int], dict[int, Claim]] = {}

    def add(
        self, fabric: Mapping[str, Any], specs: Sequence[Mapping[str, Any]], groups: tuple[str, ...]
    ) -> None:
        """Add what one fabric, already without refused values, claims."""
        for spec in specs:
            for family in ("", "6"):
                for unit, subnet in spec[f"subnets{family}"].items():
                    key = f"subnet{family}" if unit is None else f"subnets{family}.{unit}"
                    variable = (
                        "fabric.supernet" if spec["variable"] == "fabric" else f"{spec['variable']}.{key}"
                    )
                    owner = f"rail {spec['name']}" + ("" if unit is None else f" in unit {unit}")
                    claim = Claim(rails.network_of(subnet), owner, spec["name"], variable, groups)
                    # Two units of one rail may not share a network either.
                    self._rails.setdefault((claim.network, owner), claim)
            for target in spec["routes"]:
                variable = route_checks.variable_of(spec)
                owner = f"a route of rail {spec['name']}"
                claim = Claim(rails.network_of(target), owner, spec["name"], variable, groups)
                self._routes.setdefault((claim.network, owner), claim)
        for index, item in enumerate(fabric.get("networks") or []):
            if item.get("subnet") is not None:
                variable = f"fabric.networks[{index}].subnet"
                owner = f"network {item.get('name')}"
                self._add_other(Claim(rails.network_of(item["subnet"]), owner, None, variable, groups))
        address = (fabric.get("frontend") or {}).get("address")
        if address is not None:
            network = ipaddress.ip_interface(address).network
            self._add_other(Claim(network, "the frontend", None, "fabric.frontend.address", groups))

    def _add_other(self, claim: Claim) -> None:
        self._others.setdefault((claim.network, claim.owner), claim)

    def overlaps(self) -> Iterator[tuple[Finding, tuple[str, ...]]]:
        """Yield each rail network that shares addresses with another claim, by one sorted sweep."""
        claims = sorted(self._rails.values(), key=lambda claim: _span(claim.network))
        widest: Claim | None = None
        for claim in claims:
            if widest is not None and claim.network.overlaps(widest.network):
                yield _overlap(claim, widest)
            if widest is None or _end(claim.network) > _end(widest.network):
                widest = claim
        others = sorted(self._others.values(), key=lambda claim: _span(claim.network))
        for position, other in enumerate(others[1:]):
            if other.network.overlaps(others[position].network):
                yield _overlap(other, others[position])
        for other in others:
            for claim in claims:
                if claim.network.version == other.network.version and claim.network.overlaps(other.network):
                    yield _overlap(claim, other)

    def rail_with(self, address: Any) -> Claim | None:
        """Return the rail network that contains an address; a look-up per prefix length in use."""
        return _containing(address, self._by_length, self._rails.values())

    def route_with(self, address: Any) -> Claim | None:
        """Return the declared route that contains an address."""
        return _containing(address, self._routes_by_length, self._routes.values())


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


def _overlap(claim: Claim, other: Claim) -> tuple[Finding, tuple[str, ...]]:
    message = f"{claim.network} of {claim.owner} overlaps {other.network} of {other.owner}"
    return Finding(claim.variable, message, _FIX, None, claim.rail), claim.groups
