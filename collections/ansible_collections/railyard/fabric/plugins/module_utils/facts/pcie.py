# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the PCI Express links from a device up to the root complex, as sysfs has them.

Kernel: drivers/pci/pci-sysfs.c (`current_link_speed`, "32.0 GT/s PCIe", and others), drivers/pci/probe.c
(`pci_speed_string`). Both ends of a link have these files: the port above it (a root port or a switch's
downstream port) and the device below (an endpoint or a switch's upstream port). Between a switch's upstream
and downstream ports there is no link. So, counted from the root, every second step is a link.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..catalogue import pci_express
from .sysfs import PCI_ADDRESS, Reader

_VALUES = ("speed_gts", "width", "max_speed_gts", "max_width")
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?)(?: GT/s.*)?\Z")
_WIDTH = re.compile(r"([0-9]{1,3})\Z")
#: A link that is down, or a virtual function, has no speed.
_UNKNOWN = re.compile(r"unknown", re.I)
_HOST_BRIDGE = re.compile(r"pci[0-9a-f]{4,8}:[0-9a-f]{2}\Z")


def pci_folder(device: str | None) -> str | None:
    """Return the folder of a device's PCI device (virtio devices are below one)."""
    while device and device != os.path.dirname(device):
        if PCI_ADDRESS.match(os.path.basename(device)):
            return device
        device = os.path.dirname(device)
    return None


def way(folder: str) -> list[str]:
    """Return the host bridge and the PCI addresses from there to a device; nothing where sysfs shows none.

    Behind a bridge with a separate domain (Intel VMD's `10000:`, Hyper-V's) the path begins there.
    """
    parts = os.path.realpath(folder).split("/")
    bridges = [place for place, part in enumerate(parts) if _HOST_BRIDGE.match(part)]
    return parts[bridges[-1] :] if bridges else []


def path(reader: Reader, folder: str | None) -> list[dict[str, Any]] | None:
    """Return the links from a PCI device up to the root complex, the device's own first.

    Args:
        reader: where sysfs is.
        folder: the real folder of the device, None where there is no PCI device.

    Returns:
        For each link `port`, the address of the port above it, which the kernel uses too; `speed_gts` and
        `width` (lanes) as trained; `max_speed_gts` and `max_width`, the most that both ends support, each
        None where unknown; `virtual`: one of its ends is a hypervisor's, so the values mean nothing. None
        where there is no PCI device. A device on the root bus has one link without a `port`.
    """
    if folder is None:
        return None
    found = []
    devices = _devices(folder)
    # The device and the port above it, then the slot of that port's switch, and so on. With an odd number the
    # first is another type of bridge.
    while len(devices) > 1:
        below, port = devices.pop(), devices.pop()
        if not (devices and _is_one_chip(reader, devices[-1], below)):
            found.append(_link(reader, (port, below)))
    return found or [_link(reader, (folder,))]


def own_link(links: Sequence[Mapping[str, Any]] | None) -> dict[str, Any] | None:
    """Return how a PCI device's link is trained, and the most that it and its slot support.

    Args:
        links: its `path`.

    Returns:
        The four values of the first link; None where none is known, or the device is virtual.
    """
    link = {key: links[0][key] for key in _VALUES} if links and not links[0]["virtual"] else {}
    return link if any(value is not None for value in link.values()) else None


def _devices(folder: str) -> list[str]:
    """Return the folders of the PCI devices from the host bridge down to this one."""
    found: list[str] = []
    while PCI_ADDRESS.match(os.path.basename(folder)):
        found.insert(0, folder)
        folder = os.path.dirname(folder)
    return found


def _link(reader: Reader, ends: tuple[str, ...]) -> dict[str, Any]:
    """Return the link between a port and the device below it, or of a device without a port above it."""
    link: dict[str, Any] = {"port": os.path.basename(ends[0]) if len(ends) > 1 else None}
    for key, what in (("speed_gts", "link_speed"), ("width", "link_width")):
        # Both ends have the same values; a virtual function has no link.
        now = (_value(reader, device, "current_" + what) for device in reversed(ends))
        most = (_value(reader, device, "max_" + what) for device in ends)
        link[key] = next((value for value in now if value is not None), None)
        link["max_" + key] = min((value for value in most if value is not None), default=None)
    numbers = [_numbers(reader, device, "vendor", "device") for device in ends]
    made_up = any(
        one[0] in pci_express.VIRTUAL_VENDORS or one in pci_express.VIRTUAL_SWITCHES for one in numbers
    )
    link["virtual"] = reader.is_guest or made_up
    return link


def _is_one_chip(reader: Reader, upper: str, lower: str) -> bool:
    """Return whether the upstream ports of two switches, one below the other, are levels of one chip."""
    names = ("vendor", "device", "subsystem_vendor", "subsystem_device")
    one, other = (_numbers(reader, device, *names) for device in (upper, lower))
    levels = pci_express.TWO_LEVELS.get(one[1] or 0)
    if (
        levels is None
        or one[:3] != other[:3]
        or (one[0], one[2]) != (pci_express.BROADCOM, pci_express.BROADCOM)
    ):
        return False
    return tuple((number or 0) >> 12 for number in (one[3], other[3])) == levels


def _numbers(reader: Reader, device: str, *names: str) -> tuple[int | None, ...]:
    return tuple(reader.number(os.path.join(device, name)) for name in names)


def _value(reader: Reader, device: str, name: str) -> float | None:
    """Return a valid speed of PCI Express in GT/s, or a number of lanes."""
    where = os.path.join(device, name)
    text = reader.text(where)
    is_speed = name.endswith("speed")
    found = (_SPEED if is_speed else _WIDTH).match(text or "")
    if found is None:
        if text is not None and not _UNKNOWN.match(text):
            kind = "speed of a PCI Express link" if is_speed else "number of lanes"
            reader.warnings.append(f"{where}: {text[:40]!a} is no {kind}")
        return None
    value = float(found.group(1))
    return value if value in (pci_express.SPEEDS_GTS if is_speed else pci_express.WIDTHS) else None
