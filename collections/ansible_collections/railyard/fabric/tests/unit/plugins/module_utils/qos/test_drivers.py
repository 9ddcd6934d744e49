# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A port's driver decides which tools set its QoS; one without a known way is refused first of all.

Ways: torvalds/linux bnxt_dcb.c (PFC without ETS answers EINVAL), Broadcom's bnxt_setupcc.sh; Intel's README
of irdma (firmware agent, ETS, X722 without PFC); AMD's guides of the Pollara 400 (nicctl update qos).
"""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import nic_drivers
from ansible_collections.railyard.fabric.plugins.module_utils.qos import tools
from ansible_collections.railyard.fabric.plugins.module_utils.qos.settings import QosError
from support.nodes.qos_node import QosNode

ALL_TOOLS = ("mlnx_qos", "dcb", "ethtool")
WAYS_OUT = {
    "bnxt_en": "bnxt_setupcc.sh -i ens1 ",
    "ice": "ethtool --set-priv-flags ens1 fw-lldp-agent off",
    "i40e": "README of irdma",
    "ionic": "nicctl update qos",
    "mana": "there is nothing to set",
    "qede": "the vendor's tool",
    "nfp": "docs/drivers.md",
}


@pytest.mark.parametrize("driver", WAYS_OUT)
def test_a_driver_without_a_known_way_is_refused_before_anything_is_changed(tmp_path, driver):
    node = QosNode(tmp_path, ALL_TOOLS, driver).vendor()
    with pytest.raises(QosError) as caught:
        node.hold()
    first, second = str(caught.value).split("; ")
    assert first.startswith("rail0 (ens1): ")
    assert second.startswith("rail1 (ens2): ")
    for sentence in (first, second):
        assert re.search(rf"\bdriver {driver}\b", sentence)
        assert "roce_qos_enabled: false" in sentence
    assert WAYS_OUT[driver] in first
    assert node.calls() == []
    assert not (tmp_path / "var").exists()


def test_one_port_of_such_a_driver_keeps_all_ports_as_they_are(tmp_path):
    node = QosNode(tmp_path, ALL_TOOLS).vendor()
    driver = tmp_path / "sys/class/net/ens2/device/driver"
    driver.unlink()
    driver.symlink_to(tmp_path / "sys/bus/pci/drivers/ice")
    with pytest.raises(QosError, match=r"^rail1 \(ens2\): .*driver ice"):
        node.hold()
    assert node.calls() == []


def test_every_way_of_the_table_exists_and_every_other_driver_has_a_way_out():
    known = {tool.name for tool in tools.TOOLS} | {nic_drivers.MLX4_OPTIONS}
    for row in nic_drivers.DRIVERS:
        assert set(row.qos) <= known
        assert bool(row.qos) != bool(row.qos_otherwise)
