# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Units: nodes that are connected to the same leaves (a rail group, or scalable unit)."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Unit
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of


def find_units(view: View) -> tuple[Unit, ...]:
    """Group the nodes that have a link by their leaves, in the inventory's order.

    A node that lacks some of its links belongs to the unit that has all of its leaves, if there is only one.
    """
    leaves_of: dict[str, set[str]] = {}
    for one in view.expected.ports:
        peer = view.switch_of(place_of(one))
        if peer is not None:
            leaves_of.setdefault(one.node, set()).add(peer.guid)
    for key, owner in view.owners.of_port.items():
        # Also adapters of which only the node is known.
        peer = view.peer_of(key)
        if owner.node and owner.rail is None and peer is not None and view.is_switch(peer.guid):
            leaves_of.setdefault(owner.node, set()).add(peer.guid)
    sets = {frozenset(leaves) for leaves in leaves_of.values()}
    nodes_of: dict[frozenset[str], list[str]] = {}
    for node in dict.fromkeys([*view.expected.nodes, *leaves_of]):
        if node not in leaves_of:
            continue
        own = frozenset(leaves_of[node])
        larger = [one for one in sets if own < one]
        nodes_of.setdefault(larger[0] if len(larger) == 1 else own, []).append(node)
    return tuple(
        Unit(f"su{index}", tuple(nodes), tuple(sorted(leaves)))
        for index, (leaves, nodes) in enumerate(nodes_of.items(), 1)
    )
