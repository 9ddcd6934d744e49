# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the PCI Express way of a port the firmware or the kernel's command line decides: found, never set.

Offsets and bits are those of the kernel's include/uapi/linux/pci_regs.h. `root` is `/` on a node.
"""

from __future__ import annotations

import os
import struct
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import pci_folder
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import files

_CAPABILITIES, _PCI_EXPRESS, _ACS = 0x34, 0x10, 0x000D
_FIRST_EXTENDED = 0x100
_DOWNSTREAM_PORT = 6  # of a switch; below a root port all peers meet in the CPU in any case
_REDIRECTS = 0x0004 | 0x0008 | 0x0010  # requests, completions, upstream forwarding
_SMALLEST_USUAL_READ_BYTES = 512  # what PCI Express has after a reset
_NVIDIA = "0x10de"


class Way(t.NamedTuple):
    """One device on a port's way.

    Attributes:
        port_type: Kind of port as PCI Express counts it, None for a device that has none.
        read_request_bytes: Largest read that it asks for at once.
        redirects: Whether its access control sends traffic between peers up to the CPU; None where it cannot
            be read (root alone sees it).
    """

    port_type: int | None
    read_request_bytes: int | None
    redirects: bool | None


def decode(config: bytes) -> Way:
    """Read a device's configuration space; what it is too short for is None."""
    express = _capability(config)
    if express is None:
        return Way(None, None, None)
    flags, control = (struct.unpack_from("<H", config, express + offset)[0] for offset in (2, 8))
    acs = _extended(config)
    redirects = None if len(config) <= _FIRST_EXTENDED else False
    if acs is not None:
        redirects = bool(struct.unpack_from("<H", config, acs + 6)[0] & _REDIRECTS)
    return Way((flags >> 4) & 0xF, 128 << ((control >> 12) & 7), redirects)


def findings(root: str, ports: t.Mapping[str, str]) -> list[str]:
    """Say what stands in the way of the ports of rails.

    Args:
        root: `/`, or a folder that looks like it.
        ports: Netdev to the name of its rail.
    """
    told = []
    reads = {}
    gpus = [vendor for vendor in _vendors(root) if vendor == _NVIDIA]
    for netdev, rail in ports.items():
        folder = pci_folder(os.path.realpath(os.path.join(root, "sys/class/net", netdev, "device")))
        if folder is None:
            continue
        reads[rail] = decode(_config(folder)).read_request_bytes
        group = files.read(os.path.join(folder, "iommu_group/type"))
        if group is not None and group.startswith("DMA"):
            told.append(
                f"{rail} ({netdev}): the IOMMU translates the addresses of its DMA ({group}), and GPUDirect "
                "asks for none that does. Fix: iommu=pt on the kernel's command line"
            )
        above = os.path.dirname(folder)
        while gpus and pci_folder(above) == above:
            way = decode(_config(above))
            if way.port_type == _DOWNSTREAM_PORT and way.redirects:
                address = os.path.basename(above)
                told.append(
                    f"{rail} ({netdev}): access control (ACS) of switch port {address} above it sends up to "
                    "the CPU what goes between port and GPU, so that GPUDirect is slow. Fix: turn ACS off in "
                    f"the firmware's settings, or at each boot: setpci -s {address} ECAP_ACS+0x6.w=0000"
                )
            above = os.path.dirname(above)
    return told + _read_findings(reads)


def _read_findings(reads: t.Mapping[str, int | None]) -> list[str]:
    known = {rail: size for rail, size in reads.items() if size is not None}
    told = ", ".join(f"{rail} {size}" for rail, size in known.items())
    if any(size < _SMALLEST_USUAL_READ_BYTES for size in known.values()):
        return [
            f"MaxReadReq, the bytes that a port reads from memory at once, is small: {told}. "
            "Fix: the firmware's PCI Express settings"
        ]
    if len(set(known.values())) > 1:
        return [f"MaxReadReq, the bytes that a port reads from memory at once, differs between rails: {told}"]
    return []


def _vendors(root: str) -> t.Iterator[str]:
    """Yield the vendor of each display or 3D controller."""
    bus = os.path.join(root, "sys/bus/pci/devices")
    for address in os.listdir(bus) if os.path.isdir(bus) else ():
        if (files.read(os.path.join(bus, address, "class")) or "").startswith("0x03"):
            yield files.read(os.path.join(bus, address, "vendor")) or ""


def _config(folder: str) -> bytes:
    try:
        with open(os.path.join(folder, "config"), "rb") as handle:
            return handle.read(4096)
    except OSError:
        return b""


def _capability(config: bytes) -> int | None:
    """Return where the PCI Express capability begins."""
    seen: set[int] = set()
    where = config[_CAPABILITIES] & 0xFC if len(config) > _CAPABILITIES else 0
    while where and where not in seen and where + 10 <= len(config):
        if config[where] == _PCI_EXPRESS:
            return where
        seen.add(where)
        where = config[where + 1] & 0xFC
    return None


def _extended(config: bytes) -> int | None:
    """Return where the extended capability of access control begins."""
    seen: set[int] = set()
    where = _FIRST_EXTENDED
    while where and where not in seen and where + 8 <= len(config):
        header = struct.unpack_from("<I", config, where)[0]
        if header & 0xFFFF == _ACS:
            return where
        seen.add(where)
        where = (header >> 20) & 0xFFC
    return None
