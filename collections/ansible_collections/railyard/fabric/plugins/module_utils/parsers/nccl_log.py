# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's own log (NCCL_DEBUG=INFO): which network a run really took; two ranks may share one line."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import (
    NotThisTool,
    error,
    first_text,
    result,
    split_lines,
    strip_ansi,
)

_OURS = re.compile(r"NCCL (?:INFO|WARN|version) ")
_VERSION = re.compile(r"NCCL version ([0-9][\w.+-]{0,40})")
# The next rank's line may begin right behind the name: the known names are taken as far as they go.
_NETWORK = re.compile(
    r"NCCL INFO Using network (IBext(?:_v[0-9]{1,2})?|IB|Socket|[A-Za-z][\w /.-]{0,40}?(?=\s*$))"
)
_USING = re.compile(r"NET/IB : Using ((?: ?\[[0-9]{1,3}\]\S{1,80})+)")
_HCA = re.compile(r"\[[0-9]{1,3}\]([\w.-]{1,40}:[0-9]{1,3})/(RoCE|IB)")
_CHANNEL = re.compile(r"via NET/([A-Za-z][\w ]{0,30})/[0-9]{1,3}(?:\([0-9]{1,3}\))?((?:/[A-Za-z]+)*)")
_NO_DEVICE = re.compile(r"NET/IB : No device found")
_WARN = re.compile(r"NCCL WARN (.{1,300})")
_FATAL = re.compile(
    r"with error|with status=[1-9]|unhandled|failed|failure|timed? ?out|abort|mismatch|invalid|refused|"
    r"no route",
    re.I,
)


def _transport(network: str | None, layers: set[str]) -> str | None:
    if network != "IB":
        return network
    return "RoCE" if layers == {"RoCE"} else "IB"


def parse(text: str) -> dict[str, Any]:
    """Parse NCCL's log.

    Args:
        text: Lines of one or all ranks, other programs' lines in between.

    Returns:
        The common object with one output. `gdr` is what the channels use (None when the log has no channel,
        or when they differ): that GPUDirect is "Enabled for HCA" only says that it could be.
        `socket_fallback` is True where the log says that no RDMA device was found, None where sockets were
        used for no stated reason.

    Raises:
        NotThisTool: No line is NCCL's.
    """
    lines = split_lines(strip_ansi(text))
    versions: list[str] = []
    networks: list[str] = []
    over: list[str] = []
    hcas: list[str] = []
    layers: set[str] = set()
    direct: set[bool] = set()
    warned: list[str] = []
    ours = no_device = False
    for line in lines:
        if not _OURS.search(line):
            continue
        ours = True
        versions += _VERSION.findall(line)
        networks += [name.strip() for name in _NETWORK.findall(line)]
        for using in _USING.findall(line):
            for hca, layer in _HCA.findall(using):
                layers.add(layer)
                hcas += [hca] if hca not in hcas else []
        direct.update("/GDRDMA" in found.group(2) for found in _CHANNEL.finditer(line))
        over += [found.group(1) for found in _CHANNEL.finditer(line)]
        no_device = no_device or bool(_NO_DEVICE.search(line))
        warned += _WARN.findall(line)
    if not ours:
        raise NotThisTool(f"no line of NCCL (NCCL INFO ...); the text begins with {first_text(lines)}")
    # NCCL 2.4 and earlier do not say what they use, but for each channel.
    networks = networks or over
    network = networks[0] if networks else None
    output = {
        "nccl_version": versions[0] if versions else None,
        "transport": _transport(network, layers),
        "hcas": hcas,
        "gdr": next(iter(direct)) if len(direct) == 1 else None,
        "socket_fallback": (no_device or None) if network == "Socket" else None if network is None else False,
        "warnings": list(dict.fromkeys(line.strip() for line in warned)),
    }
    warnings = []
    if len(direct) > 1:
        warnings.append("some channels use GPUDirect RDMA and some do not")
    problem = None
    fatal = next((line for line in warned if _FATAL.search(line)), None)
    if fatal:
        problem = error("nccl_error", fatal)
    elif len(set(networks)) > 1:
        problem = error("inconsistent", f"ranks use different networks: {', '.join(sorted(set(networks)))}")
    elif network is None:
        problem = error("truncated", "no line says which network is used")
    return result("nccl-log", [output], problem, warnings)
