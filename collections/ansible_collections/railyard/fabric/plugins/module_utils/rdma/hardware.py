# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List a node's RDMA NICs by their PCI ids, without any driver."""

from __future__ import annotations

import os
import typing as t

from ..facts.sysfs import Reader

VENDOR = "15b3"

# Device id → generation, by the vendor's names. The ids are in the tables of the kernel's drivers:
# mlx4_pci_table in drivers/net/ethernet/mellanox/mlx4/main.c, mlx5_core_pci_table in .../mlx5/core/main.c (as
# of ConnectX-9). 1004 and 101e are virtual functions that several generations share: the oldest is named.
GENERATIONS = {
    "1003": "ConnectX-3",
    "1004": "ConnectX-3",
    "1007": "ConnectX-3 Pro",
    "1011": "Connect-IB",
    "1012": "Connect-IB",
    "1013": "ConnectX-4",
    "1014": "ConnectX-4",
    "1015": "ConnectX-4 Lx",
    "1016": "ConnectX-4 Lx",
    "1017": "ConnectX-5",
    "1018": "ConnectX-5",
    "1019": "ConnectX-5 Ex",
    "101a": "ConnectX-5 Ex",
    "101b": "ConnectX-6",
    "101c": "ConnectX-6",
    "101d": "ConnectX-6 Dx",
    "101e": "ConnectX-6 Dx",
    "101f": "ConnectX-6 Lx",
    "1021": "ConnectX-7",
    "1023": "ConnectX-8",
    "1025": "ConnectX-9",
    "a2d2": "BlueField",
    "a2d3": "BlueField",
    "a2d6": "BlueField-2",
    "a2dc": "BlueField-3",
    "a2df": "BlueField-4",
}
# The ids in mlx4's table; the others are mlx5's.
_MLX4 = ("1003", "1004", "1007")
# PCI classes of a NIC's network functions: InfiniBand, Ethernet and "other" network controllers. A BlueField
# also has management and DMA functions, with ids that are not in the table above.
_NETWORK_CLASS = "0x02"


class Card(t.NamedTuple):
    """A function of a NIC on the PCI bus.

    Attributes:
        pci: Its address.
        pci_id: Vendor and device, as `lspci -n` prints them.
        generation: None where the table does not have the id.
        driver: The current driver, or None.
        firmware: The firmware of its RDMA device; None without RDMA device.
        psid: The board's id for firmware images; None without RDMA device.
    """

    pci: str
    pci_id: str
    generation: str | None
    driver: str | None
    firmware: str | None
    psid: str | None = None


def read_cards(reader: Reader) -> list[Card]:
    """Return the network functions of the vendor's NICs, in the order of their addresses."""
    cards = []
    folder = reader.sys("bus", "pci", "devices")
    for pci in reader.names(folder):
        path = os.path.join(folder, pci)
        vendor = (reader.text(os.path.join(path, "vendor")) or "")[2:].lower()
        kind = reader.text(os.path.join(path, "class")) or ""
        if vendor != VENDOR or not kind.startswith(_NETWORK_CLASS):
            continue
        number = (reader.text(os.path.join(path, "device")) or "")[2:].lower()
        devices = reader.names(os.path.join(path, "infiniband"))
        device = os.path.join(path, "infiniband", devices[0]) if devices else None
        firmware = reader.text(os.path.join(device, "fw_ver")) if device else None
        psid = reader.text(os.path.join(device, "board_id")) if device else None
        driver = reader.link_name(os.path.join(path, "driver"))
        cards.append(Card(pci, f"{vendor}:{number}", GENERATIONS.get(number), driver, firmware, psid))
    return cards


def needed_modules(cards: t.Iterable[Card]) -> list[str]:
    """Return the kernel modules for the NICs."""
    return sorted({"mlx4_core" if card.pci_id.rpartition(":")[2] in _MLX4 else "mlx5_core" for card in cards})
