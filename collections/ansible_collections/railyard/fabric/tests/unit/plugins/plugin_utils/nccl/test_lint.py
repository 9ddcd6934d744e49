# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is reported about settings of NCCL, by themselves and on the rails of an inventory."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import catalogue, env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.fabric import Node, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint


def list_findings(text, nodes=(), nccl=catalogue.NEWEST, name="x.env"):
    """Return (line, severity, code) of each finding."""
    return [(one.line, one.severity, one.code) for one in lint(env_file.read(text, name), nodes, nccl)]


def node(transport="roce", count=8, name="gpu1", frontend="eno1", address=True):
    rails = tuple((f"rail{n}", f"mlx5_{n}:1", f"ens{n}", address) for n in range(count))
    return Node(name, transport, rails, frontend)


# The course's settings, and what is known to be wrong with them.
COURSE = """
export NCCL_IB_DISABLE=0                    # Enable InfiniBand
export NCCL_IB_HCA=mlx5_0                  # InfiniBand adapter
export NCCL_IB_GID_INDEX=3                 # RoCE GID index
export NCCL_IB_CUDA_SUPPORT=1              # GPU Direct RDMA
export NCCL_NET_GDR_LEVEL=5                # GPU Direct level
export NCCL_IB_QPS_PER_CONNECTION=4        # Queue pairs per connection
export NCCL_IB_TC=106                      # Traffic class
export NCCL_IB_TIMEOUT=22                  # Timeout value
export NCCL_DEBUG=INFO                     # Debug information
"""


def test_the_courses_settings_are_judged_as_they_deserve():
    findings = lint(env_file.read(COURSE, "x.sh"), [node("infiniband")])
    assert [(one.variable, one.severity, one.code) for one in findings] == [
        ("NCCL_IB_DISABLE", "note", "default"),
        ("NCCL_IB_HCA", "error", "rails_missed"),  # one of eight rails
        ("NCCL_IB_HCA", "note", "prefix"),
        ("NCCL_IB_GID_INDEX", "warning", "gid_index"),  # RoCE's alone
        ("NCCL_IB_CUDA_SUPPORT", "error", "obsolete"),
        ("NCCL_NET_GDR_LEVEL", "warning", "gdr_far"),
        ("NCCL_NET_GDR_LEVEL", "warning", "old_level"),
        ("NCCL_IB_QPS_PER_CONNECTION", "note", "queue_pairs"),
        ("NCCL_IB_TC", "note", "not_here"),
        ("NCCL_IB_TIMEOUT", "note", "timeout"),
        ("NCCL_DEBUG", "warning", "debug"),
    ]
    why = {one.code: one.why for one in findings}
    assert "leaves out 7 of the rails of gpu1: rail1 (mlx5_1:1)" in why["rails_missed"]
    assert "since 2.4.0" in why["obsolete"]
    assert "5 means SYS" in why["old_level"]
    assert "about 120 s" in why["timeout"]  # 4.096 us x 2^22 x 7
    assert "by default after 30" in why["timeout"]


def test_the_courses_multi_rail_settings():
    text = "NCCL_IB_HCA=mlx5_0,mlx5_1,mlx5_2,mlx5_3\nNCCL_IB_SPLIT_DATA_ON_QPS=1\nNCCL_MAX_NCHANNELS=8\n"
    findings = lint(env_file.read(text, "x.env"))
    assert [(one.line, one.code) for one in findings] == [
        (1, "prefix"),
        (2, "no_effect"),  # with one queue pair there is nothing to split over
        (3, "cap"),  # not "more channels"
        (3, "deprecated"),
    ]
    assert "mlx5_1 takes mlx5_10 to mlx5_19 too" in findings[0].why
    assert findings[3].fix == "use NCCL_MAX_CTAS"


def test_the_notes_setting_is_but_a_prefix():
    assert list_findings("NCCL_IB_HCA=mlx4_0:1,mlx4_0:2") == [(1, "note", "prefix")]


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        ("NCCL_DEBUG=WARN", []),
        ("NCCL_IB_HCA==mlx5_1:1", []),
        ("NCCL_IB_HCA=", []),
        ("HOME=/root", []),
        ("UCX_RNDV_THRESH=8192", []),  # none of those that the catalogue knows
        ("NCCL_FASTRAK_IFNAME=x", []),
        ("OFI_NCCL_PROTOCOL=RDMA", []),
        ("FI_EFA_USE_DEVICE_RDMA=1", [("warning", "left_over")]),
        # Nothing is like it, so that it may be a newer release's.
        ("NCCL_FOO=1", [("unknown", "unknown")]),
        ("NCCL_IB_DISABL=1", [("error", "unknown")]),
        ("RCCL_MSCCL_ENABLE=1", []),
        ("nccl_debug=WARN", [("error", "unknown")]),
        ("NCCL_ASYNC_ERROR_HANDLING=1", [("warning", "renamed")]),
        ("NCCL_IB_DISABLE=true", [("error", "value")]),
        ("NCCL_DEBUG=TRACE", [("warning", "debug")]),
        ("NCCL_TOPO_DUMP_FILE=/tmp/x", [("warning", "debug")]),
        ("NCCL_ALGO=Ring", [("warning", "debugging")]),
        ("NCCL_IB_PKEY=1", []),
        ("NCCL_IB_TC_X=1", [("unknown", "unknown")]),
        ("NCCL_IB_SORT_MERGE_NICS=1", [("note", "internal")]),
        ("NCCL_IB_HCA=mlx5", [("note", "prefix")]),
        ("NCCL_IB_HCA=^mlx5_1", [("warning", "prefix")]),
        ("NCCL_IB_HCA=^=mlx5_1", []),
        ("NCCL_IB_HCA==^mlx5_1", [("error", "value")]),
        ("NCCL_SOCKET_IFNAME=eth0", [("note", "prefix")]),
        ("NCCL_SOCKET_IFNAME=^lo,docker", []),
        ("NCCL_SOCKET_IFNAME==eth0", []),
        ("NCCL_IB_GID_INDEX=-1", [("note", "default")]),
        ("NCCL_IB_GID_INDEX=3", [("note", "gid_index")]),
        ("NCCL_IB_QPS_PER_CONNECTION=2", [("note", "queue_pairs")]),
        ("NCCL_IB_QPS_PER_CONNECTION=1", [("note", "default")]),
        ("NCCL_IB_DISABLE=1", [("warning", "no_rdma")]),
        ("NCCL_NET=Socket", [("warning", "no_rdma")]),
        ("NCCL_NET=IB", []),
        ("NCCL_NET=AWS", [("note", "plugin")]),
        ("NCCL_P2P_DISABLE=1", [("error", "no_p2p")]),
        ("NCCL_P2P_LEVEL=LOC", [("error", "no_p2p")]),
        ("NCCL_NET_GDR_LEVEL=LOC", [("error", "gdr_off")]),
        ("NCCL_NET_GDR_LEVEL=1", [("warning", "old_level")]),
        ("NCCL_IB_TIMEOUT=0", [("error", "hangs")]),
        ("NCCL_IB_TIMEOUT=20", [("note", "default")]),
        ("NCCL_DEBUG INFO", [("error", "form")]),
    ],
)
def test_one_setting(text, findings):
    assert [one[1:] for one in list_findings(text)] == findings


@pytest.mark.parametrize(
    ("nccl", "text", "findings"),
    [
        ("2.20.5", "NCCL_IB_ROCE_VERSION_NUM=1", [("error", "too_new")]),
        ("2.21.5", "NCCL_IB_ROCE_VERSION_NUM=1", []),
        ("2.20.5", "NCCL_IB_GID_INDEX=3", [("note", "gid_index")]),
        ("2.3.7", "NCCL_IB_CUDA_SUPPORT=1", [("warning", "debugging")]),
        ("2.16.5", "NCCL_MAX_NCHANNELS=8", [("warning", "cap")]),
    ],
)
def test_the_version_that_reads_them(nccl, text, findings):
    assert [one[1:] for one in list_findings(text, nccl=nccl)] == findings


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("NCCL_NET=IB\nNCCL_IB_DISABLE=1", (2, "error", "contradiction")),
        ("NCCL_NET=Socket\nNCCL_IB_TC=106", (2, "error", "contradiction")),
        ("NCCL_IB_GID_INDEX=3\nNCCL_IB_ROCE_VERSION_NUM=1", (2, "error", "contradiction")),
        ("NCCL_MIN_CTAS=8\nNCCL_MAX_CTAS=4", (1, "error", "contradiction")),
        ("NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=5", (1, "error", "contradiction")),
        ("NCCL_COLLNET_ENABLE=1\nNCCL_NET_PLUGIN=none", (1, "error", "contradiction")),
        ("NCCL_NET=FasTrak\nNCCL_NET_PLUGIN=none", (1, "error", "contradiction")),
        ("NCCL_NET=Socket\nNCCL_FASTRAK_IFNAME=eth1", (2, "error", "contradiction")),
        ("OFI_NCCL_PROTOCOL=RDMA\nNCCL_NET_PLUGIN=none", (1, "error", "contradiction")),
        ("NCCL_DEBUG=WARN\nNCCL_DEBUG_SUBSYS=NET", (2, "warning", "no_effect")),
        ("NCCL_OOB_NET_IFNAME==mlx5_0", (1, "warning", "no_effect")),
        ("NCCL_DEBUG=WARN\nNCCL_DEBUG=VERSION", (2, "error", "twice")),
    ],
)
def test_settings_that_do_not_go_together(text, code):
    assert code in list_findings(text)


@pytest.mark.parametrize(
    "text",
    [
        "NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=4",
        "NCCL_IB_SPLIT_DATA_ON_QPS=1\nNCCL_IB_QPS_PER_CONNECTION=4",
        "NCCL_IB_GID_INDEX=-1\nNCCL_IB_ROCE_VERSION_NUM=1",
        "NCCL_DEBUG=INFO\nNCCL_DEBUG_SUBSYS=NET",
        "NCCL_NET=Libfabric\nNCCL_NET_PLUGIN=ofi\nOFI_NCCL_PROTOCOL=RDMA",
        "NCCL_DEBUG=WARN\nNCCL_DEBUG=WARN",
    ],
)
def test_settings_that_do(text):
    assert not {"contradiction", "no_effect", "twice"} & {
        code for _line, _severity, code in list_findings(text)
    }


@pytest.mark.parametrize(("name", "severity"), [("nccl.conf", "error"), ("x.env", "warning")])
def test_quotes_are_wrong_where_nccl_reads_and_doubtful_where_systemd_may(name, severity):
    assert list_findings("NCCL_DEBUG='WARN'", name=name) == [(1, severity, "form")]


def test_a_script_may_set_a_variable_in_either_branch():
    assert (
        list_findings("if x; then export NCCL_DEBUG=WARN; else export NCCL_DEBUG=VERSION; fi", name="x.sh")
        == []
    )


def test_what_a_script_keeps_to_itself():
    script = "nccl_version=2.28\nNCCL_TESTS_DIR=/x\nNCCL_HOME=/y\nNCCL_DEBUG=WARN\n"
    assert list_findings(script, name="x.sh") == [(4, "warning", "not_exported")]
    # Nor does it contradict what is exported.
    apart = list_findings("NCCL_NET=IB\nexport NCCL_IB_DISABLE=1\n", name="x.sh")
    assert apart == [(1, "warning", "not_exported"), (2, "warning", "no_rdma")]


def test_a_value_that_the_script_makes_is_not_known():
    assert list_findings("export NCCL_IB_HCA=$(ls)", name="x.sh") == [(1, "unknown", "not_told")]


def test_slurms_list_ends_at_a_comma():
    text = "#SBATCH --export=ALL,NCCL_IB_HCA==mlx5_0,mlx5_1"
    assert list_findings(text) == [(1, "warning", "comma")]
    # Slurm takes quotes inside the list into account.
    text = """srun --export="ALL,NCCL_IB_HCA='=mlx5_0,mlx5_1'" x"""
    assert list_findings(text, name="x.sh") == []


ROCE, IB, TCP = node(), node("infiniband", address=False), node("tcp")
UNNAMED = Node("gpu1", "roce", (("rail0", None, "ens1", True), ("rail1", None, "ens2", True)), None)
EFA = Node("gpu1", "efa", tuple((f"rail{n}", None, None, False) for n in range(8)), "eno1")
ALL = ",".join(f"mlx5_{n}:1" for n in range(8))


@pytest.mark.parametrize(
    ("nodes", "text", "findings"),
    [
        ([ROCE], f"NCCL_IB_HCA=={ALL}", []),
        ([ROCE], "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2,mlx5_3,mlx5_4,mlx5_5,mlx5_6,mlx5_7", []),
        ([ROCE], f"NCCL_IB_HCA=={ALL},mlx5_bond_0:1", [("warning", "no_rail")]),
        ([ROCE], "NCCL_IB_HCA=^=mlx5_8", []),
        ([ROCE], "NCCL_IB_HCA=^=mlx5_7", [("error", "rails_missed")]),
        # Port 2 of a card whose port 1 is the rail.
        ([node(count=1)], "NCCL_IB_HCA==mlx5_0:2", [("error", "rails_missed"), ("warning", "no_rail")]),
        ([TCP], "NCCL_IB_HCA==mlx5_0", []),
        # Of an inventory that names no device the rails are counted; the node alone knows their names.
        ([UNNAMED], "NCCL_IB_HCA==rocep1s0f0:1,rocep1s0f1:1", [("note", "hca_not_told")]),
        ([UNNAMED], "NCCL_IB_HCA==rocep1s0f0:1", [("error", "rails_missed")]),
        ([UNNAMED], "NCCL_IB_HCA==mlx4_0", [("unknown", "hca_not_told")]),  # both ports of one device
        ([UNNAMED], "NCCL_IB_HCA==mlx5_0,mlx5_1,mlx5_2", [("warning", "no_rail")]),
        ([UNNAMED], "NCCL_IB_HCA=^=mlx5_2", [("unknown", "hca_not_told")]),
        ([ROCE], "NCCL_IB_DISABLE=1", [("error", "no_rdma")]),
        ([IB], "NCCL_NET=socket", [("error", "no_rdma")]),
        ([TCP], "NCCL_NET=Socket", []),
        ([ROCE, TCP], "NCCL_NET=Socket", [("error", "no_rdma")]),
        ([ROCE], "NCCL_SOCKET_IFNAME==eno1", []),
        ([ROCE], "NCCL_SOCKET_IFNAME==ens1", [("warning", "socket_on_rail")]),
        ([IB], "NCCL_SOCKET_IFNAME==ens1", [("error", "socket_on_rail")]),
        ([TCP], "NCCL_SOCKET_IFNAME==ens1", []),  # where sockets are the data's way
        ([ROCE], "NCCL_SOCKET_IFNAME=en", [("warning", "socket_on_rail"), ("note", "prefix")]),
        ([ROCE], "NCCL_SOCKET_IFNAME=^lo", [("warning", "socket_on_rail")]),
        ([ROCE], "NCCL_SOCKET_IFNAME==eth0", [("warning", "not_frontend")]),
        ([IB], "NCCL_IB_TC=106", [("note", "not_here")]),
        # As public job scripts for EFA have it, and what NCCL's own network would get.
        ([EFA], "NCCL_NET=Libfabric", [("note", "plugin")]),
        ([EFA], "FI_PROVIDER=efa\nNCCL_NET=socket", [("error", "no_rdma")]),
        ([EFA], "NCCL_NET=IB", [("error", "no_rdma")]),
        ([EFA], "NCCL_IB_HCA==rdmap79s0", [("note", "not_here")]),
        ([EFA], "UCX_NET_DEVICES=eth0", []),
        ([IB], "NCCL_IB_GID_INDEX=3", [("warning", "gid_index")]),
        ([ROCE], "UCX_NET_DEVICES=mlx5_0:1", [("warning", "rails_missed")]),
        ([ROCE], f"UCX_NET_DEVICES={ALL}", []),
        ([ROCE], "UCX_NET_DEVICES=all", []),
    ],
)  # fmt: skip
def test_on_a_fabric(nodes, text, findings):
    assert [one[1:] for one in list_findings(text, nodes)] == findings


def test_nodes_are_taken_from_the_plan():
    rails = [
        {"name": "rail0", "hca": "mlx5_0:1", "netdev": "ens1", "vlan": 42, "address": "10.0.0.1/24"},
        {"name": "rail1", "hca": None, "netdev": None, "vlan": None, "address": None, "address6": None},
    ]
    plan = {"nodes": {"gpu1": {"transport": "roce", "rails": rails, "frontend": {"netdev": None}}}}
    assert nodes_of(plan) == [
        Node("gpu1", "roce", (("rail0", "mlx5_0:1", "ens1.42", True), ("rail1", None, None, False)), None)
    ]


def test_nodes_that_lack_the_same_are_reported_once():
    nodes = [node(count=2, name=f"gpu{n}") for n in (1, 2, 3)] + [node(count=3, name="gpu4")]
    findings = lint(env_file.read("NCCL_IB_HCA==mlx5_0:1", "x.env"), nodes)
    assert [one.why for one in findings] == [
        "it leaves out 1 of the rails of gpu[1-3]: rail1 (mlx5_1:1)",
        "it leaves out 2 of the rails of gpu4: rail1 (mlx5_1:1), rail2 (mlx5_2:1)",
    ]
    assert findings[0].fix == "write NCCL_IB_HCA==mlx5_0:1,mlx5_1:1"


def test_nvlink_between_nodes_is_not_left_out_where_the_inventory_declares_it():
    """A leftover of one-node tests costs a GB200 NVL72 rack its NVLink between trays."""
    rack = [replace(node("infiniband", name=f"gpu{n}"), nvlink_domain="rack1") for n in (1, 2)]
    alone = [replace(node("infiniband"), nvlink_domain="rack1"), node("infiniband", name="gpu2")]
    found = lint(env_file.read("NCCL_MNNVL_ENABLE=0\n", "x.env"), rack)
    assert ("warning", "nvlink_unused") in [(one.severity, one.code) for one in found]
    assert "gpu[1-2] are in NVLink domain rack1" in next(
        one.why for one in found if one.code == "nvlink_unused"
    )
    for text, nodes in (("NCCL_MNNVL_ENABLE=2\n", rack), ("NCCL_MNNVL_ENABLE=0\n", alone), ("A=1\n", rack)):
        assert "nvlink_unused" not in [code for _line, _severity, code in list_findings(text, nodes)]
