# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way in which an HCA reaches GPU memory. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.module_utils.gpu.catalogue import (
    DMA_BUF,
    NO_PATH,
    OPEN,
    PEERMEM,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import AUTO, Work

# RDMA stacks that bring the peer-memory interface that nvidia-peermem needs; the inbox one does not.
_WITH_PEER_MEMORY = ("doca", "mlnx_ofed")
_KERNEL = re.compile(r"([0-9]+)\.([0-9]+)")


def path_of(
    work: Work, generations: Mapping[str, tuple[str, ...]], branch: int, flavour: str
) -> dict[str, str]:
    """Return the way in which an HCA reaches GPU memory, and why it is that one."""
    match = _KERNEL.match(str(work.facts.get("kernel") or ""))
    kernel = (int(match.group(1)), int(match.group(2))) if match else None
    why_not: dict[str, str] = {}
    if flavour != OPEN:
        why_not[DMA_BUF] = "DMA-BUF needs the open kernel modules"
    elif kernel is not None and kernel < catalogue.DMA_BUF_FIRST_KERNEL:
        least = ".".join(map(str, catalogue.DMA_BUF_FIRST_KERNEL))
        why_not[DMA_BUF] = f"DMA-BUF needs Linux {least}, this is {'.'.join(map(str, kernel))}"
    if work.asked.get("rdma_provider") not in _WITH_PEER_MEMORY:
        why_not[PEERMEM] = (
            "nvidia-peermem needs the peer-memory interface of DOCA-OFED or MLNX_OFED, which the RDMA stack "
            f"{work.asked.get('rdma_provider') or 'inbox'} has not"
        )
    elif branch < catalogue.PEERMEM_FIRST_BRANCH:
        why_not[PEERMEM] = f"nvidia-peermem came with R{catalogue.PEERMEM_FIRST_BRANCH}"
    for name in sorted(generations):
        for path in (DMA_BUF, PEERMEM):
            if path not in catalogue.GENERATIONS[name].gpudirect:
                why_not.setdefault(path, f"{name} has no {path}")
    asked = str(work.asked.get("gpudirect") or AUTO)
    if asked == NO_PATH:
        return {"path": NO_PATH, "why": "not asked"}
    if asked != AUTO:
        if asked in why_not:
            other = next((path for path in (DMA_BUF, PEERMEM) if path not in why_not), NO_PATH)
            work.refuse("gpudirect", why_not[asked], f"nvidia_driver_gpudirect: {other}")
        return {"path": asked, "why": "asked"}
    if DMA_BUF not in why_not:
        return {"path": DMA_BUF, "why": "open kernel modules: what NVIDIA recommends"}
    if PEERMEM not in why_not:
        return {"path": PEERMEM, "why": why_not[DMA_BUF]}
    return {"path": NO_PATH, "why": f"{why_not[DMA_BUF]}; {why_not[PEERMEM]}"}
