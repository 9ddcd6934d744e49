# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys that `fabric` and the host variables may have: how each value is checked, what a right one is."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import BOND_FIX
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Check, show


@dataclass(frozen=True)
class Finding:
    """Something wrong, before it is known which file says so.

    Attributes:
        variable: dotted path, as `fabric.rails[0].subnet`; its first word is the inventory variable.
        message: what is wrong.
        fix: what to write instead.
        host: node concerned, or None where the fabric itself is wrong.
        rail: rail concerned, or None.
        meant: dotted path of what was probably meant, and so is missing without a word of its own.
    """

    variable: str
    message: str
    fix: str
    host: str | None = None
    rail: str | None = None
    meant: str | None = None


class Field(NamedTuple):
    """One key of a mapping: how its value is checked and what a right one looks like."""

    check: Check
    fix: str


# What is no MTU of any link is said with the link's own limits; this only keeps out what is no size at all.
MTU_SENSIBLE_BYTES = 2**31
MTU_BYTES = {"ethernet": (576, 9978), "infiniband": (576, 65520)}
# IPoIB takes 4 of the 4096 bytes of the largest InfiniBand MTU; connected mode has a limit of its own.
IPOIB_MTU_MAX_BYTES = {"datagram": 4092, "connected": 65520}
# Above the kernel's own tables (253 to 255) and what people number by hand. A rule has its table's number
# as priority and must come before that of the main table, which is 32766; 512 rails fit below.
ROUTE_TABLES = (1000, 32000)
MAC_OCTETS_FIX = "write the port's own address as `ip link` shows it"

_GATEWAY_RULE = Field(values.choice("first", "last", "none"), "write first, last or none")
_IPOIB_MODE = Field(values.choice("datagram", "connected"), "write datagram or connected")
# The fastest ports to be had carry 1600; 10000 and more is a rate in Mbit/s.
RATE_MAX_GBPS = 6400
# Of one leaf, all of its uplinks together.
UPLINK_MAX_GBPS = 10**7
_RATE = Field(values.rate(RATE_MAX_GBPS), "write the link's rate in Gbit/s as a number, as `rate_gbps: 40`")
_VLAN = Field(values.integer(1, 4094), "write a VLAN id, as `vlan: 100`")
_NETDEV = Field(values.netdev, "write the interface's name as `ip link` shows it, as ens6")
_HCA = Field(values.hca, "write device and port, as `mlx4_0:1`")
_MAC = Field(values.mac, "write it in quotes, as '52:54:00:ab:cd:ef'")
_PCI = Field(values.pci, "write the bus address as `lspci -D` shows it, in quotes: '0000:3b:00.0'")
_SUBNET = Field(values.subnet(4), "write the network itself, as 10.0.1.0/24")
_SUBNET6 = Field(values.subnet(6), "write the network itself, as fd00:0:0:1::/64")
_MANAGE = Field(values.boolean, "write true or false")
_NAME = Field(values.name, "write a short name of letters, digits, `_`, `-`, as rail0")

RAIL: dict[str, Field] = {
    "name": _NAME,
    "netdev": _NETDEV,
    "mac": _MAC,
    "pci": _PCI,
    "hca": _HCA,
    "subnet": _SUBNET,
    "subnets": Field(values.by_unit(4), "map scalable units to networks, as `subnets: {su1: 10.0.1.0/24}`"),
    "subnet6": _SUBNET6,
    "subnets6": Field(values.by_unit(6), "map scalable units to networks, as `subnets6: {su1: fd00:1::/64}`"),
    "gateway": Field(values.gateway, "write an address inside the subnet, or first, last or none"),
    "gateway6": Field(values.gateway, "write an address inside the subnet6, or first, last or none"),
    "vlan": _VLAN,
    "rate_gbps": _RATE,
    "leaf": Field(values.text, "write the switch's name"),
    "leaves": Field(
        values.texts_by_unit, "map scalable units to switches, as `leaves: {su1: leaf-su1-rail0}`"
    ),
    "routes": Field(values.subnets, "list the networks behind the gateway, as `routes: [10.2.0.0/16]`"),
    "ipoib_mode": _IPOIB_MODE,
    "bond": Field(values.bond, BOND_FIX),
}
COMPUTED: dict[str, Field] = {
    "rail_count": Field(values.integer(1, 256), "write the number of rails, as `rail_count: 8`"),
    "supernet": Field(values.subnet(None), "write the network that holds all rails, as 10.0.0.0/16"),
    "rail_prefix": Field(values.integer(1, 128), "write the prefix length of one rail, as `rail_prefix: 24`"),
    "netdev_pattern": Field(values.pattern, "write it with {rail}, as `ens{rail}`"),
    "hca_pattern": Field(values.pattern, "write it with {rail}, as `mlx5_{rail}:1`"),
    "rate_gbps": _RATE,
    "gateway": _GATEWAY_RULE,
    "rail_routes": Field(
        values.subnets, "list the supernets of the other scalable units, as `rail_routes: [10.17.0.0/16]`"
    ),
}
FABRIC: dict[str, Field] = {
    "transport": Field(values.choice("roce", "infiniband", "tcp"), "write roce, infiniband or tcp"),
    "node_class": Field(
        values.choice("hardware", "virtual", "container"), "write hardware, virtual or container"
    ),
    "mtu": Field(values.integer(1, MTU_SENSIBLE_BYTES), "write the rails' MTU in bytes, as `mtu: 9000`"),
    "rails": Field(
        values.filled_list, "write a list of rails, as `- {name: rail0, netdev: ens6, subnet: 10.0.1.0/24}`"
    ),
    "cabling": Field(values.choice("switched", "back_to_back"), "write switched or back_to_back"),
    "host_offset": Field(values.integer(-(2**32), 2**64), "write a whole number, as `host_offset: 10`"),
    "frontend": Field(values.mapping, "write a mapping, as `frontend: {netdev: enp5s0}`"),
    "networks": Field(values.filled_list, "write a list of networks, each with a name and a purpose"),
    "leaves": Field(
        values.mapping, "map leaves to what is known of them, as `leaves: {leaf1: {uplink_gbps: 6400}}`"
    ),
    "route_table_base": Field(
        values.integer(*ROUTE_TABLES), "write the number of the first rail's routing table, as 6100"
    ),
    "ipoib_mode": _IPOIB_MODE,
    "link_local": Field(values.families, "write `[ipv6]`, `[ipv4]`, both or `[]`"),
    "accept_ra": _MANAGE,
    **COMPUTED,
}
FRONTEND: dict[str, Field] = {
    "netdev": _NETDEV,
    "dhcp4": _MANAGE,
    "address": Field(values.interface(None), "write address and prefix length, as 192.168.1.10/24"),
    "gateway": Field(values.address, "write an address"),
    "manage": _MANAGE,
}
NETWORK: dict[str, Field] = {
    "name": _NAME,
    "purpose": Field(values.name, "write what it is for: storage, out_of_band, …"),
    "netdev": _NETDEV,
    "subnet": Field(values.subnet(None), "write the network itself, as 192.168.1.0/24"),
    "vlan": _VLAN,
    "mtu": Field(values.integer(*MTU_BYTES["ethernet"]), "write the network's MTU in bytes, as `mtu: 9000`"),
    "manage": _MANAGE,
    "bmc": _MANAGE,
}
OVERRIDE: dict[str, Field] = {
    "netdev": _NETDEV,
    "mac": _MAC,
    "pci": _PCI,
    "hca": _HCA,
    "address": Field(values.interface(4), "write address and prefix length, as 10.0.1.77/24"),
    "address6": Field(values.interface(6), "write address and prefix length, as fd00:0:0:1::77/64"),
}


def near_key(key: object, known: Iterable[str]) -> str | None:
    """Return the key that was probably meant by one that is not known, or None."""
    text = str(key).lower().replace("-", "_")
    known = list(known)
    near = [text] if text in known else difflib.get_close_matches(text, known, n=1)
    return near[0] if near else None


def check_mapping(
    value: Mapping[Any, Any], fields: Mapping[str, Field], where: str, rail: str | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with the keys and values of one mapping; a null value counts as not given."""
    for key, item in value.items():
        path = f"{where}.{key}"
        if key not in fields:
            near = near_key(key, fields)
            hint = f"did you mean {near}? " if near else ""
            known = f"{hint}known keys: {', '.join(sorted(fields))}"
            meant = f"{where}.{near}" if near and value.get(near) is None else None
            yield Finding(path, f"unknown key {show(key)}", known, None, rail, meant)
        elif item is not None:
            for inner, wrong in values.literal(item):
                yield Finding(
                    path + inner, wrong, "write the value itself; fabric holds literals only", None, rail
                )
            if not any(values.literal(item)):
                wrong_type = fields[key].check(item)
                if wrong_type is not None:
                    yield Finding(path, wrong_type, fields[key].fix, None, rail)
