# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a card's PCIe slot carries, and whether it is trained to that. Pure.

A lane carries its GT/s less the line code: 8b/10b up to 5 GT/s, 128b/130b up to 32, FLITs of 236 in 256 bytes
at 64. About a tenth of that is headers and acknowledgements of packets of 256 bytes: 63.0 of PCIe 3.0 x8
are 57 Gbit/s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import figures
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number

#: GT/s up to which a code holds -> the share of bits that it leaves.
_CODES = tuple((float(gts), figures.value(f"pcie_code_to_{gts}_gts")) for gts in (5, 32, 64))
#: What PCI Express has, in GT/s and lanes: what else a node says is not its slot's.
_SPEEDS_GTS, _WIDTHS = (2.5, 5, 8, 16, 32, 64), (1, 2, 4, 8, 12, 16, 32)
#: What packets of 256 bytes leave of a link: 256 / (256 + 24), and some for acknowledgements and credits.
PACKETS_SHARE = figures.value("pcie_packets_share")


def carries_gbps(device: Mapping[str, Any]) -> float | None:
    """Return what a netdev's slot carries of payload each way, or None where it is not known."""
    link = device.get("pci_link")
    if not isinstance(link, Mapping):
        return None
    speed, width = link.get("max_speed_gts"), link.get("max_width")
    if not is_number(speed) or speed not in _SPEEDS_GTS or not is_number(width) or width not in _WIDTHS:
        return None
    return speed * width * next(share for up_to, share in _CODES if speed <= up_to) * PACKETS_SHARE


def together_gbps(ends: Sequence[Bound]) -> float | None:
    """Return what the slots of a node's rails carry together: functions of one device share theirs."""
    slots = {_slot(end): carries_gbps(end.netdev or {}) for end in ends}
    known = [one for one in slots.values() if one is not None]
    return sum(known) if slots and len(known) == len(slots) else None


def best_gbps(ends: Sequence[Bound], alone_gbps: Sequence[float | None]) -> float:
    """Return what the best rail of each slot carries alone, added up; 0 where that is not known of any rail.

    Args:
        ends: a node's rails.
        alone_gbps: what each of them carries alone.
    """
    best: dict[str, float] = {}
    for end, alone in zip(ends, alone_gbps, strict=True):
        best[_slot(end)] = max(best.get(_slot(end), 0.0), alone or 0.0)
    return sum(best.values())


def _slot(end: Bound) -> str:
    return str((end.netdev or {}).get("pci") or end.rail.get("name")).rsplit(".", 1)[0]
