# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fabrics to begin with, and the wrong ones: what each fault is made of and what must be said of it."""

from __future__ import annotations

import copy

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Vaulted

SOUND = {
    "transport": "roce",
    "mtu": 9000,
    "rails": [
        {"name": "rail0", "netdev": "ens6", "hca": "mlx5_0:1", "subnet": "10.0.1.0/24", "rate_gbps": 40},
        {"name": "rail1", "netdev": "ens7", "hca": "mlx5_1:1", "subnet": "10.0.0.0/24", "rate_gbps": 40},
    ],
    "frontend": {"netdev": "enp5s0"},
}
COMPUTED = {
    "transport": "roce",
    "mtu": 9000,
    "rail_count": 2,
    "supernet": "10.0.0.0/16",
    "rail_prefix": 24,
    "netdev_pattern": "ens{rail}",
}
UNSET = object()


def changed(base, **changes):
    """Copy a fabric with `a__0__b=value` set at a, 0, b; UNSET removes the key."""
    fabric = copy.deepcopy(base)
    for path, value in changes.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("__")]
        target = fabric
        for step in steps:
            target = target[step]
        if value is UNSET:
            del target[last]
        else:
            target[last] = value
    return fabric


def node(name, fabric, **keys):
    known = {"node_index": None, "scalable_unit": None, "rail_overrides": None, "ansible_host": name, **keys}
    return Node(name=name, fabric=fabric, groups=("all", "gpu_nodes"), **known)


def problems_of(nodes, policy=None):
    found = Inventory("test", [], nodes, frozenset(one.name for one in nodes), policy)
    return load.validate(found)


def pair(fabric, first=None, second=None):
    return [node("gpu1", fabric, **(first or {})), node("gpu2", fabric, **(second or {}))]


UNITS = changed(SOUND, rails__0__subnet=UNSET)

# fault: (nodes, variable, host, rail, part of the message)
# fmt: off
FAULTS = {
    # keys, types, ranges
    "fabric_missing": (pair(None), "fabric", "gpu[1-2]", None, "not defined"),
    "fabric_no_mapping": (pair(["rail0"]), "fabric", None, None, "not a mapping"),
    "fabric_is_an_expression": (pair("{{ other }}"), "fabric", None, None, "Jinja"),
    "unknown_key": (pair(changed(SOUND, transprt="roce")), "fabric.transprt", None, None, "unknown key"),
    "unknown_rail_key": (
        pair(changed(SOUND, rails__1__speed=40)),
        "fabric.rails[1].speed", None, "rail1", "unknown",
    ),
    "unknown_frontend_key": (
        pair(changed(SOUND, frontend__mtu=1500)),
        "fabric.frontend.mtu", None, None, "unknown",
    ),
    "transport_missing": (pair(changed(SOUND, transport=UNSET)), "fabric.transport", None, None, "not set"),
    "transport_unknown": (pair(changed(SOUND, transport="iwarp")), "fabric.transport", None, None, "none of"),
    "node_class_unknown": (pair(changed(SOUND, node_class="vm")), "fabric.node_class", None, None, "none of"),
    "cabling_unknown": (pair(changed(SOUND, cabling="ring")), "fabric.cabling", None, None, "none of"),
    "jinja_in_a_value": (
        pair(changed(SOUND, rails__0__netdev="{{ nic }}")), "fabric.rails[0].netdev", None, "rail0", "Jinja",
    ),
    "encrypted_value": (
        pair(changed(SOUND, rails__0__netdev=Vaulted())),
        "fabric.rails[0].netdev", None, "rail0", "encrypted",
    ),
    "mtu_missing": (pair(changed(SOUND, mtu=UNSET)), "fabric.mtu", None, None, "not set"),
    "mtu_text": (pair(changed(SOUND, mtu="9000")), "fabric.mtu", None, None, "no whole number"),
    "mtu_boolean": (pair(changed(SOUND, mtu=True)), "fabric.mtu", None, None, "no whole number"),
    "mtu_too_large_for_ethernet": (pair(changed(SOUND, mtu=9979)), "fabric.mtu", None, None, "Ethernet"),
    "mtu_too_small": (pair(changed(SOUND, mtu=575)), "fabric.mtu", None, None, "576"),
    "mtu_too_small_for_ipv6": (
        pair(changed(SOUND, mtu=1279, rails__0__subnet6="fd00:1::/64")), "fabric.mtu", None, None, "IPv6",
    ),
    "mtu_too_large_for_infiniband": (
        pair(changed(SOUND, transport="infiniband", mtu=65521)), "fabric.mtu", None, None, "65520",
    ),
    "rails_missing": (pair(changed(SOUND, rails=UNSET)), "fabric.rails", None, None, "no rail"),
    "rails_empty": (pair(changed(SOUND, rails=[])), "fabric.rails", None, None, "empty"),
    "rails_no_list": (pair(changed(SOUND, rails={"rail0": {}})), "fabric.rails", None, None, "not a list"),
    "rail_no_mapping": (
        pair(changed(SOUND, rails__1="ens7")),
        "fabric.rails[1]", None, None, "not a mapping",
    ),
    "rail_without_name": (
        pair(changed(SOUND, rails__1__name=UNSET)),
        "fabric.rails[1].name", None, None, "not set",
    ),
    "rail_name_twice": (
        pair(changed(SOUND, rails__1__name="rail0")), "fabric.rails[1].name", None, "rail0", "also the name",
    ),
    "rail_without_subnet": (
        pair(changed(SOUND, rails__1__subnet=UNSET)), "fabric.rails[1].subnet", None, "rail1", "no subnet",
    ),
    "rail_without_interface": (
        pair(changed(SOUND, rails__1__netdev=UNSET, rails__1__hca=UNSET)),
        "fabric.rails[1].netdev", None, "rail1", "which interface",
    ),
    "subnet_and_subnets": (
        pair(changed(SOUND, rails__1__subnets={"su1": "10.2.0.0/24"})),
        "fabric.rails[1].subnets", None, "rail1", "both set",
    ),
    "hca_without_port": (
        pair(changed(SOUND, rails__0__hca="mlx5_0")),
        "fabric.rails[0].hca", None, "rail0", "port",
    ),
    "hca_port_0": (
        pair(changed(SOUND, rails__0__hca="mlx5_0:0")),
        "fabric.rails[0].hca", None, "rail0", "port",
    ),
    "netdev_too_long": (
        pair(changed(SOUND, rails__0__netdev="enp193s0f0np0v12")),
        "fabric.rails[0].netdev", None, "rail0", "16",
    ),
    "netdev_with_slash": (
        pair(changed(SOUND, rails__0__netdev="en/s6")),
        "fabric.rails[0].netdev", None, "rail0", "interface name",
    ),
    "mac_bad": (pair(changed(SOUND, rails__0__mac="02:00:00")), "fabric.rails[0].mac", None, "rail0", "MAC"),
    "mac_without_quotes": (
        pair(changed(SOUND, rails__0__mac=8012345)), "fabric.rails[0].mac", None, "rail0", "quotes",
    ),
    "mac_multicast": (
        pair(changed(SOUND, rails__0__mac="01:00:5e:00:00:01")),
        "fabric.rails[0].mac", None, "rail0", "multicast",
    ),
    "pci_bad": (pair(changed(SOUND, rails__0__pci="3b:00.0")), "fabric.rails[0].pci", None, "rail0", "PCI"),
    "vlan_0": (
        pair(changed(SOUND, rails__0__vlan=0)),
        "fabric.rails[0].vlan", None, "rail0", "between 1 and 4094",
    ),
    "vlan_4095": (pair(changed(SOUND, rails__0__vlan=4095)), "fabric.rails[0].vlan", None, "rail0", "4094"),
    "rate_zero": (
        pair(changed(SOUND, rails__0__rate_gbps=0)),
        "fabric.rails[0].rate_gbps", None, "rail0", "above 0",
    ),
    "rate_text": (
        pair(changed(SOUND, rails__0__rate_gbps="40G")),
        "fabric.rails[0].rate_gbps", None, "rail0", "above 0",
    ),
    "host_offset_text": (
        pair(changed(SOUND, host_offset="10")),
        "fabric.host_offset", None, None, "whole number",
    ),
    "frontend_without_netdev": (
        pair(changed(SOUND, frontend={})),
        "fabric.frontend.netdev", None, None, "not set",
    ),
    "frontend_dhcp_and_address": (
        pair(changed(SOUND, frontend__dhcp4=True, frontend__address="192.168.1.9/24"))[:1],
        "fabric.frontend.address", None, None, "dhcp4",
    ),
    "frontend_managed_without_address": (
        pair(changed(SOUND, frontend__manage=True)), "fabric.frontend.manage", None, None, "neither",
    ),
    "frontend_gateway_outside": (
        pair(changed(SOUND, frontend__address="192.168.1.9/24", frontend__gateway="192.168.2.1"))[:1],
        "fabric.frontend.gateway", None, None, "outside",
    ),
    "frontend_address_of_two_nodes": (
        pair(changed(SOUND, frontend__address="192.168.1.9/24")),
        "fabric.frontend.address", None, None, "2 nodes",
    ),
    "network_without_name": (
        pair(changed(SOUND, networks=[{"purpose": "storage"}])),
        "fabric.networks[0].name", None, None, "not set",
    ),
    # the computed form
    "both_forms": (pair(changed(SOUND, rail_count=2)), "fabric.rail_count", None, None, "computed form"),
    "rate_beside_listed_rails": (
        pair(changed(SOUND, rate_gbps=40)),
        "fabric.rate_gbps", None, None, "computed",
    ),
    "supernet_missing": (pair(changed(COMPUTED, supernet=UNSET)), "fabric.supernet", None, None, "not set"),
    "supernet_too_small": (
        pair(changed(COMPUTED, supernet="10.0.0.0/24")), "fabric.supernet", None, None, "too small",
    ),
    "supernet_smaller_than_a_rail": (
        pair(changed(COMPUTED, rail_prefix=12)), "fabric.supernet", None, None, "too small",
    ),
    "rail_prefix_beyond_the_family": (
        pair(changed(COMPUTED, rail_prefix=33)), "fabric.supernet", None, None, "too small",
    ),
    "rail_count_0": (pair(changed(COMPUTED, rail_count=0)), "fabric.rail_count", None, None, "between"),
    "pattern_without_rail": (
        pair(changed(COMPUTED, netdev_pattern="ens6")), "fabric.netdev_pattern", None, None, "{rail}",
    ),
    "hca_pattern_without_port": (
        pair(changed(COMPUTED, hca_pattern="mlx5_{rail}")), "fabric.hca_pattern", None, None, "port",
    ),
    "computed_without_interface": (
        pair(changed(COMPUTED, netdev_pattern=UNSET)), "fabric.netdev_pattern", None, None, "which interface",
    ),
    "gateway_rule_unknown": (
        pair(changed(COMPUTED, gateway="10.0.0.1")),
        "fabric.gateway", None, None, "none of",
    ),
    "gateway_first_is_node_1": (
        pair(changed(COMPUTED, gateway="first")),
        "fabric.gateway", "gpu1", "rail0", "own",
    ),
    # addresses
    "subnet_with_host_bits": (
        pair(changed(SOUND, rails__0__subnet="10.0.1.1/24")),
        "fabric.rails[0].subnet", None, "rail0", "10.0.1.0/24",
    ),
    "subnet_is_ipv6": (
        pair(changed(SOUND, rails__0__subnet="fd00::/64")),
        "fabric.rails[0].subnet", None, "rail0", "subnet6",
    ),
    "subnet6_is_ipv4": (
        pair(changed(SOUND, rails__0__subnet6="10.9.0.0/24")),
        "fabric.rails[0].subnet6", None, "rail0", "under subnet",
    ),
    "subnet_multicast": (
        pair(changed(SOUND, rails__0__subnet="224.0.0.0/24")),
        "fabric.rails[0].subnet", None, "rail0", "multicast",
    ),
    "subnets_equal": (
        pair(changed(SOUND, rails__1__subnet="10.0.1.0/24")),
        "fabric.rails[1].subnet", None, "rail1", "overlaps",
    ),
    "subnets_overlap": (
        pair(changed(SOUND, rails__1__subnet="10.0.0.0/16")),
        "fabric.rails[0].subnet", None, "rail0", "overlaps",
    ),
    "subnets6_overlap": (
        pair(changed(SOUND, rails__0__subnet6="fd00:1::/64", rails__1__subnet6="fd00:1::/80")),
        "fabric.rails[1].subnet6", None, "rail1", "overlaps",
    ),
    "rail_overlaps_storage": (
        pair(changed(SOUND, networks=[{"name": "nfs", "purpose": "storage", "subnet": "10.0.1.128/25"}])),
        "fabric.rails[0].subnet", None, "rail0", "network nfs",
    ),
    "address_outside_subnet": (
        [node("gpu1", SOUND), node("gpu255", SOUND), node("gpu300", SOUND)],
        "fabric.rails[0].subnet", "gpu[255,300]", "rail0", "1 to 254",
    ),
    "network_address": ([node("gpu0", SOUND)], "fabric.rails[0].subnet", "gpu0", "rail0", "1 to 254"),
    "gateway_outside_subnet": (
        pair(changed(SOUND, rails__0__gateway="10.0.9.1")),
        "fabric.rails[0].gateway", "gpu[1-2]", "rail0", "usable",
    ),
    "gateway_is_broadcast": (
        pair(changed(SOUND, rails__0__gateway="10.0.1.255")),
        "fabric.rails[0].gateway", "gpu[1-2]", "rail0", "usable",
    ),
    "gateway_is_a_node": (
        pair(changed(SOUND, rails__0__gateway="10.0.1.2")),
        "fabric.rails[0].gateway", "gpu2", "rail0", "own address",
    ),
    "gateway_no_address": (
        pair(changed(SOUND, rails__0__gateway="router")),
        "fabric.rails[0].gateway", None, "rail0", "no IP address",
    ),
    "rail_contains_ansible_host": (
        pair(SOUND, {"ansible_host": "10.0.1.200"}), "ansible_host", "gpu1", "rail0", "inside 10.0.1.0/24",
    ),
    "rail_contains_a_name_that_is_an_address": (
        [node("10.0.0.5", SOUND, node_index=5)], "ansible_host", "10.0.0.5", "rail1", "inside",
    ),
    # interfaces
    "rail_is_the_frontend": (
        pair(changed(SOUND, frontend__netdev="ens7")),
        "fabric.rails[1].netdev", None, "rail1", "the frontend",
    ),
    "rail_is_a_network": (
        pair(changed(SOUND, networks=[{"name": "nfs", "purpose": "storage", "netdev": "ens6"}])),
        "fabric.rails[0].netdev", None, "rail0", "network nfs",
    ),
    "netdev_twice": (
        pair(changed(SOUND, rails__1__netdev="ens6")), "fabric.rails[1].netdev", None, "rail1", "rail rail0",
    ),
    "hca_twice": (
        pair(changed(SOUND, rails__1__hca="mlx5_0:1")),
        "fabric.rails[1].hca", None, "rail1", "rail rail0",
    ),
    "override_makes_netdev_twice": (
        pair(SOUND, {"rail_overrides": {"rail1": {"netdev": "ens6"}}}),
        "rail_overrides.rail1.netdev", "gpu1", "rail1", "rail rail0",
    ),
    "override_is_the_frontend": (
        pair(SOUND, {"rail_overrides": {"rail0": {"netdev": "enp5s0"}}}),
        "rail_overrides.rail0.netdev", "gpu1", "rail0", "the frontend",
    ),
    "mac_on_two_nodes": (
        pair(changed(SOUND, rails__0__mac="02:00:00:00:00:0a")),
        "fabric.rails[0].mac", "gpu2", "rail0", "already that of gpu1",
    ),
    # host variables
    "node_index_missing": (
        [node("login", SOUND), node("storage", SOUND)],
        "node_index", "login,storage", None, "ends in no number",
    ),
    "node_index_negative": (pair(SOUND, {"node_index": -1}), "node_index", "gpu1", None, "not between"),
    "node_index_text": (pair(SOUND, {"node_index": "7"}), "node_index", "gpu1", None, "no whole number"),
    "node_index_expression": (pair(SOUND, {"node_index": "{{ n }}"}), "node_index", "gpu1", None, "Jinja"),
    "node_index_twice": (pair(SOUND, {"node_index": 2}), "node_index", "gpu2", None, "also that of gpu1"),
    "number_of_the_name_twice": (
        [node("rack1-gpu1", SOUND), node("rack2-gpu1", SOUND)],
        "node_index", "rack2-gpu1", None, "rack1-gpu1",
    ),
    "scalable_unit_missing": (
        pair(changed(UNITS, rails__0__subnets={"su1": "10.2.0.0/24"}), {"scalable_unit": "su1"}),
        "scalable_unit", "gpu2", "rail0", "names none",
    ),
    "scalable_unit_without_subnet": (
        pair(
            changed(UNITS, rails__0__subnets={"su1": "10.2.0.0/24"}),
            {"scalable_unit": "su1"}, {"scalable_unit": "su2"},
        ),
        "fabric.rails[0].subnets", "gpu2", "rail0", "scalable_unit su2",
    ),
    "scalable_unit_list": (pair(SOUND, {"scalable_unit": ["su1"]}), "scalable_unit", "gpu1", None, "neither"),
    "units_share_a_subnet": (
        pair(
            changed(
                UNITS, rails__0__gateway="none", rails__0__subnets={"a": "10.2.0.0/24", "b": "10.2.0.0/25"}
            ),
            {"scalable_unit": "a"}, {"scalable_unit": "a"},
        ),
        "fabric.rails[0].subnets.b", None, "rail0", "overlaps",
    ),
    "override_of_no_rail": (
        pair(SOUND, {"rail_overrides": {"rail9": {"netdev": "ens9"}}}),
        "rail_overrides.rail9", "gpu1", "rail9", "no such rail",
    ),
    "override_unknown_key": (
        pair(SOUND, {"rail_overrides": {"rail0": {"mtu": 1500}}}),
        "rail_overrides.rail0.mtu", "gpu1", "rail0", "unknown key",
    ),
    "override_no_mapping": (
        pair(SOUND, {"rail_overrides": {"rail0": "ens9"}}),
        "rail_overrides.rail0", "gpu1", "rail0", "not a mapping",
    ),
    "override_address_without_prefix": (
        pair(SOUND, {"rail_overrides": {"rail0": {"address": "10.0.1.9"}}}),
        "rail_overrides.rail0.address", "gpu1", "rail0", "prefix length",
    ),
    "override_address_outside": (
        pair(SOUND, {"rail_overrides": {"rail0": {"address": "10.0.9.9/24"}}}),
        "rail_overrides.rail0.address", "gpu1", "rail0", "10.0.1.0/24",
    ),
    "override_takes_another_nodes_address": (
        pair(SOUND, None, {"rail_overrides": {"rail0": {"address": "10.0.1.1/24"}}}),
        "rail_overrides.rail0.address", "gpu2", "rail0", "already that of gpu1",
    ),
    # how many nodes
    "back_to_back_with_three": (
        [node(f"gpu{n}", fabric) for fabric in [changed(SOUND, cabling="back_to_back")] for n in (1, 2, 3)],
        "fabric.cabling", None, None, "there are 3",
    ),
}
# fmt: on
