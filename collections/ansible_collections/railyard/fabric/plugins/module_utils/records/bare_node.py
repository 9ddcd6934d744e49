# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node says of itself before there is an inventory: the answer of module `bare_node_info`.

It is the facts of a node (`records.facts`), and what beside them tells which ports are rails and which ports
share a network. Speeds are Mbit/s, times seconds since the epoch.
"""

from __future__ import annotations

from typing import Annotated, Literal, Optional, TypedDict

from . import facts, reader
from .facts import Count, Mac, PciAddress
from .reader import AtLeast, NotTwice, RefusedError


class Neighbour(TypedDict):
    """The switch port at the other end, by LLDP."""

    switch: Optional[str]
    chassis: str
    port: str


class Port(TypedDict):
    """What a port says beside its line in `netdevs` of the facts, or an RDMA function without netdev.

    `pci_id` is vendor and device (`15b3:1021`); `model` and `serial` are of the card's VPD; `physical_port`
    is the same for two functions on one wire (`phys_port_id`, or `phys_port_name` together with
    `phys_switch_id` or the RDMA device's system image GUID).
    """

    netdev: Optional[str]
    hca: Optional[str]
    pci: Optional[PciAddress]
    dev_port: Optional[Count]
    pci_id: Optional[Annotated[str, reader.Matches("[0-9a-f]{4}:[0-9a-f]{4}")]]
    model: Optional[str]
    serial: Optional[str]
    firmware: Optional[str]
    physical_port: Optional[str]
    is_virtual_function: bool
    neighbours: list[Neighbour]


class Sender(TypedDict):
    """A port whose beacon was heard: its node's key (`BareNode.key`), its netdev and its MAC address."""

    key: str
    netdev: str
    mac: Mac


class IdleFunction(TypedDict):
    """A network function of the PCI bus without netdev and RDMA device, and the driver that has it."""

    pci: PciAddress
    pci_id: Optional[Annotated[str, reader.Matches("[0-9a-f]{4}:[0-9a-f]{4}")]]
    driver: Optional[str]


class _HeardOfSome(TypedDict, total=False):
    speed_mbps: Optional[Annotated[int, AtLeast(1)]]  # of a port that was raised: the facts are of before
    neighbours: list[Neighbour]  # switches that were heard meanwhile, also without lldpd


class Heard(_HeardOfSome):
    """What a port heard of the beacons of this discovery.

    `error` is why it neither sent nor heard (None where it did); `strangers` counts frames of others;
    `raised` tells that the port was down and was raised for this.
    """

    netdev: str
    senders: list[Sender]
    strangers: Count
    raised: bool
    error: Optional[str]


class _BareNodeOfSome(TypedDict, total=False):
    idle_functions: list[IdleFunction]


class BareNode(_BareNodeOfSome):
    """A node as it was found.

    `key` is what the controller called the node (never taken for a name of its files); `hostname` what it
    calls itself; `default_route` the netdevs of its default routes; `login_address` the node's address of
    this SSH connection; `nvlink_domain` the NVLink fabric by nvidia-smi, `UUID.clique` as in Kubernetes
    labels.
    """

    schema: Literal[1]
    key: Annotated[str, reader.Matches(r"[^\x00-\x1f]{1,253}")]
    hostname: Optional[str]
    product: Optional[str]
    default_route: Annotated[list[str], NotTwice()]
    login_address: Optional[str]
    bmc_address: Optional[str]
    nvlink_domain: Optional[str]
    facts: facts.NodeFacts
    ports: list[Port]
    beacons: Optional[list[Heard]]


def read(row: object) -> BareNode:
    """Parse the answer of a node.

    Raises:
        RefusedError: it is not what the module writes, or names a port twice.
    """
    found = reader.read(BareNode, row)
    found["facts"] = facts.read(found["facts"])
    for what, names in (
        ("ports", [(one["netdev"], one["hca"]) for one in found["ports"]]),
        ("beacons", [one["netdev"] for one in found["beacons"] or []]),
    ):
        if len(set(names)) < len(names):
            raise RefusedError("names a port twice", what)
    return found
