# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each generation of NVIDIA GPUs can be driven by: data with its source, and look-ups.

Sources, as of November 2026:
    [ids]     pci.ids, snapshot of 2026-08-22: device id and name of the chip.
    [matrix]  docs.nvidia.com/datacenter/tesla/drivers/cuda-toolkit-driver-and-architecture-matrix.html:
              first and last CUDA toolkit and last driver branch of an architecture.
    [modules] docs.nvidia.com/datacenter/tesla/driver-installation-guide/kernel-modules.html: Maxwell, Pascal
              and Volta need the proprietary modules; the open ones are for Turing and newer only.
    [open]    README of NVIDIA's open-gpu-kernel-modules 595.45.04: any Turing or later GPU; its device ids.
    [blog]    "NVIDIA Transitions Fully Towards Open-Source GPU Kernel Modules", 2024-07-17: Grace Hopper and
              Blackwell must use the open modules. Read in reports of it, not on its own page.
    [rdma]    docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-operator-rdma.html: DMA-BUF is
              recommended over nvidia-peermem, nvidia-fs 2.17.5 and newer takes the open modules only. What
              DMA-BUF needs of kernel and toolkit was read in excerpts of it only.
    [fabric]  docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide: NVSwitch systems, their baseboards.
    [notes]   docs.nvidia.com/cuda/cuda-toolkit-release-notes, table "CUDA Toolkit and Corresponding Driver
              Versions": 7.0 346.46, 8.0 367.48, 9.0 384.81, 10.0 410.48, 11.0 450.36, 11.7 515.43,
              11.8 520.61, 12.8 570.26. It begins with 7.0; of 6.0 (331.62) and 6.5 (340.21) others' tables
              were read.
    [archive] docs.nvidia.com/cuda/archive/12.9.1/cuda-features-archive: toolkit 12.9 adds the compute
              capabilities 10.3 and 12.1; it came with R575 (575.51.03).
    [compat]  docs.nvidia.com/deploy/cuda-compatibility/minor-version-compatibility.html, table 1: toolkit
              11.x from driver 450, 12.x from 525, 13.x from 580.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

OPEN = "open"
PROPRIETARY = "proprietary"
FLAVOURS = (OPEN, PROPRIETARY)

DMA_BUF = "dma_buf"
PEERMEM = "nvidia_peermem"
NO_PATH = "none"


@dataclasses.dataclass(frozen=True)
class Generation:
    """What holds for all GPUs of an architecture.

    Attributes:
        name: The architecture's name.
        flavours: Kernel modules that drive it.
        first_branch: First driver branch that knows it.
        last_branch: Last driver branch that drives it; None while there is no end.
        last_cuda_major: Highest major version of the CUDA toolkit that compiles for it; None: no end.
        gpudirect: Ways in which an HCA may reach its memory, the one to prefer first.
    """

    name: str
    flavours: tuple[str, ...]
    first_branch: int
    last_branch: int | None
    last_cuda_major: int | None
    gpudirect: tuple[str, ...]


_OLD = (PROPRIETARY,)
_BOTH = (OPEN, PROPRIETARY)
# First branch: that of the first toolkit of [matrix] by [notes]. Flavours: [modules], [blog]. DMA-BUF needs
# the open modules, hence Turing: [rdma].
GENERATIONS: Mapping[str, Generation] = {
    one.name: one
    for one in (
        # Compute capability 3.5 and 3.7 (GK110, GK210), the last of Kepler: [matrix] CUDA 11.x, R470.
        Generation("Kepler", _OLD, 331, 470, 11, (PEERMEM,)),
        Generation("Maxwell", _OLD, 340, 580, 12, (PEERMEM,)),
        Generation("Pascal", _OLD, 367, 580, 12, (PEERMEM,)),
        # [matrix] CUDA 9.0 to 12.x, R580; 9.0 came with R384: [notes].
        Generation("Volta", _OLD, 384, 580, 12, (PEERMEM,)),
        Generation("Turing", _BOTH, 410, None, None, (DMA_BUF, PEERMEM)),
        # GA100 (8.0) with CUDA 11.0; GA102 and its kin (8.6) came with 11.1, R455.
        Generation("Ampere", _BOTH, 450, None, None, (DMA_BUF, PEERMEM)),
        # Ada and Hopper: [matrix] CUDA 11.8, R520.
        Generation("Ada", _BOTH, 520, None, None, (DMA_BUF, PEERMEM)),
        Generation("Hopper", _BOTH, 520, None, None, (DMA_BUF, PEERMEM)),
        # [matrix] CUDA 12.8, which came with R570.
        Generation("Blackwell", (OPEN,), 570, None, None, (DMA_BUF, PEERMEM)),
    )
}

# Device ids by chip, first to last: [ids]. Other devices in a range (audio, USB, the Tegra's PCIe bridges,
# NVSwitch) are excluded by their PCI class. Rubin (0x3000 to 0x30c0) is left out on purpose: no source has
# the facts above for it, and an unknown chip is an error that names the variable to set.
_DEVICES: Sequence[tuple[int, int, str]] = (
    (0x1001, 0x103F, "Kepler"),  # GK110, GK110B, GK210
    (0x1340, 0x1436, "Maxwell"),  # GM107, GM108, GM204, GM206
    (0x15C2, 0x15FF, "Pascal"),  # GP100
    (0x1613, 0x1676, "Maxwell"),  # GM204
    (0x1725, 0x172F, "Pascal"),  # GP100
    (0x174D, 0x17FD, "Maxwell"),  # GM107, GM108, GM200
    (0x1B00, 0x1D56, "Pascal"),  # GP102 to GP108
    (0x1D81, 0x1DF6, "Volta"),  # GV100
    (0x1E02, 0x1FF9, "Turing"),  # TU102 to TU106, TU117
    (0x2080, 0x20FF, "Ampere"),  # GA100
    (0x2182, 0x21D1, "Turing"),  # TU116
    (0x2200, 0x2291, "Ampere"),  # GA102 to GA107
    (0x2302, 0x23F0, "Hopper"),  # GH100
    (0x2414, 0x25FB, "Ampere"),  # GA103 to GA107
    (0x2681, 0x28F8, "Ada"),  # AD102 to AD107
    (0x2900, 0x2F80, "Blackwell"),  # GB100, GB102, GB202 to GB207, GB20B
    (0x3180, 0x3340, "Blackwell"),  # GB110, GB112, GB120
)

# Hopper beside a Grace CPU: the open modules only, by [blog]. Ids: [ids], [open].
_GRACE_HOPPER = frozenset((0x2342, 0x2345, 0x2348))

# Of a generation, what came later than its first branch: B300 and GB300 (compute capability 10.3),
# [archive]. Ids as above.
_LATER: Sequence[tuple[int, int, int]] = ((0x3180, 0x3340, 575),)

# GPUs that exist on HGX baseboards only, whose NVSwitches are no PCI devices of the node but behind a
# ConnectX-7 bridge: [fabric] section "HGX B200/B100". Ids: [ids] B200, HGX B200 168GB, B300 SXM6. GB200 and
# GB300 are not among them: the switches of their racks are in trays of their own, where the Fabric Manager
# runs.
_BEHIND_BRIDGE = frozenset((0x2901, 0x2909, 0x3182))

# What reaches those switches: the Fabric Manager and NVLSM send management datagrams through
# /dev/infiniband/umad* of the bridge's InfiniBand devices. On an HGX B200 the precheck of
# nvidia-fabricmanager-start.sh failed until ib_umad was loaded, which nothing loads by itself:
# github.com/spectrocloud/CanvOS/pull/700 (2026-07-20).
BRIDGE_MODULES = ("ib_umad",)

# The last branch whose installation guide still offers the proprietary modules; that of 620 has the open ones
# only: driver-installation-guide/610, /615 and /620, kernel-modules.html.
LAST_PROPRIETARY_BRANCH = 615
# Open modules that NVIDIA supports on data centre GPUs: since R515, [modules].
FIRST_OPEN_BRANCH = 515
# "Starting in the 560 driver release series, the open kernel module flavor is the default": [modules].
OPEN_IS_DEFAULT_FROM = 560
# Least branch for a toolkit's major version without its compatibility package: [compat].
CUDA_FIRST_BRANCH: Mapping[int, int] = {11: 450, 12: 525, 13: 580}
# DMA-BUF: Linux 5.12 and CUDA 11.7, which came with R515 ([notes]), as the open modules did: [rdma].
DMA_BUF_FIRST_KERNEL = (5, 12)
# nvidia-peermem is in the driver since R470: [rdma].
PEERMEM_FIRST_BRANCH = 470
# nvidia-fs 2.17.5 and newer: open modules only, [rdma].


def generation_of(device: int) -> str | None:
    """Return the generation of a GPU by its PCI device id; None for one that the table does not know."""
    return next((name for first, last, name in _DEVICES if first <= device <= last), None)


def flavours_of(generation: str, device: int | None = None) -> tuple[str, ...]:
    """Return the kernel modules that drive a GPU; a device may narrow what its generation allows.

    Raises:
        KeyError: No such generation.
    """
    return (OPEN,) if device in _GRACE_HOPPER else GENERATIONS[generation].flavours


def first_branch_of(generation: str, device: int | None = None) -> int:
    """Return the first driver branch that knows a GPU; a device may have come later than its generation.

    Raises:
        KeyError: No such generation.
    """
    later = (branch for first, last, branch in _LATER if device is not None and first <= device <= last)
    return next(later, GENERATIONS[generation].first_branch)


def switches_behind_bridge(device: int) -> bool:
    """Say whether a GPU sits on a baseboard whose NVSwitches show the node no PCI function of their own."""
    return device in _BEHIND_BRIDGE
