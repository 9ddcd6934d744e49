"""Which networks the rails get: those that they have, or new ones that no network of the nodes overlaps."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema, values

from railyard.discover.model import Question, Rail, Survey
from railyard.discover.text import folded, most_common
from railyard.new_inventory import nodes as new_nodes
from railyard.new_inventory import rails as new_rails
from railyard.new_inventory.wanted import Wanted

_Network = ipaddress.IPv4Network
#: Where the default is taken, the next private networks are tried, from the least used to the most.
_SUPERNETS = (
    None,
    *(f"10.{second}.0.0/12" for second in range(208, -1, -16)),
    "172.16.0.0/12",
    "192.168.0.0/16",
)
_BESIDE_RAILS = ("physical", "bond", "vlan", "ipoib", "veth")


class _Kept(NamedTuple):
    """A rail's network, and each node's number in it."""

    network: _Network
    hosts: dict[str, int]


def network_of(text: str) -> _Network | None:
    """Return the network of an address with its prefix length, None where it is no unicast network."""
    try:
        network = ipaddress.IPv4Interface(text).network
    except ValueError:
        return None
    return network if values.subnet(4)(str(network)) is None else None


def taken_networks(bare: Mapping[str, BareNode], rails: Sequence[Rail]) -> set[_Network]:
    """Return the networks that nodes have beside their rails."""
    of_rails = {(port.node, port.netdev) for rail in rails for port in rail.ports.values()}
    texts = {
        address
        for name, one in bare.items()
        for row in one["facts"]["netdevs"]
        if (name, row["netdev"]) not in of_rails
        for address in row["addresses"]
    }
    texts |= {
        f"{one[key]}/32" for one in bare.values() for key in ("login_address", "bmc_address") if one[key]
    }
    return {network for text in texts if (network := network_of(text)) is not None}


def plan(survey: Survey, bare: Mapping[str, BareNode], keep: bool) -> None:
    """Give the rails their networks and MTU, and the nodes their numbers."""
    taken = taken_networks(bare, survey.rails)
    if keep and survey.transport != "efa" and _keep(survey, taken):
        return
    units = sorted({node.unit for node in survey.nodes.values() if node.unit is not None})
    nodes = [new_nodes.NewNode(name, node.unit) for name, node in survey.nodes.items()]
    largest = max((sum(node.scalable_unit == unit for node in nodes) for unit in units), default=len(nodes))
    for supernet in _SUPERNETS:
        wanted = Wanted(
            nodes="", rails=len(survey.rails), transport=survey.transport, netdev="rail{rail}",
            supernet=None if survey.transport in WITHOUT_IP else supernet,
        )  # fmt: skip
        made = new_rails.make(wanted, units, largest)
        subnets = [ipaddress.ip_network(text) for item in made.items for text in new_rails.subnets_of(item)]
        if not made.wrong and not _meet(subnets, taken):
            break
    else:
        survey.questions.append(
            Question(
                None,
                "no private network is free for the rails: give them addresses, and "
                "discover with --keep-addresses",
            )
        )
        return
    if subnets:
        nodes, survey.host_offset = new_nodes.number(nodes, made.lowest, made.highest, None)
        pool = supernet or new_rails.DEFAULT_SUPERNET
        survey.assumed.append(
            f"the rails' subnets are new ones out of {pool}, which must be free in your site"
        )
        if made.gateway != "none":
            survey.assumed.append(
                f"the {made.gateway} usable address of each subnet is its leaf's, the rail's gateway"
            )
    for node in nodes:
        survey.nodes[node.name].node_index = node.node_index
    for rail, item in zip(survey.rails, made.items, strict=True):
        rail.keys |= {key: item[key] for key in ("subnet", "subnets", "gateway") if key in item}
    if survey.transport not in WITHOUT_IP:
        limits = [
            port.mtu_max_bytes for rail in survey.rails for port in rail.ports.values() if port.mtu_max_bytes
        ]
        survey.mtu = _possible_mtu(survey, min([new_rails.DEFAULT_MTU_BYTES, *limits]))
        survey.assumed.append(f"MTU {survey.mtu}, which the switches must carry")


def _meet(networks: Iterable[Any], taken: Iterable[_Network]) -> bool:
    ranges = sorted((int(one.network_address), int(one.broadcast_address)) for one in taken)
    return any(
        low <= int(one.broadcast_address) and int(one.network_address) <= high
        for one in networks
        for low, high in ranges
    )


def _keep(survey: Survey, taken: Iterable[_Network]) -> bool:
    """Keep what the rails have; return whether they have one network each, on all nodes."""
    kept = [_kept(rail, survey) for rail in survey.rails]
    found = [one for one in kept if one is not None]
    networks = [one.network for one in found]
    overlap = _meet(networks, taken) or any(
        one.overlaps(other) for place, one in enumerate(networks) for other in networks[:place]
    )
    if len(found) < len(kept) or overlap or not found:
        lacking = [rail.name for rail, one in zip(survey.rails, kept, strict=True) if one is None]
        why = (
            f"{', '.join(lacking)}: no subnet in which each node has one address of its own"
            if lacking
            else "they overlap"
        )
        survey.oddities.append(
            f"the rails' addresses are not kept: {why}. Give each rail one subnet, or write new ones"
        )
        return False
    for rail, one in zip(survey.rails, found, strict=True):
        rail.keys["subnet"] = str(one.network)
    _number(survey, found)
    mtus = [port.mtu_bytes for rail in survey.rails for port in rail.ports.values() if port.mtu_bytes]
    usual = most_common(mtus)
    survey.mtu = None if usual is None else _possible_mtu(survey, usual)
    survey.assumed.append("addresses are those that the rails have")
    if survey.mtu == usual:
        survey.assumed[-1] = f"addresses and MTU ({survey.mtu}) are those that the rails have"
    else:
        survey.oddities.append(f"the rails' MTU of {usual} cannot be written; it is {survey.mtu} there")
    if len(set(mtus)) > 1:
        others = ", ".join(map(str, sorted(set(mtus) - {survey.mtu})))
        survey.oddities.append(
            f"some rails have MTU {others}, most have {survey.mtu}, which is written for all"
        )
    return True


def _possible_mtu(survey: Survey, mtu_bytes: int) -> int:
    """Return the MTU that an inventory can hold: a veth takes 65535 bytes, and drivers name any limit."""
    least, most = schema.MTU_BYTES["ethernet"]
    if survey.transport == "infiniband":
        # The mode of an inventory that names none; connected mode takes more.
        most = schema.IPOIB_MTU_MAX_BYTES["datagram"]
    return max(least, min(most, mtu_bytes))


def _kept(rail: Rail, survey: Survey) -> _Kept | None:
    found: dict[_Network, dict[str, int]] = defaultdict(dict)
    for name, port in rail.ports.items():
        if len(port.addresses) != 1 or (network := network_of(port.addresses[0])) is None:
            return None
        host = int(ipaddress.IPv4Interface(port.addresses[0]).ip) - int(network.network_address)
        found[network][name] = host
    if len(found) != 1:
        return None
    network, hosts = next(iter(found.items()))
    if len(set(hosts.values())) < len(hosts) or network.prefixlen > 31:
        return None
    # The network's own address and its broadcast address are no node's.
    ends = {0, network.num_addresses - 1} if network.prefixlen < 31 else set[int]()
    if ends & set(hosts.values()):
        return None
    return _Kept(network, hosts)


def _number(survey: Survey, kept: Sequence[_Kept]) -> None:
    """Choose each node's number so that its addresses follow from it; others become overrides."""
    numbers = {name: new_nodes.NewNode(name).number for name in survey.nodes}
    offsets = {
        host - number
        for one in kept
        for name, host in one.hosts.items()
        if (number := numbers[name]) is not None
    }
    if len(offsets) == 1 and None not in numbers.values():
        survey.host_offset = offsets.pop()
        return
    for name, node in survey.nodes.items():
        own = [(rail, one) for rail, one in zip(survey.rails, kept, strict=True) if name in one.hosts]
        node.node_index = own[0][1].hosts[name]
        for rail, one in own[1:]:
            if one.hosts[name] != node.node_index:
                address = f"{one.network.network_address + one.hosts[name]}/{one.network.prefixlen}"
                before = node.overrides.get(rail.name)
                node.overrides[rail.name] = {
                    **(before if isinstance(before, dict) else {}),
                    "address": address,
                }


def find_networks(survey: Survey, bare: Mapping[str, BareNode]) -> None:
    """Find networks that most nodes have beside rails and frontend, and where their BMCs are."""
    of_rails = {(port.node, port.netdev) for rail in survey.rails for port in rail.ports.values()}
    seen: dict[str, dict[str, _Network]] = defaultdict(dict)
    frontends: list[_Network] = []
    for name, one in bare.items():
        for row in one["facts"]["netdevs"]:
            netdev = row["netdev"]
            found = [network for text in row["addresses"] if (network := network_of(text)) is not None]
            if netdev == survey.frontend:
                frontends += found
            elif (name, netdev) not in of_rails and row["kind"] in _BESIDE_RAILS and len(found) == 1:
                seen[netdev][name] = found[0]
    claimed: list[Any] = [
        ipaddress.ip_network(text) for rail in survey.rails for text in new_rails.subnets_of(rail.keys)
    ]
    for netdev in sorted(seen):
        networks = set(seen[netdev].values())
        if 2 * len(seen[netdev]) <= len(bare) or len(networks) != 1 or values.netdev(netdev) is not None:
            continue
        network = networks.pop()
        if (
            network in frontends
            or _meet([network], [*claimed, *frontends])
            or values.name(netdev) is not None
        ):
            continue
        claimed.append(network)
        survey.networks.append(
            {"name": netdev, "purpose": "other", "netdev": netdev, "subnet": str(network), "manage": False}
        )
    _find_bmcs(survey, bare, frontends)


def _find_bmcs(survey: Survey, bare: Mapping[str, BareNode], frontends: Sequence[_Network]) -> None:
    owners: dict[str, list[str]] = defaultdict(list)
    for name, one in bare.items():
        address = one["bmc_address"]
        if address is not None and values.bmc(address) is None:
            owners[address].append(name)
    hosts = {node.named.ansible_host for node in survey.nodes.values()}
    for address, names in sorted(owners.items()):
        if len(names) > 1:
            survey.oddities.append(
                f"{folded(names)}: their BMCs have one address, {address}. Give each BMC "
                "its own; none is written"
            )
        elif address not in hosts:
            survey.nodes[names[0]].bmc_address = address
    bmcs = [ipaddress.ip_address(node.bmc_address) for node in survey.nodes.values() if node.bmc_address]
    home = next((one for one in sorted(set(frontends)) if bmcs and all(bmc in one for bmc in bmcs)), None)
    if home is not None:
        survey.networks.append(
            {"name": "ipmi", "purpose": "out_of_band", "subnet": str(home), "manage": False}
        )
