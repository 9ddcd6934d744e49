"""Wrong rails of a routed host, one fault each: gateways of nodes, networks of their own."""

from __future__ import annotations

from support.inventories.sound import FABRIC, HOSTS
from support.inventories.wrong_files import hosts, pair_of
from support.inventories.wrong_values import Wrong, fabric


def overridden(text, message, fix, base="routed", rail="rail1", host="gpu2"):
    """Make a fault of the second node's `rail_overrides`, written as flow YAML."""
    first = "scalable_unit: su1" if base == "units" else ""
    second = f"{first + ', ' if first else ''}rail_overrides: {{{rail}: {text}}}"
    return hosts(pair_of(first, second), "gpu2", message, fix, host, rail, base)


def bond(text, line, message, fix, rail="rail1"):
    """Make a fault of the second rail of a pair, which is a bond."""
    new = f"      netdev: bond0\n      {text}\n"
    return fabric("pair", "      netdev: ens2\n", new, line, message, fix, rail=rail)


# fmt: off
RAILS = {
    # gateways of one node
    "gateway_of_a_node_outside": overridden(
        "{gateway: 10.41.0.77}", "10.41.0.77 is no usable address of 10.41.0.4/31", "inside the subnet"),
    "gateway_of_a_node_is_its_own": overridden(
        "{gateway: first, address: 10.41.0.8/31}", "10.41.0.8 is also a node's own address",
        "in its rail_overrides"),
    "gateway_of_a_node_is_no_address": overridden(
        "{gateway: leaf1}", "not an IP address, nor first, last or none", "inside the subnet"),
    "gateway_of_a_node_back_to_back": overridden(
        "{gateway: last}", "no router between the nodes", "cabling: switched", "pair"),
    "gateway6_of_a_node_without_subnet6": overridden(
        "{gateway6: 'fd00::1'}", "there is a gateway, but no subnet that it could be in", "add one"),
    "gateway_of_a_node_taken_away": overridden(
        "{gateway: none}", "each node has a /31 of its own on the rail", "the leaf's address"),
    # a network of each node
    "node_address_of_another_length": overridden(
        "{address: 10.41.0.9/24, gateway: 10.41.0.8}", "no usable address of the rail's subnet 10.41.0.0/24",
        "prefix length 31 (node_prefix)"),
    "node_address_elsewhere": overridden(
        "{address: 10.44.0.9/31, gateway: 10.44.0.8}", "no usable address of the rail's subnet 10.41.0.0/24",
        "prefix length 31 (node_prefix)"),
    "node_address_of_another_node": Wrong(
        "routed", {HOSTS: ("10.41.0.9/31, gateway: 10.41.0.8", "10.41.0.2/31, gateway: 10.41.0.3")},
        f"{HOSTS}|gpu2", "address 10.41.0.2 is already that of gpu1", "node_index or the override", "gpu2",
        "rail1"),
    "node_prefix_without_gateway": fabric(
        "routed", "      gateway: first\n", "", "name: rail0",
        "each node has a /31 of its own on the rail", "first or last", "gpu[1-2]", "rail0"),
    "node_prefix_with_gateway_none": fabric(
        "routed", "gateway: first", "gateway: none", "node_prefix", "without a gateway it reaches no other",
        "first (the leaf has the lower address)", rail="rail0"),
    "node_prefix_with_one_gateway": fabric(
        "routed", "gateway: first", "gateway: 10.40.0.2", "gateway: 10.40",
        "gateway 10.40.0.2 is no usable address of 10.40.0.4/31", "first, last", "gpu2", "rail0"),
    "node_prefix_of_the_subnet": fabric(
        "routed", "10.40.0.0/24\n      node_prefix: 31", "10.40.0.0/24\n      node_prefix: 24", "node_prefix",
        "10.40.0.0/24 cannot be divided into networks of length 24", "a longer prefix", rail="rail0"),
    "node_prefix_32": fabric(
        "routed", "node_prefix: 31\n      gateway: first", "node_prefix: 32\n      gateway: first",
        "node_prefix", "32 is not between 2 and 31", "node_prefix: 31", rail="rail0"),
    "node_prefix_without_subnet": fabric(
        "routed", "      gateway: first\n", "      gateway: first\n      node_prefix6: 64\n", "node_prefix6",
        "the rail has no subnet6 to divide", "add subnet6", rail="rail0"),
    "node_prefix_beyond_the_subnet": fabric(
        "routed", "10.40.0.0/24", "10.40.0.0/30", "10.40.0.0/30",
        "must be 0 to 1, the /31 networks in 10.40.0.0/30", "a larger subnet", "gpu2", "rail0"),
    "node_prefix_back_to_back": fabric(
        "pair", "      subnet: 10.0.1.0/24\n", "      subnet: 10.0.1.0/24\n      node_prefix: 31\n",
        "node_prefix", "both ends of a cable are in one network", "subnet: 10.0.1.0/31", rail="rail1"),
    "node_prefix_of_infiniband": fabric(
        "infiniband", "      subnet: 10.0.1.0/24\n", "      subnet: 10.0.1.0/24\n      node_prefix: 31\n",
        "node_prefix", "an InfiniBand rail is one IP network", "remove it", rail="rail1"),
    "node_prefix_computed_too_short": fabric(
        "computed", "  gateway: first\n", "  gateway: first\n  node_prefix: 22\n", "node_prefix",
        "10.64.0.0/22 cannot be divided into networks of length 22", "a longer prefix"),
    "node_prefix_computed_of_the_other_family": fabric(
        "computed", "  gateway: first\n", "  gateway: first\n  node_prefix: 64\n", "node_prefix",
        "a /64 holds no two addresses", "127 for IPv6"),
    # rails that a node lacks
    "lacks_by_another_word": overridden(
        "none", "it is 'none', not a mapping", "`rail1: absent` where the node lacks the rail"),
    "lacks_an_unknown_rail": overridden(
        "absent", "the fabric has no such rail", "rail0, rail1", rail="rail9"),
    "lacks_every_rail": hosts(
        pair_of("", "rail_overrides: {rail0: absent, rail1: absent}"), "gpu2",
        "the node lacks every rail of the fabric", "out of group gpu_nodes", "gpu2", base="routed"),
    "every_node_lacks_a_rail": Wrong(
        "routed", {HOSTS: pair_of(*["rail_overrides: {rail1: absent}"] * 2)}, f"{FABRIC}|name: rail1",
        "every node lacks this rail", "remove the rail", None, "rail1"),
    "lacks_half_a_wire": Wrong(
        "pair",
        {
            FABRIC: ("      netdev: ens2\n", "      netdev: ens2\n      shares_wire_with: rail0\n"),
            HOSTS: pair_of("", "rail_overrides: {rail1: absent}"),
        },
        f"{HOSTS}|gpu2", "it shares its wire with rail0, which the node has", "absent for both", "gpu2",
        "rail1"),
    # bonds (RoCE LAG)
    "bond_of_a_mode_that_spreads_packets": bond(
        "bond: {mode: balance-rr, ports: [ens2, ens3]}", "bond", "mode is 'balance-rr'",
        "a rail of its own"),
    "bond_of_a_mode_by_number": bond(
        "bond: {mode: 4, ports: [ens2, ens3]}", "bond", "mode is 4, but cards support", "mode: 802.3ad"),
    "bond_without_its_mode": bond(
        "bond: {ports: [ens2, ens3]}", "bond", "must have the keys mode and ports", "mode: 802.3ad"),
    "bond_of_one_port": bond(
        "bond: {mode: 802.3ad, ports: [ens2]}", "bond", "not a list of 2 to 4 ports of a card",
        "a rail of its own"),
    "bond_of_a_port_twice": bond(
        "bond: {mode: 802.3ad, ports: [ens2, ens2]}", "bond", "has a duplicate port", "a rail of its own"),
    "bond_of_a_port_that_is_none": bond(
        "bond: {mode: 802.3ad, ports: [ens2, none]}", "bond", "'none' is a reserved word",
        "a rail of its own"),
    "bond_that_is_its_own_port": bond(
        "bond: {mode: 802.3ad, ports: [bond0, ens2]}", "netdev: bond0", "bond0 is one of the bond's ports",
        "the bond's own name"),
    "bond_with_a_bus_address": bond(
        "bond: {mode: 802.3ad, ports: [ens2, ens3]}\n      pci: '0000:3b:00.0'", "pci",
        "the rail is a bond, which is identified only by netdev", "remove it"),
    "bond_of_another_rails_port": bond(
        "bond: {mode: 802.3ad, ports: [ens2, ens1]}", "netdev", "netdev ens1 is also that of rail rail",
        "its own interface", rail=...),
    "bond_of_infiniband": fabric(
        "infiniband", "      hca: mlx5_1:1\n      netdev: ib1\n",
        "      netdev: bond0\n      bond: {mode: active-backup, ports: [ib1, ib2]}\n", "bond",
        "RoCE LAG needs Ethernet ports, but the transport is 'infiniband'", "a rail of its own",
        rail="rail1"),
}
