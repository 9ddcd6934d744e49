# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check the limits of hardware: EFA rails, rails on one wire, NVLink domains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Located, Node, Origin
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, Issue, Item
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import unit

#: NVIDIA, GB200 NVL72: the NVLink domain of a rack has 72 GPUs in 18 compute trays of 4. NVLink of the fifth
#: generation is announced for up to 576 GPUs in one domain, which no product of the time of writing has.
NVLINK_DOMAIN_GPUS_MAX = 576
#: A node whose GPUs are not declared counts as one GPU.
_LEAST_GPUS = 1
#: Keys of a rail, and of the fabric, that need a netdev, which an EFA device has not.
_NEED_NETDEV = (
    "netdev", "mac", "vlan", "subnet", "subnets", "subnet6", "subnets6", "address", "address6", "gateway",
    "gateway6", "routes", "mtu", "ipoib_mode", "netdev_pattern", "supernet", "rail_prefix", "rail_routes",
    "node_prefix", "node_prefix6",
)  # fmt: skip


def check_efa(item: Item, transport: object) -> Iterator[Issue]:
    """Yield the keys of a rail, an override or a fabric that EFA's rails cannot have.

    Args:
        item: The mapping.
        transport: The fabric's.
    """
    for key in _NEED_NETDEV if transport == "efa" else ():
        if item.get(key) is not None:
            message = "it needs a netdev, and an EFA device has none"
            yield key, message, "remove it, and name each rail by pci; transport tcp is for ENA's netdevs"


def check_wires(rails: Sequence[Any]) -> Iterator[Finding]:
    """Yield errors in `shares_wire_with`: a wire has two rails and one rate; either rail may declare it."""
    items = {
        item["name"]: (index, item)
        for index, item in enumerate(rails)
        if isinstance(item, Mapping) and isinstance(item.get("name"), str)
    }
    wires: dict[str, str] = {}
    for name, (index, item) in items.items():
        other = item.get("shares_wire_with")
        if not isinstance(other, str):
            continue
        for message, fix in _wrong_with(name, item, other, items, wires):
            yield Finding(f"fabric.rails[{index}].shares_wire_with", message, fix, None, name)
        wires.setdefault(name, other)
        wires.setdefault(other, name)


def _wrong_with(
    name: str, item: Item, other: str, items: Mapping[str, tuple[int, Item]], wires: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    if other == name:
        yield "it is the rail itself", "name the rail of the port's other PCI function"
        return
    if other not in items:
        yield f"there is no rail {other}", f"name one of: {', '.join(sorted(set(items) - {name}))}"
        return
    for rail, partner in ((name, other), (other, name)):
        if wires.get(rail, partner) != partner:
            message = f"{rail} already shares its wire with {wires[rail]}, and a wire has two PCI functions"
            yield message, "name each rail in one pair; both rails of a pair may name each other"
            return
    rates = item.get("rate_gbps"), items[other][1].get("rate_gbps")
    if rates[0] != rates[1]:
        text = " and ".join("none" if rate is None else f"{rate:g}" for rate in rates)
        message = f"{name} and {other} are one wire, but declare rate_gbps {text}"
        yield message, "write the rate of the wire at both"


def check_nvlink_domains(nodes: Sequence[Node]) -> Iterator[Located]:
    """Yield the NVLink domains that hold more GPUs than one can have, each once, at its first node."""
    members: dict[str, list[Node]] = {}
    for node in nodes:
        if node.nvlink_domain is not None and unit(node.nvlink_domain) is None:
            members.setdefault(str(node.nvlink_domain), []).append(node)
    for domain, found in members.items():
        gpus = sum(map(_gpus_of, found))
        if gpus > NVLINK_DOMAIN_GPUS_MAX:
            size = f"{domain} has {len(found)} nodes with at least {gpus} GPUs"
            message = f"{size}, and an NVLink domain has at most {NVLINK_DOMAIN_GPUS_MAX}"
            fix = "give each rack (GB200 NVL72: 18 nodes of 4 GPUs) its own domain"
            first = found[0]
            yield Finding("nvlink_domain", message, fix, first.name), Origin(first.groups, first.name)


def _gpus_of(node: Node) -> int:
    declared = node.expected_gpus.get("count") if isinstance(node.expected_gpus, Mapping) else None
    return declared if isinstance(declared, int) and not isinstance(declared, bool) else _LEAST_GPUS
