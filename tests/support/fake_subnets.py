# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand subnets that do not exist: hosts, rails, units and spines, as a reading and as an inventory.

Written from the shape of a rail-optimised fat tree, and not from what the judge makes of it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import Partition
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Counters,
    Device,
    Duplicate,
    NoAnswer,
    Port,
    PortKey,
    Problem,
    Reading,
    Source,
    SubnetManager,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Expected,
    ExpectedPort,
    Finding,
    Leaf,
)

EDR, FDR, SDR, HDR, NDR = 25.78125, 14.0625, 2.5, 53.125, 106.25
#: What a lane counts for in a rate: EDR 100, HDR 200, NDR 400 at four lanes.
SOLD_GBPS = {SDR: 2.5, FDR: 14.0, EDR: 25.0, HDR: 50.0, NDR: 100.0}
NOON_S = 1_790_000_000.0
HERE = Source("ibnetdiscover.txt", 7)
SPARE_PORTS = 2


@dataclass
class FakePort:
    """A port and what it is connected to."""

    width: int | None = 4
    lane_gbps: float | None = EDR
    peer: PortKey | None = None
    state: str = "Active"
    physical: str = "LinkUp"


@dataclass
class FakeDevice:
    """A switch or an adapter."""

    kind: str
    description: str
    ports: dict[int, FakePort] = field(default_factory=dict)


@dataclass
class Net:
    """A subnet that can be changed.

    Attributes:
        units: units of nodes; each has a leaf for each rail.
        nodes_each: nodes of a unit.
        rails: rails of a node.
        spines: spines, each connected to each leaf.
        links_each: links between a leaf and a spine.
        rate_gbps: what the inventory declares for a rail.
    """

    units: int = 2
    nodes_each: int = 4
    rails: int = 4
    spines: int = 2
    links_each: int = 2
    lane_gbps: float = EDR
    width: int = 4
    rate_gbps: float | None = 100.0
    devices: dict[str, FakeDevice] = field(default_factory=dict)
    managers: list[SubnetManager] | None = None
    pkeys: dict[PortKey, tuple[int, ...]] | None = None
    before: dict[PortKey, dict[str, int]] = field(default_factory=dict)
    after: dict[PortKey, dict[str, int]] = field(default_factory=dict)
    counted_s: float = 3600.0
    silent: list[NoAnswer] = field(default_factory=list)
    duplicates: list[Duplicate] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    taken_at_s: float = NOON_S

    def __post_init__(self) -> None:
        if self.devices:
            return
        for spine in range(self.spines):
            self.devices[self.spine(spine)] = FakeDevice("switch", f"spine{spine}")
        for unit in range(self.units):
            for rail in range(self.rails):
                leaf = self.leaf(unit, rail)
                self.devices[leaf] = FakeDevice("switch", self.leaf_name(unit, rail))
                for index in range(self.nodes_each):
                    node = unit * self.nodes_each + index
                    adapter = self.adapter(node, rail)
                    self.devices[adapter] = FakeDevice("adapter", f"{self.node(node)} mlx5_{rail}")
                    self.connect(PortKey(adapter, 1), PortKey(leaf, index + 1))
                for spare in range(SPARE_PORTS):
                    self.devices[leaf].ports[self.nodes_each + 1 + spare] = _dark()
                for spine in range(self.spines):
                    for link in range(self.links_each):
                        number = self.nodes_each + SPARE_PORTS + 1 + spine * self.links_each + link
                        up = (unit * self.rails + rail) * self.links_each + link + 1
                        self.connect(PortKey(leaf, number), PortKey(self.spine(spine), up))
        self.managers = [manager(self.spine(0) if self.spines else self.leaf(0, 0), "MASTER", 14)]

    # What things are called.

    def node(self, index: int) -> str:
        return f"gpu{index + 1:03d}"

    def leaf_name(self, unit: int, rail: int) -> str:
        return f"leaf{unit}-{rail}"

    def leaf(self, unit: int, rail: int) -> str:
        return f"0x{0xA000_0000 + unit * 256 + rail:016x}"

    def spine(self, index: int) -> str:
        return f"0x{0xB000_0000 + index:016x}"

    def adapter(self, node: int, rail: int) -> str:
        return f"0x{0xC000_0000 + node * 256 + rail * 2:016x}"

    def port_guid(self, guid: str) -> str:
        return f"0x{int(guid, 16) + 1:016x}"

    def adapter_key(self, node: int, rail: int) -> PortKey:
        return PortKey(self.adapter(node, rail), 1)

    # What is done to it.

    def connect(self, one: PortKey, other: PortKey) -> None:
        for key, far in ((one, other), (other, one)):
            self.devices[key.guid].ports[key.number] = FakePort(self.width, self.lane_gbps, far)

    def list_uplinks(self, leaf: str, spine: str | None = None) -> list[PortKey]:
        """Return a leaf's ports that lead to switches, or to this one."""
        ports = self.devices[leaf].ports.items()
        peers = [(PortKey(leaf, number), port.peer.guid) for number, port in ports if port.peer]
        return [key for key, guid in peers if self.devices[guid].kind == "switch" and spine in (None, guid)]

    def peer(self, key: PortKey) -> PortKey:
        peer = self.devices[key.guid].ports[key.number].peer
        assert peer is not None
        return peer

    def disconnect(self, key: PortKey) -> PortKey:
        """Pull a cable; returns the port at its other end. An adapter without a link is gone."""
        peer = self.peer(key)
        for end in (key, peer):
            port = self.devices[end.guid].ports[end.number]
            # The old rate stays where a cable was pulled.
            port.peer, port.state, port.physical = None, "Down", "Polling"
        for end in (key, peer):
            device = self.devices[end.guid]
            if device.kind == "adapter" and not any(port.peer for port in device.ports.values()):
                del self.devices[end.guid]
        return peer

    def swap(self, one: PortKey, other: PortKey) -> None:
        """Exchange the far ends of two cables."""
        far, other_far = self.peer(one), self.peer(other)
        self.connect(one, other_far)
        self.connect(other, far)

    def move(self, key: PortKey, far: PortKey) -> None:
        """Move an adapter's cable to another port of a switch; the port where it was is dark."""
        old = self.peer(key)
        self.connect(key, far)
        port = self.devices[old.guid].ports[old.number]
        port.peer, port.state, port.physical = None, "Down", "Polling"

    def remove(self, guid: str, *, silent: bool = False) -> list[PortKey]:
        """Take a device away, or let it answer no more; returns the ports that it was connected to."""
        peers = [port.peer for port in self.devices.pop(guid).ports.values() if port.peer is not None]
        for key in peers:
            port = self.devices[key.guid].ports[key.number]
            port.peer = None
            if not silent:
                port.state, port.physical = "Down", "Polling"
        for key in peers:  # what has no other link cannot be reached
            device = self.devices.get(key.guid)
            if (
                device is not None
                and device.kind == "adapter"
                and not any(p.peer for p in device.ports.values())
            ):
                del self.devices[key.guid]
        return peers

    def train(self, key: PortKey, *, width: int | None = None, lane_gbps: float | None = None) -> None:
        """Let a link come up narrower or slower, at both ends."""
        for end in (key, self.peer(key)):
            port = self.devices[end.guid].ports[end.number]
            port.width = width or port.width
            port.lane_gbps = lane_gbps or port.lane_gbps

    def copy(self) -> Net:
        return copy.deepcopy(self)

    # What comes of it.

    def reading(self, **changes: object) -> Reading:
        devices = {}
        for lid, (guid, device) in enumerate(self.devices.items(), 1):
            is_adapter = device.kind != "switch"
            ports = {
                number: Port(
                    PortKey(guid, number),
                    port_guid=self.port_guid(guid) if is_adapter else guid,
                    lid=lid,
                    state=port.state,
                    physical=port.physical,
                    width=port.width,
                    lane_gbps=port.lane_gbps,
                    peer=port.peer,
                    could_be=("12X",),
                    sources=(HERE,),
                )
                for number, port in device.ports.items()
            }
            devices[guid] = Device(guid, device.kind, device.description, ports)
        reading = Reading(
            taken_at_s=self.taken_at_s,
            host=self.node(0),
            device="mlx5_0:1",
            prefix="0xfe80000000000000",
            devices=devices,
            managers=None if self.managers is None else tuple(self.managers),
            pkeys=self.pkeys,
            counters=(
                Counters(self.taken_at_s, self.before, True),
                Counters(self.taken_at_s + self.counted_s, self.after, True),
            ),
            silent=tuple(self.silent),
            duplicates=tuple(self.duplicates),
            problems=tuple(self.problems),
        )
        return reading._replace(**changes)  # type: ignore[arg-type]

    def expected(
        self,
        *,
        leaves: bool = True,
        units: bool = False,
        hca: bool = True,
        facts: bool = False,
        uplinks: bool = False,
        partitions: dict[int, Partition] | None = None,
        managers: tuple[str, ...] | None = None,
    ) -> Expected:
        """Return what an inventory of the net without faults expects."""
        ports = []
        nodes = self.units * self.nodes_each
        for node in range(nodes):
            for rail in range(self.rails):
                unit, guid = node // self.nodes_each, self.adapter(node, rail)
                ports.append(
                    ExpectedPort(
                        node=self.node(node),
                        rail=f"rail{rail}",
                        hca=f"mlx5_{rail}:1" if hca else None,
                        port_guid=self.port_guid(guid) if facts else None,
                        node_guid=guid if facts else None,
                        rate_gbps=self.rate_gbps,
                        leaf=self.leaf_name(unit, rail) if leaves else None,
                        names=(f"mlx5_{rail}",) if hca else (),
                        unit=str(unit) if units else None,
                    )
                )
        up_gbps = self.spines * self.links_each * self.width * SOLD_GBPS[self.lane_gbps] if uplinks else None
        declared = {
            self.leaf_name(unit, rail): Leaf(None, up_gbps)
            for unit in range(self.units)
            for rail in range(self.rails)
        }
        return Expected(
            ports=tuple(ports),
            nodes=tuple(self.node(node) for node in range(nodes)),
            leaves=declared if leaves else {},
            partitions=partitions,
            managers=managers,
        )


def manager(port_guid: str, state: str | None, priority: int = 0, lid: int | None = None) -> SubnetManager:
    """Return a subnet manager as sminfo shows it."""
    return SubnetManager(port_guid, lid, state, priority, 100, Source("sminfo.txt", 1))


def describe(found: Finding) -> tuple[str, str, str | None, str | None]:
    """Return what a finding is, how bad, and at which node and rail."""
    return found.cause, found.severity, found.node, found.rail


def _dark() -> FakePort:
    # A port without a cable shows 4x SDR.
    return FakePort(4, SDR, None, "Down", "Polling")
