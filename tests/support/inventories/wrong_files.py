"""Wrong hosts, variables and files, one fault each: all of an inventory but the values in `fabric`."""

from __future__ import annotations

from support.inventories.sound import FABRIC, HOSTS, PAIR, UNITS
from support.inventories.wrong_values import Wrong


def hosts(text, line, message, fix, host=..., rail=..., base="pair"):
    """Make a fault of a whole hosts.yml; `line` is None where no line of it can be named."""
    return Wrong(base, {HOSTS: text}, None if line is None else f"{HOSTS}|{line}", message, fix, host, rail)


def pair_of(first, second):
    """Write hosts.yml of two nodes with the variables given as YAML."""
    return f"gpu_nodes:\n  hosts:\n    gpu1: {{{first}}}\n    gpu2: {{{second}}}\n"


def reached(text, message, host="gpu2"):
    """Make a fault of the second node's ansible_host."""
    return hosts(
        pair_of("ansible_host: 192.168.0.1", f"ansible_host: {text}"), "gpu2", message, "ansible_port", host
    )


def added(path, text, line, message, fix, host=..., rail=..., base="pair"):
    """Make a fault of one more file."""
    return Wrong(base, {path: text}, f"{path}|{line}", message, fix, host, rail)


VAULT = "$ANSIBLE_VAULT;1.1;AES256\n6331\n"
# fmt: off
PLACES = {
    # where Ansible connects
    "no_such_octet": reached("192.168.0.300", "'192.168.0.300' is not an IP address"),
    "ansible_host_is_a_number": reached("10.1", "10.1 is not text"),
    "ansible_host_with_a_user": reached("root@gpu2", "'root@gpu2' is neither"),
    "ansible_host_is_an_option": reached("-oProxyCommand=x", "'-oProxyCommand=x' is neither"),
    "ansible_host_is_empty": reached("''", "'' is neither"),
    "ansible_host_is_nobody": reached("0.0.0.0", "0.0.0.0 is not an address that a machine can have"),
    "ansible_host_twice": reached("192.168.0.1",
        "is where Ansible connects for gpu1 as well: both would be one"),
    "ansible_host_twice_in_ipv6": hosts(
        pair_of("ansible_host: 'fd00:9::1'", "ansible_host: 'FD00:9:0::0001'"), "gpu2",
        "is where Ansible connects for gpu1 as well", "correct one", "gpu2"),
    "ansible_host_is_another_node": reached("gpu1", "is where Ansible connects for gpu1 as well").
    _replace(changes={HOSTS: pair_of("", "ansible_host: GPU1")}),
    # names
    "range_of_clustershell": hosts(
        "gpu_nodes:\n  hosts:\n    gpu[1-2]:\n", "gpu[1-2]", "gpu[1-2] is not a valid range", "gpu[1:3]"),
    "names_in_one": hosts(
        "gpu_nodes:\n  hosts: gpu1,gpu2\n", "hosts:", "'gpu1,gpu2' is not a host name", "hostname",
        "gpu1,gpu2"),
    "name_that_differs_by_capitals": hosts(
        "gpu_nodes:\n  hosts:\n    gpu1: {ansible_host: 192.168.0.1}\n    GPU1: {ansible_host: 192.168.0.2, "
        "node_index: 2}\n", "GPU1", "gpu1 is the same host name: case does not", "give GPU1 another name",
        "GPU1"),
    "name_whose_archive_is_anothers": hosts(
        "gpu_nodes:\n  hosts:\n    gpu1: {ansible_host: 192.168.0.1}\n    gpu1.confirm: {ansible_host: "
        "192.168.0.2, node_index: 2}\n", "gpu1.confirm",
        "its file gpu1.confirm.tar.gz in the run folder would be that of gpu1",
        "give gpu1.confirm another name", "gpu1.confirm"),
    "name_with_a_slash": hosts(
        "gpu_nodes:\n  hosts:\n    rack1/gpu1:\n", "rack1/gpu1", "'rack1/gpu1' is not a host", "ansible_host",
        "rack1/gpu1"),
    "name_that_yaml_negates": hosts(
        "gpu_nodes:\n  hosts:\n    no: {node_index: 1}\n", "hosts:", "host False as text", "in quotes"),
    # variables
    "overrides_misspelt": hosts(
        pair_of("", "rail_override: {rail0: {netdev: ens7}}"), "rail_override",
        "nothing reads a variable of this name", "did you mean rail_overrides?", "gpu2"),
    "unit_misspelt": Wrong(
        "units", {HOSTS: ("scalable_unit: su2", "scaleable_unit: su2")}, f"{HOSTS}|scaleable",
        "nothing reads a variable", "did you mean scalable_unit?", "gpu3"),
    "index_in_base_8": hosts(
        pair_of("", "node_index: 010"), "node_index", "010 as octal, which is 8", "write 10, without"),
    "index_is_a_fraction": hosts(
        pair_of("", "node_index: 2.0"), "node_index", "2.0 is not a whole number", "node_index: 7", "gpu2"),
    "index_without_end": hosts(
        pair_of("", "node_index: 99999999999999"), "node_index", "is not between", "node_index: 7", "gpu2"),
    "unit_is_false": Wrong(
        "units", {HOSTS: ("scalable_unit: su2", "scalable_unit: off")}, f"{HOSTS}|scalable_unit: off",
        "False is neither a number nor a name", "su1", "gpu3"),
    "node_in_two_units": Wrong(
        "units", {HOSTS: ("        gpu3:", "        gpu2:\n        gpu3:")}, f"{HOSTS}|scalable_unit: su2",
        "groups su1 and su2 both set it", "out of one of them", "gpu2"),
    "override_by_number": hosts(
        pair_of("", "rail_overrides: {0: {netdev: ens7}}"), "rail_overrides", "no such rail", "rail0, rail1",
        "gpu2", "0"),
    "override_that_is_nothing": hosts(
        pair_of("", "rail_overrides: {rail0: }"), "rail_overrides", "not a mapping", "rail0: {netdev", "gpu2",
        "rail0"),
    "override_takes_the_netdev": hosts(
        pair_of("", "rail_overrides: {rail0: {netdev: }}"), "rail_overrides",
        "removes the only key that identifies", "set a netdev", "gpu2", "rail0"),
    "override_is_the_broadcast": hosts(
        pair_of("", "rail_overrides: {rail0: {address: 10.0.0.255/24}}"), "rail_overrides",
        "10.0.0.255/24 is not an address that a node can have", "10.0.1.77/24", "gpu2", "rail0"),
    "override_with_another_prefix": hosts(
        pair_of("", "rail_overrides: {rail0: {address: 10.0.0.9/16}}"), "rail_overrides",
        "no usable address of the rail's subnet 10.0.0.0/24", "that prefix length", "gpu2", "rail0"),
    "override_spelt_otherwise": Wrong(
        "pair",
        {FABRIC: ("      subnet: 10.0.1.0/24", "      subnet6: fd00:0:0:1::/64"),
         HOSTS: pair_of("", "rail_overrides: {rail1: {address6: 'FD00:0:0:1:0::0001/64'}}")},
        f"{HOSTS}|rail_overrides", "address fd00:0:0:1::1 is already that of gpu1", "change the node_index",
        "gpu2", "rail1"),
    "override_makes_a_long_vlan": Wrong(
        "pair",
        {FABRIC: ("netdev: ens2", "netdev: ens2\n      vlan: 100"),
         HOSTS: pair_of("", "rail_overrides: {rail1: {netdev: enp129s0f0np0}}")},
        f"{HOSTS}|rail_overrides", "enp129s0f0np0.100, which has more than 15", "a shorter name", "gpu2",
        "rail1"),
    "override_mac_of_infiniband": hosts(
        pair_of("", "rail_overrides: {rail0: {mac: '" + "02:" * 19 + "02'}}"), "rail_overrides",
        "20 octets, but a port of transport roce has 6", "`ip link`", "gpu2", "rail0"),
    "override_brings_a_network_of_another": Wrong(
        "infiniband",
        {FABRIC: ("      subnet: 10.0.1.0/24\n", ""),
         HOSTS: pair_of("", "rail_overrides: {rail1: {address: 10.0.0.9/24}}")},
        f"{HOSTS}|rail_overrides", "10.0.0.0/24 shares addresses with that of rail rail0", "its own network",
        "gpu2",
        "rail1"),
    "storage_address_on_a_rail": Wrong(
        "units",
        {FABRIC: ("      subnet: 10.90.0.0/24\n      manage: true\n", ""),
         HOSTS: ("bmc_address: 172.16.8.12",
        "bmc_address: 172.16.8.12, network_addresses: {storage: 10.11.0.99/24}")},
        f"{HOSTS}|network_addresses", "shares addresses with 10.11.0.0/16 of rail rail1",
        "correct the address",
        "gpu2", "rail1"),
    # files
    "latin_1": Wrong(
        "pair", {FABRIC: b"# f\xfcr alle\n" + PAIR[FABRIC].encode()}, f"{FABRIC}|# f",
        "byte 0xfc is not UTF-8",
        "at that line"),
    "fabric_file_is_a_list": Wrong(
        "pair", {FABRIC: "---\n- fabric\n"}, f"{FABRIC}|- fabric",
        "it contains a list, not a mapping of variables",
        "name: value"),
    "fabric_file_is_text": Wrong(
        "pair", {FABRIC: "see the wiki\n"}, f"{FABRIC}|wiki", "it contains text, not", "name: value"),
    "fabric_file_is_empty": Wrong(
        "pair", {FABRIC: ""}, None, "it is not defined", "define it in group_vars/all/fabric.yml",
        "gpu[1-2]"),
    "fabric_file_is_encrypted": Wrong(
        "pair", {FABRIC: VAULT}, f"{FABRIC}|", "this file is fully encrypted",
        "encrypt only secrets",
        "gpu[1-2]"),
    "hosts_are_encrypted": hosts(VAULT, "", "is fully encrypted", "keep only the secrets"),
    "tab": Wrong(
        "pair", {FABRIC: ("  mtu: 9000", "\tmtu: 9000")}, f"{FABRIC}|mtu", "Tabs are usually invalid",
        "at that line"),
    "tag_of_nobody": Wrong(
        "pair", {FABRIC: ("mtu: 9000", "mtu: !jumbo 9000")}, f"{FABRIC}|!jumbo",
        "constructor for the tag '!jumbo'",
        "at that line"),
    "merge_that_is_overridden": Wrong(
        "pair", {FABRIC: ("    - name: rail1\n", "    - <<: {name: x}\n      name: rail1\n")},
        f"{FABRIC}|name: rail1", "duplicate mapping key 'name'", "at that line"),
    "two_documents": Wrong(
        "pair", {FABRIC: PAIR[FABRIC] + "---\nfabric: {}\n"}, f"{FABRIC}|---", "single document",
        "at that line"),
    "alias_to_itself": Wrong(
        "pair", {FABRIC: ("  frontend: {netdev: eno1}", "  frontend: &f {netdev: eno1, more: *f}")},
        f"{FABRIC}|frontend",
        "an alias is inside the value that it names", "at that line"),
    "fabric_beside_the_hosts": Wrong(
        "pair", {FABRIC: None, "fabric.yml": PAIR[FABRIC]}, "fabric.yml|transport",
        "unknown key 'transport' in group fabric", "group_vars/all/"),
    "fabric_in_two_files": added(
        "group_vars/all/zz.yml", "x: 1\nfabric: {}\n", "fabric",
        "it is set in site/group_vars/all/fabric.yml:1",
        "keep one").
    _replace(changes={"group_vars/all/zz.yml": "x: 1\n" + PAIR[FABRIC]}),
    "file_beside_its_folder": added(
        "group_vars/all.yml", "x: 1\n", "", "Ansible reads site/group_vars/all instead of this file",
        "remove it"),
    "variables_of_no_host": added(
        "host_vars/gpu02.yml", "---\nrail_overrides: {rail0: {netdev: ens7}}\n", "rail_overrides",
        "it is set for host gpu02, which the inventory does not have", "did you mean host gpu2?"),
    "variables_of_no_group": added(
        "group_vars/gpu_node.yml", "fabric_policy: {}\n", "fabric_policy", "it is set for group gpu_node,",
        "did you mean group gpu_nodes?"),
    "fabric_of_one_node": added(
        "host_vars/gpu2.yml", PAIR[FABRIC].replace("mtu: 9000", "mtu: 90"), "mtu",
        "90 is not an MTU", "mtu: 9000"),
    "mtu_of_one_node": added(
        "host_vars/gpu2.yml", PAIR[FABRIC].replace("9000", "1500"), "mtu",
        "1500, and other nodes on 10.0.0.0/24 of rail rail0 have 9000", "the same mtu"),
    "infiniband_of_one_node": added(
        "host_vars/gpu2.yml", PAIR[FABRIC].replace("roce", "infiniband").replace("9000", "4092"), "transport",
        "other nodes have 10.0.0.0/24 of rail rail0 on Ethernet", "its own subnets"),
    # what hosts.yml is
    "hosts_are_empty": hosts("", "", "it is empty", "gpu_nodes"),
    "hosts_are_a_list": hosts(
        "gpu_nodes:\n  hosts:\n    - gpu1\n    - gpu2\n", "hosts:", "hosts of group gpu_nodes is a list",
        "`gpu1:`"),
    "group_is_a_list": hosts("gpu_nodes:\n  - gpu1\n", "gpu_nodes", "group gpu_nodes is a list", "{hosts:"),
    "hosts_misspelt": hosts(
        "gpu_nodes:\n  host:\n    gpu1:\n", "host:", "unknown key 'host' in group gpu_nodes",
        "did you mean hosts?"),
    "vars_misspelt": hosts(
        UNITS[HOSTS].replace("      vars:\n        scalable_unit: su2",
        "      var:\n        scalable_unit: su2"),
        "var:", "unknown key 'var' in group su2", "did you mean vars?", base="units"),
    "host_is_text": hosts(
        "gpu_nodes:\n  hosts:\n    gpu1: 192.168.0.1\n", "gpu1", "host gpu1 has",
        "ansible_host:"),
    "groups_in_a_circle": hosts(
        "gpu_nodes: {hosts: {gpu1: , gpu2: }, children: {a: }}\na: {children: {gpu_nodes: }}\n", "", "loop",
        "correct the file"),
    "children_are_a_list": hosts(
        "gpu_nodes:\n  children:\n    - su1\nsu1: {hosts: {gpu1: , gpu2: }}\n", "children",
        "children of group gpu_nodes is a list", "`su1:`"),
    "hosts_are_prose": hosts("the nodes are gpu1 and gpu2\n", "", "it contains text", "gpu_nodes"),
    "hosts_are_cut_off": hosts("gpu_nodes:\n  hosts: {gpu1: ,\n", "", "YAML parsing failed", "at that line"),
}
# fmt: on
