# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check `rail_overrides` together with the rails that they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import gateways, hardware, schema
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.addresses import IPNetwork, meet
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.networks import Networks
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Item


def sound(overrides: Any) -> dict[str, dict[str, Any]]:
    """Copy a node's overrides without unknown keys and refused values."""
    if not isinstance(overrides, Mapping):
        return {}
    return {
        str(rail): {
            key: value
            for key, value in (override.items() if isinstance(override, Mapping) else ())
            if next(schema.check_mapping({key: value}, schema.OVERRIDE, ""), None) is None
        }
        for rail, override in overrides.items()
    }


def check_absent(specs: Sequence[Item], lacking: Set[str]) -> Iterator[schema.Finding]:
    """Yield errors in the rails that a node lacks.

    Args:
        specs: the fabric's rails, as of `rails.rail_specs`.
        lacking: the names of those that the node lacks.
    """
    names = [spec["name"] for spec in specs]
    if names and lacking >= set(names):
        message = "the node lacks every rail of the fabric"
        yield schema.Finding("rail_overrides", message, "take the node out of group gpu_nodes")
        return
    for spec in specs:
        other = spec["shares_wire_with"]
        if spec["name"] in lacking and other in names and other not in lacking:
            message = (
                f"it shares its wire with {other}, which the node has: a port has both functions or none"
            )
            fix = "write absent for both, or for neither"
            yield schema.Finding(f"rail_overrides.{spec['name']}", message, fix, None, spec["name"])


def check(
    fabric: Item,
    specs: Sequence[Item],
    planned: Sequence[Item],
    overrides: Mapping[str, Item],
    networks: Networks,
) -> Iterator[schema.Finding]:
    """Yield errors in rails after a node's overrides.

    Args:
        fabric: the fabric, without refused values.
        specs: its rails, as of `rails.rail_specs`.
        planned: the node's rails.
        overrides: the node's, as `sound` returns them.
        networks: the networks of all fabrics.
    """
    for rail in planned:
        override = overrides.get(rail["name"])
        if not override:
            continue
        where, name = f"rail_overrides.{rail['name']}", rail["name"]
        if all(rail[key] is None for key in schema.SELECTORS):
            message = "it removes the only key that identifies the rail's interface"
            yield schema.Finding(where, message, "set a netdev, mac, pci or hca instead", None, name)
        yield from schema.locate(schema.check_mac(override.get("mac"), fabric.get("transport")), where, name)
        yield from schema.locate(gateways.check_gateway(fabric, override), where, name)
        yield from schema.locate(schema.check_bond({**override, "bond": rail["bond"]}), where, name)
        yield from schema.locate(hardware.check_efa(override, fabric.get("transport")), where, name)
        yield from schema.locate(
            schema.check_vlan_name("netdev", override.get("netdev"), rail["vlan"]), where, name
        )
    yield from _check_own_networks(specs, planned, overrides, networks)


def _check_own_networks(
    specs: Sequence[Item], planned: Sequence[Item], overrides: Mapping[str, Item], networks: Networks
) -> Iterator[schema.Finding]:
    """Check the networks of overridden addresses on rails without a subnet."""
    own: list[tuple[Any, str]] = []
    for spec in specs:
        rail = next((one for one in planned if one["name"] == spec["name"]), None)
        for family in ("", "6"):
            key = f"address{family}"
            if rail is None or spec[f"subnets{family}"] or overrides.get(rail["name"], {}).get(key) is None:
                continue
            network = IPNetwork(rail[f"subnet{family}"])
            claim = networks.overlapping(network, rail["name"])
            owner = claim.owner if claim else next((by for taken, by in own if meet(taken, network)), None)
            if owner is not None:
                message = f"its network {network} shares addresses with that of {owner}"
                fix = "give each rail its own network"
                yield schema.Finding(f"rail_overrides.{rail['name']}.{key}", message, fix, None, rail["name"])
            own.append((network, f"rail {rail['name']}"))
