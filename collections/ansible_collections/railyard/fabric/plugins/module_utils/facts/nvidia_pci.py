# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List NVIDIA's functions on the PCI bus."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from .sysfs import Reader

#: NVIDIA's PCI vendor id.
NVIDIA = 0x10DE
_DISPLAY_CLASS = 0x03  # VGA and 3D controllers
_PCI = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\Z", re.I)


def normal_address(address: str) -> str:
    """Return the address in the format of sysfs; nvidia-smi prints `00000000:17:00.0`, in capitals.

    Domains beyond 0xffff (Intel VMD, Hyper-V) keep all digits.
    """
    match = _PCI.match(address.strip())
    if match is None:
        return address.lower()
    return f"{int(match.group(1), 16):04x}:{match.group(2).lower()}"


def functions(reader: Reader) -> list[dict[str, Any]]:
    """Return NVIDIA's PCI functions, each with `pci`, `device`, `class` and its `folder` in sysfs."""
    found = []
    for address in reader.names(reader.sys("bus", "pci", "devices")):
        folder = reader.sys("bus", "pci", "devices", address)
        if reader.number(os.path.join(folder, "vendor")) != NVIDIA:
            continue
        device, kind = (reader.number(os.path.join(folder, name)) for name in ("device", "class"))
        if device is not None and kind is not None:
            found.append({"pci": address, "device": device, "class": kind >> 8, "folder": folder})
    return found


def is_gpu(function: Mapping[str, Any]) -> bool:
    """Return whether a function is a GPU, not another one of NVIDIA (audio, USB, NVSwitch)."""
    return int(function["class"]) >> 8 == _DISPLAY_CLASS
