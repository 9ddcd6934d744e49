# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Fabrics to begin with, and the wrong ones: what each fault is made of and what must be reported."""

from __future__ import annotations

import copy
import re

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
    found = Inventory("test", [], nodes, frozenset(one.name for one in nodes), policy=policy)
    return load.validate(found)


def pair(fabric, first=None, second=None):
    return [node("gpu1", fabric, **(first or {})), node("gpu2", fabric, **(second or {}))]


def spoilt(variable, part, base=SOUND, **changes):
    """Return the case of one change; what is wrong in the entry of a rail is reported for that rail."""
    entry = re.search(r"rails\[(\d)\]", variable)
    return pair(changed(base, **changes)), variable, None, f"rail{entry[1]}" if entry else None, part


def miscomputed(variable, part, **changes):
    return spoilt(variable, part, COMPUTED, **changes)


def overridden(rail, key, value, part):
    nodes = pair(SOUND, {"rail_overrides": {rail: {key: value}}})
    return nodes, f"rail_overrides.{rail}.{key}", "gpu1", rail, part


UNITS = changed(SOUND, rails__0__subnet=UNSET)

# fault: (nodes, variable, host, rail, part of the message)
# fmt: off
FAULTS = {
    # keys, types, ranges
    "fabric_is_an_expression": (pair("{{ other }}"), "fabric", None, None, "Jinja"),
    "unknown_frontend_key": spoilt("fabric.frontend.mtu", "unknown", frontend__mtu=1500),
    "transport_missing": spoilt("fabric.transport", "not set", transport=UNSET),
    "encrypted_value": spoilt("fabric.rails[0].netdev", "encrypted", rails__0__netdev=Vaulted()),
    "mtu_too_small": spoilt("fabric.mtu", "576", mtu=575),
    "mtu_too_small_for_ipv6": spoilt("fabric.mtu", "IPv6", mtu=1279, rails__0__subnet6="fd00:1::/64"),
    "rails_missing": spoilt("fabric.rails", "neither rails nor rail_count", rails=UNSET),
    "rails_empty": spoilt("fabric.rails", "empty", rails=[]),
    "rails_no_list": spoilt("fabric.rails", "not a list", rails={"rail0": {}}),
    "rail_without_name": (
        pair(changed(SOUND, rails__1__name=UNSET)),
        "fabric.rails[1].name", None, None, "not set",
    ),
    "rail_name_twice": (
        pair(changed(SOUND, rails__1__name="rail0")), "fabric.rails[1].name", None, "rail0", "also the name",
    ),
    "rail_without_interface": spoilt(
        "fabric.rails[1].netdev", "interface", rails__1__netdev=UNSET, rails__1__hca=UNSET
    ),
    "subnet_and_subnets": spoilt(
        "fabric.rails[1].subnets", "both set", rails__1__subnets={"su1": "10.2.0.0/24"}
    ),
    "hca_port_0": spoilt("fabric.rails[0].hca", "port", rails__0__hca="mlx5_0:0"),
    "mac_multicast": spoilt("fabric.rails[0].mac", "multicast", rails__0__mac="01:00:5e:00:00:01"),
    "vlan_0": spoilt("fabric.rails[0].vlan", "between 1 and 4094", rails__0__vlan=0),
    "vlan_4095": spoilt("fabric.rails[0].vlan", "4094", rails__0__vlan=4095),
    "rate_zero": spoilt("fabric.rails[0].rate_gbps", "above 0", rails__0__rate_gbps=0),
    "host_offset_text": spoilt("fabric.host_offset", "whole number", host_offset="10"),
    "frontend_without_netdev": spoilt("fabric.frontend.netdev", "not set", frontend={}),
    "frontend_dhcp_and_address": (
        pair(changed(SOUND, frontend__dhcp4=True, frontend__address="192.168.1.9/24"))[:1],
        "fabric.frontend.address", None, None, "dhcp4",
    ),
    "frontend_managed_without_address": spoilt("fabric.frontend.manage", "neither", frontend__manage=True),
    "frontend_gateway_outside": (
        pair(changed(SOUND, frontend__address="192.168.1.9/24", frontend__gateway="192.168.2.1"))[:1],
        "fabric.frontend.gateway", None, None, "outside",
    ),
    "frontend_address_of_two_nodes": spoilt(
        "fabric.frontend.address", "2 nodes", frontend__address="192.168.1.9/24"
    ),
    "network_without_name": spoilt("fabric.networks[0].name", "not set", networks=[{"purpose": "storage"}]),
    # the computed form
    "rate_beside_listed_rails": spoilt("fabric.rate_gbps", "computed", rate_gbps=40),
    "supernet_missing": miscomputed("fabric.supernet", "not set", supernet=UNSET),
    "supernet_smaller_than_a_rail": miscomputed("fabric.supernet", "too small", rail_prefix=12),
    "rail_prefix_beyond_the_family": miscomputed("fabric.supernet", "too small", rail_prefix=33),
    "rail_count_0": miscomputed("fabric.rail_count", "between", rail_count=0),
    "pattern_without_rail": miscomputed("fabric.netdev_pattern", "{rail}", netdev_pattern="ens6"),
    "hca_pattern_without_port": miscomputed("fabric.hca_pattern", "port", hca_pattern="mlx5_{rail}"),
    "computed_without_interface": miscomputed(
        "fabric.netdev_pattern", "interface", netdev_pattern=UNSET
    ),
    "gateway_rule_unknown": miscomputed("fabric.gateway", "none of", gateway="10.0.0.1"),
    "gateway_first_is_node_1": (
        pair(changed(COMPUTED, gateway="first")),
        "fabric.gateway", "gpu1", "rail0", "own",
    ),
    # addresses
    "subnet_is_ipv6": spoilt("fabric.rails[0].subnet", "subnet6", rails__0__subnet="fd00::/64"),
    "subnets6_overlap": spoilt(
        "fabric.rails[1].subnet6", "overlaps",
        rails__0__subnet6="fd00:1::/64", rails__1__subnet6="fd00:1::/80"
    ),
    "network_address": ([node("gpu0", SOUND)], "fabric.rails[0].subnet", "gpu0", "rail0", "1 to 254"),
    "gateway_is_broadcast": (
        pair(changed(SOUND, rails__0__gateway="10.0.1.255")),
        "fabric.rails[0].gateway", "gpu[1-2]", "rail0", "usable",
    ),
    "gateway_no_address": spoilt("fabric.rails[0].gateway", "not an IP address", rails__0__gateway="router"),
    "rail_contains_a_name_that_is_an_address": (
        [node("10.0.0.5", SOUND, node_index=5)], "ansible_host", "10.0.0.5", "rail1", "inside",
    ),
    # interfaces
    "hca_twice": spoilt("fabric.rails[1].hca", "rail rail0", rails__1__hca="mlx5_0:1"),
    "override_is_the_frontend": overridden("rail0", "netdev", "enp5s0", "the frontend"),
    # host variables
    "node_index_negative": (pair(SOUND, {"node_index": -1}), "node_index", "gpu1", None, "not between"),
    "node_index_expression": (pair(SOUND, {"node_index": "{{ n }}"}), "node_index", "gpu1", None, "Jinja"),
    "node_index_twice": (pair(SOUND, {"node_index": 2}), "node_index", "gpu2", None, "also that of gpu1"),
    "scalable_unit_missing": (
        pair(changed(UNITS, rails__0__subnets={"su1": "10.2.0.0/24"}), {"scalable_unit": "su1"}),
        "scalable_unit", "gpu2", "rail0", "names none",
    ),
    "override_unknown_key": overridden("rail0", "mtu", 1500, "unknown key"),
    "override_netdev_none": overridden("rail0", "netdev", "none", "reserved word"),
    "override_address_without_prefix": overridden("rail0", "address", "10.0.1.9", "prefix length"),
}
# fmt: on
