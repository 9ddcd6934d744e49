# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an inventory may say of the leaves themselves: `fabric.leaves`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import (
    FABRIC,
    UPLINK_MAX_GBPS,
    Field,
    Finding,
    check_mapping,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import show

LEAF: dict[str, Field] = {
    "uplink_gbps": Field(
        values.rate(UPLINK_MAX_GBPS),
        "write the rates of all its uplinks together, in Gbit/s, as `uplink_gbps: 6400`",
    ),
}
_FIX = FABRIC["leaves"].fix


def check_leaves(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield what is wrong with `fabric.leaves`; a leaf that no rail is patched to is a slip of the pen."""
    leaves = fabric.get("leaves")
    if leaves is None:
        return
    if not isinstance(leaves, Mapping) or not leaves:
        yield Finding("fabric.leaves", f"it is {show(leaves)}, not a mapping of leaves", _FIX)
        return
    patched = _patched(fabric.get("rails"))
    for name, leaf in leaves.items():
        where = f"fabric.leaves.{name}"
        if name not in patched:
            known = ", ".join(sorted(patched)) or "none"
            yield Finding(
                where, "no rail is patched to a leaf of this name", f"correct it; rails name: {known}"
            )
        if isinstance(leaf, Mapping):
            yield from check_mapping(leaf, LEAF, where)
        else:
            yield Finding(where, f"it is {show(leaf)}, not a mapping", _FIX)


def _patched(rails: Any) -> set[str]:
    """Return the leaves that rails name."""
    names: set[str] = set()
    for rail in rails if isinstance(rails, list) else []:
        if not isinstance(rail, Mapping):
            continue
        by_unit = rail.get("leaves")
        found = [rail.get("leaf"), *(by_unit.values() if isinstance(by_unit, Mapping) else ())]
        names.update(name for name in found if isinstance(name, str))
    return names
