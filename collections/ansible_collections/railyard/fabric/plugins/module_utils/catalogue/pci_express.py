# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What PCI Express links can be, and which devices state links that are none. Data, each with its source."""

from __future__ import annotations

#: What PCI Express has, in GT/s and in lanes; anything else says that the value is not known: "Unknown", a
#: width of 0 of a link that is down, of 255 where the kernel has no capability to read.
SPEEDS_GTS, WIDTHS = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0), (1, 2, 4, 8, 12, 16, 32)
#: Vendors whose bridges and functions are programs of a hypervisor: what they state as a link is made up
#: (pci.ids; Amazon's 1d0f:0200 and EFA in the hwloc trees of ai-dynamo/nixl, QEMU's pcie-root-port
#: 1b36:000c).
VIRTUAL_VENDORS = {
    0x1D0F: "Amazon",
    0x1B36: "Red Hat (QEMU)",
    0x1AF4: "Red Hat (virtio)",
    0x1414: "Microsoft (Hyper-V)",
    0x15AD: "VMware",
    0x5853: "XenSource",
    0x1AE0: "Google",
}
#: Switches that QEMU emulates under the numbers of real chips, which carry 2.5 GT/s x1: no NIC of a server is
#: below such a one (the guest in NVIDIA/nccl issue 1453 has 200G functions of ConnectX-7 below 104c:8232).
VIRTUAL_SWITCHES = frozenset(((0x104C, 0x8232), (0x104C, 0x8233)))
#: Broadcom's switches of PCIe 4.0 and 5.0 show one chip as two levels of switches, and the chip carries all
#: of its ports at full bandwidth: between the two levels there is no link. Device number -> the first
#: hexadecimal digit of the subsystem's number, of upper and lower level (NVIDIA/nccl, src/graph/topo.cc:
#: getBcmGen, ncclTopoFlattenBcmSwitches; the A100 trees of its issues 439 and 1505).
BROADCOM = 0x1000
TWO_LEVELS = {0xC010: (0xA, 0xA), 0xC030: (0x0, 0x1)}
