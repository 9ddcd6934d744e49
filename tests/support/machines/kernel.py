# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answer for the kernel where it is queried by other means than files: ioctls, errors of files, libibverbs.

The product is not changed for it: within `running` the ioctl of ethtool, the opening of a file whose data
says `errno`, and libibverbs answer for the machine. Structures are those of linux/ethtool.h.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import fcntl
import os
import struct
from collections.abc import Iterator
from typing import Any
from unittest import mock

from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool, sysfs, verbs

from support.machines.fields import DataError
from support.machines.tree import Tree

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO, _GLINKSETTINGS = 0x1B, 0x1D, 0x37, 0x4C
_MODE_WORDS = 4
_NAME_BYTES = 32


class Machine:
    """What a node's kernel answers."""

    def __init__(self, tree: Tree, path: str) -> None:
        """Remember the node's files, and the folders of its programs."""
        self._tree = tree
        self._path = path
        self._ioctl = fcntl.ioctl

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let this process be on the node."""
        opened, os_opened = builtins.open, os.open

        def open_file(file: Any, *args: Any, **options: Any) -> Any:
            self._refuse(file)
            return opened(file, *args, **options)

        def open_handle(path: Any, *args: Any, **options: Any) -> int:
            self._refuse(path)
            return os_opened(path, *args, **options)

        with (
            mock.patch.object(fcntl, "ioctl", self._answer),
            mock.patch.object(builtins, "open", open_file),
            mock.patch.object(os, "open", open_handle),
            mock.patch.object(verbs, "query", self._mtus),
            mock.patch.object(sysfs.Reader, "live", True),
            mock.patch.dict(os.environ, {"PATH": self._path}),
        ):
            yield

    def _refuse(self, path: object) -> None:
        number = self._tree.errors.get(path) if isinstance(path, str) else None
        if number is not None:
            raise OSError(number, os.strerror(number), path)

    def _mtus(self, ports: Any, *_options: Any) -> dict[tuple[str, int], verbs.Mtu]:
        return {
            (name, int(number)): verbs.Mtu(port.active_mtu_bytes, port.max_mtu_bytes)
            for name, device in self._tree.node.rdma.items()
            for number, port in device.ports.items()
            if (name, int(number)) in ports and port.max_mtu_bytes is not None
        }

    def _answer(self, handle: Any, request: int, argument: Any = 0, *more: Any) -> Any:
        if request != _SIOCETHTOOL:
            return self._ioctl(handle, request, argument, *more)
        name, address = struct.unpack_from("16sP", argument)
        netdev = self._tree.node.netdevs.get(name.rstrip(b"\0").decode())
        if netdev is None:
            raise OSError(19, "No such device")
        command = struct.unpack("=I", ctypes.string_at(address, 4))[0]
        statistics = self._tree.ethtool[name.rstrip(b"\0").decode()]
        if command == _GSSET_INFO and statistics:
            answer = struct.pack("=IIQI", command, 0, 1 << 1, len(statistics))
        elif command == _GSTRINGS and statistics:
            names = b"".join(one.encode().ljust(_NAME_BYTES, b"\0") for one in statistics)
            answer = struct.pack("=III", command, 1, len(statistics)) + names
        elif command == _GSTATS and statistics:
            answer = struct.pack(f"=II{len(statistics)}Q", command, len(statistics), *statistics.values())
        elif command == _GLINKSETTINGS and netdev.speed_max_mbps:
            answer = self._link_settings(command, address, netdev.speed_max_mbps)
        else:
            raise OSError(95, "Operation not supported")
        ctypes.memmove(address, answer, len(answer))
        return 0

    def _link_settings(self, command: int, address: int, speed_mbps: int) -> bytes:
        asked = struct.unpack("=b", ctypes.string_at(address + 15, 1))[0]
        if asked != _MODE_WORDS:
            return struct.pack("=I11xb", command, -_MODE_WORDS)
        bits = [first for first, _last, mbps in ethtool.LINK_MODES_MBPS if mbps == speed_mbps]
        if not bits:
            raise DataError(f"speed_max_mbps {speed_mbps}: no link mode of Linux has this speed")
        bit = bits[0]
        supported = [0] * _MODE_WORDS
        supported[bit // 32] |= 1 << bit % 32
        head = struct.pack("=I11xb", command, _MODE_WORDS).ljust(48, b"\0")
        return head + struct.pack(f"={3 * _MODE_WORDS}I", *supported, *([0] * 2 * _MODE_WORDS))
