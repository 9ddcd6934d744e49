# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A site's own settings in role nccl_profile: which are refused, and what is reported about the others."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.filter.nccl import FilterModule

refused = FilterModule().filters()["nccl_refused"]
reasons = FilterModule().filters()["nccl_reasons"]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("NCCL_IB_CUDA_SUPPORT", 1, "since 2.4.0; use NCCL_NET_GDR_LEVEL"),
        ("NCCL_IB_GDR_LEVEL", "SYS", "since 2.4.0; use NCCL_NET_GDR_LEVEL"),
        ("NCCL_SINGLE_RING_THRESHOLD", 1, "since 2.3; use NCCL_ALGO"),
        ("NCCL_TREE_THRESHOLD", 0, "since 2.5; use NCCL_ALGO"),
        ("NCCL_LL_THRESHOLD", 0, "since 2.5; use NCCL_PROTO"),
        ("NCCL_IB_HCA", "mlx5_1", "set nccl_profile_rails"),
        ("NCCL_SOCKET_IFNAME", "eth0", "set nccl_profile_socket_netdev"),
        ("NCCL_NET", "IB", "set nccl_profile_net"),
        ("NCCL_IB_DISABLE", 1, "fabric.transport"),
        ("NCCL_NET_GDR_LEVEL", 5, "5 means SYS, across sockets"),
        ("NCCL_CROSS_NIC", True, "not true and false"),
        ("NCCL_TOPO_FILE", "'/etc/topo.xml'", "without blanks, quotes"),
        ("NCCL_IB_ADDR_RANGE", "10.0.0.0/8 # rails", "without blanks"),
        ("NCCL_DEBUG_FILE", "/tmp/$USER", "or $"),
        ("nccl_debug", "WARN", "write a name NCCL_"),
        ("NCCL_IB_TC", [106], "a number or a text"),
        ("NCCL_DEUBG", "WARN", "did you mean NCCL_DEBUG?"),
        ("NCCL_IB_TC", 256, "256 is not -1 to 255"),
    ],
)
def test_refused(name, value, says):
    assert [says in one for one in refused({"NCCL_DEBUG": "WARN", name: value})] == [True]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"NCCL_IB_TC": 106, "NCCL_CROSS_NIC": "0"},
        {"NCCL_NET_GDR_LEVEL": "PXB"},
        {"NCCL_FASTRAK_IFNAME": "eth1"},
        {"NCCL_PLUGIN_OF_OURS": "x"},
    ],
)
def test_accepted(settings):
    assert refused(settings) == []


def test_reasons():
    told = reasons({"NCCL_IB_HCA": "x", "NCCL_PLUGIN_OF_OURS": 1})
    # No = in it: NCCL before 2.26 knows no comments, and would set the variable that it names.
    assert told["NCCL_PLUGIN_OF_OURS"] == ""
    assert "RDMA ports" in told["NCCL_IB_HCA"]
    assert "=" not in told["NCCL_IB_HCA"]
