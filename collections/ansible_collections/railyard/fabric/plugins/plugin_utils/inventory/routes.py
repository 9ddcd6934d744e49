# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of declared routes against everything else that a fabric says: once per fabric, not per node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import IPNetwork
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding

_FIX = "route to each network through one rail; a network that has an interface of its own needs no route"


def check(fabric: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Yield declared routes that another rail has as well, or that lead away from another network.

    A route that is wider than a network does it no harm, since the longer prefix wins; one that is equal or
    inside it takes its traffic.

    Args:
        fabric: the fabric, without refused values.
        specs: its rails, as of `rails.rail_specs`.
    """
    owners: dict[str, str] = {}
    others = _others(fabric, specs)
    for spec in specs:
        name = str(spec["name"])
        for target in spec["routes"]:
            owner = owners.setdefault(target, name)
            if owner != name:
                message = f"route to {target}: rail {owner} has it as well, and only one of them is used"
                yield Finding(variable_of(spec), message, _FIX, None, name)
                continue
            network = IPNetwork(target)
            for other, rail, what in others:
                if rail != name and network in other:
                    message = f"route to {target} takes traffic from {other} of {what}"
                    yield Finding(variable_of(spec), message, _FIX, None, name)
                    break


def variable_of(spec: Mapping[str, Any]) -> str:
    """Name the variable that declares a rail's routes."""
    return "fabric.rail_routes" if spec["variable"] == "fabric" else f"{spec['variable']}.routes"


def _others(
    fabric: Mapping[str, Any], specs: Sequence[Mapping[str, Any]]
) -> list[tuple[IPNetwork, str | None, str]]:
    """Return all networks that a route could take traffic from: (network, rail or None, in words)."""
    found: list[tuple[IPNetwork, str | None, str]] = [
        (IPNetwork(subnet), str(spec["name"]), f"rail {spec['name']}")
        for spec in specs
        for family in ("", "6")
        for subnet in spec["subnets" + family].values()
    ]
    found += [
        (IPNetwork(item["subnet"]), None, f"network {item.get('name')}")
        for item in fabric.get("networks") or []
        if item.get("subnet") is not None
    ]
    address = (fabric.get("frontend") or {}).get("address")
    if address is not None:
        found.append((IPNetwork(address).cidr, None, "the frontend"))
    return found
