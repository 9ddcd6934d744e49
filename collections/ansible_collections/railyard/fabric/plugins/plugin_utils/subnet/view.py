# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading beside what is expected: what all rules look things up in."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Port, PortKey, Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding, show_name
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link, list_links
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Expected,
    ExpectedPort,
    Finding,
    Owner,
    Severity,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import (
    Owners,
    Place,
    recognize_adapters,
    switch_names,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.tiers import Tiers, find_tiers


class LeafMatch(NamedTuple):
    """Which switch a leaf of the inventory is, and how that is known."""

    guid: str
    by: Literal["guid", "name", "majority"]


@dataclass(frozen=True)
class View:
    """A reading, and what follows from it and the inventory.

    Attributes:
        reading: the reading.
        expected: what the inventory says.
        before: the previous reading of the same subnet, as a view; None without.
        owners: whose the adapter ports are.
        links: links, each once.
        conflicts: pairs of ports whose ends disagree about their link.
        link_at: port -> its link.
        leaves: the inventory's leaf -> the switch that it is.
        tiers: levels of the switches.
        names: switch -> the inventory's name, else its own, cleaned.
    """

    reading: Reading
    expected: Expected
    before: View | None
    owners: Owners
    links: tuple[Link, ...]
    conflicts: tuple[tuple[PortKey, PortKey], ...]
    link_at: dict[PortKey, Link]
    leaves: dict[str, LeafMatch]
    tiers: Tiers
    names: dict[str, str]

    def is_switch(self, guid: str) -> bool:
        """Tell whether a device of the reading is a switch."""
        device = self.reading.devices.get(guid)
        return device is not None and device.kind == "switch"

    def peer_of(self, key: PortKey) -> PortKey | None:
        """Return the port at the other end; None without a link."""
        link = self.link_at.get(key)
        return None if link is None else (link.other if link.one == key else link.one)

    def owner_of(self, link: Link) -> Owner:
        """Return whose adapter is at an end of a link; an owner without a name where no end is an adapter."""
        return next((self.owners.of_port[end] for end in link.ends if end in self.owners.of_port), NOBODY)

    def port_of(self, place: Place) -> PortKey | None:
        """Return the port of a node's rail, where it has a link."""
        key = self.owners.places.get(place)
        return key if key in self.link_at else None

    def switch_of(self, place: Place) -> PortKey | None:
        """Return the switch port that a node's rail is connected to."""
        key = self.port_of(place)
        peer = self.peer_of(key) if key else None
        return peer if peer and self.is_switch(peer.guid) else None

    def uplinks_of(self, guid: str) -> list[Link]:
        """Return a switch's links to switches of the next tier."""
        level = self.tiers.levels.get(guid)
        if level is None:
            return []
        return [
            link
            for link in self.tiers.links_at.get(guid, ())
            if self.tiers.levels.get(link.far_end(guid).guid) == level + 1
        ]

    def show_switch(self, guid: str) -> str:
        """Return a switch's name and GUID for a text, also of one that only the previous reading has."""
        if guid not in self.names and self.before is not None and guid in self.before.names:
            return self.before.show_switch(guid)
        return f"{self.names.get(guid, 'a switch')} ({guid})"

    def show_port(self, key: PortKey) -> str:
        """Return a port's name and GUID for a text."""
        owner = self.owners.of_port.get(key)
        if owner is None and key.guid not in self.reading.devices and self.before is not None:
            return self.before.show_port(key)
        if owner is None:
            name = self.names.get(key.guid)
            return f"{name} port {key.number} ({key.guid})" if name else f"{key.guid} port {key.number}"
        if owner.node and owner.rail:
            return f"{owner.node} {owner.rail} ({key.guid} port {key.number})"
        return f"{owner.node or owner.shown} port {key.number} ({key.guid})"

    def port(self, key: PortKey) -> Port | None:
        """Return a port of the reading."""
        return self.reading.port(key)


#: Of a link between switches.
NOBODY = Owner(None, None, "", None)


def report_link(
    view: View, link: Link, cause: str, severity: Severity, text: str, *, inferred: bool = False
) -> Finding:
    """Make a finding about a link, of the node and rail at one of its ends."""
    owner = view.owner_of(link)
    return build_finding(
        cause, severity, text, inferred=inferred, node=owner.node, rail=owner.rail, ports=link.ends,
        sources=link.sources,
    )  # fmt: skip


def place_of(port: ExpectedPort) -> Place:
    """Return the node and rail of an expected port."""
    return port.node, port.rail


def show_place(place: Place) -> str:
    """Return node and rail for a text."""
    return f"{place[0]} {place[1]}"


def build_view(reading: Reading, expected: Expected, previous: Reading | None) -> View:
    """Look at a reading beside what is expected of it."""
    before = build_view(previous, expected, None) if previous is not None else None
    owners = recognize_adapters(reading, expected)
    links, conflicts = list_links(reading)
    link_at = {end: link for link in links for end in link.ends}
    leaves = _match_leaves(reading, expected, owners, link_at)
    switches = {guid for guid, device in reading.devices.items() if device.kind == "switch"}
    names = {guid: show_name(reading.devices[guid].description) for guid in switches}
    names |= {match.guid: show_name(name) for name, match in leaves.items()}
    tiers = find_tiers(switches, links, owners.of_port, {match.guid for match in leaves.values()})
    return View(
        reading, expected, before, owners, tuple(links), tuple(conflicts), link_at, leaves, tiers, names
    )


def _match_leaves(
    reading: Reading, expected: Expected, owners: Owners, link_at: dict[PortKey, Link]
) -> dict[str, LeafMatch]:
    """Tell which switch each leaf of the inventory is: by GUID, else name, else by most of its ports."""
    switches = {guid: device for guid, device in reading.devices.items() if device.kind == "switch"}
    by_name: dict[str, list[str]] = {}
    for guid, device in switches.items():
        for name in dict.fromkeys(switch_names(device.description)):
            by_name.setdefault(name, []).append(guid)
    wanted = dict.fromkeys([*expected.leaves, *(one.leaf for one in expected.ports if one.leaf)])
    found: dict[str, LeafMatch] = {}
    for name in wanted:
        leaf = expected.leaves.get(name)
        if leaf is not None and leaf.guid in switches:
            found[name] = LeafMatch(str(leaf.guid), "guid")
    taken = {match.guid for match in found.values()}
    for name in wanted:
        same = [guid for guid in by_name.get(name.lower(), ()) if guid not in taken]
        if name not in found and len(same) == 1:
            found[name] = LeafMatch(same[0], "name")
    taken = {match.guid for match in found.values()}
    seen: dict[str, Counter[str]] = {name: Counter() for name in wanted if name not in found}
    for one in expected.ports:
        key = owners.places.get(place_of(one))
        link = link_at.get(key) if key else None
        if key is not None and link is not None and one.leaf in seen:
            seen[one.leaf][(link.other if link.one == key else link.one).guid] += 1
    for name, switch_counts in seen.items():
        for guid, count in switch_counts.most_common(1):
            if guid in switches and guid not in taken and count > 1 and 2 * count > switch_counts.total():
                found[name] = LeafMatch(guid, "majority")
    guids = Counter(match.guid for match in found.values())
    return {name: match for name, match in found.items() if match.by != "majority" or guids[match.guid] == 1}
