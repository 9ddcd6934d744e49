# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Map checks to tools. A new tool needs a module here, a line in this file, and its checks in `catalogue`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..catalogue.tests import DEFAULT_CLASS
from . import fio, likwid, nccl_tests, nvbandwidth, smartctl
from .base import Tool
from .iperf3 import Iperf3
from .node_tool import NodeTool
from .perftest_bw import Bandwidth
from .perftest_gpu import GpuBandwidth
from .perftest_lat import Latency
from .ping import PathMtu, PingRtt
from .sockperf import Sockperf
from .torch_job import OPERATIONS, TorchJob
from .udp_probe import UdpProbe

TOOL_OF_CHECK: dict[str, Callable[[], Tool]] = {
    "path_mtu": PathMtu,
    "path_mtu_one_way": UdpProbe,
    "ping_rtt": PingRtt,
    "tcp_bandwidth": Iperf3,
    "tcp_latency": Sockperf,
    "tcp_bandwidth_bi": lambda: Iperf3(bi=True),
    "tcp_bandwidth_concurrent": Iperf3,
    "rdma_bandwidth": lambda: Bandwidth("ib_write_bw"),
    "rdma_read_bandwidth": lambda: Bandwidth("ib_read_bw"),
    "rdma_send_bandwidth": lambda: Bandwidth("ib_send_bw"),
    "rdma_bandwidth_unpinned": lambda: Bandwidth("ib_write_bw", pinned=False),
    DEFAULT_CLASS: lambda: Bandwidth("ib_write_bw", check=DEFAULT_CLASS),
    "rdma_gpu_bandwidth": GpuBandwidth,
    "rdma_bandwidth_bi": lambda: Bandwidth("ib_write_bw", bi=True),
    "rdma_bandwidth_concurrent": lambda: Bandwidth("ib_write_bw"),
    "rdma_latency": lambda: Latency("ib_write_lat"),
    "rdma_read_latency": lambda: Latency("ib_read_lat"),
    "rdma_send_latency": lambda: Latency("ib_send_lat"),
}
# Tools that test a node alone.
NODE_TOOLS: dict[str, Callable[[], NodeTool]] = {
    **dict.fromkeys((*OPERATIONS, "collective_training"), TorchJob),
    **dict.fromkeys(fio.JOBS, fio.Fio),
    likwid.CHECK: likwid.LikwidBench,
    smartctl.CHECK: smartctl.Smartctl,
    **dict.fromkeys(nccl_tests.COLLECTIVES, nccl_tests.NcclTests),
    **dict.fromkeys(nvbandwidth.COPIES, nvbandwidth.NvBandwidth),
}
CHECKS = (*TOOL_OF_CHECK, *NODE_TOOLS)
# Each check has a separate port, so that a server that ends slowly does not block another.
SLOT_OF_CHECK: dict[str, int] = {check: slot for slot, check in enumerate(sorted(TOOL_OF_CHECK))}
# With room for future checks.
SLOTS = 32
_ROUNDS_APART = 4
_FIRST = 16


def tool_port(base_port: int, round_number: int, rail_index: int, rails: int, check: str) -> int:
    """Return the server's port: unique per rail and check, and different from those of nearby rounds."""
    row = (round_number % _ROUNDS_APART) * max(rails, 1) + rail_index
    return base_port + _FIRST + row * SLOTS + SLOT_OF_CHECK[check]


def program(test: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """Return the program of a test: its tool's name, or a path from the policy."""
    tool = TOOL_OF_CHECK.get(str(test["check"]))
    return str(test["tool"]) if tool is None else tool().program(policy)


def planned_s(check: str, policy: Mapping[str, Any]) -> float:
    """Return the planned measuring time of a check's tool."""
    tool = (NODE_TOOLS if check in NODE_TOOLS else TOOL_OF_CHECK)[check]()
    return tool.planned_s(policy)
