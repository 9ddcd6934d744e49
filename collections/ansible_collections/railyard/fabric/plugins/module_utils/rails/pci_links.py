# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The PCI Express links of a bound rail, from its facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..catalogue import pci_express
from ..numeric import is_number
from .bind import Bound


class Link(NamedTuple):
    """One link. What is not known of it, or made up by a hypervisor, is None.

    Attributes:
        key: the address of the port above it; of facts without one the device's address without function.
        speed_gts: its speed as trained.
        width: its lanes as trained.
        max_speed_gts: the most that both ends can do.
        max_width: the same of lanes.
    """

    key: str | None
    speed_gts: float | None
    width: float | None
    max_speed_gts: float | None
    max_width: float | None

    def trained_low(self) -> str | None:
        """Return in what it is trained below what both of its ends can do, or None."""
        pairs = ((self.speed_gts, self.max_speed_gts, "GT/s"), (self.width, self.max_width, "lanes"))
        for now, most, unit in pairs:
            if now is not None and most is not None and now < most:
                return f"at {now:g} {unit}, both of its ends can do {most:g}"
        return None


def of_device(device: Mapping[str, Any]) -> list[Link]:
    """Return the links of a netdev or an RDMA port, its own first; none where it has no PCI device."""
    path = device.get("pci_path")
    if path is None:
        own, pci = device.get("pci_link"), device.get("pci")
        return [] if own is None and pci is None else [_link(own or {}, _slot(pci))]
    return [_link({} if one["virtual"] else one, one["port"] or _slot(device.get("pci"))) for one in path]


def of_end(end: Bound) -> list[Link]:
    """Return the links of a bound rail: of its netdev, or of the RDMA device where that shows none."""
    found = of_device(end.netdev or {})
    port = end.hca or {}
    return found or (of_device(port) if port.get("pci_path") is not None else [])


def _slot(pci: str | None) -> str | None:
    return pci.rsplit(".", 1)[0] if pci is not None else None


def _link(values: Mapping[str, Any], key: str | None) -> Link:
    def known(name: str) -> float | None:
        value = values.get(name)
        allowed = pci_express.WIDTHS if name.endswith("width") else pci_express.SPEEDS_GTS
        return float(value) if is_number(value) and value in allowed else None

    return Link(key, known("speed_gts"), known("width"), known("max_speed_gts"), known("max_width"))
