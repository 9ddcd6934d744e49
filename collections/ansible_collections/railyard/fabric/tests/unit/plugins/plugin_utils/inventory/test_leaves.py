# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""`fabric.leaves`: what may be declared of a leaf, and of which."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import schema_checks

RAILS = [
    {"name": "rail0", "netdev": "ens6", "subnet": "10.0.0.0/24", "leaf": "leaf1"},
    {
        "name": "rail1",
        "netdev": "ens7",
        "subnets": {"su1": "10.0.1.0/24", "su2": "10.0.2.0/24"},
        "leaves": {"su1": "leaf2", "su2": "leaf3"},
    },
]


def findings(leaves):
    fabric = {"transport": "roce", "mtu": 9000, "rails": RAILS, "leaves": leaves}
    return [(finding.variable, finding.message) for finding in schema_checks.check_fabric(fabric)]


@pytest.mark.parametrize(
    "leaves",
    [None, {"leaf1": {"uplink_gbps": 6400}}, {"leaf2": {}, "leaf3": {"uplink_gbps": 0.5}}],
)
def test_what_rails_are_patched_to_may_be_described(leaves):
    assert findings(leaves) == []


@pytest.mark.parametrize(
    ("leaves", "variable", "message"),
    [
        ([], "fabric.leaves", "not a mapping"),
        ({}, "fabric.leaves", "not a mapping"),
        ({"leaf4": {"uplink_gbps": 1}}, "fabric.leaves.leaf4", "no rail is patched"),
        ({1: {"uplink_gbps": 1}}, "fabric.leaves.1", "no rail is patched"),
        ({"leaf1": 6400}, "fabric.leaves.leaf1", "not a mapping"),
        ({"leaf1": {"uplinks": 16}}, "fabric.leaves.leaf1.uplinks", "unknown key"),
        ({"leaf1": {"uplink_gbps": 0}}, "fabric.leaves.leaf1.uplink_gbps", "not a number above 0"),
        ({"leaf1": {"uplink_gbps": "{{ x }}"}}, "fabric.leaves.leaf1.uplink_gbps", "Jinja"),
    ],
)
def test_anything_else_is_a_finding(leaves, variable, message):
    [(found, said)] = findings(leaves)
    assert found == variable
    assert message in said
