# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell which adapter port is which rail of which node: a GUID of the facts counts before a description.

A NodeDescription is text that the node sets (rdma-ndd: `gpu05 mlx5_2`, rdma-core's default format `%h %d`).
It may be missing (`MT4129 ConnectX7 ...`), wrong, or the same on two nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Device,
    Port,
    PortKey,
    Reading,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import show_name
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Expected,
    ExpectedPort,
    Owner,
)

_NUMBER = re.compile(r"([0-9]+)")
#: How NVIDIA's managed switches call themselves: `MF0;leaf1:QM9700/U1`.
_MANAGED = re.compile(r"MF[0-9]+;(?P<name>.+?)(?::[^:;/]+/.*)?", re.DOTALL)

#: What firmware and drivers write where no description was set: `MT4129 ConnectX7   Mellanox Technologies`.
_CARD = re.compile(r"(mt[0-9]+|mellanox|nvidia|hca)\b")

Place = tuple[str, str]  # node, rail


class Misnamed(NamedTuple):
    """An adapter port that is one node's by its GUID, and calls itself another's."""

    key: PortKey
    node: str
    rail: str
    claimed: str


class Owners(NamedTuple):
    """Whose the adapter ports are.

    Attributes:
        of_port: every adapter port, aggregation nodes' not among them.
        places: (node, rail) -> its port.
        twice: (node, rail) -> the ports that claim it by name, where several do.
        misnamed: ports whose name contradicts their GUID.
        replaced: ports that have the name of a rail, and another GUID than the facts.
    """

    of_port: dict[PortKey, Owner]
    places: dict[Place, PortKey]
    twice: dict[Place, list[PortKey]]
    misnamed: list[Misnamed]
    replaced: list[PortKey]


class _Claim(NamedTuple):
    port: ExpectedPort
    by: Literal["guid", "name", "order"]


def sort_naturally(names: Sequence[str]) -> list[str]:
    """Sort names so that mlx5_9 comes before mlx5_10."""
    return sorted(names, key=lambda name: [part.zfill(12) for part in _NUMBER.split(name)])


def switch_names(description: str) -> Iterator[str]:
    """Yield the names by which an inventory may call a switch, in lower case."""
    name = description.strip().lower()
    yield name
    managed = _MANAGED.fullmatch(description.strip())
    if managed:
        yield managed["name"].strip().lower()


def recognize_adapters(reading: Reading, expected: Expected) -> Owners:
    """Tell whose each adapter port is."""
    finder = _Finder(reading, expected)
    of_port: dict[PortKey, Owner] = {}
    claims: dict[Place, list[tuple[PortKey, _Claim]]] = {}
    misnamed, replaced = [], []
    for device in reading.devices.values():
        if device.kind != "adapter":
            continue
        shown = show_name(device.description)
        named = finder.find_node(device)
        for port in device.ports.values():
            claim = finder.find_by_guid(device, port) or finder.find_by_name(device, port)
            if claim is None:
                of_port[port.key] = Owner(named, None, shown, "name" if named else None)
                continue
            one = claim.port
            of_port[port.key] = Owner(one.node, one.rail, shown, claim.by)
            claims.setdefault((one.node, one.rail), []).append((port.key, claim))
            if claim.by == "guid" and named is not None and named != one.node:
                misnamed.append(Misnamed(port.key, one.node, one.rail, named))
            elif claim.by != "guid" and (one.port_guid or one.node_guid):
                replaced.append(port.key)
    places, twice = {}, {}
    for place, found in claims.items():
        by_guid = [key for key, claim in found if claim.by == "guid"]
        places[place] = by_guid[0] if by_guid else min(key for key, _claim in found)
        if len(found) > 1:
            twice[place] = [key for key, _claim in found]
    for place, same in finder.shared.items():
        if same in places:
            places.setdefault(place, places[same])
    return Owners(of_port, places, twice, misnamed, replaced)


class _Finder:
    """Finds the expected port of an adapter port."""

    def __init__(self, reading: Reading, expected: Expected) -> None:
        self._by_port_guid: dict[str, ExpectedPort] = {}
        self._by_node_guid: dict[str, list[ExpectedPort]] = {}
        self._of_node: dict[str, list[ExpectedPort]] = {node: [] for node in expected.nodes}
        #: (node, rail) -> the rail that has the same port, where two rails share one.
        self.shared: dict[Place, Place] = {}
        for one in expected.ports:
            same = next(
                (other for other in self._of_node.get(one.node, ()) if _is_same_port(one, other)), None
            )
            if same is not None:
                self.shared[one.node, one.rail] = same.node, same.rail
                continue
            self._of_node.setdefault(one.node, []).append(one)
            if one.port_guid:
                self._by_port_guid.setdefault(one.port_guid, one)
            if one.node_guid:
                self._by_node_guid.setdefault(one.node_guid, []).append(one)
        self._nodes = _node_names(tuple(self._of_node))
        self._by_order = self._order(reading)

    def find_by_guid(self, device: Device, port: Port) -> _Claim | None:
        # Tools that name an adapter by its port's GUID alone leave that as the device's.
        known = self._by_port_guid.get(port.port_guid or "") or self._by_port_guid.get(device.guid)
        if known is not None:
            return _Claim(known, "guid")
        here = [one for one in self._by_node_guid.get(device.guid, []) if _number_of(one) == port.key.number]
        return _Claim(here[0], "guid") if len(here) == 1 else None

    def find_node(self, device: Device) -> str | None:
        host = _split(device.description)[0]
        return self._nodes.get(host) or self._nodes.get(host.split(".")[0])

    def find_by_name(self, device: Device, port: Port) -> _Claim | None:
        node, name = self.find_node(device), _split(device.description)[1]
        if node is None or not name:
            return None
        for one in self._of_node[node]:
            if name in one.names and _number_of(one) == port.key.number:
                return _Claim(one, "name")
        if any(one.names and one.hca for one in self._of_node[node]):
            return None
        rail = self._by_order.get((name, port.key.number))
        found = next((one for one in self._of_node[node] if one.rail == rail), None)
        return _Claim(found, "order") if found else None

    def _order(self, reading: Reading) -> dict[tuple[str, int], str]:
        """Map device names to rails by their order, where there are as many common names as rails."""
        seen: dict[tuple[str, int], set[str]] = {}
        nodes = set()
        for device in reading.devices.values():
            node, name = self.find_node(device), _split(device.description)[1]
            if device.kind != "adapter" or node is None or not name:
                continue
            nodes.add(node)
            for number in device.ports:
                seen.setdefault((name, number), set()).add(node)
        common = {key for key, having in seen.items() if 2 * len(having) > len(nodes)}
        rails = list(dict.fromkeys(one.rail for node in self._of_node for one in self._of_node[node]))
        if not rails or len(common) != len(rails):
            return {}
        order = sort_naturally([f"{name}:{number}" for name, number in common])
        pairs = zip(order, rails, strict=True)
        return {(key.rpartition(":")[0], int(key.rpartition(":")[2])): rail for key, rail in pairs}


def _split(description: str) -> tuple[str, str]:
    """Return the host (in lower case) and the device of `HOST DEVICE`; empty texts where there is none."""
    words = description.split()
    return (words[0].lower() if words else "", words[1] if len(words) == 2 else "")


def _node_names(nodes: Sequence[str]) -> Mapping[str, str]:
    """Map what a node may call itself, in lower case, to its name: that name, or its part before a dot."""
    short = Counter(node.lower().split(".")[0] for node in nodes)
    names = {node.lower().split(".")[0]: node for node in nodes if short[node.lower().split(".")[0]] == 1}
    return {**names, **{node.lower(): node for node in nodes}}


def _number_of(one: ExpectedPort) -> int:
    number = (one.hca or "").rpartition(":")[2]
    return int(number) if number.isdecimal() else 1


def _is_same_port(one: ExpectedPort, other: ExpectedPort) -> bool:
    if one.absent or other.absent:
        return False
    if one.port_guid or other.port_guid:
        return one.port_guid == other.port_guid
    return one.hca is not None and one.hca == other.hca


def has_host_name(description: str) -> bool:
    """Tell whether a description names a host: `HOST DEVICE`, and not the card or a host without a name."""
    host, device = _split(description)
    return bool(device) and host not in ("localhost", "(none)") and not _CARD.match(host)
