# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find where the rails of the nodes in a test schedule end. Pure."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order


class End(NamedTuple):
    """A rail of a node: its leaf and planned rate, None where none is declared."""

    rail: str
    leaf: str | None
    rate_gbps: float | None


def ends(order: Order) -> dict[str, list[End]]:
    """Return the rails of each node in a test schedule, with their leaves.

    Args:
        order: its common part; `roster`, `fabrics` and `rails` are read.
    """
    wanted = order.get("rails")
    kinds: dict[tuple[int, str], list[End]] = {}
    found = {}
    for entry in order["roster"]:
        # All that is read here is the same for the nodes of a fabric and unit; a plan of each takes long.
        kind = int(entry.get("fabric", 0)), str(entry.get("scalable_unit"))
        if kind not in kinds:
            kinds[kind] = [
                End(str(rail["name"]), rail.get("leaf"), rail.get("rate_gbps"))
                for rail in rounds.node_rails(order, entry)
                if wanted is None or rail["name"] in wanted
            ]
        found[str(entry["name"])] = kinds[kind]
    return found
