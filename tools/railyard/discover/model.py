"""What a survey of bare nodes takes and finds. The parts that decide fill it in; `files` writes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from railyard.discover.ports import Port

#: How it was found which ports of different nodes are one rail, and in which order rails are counted.
Method = Literal["lldp", "beacons", "slot", "position", "pci"]


@dataclass(frozen=True)
class Named:
    """A node as the user named it, or is to be named; None where not given."""

    key: str
    name: str
    ansible_host: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class Question:
    """What only a person can decide.

    `key` is what `Options.answers` takes, `rails` or `frontend`; None where no answer of the list would do.
    """

    key: str | None
    text: str
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True)
class Options:
    """The user's options beside the nodes.

    Attributes:
        keep_addresses: keep the rails' addresses and MTU, where each rail has one network on all nodes.
        answers: key of a question → one of its candidates.
    """

    keep_addresses: bool = False
    answers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Rail:
    """One rail of the cluster.

    Attributes:
        ports: node → its port; a node whose port was not found has none.
        joined_by: how it was found that these ports are one rail.
        selector: what names the port in the inventory: `netdev`, `pci`, `mac` or `hca`.
        value: the selector's value on most nodes.
        leaves: scalable unit (None without units) → the switch.
        keys: its keys in `fabric.rails`, beside name and selector.
    """

    name: str
    ports: dict[str, Port]
    joined_by: Method
    selector: str = "netdev"
    value: str | None = None
    rate_gbps: float | None = None
    leaves: dict[str | None, str] = field(default_factory=dict)
    shares_wire_with: str | None = None
    keys: dict[str, Any] = field(default_factory=dict)


@dataclass
class Node:
    """One node of the cluster; `variables` are its own host variables."""

    name: str
    named: Named
    unit: str | None = None
    hostname: str | None = None
    product: str | None = None
    node_index: int | None = None
    gpus: dict[str, Any] | None = None
    nvlink_domain: str | None = None
    bmc_address: str | None = None
    overrides: dict[str, dict[str, Any] | str] = field(default_factory=dict)


@dataclass
class Survey:
    """All that was found.

    Attributes:
        ordered_by: how the order of the rails was found.
        oddities: sentences about what a person should look at.
        questions: what only a person can decide; where there is one, nothing may be written.
        not_known: what could not be read.
        assumed: what was taken as usual.
        others: ports that are no rails, by node.
    """

    nodes: dict[str, Node]
    rails: list[Rail] = field(default_factory=list)
    ordered_by: Method = "pci"
    transport: str = "tcp"
    node_class: str = "hardware"
    cabling: str | None = None
    mtu: int | None = None
    host_offset: int = 0
    frontend: str | None = None
    networks: list[dict[str, Any]] = field(default_factory=list)
    soft_roce: list[dict[str, str]] = field(default_factory=list)
    oddities: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    not_known: list[str] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)
    others: dict[str, list[Port]] = field(default_factory=dict)
