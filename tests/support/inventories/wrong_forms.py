"""Wrong forms of inventory files, one fault each: ranges, INI, what YAML reads otherwise than it is meant."""

from __future__ import annotations

from support.inventories.sound import FABRIC, HOSTS, PAIR
from support.inventories.wrong_files import added, hosts, pair_of
from support.inventories.wrong_values import Wrong, fabric

RANGE = "write a range as Ansible does"


def ranged(name, message):
    """Make a fault of one host's name in hosts.yml."""
    return hosts(f"gpu_nodes:\n  hosts:\n    '{name}':\n", name, message, RANGE)


def ini(text, line, message, fix):
    """Make a fault of an inventory in INI form."""
    return Wrong("pair", {HOSTS: None, "inventory": text}, f"inventory|{line}", message, fix)


# fmt: off
FORMS = {
    # ranges
    "range_without_beginning": ranged("gpu[:2]", "gpu[:2] has no beginning: Ansible would begin with 0"),
    "range_without_end": ranged("gpu[1:]", "range gpu[1:] has no end"),
    "range_backwards": ranged("gpu[2:1]", "range gpu[2:1] ends before it begins"),
    "range_of_two_widths": ranged("gpu[01:010]", "both ends need the same number of digits"),
    "range_that_is_open": ranged("gpu[01:10", "gpu[01:10 has unbalanced brackets"),
    "range_of_two_kinds": ranged("gpu[1:x]", "different kinds of characters"),
    "range_that_stands_still": ranged("gpu[1:3:0]", "has a step of 0"),
    "range_below_0": ranged("gpu[-1:2]", "gpu[-1:2] is not a valid range"),
    "range_without_measure": ranged("gpu[1:99999999999]", "has 99999999999 hosts; the limit is 100000"),
    # INI
    "ini_range_of_clustershell": ini(
        "[gpu_nodes]\ngpu[1-2]\n", "gpu[1-2]", "gpu[1-2] is not a valid range", RANGE),
    "ini_section_that_is_open": ini("[gpu_nodes\ngpu1\n", "[gpu", "[gpu_nodes is not closed", "[gpu_nodes]"),
    "ini_with_a_mark": ini("\ufeff[gpu_nodes]\ngpu1\n", "gpu_nodes", "byte order mark", "without one"),
    "ini_child_of_nobody": ini(
        "[gpu_nodes:children]\nrack1\n", "children",
        "read it as an inventory: Section [gpu_nodes:children] includes undefined group 'rack1'", "correct"),
    "ini_variable_without_value": ini(
        "[gpu_nodes]\ngpu1 ansible_host\n", "gpu1", "Expected key=value", "correct the file"),
    "ini_groups_in_a_circle": ini(
        "[gpu_nodes]\ngpu1\n[a:children]\nb\n[b:children]\na\n", "a", "recursive dependency loop", "correct"),
    "ini_all_below_a_group": ini(
        "[gpu_nodes]\ngpu1\n[gpu_nodes:children]\nall\n", "all", "group all is listed in", "out of the chil"),
    # set twice
    "host_in_two_groups_set_twice": hosts(
        "gpu_nodes:\n  children:\n    a:\n      hosts:\n        gpu1: {node_index: 1}\n"
        "    b:\n      hosts:\n        gpu1: {node_index: 2}\n",
        "node_index: 2", "site/hosts.yml:5 sets another value for host gpu1", "keep one of the two", "gpu1"),
    "host_in_two_files_set_twice": Wrong(
        "pair",
        {HOSTS: pair_of("node_index: 1", ""), "more.yml": "gpu_nodes: {hosts: {gpu1: {node_index: 5}}}\n"},
        "more.yml|node_index", "site/hosts.yml:3 sets another value for host gpu1", "keep one", "gpu1"),
    "host_set_in_its_file_as_well": Wrong(
        "pair", {HOSTS: pair_of("node_index: 1", ""), "host_vars/gpu1.yml": "---\nnode_index: 5\n"},
        "host_vars/gpu1.yml|node_index", "site/hosts.yml:3 sets another value", "keep one of", "gpu1"),
    "range_and_its_host_set_twice": hosts(
        "gpu_nodes:\n  hosts:\n    gpu[1:2]: {scalable_unit: a}\n    gpu2: {scalable_unit: b}\n",
        "scalable_unit: b", "site/hosts.yml:3 sets another value for host gpu2", "keep one of the two",
        "gpu2"),
    "ini_host_set_twice": ini(
        "[gpu_nodes]\ngpu1 node_index=1\ngpu2\n[other]\ngpu1 node_index=4\n", "node_index=4",
        "site/inventory:2 sets another value for host gpu1", "keep one of the two"),
    "group_set_in_its_file_as_well": Wrong(
        "pair",
        {
            HOSTS: "gpu_nodes:\n  hosts: {gpu1: , gpu2: }\n  vars:\n    fabric_policy: {ping_count: 20}\n",
            "group_vars/gpu_nodes.yml": "fabric_policy: {ping_count: 30}\n",
        },
        "group_vars/gpu_nodes.yml|fabric_policy", "site/hosts.yml:4 sets another value for group gpu_nodes",
        "keep"),
    "group_that_a_wider_ones_file_overrules": Wrong(
        "pair", {HOSTS: "gpu_nodes:\n  hosts: {gpu1: , gpu2: }\n  vars:\n    fabric: {mtu: 1}\n"},
        f"{FABRIC}|fabric",
        "group gpu_nodes sets it beside its hosts, and group_vars of the wider group all win",
        "group_vars/gpu_nodes.yml", "gpu[1-2]"),
    "fabric_in_a_file_that_is_not_read": Wrong(
        "pair", {FABRIC: None, "group_vars/all/fabric.txt": PAIR[FABRIC]}, "group_vars/all/fabric.txt|fabric",
        "a file whose ending Ansible does not read", "end in .yml", "gpu[1-2]"),
    "fabric_of_no_group": Wrong(
        "pair", {FABRIC: None, "group_vars/All/fabric.yml": PAIR[FABRIC]}, "group_vars/All/fabric.yml|fabric",
        "it is set for group All, which the inventory does not have", "did you mean group all?"),
    # YAML
    "group_with_a_hyphen": hosts(
        "gpu-nodes: {hosts: {gpu1: }}\n", "", "group gpu_nodes does not exist",
        "rename group gpu-nodes, or put"),
    "group_in_itself": hosts(
        "gpu_nodes: {hosts: {gpu1: , gpu2: }, children: {gpu_nodes: }}\n", "gpu_nodes",
        "group gpu_nodes is a child of group gpu_nodes", "out of the children"),
    "all_below_a_group": hosts(
        "gpu_nodes: {children: {all: }}\nx: {hosts: {gpu1: , gpu2: }}\n", "gpu_nodes",
        "group all is a child of group gpu_nodes", "out of the children"),
    "plugin_of_nobody": hosts("plugin: nosuch\n", "", "the inventory plugin nosuch", "--trust-inventory"),
    "expression_without_quotes": fabric(
        "pair", "mtu: 9000", "mtu: {{ mtu }}", "mtu:", "missing quotes around a template", "at that line"),
    "date_of_no_month": Wrong(
        "pair", {"group_vars/all/x.yml": "since: 2026-99-01\n"}, "group_vars/all/x.yml|",
        "YAML parsing failed: month must be in 1..12", "in quotes"),
    "object_of_python": Wrong(
        "pair", {"group_vars/all/x.yml": "x: !!python/object:os.system ls\n"}, "group_vars/all/x.yml|x",
        "Could not determine a constructor for the tag", "at that line"),
    "vault_that_is_none": added(
        "group_vars/all/x.yml", "x: 1\nansible_password: !vault |\n  hunter2\n", "!vault",
        "tagged !vault, but is not encrypted", "ansible-vault"),
    "control_character": Wrong(
        "pair", {FABRIC: ("mtu: 9000", "mtu: 9000\0")}, f"{FABRIC}|", "unacceptable character", "the value"),
}
# fmt: on
