"""Wrong gateways, ports and addresses, one fault each: what contradicts another part of the inventory."""

from __future__ import annotations

from support.inventories.sound import FABRIC, HOSTS
from support.inventories.wrong_files import hosts, pair_of, reached
from support.inventories.wrong_values import RAIL1, Wrong, fabric

V6 = "subnet6: 'fd00:0:0:1::/64'"
OWN_FAMILY = "inside the subnet6"
ONE_PORT = "give each rail its own interface"


def networks(text, line, message, fix):
    """Make a fault of networks beside the rails, given as a YAML list."""
    return fabric("pair", "  rails:\n", f"  networks:\n{text}  rails:\n", line, message, fix)


def wired(other, message, fix, of_second=""):
    """Make a fault of the first rail of a pair, which shares its wire; lines may be added to the second."""
    old = "subnet: 10.0.0.0/24\n    - name: rail1\n      netdev: ens2\n"
    new = old.replace("    -", f"      shares_wire_with: {other}\n    -") + of_second
    return fabric("pair", old, new, "shares_wire_with", message, fix, rail="rail0")


# fmt: off
LINKS = {
    # what YAML has read
    "mtu_is_a_date": fabric(
        "pair", "mtu: 9000", "mtu: 2026-11-22", "mtu:", "the date 2026-11-22 is not a whole number",
        "mtu: 9000"),
    # networks and gateways
    "subnet_with_a_zone": fabric(
        "pair", "subnet: 10.0.1.0/24", "subnet6: 'fd00::%ens2/64'", "subnet6", "has a zone",
        "fd00:0:0:1::/64", rail="rail1"),
    "route_spelt_twice": fabric(
        "units", "[10.111.0.0/16]", "['fd00:1::/64', 'FD00:1:0::/64']", "routes",
        "FD00:1:0::/64 is a duplicate", "list the networks", rail="rail1"),
    "route_into_the_own_subnet": fabric(
        "units", "[10.111.0.0/16]", "[10.11.3.0/24]", "routes",
        "10.11.3.0/24 is inside the rail's own subnet", "behind the rail's gateway", "gpu[1-3]", "rail1"),
    "gateway6_of_ipv4": fabric(
        "units", "gateway: last", "gateway: last\n      gateway6: 10.11.0.1", "gateway6",
        "10.11.0.1 is IPv4, which goes under gateway", OWN_FAMILY, rail="rail1"),
    "two_gateways_of_ipv6": Wrong(
        "units",
        {
            FABRIC: (
                "      gateway: last\n      subnet: 10.11.0.0/16\n      routes: [10.111.0.0/16]\n",
                f"      gateway: 'fd00:0:0:1::fe'\n      gateway6: 'fd00:0:0:1::ff'\n      {V6}\n",
            )
        },
        f"{FABRIC}|gateway6", "only one of the two would be used", "keep one of gateway, gateway6",
        rail="rail1"),
    "gateway_link_local_to_nothing": Wrong(
        "units",
        {
            FABRIC: (
                "  rails:\n    - name: rail0\n      netdev: ens1\n"
                "      hca: mlx5_0:1\n      gateway: first\n",
                "  link_local: []\n  rails:\n    - name: rail0\n      netdev: ens1\n      hca: mlx5_0:1\n"
                "      subnet6: 'fd00:0:0:1::/64'\n      gateway: first\n      gateway6: 'fe80::1'\n",
            )
        },
        f"{FABRIC}|gateway6", "leaves the rail without such an address", "add ipv6 to link_local", "gpu[1-3]",
        "rail0"),
    "gateway_of_a_cable": fabric(
        "pair", RAIL1, RAIL1 + "      gateway: last\n", "gateway", "there is no router between the nodes",
        "cabling: switched", rail="rail1"),
    "gateway_of_computed_cables": Wrong(
        "computed",
        {
            FABRIC: (
                "  gateway: first\n  host_offset: 1\n  rail_routes: [10.65.0.0/19]\n",
                "  gateway: first\n  host_offset: 1\n  cabling: back_to_back\n",
            ),
            HOSTS: "gpu_nodes: {hosts: {gpu1: , gpu2: }}\n",
        },
        f"{FABRIC}|gateway", "there is no router", "cabling: switched"),
    "leaf_of_two_lines": fabric(
        "units", "leaf-su1-r0,", '"leaf\\u0007\\n1",', "leaves",
        "has characters that cannot be shown in a line", "map scalable units", rail="rail0"),
    # ports
    "rail_on_a_vlan_of_a_rail": fabric(
        "pair", "netdev: ens2", "netdev: ens1.100", "ens1.100", "ens1 and ens1.100 are on one port", ONE_PORT,
        rail="rail1"),
    "rail_on_a_partition_of_a_rail": fabric(
        "infiniband", "netdev: ib1", "netdev: ib0.8f01", "ib0.8f01", "ib0 and ib0.8f01 are on one port",
        ONE_PORT, rail="rail1"),
    "frontend_on_a_vlan_of_a_rail": fabric(
        "pair", "{netdev: eno1}", "{netdev: ens2.7}", "netdev: ens2", "netdev ens2 is that of the frontend",
        "for nothing else", rail="rail1"),
    "override_takes_a_rails_netdev": hosts(
        pair_of("rail_overrides: {rail0: {netdev: ens2}}", ""), "rail_overrides",
        "netdev ens2 is also that of rail rail1", ONE_PORT, "gpu1", "rail0"),
    "mac_of_all_nodes": fabric(
        "pair", RAIL1, RAIL1 + "      mac: '52:54:00:00:00:01'\n", "mac:",
        "52:54:00:00:00:01 is already that of gpu1", "rail_overrides of its node", "gpu2", "rail1"),
    "pci_of_nvidia_smi": fabric(
        "pair", RAIL1, RAIL1 + "      pci: '00000000:3b:00.0'\n", "pci:", "not a valid PCI", "lspci -D",
        rail="rail1"),
    "vlan_larger_than_its_port": networks(
        "    - {name: s, purpose: storage, netdev: ens9, mtu: 1500, subnet: 10.90.0.0/24}\n"
        "    - {name: t, purpose: storage, netdev: ens9, vlan: 7, mtu: 9000, subnet: 10.91.0.0/24}\n",
        "name: t", "9000 is more than the 1500 of ens9", "raise the port's MTU"),
    "vlan_written_two_ways": networks(
        "    - {name: s, purpose: storage, netdev: ens9.7, subnet: 10.90.0.0/24}\n"
        "    - {name: t, purpose: storage, netdev: ens9, vlan: 7, subnet: 10.91.0.0/24}\n",
        "name: t", "ens9 is that of network s as well", "another port"),
    # where nodes are reached
    "ansible_host_is_nothing": hosts(
        pair_of("", "ansible_host: "), "gpu2", "ansible_host: it is empty", "remove the variable", "gpu2"),
    "ansible_host_of_both_families": reached(
        "'::ffff:192.168.0.2'", "is 192.168.0.2 of IPv4 in the form of IPv6"),
    "ansible_host_with_a_dot": hosts(
        pair_of("ansible_host: login", "ansible_host: login."), "gpu2", "is where Ansible connects for gpu1",
        "correct one", "gpu2"),
    "ports_that_are_one": hosts(
        pair_of("ansible_host: login, ansible_port: '22'", "ansible_host: login"), "gpu2",
        "is where Ansible connects for gpu1", "differ in ansible_port", "gpu2"),
    "port_that_there_is_not": hosts(
        pair_of("", "ansible_port: 99999"), "ansible_port", "99999 is not between 1 and 65535", "as 22",
        "gpu2"),
    "bmc_is_link_local": hosts(
        pair_of("", "bmc_address: 'fe80::1'"), "bmc_address", "fe80::1 is link-local", "bmc_address: 192",
        "gpu2"),
    "gpus_are_a_number": hosts(
        pair_of("", "expected_gpus: 8"), "expected_gpus", "8", "`expected_gpus: {count: 8}`", "gpu2"),
    "gpus_without_their_number": hosts(
        pair_of("", "expected_gpus: {model: H100}"), "expected_gpus", "it is missing",
        "`expected_gpus: {count: 8}`", "gpu2"),
    "gpus_of_a_driver_that_yaml_reads_as_a_number": hosts(
        pair_of("", "expected_gpus: {count: 8, driver: 550.10}"), "expected_gpus",
        "550.1 is not a version in quotes", "driver: '550'", "gpu2"),
    "gpus_by_a_key_that_there_is_not": hosts(
        pair_of("", "expected_gpus: {count: 8, modell: H100}"), "expected_gpus", "unknown key 'modell'",
        "did you mean model?", "gpu2"),
    # two PCI functions on one wire, NVLink domains
    "wire_with_itself": wired("rail0", "it is the rail itself", "the port's other PCI function"),
    "wire_with_nobody": wired("rail7", "there is no rail rail7", "name one of: rail1"),
    "wire_of_two_rates": wired(
        "rail1\n      rate_gbps: 200", "rail0 and rail1 are one wire, but declare rate_gbps 200 and 100",
        "write the rate of the wire at both", "      rate_gbps: 100\n"),
    "wire_of_one_rate": wired(
        "rail1\n      rate_gbps: 200", "declare rate_gbps 200 and none",
        "write the rate of the wire at both"),
    "wire_that_is_a_number": wired("1", "1 is no", "shares_wire_with: rail1"),
    "wire_of_three": Wrong(
        "pair",
        {FABRIC: (
            "subnet: 10.0.1.0/24\n",
            "subnet: 10.0.1.0/24\n      shares_wire_with: rail0\n    - name: rail2\n      netdev: ens3\n"
            "      subnet: 10.0.2.0/24\n      shares_wire_with: rail1\n",
        )},
        f"{FABRIC}|shares_wire_with: rail1", "rail1 already shares its wire with rail0", "one pair",
        rail="rail2"),
    "nvlink_domain_is_a_list": hosts(
        pair_of("", "nvlink_domain: [rack1]"), "nvlink_domain", "is neither a number nor a name",
        "nvlink_domain: rack1", "gpu2"),
    "nvlink_domain_is_too_large": hosts(
        "gpu_nodes:\n  vars: {nvlink_domain: all, expected_gpus: {count: 64}}\n"
        "  hosts:\n    gpu[1:10]:\n",
        "nvlink_domain", "all has 10 nodes with at least 640 GPUs, and an NVLink domain has at most 576",
        "its own domain", "gpu1", base="computed"),
}
# fmt: on
