# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults at random places of a simulated subnet, and which findings belong to each.

What belongs to a fault follows from how it was made, not from what the judge says of it: the cause that the
design (shared/infiniband.md, section 3) names, at a port of the link or device that was touched.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding
from railyard.lab.subnet.faults import (
    Counted,
    DeviceLost,
    Exchanged,
    LinkDown,
    LiveFault,
    NodeGuid,
    Silent,
)
from railyard.lab.subnet.net import Cable, End, Net, Rate

from support.net_faults import OtherRate

#: In ibsim switches count packets that they discard when a link or device is lost (shared/infiniband.md).
_DISCARDS = "packets_discarded"
#: What a leaf with fewer or slower uplinks may be reported for as well: it follows from the fault.
_UPLINKS = frozenset({"oversubscribed", "spines_unequal"})


@dataclass(frozen=True)
class Planted:
    """A fault in a net.

    Attributes:
        name: its kind, and where it is: for messages.
        causes: the causes of which one must be reported.
        also: causes that may be reported beside it: consequences.
        ports: ports that a finding may name: of the links and devices that were touched.
        nodes: node and rail that a finding may name.
        device: what a finding without ports names: a device that is not in the reading.
        net_fault: how the net has it from the start.
        live: how it is made while the subnet runs.
        touched: devices whose links no other fault may touch.
    """

    name: str
    causes: frozenset[str]
    also: frozenset[str] = frozenset()
    ports: frozenset[PortKey] = frozenset()
    nodes: frozenset[tuple[str, str]] = frozenset()
    device: str | None = None
    net_fault: OtherRate | None = None
    live: tuple[LiveFault, ...] = ()
    touched: frozenset[str] = field(default=frozenset(), repr=False)

    def is_found_by(self, finding: Finding) -> bool:
        """Return whether a finding reports this fault."""
        return finding.cause in self.causes and self._is_here(finding)

    def explains(self, finding: Finding) -> bool:
        """Return whether a finding belongs to this fault: it reports it, or follows from it."""
        if finding.cause == _DISCARDS:
            return bool(self.live)
        return finding.cause in self.causes | self.also and self._is_here(finding)

    def _is_here(self, finding: Finding) -> bool:
        if finding.node is not None and finding.rail is not None:
            return (finding.node, finding.rail) in self.nodes
        if not finding.ports and self.device is not None:
            return self.device in finding.text
        return bool(self.ports & set(finding.ports))


Maker = Callable[[random.Random, Net], Planted]


def _guid(net: Net, name: str) -> str:
    return f"0x{net.devices[name].guid:016x}"


def _keys(net: Net, ends: Iterable[End]) -> frozenset[PortKey]:
    return frozenset(PortKey(_guid(net, end.device), end.port) for end in ends)


def _place(adapter: str) -> tuple[str, str]:
    """Return node and rail of an adapter of the test clusters: `gpu001 mlx5_2` is rail2."""
    node, device = adapter.split()
    return node, f"rail{device.removeprefix('mlx5_')}"


def _cables(net: Net, to_adapter: bool) -> list[Cable]:
    return [
        cable
        for cable in net.cables
        if to_adapter is any(net.devices[end.device].kind == "adapter" for end in cable.ends)
    ]


def _host_cable(chance: random.Random, net: Net) -> Cable:
    # The first adapter is where the subnet is read from.
    first = net.adapters()[0].name
    return chance.choice([one for one in _cables(net, True) if first not in {end.device for end in one.ends}])


def _link(kind: str, cable: Cable, net: Net, causes: Iterable[str], **made: object) -> Planted:
    adapters = [end.device for end in cable.ends if net.devices[end.device].kind == "adapter"]
    return Planted(
        f"{kind} {cable.ends[0].device} port {cable.ends[0].port}",
        frozenset(causes),
        frozenset() if adapters else _UPLINKS,
        _keys(net, cable.ends) | (frozenset() if adapters else _all_ports(net, _leaf_of(net, cable))),
        frozenset(map(_place, adapters)),
        touched=frozenset(end.device for end in cable.ends),
        **made,  # type: ignore[arg-type]
    )


def _leaf_of(net: Net, cable: Cable) -> str:
    return next(end.device for end in cable.ends if "leaf" in end.device)


def _all_ports(net: Net, device: str) -> frozenset[PortKey]:
    ends = [
        end for cable in net.cables if any(end.device == device for end in cable.ends) for end in cable.ends
    ]
    return _keys(net, ends)


def host_link_down(chance: random.Random, net: Net) -> Planted:
    """Pull the cable of a rail."""
    cable = _host_cable(chance, net)
    causes = ("link_lost", "adapter_missing", "link_down")
    return _link("host link down", cable, net, causes, live=(LinkDown(cable.ends[0]),))


def uplink_down(chance: random.Random, net: Net) -> Planted:
    """Pull an uplink."""
    cable = chance.choice(_cables(net, False))
    return _link("uplink down", cable, net, ("link_lost",), live=(LinkDown(cable.ends[0]),))


def narrow(chance: random.Random, net: Net) -> Planted:
    """Break lanes of a link, a rail's or an uplink."""
    cable = _host_cable(chance, net) if chance.random() < 0.5 else chance.choice(_cables(net, False))
    fault = OtherRate(cable.ends[0], Rate(chance.choice([1, 2]), cable.rate.speed))
    return _link("narrow link", cable, net, ("link_narrow",), net_fault=fault)


def slow(chance: random.Random, net: Net) -> Planted:
    """Let a link train at a lower speed, a rail's or an uplink."""
    cable = _host_cable(chance, net) if chance.random() < 0.5 else chance.choice(_cables(net, False))
    fault = OtherRate(cable.ends[0], Rate(4, chance.choice(["SDR", "QDR", "FDR"])))
    return _link("slow link", cable, net, ("link_lanes_slow", "link_slow"), net_fault=fault)


def errors(chance: random.Random, net: Net) -> Planted:
    """Let a port count symbol errors, 20,000 in the time between two readings."""
    cable = _host_cable(chance, net) if chance.random() < 0.5 else chance.choice(_cables(net, False))
    end = chance.choice(cable.ends)
    live = (Counted(end, "SymbolErrorCounter", 20_000),)
    return _link("symbol errors", cable, net, ("errors_above_ber",), live=live)


def flapped(chance: random.Random, net: Net) -> Planted:
    """Let a link go down and come back between two readings."""
    cable = _host_cable(chance, net) if chance.random() < 0.5 else chance.choice(_cables(net, False))
    counter = chance.choice(["LinkDownedCounter", "LinkErrorRecoveryCounter"])
    live = (Counted(chance.choice(cable.ends), counter, chance.randint(1, 9)),)
    return _link("flap", cable, net, ("flapped",), live=live)


def rails_exchanged(chance: random.Random, net: Net) -> Planted:
    """Exchange the cables of two rails of a node."""
    # Not of the node that the subnet is read from and managed by: it would move to another place meanwhile.
    here = net.adapters()[0].name.split()[0]
    node = chance.choice(sorted({one.name.split()[0] for one in net.adapters()} - {here}))
    first, second = chance.sample([one.name for one in net.adapters() if one.name.split()[0] == node], 2)
    ends = [End(first, 1), End(second, 1)]
    return Planted(
        f"rails exchanged: {first}, {second}",
        frozenset({"wrong_leaf", "wrong_rail"}),
        ports=_keys(net, [*ends, *(end for one in ends for end in net.cable_at(one).ends)]),
        nodes=frozenset({_place(first), _place(second)}),
        live=(Exchanged(*ends),),
        touched=frozenset({first, second}),
    )


def adapter_silent(chance: random.Random, net: Net) -> Planted:
    """Let an adapter answer nothing."""
    cable = _host_cable(chance, net)
    adapter = next(end.device for end in cable.ends if net.devices[end.device].kind == "adapter")
    return _link("silent adapter", cable, net, ("no_answer",), live=(Silent(adapter),))


def guid_twice(chance: random.Random, net: Net) -> Planted:
    """Give an adapter the node GUID of another one."""
    first, second = chance.sample([one.name for one in net.adapters()[1:]], 2)
    ends = [end for name in (first, second) for end in net.cable_at(End(name, 1)).ends]
    return Planted(
        f"{second} has the GUID of {first}",
        frozenset({"guid_duplicate"}),
        ports=_keys(net, ends),
        nodes=frozenset({_place(first), _place(second)}),
        live=(NodeGuid(second, net.devices[first].guid),),
        touched=frozenset({first, second}),
    )


def spine_lost(chance: random.Random, net: Net) -> Planted:
    """Switch a spine off."""
    spine = chance.choice([one.name for one in net.switches() if one.name.startswith("spine")])
    return Planted(
        f"spine lost: {spine}",
        frozenset({"switch_missing"}),
        _UPLINKS,
        _all_ports(net, spine) | _keys(net, [End(spine, 0)]) | _ports_of_leaves(net),
        device=spine,
        live=(DeviceLost(spine),),
        # No other fault of an uplink: its link may be lost with the spine.
        touched=frozenset(one.name for one in net.switches()),
    )


def leaf_lost(chance: random.Random, net: Net) -> Planted:
    """Switch a leaf off, not the one that the subnet is read through."""
    own = net.cable_at(End(net.adapters()[0].name, 1)).ends
    leaf = chance.choice(
        [
            one.name
            for one in net.switches()
            if "leaf" in one.name and one.name not in {end.device for end in own}
        ]
    )
    ends = [
        end for cable in net.cables if any(end.device == leaf for end in cable.ends) for end in cable.ends
    ]
    return Planted(
        f"leaf lost: {leaf}",
        frozenset({"switch_missing"}),
        _UPLINKS,
        _all_ports(net, leaf) | _keys(net, [End(leaf, 0)]),
        device=leaf,
        live=(DeviceLost(leaf),),
        touched=frozenset(end.device for end in ends),
    )


def _ports_of_leaves(net: Net) -> frozenset[PortKey]:
    leaves = [one.name for one in net.switches() if "leaf" in one.name]
    return frozenset(key for leaf in leaves for key in _all_ports(net, leaf))


KINDS: tuple[Maker, ...] = (
    host_link_down, uplink_down, narrow, slow, errors, flapped, rails_exchanged, adapter_silent, guid_twice,
    spine_lost, leaf_lost,
)  # fmt: skip


def plant(chance: random.Random, net: Net, count: int, kinds: Iterable[Maker] = KINDS) -> list[Planted]:
    """Return so many faults at random places that do not hide one another."""
    # Each kind once in turn, so that none is missing by chance.
    order = list(kinds)
    chance.shuffle(order)
    planted: list[Planted] = []
    taken: set[str] = set()
    position = 0
    while len(planted) < count:
        fault = order[position % len(order)](chance, net)
        position += 1
        # Two faults at one leaf are independent, unless one of them is the leaf itself.
        adapters = {name for name in fault.touched if net.devices[name].kind == "adapter"}
        is_whole = fault.name.startswith(("spine lost", "leaf lost"))
        if (fault.touched if is_whole else adapters or fault.touched) & taken:
            if position > 50 * count:
                raise AssertionError("the net has no room for so many faults")
            continue
        taken |= fault.touched if is_whole else adapters or fault.touched
        planted.append(fault)
    return planted


@dataclass(frozen=True)
class Score:
    """How findings fit the faults that were planted."""

    missed: tuple[str, ...]
    wrong: tuple[Finding, ...]
    planted: int
    reported: int

    @property
    def recall(self) -> float:
        """The share of faults that were reported."""
        return 1 - len(self.missed) / self.planted if self.planted else 1.0

    @property
    def precision(self) -> float:
        """The share of findings that belong to a fault."""
        return 1 - len(self.wrong) / self.reported if self.reported else 1.0


def score(planted: Iterable[Planted], findings: Iterable[Finding]) -> Score:
    """Compare findings with what was planted; notes of what could not be read do not count."""
    faults, found = list(planted), list(findings)
    missed = tuple(one.name for one in faults if not any(map(one.is_found_by, found)))
    wrong = tuple(one for one in found if not any(fault.explains(one) for fault in faults))
    return Score(missed, wrong, len(faults), len(found))
