# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tools whose output `railyard parse` reads, by name: text in, its object out."""

from __future__ import annotations

from typing import Any

from . import capture, ping, sockperf
from .common import NotThisTool
from .gpu import dcgmi, nvbandwidth, nvidia_smi_nvlink, nvidia_smi_query, nvidia_smi_topo
from .hca import ethtool, ibstat, ibstatus, ibv_devinfo, mlnx_qos, rdma_link, show_gids
from .iperf3 import output as iperf3
from .nccl import log, nccl_tests
from .node import fio, smartctl
from .perftest import output as perftest
from .subnet import outputs as subnet

__all__ = ["TOOLS", "NotThisTool", "parse"]

# In the order of the documentation.
_PARSERS: dict[str, capture.Parser] = {
    "perftest": perftest.parse,
    "iperf3": iperf3.parse,
    "sockperf": sockperf.parse,
    "ping": ping.parse,
    "fio": fio.parse,
    "smartctl": smartctl.parse,
    "nccl-tests": nccl_tests.parse,
    "nvbandwidth": nvbandwidth.parse,
    "ibstat": ibstat.parse,
    "ibstatus": ibstatus.parse,
    "ibv_devinfo": ibv_devinfo.parse,
    "rdma-link": rdma_link.parse,
    "show_gids": show_gids.parse,
    "mlnx_qos": mlnx_qos.parse,
    "ethtool": ethtool.parse,
    "ibnetdiscover": subnet.parse_ibnetdiscover,
    "iblinkinfo": subnet.parse_iblinkinfo,
    "ibqueryerrors": subnet.parse_ibqueryerrors,
    "sminfo": subnet.parse_sminfo,
    "nvidia-smi-topo": nvidia_smi_topo.parse,
    "nvidia-smi-query": nvidia_smi_query.parse,
    "nvidia-smi-nvlink": nvidia_smi_nvlink.parse,
    "dcgmi": dcgmi.parse,
    "nccl-log": log.parse,
}

# Every name that `railyard parse` knows.
TOOLS = tuple(_PARSERS)


def parse(tool: str, text: str) -> dict[str, Any]:
    """Parse a tool's output.

    Args:
        tool: One of `TOOLS`.
        text: What the tool printed.

    Returns:
        `{"schema", "tool", "valid", "error", "warnings", "outputs"}`; `valid` only for a complete, good run.

    Raises:
        NotThisTool: The text is not this tool's, or there is no such tool.
    """
    parser = _PARSERS.get(tool)
    if parser is None:
        raise NotThisTool(f"there is no tool {tool[:40]!r}; one of: {', '.join(TOOLS)}", "tool name")
    return capture.read(parser, text)
