# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the PCI Express way of a port the firmware or the kernel's command line decides: found, never set.

Offsets and bits are those of the kernel's include/uapi/linux/pci_regs.h. `root` is `/` on a node. What is
reported:
- MaxReadReq below 4096: "Understanding PCIe Configuration for Maximum Performance" of NVIDIA Networking
  (community.mellanox.com/docs/DOC-2496) and guides that follow it set the upper limit, 4096 bytes, by writing
  the whole word (`68.w=5936`); here only the three bits are named.
- Relaxed ordering: NCCL asks for it by itself (NCCL_IB_PCI_RELAXED_ORDERING, automatic), and a function whose
  Device Control forbids it cannot use it (lspci: RlxdOrd-). The kernel forbids it below root ports that do it
  wrongly.
- ACS: `pci=disable_acs_redir=` (Documentation/admin-guide/kernel-parameters.txt) clears the three redirects
  alone; what else a port has stays. Where ConnectX-8 has a DMA function of its own (Data Direct) its switch
  needs some of the redirects: rdma-core's kernel-boot/rdma_topo has the values for each port.
- RShim: rshim-user-space makes /dev/rshim<N>/ and tmfifo_net<N> for each BlueField that the host may manage
  (its README). "mlxprivhost" of NVIDIA's MFT manual blocks the interface for a host that is not trusted.
"""

from __future__ import annotations

import os
import re
import struct
import typing as t

from .. import node_files
from ..facts.pcie import pci_folder
from . import files

_CAPABILITIES, _PCI_EXPRESS, _ACS = 0x34, 0x10, 0x000D
_FIRST_EXTENDED = 0x100
_DOWNSTREAM_PORT = 6  # of a switch; below a root port all peers meet in the CPU in any case
_REDIRECTS = 0x0004 | 0x0008 | 0x0010  # requests, completions, upstream forwarding
_RELAXED_ORDERING = 0x0010
_SMALLEST_USUAL_READ_BYTES = 512  # what PCI Express has after a reset
_LARGEST_READ_BYTES = 4096
_RSHIM, _TMFIFO = re.compile(r"rshim[0-9]+\Z"), re.compile(r"tmfifo_net[0-9]+\Z")
_NVIDIA, _MELLANOX = "0x10de", "0x15b3"
_DATA_DIRECT = "0x2100"  # ConnectX-8's DMA function, as rdma_topo's table has it


class Way(t.NamedTuple):
    """One device on a port's way.

    Attributes:
        port_type: Kind of port as PCI Express counts it, None for a device that has none.
        read_request_bytes: Largest read that it asks for at once.
        redirects: Whether its access control sends traffic between peers up to the CPU; None where it cannot
            be read (root alone sees it).
        relaxed_ordering: Whether it may let its writes overtake one another.
    """

    port_type: int | None
    read_request_bytes: int | None
    redirects: bool | None
    relaxed_ordering: bool | None


def decode(config: bytes) -> Way:
    """Read a device's configuration space; what it is too short for is None."""
    express = _capability(config)
    if express is None:
        return Way(None, None, None, None)
    flags, control = (struct.unpack_from("<H", config, express + offset)[0] for offset in (2, 8))
    acs = _extended(config)
    redirects = None if len(config) <= _FIRST_EXTENDED else False
    if acs is not None:
        redirects = bool(struct.unpack_from("<H", config, acs + 6)[0] & _REDIRECTS)
    relaxed = bool(control & _RELAXED_ORDERING)
    return Way((flags >> 4) & 0xF, 128 << ((control >> 12) & 7), redirects, relaxed)


def findings(root: str, ports: t.Mapping[str, str]) -> list[str]:
    """Return what slows down the ports of rails.

    Args:
        root: `/`, or a folder that looks like it.
        ports: Netdev to the name of its rail.
    """
    told = []
    reads: dict[str, int | None] = {}
    cards: dict[str, str] = {}
    unordered = []
    functions = _functions(root)
    gpus = any(vendor == _NVIDIA and kind.startswith("0x03") for vendor, _device, kind in functions)
    data_direct = any(vendor == _MELLANOX and device == _DATA_DIRECT for vendor, device, _kind in functions)
    for netdev, rail in ports.items():
        folder = pci_folder(os.path.realpath(os.path.join(root, "sys/class/net", netdev, "device")))
        if folder is None:
            continue
        port = decode(_config(folder))
        reads[rail] = port.read_request_bytes
        if os.path.isdir(os.path.join(folder, "infiniband")):
            cards[rail] = os.path.basename(folder)
            if port.relaxed_ordering is False:
                unordered.append(rail)
        group = files.read(os.path.join(folder, "iommu_group/type"))
        if group is not None and group.startswith("DMA"):
            told.append(
                f"{rail} ({netdev}): the IOMMU translates the addresses of its DMA ({group}), and GPUDirect "
                "asks for none that does. Fix: iommu=pt on the kernel's command line"
            )
        above = os.path.dirname(folder)
        while gpus and not data_direct and pci_folder(above) == above:
            way = decode(_config(above))
            if way.port_type == _DOWNSTREAM_PORT and way.redirects:
                address = os.path.basename(above)
                told.append(
                    f"{rail} ({netdev}): access control (ACS) of switch port {address} above it sends up to "
                    "the CPU what goes between port and GPU, so that GPUDirect is slow. Fix: the firmware's "
                    f"settings, or pci=disable_acs_redir={address} on the kernel's command line (several "
                    "addresses with ; between them), or at each boot, which Secure Boot forbids: "
                    f"setpci -s {address} ECAP_ACS+0x6.w=0000:{_REDIRECTS:04x}"
                )
            above = os.path.dirname(above)
    if gpus and data_direct:
        told.append(
            "ConnectX-8's DMA functions are there, whose switch ports need access control (ACS) of their own "
            "each, which is not judged here. Fix: `rdma_topo check` of rdma-core says what differs, "
            "`rdma_topo write-grub-acs` sets it"
        )
    return told + _read_findings(reads, cards) + _order_findings(unordered, cards) + _rshim_findings(root)


def _rshim_findings(root: str) -> list[str]:
    named = [
        *(os.path.join("/dev", name) for name in _names(root, "dev") if _RSHIM.match(name)),
        *(name for name in _names(root, "sys/class/net") if _TMFIFO.match(name)),
    ]
    if not named:
        return []
    return [
        f"this host reaches the Arm side of a BlueField through RShim ({', '.join(named)}): who is root here "
        "can replace the DPU's software. Where root on this host is not trusted (tenants), fix on the DPU: "
        "`mlxprivhost -d DEVICE r --disable_rshim` and a power cycle; otherwise leave it"
    ]


def _names(root: str, folder: str) -> list[str]:
    return node_files.list_names(os.path.join(root, folder))


def _order_findings(unordered: t.Sequence[str], cards: t.Mapping[str, str]) -> list[str]:
    if not unordered:
        return []
    named = ", ".join(f"{rail} ({cards[rail]})" for rail in unordered)
    return [
        f"relaxed ordering is forbidden to {named} (lspci: RlxdOrd-), so that writes to a GPU's memory wait "
        "for one another. Fix: the firmware's PCI Express settings, or at each boot, which Secure Boot "
        f"forbids: setpci -s {cards[unordered[0]]} CAP_EXP+8.w={_RELAXED_ORDERING:04x}:"
        f"{_RELAXED_ORDERING:04x}; where the kernel has forbidden it for the root port above, leave it"
    ]


def _read_findings(reads: t.Mapping[str, int | None], cards: t.Mapping[str, str]) -> list[str]:
    known = {rail: size for rail, size in reads.items() if size is not None}
    told = ", ".join(f"{rail} {size}" for rail, size in known.items())
    if any(size < _SMALLEST_USUAL_READ_BYTES for size in known.values()):
        return [
            f"MaxReadReq, the bytes that a port reads from memory at once, is small: {told}. "
            "Fix: the firmware's PCI Express settings"
        ]
    if len(set(known.values())) > 1:
        return [f"MaxReadReq, the bytes that a port reads from memory at once, differs between rails: {told}"]
    # Of cards with RDMA alone: a virtual machine's port has what its host gives it.
    small = {rail: size for rail, size in known.items() if rail in cards and size < _LARGEST_READ_BYTES}
    if small:
        rail = next(iter(small))
        return [
            f"MaxReadReq, the bytes that a port reads from memory at once, is {small[rail]} on "
            f"{', '.join(small)}; guides for such cards ask for {_LARGEST_READ_BYTES}. Fix: the firmware's "
            "PCI Express settings, or at each boot, which Secure Boot forbids: "
            f"setpci -s {cards[rail]} CAP_EXP+8.w=5000:7000"
        ]
    return []


def _functions(root: str) -> list[tuple[str, str, str]]:
    """Return vendor, device and class of each function on the bus."""
    bus = os.path.join(root, "sys/bus/pci/devices")
    return [
        (
            files.read(os.path.join(bus, address, "vendor")) or "",
            files.read(os.path.join(bus, address, "device")) or "",
            files.read(os.path.join(bus, address, "class")) or "",
        )
        for address in (os.listdir(bus) if os.path.isdir(bus) else ())
    ]


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
