"""Wrong values in `fabric` and the policy, one fault each: what is replaced, and what must be reported."""

from __future__ import annotations

from types import EllipsisType
from typing import NamedTuple

from support.inventories.sound import FABRIC, PAIR

POLICY = "group_vars/all/policy.yml"


class Wrong(NamedTuple):
    """One fault in a sound inventory.

    Attributes:
        base: the inventory of `wrong_inventories.SOUND` to begin with.
        changes: file → its new content, or (old, new) text in it; content of None removes the file.
        place: `file|text in the line` that must be named, or None where no file says it; either may be empty.
        message: a part of what must be reported.
        fix: a part of what must be advised.
        host: the node that must be named, None where none may be; by default any.
        rail: the rail, likewise.
    """

    base: str
    changes: dict[str, str | bytes | tuple[str, str] | None]
    place: str | None
    message: str
    fix: str
    host: str | EllipsisType | None = ...
    rail: str | EllipsisType | None = ...


def fabric(base, old, new, line, message, fix, host=..., rail=...):
    """Make a fault of one piece of text in fabric.yml."""
    return Wrong(base, {FABRIC: (old, new)}, f"{FABRIC}|{line}", message, fix, host, rail)


def policy(text, line, message, fix):
    """Make a fault of a policy."""
    return Wrong("pair", {POLICY: text}, f"{POLICY}|{line}", message, fix)


RAIL1 = "      netdev: ens2\n"
# fmt: off
VALUES = {
    # types
    "mtu_is_text": fabric("pair", "mtu: 9000", "mtu: '9000'", "mtu:", "'9000' is not a whole number",
        "mtu: 9000"),
    "mtu_is_a_boolean": fabric("pair", "mtu: 9000", "mtu: yes", "mtu:", "True is not a whole number",
        "in bytes"),
    "mtu_is_empty": fabric("pair", "mtu: 9000", "mtu:", "mtu:", "it is not set", "mtu: 9000"),
    "mtu_0": fabric("pair", "mtu: 9000", "mtu: 0", "mtu:", "0 is not between 1", "mtu: 9000"),
    "mtu_in_base_8": fabric(
        "pair", "mtu: 9000", "mtu: 02470", "mtu:", "reads 02470 as octal, which is 1336",
        "write 2470, without a leading 0"),
    "number_of_a_mile": fabric(
        "pair", "mtu: 9000", "mtu: 0x" + "f" * 5000, "mtu:", "with thousands of digits", "mtu: 9000"),
    "networks_are_none": fabric(
        "pair", "  rails:\n", "  networks: []\n  rails:\n", "networks:", "the list is empty",
        "list of networks"),
    "rail_is_text": fabric(
        "pair", "    - name: rail1\n      netdev: ens2\n      subnet: 10.0.1.0/24\n", "    - ens2\n",
        "- ens2", "it is 'ens2', not a mapping", "a list of rails"),
    "subnet_is_a_list": fabric(
        "pair", "subnet: 10.0.1.0/24", "subnet: [10.0.1.0/24]", "subnet: [", "is not a network",
        "the network itself",
        rail="rail1"),
    "frontend_is_text": fabric(
        "pair", "frontend: {netdev: eno1}", "frontend: eno1", "frontend:", "it is 'eno1', not a mapping",
        "frontend: {netdev"),
    "fabric_is_a_list": Wrong(
        "pair", {FABRIC: "fabric: [roce]\n"}, f"{FABRIC}|fabric", "not a mapping",
        "write it as in inventories/"),
    "fabric_is_nothing": Wrong(
        "pair", {FABRIC: "fabric:\n"}, f"{FABRIC}|fabric", "it is not defined", "define it", "gpu[1-2]"),
    "cabling_unknown": fabric(
        "pair", "cabling: back_to_back", "cabling: ring", "cabling",
        "'ring' is none of switched, back_to_back",
        "write switched"),
    "transport_in_capitals": fabric(
        "pair", "transport: roce", "transport: RoCE", "transport", "'RoCE' is none of roce", "write roce"),
    # keys
    "mtu_in_capitals": fabric("pair", "  mtu:", "  MTU:", "MTU", "unknown key 'MTU'", "did you mean mtu?"),
    "node_class_with_a_hyphen": fabric(
        "units", "  mtu:", "  node-class: virtual\n  mtu:", "node-class", "unknown key",
        "did you mean node_class?"),
    "gateway_misspelt": fabric(
        "units", "gateway: first", "gatway: first", "gatway", "unknown key", "did you mean gateway?",
        rail="rail0"),
    "rail_without_its_name": fabric(
        "pair", "name: rail1", "nmae: rail1", "nmae", "unknown key 'nmae'", "did you mean name?"),
    "frontend_written_flat": fabric(
        "pair", "frontend: {netdev: eno1}", "frontend.netdev: eno1", "frontend.",
        "unknown key 'frontend.netdev'",
        "did you mean frontend?"),
    "key_of_no_letters": fabric("pair", "  mtu:", "  '': 1\n  mtu:", "fabric", "unknown key ''",
        "known keys"),
    "units_that_are_dates": fabric(
        "units", "{su1: 10.10.1.0/24, su2", "{2026-11-22: 10.10.1.0/24, su2", "subnets",
        "is neither a number nor a name", "map scalable units", rail="rail0"),
    "unit_called_no": fabric(
        "units", "{su1: leaf-su1-r0", "{no: leaf-su1-r0", "leaves", "unit False", "map scalable units",
        rail="rail0"),
    "unit_as_number_and_text": fabric(
        "units", "leaves: {su1: leaf-su1-r0,", "leaves: {1: a, '1': b, su1: leaf-su1-r0,", "leaves",
        "unit 1 is a duplicate", "map scalable units", rail="rail0"),
    # interfaces
    "netdev_begins_with_a_hyphen": fabric(
        "pair", "netdev: ens2", "netdev: -ens2", "-ens2", "'-ens2' is not a valid interface", "`ip link`",
        rail="rail1"),
    "netdev_with_its_peer": fabric(
        "pair", "netdev: ens2", "netdev: ens2@if7", "ens2@", "a valid interface", "`ip link`", rail="rail1"),
    "netdev_with_a_path": fabric(
        "pair", "netdev: ens2", "netdev: /dev/ens2", "/dev", "not a valid interface", "ens6", rail="rail1"),
    "netdev_none": fabric(
        "pair", "netdev: ens2", "netdev: none", "none", "'none' is a reserved word", "`ip link`",
        rail="rail1"),
    "netdev_null_in_quotes": fabric(
        "pair", "netdev: ens2", "netdev: 'Null'", "Null", "null without quotes", "`ip link`",
        rail="rail1"),
    "netdev_of_16": fabric(
        "pair", "netdev: ens2", "netdev: enp129s0f0np0v10", "v10", "has 16 characters", "ens6", rail="rail1"),
    "netdev_is_lo": fabric(
        "pair", "netdev: ens2", "netdev: lo", "netdev: lo", "'lo' is not a port", "ens6", rail="rail1"),
    "netdev_is_on": fabric(
        "pair", "netdev: ens2", "netdev: on", "netdev: on", "True is not text", "ens6", rail="rail1"),
    "netdev_is_an_expression": fabric(
        "pair", "netdev: ens2", "netdev: '{% if a %}ens2{% endif %}'", "{%", "Jinja", "must not contain",
        rail="rail1"),
    "rail_is_a_named_bond": fabric(
        "pair", "netdev: ens2", "netdev: bond-rdma", "bond-", "one RDMA connection is one flow", "of its own",
        rail="rail1"),
    "hca_port_with_a_0": fabric(
        "units", "mlx5_1:1", "mlx5_1:01", "hca", "'mlx5_1:01' is not a valid HCA", "mlx4_0:1", rail="rail1"),
    "mac_with_hyphens": fabric(
        "pair", RAIL1, RAIL1 + "      mac: 52-54-00-AB-CD-EF\n", "mac:", "not a valid MAC", "in quotes",
        rail="rail1"),
    "mac_of_zeros": fabric(
        "pair", RAIL1, RAIL1 + "      mac: '00:00:00:00:00:00'\n", "mac:", "all zeros", "in quotes",
        rail="rail1"),
    "mac_in_base_60": fabric(
        "pair", RAIL1, RAIL1 + "      mac: 12:34:56:12:34:56\n", "mac:", "quotes are missing", "in quotes",
        rail="rail1"),
    "mac_of_infiniband": fabric(
        "pair", RAIL1, RAIL1 + "      mac: '" + "02:" * 19 + "02'\n", "mac:",
        "20 octets, but a port of transport",
        "`ip link`", rail="rail1"),
    "mac_of_ethernet": fabric(
        "infiniband", "netdev: ib1", "netdev: ib1\n      mac: '52:54:00:ab:cd:ef'", "mac:",
        "has 6 octets, but a port of transport infiniband has 20", "`ip link`", rail="rail1"),
    "pci_without_domain": fabric(
        "pair", RAIL1, RAIL1 + "      pci: 3b:00.0\n", "pci:", "'3b:00.0' is not a valid PCI", "lspci -D",
        rail="rail1"),
    "pci_twice": Wrong(
        "pair",
        {FABRIC: PAIR[FABRIC].replace("netdev: ens1", "pci: '0000:3b:00.0'").replace(
            "netdev: ens2", "pci: '0000:3B:00.0'")},
        f"{FABRIC}|0000:3B", "pci 0000:3b:00.0 is also that of rail rail0", "own interface", rail="rail1"),
    "vlan_is_text": fabric(
        "pair", RAIL1, RAIL1 + "      vlan: '100'\n", "vlan", "'100' is not a whole number", "vlan: 100",
        rail="rail1"),
    "rate_in_megabits": fabric(
        "pair", RAIL1, RAIL1 + "      rate_gbps: 40000\n", "rate", "40000 is more than 6400 Gbit/s",
        "in Gbit/s",
        rail="rail1"),
    "rate_that_is_none": fabric(
        "pair", RAIL1, RAIL1 + "      rate_gbps: .nan\n", "rate", "nan is not a number", "in Gbit/s",
        rail="rail1"),
    "rate_with_unit": fabric(
        "pair", RAIL1, RAIL1 + "      rate_gbps: 40G\n", "rate", "'40G' is not a number", "in Gbit/s",
        rail="rail1"),
    "back_to_back_at_a_leaf": fabric(
        "pair", RAIL1, RAIL1 + "      leaf: leaf1\n", "leaf", "so it has no switch", "cabling: switched",
        rail="rail1"),
    # addresses
    "frontend_is_a_network": fabric(
        "pair", "{netdev: eno1}", "{netdev: eno1, address: 192.168.0.0/24}", "frontend",
        "192.168.0.0/24 is not an address that a node can have", "192.168.1.10/24"),
    "frontend_with_a_netmask": fabric(
        "pair", "{netdev: eno1}", "{netdev: eno1, address: 192.168.0.9/255.255.255.0}", "frontend",
        "not written as address/prefix length", "192.168.1.10/24"),
    "gateway_of_ipv6_alone": fabric(
        "units", "gateway: last", "gateway: 'fd00::1'", "name: rail1", "no subnet that it could be in",
        "add one",
        "gpu[1-3]", "rail1"),
    "subnet6_is_ipv4": fabric(
        "pair", "subnet: 10.0.1.0/24", "subnet6: 10.0.1.0/24", "subnet6", "IPv4, which goes under subnet",
        "fd00", rail="rail1"),
    "subnet_is_multicast_in_part": fabric(
        "computed", "supernet: 10.64.0.0/19", "supernet: 192.0.0.0/2", "supernet",
        "overlaps 224.0.0.0/3, which is multicast", "the network that holds all rails"),
    "subnet_is_loopback": fabric(
        "pair", "10.0.1.0/24", "127.0.1.0/24", "127", "overlaps 127.0.0.0/8", "the network itself",
        rail="rail1"),
    "storage_too_small_for_ipv6": fabric(
        "units", "subnet: 10.90.0.0/24", "subnet: fd00:90::/64\n      mtu: 1000", "mtu: 1000",
        "1000 is too small for IPv6", "raise the MTU"),
    # the policy
    "policy_key_misspelt": policy(
        "fabric_policy:\n  rdma_qps: 1\n  ping_cuont: 10\n", "ping_cuont", "is not known",
        "did you mean ping_count?"),
    "policy_below_0": policy(
        "fabric_policy: {ping_count: -3}\n", "ping_count", "must be within 10 and", "correct fabric_policy"),
    "policy_of_nan": policy(
        "fabric_policy: {ping_interval_s: .nan}\n", "ping_interval_s", "must be a number, not nan",
        "correct"),
    "policy_is_text": policy("fabric_policy: strict\n", "strict", "must be a mapping, not text", "correct"),
    "floor_above_ceiling": policy(
        "fabric_policy:\n  floors:\n    tcp_bandwidth: {bandwidth_gbps: [95, 80]}\n", "[95",
        "must end with a ceiling above the floor", "correct"),
    "floor_of_no_check": policy(
        "fabric_policy:\n  floors:\n    tcp_bandwith: {bandwidth_gbps: [9, 10]}\n", "tcp_bandwith",
        "is not a check with thresholds", "correct"),
    "policy_misspelt": Wrong(
        "pair", {POLICY: "fabric_polcy: {ping_count: 20}\n"}, f"{POLICY}|fabric_polcy",
        "nothing reads a variable of this name", "did you mean fabric_policy?", "gpu[1-2]"),
}
# fmt: on
