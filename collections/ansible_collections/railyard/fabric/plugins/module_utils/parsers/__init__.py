# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parsers of the tools' outputs: text in, the object of `railyard parse` out. They read and never decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers import (
    dcgmi,
    ethtool,
    fio,
    ibstat,
    ibstatus,
    ibv_devinfo,
    iperf3,
    mlnx_qos,
    nccl_log,
    nccl_tests,
    nvidia_smi_nvlink,
    nvidia_smi_query,
    nvidia_smi_topo,
    perftest,
    ping,
    rdma_link,
    show_gids,
    sockperf,
    unwrap,
)
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool, is_binary

__all__ = ["TOOLS", "NotThisTool", "parse"]

_PARSERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "dcgmi": dcgmi.parse,
    "ethtool": ethtool.parse,
    "fio": fio.parse,
    "ibstat": ibstat.parse,
    "ibstatus": ibstatus.parse,
    "ibv_devinfo": ibv_devinfo.parse,
    "iperf3": iperf3.parse,
    "mlnx_qos": mlnx_qos.parse,
    "nccl-log": nccl_log.parse,
    "nccl-tests": nccl_tests.parse,
    "nvidia-smi-nvlink": nvidia_smi_nvlink.parse,
    "nvidia-smi-query": nvidia_smi_query.parse,
    "nvidia-smi-topo": nvidia_smi_topo.parse,
    "perftest": perftest.parse,
    "ping": ping.parse,
    "rdma-link": rdma_link.parse,
    "show_gids": show_gids.parse,
    "sockperf": sockperf.parse,
}

# Every name that `railyard parse` knows, in the order of its documentation.
TOOLS = (
    "perftest",
    "iperf3",
    "sockperf",
    "ping",
    "fio",
    "nccl-tests",
    "ibstat",
    "ibstatus",
    "ibv_devinfo",
    "rdma-link",
    "show_gids",
    "mlnx_qos",
    "ethtool",
    "nvidia-smi-topo",
    "nvidia-smi-query",
    "nvidia-smi-nvlink",
    "dcgmi",
    "nccl-log",
)


def _read(parser: Callable[[str], dict[str, Any]], text: str) -> dict[str, Any]:
    """Parse; where that fails, parse once more without what a launcher or a comment put before each line."""
    found: dict[str, Any] | None = None
    refusal: NotThisTool | None = None
    try:
        found = parser(text)
    except NotThisTool as problem:
        refusal = problem
    if found is not None and found["valid"]:
        return found
    # A comment mark is a tool's own sign, too: without it a text must be whole, or no other reading is left.
    others = ((unwrap.without_labels(text), False), (unwrap.without_comment_marks(text), found is not None))
    for bare, must_be_whole in others:
        try:
            again = parser(bare) if bare is not None else None
        except NotThisTool:
            continue
        if again is not None and (again["valid"] or not must_be_whole):
            return again
    if found is None:
        raise refusal or NotThisTool("nothing could be read")
    return found


def parse(tool: str, text: str) -> dict[str, Any]:
    """Parse a tool's output.

    Args:
        tool: One of `TOOLS`.
        text: What the tool printed.

    Returns:
        `{"schema", "tool", "valid", "error", "warnings", "outputs"}`; `valid` only for a whole, good run.

    Raises:
        NotThisTool: The text is not this tool's, or there is no such tool.
    """
    parser = _PARSERS.get(tool)
    # A file whose end never reached the disk ends in NULs; what stands before them is text all the same.
    text = unwrap.without_overstrikes(text.rstrip("\0"))
    if is_binary(text):
        raise NotThisTool("this is binary data and no output of a tool")
    if parser is not None:
        return _read(parser, unwrap.clean(text))
    raise NotThisTool(f"there is no tool {tool[:40]!r}; one of: {', '.join(TOOLS)}", "tool name")
