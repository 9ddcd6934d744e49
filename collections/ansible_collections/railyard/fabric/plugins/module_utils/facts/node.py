# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Assemble the facts row of a node."""

from __future__ import annotations

import datetime
import platform
from typing import Any

from . import ethtool, gpus, host, netdev, optics, qos_counters, rdma_port, tools, vlan
from .sysfs import Reader


def collect(
    reader: Reader,
    run: tools.Run,
    netdevs: list[str] | None,
    ask: gpus.Ask | None = None,
    ask_optics: optics.Ask | None = None,
) -> dict[str, Any]:
    """Return the facts row without the node's name.

    Args:
        reader: Where the kernel's files are.
        run: Runs an argv and returns what it printed; None when there is no such tool.
        netdevs: Names to read; None for all that matter.
        ask: Runs nvidia-smi; by default with a time limit.
        ask_optics: Runs ethtool and mlxlink; None leaves modules unread.

    Returns:
        The structure that RETURN of the module rail_info describes.
    """
    rows = netdev.read_netdevs(reader, run(["ip", "-d", "-j", "addr"]), netdevs)
    hcas = rdma_port.read_hcas(reader)
    rdma_port.attach(rows, hcas)
    _add_qos(reader, rows, hcas)
    if ask_optics is not None:
        optics.add(rows, hcas, ask_optics, lambda name: vlan.port_of(name, reader.sys_root))
    now = datetime.datetime.now(datetime.timezone.utc)  # noqa: UP017 - nodes may have Python 3.9
    return {
        **host.read_host(reader),
        "collected": now.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "python": platform.python_version(),
        "netdevs": rows,
        "hcas": hcas,
        "gpus": gpus.read(
            reader, ask or gpus.by_the_clock(), [one["pci"] for one in (*hcas, *rows) if one["pci"]]
        ),
        "tools": host.tool_versions(run),
        "warnings": reader.warnings,
    }


def _add_qos(reader: Reader, rows: list[dict[str, Any]], hcas: list[dict[str, Any]]) -> None:
    """Add each netdev's QoS counters (for a VLAN its port's); a software link has none."""
    hw_counters = {one["hca"]: one["hw_counters"] for one in hcas}
    for row in rows:
        is_card = row["driver_class"] == "hardware"
        port = vlan.port_of(row["netdev"], reader.sys_root)
        statistics = ethtool.stats(port) if reader.live and is_card else {}
        row["qos_counters"] = (
            qos_counters.select(statistics, hw_counters.get(row["hca"]) or {}) if is_card else {}
        )
