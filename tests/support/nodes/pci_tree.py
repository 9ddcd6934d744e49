# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build the PCI part of sysfs: devices below ports below switches, with their links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.nodes.sysfs_tree import Tree

GEN3, GEN4, GEN5 = "8.0 GT/s PCIe", "16.0 GT/s PCIe", "32.0 GT/s PCIe"


class PciTree(Tree):
    """A node whose devices hang below ports and switches."""

    def chain(self, bridge: str, *devices: tuple[Any, ...]) -> Path:
        """Make devices, each below the one before it, below a host bridge; return the folder of the last.

        Args:
            bridge: the host bridge below /sys/devices, such as `pci0000:15`.
            devices: of each address, speed (None: no files of the link), lanes at most, and then, in any
                order, lanes as trained and further files. One that is there is not changed.
        """
        folder = self.root / "sys/devices" / bridge
        for address, speed, lanes, *more in devices:
            folder = folder / address
            if folder.exists():
                continue
            folder.mkdir(parents=True)
            trained = next((one for one in more if isinstance(one, int)), lanes)
            files = {"max_link_speed": speed, "current_link_speed": speed}
            files |= {"max_link_width": lanes, "current_link_width": trained}
            for given in (one for one in more if isinstance(one, dict)):
                files |= given
            for name, text in files.items():
                if text is not None:
                    (folder / name).write_text(f"{text}\n")
        return folder

    def on_the_bus(self, folder: Path) -> None:
        """List a device among those of the bus."""
        self.link(f"sys/bus/pci/devices/{folder.name}", folder)
