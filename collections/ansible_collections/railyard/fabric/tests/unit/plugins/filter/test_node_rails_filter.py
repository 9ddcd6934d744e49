# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The filter: the same rails as the plan, and errors that name the host."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.filter.rails import FilterModule
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan

FABRIC = {
    "transport": "tcp",
    "mtu": 9000,
    "rails": [{"name": "rail0", "netdev": "ens6", "subnet": "10.0.1.0/24"}],
}
node_rails = FilterModule().filters()["node_rails"]


def test_it_is_the_rule_itself():
    overrides = {"rail0": {"netdev": "ens7"}}
    expected = plan.plan_node(FABRIC, "gpu3", 8, None, overrides)
    assert node_rails(FABRIC, "gpu3", 8, None, overrides) == expected
    assert expected[0]["address"] == "10.0.1.8/24"


@pytest.mark.parametrize("fabric", [None, "{{ fabric }}", []])
def test_no_mapping_is_refused(fabric):
    with pytest.raises(AnsibleFilterError, match="not a dictionary"):
        node_rails(fabric, "gpu3")


def test_an_error_names_host_and_variable():
    with pytest.raises(AnsibleFilterError, match=r"host login: node_index"):
        node_rails(FABRIC, "login")


def test_other_networks_are_planned_alike():
    node_networks = FilterModule().filters()["node_networks"]
    storage = {"name": "storage", "netdev": "ens8", "subnet": "10.9.0.0/24", "manage": True}
    fabric = {**FABRIC, "networks": [storage], "host_offset": 20}
    assert node_networks(fabric, "gpu3")[0]["address"] == "10.9.0.23/24"
    with pytest.raises(AnsibleFilterError, match=r"host login: node_index"):
        node_networks(fabric, "login")
    with pytest.raises(AnsibleFilterError, match="not a dictionary"):
        node_networks([], "gpu3")
