# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare files that name RDMA devices with the existing devices: a boot may have renamed them.

Jobs read these files: with `NCCL_NET=IB` and names of missing devices NCCL ends the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from ..facts.sysfs import Reader
from ..parsers.nccl import device_list
from ..rails.bind import Bound
from .found import Found

ITEM = "device_names"
#: Files below /etc that name devices, written by the role nccl_profile.
FILES = (
    "nccl.conf",
    "railyard/nccl.env",
    "enroot/environ.d/60-railyard-nccl.env",
    "railyard/ucx.env",
    "enroot/environ.d/60-railyard-ucx.env",
)


def look(node: str, ports: Sequence[str], bound: Mapping[str, Bound], reader: Reader, found: Found) -> None:
    """Report files that name devices which the node does not have.

    Args:
        node: its name in the inventory.
        ports: all RDMA ports of the node, as `mlx5_0:1`; none where no driver is loaded, and then the names
            are unknown.
        bound: the rails.
        reader: where /etc is.
        found: takes the findings.
    """
    if not ports:
        return
    stale: dict[tuple[str, ...], list[str]] = {}
    for name in FILES:
        path = os.path.join(reader.etc_root, name)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                text = file.read(1 << 16)
        except FileNotFoundError:
            continue
        except OSError as error:
            said = f"device names: /etc/{name}: {error.strerror or error}"
            found.add_unknown(said, ITEM, "device_names_stale")
            continue
        gone = missing(text, ports)
        if gone:
            stale.setdefault(tuple(gone), []).append(f"/etc/{name}")
    now = [
        str(port["hca"]) for one in bound.values() for port in [one.hca or one.renamed] if port is not None
    ]
    for names, files in stale.items():
        found.add_wrong(
            f"device names: {', '.join(files)}: no device is called {', '.join(names)}; the rails' ports are "
            f"{', '.join(now) or 'not there'} now. Fix: railyard provision -i INVENTORY -- --tags nccl "
            f"--limit {node}",
            ITEM,
            "device_names_stale",
        )
    if not any(one.item == ITEM for one in found.findings):
        found.good_items.append(ITEM)


def missing(text: str, ports: Sequence[str]) -> list[str]:
    """Return the missing devices that settings of NCCL and UCX name.

    Args:
        text: a file of lines `NAME=value`.
        ports: all RDMA ports of the node.
    """
    known = [device_list.device(port) for port in ports]
    gone: dict[str, None] = {}
    for line in text.splitlines():
        name, _equals, value = line.partition("=")
        if name == "NCCL_IB_HCA":
            asked = device_list.parse(value)
            if not (asked.excludes or asked.wrong):
                gone.update(dict.fromkeys(asked.unused(known)))
        elif name == "UCX_NET_DEVICES":
            # UCX's list may name netdevs too, which have no port.
            gone.update((one, None) for one in value.split(",") if ":" in one and one not in ports)
    return list(gone)
