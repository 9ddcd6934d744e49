"""Wrong forms of inventory files, one fault each: ranges, INI, what YAML reads otherwise than it is meant."""

from __future__ import annotations

from wrong_files import added, hosts
from wrong_inventories import FABRIC, HOSTS
from wrong_values import POLICY, Wrong, fabric

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
    "range_of_two_widths": ranged("gpu[01:010]", "both ends must have as many digits"),
    "range_that_is_open": ranged("gpu[01:10", "gpu[01:10 has a bracket too few"),
    "range_of_two_kinds": ranged("gpu[1:x]", "different kinds of characters"),
    "range_that_stands_still": ranged("gpu[1:3:0]", "has a step of 0"),
    "range_below_0": ranged("gpu[-1:2]", "gpu[-1:2] is no range to Ansible"),
    "range_without_measure": ranged("gpu[1:99999999999]", "one of 99999999999 hosts, and more than 100000"),
    # INI
    "ini_range_without_beginning": ini(
        "[gpu_nodes]\ngpu[:2]\n", "gpu[:2]", "gpu[:2] has no beginning", RANGE),
    "ini_range_of_clustershell": ini(
        "[gpu_nodes]\ngpu[1-2]\n", "gpu[1-2]", "gpu[1-2] is no range to Ansible", RANGE),
    "ini_range_without_measure": ini(
        "[gpu_nodes]\ngpu[1:99999999999]\n", "gpu[1", "99999999999 hosts", RANGE),
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
        "[gpu_nodes]\ngpu1\n[gpu_nodes:children]\nall\n", "all", "group all stands below", "out of the chil"),
    # YAML
    "group_in_itself": hosts(
        "gpu_nodes: {hosts: {gpu1: , gpu2: }, children: {gpu_nodes: }}\n", "gpu_nodes",
        "group gpu_nodes stands below group gpu_nodes", "out of the children"),
    "all_below_a_group": hosts(
        "gpu_nodes: {children: {all: }}\nx: {hosts: {gpu1: , gpu2: }}\n", "gpu_nodes",
        "group all stands below group gpu_nodes", "out of the children"),
    "plugin_of_nobody": hosts("plugin: nosuch\n", "nosuch", "specifies unknown plugin 'nosuch'", "correct"),
    "expression_without_quotes": fabric(
        "pair", "mtu: 9000", "mtu: {{ mtu }}", "mtu:", "a value with {{ }} needs quotes", "at that line"),
    "key_twice_in_one_line": added(
        POLICY, "fabric_policy: {ping_count: 20, ping_count: 30}\n", "ping_count",
        "key 'ping_count' stands in line 1 already", "at that line"),
    "control_character": Wrong(
        "pair", {FABRIC: ("mtu: 9000", "mtu: 9000\0")}, f"{FABRIC}|mtu", "unacceptable character", "at that"),
}
# fmt: on
