# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's facts about an RDMA device: type, driver, firmware, bus address, DPU mode."""

from __future__ import annotations

import os
import re
from typing import Any

from . import pcie
from .sysfs import Reader, numa_node, real_device

_IWARP = "RNIC"
# Devices of hypervisors, which report no real line rate.
_PARAVIRTUAL_DRIVERS = frozenset(("vmw_pvrdma",))
_NVIDIA_NETWORKING = "0x15b3"
# Network functions of BlueField, from the driver's table of PCI device numbers (mlx5_core).
_BLUEFIELD = {"0xa2d2": 1, "0xa2d6": 2, "0xa2dc": 3, "0xa2df": 4}
_PHYSICAL_PORT = re.compile(r"p[0-9]+\Z")
_KERNEL = re.compile(r"([0-9]+)\.([0-9]+)")
# From this kernel on mlx5_core certainly gives a physical port the name *and*, where the function manages the
# embedded switch, the switch id; kernels between 5.7 and this one may give the name alone.
_NAMES_THE_SWITCH = (5, 15)


def numbered(text: str | None) -> str | None:
    """Drop the number before a name: `4: ACTIVE`, `1: CA`."""
    return re.sub(r"\A[0-9]+: *", "", text) if text else None


def _driver(reader: Reader, folder: str, node_type: str | None) -> tuple[str | None, str]:
    """Return the driver and its class.

    Only Soft-RoCE has the attribute `parent`. Soft-iWARP has no attribute of its own: it is the RNIC without
    the attributes for card or firmware that an adapter's driver has (irdma only has firmware, erdma none).
    Older kernels put both below their netdev's device, so a `device` link means nothing.
    """
    if reader.text(os.path.join(folder, "parent")):
        return "rxe", "software"
    driver = reader.link_name(os.path.join(folder, "device", "driver"))
    marks = ("hca_type", "hw_rev", "board_id", "fw_ver")
    named = any(reader.text(os.path.join(folder, one)) for one in marks)
    if node_type == _IWARP and not named and driver != "erdma":
        return "siw", "software"
    return driver, "software" if driver in _PARAVIRTUAL_DRIVERS else "hardware"


def driver_of(reader: Reader, device: str) -> str | None:
    """Return the kernel driver of an RDMA device, None where sysfs names none."""
    folder = reader.sys("class", "infiniband", device)
    return _driver(reader, folder, numbered(reader.text(os.path.join(folder, "node_type"))))[0]


def read_device(reader: Reader, device: str) -> dict[str, Any]:
    """Return what all ports of an RDMA device share.

    Args:
        reader: Where sysfs is.
        device: RDMA device, such as `mlx5_0`.

    Returns:
        Part of the HCA object of the facts row; a software device has neither PCI address nor NUMA node.
    """
    folder = reader.sys("class", "infiniband", device)
    node_type = numbered(reader.text(os.path.join(folder, "node_type")))
    driver, driver_class = _driver(reader, folder, node_type)
    bus = pcie.pci_folder(real_device(reader, folder)) if driver not in ("rxe", "siw") else None
    return {
        "node_type": node_type,
        "driver": driver,
        "driver_class": driver_class,
        "pci": os.path.basename(bus) if bus else None,
        "pci_path": pcie.path(reader, bus),
        "numa_node": numa_node(reader, bus),
        "firmware": reader.text(os.path.join(folder, "fw_ver")),
        "node_guid": reader.text(os.path.join(folder, "node_guid")),
        "board_id": reader.text(os.path.join(folder, "board_id")),
        "hca_type": reader.text(os.path.join(folder, "hca_type")),
    }


def dpu_mode(reader: Reader, device: str, netdev: str | None) -> str | None:
    """Return whether a BlueField works as an adapter (`nic`) or under its Arm system (`dpu`).

    The mode is a firmware setting that the host can only read with a vendor's program; management functions
    (c2d2 ... c2d5) are visible in both modes. sysfs shows which side manages the embedded switch: mlx5_core
    gives a physical function's port a switch id only where the function is the switch's manager, which in DPU
    mode is the Arm side (drivers/net/ethernet/mellanox/mlx5/core/en/devlink.c, MLX5_ESWITCH_MANAGER). Taken
    from the driver's source, not verified on hardware.

    Args:
        reader: Where sysfs and procfs are.
        device: RDMA device.
        netdev: The port's netdev; InfiniBand ports do not have the id.

    Returns:
        `dpu`, `nic`, or None where it is unknown or the device is no BlueField.
    """
    bus = real_device(reader, reader.sys("class", "infiniband", device))
    if bus is None or not netdev:
        return None
    if reader.text(os.path.join(bus, "vendor")) != _NVIDIA_NETWORKING:
        return None
    if (reader.text(os.path.join(bus, "device")) or "").lower() not in _BLUEFIELD:
        return None
    folder = reader.sys("class", "net", netdev)
    # A virtual function or a VLAN of the port has no physical port name; then a missing id means nothing.
    if real_device(reader, folder) != bus:
        return None
    if not _PHYSICAL_PORT.match(reader.text(os.path.join(folder, "phys_port_name")) or ""):
        return None
    switch_id = os.path.join(folder, "phys_switch_id")
    if reader.text(switch_id):
        return "nic"
    # The kernel answers EOPNOTSUPP for a port without a switch; no such file is no answer.
    if not os.path.exists(switch_id):
        return None
    kernel = _KERNEL.match(reader.text(reader.proc("sys", "kernel", "osrelease")) or "")
    if kernel is None or (int(kernel.group(1)), int(kernel.group(2))) < _NAMES_THE_SWITCH:
        return None
    return "dpu"
