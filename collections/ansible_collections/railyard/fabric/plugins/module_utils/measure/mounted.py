# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the mount of a storage test and the drives below it."""

from __future__ import annotations

from typing import Any

from ..facts import block_device
from ..facts.block_device import Mount
from ..facts.sysfs import Reader
from .node_tool import NodeToolSession


def find(session: NodeToolSession, reader: Reader) -> tuple[Mount, dict[str, Any]]:
    """Return the mount and `block_device.describe` of its device.

    Raises:
        MeasurementError: `storage_not_mounted`; `storage_no_device` where there is no block device below it,
            or a file or memory while the inventory declares hardware.
    """
    host, path = session.own.host, str(session.subject)
    mount = block_device.mount_at(reader, path)
    if mount is None:
        raise session.own.error(
            "storage_not_mounted", f"nothing is mounted at {path} of {host}",
            f"mount it (findmnt {path}; /etc/fstab), or remove it from fabric_policy.storage_mounts",
        )  # fmt: skip
    info = block_device.describe(reader, mount.device)
    soft = [disk["name"] for disk in info["disks"] if not disk["hardware"]]
    what = ""
    if block_device.moved_bytes(reader, mount.device) is None:
        what = "no block device"
    elif soft and session.node_class == "hardware":
        what = f"{' and '.join(soft)}, which is not a physical drive"
    if what:
        raise session.own.error(
            "storage_no_device", f"{path} of {host} is {mount.filesystem} on {what}",
            "name a mount that is on a drive of this node",
        )  # fmt: skip
    return mount, info
