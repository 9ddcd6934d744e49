# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the checks of each rail's cable, and which nodes must be heard on it. Pure, for controller and nodes.

The rails of all nodes that share a name and a subnet are one segment: one leaf switch, or one cable. Each
port must hear the others of its segment and no other port. Each check is of one node and rail, so their
number grows with the nodes, not with the pairs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..catalogue.tests import WITHOUT_IP
from ..rails import plan
from ..records.asked import AskedLine
from . import rounds
from .request import local_line

CABLING, OWNER, REPLY, NEIGHBOUR = "cabling", "link_address_owner", "reply_path", "neighbour"
#: check -> tool, in the order of a port's ids.
TOOLS = {CABLING: "beacon", OWNER: "arp", REPLY: "echo", NEIGHBOUR: "lldp"}


class Segment(NamedTuple):
    """The rails of one name in one subnet."""

    rail: str
    network: str


class Port(NamedTuple):
    """One node's end of a rail's cable; `address` is bare."""

    segment: Segment
    address: str
    leaf: str | None


class Map:
    """All ports of a run, and which must hear each other. Linear in the nodes."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        self._rails = rounds.RailNames(order)
        self._absent = set(order["absent"])
        self.ports: dict[str, dict[str, Port]] = {}
        self.members: dict[Segment, list[str]] = {}
        self._specs = [plan.rail_specs(fabric) for fabric in order["fabrics"]]
        # On these each node's link to its leaf is a separate network, where no other node can be heard.
        self._routed = [
            {spec["name"] for spec in specs if spec["node_prefix"] or spec["node_prefix6"]}
            for specs in self._specs
        ]
        for entry in order["roster"]:
            self._add(order, entry)

    def _add(self, order: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        node = str(entry["name"])
        mine = self.ports.setdefault(node, {})
        # InfiniBand has no Ethernet to send a beacon on, and EFA no netdev.
        if order["fabrics"][int(entry.get("fabric", 0))].get("transport") in WITHOUT_IP:
            return
        wanted = set(self._rails.list_rails(node))
        for rail in rounds.node_rails(order, entry, self._specs):
            cidr = rail.get("address") or rail.get("address6")
            name = str(rail["name"])
            if cidr and name in wanted:
                interface = ipaddress.ip_interface(str(cidr))
                segment = Segment(name, str(interface.network))
                # LLDP is received by the ports of a bond, which may lead to two switches.
                leaf = rail.get("leaf") if rail.get("bond") is None else None
                mine[name] = Port(segment, str(interface.ip), str(leaf) if leaf else None)
                self.members.setdefault(segment, []).append(node)

    def expected(self, node: str, rail: str) -> list[str]:
        """Return the nodes that must be heard on a node's rail: its segment's, without absent ones."""
        members = self.members[self.ports[node][rail].segment]
        return [name for name in members if name != node and name not in self._absent]

    def ring(self, node: str, rail: str) -> list[str]:
        """Return the nodes of its segment that a node may probe, the next first: each is probed by one."""
        members = self.members[self.ports[node][rail].segment]
        place = members.index(node)
        return [name for name in members[place + 1 :] + members[:place] if name not in self._absent]

    def other_address(self, node: str, rail: str) -> tuple[str, str] | None:
        """Return (rail, IPv4 address) of another segment of the node, which must get no ARP reply here."""
        own = self.ports[node][rail].segment.network
        for name, port in self.ports[node].items():
            if name != rail and port.segment.network != own and ":" not in port.address:
                return name, port.address
        return None

    def lines(self, order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
        """Yield the planned checks of all ports, or of one node's."""
        width = self._rails.most()
        # Policies of versions without this key have it on.
        lldp = order["policy"].get("lldp", True)
        for position, entry in enumerate(order["roster"]):
            name = str(entry["name"])
            if node not in (None, name):
                continue
            for index, rail in enumerate(self._rails.list_rails(name)):
                port = self.ports[name].get(rail)
                routed = rail in self._routed[int(entry.get("fabric", 0))]
                if port is None or (len(self.members[port.segment]) < 2 and not routed):
                    continue
                for place, (check, tool) in enumerate(TOOLS.items()):
                    if routed and check != NEIGHBOUR:
                        continue
                    if _applies(check, port) and (lldp or check != NEIGHBOUR):
                        number = (position * width + index) * len(TOOLS) + place
                        yield {**local_line(f"c{number:05d}", check, tool, name, rail), "group": None}


def asked_lines(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield the planned cable checks of a run, or those of one node.

    There are none where the policy disables them, nor in the second schedule of a run.

    Args:
        order: the common part of a test schedule.
        node: a roster name.

    Yields:
        planned tests with `group` None; ids begin with `c`.
    """
    if order["policy"].get("beacon") and "first_id" not in order:
        yield from Map(order).lines(order, node)


def _applies(check: str, port: Port) -> bool:
    """Return whether a check applies: ARP needs IPv4, the neighbor check a leaf in the inventory."""
    if check == NEIGHBOUR:
        return port.leaf is not None
    return check == CABLING or ":" not in port.address
