# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keys of `fabric` and of the host variables: the check, fix and meaning of each."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import BOND_FIX, BOND_REFUSED
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import subnet_values, values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Check, show


@dataclass(frozen=True)
class Finding:
    """An error, before its file and line are known.

    Attributes:
        variable: dotted path, as `fabric.rails[0].subnet`; its first word is the inventory variable.
        message: what is wrong.
        fix: what to write instead.
        host: the node, or None where the fabric itself is wrong.
        rail: the rail, or None.
        meant: dotted path of the key that was probably meant; that it is missing is not reported.
    """

    variable: str
    message: str
    fix: str
    host: str | None = None
    rail: str | None = None
    meant: str | None = None


#: A mapping of the inventory (a fabric, one of its rails or networks) or of the plan.
Item = Mapping[str, Any]
# (key of a mapping, what is wrong with it, what to write instead)
Issue = tuple[str, str, str]


def locate(found: Iterable[Issue], where: str, rail: str | None = None) -> Iterator[Finding]:
    """Convert problems of a mapping's keys to findings, given the path of the mapping."""
    for key, message, fix in found:
        yield Finding(f"{where}.{key}", message, fix, None, rail)


class Field(NamedTuple):
    """One key of a mapping: the check of its value, an example of a valid one, and its meaning.

    `meaning` is its row in docs/inventory.md, in Markdown (`python -m railyard.report.made_docs`).
    """

    check: Check
    fix: str
    meaning: str = ""

    def with_meaning(self, meaning: str) -> Field:
        """Return a copy with a meaning."""
        return self._replace(meaning=meaning)


def is_right(fields: Mapping[str, Field], item: Item, *keys: str) -> bool:
    """Tell whether all of these keys are set, to values that their checks pass."""
    return all(fields[key].check(item.get(key)) is None for key in keys)


# Limits of links are checked per transport; this only rejects values that are no size at all.
MTU_SENSIBLE_BYTES = 2**31
MTU_BYTES = {"ethernet": (576, 9978), "infiniband": (576, 65520)}
# IPoIB takes 4 of the 4096 bytes of the largest InfiniBand MTU; connected mode has its own limit.
IPOIB_MTU_MAX_BYTES = {"datagram": 4092, "connected": 65520}
# Above the kernel's tables (253 to 255) and those that people number by hand. A rule has its table's number
# as priority and must come before that of the main table, which is 32766; 512 rails fit below.
ROUTE_TABLES = (1000, 32000)

_GATEWAY_RULE = Field(values.choice("first", "last", "none"), "write first, last or none")
_IPOIB_MODE = Field(values.choice("datagram", "connected"), "write datagram or connected")
# The fastest ports available carry 1600; 10000 and more is a rate in Mbit/s.
RATE_MAX_GBPS = 6400
# All uplinks of one leaf together.
UPLINK_MAX_GBPS = 10**7
_RATE = Field(values.rate(RATE_MAX_GBPS), "write the link's rate in Gbit/s as a number, as `rate_gbps: 40`")
_VLAN = Field(values.integer(1, 4094), "write a VLAN id, as `vlan: 100`")
_NETDEV = Field(values.netdev, "write the interface's name as `ip link` shows it, as ens6")
_HCA = Field(values.hca, "write device and port, as `mlx4_0:1`")
_MAC = Field(values.mac, "write it in quotes, as '52:54:00:ab:cd:ef'")
_PCI = Field(values.pci, "write the bus address as `lspci -D` shows it, in quotes: '0000:3b:00.0'")
_SUBNET = Field(values.subnet(4), "write the network itself, as 10.0.1.0/24")
_SUBNET6 = Field(values.subnet(6), "write the network itself, as fd00:0:0:1::/64")
_NODE_PREFIX = Field(
    values.integer(2, 31), "write the prefix length of each node's own network, as `node_prefix: 31`"
)
_NODE_PREFIX6 = Field(
    values.integer(2, 127), "write the prefix length of each node's own network, as `node_prefix6: 127`"
)
_MANAGE = Field(values.boolean, "write true or false")
_NAME = Field(values.name, "write a short name of letters, digits, `_`, `-`, as rail0")

RAIL: dict[str, Field] = {
    "name": _NAME.with_meaning("`rail0`, …"),
    "netdev": _NETDEV.with_meaning(
        "the port. Set one of `netdev`, `mac`, `pci`, or `hca` where nothing else names it"
    ),
    "mac": _MAC.with_meaning("the port, by its MAC address"),
    "pci": _PCI.with_meaning(
        "the port, by its PCI address; refused on a node where two ports share the address "
        "(ConnectX-3), unless `netdev` names one"
    ),
    "hca": _HCA.with_meaning(
        "rarely needed: RDMA device and port, `mlx4_0:1`. By default it is the name that the node "
        "gives the port at the time; if set, it must be that name"
    ),
    "subnet": _SUBNET.with_meaning("its network; not needed on InfiniBand, refused on EFA"),
    "subnets": Field(
        values.by_unit(values.subnet(4), "networks"),
        "map scalable units to networks, as `subnets: {su1: 10.0.1.0/24}`",
        "instead of `subnet`, one per scalable unit: `{su1: 10.0.1.0/24, su2: …}`",
    ),
    "subnet6": _SUBNET6.with_meaning("as `subnet`, for IPv6"),
    "subnets6": Field(
        values.by_unit(values.subnet(6), "networks"),
        "map scalable units to networks, as `subnets6: {su1: fd00:1::/64}`",
        "as `subnets`, for IPv6",
    ),
    "node_prefix": _NODE_PREFIX.with_meaning(
        "where each node's link to its leaf is a separate network (a routed host): that network's prefix "
        "length, usually 31. The node with number k (`host_offset` + index) has the k-th of these parts of "
        "the subnet, `gateway` (`first` or `last`) is the leaf's address in it, the node has the other, and "
        "the whole subnet is routed by the leaf. It is `perNodeNetworkPrefix` of NVIDIA's Spectrum-X pools, "
        "and `first` their `gatewayIndex: 0`"
    ),
    "node_prefix6": _NODE_PREFIX6.with_meaning("the same for `subnet6`: 127, or 64"),
    "gateway": Field(
        values.gateway,
        "write an address inside the subnet, or first, last or none",
        "an address in the subnet, `first`, `last` or `none`",
    ),
    "gateway6": Field(
        values.gateway,
        "write an address inside the subnet6, or first, last or none",
        "the same for IPv6, also a link-local one, `fe80::1` (with `ipv6` in `link_local`)",
    ),
    "vlan": _VLAN.with_meaning("VLAN id"),
    "rate_gbps": _RATE.with_meaning(
        "the rate that you paid for, in Gbit/s: the floors of verdicts are calculated from it. Without "
        "it a card's port is compared with the fastest rate that its driver supports; InfiniBand reports no "
        "such rate, so it is `recorded`, and fails where another port of the same board runs "
        "faster"
    ),
    "leaf": Field(values.text, "write the switch's name", "the switch that it is connected to"),
    "leaves": Field(
        values.by_unit(values.text, "names"),
        "map scalable units to switches, as `leaves: {su1: leaf-su1-rail0}`",
        "instead of `leaf`, one per scalable unit",
    ),
    "shares_wire_with": Field(
        values.name,
        "write the name of the rail that is the port's other PCI function, as `shares_wire_with: rail1`",
        "the rail whose PCI function is on the same wire (DGX Spark: each QSFP port is two functions, each "
        "on PCIe 5.0 x4); `rate_gbps` is the wire's at both, and a floor applies to both together. Either "
        "rail may declare it, or both",
    ),
    "routes": Field(
        values.subnets,
        "list the networks behind the gateway, as `routes: [10.2.0.0/16]`",
        "networks behind the gateway, `[10.2.0.0/16]`; the rail's subnets in other units are added "
        "automatically, merged where they are adjacent",
    ),
    "ipoib_mode": _IPOIB_MODE.with_meaning("as the fabric's, for this rail only"),
    "bond": Field(
        values.bond,
        BOND_FIX,
        "RoCE LAG: `{mode: 802.3ad, ports: [ens1f0np0, ens1f1np1]}`, see below. `netdev` is the bond's name, "
        "`rate_gbps` one port's rate. A netdev called `bond0` without it is refused: two rails use both "
        "ports of a card better",
    ),
}
COMPUTED: dict[str, Field] = {
    "rail_count": Field(
        values.integer(1, 256),
        "write the number of rails, as `rail_count: 8`",
        "the computed form: rail k (from 0) is `rail{k}`",
    ),
    "supernet": Field(
        values.subnet(None),
        "write the network that holds all rails, as 10.0.0.0/16",
        "computed form: rail k has its k-th subnet of length `rail_prefix`",
    ),
    "rail_prefix": Field(
        values.integer(1, 128),
        "write the prefix length of one rail, as `rail_prefix: 24`",
        "computed form: that length",
    ),
    "node_prefix": Field(
        values.integer(2, 127),
        "write the prefix length of each node's own network, as `node_prefix: 31`",
        "computed form: as `node_prefix` of a rail, of either family",
    ),
    "netdev_pattern": Field(
        values.pattern,
        "write it with {rail}, as `ens{rail}`",
        "computed form: names with `{rail}`, counting from 0",
    ),
    "hca_pattern": Field(
        values.pattern,
        "write it with {rail}, as `mlx5_{rail}:1`",
        "rarely needed: the same for RDMA devices and ports, as `hca` of a rail",
    ),
    "rate_gbps": _RATE.with_meaning("computed form: the link's rate"),
    "gateway": _GATEWAY_RULE.with_meaning("computed form: `first`, `last` or `none`"),
    "rail_routes": Field(
        values.subnets,
        "list the supernets of the other scalable units, as `rail_routes: [10.17.0.0/16]`",
        "computed form: supernets that are divided like `supernet`; rail k gets a route to the k-th "
        "part of each",
    ),
}
FABRIC: dict[str, Field] = {
    "transport": Field(
        values.choice("roce", "infiniband", "efa", "tcp"),
        "write roce, infiniband, efa (AWS) or tcp",
        "`roce`, `infiniband`, `efa` (AWS: each rail has its `pci`, and no netdev or address), or `tcp`: "
        "this cluster has no RDMA",
    ),
    "node_class": Field(
        values.choice("hardware", "virtual", "container"),
        "write hardware, virtual or container",
        "`hardware` (default), `virtual`, `container`: declares what cannot be checked (governor, "
        "PCIe, modules)",
    ),
    "mtu": Field(
        values.integer(1, MTU_SENSIBLE_BYTES),
        "write the rails' MTU in bytes, as `mtu: 9000`",
        "MTU of the rails' netdevs, in bytes",
    ),
    "rails": Field(
        values.filled_list,
        "write a list of rails, as `- {name: rail0, netdev: ens6, subnet: 10.0.1.0/24}`",
        "the explicit form: a list, see below",
    ),
    "cabling": Field(
        values.choice("switched", "back_to_back"),
        "write switched or back_to_back",
        "`switched` (default) or `back_to_back`: at most two nodes",
    ),
    "host_offset": Field(
        values.integer(-(2**32), 2**64),
        "write a whole number, as `host_offset: 10`",
        "address = network + `host_offset` + the node's index (default 0)",
    ),
    "frontend": Field(
        values.mapping,
        "write a mapping, as `frontend: {netdev: enp5s0}`",
        "the node's interface to the outside, see below",
    ),
    "networks": Field(
        values.filled_list,
        "write a list of networks, each with a name and a purpose",
        "a list of other networks, see below",
    ),
    "leaves": Field(
        values.filled_mapping("leaves"),
        "map leaves to their properties, as `leaves: {leaf1: {uplink_gbps: 6400}}`",
        "properties of the leaves that rails name: `{leaf1: {uplink_gbps: 6400}}`, the rates of "
        "all its uplinks together; `railyard plan --svg` then shows its oversubscription. On InfiniBand "
        "also `guid`, the switch's node GUID",
    ),
    "partitions": Field(
        values.filled_mapping("P_Keys"),
        "map P_Keys to partitions, as `partitions: {0x7fff: {members: all}}`",
        "InfiniBand's partitions, by P_Key: `{0x7fff: {members: all}}`, see below",
    ),
    "subnet_managers": Field(
        subnet_values.subnet_managers,
        "list nodes, or switch, as `subnet_managers: [gpu01, gpu02]` or `[switch]`",
        "where InfiniBand's subnet managers run: nodes, or `switch` for one on a managed switch or in UFM",
    ),
    "read_from": Field(
        subnet_values.read_from,
        "name a node, or one for each rail: `read_from: {rail0: gpu01, rail1: gpu01}`",
        "the node that an InfiniBand subnet is read from (default: the first that answers); where rails are "
        "subnets of their own, one for each: `{rail0: gpu01, rail1: gpu02}`",
    ),
    "route_table_base": Field(
        values.integer(*ROUTE_TABLES),
        "write the number of the first rail's routing table, as 6100",
        "number of rail0's routing table (default 6100, allowed 1000 to 32000: a rule has its "
        "table's number as priority, and that of the main table has 32766); rail k has base + k",
    ),
    "ipoib_mode": _IPOIB_MODE.with_meaning(
        "`datagram` (default) or `connected`, for InfiniBand rails with an address; see below"
    ),
    "link_local": Field(
        values.families,
        "write `[ipv6]`, `[ipv4]`, both or `[]`",
        "families of the rails' link-local addresses: `[ipv6]` (default), `[ipv4]`, both or `[]`",
    ),
    "accept_ra": _MANAGE.with_meaning("whether rails accept router advertisements (default `false`)"),
    **COMPUTED,
}
FRONTEND: dict[str, Field] = {
    "netdev": _NETDEV.with_meaning("its interface"),
    "dhcp4": _MANAGE.with_meaning("whether it gets its address by DHCP"),
    "address": Field(
        values.interface(None),
        "write address and prefix length, as 192.168.1.10/24",
        "its address with prefix length, without DHCP",
    ),
    "gateway": Field(values.address, "write an address", "its default gateway"),
    "manage": _MANAGE.with_meaning("Railyard writes it only if this is `true`"),
}
NETWORK: dict[str, Field] = {
    "name": _NAME.with_meaning("`storage`, …"),
    "purpose": Field(
        values.name,
        "write what it is for: storage, out_of_band, …",
        "`storage`, `out_of_band`, or another word",
    ),
    "netdev": _NETDEV.with_meaning("its interface; with `vlan`, the port that carries the VLAN"),
    "subnet": Field(
        values.subnet(None),
        "write the network itself, as 192.168.1.0/24",
        "its network, IPv4 or IPv6; it must not overlap a rail or another network",
    ),
    "vlan": _VLAN.with_meaning("VLAN id"),
    "mtu": Field(
        values.integer(*MTU_BYTES["ethernet"]),
        "write the network's MTU in bytes, as `mtu: 9000`",
        "the MTU of its interface, in bytes",
    ),
    "manage": _MANAGE.with_meaning(
        "`true`: Railyard writes it, with the address subnet + `host_offset` + index, or the one in"
        " `network_addresses`"
    ),
    "bmc": _MANAGE.with_meaning(
        "`true`: this is the BMCs' network (`purpose: out_of_band`, never managed); then each node "
        "needs a `bmc_address` in it"
    ),
}
LEAF: dict[str, Field] = {
    "uplink_gbps": Field(
        values.rate(UPLINK_MAX_GBPS),
        "write the rates of all its uplinks together, in Gbit/s, as `uplink_gbps: 6400`",
    ),
    "guid": Field(
        subnet_values.guid,
        "write the switch's node GUID as `ibswitches` prints it, as 0x506b4b03005c2740",
    ),
}
# Keys that identify a rail's interface.
SELECTORS = ("netdev", "hca", "mac", "pci")
OVERRIDE: dict[str, Field] = {
    **{key: RAIL[key] for key in SELECTORS},
    "address": Field(values.interface(4), "write address and prefix length, as 10.0.1.77/24"),
    "address6": Field(values.interface(6), "write address and prefix length, as fd00:0:0:1::77/64"),
    "gateway": RAIL["gateway"],
    "gateway6": RAIL["gateway6"],
}


_LONGEST_WORD = 80
EXPECTED_GPUS: dict[str, Field] = {
    "count": Field(values.integer(0, 64), "write how many GPUs the node has, as `count: 8`"),
    "model": Field(
        values.word(_LONGEST_WORD), "write words of the name that nvidia-smi gives, as `model: H100`"
    ),
    "driver": Field(values.version, "write a version, or the beginning of one, in quotes: `driver: '550'`"),
    "nvlinks": Field(
        values.integer(0, 64), "write how many NVLinks of each GPU are active, as `nvlinks: 18`"
    ),
    "power_cap_w": Field(values.integer(1, 10_000), "write the power limit in watts, as `power_cap_w: 500`"),
}


def near_key(key: object, known: Iterable[str]) -> str | None:
    """Return the known key that an unknown one probably means, or None."""
    text = str(key).lower().replace("-", "_")
    known = list(known)
    near = [text] if text in known else difflib.get_close_matches(text, known, n=1)
    return near[0] if near else None


def check_mapping(
    value: Mapping[Any, Any], fields: Mapping[str, Field], where: str, rail: str | None = None
) -> Iterator[Finding]:
    """Yield errors in the keys and values of one mapping; null counts as not set."""
    for key, item in value.items():
        path = f"{where}.{key}"
        inside = list(values.literal(item))
        if key not in fields:
            near = near_key(key, fields)
            hint = f"did you mean {near}? " if near else ""
            known = f"{hint}known keys: {', '.join(sorted(fields))}"
            meant = f"{where}.{near}" if near and value.get(near) is None else None
            yield Finding(path, f"unknown key {show(key)}", known, None, rail, meant)
        elif inside:
            fix = "write the value itself; fabric must not contain expressions"
            yield from (Finding(path + inner, wrong, fix, None, rail) for inner, wrong in inside)
        elif item is not None and (wrong_type := fields[key].check(item)) is not None:
            yield Finding(path, wrong_type, fields[key].fix, None, rail)


def check_bond(item: Item) -> Iterator[Issue]:
    """Yield an error where a rail's netdev is named like a bond."""
    if item.get("bond") is None and values.is_bond(item.get("netdev")):
        yield "netdev", f"{item['netdev']} {BOND_REFUSED}", BOND_FIX


def check_lag(item: Item, transport: Any) -> Iterator[Issue]:
    """Yield keys that a rail with a bond (RoCE LAG) cannot have, or lacks."""
    if item.get("bond") is None or RAIL["bond"].check(item["bond"]) is not None:
        return
    if transport not in ("roce", "tcp"):
        yield "bond", f"RoCE LAG needs Ethernet ports, but the transport is {show(transport)}", BOND_FIX
    if item.get("netdev") is None:
        yield "netdev", "the bond has no name", "write the bond's own name, as `netdev: bond0`"
    elif item["netdev"] in item["bond"]["ports"]:
        yield "netdev", f"{item['netdev']} is one of the bond's ports", "write the bond's own name"
    for key in ("mac", "pci", "hca", "shares_wire_with"):
        if item.get(key) is not None:
            yield key, "the rail is a bond, which is identified only by netdev", "remove it"


def check_mac(mac: Any, transport: Any) -> Iterator[Issue]:
    """Yield an error where a MAC address has the wrong length for the transport."""
    octets = mac.count(":") + 1 if _MAC.check(mac) is None else None
    wanted = {"infiniband": 20, "roce": 6, "tcp": 6}.get(transport) if isinstance(transport, str) else None
    if None not in (octets, wanted) and octets != wanted:
        message = f"{mac} has {octets} octets, but a port of transport {transport} has {wanted}"
        yield "mac", message, "write the port's own address as `ip link` shows it"


def check_vlan_name(key: str, netdev: Any, vlan: Any, otherwise: str = "") -> Iterator[Issue]:
    """Yield an error where the VLAN's name `netdev.vlan` exceeds the kernel's 15 characters."""
    name = f"{netdev}.{vlan}"
    if _NETDEV.check(netdev) is None and _VLAN.check(vlan) is None and values.netdev(name) is not None:
        message = f"the VLAN's interface would be {name}, which has more than 15 characters"
        yield key, message, f"give the port a shorter name (a .link file){otherwise}"
