# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A mount's drives are found through partition, device mapper and RAID; a file or memory is no drive."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import block_device
from ansible_collections.railyard.fabric.plugins.module_utils.facts.block_device import Mount
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from support.nodes.files import write

# Of a kernel 6.1: 8 sectors read, 2056 written; fields as Documentation/admin-guide/iostats.rst has them.
STAT = "   1  0  8  3  7  2  2056  9  0  12  12  0 0 0 0 4 2\n"
NVME = "devices/pci0000:00/0000:00:01.0/0000:01:00.0/nvme/nvme0"


def disk(root: Path, name: str, sectors: int = 2000, device: bool = True) -> Path:
    home = root / (NVME if device else "devices/virtual/block")
    folder = home / name
    write(folder, "size", f"{sectors}\n")
    write(folder, "queue/rotational", "0\n")
    write(folder, "stat", STAT)
    if device:
        write(home, "model", "FAST 9000   \n")
        write(home, "state", "live\n")
        (folder / "device").symlink_to(home)
        known_by(home, "class/nvme")
        link = {"current_link_speed": "8.0 GT/s PCIe", "max_link_speed": "16.0 GT/s PCIe",
                "current_link_width": "4", "max_link_width": "4"}  # fmt: skip
        for port in (home.parents[1], home.parents[2]):
            for key, value in link.items():
                write(port, key, f"{value}\n")
    return folder


def known_by(home: Path, subsystem: str) -> None:
    kind = home.parents[len(home.parts) - home.parts.index("devices") - 1] / subsystem
    kind.mkdir(parents=True, exist_ok=True)
    (home / "subsystem").symlink_to(kind)


def known_as(root: Path, device: str, folder: Path) -> None:
    place = root / "dev/block" / device
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(folder)


def test_a_partition_on_a_raid_of_mapped_drives_names_the_drives(tmp_path: Path) -> None:
    nvme = disk(tmp_path, "nvme0n1")
    write(nvme, "nvme0n1p2/partition", "2\n")
    mapped = disk(tmp_path, "dm-0", device=False)
    raid = disk(tmp_path, "md0", device=False)
    for upper, lower in ((mapped, nvme / "nvme0n1p2"), (raid, mapped)):
        (upper / "slaves").mkdir()
        (upper / "slaves" / lower.name).symlink_to(lower)
    known_as(tmp_path, "9:0", raid)
    told = block_device.describe(Reader(str(tmp_path), str(tmp_path)), "9:0")
    assert told == {
        "name": "md0",
        "disks": [
            {
                "name": "nvme0n1",
                "model": "FAST 9000",
                "size_bytes": 1024000,
                "rotational": False,
                "state": "live",
                "bus": "nvme",
                "pcie": {"speed_gts": 8.0, "max_speed_gts": 16.0, "width": 4.0, "max_width": 4.0},
                "hardware": True,
            }
        ],
    }


def multipath(root: Path, *, attached: tuple[int, ...] = (0, 1), widths: tuple[int, int] = (4, 4)) -> None:
    """Lay out a namespace that the kernel reaches by two controllers, as drivers/nvme/host does.

    Args:
        root: of sysfs.
        attached: the controllers that have a path to it.
        widths: how many lanes of 4 the link of each has.
    """
    subsystem = root / "devices/virtual/nvme-subsystem/nvme-subsys3"
    head = subsystem / "nvme3n1"
    write(head, "size", "2000\n")
    write(subsystem, "model", "FAST 9000\n")
    (head / "device").symlink_to(subsystem)
    known_by(subsystem, "class/nvme-subsystem")
    for number, width in enumerate(widths):
        slot = root / f"devices/pci0000:00/0000:00:0{number}.0"
        home = slot / f"0000:0{number + 1}:00.0/nvme/nvme{number}"
        write(home, "state", "live\n" if width == 4 else "connecting\n")
        for port in (slot, home.parents[1]):
            write(port, "current_link_width", f"{width}\n")
            write(port, "max_link_width", "4\n")
        if number in attached:
            (home / f"nvme3c{number}n1").mkdir()
        (subsystem / f"nvme{number}").symlink_to(home)
    known_as(root, "259:3", head)


@pytest.mark.parametrize(
    ("attached", "widths", "state", "width"),
    [
        ((0, 1), (4, 4), "live", 4.0),
        # The worst path is reported: it is the one to fix.
        ((0, 1), (4, 2), "connecting", 2.0),
        # A controller of the subsystem that this namespace is not attached to is none of its paths.
        ((0,), (4, 2), "live", 4.0),
        ((1,), (4, 2), "connecting", 2.0),
        # A kernel that shows no paths: all of its controllers may be some.
        ((), (4, 2), "connecting", 2.0),
    ],
)
def test_an_nvme_drive_behind_native_multipath_has_the_links_of_its_controllers(
    tmp_path: Path, attached: tuple[int, ...], widths: tuple[int, int], state: str, width: float
) -> None:
    multipath(tmp_path, attached=attached, widths=widths)
    [found] = block_device.describe(Reader(str(tmp_path), str(tmp_path)), "259:3")["disks"]
    assert (found["name"], found["model"], found["bus"]) == ("nvme3n1", "FAST 9000", "nvme")
    assert found["state"] == state
    assert found["pcie"] == {"speed_gts": None, "max_speed_gts": None, "width": width, "max_width": 4.0}


def test_what_no_bus_device_is_behind_is_no_hardware(tmp_path: Path) -> None:
    known_as(tmp_path, "7:0", disk(tmp_path, "loop0", device=False))
    [found] = block_device.describe(Reader(str(tmp_path)), "7:0")["disks"]
    assert (found["name"], found["hardware"], found["pcie"]) == ("loop0", False, None)


def test_bytes_are_counted_in_sectors_of_512(tmp_path: Path) -> None:
    known_as(tmp_path, "259:0", disk(tmp_path, "nvme0n1"))
    reader = Reader(str(tmp_path))
    assert block_device.moved_bytes(reader, "259:0") == (8 * 512, 2056 * 512)
    assert block_device.moved_bytes(reader, "0:42") is None


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/data", Mount("/data", "xfs", "259:1")),
        ("/a b", Mount("/a b", "tmpfs", "0:40")),
        ("/", Mount("/", "ext4", "8:1")),
        ("/data/below", None),
    ],
)
def test_a_mount_is_found_by_its_own_path_the_last_over_others(
    tmp_path: Path, path: str, found: Mount | None
) -> None:
    write(
        tmp_path,
        "self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        "30 22 8:2 / /data rw - ext4 /dev/sda2 rw\n"
        "31 30 259:1 /sub /data rw,relatime shared:9 master:1 - xfs /dev/nvme0n1p1 rw\n"
        "32 22 0:40 / /a\\040b rw - tmpfs none rw\n",
    )
    assert block_device.mount_at(Reader(proc_root=str(tmp_path)), path) == found
