# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys and types of a node's own variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import (
    OVERRIDE,
    Finding,
    check_mapping,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Check, show

_OVERRIDES_FIX = "write it as `rail_overrides: {rail0: {netdev: ens7}}`"
_ADDRESSES_FIX = "write it as `network_addresses: {storage: 10.9.0.7/24}`"


def check_host_variables(node: Node) -> Iterator[Finding]:
    """Yield what is wrong with the keys and types of a node's own variables (None: not set)."""
    for variable, value, check, fix in (
        ("node_index", node.node_index, values.integer(0, 2**32),
         "write a whole number ≥ 0 without quotes, as `node_index: 7`"),
        ("scalable_unit", node.scalable_unit, values.unit,
         "write a number or a name, as `scalable_unit: su1`"),
        ("bmc_address", node.bmc_address, values.bmc,
         "write the BMC's address without a prefix length, as `bmc_address: 192.168.10.7`"),
        ("management_address", node.management_address, values.address,
         "write the node's own address as other nodes reach it, without a prefix length, as "
         "`management_address: 192.168.0.7`"),
    ):  # fmt: skip
        wrong = None if value is None else _wrong(value, check)
        if wrong is not None:
            yield Finding(variable, wrong, fix)
    yield from _check_overrides(node.rail_overrides)
    yield from _check_addresses(node.network_addresses)


def _wrong(value: Any, check: Check) -> str | None:
    return next((problem for _path, problem in values.literal(value)), None) or check(value)


def _check_overrides(overrides: Any) -> Iterator[Finding]:
    if overrides is None:
        return
    if not isinstance(overrides, Mapping):
        yield Finding("rail_overrides", _wrong(overrides, values.mapping) or "", _OVERRIDES_FIX)
        return
    for rail, override in overrides.items():
        where = f"rail_overrides.{rail}"
        if not isinstance(override, Mapping):
            message = f"it is {show(override)}, not a mapping"
            yield Finding(where, message, _OVERRIDES_FIX, None, str(rail))
            continue
        yield from check_mapping(override, OVERRIDE, where, str(rail))
        if values.is_bond(override.get("netdev")):
            message = f"{override['netdev']} {plan.BOND_REFUSED}"
            yield Finding(f"{where}.netdev", message, plan.BOND_FIX, None, str(rail))


def _check_addresses(addresses: Any) -> Iterator[Finding]:
    if addresses is None:
        return
    if not isinstance(addresses, Mapping):
        yield Finding("network_addresses", _wrong(addresses, values.mapping) or "", _ADDRESSES_FIX)
        return
    for network, address in addresses.items():
        wrong = _wrong(address, values.interface(None))
        if wrong is not None:
            yield Finding(f"network_addresses.{network}", wrong, _ADDRESSES_FIX)
