# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check keys and types of a node's own variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import ABSENT
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema, values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Check

# The variables that are mappings.
_FIXES = {
    "rail_overrides": "write it as `rail_overrides: {rail0: {netdev: ens7}}`",
    "network_addresses": "write it as `network_addresses: {storage: 10.9.0.7/24}`",
}


def check_host_variables(node: Node) -> Iterator[schema.Finding]:
    """Yield errors in the keys and types of a node's own variables (None: not set)."""
    for variable, value, check, fix in (
        ("node_index", node.node_index, values.integer(0, 2**32),
         "write a whole number ≥ 0 without quotes, as `node_index: 7`"),
        ("scalable_unit", node.scalable_unit, values.unit,
         "write a number or a name, as `scalable_unit: su1`"),
        ("nvlink_domain", node.nvlink_domain, values.unit,
         "write a number or a name, as `nvlink_domain: rack1`"),
        ("bmc_address", node.bmc_address, values.bmc,
         "write the BMC's address without a prefix length, as `bmc_address: 192.168.10.7`"),
        ("management_address", node.management_address, values.address,
         "write the node's own address as other nodes reach it, without a prefix length, as "
         "`management_address: 192.168.0.7`"),
    ):  # fmt: skip
        wrong = None if value is None else _wrong(value, check)
        if wrong is not None:
            yield schema.Finding(variable, wrong, fix)
    for variable, fix in _FIXES.items():
        value = getattr(node, variable)
        if isinstance(value, Mapping):
            for name, item in value.items():
                of_one = _check_override if variable == "rail_overrides" else _check_address
                yield from of_one(str(name), item, f"{variable}.{name}", fix)
        elif value is not None:
            yield schema.Finding(variable, _wrong(value, values.mapping) or "", fix)
    yield from _check_gpus(node.expected_gpus)


def _wrong(value: Any, check: Check) -> str | None:
    return next((problem for _path, problem in values.literal(value)), None) or check(value)


def _check_override(rail: str, override: Any, where: str, fix: str) -> Iterator[schema.Finding]:
    if override == ABSENT:
        return
    if (wrong := values.mapping(override)) is not None:
        fix += f"; `{rail}: {ABSENT}` where the node lacks the rail"
        yield schema.Finding(where, wrong, fix, None, rail)
        return
    yield from schema.check_mapping(override, schema.OVERRIDE, where, rail)


def _check_gpus(gpus: Any) -> Iterator[schema.Finding]:
    """Yield errors in `expected_gpus`: without a count, a missing GPU could not be noticed."""
    fix = "write it as `expected_gpus: {count: 8}`"
    if isinstance(gpus, Mapping):
        yield from schema.check_mapping(gpus, schema.EXPECTED_GPUS, "expected_gpus")
        if gpus.get("count") is None:
            yield schema.Finding("expected_gpus.count", "it is missing", fix)
    elif gpus is not None:
        yield schema.Finding("expected_gpus", _wrong(gpus, values.mapping) or "", fix)


def _check_address(_network: str, address: Any, where: str, fix: str) -> Iterator[schema.Finding]:
    if (wrong := _wrong(address, values.interface(None))) is not None:
        yield schema.Finding(where, wrong, fix)
