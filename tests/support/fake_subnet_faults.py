# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults in a made-up subnet, each with the findings that must come of it."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import Partition
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Duplicate,
    NoAnswer,
    PortKey,
    Source,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding

from support.fake_subnets import EDR, FDR, HERE, SDR, Net, manager

STDERR = Source("ibnetdiscover.err", 1)
PARTITIONS = {
    0x7FFF: Partition(0x7FFF, "Default", {"all": "full"}),
    0x1: Partition(0x1, "compute", {"all": "full"}),
}


@dataclass
class Want:
    """A finding that must come: its cause, its place, and ports that it must name."""

    cause: str
    node: str | None = None
    rail: str | None = None
    ports: set[PortKey] = field(default_factory=set)
    any_node: bool = False

    def fits(self, finding: Finding) -> bool:
        return (
            finding.cause == self.cause
            and (self.any_node or (finding.node == self.node and finding.rail == self.rail))
            and self.ports <= set(finding.ports)
        )


@dataclass
class Places:
    """Draws places that no other fault has touched, so that each fault shows by itself."""

    net: Net
    rng: random.Random
    nodes: set[int] = field(default_factory=set)
    leaves: set[tuple[int, int]] = field(default_factory=set)
    spines: set[int] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)

    def node(self, unit: int | None = None) -> int:
        """Return an untouched node, none of whose leaves is touched."""
        each, rails = self.net.nodes_each, range(self.net.rails)
        free = [
            node
            for node in range(self.net.units * each)
            if node not in self.nodes
            and (unit is None or node // each == unit)
            and not any((node // each, rail) in self.leaves for rail in rails)
        ]
        node = self.rng.choice(free)
        self.nodes.add(node)
        return node

    def leaf(self) -> tuple[int, int]:
        """Return an untouched leaf, none of whose nodes is touched."""
        units = {node // self.net.nodes_each for node in self.nodes}
        free = [
            (unit, rail)
            for unit in range(self.net.units)
            for rail in range(self.net.rails)
            if (unit, rail) not in self.leaves and unit not in units
        ]
        leaf = self.rng.choice(free)
        self.leaves.add(leaf)
        return leaf

    def spine(self) -> int:
        spine = self.rng.choice([one for one in range(self.net.spines) if one not in self.spines])
        self.spines.add(spine)
        return spine

    def once(self, name: str) -> None:
        """Claim what there is once in a subnet."""
        if name in self.whole:
            raise IndexError(name)
        self.whole.add(name)

    def pkeys(self, own: str, other: str) -> None:
        """Claim the P_Key tables for faults of ports, or for one of the whole subnet."""
        if other in self.whole:
            raise IndexError(other)
        self.whole.add(own)

    def rail(self) -> int:
        return self.rng.randrange(self.net.rails)

    def port(self) -> tuple[int, int, PortKey, PortKey]:
        node, rail = self.node(), self.rail()
        key = self.net.adapter_key(node, rail)
        return node, rail, key, self.net.peer(key)

    def uplink(self) -> tuple[PortKey, PortKey]:
        unit, rail = self.leaf()
        spine = self.spine()
        far = [
            (PortKey(self.net.leaf(unit, rail), number), port.peer)
            for number, port in self.net.devices[self.net.leaf(unit, rail)].ports.items()
            if port.peer is not None and port.peer.guid == self.net.spine(spine)
        ]
        key, peer = self.rng.choice(far)
        assert peer is not None
        return key, peer


Fault = Callable[[Net, Places], list[Want]]


def adapter_link_down(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.disconnect(key)
    return [Want("link_lost", net.node(node), f"rail{rail}", {leaf})]


def node_off(net: Net, places: Places) -> list[Want]:
    node = places.node()
    for rail in range(net.rails):
        net.disconnect(net.adapter_key(node, rail))
    return [Want("adapter_missing", net.node(node))]


def uplink_down(net: Net, places: Places) -> list[Want]:
    key, peer = places.uplink()
    net.disconnect(key)
    return [Want("link_lost", ports={key, peer})]


def leaf_lost(net: Net, places: Places) -> list[Want]:
    places.once("a switch")  # ports of another one that is gone would be named
    unit, rail = places.leaf()
    peers = net.remove(net.leaf(unit, rail))
    return [Want("switch_missing", ports={key for key in peers if key.guid in net.devices})]


def spine_lost(net: Net, places: Places) -> list[Want]:
    places.once("a switch")  # ports of another one that is gone would be named
    places.once("uplinks")
    spine = places.spine()
    places.spines |= set(range(net.spines))  # each leaf is concerned
    return [Want("switch_missing", ports=set(net.remove(net.spine(spine))))]


def adapter_narrow(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.train(key, width=places.rng.choice([1, 2]))
    return [Want("link_narrow", net.node(node), f"rail{rail}", {key, leaf})]


def adapter_slow(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.train(key, lane_gbps=places.rng.choice([FDR, SDR]))
    return [Want("link_lanes_slow", net.node(node), f"rail{rail}", {key, leaf})]


def uplink_narrow(net: Net, places: Places) -> list[Want]:
    key, peer = places.uplink()
    net.train(key, width=1)
    return [Want("link_narrow", ports={key, peer})]


def uplink_slow(net: Net, places: Places) -> list[Want]:
    key, peer = places.uplink()
    net.train(key, lane_gbps=SDR)
    return [Want("link_lanes_slow", ports={key, peer})]


def symbol_errors(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.after[places.rng.choice([key, leaf])] = {"SymbolErrorCounter": 1000}
    return [Want("errors_above_ber", net.node(node), f"rail{rail}", {key, leaf})]


def uplink_errors(net: Net, places: Places) -> list[Want]:
    key, peer = places.uplink()
    net.after[peer] = {"PortRcvErrors": 5000}
    return [Want("errors_above_ber", ports={key, peer})]


def few_symbol_errors(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.after[leaf] = {"SymbolErrorCounter": 1}
    return [Want("errors_counted", net.node(node), f"rail{rail}", {key, leaf})]


def flap(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.before[leaf] = {"LinkDownedCounter": 3}
    net.after[leaf] = {"LinkDownedCounter": 4, "SymbolErrorCounter": 9}
    return [Want("flapped", net.node(node), f"rail{rail}", {key, leaf})]


def rails_swapped(net: Net, places: Places) -> list[Want]:
    node = places.node()
    one, other = places.rng.sample(range(net.rails), 2)
    keys = net.adapter_key(node, one), net.adapter_key(node, other)
    net.swap(*keys)
    return [Want("wrong_leaf", net.node(node), None, {*keys, *map(net.peer, keys)})]


def nodes_swapped(net: Net, places: Places) -> list[Want]:
    one, other = places.node(0), places.node(net.units - 1)
    keys = set()
    for rail in range(net.rails):
        pair = net.adapter_key(one, rail), net.adapter_key(other, rail)
        net.swap(*pair)
        keys |= {*pair, *map(net.peer, pair)}
    return [Want("wrong_leaf", ports=keys, any_node=True)]


def node_moved(net: Net, places: Places) -> list[Want]:
    node = places.node(0)
    places.node(net.units - 1)  # so that the leaves that it moves to stay
    places.once("spare")
    keys = set()
    for rail in range(net.rails):
        key, far = net.adapter_key(node, rail), PortKey(net.leaf(net.units - 1, rail), net.nodes_each + 1)
        net.move(key, far)
        keys |= {key, far}
    return [Want("wrong_leaf", net.node(node), None, keys)]


def cable_moved(net: Net, places: Places) -> list[Want]:
    node, rail, key, _old = places.port()
    unit = node // net.nodes_each
    far = PortKey(net.leaf(unit, (rail + 1) % net.rails), net.nodes_each + 2)
    places.once(f"spare {far}")
    net.move(key, far)
    return [Want("wrong_leaf", net.node(node), f"rail{rail}", {key, far})]


def duplicate_guid(net: Net, places: Places) -> list[Want]:
    """Give an adapter the node GUID of another: its leaf's port is up without a neighbor [sim]."""
    node, rail, key, leaf = places.port()
    other = places.node()
    places.once("blind")
    guid = net.adapter(other, places.rail())
    del net.devices[key.guid]
    net.devices[leaf.guid].ports[leaf.number].peer = None
    net.duplicates.append(Duplicate(net.port_guid(guid), (), "Port with guid already exists", STDERR))
    return [Want("guid_duplicate", net.node(node), f"rail{rail}", {leaf, net.peer(PortKey(guid, 1))})]


def adapter_silent(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    net.remove(key.guid, silent=True)
    net.silent.append(NoAnswer("DR path 0,1,25", leaf, "Connection timed out", STDERR))
    return [Want("no_answer", net.node(node), f"rail{rail}", {leaf})]


def leaf_silent(net: Net, places: Places) -> list[Want]:
    places.once("a switch")  # ports of another one that is gone would be named
    unit, rail = places.leaf()
    peers = [key for key in net.remove(net.leaf(unit, rail), silent=True) if key.guid in net.devices]
    net.silent += [NoAnswer(f"DR path 0,{key.number}", key, "Connection timed out", STDERR) for key in peers]
    return [Want("no_answer", ports=set(peers))]


def spine_silent(net: Net, places: Places) -> list[Want]:
    places.once("a switch")  # ports of another one that is gone would be named
    places.once("uplinks")
    spine = places.spine()
    places.spines |= set(range(net.spines))
    peers = net.remove(net.spine(spine), silent=True)
    net.silent += [NoAnswer(f"DR path 0,{key.number}", key, "Connection timed out", STDERR) for key in peers]
    return [Want("no_answer", ports=set(peers))]


def port_without_peer(net: Net, places: Places) -> list[Want]:
    node, rail, key, leaf = places.port()
    places.once("blind")  # a hidden duplicate looks the same
    net.remove(key.guid, silent=True)
    return [Want("port_no_peer", net.node(node), f"rail{rail}", {leaf})]


def give_table(cause: str, table: tuple[int, ...]) -> Fault:
    """Return the fault that one port has another table of P_Keys."""

    def fault(net: Net, places: Places) -> list[Want]:
        places.pkeys("some tables", "all tables")
        node, rail, key, _leaf = places.port()
        assert net.pkeys is not None
        net.pkeys[key] = table
        return [Want(cause, net.node(node), f"rail{rail}", {key})]

    fault.__name__ = cause
    return fault


def partitions_default(net: Net, places: Places) -> list[Want]:
    places.pkeys("all tables", "some tables")
    assert net.pkeys is not None
    net.pkeys = dict.fromkeys(net.pkeys, (0xFFFF,))
    return [Want("partitions_default")]


def two_masters(net: Net, places: Places) -> list[Want]:
    places.once("managers")
    node = places.node()
    assert net.managers is not None
    net.managers.append(manager(net.port_guid(net.adapter(node, 0)), "MASTER"))
    return [Want("two_masters", ports={net.adapter_key(node, 0)})]


def no_master(net: Net, places: Places) -> list[Want]:
    places.once("managers")
    net.managers = []
    return [Want("no_master")]


#: Those that can be alone in any net of two units and two spines.
FAULTS: tuple[Fault, ...] = (
    adapter_link_down, node_off, uplink_down, leaf_lost, spine_lost, adapter_narrow, adapter_slow,
    uplink_narrow, uplink_slow, symbol_errors, uplink_errors, few_symbol_errors, flap,
    rails_swapped, nodes_swapped, node_moved, cable_moved, duplicate_guid, adapter_silent,
    leaf_silent, spine_silent, port_without_peer, give_table("pkey_limited", (0xFFFF, 0x0001)),
    give_table("pkey_missing", (0xFFFF,)), give_table("pkey_extra", (0xFFFF, 0x8001, 0x8002)),
    partitions_default, two_masters, no_master,
)  # fmt: skip

__all__ = ["EDR", "FAULTS", "HERE", "PARTITIONS", "Fault", "Places", "Want"]
