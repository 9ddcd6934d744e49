"""Wrong units, interfaces, networks and forms of the fabric, one fault each, in a sound inventory."""

from __future__ import annotations

from support.inventories.sound import FABRIC, HOSTS
from support.inventories.wrong_values import Wrong


def fault(base, file, old, new, line, host, rail, message, fix):
    """Make a fault of one piece of text; `line` is a part of the line that must be named, or None."""
    place = f"{HOSTS}|" if line is None else f"|{line}"
    return Wrong(base, {file: (old, new)}, place, message, fix, host, rail)


# fmt: off
FAULTS = {
    # units, gateways, routes
    "units_without_gateway": fault(
        "units", FABRIC, "      gateway: first\n", "", "name: rail0", "gpu[1-3]", "rail0",
        "no gateway between its scalable units (su1, su2)", "`none` where units do not meet"),
    "node_without_unit": fault(
        "units", HOSTS, "      vars:\n        scalable_unit: su2\n", "", "gpu3:", "gpu3", "rail0",
        "holds a leaf per scalable unit, and the node names none", "one of: su1, su2"),
    "unit_without_subnet": fault(
        "units", FABRIC, "{su1: 10.10.1.0/24, su2: 10.10.2.0/24}", "{su1: 10.10.1.0/24}",
        "subnets: {su1", "gpu3", "rail0", "no subnet for scalable_unit su2", "add it (now there: su1)"),
    "unit_without_leaf": fault(
        "units", FABRIC, "{su1: leaf-su1-r0, su2: leaf-su2-r0}", "{su1: leaf-su1-r0}",
        "leaves: {su1", "gpu3", "rail0", "no leaf for scalable_unit su2", "add it (now there: su1)"),
    "units_share_a_subnet": fault(
        "units", FABRIC, "su2: 10.10.2.0/24}", "su2: 10.10.1.0/25}", "subnets: {su1", None, "rail0",
        "10.10.1.0/25 of rail rail0 in unit su2 overlaps", "its own subnet"),
    "leaf_and_leaves": fault(
        "units", FABRIC, "      leaves:", "      leaf: leaf1\n      leaves:", "leaves: {su1", None, "rail0",
        "leaf and leaves are both set", "keep one"),
    "gateway_outside": fault(
        "units", FABRIC, "gateway: last", "gateway: 10.12.0.1", "gateway: 10.12.0.1", "gpu[1-3]", "rail1",
        "10.12.0.1 is no usable address of 10.11.0.0/16", "inside the subnet"),
    "gateway_is_a_node": fault(
        "units", FABRIC, "gateway: last", "gateway: 10.11.0.13", "gateway: 10.11.0.13", "gpu3", "rail1",
        "also a node's own address", "move the nodes"),
    "route_without_gateway": fault(
        "units", FABRIC, "      gateway: last\n", "", "name: rail1", "gpu[1-3]", "rail1",
        "no IPv4 gateway for its route to 10.111.0.0/16", "or remove the route"),
    "route_of_the_other_family": fault(
        "units", FABRIC, "[10.111.0.0/16]", "['fd00:1::/64']", "name: rail1", "gpu[1-3]", "rail1",
        "no IPv6 gateway for its route to fd00:1::/64", "or remove the route"),
    "route_to_the_own_subnet": fault(
        "units", FABRIC, "[10.111.0.0/16]", "[10.11.0.0/16]", "routes: [10.11", "gpu[1-3]", "rail1",
        "the rail's own subnet", "behind the rail's gateway"),
    "route_to_everything": fault(
        "units", FABRIC, "[10.111.0.0/16]", "[0.0.0.0/0]", "routes: [0", None, "rail1",
        "contains all addresses", "list the networks"),
    "route_takes_storage": fault(
        "units", FABRIC, "[10.111.0.0/16]", "[10.90.0.128/25]", "routes: [10.90", None, "rail1",
        "takes traffic from 10.90.0.0/24 of network storage", "needs no route"),
    "route_of_two_rails": fault(
        "units", FABRIC, "      leaves:", "      routes: [10.111.0.0/16]\n      leaves:",
        "      routes: [10.111.0.0/16]", None, "rail1", "rail rail0 has it as well", "through one rail"),
    "route_leads_to_ansible": fault(
        "units", FABRIC, "[10.111.0.0/16]", "[172.16.0.0/24]", "ansible_host", "gpu[1-3]", "rail1",
        "it is inside 172.16.0.0/24, a route of rail rail1", "not to the network that Ansible connects over"),
    "route_table_of_the_kernel": fault(
        "units", FABRIC, "  mtu:", "  route_table_base: 254\n  mtu:", "route_table_base", None, None,
        "254 is not between 1000 and 32000", "first rail's routing table"),
    # interfaces
    "rail_on_a_bond": fault(
        "units", FABRIC, "hca: mlx5_1:1", "bond: bond0", "bond: bond0", None, "rail1",
        "the rail is on a bond: one RDMA connection is one flow", "a rail of its own"),
    "a_nodes_rail_is_a_bond": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12}",
        "bmc_address: 172.16.8.12, rail_overrides: {rail1: {netdev: bond7}}}",
        "bond7", "gpu2", "rail1", "bond7 is on a bond", "a rail of its own"),
    "rail_is_the_frontend": fault(
        "units", FABRIC, "netdev: ens2", "netdev: eno1", "netdev: eno1", None, "rail1",
        "netdev eno1 is that of the frontend", "for nothing else"),
    "rail_is_the_storage_port": fault(
        "units", FABRIC, "netdev: ens9", "netdev: ens2", "netdev: ens2", None, "rail1",
        "netdev ens2 is that of network storage", "for nothing else"),
    "hca_without_port": fault(
        "units", FABRIC, "mlx5_1:1", "mlx5_1", "hca: mlx5_1", None, "rail1",
        "not a valid HCA with its port", "mlx4_0:1"),
    "link_local_of_no_family": fault(
        "units", FABRIC, "  mtu:", "  link_local: [ipv7]\n  mtu:", "link_local", None, None,
        "['ipv7'] is not a list of ipv4 and ipv6", "`[ipv6]`"),
    "accept_ra_is_text": fault(
        "units", FABRIC, "  mtu:", "  accept_ra: 'no'\n  mtu:", "accept_ra", None, None,
        "'no' is neither true nor false", "true or false"),
    # storage, BMCs, where Ansible connects
    "bmc_of_a_node_missing": fault(
        "units", HOSTS, ", bmc_address: 172.16.8.12", "", "gpu2:", "gpu2", None,
        "network bmc is that of the BMCs", "set the host variable bmc_address"),
    "bmc_twice": fault(
        "units", HOSTS, "172.16.8.12", "172.16.8.11", "gpu2:", "gpu2", None,
        "172.16.8.11 is already that of gpu1 (the BMC)", "its own address"),
    "bmc_on_a_rail": fault(
        "units", HOSTS, "172.16.8.12", "10.11.9.9", "gpu2:", "gpu2", "rail1",
        "10.11.9.9 is inside 10.11.0.0/16 of rail rail1", "in the BMCs' network"),
    "bmc_outside_its_subnet": fault(
        "units", HOSTS, "172.16.8.12", "172.16.9.12", "gpu2:", "gpu2", None,
        "172.16.9.12 is not a usable address of 172.16.8.0/24", "in the BMCs' network"),
    "bmc_with_prefix_length": fault(
        "units", HOSTS, "172.16.8.12", "172.16.8.12/24", "gpu2:", "gpu2", None,
        "'172.16.8.12/24' is not an IP address", "without a prefix length"),
    "ansible_connects_to_a_bmc": fault(
        "units", HOSTS, "ansible_host: 172.16.0.12", "ansible_host: 172.16.8.99", "gpu2:", "gpu2", None,
        "172.16.8.99 is inside 172.16.8.0/24, the network of the BMCs", "over the frontend"),
    "bmcs_managed": fault(
        "units", FABRIC, "bmc: true", "bmc: true\n      netdev: eno2\n      manage: true",
        "manage: true", None,
        None, "Railyard cannot write a BMC", "manage: false"),
    "bmcs_are_storage": fault(
        "units", FABRIC, "purpose: out_of_band", "purpose: storage", "purpose: storage", None, None,
        "BMCs are out of band, but the purpose is 'storage'", "out_of_band"),
    "bmcs_share_with_storage": fault(
        "units", FABRIC, "subnet: 10.90.0.0/24", "subnet: 172.16.0.0/16", "subnet: 172.16.8.0/24", None, None,
        "172.16.8.0/24 of network bmc overlaps 172.16.0.0/16 of network storage", "overlaps no other"),
    "storage_on_a_rail": fault(
        "units", FABRIC, "subnet: 10.90.0.0/24", "subnet: 10.11.90.0/24", "subnet: 10.11.0.0/16", None,
        "rail1",
        "overlaps 10.11.90.0/24 of network storage", "its own subnet"),
    "storage_without_netdev": fault(
        "units", FABRIC, "      netdev: ens9\n", "", "name: storage", None, None,
        "has no netdev to write", "add the netdev"),
    "storage_on_the_frontends_port": fault(
        "units", FABRIC, "netdev: ens9", "netdev: eno1", "netdev: eno1", None, None,
        "eno1 is the frontend's: writing the network would cut Ansible's connection", "its own port or vlan"),
    "storage_vlan_on_the_frontends_port": fault(
        "units", FABRIC, "netdev: ens9", "netdev: eno1\n      vlan: 90", "netdev: eno1", None, None,
        "the frontend, which Railyard does not manage", "manage: true there"),
    "two_networks_on_a_port": fault(
        "units", FABRIC, "    - name: bmc\n",
        "    - {name: backup, purpose: storage, netdev: ens9}\n    - name: bmc\n", "name: backup", None, None,
        "ens9 is that of network storage as well", "give one of them a vlan"),
    "vlan_name_too_long": fault(
        "units", FABRIC, "netdev: ens9", "netdev: enp129s0f0np0\n      vlan: 90", "vlan: 90", None, None,
        "would be enp129s0f0np0.90, which has more than 15 characters", "a shorter name"),
    "storage_without_subnet": fault(
        "units", FABRIC, "      subnet: 10.90.0.0/24\n", "", "name: storage", "gpu[1-3]", None,
        "nothing gives the node an address", "add a subnet"),
    "storage_too_small": fault(
        "units", FABRIC, "10.90.0.0/24", "10.90.0.0/29", "subnet: 10.90.0.0/29", "gpu[1-3]", None,
        "must be 1 to 6 in 10.90.0.0/29", "a larger subnet"),
    "storage_mtu": fault(
        "units", FABRIC, "      manage: true", "      mtu: 65520\n      manage: true", "mtu: 65520",
        None, None,
        "65520 is not between 576 and 9978", "the network's MTU"),
    "storage_address_twice": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12}",
        "bmc_address: 172.16.8.12, network_addresses: {storage: 10.90.0.11/24}}",
        "network_addresses", "gpu2", None, "10.90.0.11 is already that of gpu1 (network storage)",
        "change one"),
    "storage_address_outside": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12}",
        "bmc_address: 172.16.8.12, network_addresses: {storage: 10.91.0.12/24}}",
        "network_addresses", "gpu2", None, "no usable address of 10.90.0.0/24", "with that prefix length"),
    "address_on_no_network": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12}",
        "bmc_address: 172.16.8.12, network_addresses: {sotrage: 10.90.0.99/24}}",
        "network_addresses", "gpu2", None, "the fabric has no such network", "correct the name"),
    "management_address_on_a_rail": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12",
        "bmc_address: 172.16.8.12, management_address: 10.11.0.99",
        "gpu2:", "gpu2", "rail1", "10.11.0.99 is inside 10.11.0.0/16", "on the management network"),
    "management_address_that_none_reaches": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12",
        "bmc_address: 172.16.8.12, management_address: 127.0.0.1",
        "gpu2:", "gpu2", None, "127.0.0.1 is not an address at which another node", "on the management"),
    "management_address_with_prefix": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12",
        "bmc_address: 172.16.8.12, management_address: 172.16.0.12/24",
        "gpu2:", "gpu2", None, "172.16.0.12/24", "without a prefix length"),
    "management_address_of_another_node": fault(
        "units", HOSTS, "bmc_address: 172.16.8.12",
        "bmc_address: 172.16.8.12, management_address: 172.16.0.11",
        "gpu2:", "gpu2", None, "172.16.0.11 is already that of gpu1", "change one of the two"),
    "rail_contains_ansible_host": fault(
        "units", HOSTS, "172.16.0.12", "10.11.200.1", "gpu2:", "gpu2", "rail1",
        "Ansible would cut its own connection", "over the frontend"),
    "password_of_a_bmc": fault(
        "units", HOSTS, "172.16.8.12}", "172.16.8.12, bmc_password: hunter2}", "bmc_password", "gpu2", None,
        "a password in plain text", "ansible-vault"),
    "password_of_everybody": fault(
        "units", HOSTS, "scalable_unit: su2", "scalable_unit: su2\n        ansible_become_password: hunter2",
        "ansible_become_password", None, None, "a password in plain text", "ansible-vault"),
    "secret_in_the_middle": fault(
        "units", HOSTS, "scalable_unit: su2", "scalable_unit: su2\n        munge: {secret_key: hunter2}",
        "secret_key", None, None, "a password in plain text", "ansible-vault"),
    # the pair
    "third_node_back_to_back": fault(
        "pair", HOSTS, "    gpu2:\n", "    gpu2:\n    gpu3:\n", "cabling:", None, None,
        "joins at most 2 nodes, and there are 3", "write switched"),
    "same_number_twice": fault(
        "pair", HOSTS, "gpu2:", "tpu1:", "tpu1:", "tpu1", None, "index 1 is also that of gpu1", "node_index"),
    "name_without_number": fault(
        "pair", HOSTS, "gpu2:", "login:", "login:", "login", None, "ends in no number", "node_index"),
    "subnets_overlap": fault(
        "pair", FABRIC, "10.0.1.0/24", "10.0.0.0/16", "subnet: 10.0.0.0/24", None, "rail0",
        "overlaps 10.0.0.0/16 of rail rail1", "its own subnet"),
    "host_bits": fault(
        "pair", FABRIC, "10.0.1.0/24", "10.0.1.1/24", "10.0.1.1/24", None, "rail1",
        "has host bits set: the network is 10.0.1.0/24", "the network itself"),
    "mtu_too_large": fault(
        "pair", FABRIC, "9000", "9979", "mtu: 9979", None, None, "not an MTU of an Ethernet", "mtu: 9000"),
    "no_subnet_on_roce": fault(
        "pair", FABRIC, "      subnet: 10.0.1.0/24\n", "", "name: rail1", None, "rail1",
        "the rail has no subnet", "only transports infiniband and efa do without"),
    "same_netdev_twice": fault(
        "pair", FABRIC, "netdev: ens2", "netdev: ens1", "netdev: ens1", None, "rail1",
        "netdev ens1 is also that of rail rail0", "its own interface"),
    "misspelt_key": fault(
        "pair", FABRIC, "cabling:", "cabeling:", "cabeling", None, None, "unknown key 'cabeling'",
        "did you mean cabling?"),
    "expression": fault(
        "pair", FABRIC, "subnet: 10.0.1.0/24", "subnet: '{{ rail1_subnet }}'", "subnet: '", None, "rail1",
        "is a Jinja expression", "must not contain expressions"),
    "ipoib_on_roce": fault(
        "pair", FABRIC, "  mtu:", "  ipoib_mode: datagram\n  mtu:", "ipoib_mode", None, None,
        "it is for IPoIB, but the transport is roce", "remove it"),
    "no_group": fault(
        "pair", HOSTS, "gpu_nodes:", "gpus:", None, None, None, "group gpu_nodes does not exist",
        "put the nodes into a group gpu_nodes"),
    "no_yaml": fault(
        "pair", FABRIC, "  rails:\n", "  rails: [\n", "- name: rail0", None, None,
        "YAML parsing failed", "at that line"),
    "key_twice": fault(
        "pair", FABRIC, "  mtu: 9000\n", "  mtu: 9000\n  mtu: 1500\n", "mtu: 1500", None, None,
        "duplicate mapping key 'mtu'", "at that line"),
    # InfiniBand
    "mtu_beyond_datagram": fault(
        "infiniband", FABRIC, "4092", "4093", "mtu: 4093", None, None,
        "beyond datagram mode; IPoIB carries at most 4092 bytes in datagram mode, 65520 in connected mode",
        "ipoib_mode: connected"),
    "mtu_beyond_one_rails_mode": fault(
        "infiniband", FABRIC, "  mtu: 4092\n  rails:\n    - name: rail0\n",
        "  mtu: 65520\n  rails:\n    - name: rail0\n      ipoib_mode: connected\n",
        "mtu: 65520", None, "rail1",
        "65520 is beyond datagram mode", "write mtu: 4092 or less"),
    "mtu_beyond_connected": fault(
        "infiniband", FABRIC, "  mtu: 4092\n", "  mtu: 65521\n  ipoib_mode: connected\n", "mtu: 65521", None,
        None, "65521 is beyond connected mode; IPoIB carries at most 4092 bytes in datagram mode, 65520",
        "write mtu: 65520 or less"),
    "ipoib_mode_unknown": fault(
        "infiniband", FABRIC, "netdev: ib1", "netdev: ib1\n      ipoib_mode: fast", "ipoib_mode",
        None, "rail1",
        "'fast' is none of datagram, connected", "datagram or connected"),
    "vlan_on_ipoib": fault(
        "infiniband", FABRIC, "netdev: ib1", "netdev: ib1\n      vlan: 7", "vlan: 7", None, "rail1",
        "an IPoIB interface has no VLANs", "P_Keys"),
    # the computed form
    "supernet_too_small": fault(
        "computed", FABRIC, "supernet: 10.64.0.0/19", "supernet: 10.64.0.0/20", "supernet", None, None,
        "has no /22 number 7 (counting from 0)", "for 8 rails"),
    "rail_too_small_for_its_nodes": fault(
        "computed", FABRIC, "rail_prefix: 22", "rail_prefix: 24", "supernet", "gpu[254-300]", "rail0",
        "must be 1 to 254 in 10.64.0.0/24", "a larger subnet"),
    "rail_routes_too_small": fault(
        "computed", FABRIC, "10.65.0.0/19", "10.65.0.0/20", "rail_routes", None, None,
        "10.65.0.0/20 has no /22 number 7", "divided like `supernet`"),
    "rail_routes_without_gateway": fault(
        "computed", FABRIC, "  gateway: first\n", "", "fabric:", "gpu[001-300]", "rail0",
        "no IPv4 gateway for its route to 10.65.0.0/22", "first or last"),
    "rail_routes_are_the_supernet": fault(
        "computed", FABRIC, "[10.65.0.0/19]", "[10.64.0.0/19]", "rail_routes", "gpu[001-300]", "rail0",
        "10.64.0.0/22 is the rail's own subnet", "behind the rail's gateway"),
    "pattern_of_a_bond": fault(
        "computed", FABRIC, "ens{rail}np0", "bond{rail}", "netdev_pattern", None, None,
        "bond7 is on a bond", "a rail of its own"),
    "both_forms": fault(
        "computed", FABRIC, "  rail_count: 8\n",
        "  rails: [{name: r, netdev: e, subnet: 10.0.0.0/16}]\n  rail_count: 8\n",
        "rail_count", None, None, "belongs to the computed form, but rails is set as well", "remove rails"),
}
# fmt: on
# Faults of which every rail, or every key of the form, has its own line to tell.
SEVERAL = {
    "rail_too_small_for_its_nodes",
    "rail_routes_without_gateway",
    "rail_routes_are_the_supernet",
    "both_forms",
}  # fmt: skip
