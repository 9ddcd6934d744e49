# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parser of NCCL's log; the texts are by hand, to the formats of NCCL's source (2.4 to 2.30)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers import registry
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl.log_lines import Message, messages
from support import captures
from support.captures import shows

GID = "gpu01:207:500 [1] NCCL INFO NET/IB: {} qpn 2706 mtu 5 {}GID 3 (0/6165A8C0FFFF0000) fifoRkey=0x1\n"
_file, _whole, one, failed = captures.for_tool("nccl-log")
ROCE, SOCKET = _file("roce.txt"), _file("socket.txt")


def read(text: str) -> dict[str, Any]:
    return registry.parse("nccl-log", text)


def ranks(text: str) -> dict[tuple[str, int], dict[str, Any]]:
    return {(row["host"], row["gpu"]): row for row in one(text)["ranks"]}


def test_run_over_roce():
    output = one(ROCE)
    assert {key: value for key, value in output.items() if key != "ranks"} == {
        "nccl_version": "2.26.2+cuda12.2",
        "transport": "RoCE",
        "plugin": None,
        "provider": None,
        "hcas": ["mlx5_2:1", "mlx5_3:1"],
        "sockets": [],
        "gdr": True,
        "socket_fallback": False,
        "channels": {"NET/IB": 1, "P2P": 1},
        "warnings": [],
    }
    assert ranks(ROCE)["gpu01", 1] == {
        "host": "gpu01",
        "pid": 207,
        "gpu": 1,
        "rank": 3,
        "network": "IB",
        "hcas": ["mlx5_3:1"],
        "gid_indexes": [],
        "gdr": True,
        "channels": {"NET/IB": 1, "P2P": 1},
    }


def test_channels_over_two_networks():
    socket = SOCKET.splitlines(keepends=True)[-1]
    for text in (ROCE + socket, ROCE.splitlines(keepends=True)[-2] + socket):
        found = captures.parse_failed("nccl-log", text, "inconsistent")
        assert "IB, Socket" in found["error"]["message"]


def test_that_gpudirect_could_be_used_does_not_say_that_it_is():
    assert one(ROCE.replace("/GDRDMA", ""))["gdr"] is False
    assert one(ROCE.split("gpu01:207:267 [1] NCCL INFO Channel", maxsplit=1)[0])["gdr"] is None


@pytest.mark.parametrize(
    ("upto", "gdr", "hcas"),
    [
        ("NET/IB/5(0)/GDR", None, ["mlx5_3:1"]),
        ("NET/IB/5(0)", None, ["mlx5_3:1"]),
        ("NET/IB/5", None, []),
        ("NET/IB/5(0)/GDRDMA", True, ["mlx5_3:1"]),
        ("NET/IB/5(0)/Shared comm 0x2083dd50 nRanks 02\n", False, ["mlx5_3:1"]),
    ],
)
def test_way_of_a_channel_that_a_message_tore(upto, gdr, hcas):
    torn = re.sub("NET/IB/5.*", upto + "Conflicting CPU frequency", ROCE)
    assert (one(torn)["gdr"], ranks(torn)["gpu01", 1]["hcas"]) == (gdr, hcas)


def test_rank_whose_line_begins_in_another_ones():
    assert set(ranks(ROCE)) == {("gpu01", 0), ("gpu01", 1)}
    assert ranks(ROCE)["gpu01", 0]["network"] == "IB"
    # Part of the name is lost, or another's text is before it: the process shows whose it is.
    torn = "1:207:267 [1] NCCL INFO Channel 01/0 : 3[1] -> 4[0] [send] via NET/IB/0\n"
    assert ranks(ROCE + torn + "m" + "gpu0" + torn)["gpu01", 1]["channels"] == {"NET/IB": 3, "P2P": 1}
    assert set(ranks(ROCE + torn)) == {("gpu01", 0), ("gpu01", 1)}


def test_what_is_before_a_name_belongs_to_the_message_before():
    glued = "gpu01:1:2 [0] NCCL INFO Using network IBgpu01:3:4 [1] b.cc:1 (f) NCCL WARN odd"
    assert list(messages([glued])) == [
        Message("gpu01", 1, 0, "INFO", "Using network IB"),
        Message("gpu01", 3, 1, "WARN", "odd"),
    ]


def test_same_name_with_a_prefix_is_another_host():
    other = ROCE.replace("gpu01:207:267", "bgpu01:300:301").replace("gpu01:206:264", "bgpu01:302:303")
    assert set(ranks(ROCE + other)) == {("gpu01", 0), ("gpu01", 1), ("bgpu01", 0), ("bgpu01", 1)}


@pytest.mark.parametrize(
    ("device", "more"),
    [
        ("Dev 0 Port 1", ""),
        (
            "NCCL Dev 4 IbDev 0 Port 1",
            "query_ece={supported=1, vendor_id=0x15b3, options=0x3, comp_mask=0x0} ",
        ),
        ("ncclIbConnect: NCCL Dev 4 IbDev 0 Port 1", ""),
    ],
    ids=["2.7", "2.26", "2.30"],
)
def test_gid_index_of_a_rank(device, more):
    assert ranks(ROCE + GID.format(device, more))["gpu01", 1]["gid_indexes"] == [3]


def test_lid_is_no_gid():
    lid = "gpu01:207:500 [1] NCCL INFO NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 7 mtu 5 LID 9 subnet-prefix 3\n"
    assert ranks(ROCE + lid)["gpu01", 1]["gid_indexes"] == []


def test_rail_and_plane_behind_the_port():
    output = one(
        ROCE.replace("mlx5_2:1/RoCE", "mlx5_2:1:0:1/RoCE").replace("mlx5_3:1/RoCE", "mlx5_3:1::1/RoCE")
    )
    assert (output["transport"], output["hcas"]) == ("RoCE", ["mlx5_2:1", "mlx5_3:1"])


def test_what_nccl_calls_ib():
    assert one(re.sub("(network |NET/)IB(?! :)", r"\1IBext_v8", ROCE))["transport"] == "RoCE"
    assert one(ROCE.replace("/RoCE", "/IB/SHARP"))["transport"] == "IB"
    mixed = ROCE.replace("mlx5_2:1/RoCE", "mlx5_2:1/IB")
    assert one(mixed)["transport"] == "RDMA"
    unsaid = "".join(line for line in ROCE.splitlines(keepends=True) if " : Using " not in line)
    assert one(unsaid)["transport"] == "RDMA"


def test_old_log_has_rings_and_no_network():
    old = (
        "n1:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB ; OOB ib0:192.168.11.1<0>\n"
        "NCCL version 2.4.7+cuda10.0\n"
        "n1:1:2 [0] NCCL INFO Ring 00 : 0 -> 4 [send] via NET/IB/0\n"
    )
    output = one(old)
    assert (output["nccl_version"], output["transport"], output["gdr"]) == ("2.4.7+cuda10.0", "IB", False)
    assert ranks(old)["n1", 0]["hcas"] == ["mlx5_0:1"]


def test_fallback_to_sockets():
    output = one(SOCKET)
    shows(output, transport="Socket", socket_fallback=True, sockets=["eno8np0"])
    assert read(SOCKET)["warnings"] == ["NCCL uses TCP over eno8np0, not RDMA; NCCL_IB_HCA is =mlx5_9:1"]
    assert ranks(SOCKET)["gpu01", 0]["hcas"] == []
    no_library = SOCKET.replace("NET/IB : No device found.", "Failed to open libibverbs.so[.1]")
    assert one(no_library)["socket_fallback"] is True
    warned = SOCKET.replace("INFO NET/IB : No device found.", "WARN Failed to open libibverbs.so[.1]")
    assert one(warned)["socket_fallback"] is True
    disabled = SOCKET.replace("NET/IB : No device found.", "NCCL_IB_DISABLE set by environment to 1.")
    assert one(disabled)["socket_fallback"] is None


# The lines of net.cc at v2.21.5, of plugin/net.cc at 2.27.5 and 2.30.7, and of aws-ofi-nccl 1.5 and 1.16.
@pytest.mark.parametrize(
    ("said", "transport", "plugin", "provider"),
    [
        (
            [
                "NET/Plugin: Loaded net plugin Libfabric (v8)",
                "NET/OFI Selected provider is efa, fabric is efa-direct (found 4 nics)",
                "Using network Libfabric",
            ],
            "Libfabric",
            "Libfabric",
            "efa",
        ),
        (
            ["NET/OFI Selected Provider is efa (found 4 nics)", "Using network AWS Libfabric"],
            "AWS Libfabric",
            None,
            "efa",
        ),
        (
            ["Successfully loaded external plugin libnccl-net.so", "Using network FasTrak"],
            "FasTrak",
            "libnccl-net.so",
            None,
        ),
        (
            [
                "Successfully loaded external network plugin /var/lib/tcpx/lib64/libnccl-net.so",
                "Using network GPUDirectTCPX_v7",
            ],
            "GPUDirectTCPX_v7",
            "/var/lib/tcpx/lib64/libnccl-net.so",
            None,
        ),
    ],
)
def test_network_of_a_plugin(said, transport, plugin, provider):
    output = one("".join(f"gpu01:1:2 [0] NCCL INFO {line}\n" for line in said))
    shows(output, transport=transport, plugin=plugin, provider=provider, socket_fallback=False)


def test_plugin_that_is_loaded_and_not_used():
    loaded = "gpu01:1:2 [0] NCCL INFO NET/Plugin: Loaded net plugin Libfabric (v8)\n"
    assert "the plugin Libfabric was loaded and is not used" in read(loaded + SOCKET)["warnings"][0]


def test_run_inside_one_node_says_nothing_of_the_fabric():
    alone = "".join(line for line in ROCE.splitlines(keepends=True) if "via NET" not in line)
    assert "no channel uses a network" in read(alone)["warnings"][0]
    assert read(ROCE)["warnings"] == []


def test_ranks_that_differ():
    other = ROCE.replace("gpu01", "gpu02").replace("Using network IB", "Using network Socket")
    assert failed(ROCE + other) == "inconsistent"
    mixed = ROCE + "gpu01:207:267 [1] NCCL INFO Channel 01/0 : 3[1] -> 4[0] [send] via NET/IB/0\n"
    assert one(mixed)["gdr"] is None
    assert "some do not" in read(mixed)["warnings"][0]


def test_rank_is_that_of_the_full_job():
    part = "gpu01:207:267 [1] NCCL INFO comm 0x2 rank 0 nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
    assert ranks(ROCE + part)["gpu01", 1]["rank"] == 3


@pytest.mark.parametrize(
    "line",
    [
        "gpu01:1:2 [0] NCCL WARN NET/IB : Got completion from peer with error 12, opcode 0",
        "gpu01:1:2 [0] net_ib.cc:9 NCCL WARN NET/IB : Got completion from peer x<5> with status=12",
        "gpu01:1:2 [0] init.cc:9 NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1",
        "[2026-11-22 10:00:00] gpu01:1:2 [0] b.cc:1 (f) NCCL WARN Bootstrap : no socket interface found",
        "gpu01:1:2 [0] NCCL WARN Error: network IB not found.",
        "gpu01:1:2 [0] NCCL INFO init.cc:1358 -> 5",
        "gpu01:1:2 [0] NCCL INFO group.cc:65 -> 2 [Async thread]",
    ],
)
def test_failed_run(line):
    assert failed(ROCE + line + "\n") == "nccl_error"


def test_no_failure():
    # "In progress", and a network plugin that is passed over.
    said = "gpu01:1:2 [0] NCCL INFO group.cc:65 -> 7\ngpu01:1:2 [0] NCCL INFO net.cc:79 -> 3\n"
    assert read(ROCE + said)["valid"] is True


def test_network_that_no_line_names():
    assert failed("gpu01:1:2 [0] NCCL INFO Bootstrap : Using eno8:192.168.1.97<0>\n") == "truncated"
