# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node with NVIDIA GPUs, fabricated: files as kernel, depmod, dpkg and DKMS lay them out, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts as gpu_facts

from support.nodes.sysfs_tree import Tree

KERNEL = "6.1.0-28-amd64"
# /proc/driver/nvidia/version of the two flavours, by the format in the driver's nv-procfs.c.
PROPRIETARY_535 = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n"
    "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)"
)
OPEN_580 = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (root@node)  "
    "Tue Sep 23 10:11:16 UTC 2025\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14)"
)
_HEADER = (
    "pci.bus_id, uuid, name, persistence_mode, power.limit [W], power.default_limit [W], "
    "power.max_limit [W], mig.mode.current, mig.mode.pending, ecc.mode.current, ecc.mode.pending, "
    "clocks.applications.graphics [MHz], clocks.applications.memory [MHz], "
    "clocks.max.graphics [MHz], clocks.max.memory [MHz]\n"
)
A100_ROW = (
    "00000000:17:00.0, GPU-0a1b2c3d-0000-1111-2222-333344445555, NVIDIA A100-SXM4-80GB, Enabled, "
    "350.00 W, 400.00 W, 400.00 W, Enabled, Disabled, Enabled, Enabled, "
    "1275 MHz, 1593 MHz, 1410 MHz, 1593 MHz\n"
)
V100_ROW = (
    "00000000:89:00.0, GPU-ffffffff-0000-1111-2222-333344445555, Tesla V100-SXM2-16GB, Disabled, "
    "300.00 W, 300.00 W, 300.00 W, [N/A], [N/A], Disabled, Enabled, [Not Supported], "
    "877 MHz, 1530 MHz, 877 MHz\n"
)
CSV = _HEADER + A100_ROW + V100_ROW


class GpuNode(Tree):
    """A tree with PCI functions and NVIDIA's driver, and what the tools on it answer."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        (root / "var/lib/dpkg/info").mkdir(parents=True)
        self.write("proc/sys/kernel/osrelease", KERNEL)
        self.log("Linux version 6.1.0-28-amd64")
        self.modinfo: dict[str, str] = {}
        self.answers: dict[str, str] = {"dpkg-query": ""}
        self.asked: list[list[str]] = []

    def function(self, address: str, device: int, kind: str = "0x030200", vendor: int = 0x10DE) -> Path:
        """Put a PCI function on the bus."""
        folder = self.root / "sys/bus/pci/devices" / address
        folder.mkdir(parents=True)
        (folder / "vendor").write_text(f"0x{vendor:04x}\n")
        (folder / "device").write_text(f"0x{device:04x}\n")
        (folder / "class").write_text(f"{kind}\n")
        (folder / "numa_node").write_text("1\n")
        return folder

    def log(self, *texts: str, first: int = 0) -> None:
        """Write the kernel's log, as /dev/kmsg gives its records; `first` is the number of the first one."""
        records = (f"6,{first + place},{place * 10**6},-;{text}" for place, text in enumerate(texts))
        self.write("dev/kmsg", "\n".join(records))

    def load(self, version: str, text: str) -> None:
        """Load the module."""
        self.write("sys/module/nvidia/version", version)
        self.write("proc/driver/nvidia/version", text)

    def install(
        self, version: str, licence: str, kernel: str = KERNEL, name: str = "nvidia.ko", signer: str = ""
    ) -> str:
        """Install a module that depmod knows; return its path."""
        path = f"lib/modules/{kernel}/updates/dkms/{name}"
        companion = f"updates/dkms/{name.replace('.ko', '-uvm.ko')}: updates/dkms/{name}"
        lines = f"updates/dkms/{name}:\n{companion}\nkernel/fs/ext4.ko:"
        self.write(f"lib/modules/{kernel}/modules.dep", lines)
        (self.root / f"lib/modules/{kernel}/build").mkdir(exist_ok=True)
        full = str(self.root / path)
        self.modinfo[full] = (
            f"filename:       {full}\nversion:        {version}\nlicense:        {licence}\n"
            + (f"signer:         {signer}\n" if signer else "")
            + f"vermagic:       {kernel} SMP preempt mod_unload modversions\n"
        )
        return full

    def run(self, argv: Any) -> str | None:
        """Answer as the tool would; None: there is no such tool."""
        self.asked.append(list(argv))
        if argv[0] == "modinfo":
            return self.modinfo.get(argv[1], f"modinfo: ERROR: Module {argv[1]} not found.")
        return self.answers.get(argv[0])

    def facts(self) -> dict[str, Any]:
        """Read the node."""
        return gpu_facts.collect(self.reader(), self.run, str(self.root))
