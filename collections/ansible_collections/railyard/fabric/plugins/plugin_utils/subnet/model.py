# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is expected of a subnet, and what was decided about a reading of it. Types alone.

All texts of a judgement are cleaned (`plain_text.clean_line`); descriptions in a reading are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import Partition
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey, Source

Severity = Literal["fail", "warn", "unmeasured"]


class ExpectedPort(NamedTuple):
    """A rail of a node, as the inventory plans it.

    Attributes:
        node: the node's name in the inventory.
        rail: the rail's name.
        hca: RDMA device and port, `mlx5_0:1`; None where neither inventory nor facts name it.
        port_guid: the port's GUID, from the facts; None without.
        node_guid: the adapter's node GUID, from the facts; None without.
        rate_gbps: the declared rate; None without.
        leaf: the leaf that the inventory names; None without.
        absent: whether the inventory says that this node lacks the rail.
        names: RDMA device names by which a NodeDescription may call the port, the likeliest first.
        unit: the node's scalable unit as text; None without.
    """

    node: str
    rail: str
    hca: str | None = None
    port_guid: str | None = None
    node_guid: str | None = None
    rate_gbps: float | None = None
    leaf: str | None = None
    absent: bool = False
    names: tuple[str, ...] = ()
    unit: str | None = None


class Leaf(NamedTuple):
    """What the inventory says of a leaf: its switch's node GUID, and all its uplinks' rate together."""

    guid: str | None = None
    uplink_gbps: float | None = None


class Expected(NamedTuple):
    """What the inventory says of a subnet.

    Attributes:
        ports: every rail of every node, also those that are absent.
        nodes: the nodes, in the inventory's order.
        leaves: by name.
        partitions: by P_Key without the membership bit (0x7fff is the default partition); None where the
            inventory says nothing about partitions.
        managers: where subnet managers are declared: nodes, or `switch`; None where none is declared.
        changed_at_s: when the inventory's newest file was changed, seconds since the epoch; None if unknown.
    """

    ports: tuple[ExpectedPort, ...] = ()
    nodes: tuple[str, ...] = ()
    leaves: Mapping[str, Leaf] = {}
    partitions: Mapping[int, Partition] | None = None
    managers: tuple[str, ...] | None = None
    changed_at_s: float | None = None


class Owner(NamedTuple):
    """Whose adapter port it is.

    Attributes:
        node: the inventory's node; None for an adapter that the inventory does not have.
        rail: the rail; None where it is not known.
        shown: what the adapter calls itself, cleaned: for texts about unknown adapters.
        by: how it was recognized: by a GUID of the facts, by its description, or by its description's node
            and the order of the device names; None for an unknown one.
    """

    node: str | None
    rail: str | None
    shown: str
    by: Literal["guid", "name", "order"] | None


class Finding(NamedTuple):
    """One thing that is not as it should be, or that could not be decided.

    Attributes:
        cause: id of a row of the cause table.
        severity: `fail`, `warn`, or `unmeasured` (not decided).
        text: one sentence that names node, rail, leaf and port, by name and GUID. Cleaned.
        inferred: whether it follows from what most of the subnet is like, not from a declaration.
        node: the node concerned; None where it is no single node.
        rail: the rail concerned; None where it is no single rail.
        ports: the ports concerned, both ends of a link where both are known: for the drawing.
        sources: where it was read.
        next: what to do, from the cause table.
    """

    cause: str
    severity: Severity
    text: str
    inferred: bool = False
    node: str | None = None
    rail: str | None = None
    ports: tuple[PortKey, ...] = ()
    sources: tuple[Source, ...] = ()
    next: str = ""


class LeafState(NamedTuple):
    """A switch with adapters, and how its bandwidth down compares with its bandwidth up.

    Rates are Gbit/s, all links together. A ratio is `hosts_gbps` / uplinks; None without uplinks.

    Attributes:
        guid: the switch.
        name: the inventory's name of it, else its description, cleaned.
        hosts: how many adapter ports are connected to it.
        hosts_gbps: active links to adapters.
        hosts_gbps_cabled: the same with those of the previous reading that are lost; None without a previous.
        uplinks_gbps_now: active links to switches of the next tier.
        uplinks_gbps_cabled: the same with those of the previous reading; None without a previous reading.
        uplinks_gbps_declared: the inventory's `uplink_gbps`; None without.
        ratio_now: oversubscription as it is.
        ratio_cabled: as cabled (previous reading).
        ratio_declared: as declared: the declared rates of its rails to the declared uplinks.
        spines: active bandwidth to each switch of the next tier, by its GUID.
    """

    guid: str
    name: str
    hosts: int
    hosts_gbps: float
    hosts_gbps_cabled: float | None
    uplinks_gbps_now: float
    uplinks_gbps_cabled: float | None
    uplinks_gbps_declared: float | None
    ratio_now: float | None
    ratio_cabled: float | None
    ratio_declared: float | None
    spines: Mapping[str, float]


class Unit(NamedTuple):
    """Nodes that are connected to the same leaves: a rail group, or scalable unit."""

    name: str
    nodes: tuple[str, ...]
    leaves: tuple[str, ...]


class Coverage(NamedTuple):
    """How much was read.

    Attributes:
        switches: switches.
        adapters: adapters, aggregation nodes not among them.
        aggregation_nodes: SHARP aggregation nodes.
        links: links, each counted once.
        ports: ports of all devices that the reading has.
        expected_ports: adapter ports that the inventory expects in this subnet.
        found_ports: those of them that have a link.
        counted_s: seconds between the two readings of the counters; None without two.
        pkey_tables: adapter ports whose P_Key table was read; None where partitions were not read.
        managers: subnet managers that answered; None where they were not read.
    """

    switches: int
    adapters: int
    aggregation_nodes: int
    links: int
    ports: int
    expected_ports: int
    found_ports: int
    counted_s: float | None
    pkey_tables: int | None
    managers: int | None


class Judgement(NamedTuple):
    """What was decided about a reading.

    Attributes:
        findings: failures first, then what is unmeasured, then warnings.
        tiers: switch -> level; 0 has the adapters. A switch that no adapter's switch leads to is missing.
        is_tree: whether every link between switches joins two neighboring levels; else no tree is written.
        leaves: switches with adapters, by name.
        units: nodes with the same leaves, in the inventory's order.
        owners: adapter port -> whose it is; without aggregation nodes.
        switch_names: switch -> the inventory's name of it, or its description, cleaned.
        notes: statements that are no findings: no previous reading, no verdict on a rate, ...; cleaned.
        coverage: how much was read.
        status: 0 healthy, 1 a finding fails, 3 incomplete.
    """

    findings: tuple[Finding, ...]
    tiers: Mapping[str, int]
    is_tree: bool
    leaves: tuple[LeafState, ...]
    units: tuple[Unit, ...]
    owners: Mapping[PortKey, Owner]
    switch_names: Mapping[str, str]
    notes: tuple[str, ...]
    coverage: Coverage
    status: Literal[0, 1, 3]
