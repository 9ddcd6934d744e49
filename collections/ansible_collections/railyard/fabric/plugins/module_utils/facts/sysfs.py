# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read small kernel files below a root, so that a test can build the tree it needs.

Nothing here raises for errors of kernel files: an unreadable one is None and, unless that is normal, a line
in `warnings`.
"""

from __future__ import annotations

import errno
import functools
import os
import re

# Errors of kernel files when a value does not exist now: no such attribute, link down (`speed`, `carrier`),
# empty slot of the GID table, or a device without this operation.
_ORDINARY = frozenset(
    (errno.ENOENT, errno.EINVAL, errno.ENOTDIR, errno.ENODATA, errno.EOPNOTSUPP, errno.ENOTTY, errno.ENODEV)
)
_GUEST = re.compile(r"^flags\s*:.*\bhypervisor\b", re.M)
#: A file of sysfs has at most a page, which may be 64 KiB on arm64; larger ones are no values.
LARGEST_BYTES = 65536
_PAGE_BYTES = 4096
# Characters that no value has. Names may have other letters (the model of a drive), so only these are
# rejected.
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")
_INTEGER = re.compile(r"[-+]?(?:0x[0-9a-f]{1,32}|[0-9]{1,39})\Z", re.I)
#: A PCI address as sysfs writes it; domains beyond 0xffff have more digits (Intel VMD, Hyper-V).
PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


class Reader:
    """Reads text, numbers, names and links; collects what could not be read.

    Attributes:
        sys_root: Where sysfs is mounted.
        proc_root: Where procfs is mounted.
        etc_root: Where `os-release` is.
        warnings: One sentence per file that exists and could not be read.
    """

    def __init__(self, sys_root: str = "/sys", proc_root: str = "/proc", etc_root: str = "/etc") -> None:
        """Set the roots; nothing is read yet."""
        self.sys_root = sys_root
        self.proc_root = proc_root
        self.etc_root = etc_root
        self.warnings: list[str] = []

    @property
    def live(self) -> bool:
        """Whether this is the running kernel's sysfs, so that ioctls and libraries show the same links."""
        return self.sys_root == "/sys"

    @functools.cached_property
    def is_guest(self) -> bool:
        """Whether the CPU reports a hypervisor (x86 only)."""
        return bool(_GUEST.search(self.text(self.proc("cpuinfo"), whole=False) or ""))

    def sys(self, *parts: str) -> str:
        """Return a path in sysfs."""
        return os.path.join(self.sys_root, *parts)

    def proc(self, *parts: str) -> str:
        """Return a path in procfs."""
        return os.path.join(self.proc_root, *parts)

    def _failed(self, path: str, problem: OSError) -> None:
        if problem.errno not in _ORDINARY:
            self.warnings.append(f"{path}: {problem.strerror or problem}")

    def text(self, path: str, whole: bool = True) -> str | None:
        """Return a file's text without surrounding blanks; None when it cannot be read or is empty.

        Args:
            path: The file.
            whole: Whether a file of more than `LARGEST_BYTES` is no value; else its beginning is returned.
        """
        data = self.data(path, LARGEST_BYTES if whole else None)
        if data is None:
            return None
        # Some drivers pad a name with NULs.
        data = data.strip(b"\x00 \t\r\n")
        if _NO_TEXT.search(data):
            self.warnings.append(f"{path}: {data[:40]!r} is no text")
            return None
        return data.decode("utf-8", errors="replace").strip() or None

    def data(self, path: str, most_bytes: int | None = None) -> bytes | None:
        """Return a file's bytes; None when it cannot be read.

        Args:
            path: The file.
            most_bytes: A file of more bytes is no value; None for the beginning of any file.
        """
        most = LARGEST_BYTES if most_bytes is None else most_bytes
        try:
            # Without Python's file object: a node has thousands of such files (an rxe port's GID table has
            # 1024 entries), each read once.
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(handle, most + 1)
                # The kernel returns a binary attribute one page at a time.
                while data and len(data) <= most and len(data) % _PAGE_BYTES == 0:
                    more = os.read(handle, most + 1 - len(data))
                    if not more:
                        break
                    data += more
            finally:
                os.close(handle)
        except OSError as problem:
            self._failed(path, problem)
            return None
        if most_bytes is not None and len(data) > most_bytes:
            self.warnings.append(f"{path}: it is larger than {most_bytes} bytes")
            return None
        return data

    def number(self, path: str) -> int | None:
        """Return a decimal or 0x number; None when there is none (with a warning for other text)."""
        text = self.text(path)
        if text is None:
            return None
        if not _INTEGER.match(text):
            self.warnings.append(f"{path}: {text[:40]!a} is not a number")
            return None
        return int(text, 16) if "x" in text.lower() else int(text)

    def names(self, path: str) -> list[str]:
        """Return the sorted names in a folder; an empty list when there is no such folder."""
        return sorted(self.unsorted_names(path), key=natural)

    def unsorted_names(self, path: str) -> list[str]:
        """Return the names in a folder in any order; an empty list when there is no such folder."""
        try:
            return os.listdir(path)
        except OSError as problem:
            self._failed(path, problem)
            return []

    def link_name(self, path: str) -> str | None:
        """Return the last part of where a symbolic link points to."""
        try:
            return os.path.basename(os.readlink(path)) or None
        except OSError as problem:
            self._failed(path, problem)
            return None


def natural(name: str) -> list[tuple[int, int, str]]:
    """Sort key by which `mlx5_2` comes before `mlx5_10`."""
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"([0-9]+)", name)]


def real_device(reader: Reader, netdev_or_hca_folder: str) -> str | None:
    """Return the real path of the bus device behind a class folder, or None for a software one."""
    link = os.path.join(netdev_or_hca_folder, "device")
    return os.path.realpath(link) if os.path.exists(link) else None


def numa_node(reader: Reader, folder: str | None) -> int | None:
    """Return the NUMA node of a PCI device; the kernel's -1 means that the firmware does not set it."""
    node = reader.number(os.path.join(folder, "numa_node")) if folder else None
    return node if node is not None and node >= 0 else None
