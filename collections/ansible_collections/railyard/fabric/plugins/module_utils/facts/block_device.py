# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the drives below a mounted file system, by sysfs and mountinfo, and their kernel counters."""

from __future__ import annotations

import fnmatch
import os
import re
from typing import Any, NamedTuple

from . import pcie
from .sysfs import Reader

# Documentation/admin-guide/iostats.rst: sectors of 512 bytes, whatever the drive uses.
SECTOR_BYTES = 512
_READ_SECTORS, _WRITTEN_SECTORS = 2, 6
_OCTAL = re.compile(r"\\([0-7]{3})")
# With native multipath (drivers/nvme/host/core.c and multipath.c) the namespace is below its subsystem, which
# has a link to each controller, and below each controller with a path to it is `nvme0c1n1`.
_CONTROLLER = re.compile(r"nvme([0-9]+)\Z")
_NAMESPACE = re.compile(r"nvme([0-9]+)(n[0-9]+)\Z")
_LIVE = "live"
# The most levels of device mapper and RAID; usual are two or three.
_MOST_LAYERS = 8


class Mount(NamedTuple):
    """A line of mountinfo: path, type, and device as `major:minor`."""

    path: str
    filesystem: str
    device: str


def mount_at(reader: Reader, path: str) -> Mount | None:
    """Return the mount at exactly this path; the last of several on top of each other."""
    found = None
    try:
        with open(reader.proc("self", "mountinfo"), encoding="utf-8", errors="surrogateescape") as handle:
            for line in handle:
                fields, _dash, after = line.partition(" - ")
                words = fields.split()
                if len(words) > 4 and _unescaped(words[4]) == path:
                    found = Mount(path, after.split(" ", maxsplit=1)[0], words[2])
    except OSError:
        return None
    return found


def moved_bytes(reader: Reader, device: str) -> tuple[int, int] | None:
    """Return the bytes read from and written to a device since boot; None if it is no block device.

    Args:
        reader: reads below sysfs.
        device: `major:minor`, of a partition or a whole device.
    """
    words = (reader.text(reader.sys("dev", "block", device, "stat")) or "").split()
    try:
        return int(words[_READ_SECTORS]) * SECTOR_BYTES, int(words[_WRITTEN_SECTORS]) * SECTOR_BYTES
    except (IndexError, ValueError):
        return None


def describe(reader: Reader, device: str) -> dict[str, Any]:
    """Return a block device's name, and the disks below it.

    Returns:
        `name`; `disks`, each with `name`, `model`, `size_bytes`, `rotational`, `state`, `bus` (`nvme`,
        `scsi`, `virtio`), `pcie` (`pcie.own_link`), all but the name None where unknown, and `hardware`:
        whether it has a bus device, as a physical or virtual drive has, but not a file or memory. For an NVMe
        drive with several paths `state` and `pcie` are those of the worst path.
    """
    folder = os.path.realpath(reader.sys("dev", "block", device))
    return {"name": os.path.basename(folder), "disks": _disks(reader, folder, 0)}


def _disks(reader: Reader, folder: str, depth: int) -> list[dict[str, Any]]:
    if os.path.exists(os.path.join(folder, "partition")):
        folder = os.path.dirname(folder)
    below = reader.names(os.path.join(folder, "slaves"))
    if below and depth < _MOST_LAYERS:
        found: dict[str, dict[str, Any]] = {}
        for name in below:
            real = os.path.realpath(os.path.join(folder, "slaves", name))
            found.update({disk["name"]: disk for disk in _disks(reader, real, depth + 1)})
        return list(found.values())
    link = os.path.join(folder, "device")
    hardware = os.path.exists(link)
    controllers = _controllers(reader, os.path.basename(folder), os.path.realpath(link)) if hardware else []
    sectors = reader.number(os.path.join(folder, "size"))
    rotational = reader.number(os.path.join(folder, "queue", "rotational"))
    return [
        {
            "name": os.path.basename(folder),
            "model": reader.text(os.path.join(link, "model")),
            "size_bytes": None if sectors is None else sectors * SECTOR_BYTES,
            "rotational": None if rotational is None else bool(rotational),
            "state": _worst_state([reader.text(os.path.join(one, "state")) for one in controllers]),
            "bus": _bus(link) if hardware else None,
            "pcie": _worst_link(
                [pcie.own_link(pcie.path(reader, pcie.pci_folder(one))) for one in controllers]
            ),
            "hardware": hardware,
        }
    ]


def _controllers(reader: Reader, disk: str, device: str) -> list[str]:
    """Return the folders of a disk's device, or of an NVMe subsystem's controllers."""
    names = [name for name in reader.names(device) if _CONTROLLER.match(name)]
    found = _NAMESPACE.match(disk)
    if not names or found is None:
        return [device]
    folders = {name: os.path.realpath(os.path.join(device, name)) for name in names}
    # A subsystem may have controllers to which this namespace is not attached.
    path = "nvme{}c*{}".format(*found.groups())
    reaching = [one for one in folders.values() if fnmatch.filter(reader.unsorted_names(one), path)]
    return reaching or list(folders.values())


def _bus(link: str) -> str | None:
    subsystem = os.path.join(link, "subsystem")
    if not os.path.exists(subsystem):
        return None
    return os.path.basename(os.path.realpath(subsystem)).replace("nvme-subsystem", "nvme")


def _worst_state(states: list[str | None]) -> str | None:
    return next((state for state in states if state not in (None, _LIVE)), states[0] if states else None)


def _worst_link(links: list[dict[str, Any] | None]) -> dict[str, Any] | None:
    """Return the link that is furthest below its maximum; the first where none is below."""

    def share(link: dict[str, Any]) -> float:
        pairs = ((link[key], link[f"max_{key}"]) for key in ("speed_gts", "width"))
        return min((now / most for now, most in pairs if now and most), default=1.0)

    return min((link for link in links if link is not None), key=share, default=None)


def _unescaped(word: str) -> str:
    return _OCTAL.sub(lambda found: chr(int(found.group(1), 8)), word)
