# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the active and the largest MTU of RDMA ports, which sysfs lacks, through libibverbs.

A child process does it: opening a device loads a vendor's driver library, whose output, crash or hang must
not affect the facts.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import struct
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple

from .. import bounded

LIBRARY = "libibverbs.so.1"
# struct ibv_port_attr begins with three C enums: state, max_mtu, active_mtu. The rest is not used, but the
# library writes it: 52 bytes through the exported function, 60 in the newest header.
_HEAD = struct.Struct("=iii")
_PORT_ATTR_BYTES = 512
# enum ibv_mtu
_MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_MOST_DEVICES = 1024
_LIMIT_S = 5.0


class Mtu(NamedTuple):
    """MTU of a port in bytes; None for a value that the library does not know either."""

    active_bytes: int | None
    max_bytes: int | None


def decode(attributes: bytes) -> Mtu:
    """Read struct ibv_port_attr."""
    _state, largest, active = _HEAD.unpack_from(attributes)
    return Mtu(_MTU_BYTES.get(active), _MTU_BYTES.get(largest))


def _library(ctypes: Any, name: str) -> Any:
    verbs = ctypes.CDLL(name)
    verbs.ibv_get_device_list.argtypes = [ctypes.POINTER(ctypes.c_int)]
    verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
    verbs.ibv_free_device_list.argtypes = [ctypes.POINTER(ctypes.c_void_p)]
    verbs.ibv_free_device_list.restype = None
    verbs.ibv_get_device_name.argtypes = [ctypes.c_void_p]
    verbs.ibv_get_device_name.restype = ctypes.c_char_p
    verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
    verbs.ibv_open_device.restype = ctypes.c_void_p
    verbs.ibv_close_device.argtypes = [ctypes.c_void_p]
    verbs.ibv_close_device.restype = ctypes.c_int
    # The header makes ibv_query_port a macro around the provider's function; the symbol of this name is the
    # exported one, whose shorter structure every version of the library fills.
    verbs.ibv_query_port.argtypes = [ctypes.c_void_p, ctypes.c_uint8, ctypes.c_void_p]
    verbs.ibv_query_port.restype = ctypes.c_int
    return verbs


def _ports(ctypes: Any, verbs: Any, handle: Any, numbers: Collection[int]) -> Iterator[tuple[int, Mtu]]:
    context = verbs.ibv_open_device(handle)
    if not context:
        return
    try:
        for number in numbers:
            room = ctypes.create_string_buffer(_PORT_ATTR_BYTES)
            if verbs.ibv_query_port(context, number, room) == 0:
                yield number, decode(room.raw)
    finally:
        verbs.ibv_close_device(context)


def _ask(ports: Collection[tuple[str, int]], library: str, say: Callable[[list[Any]], None]) -> None:
    """Query each port and pass on device, number, active and largest MTU of those that answer."""
    # Keep a crash quiet: no traceback of a handler that the parent may have set, no core file.
    for fault in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
        signal.signal(fault, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # A node without RDMA never needs it.
    import ctypes

    verbs = _library(ctypes, library)
    count = ctypes.c_int(0)
    handles = verbs.ibv_get_device_list(ctypes.byref(count))
    if not handles:
        return
    try:
        for place in range(min(count.value, _MOST_DEVICES)):
            device = (verbs.ibv_get_device_name(handles[place]) or b"").decode("utf-8", errors="replace")
            wanted = sorted(number for name, number in ports if name == device)
            for number, mtu in _ports(ctypes, verbs, handles[place], wanted) if wanted else ():
                say([device, number, *mtu])
    finally:
        verbs.ibv_free_device_list(handles)


def query(
    ports: Collection[tuple[str, int]], library: str = LIBRARY, limit_s: float = _LIMIT_S
) -> dict[tuple[str, int], Mtu]:
    """Read the MTU of ports with libibverbs.

    Args:
        ports: Device and port number of each.
        library: The library's name for the loader.
        limit_s: The time limit for all answers.

    Returns:
        MTU by device and port; a port without answer (no library, no driver library, no permission, gone,
        hung) is missing. Empty without ports.
    """
    if not ports:
        return {}
    with contextlib.suppress(OSError):
        said, _over = bounded.listen(lambda say: _ask(ports, library, say), limit_s)
        return {(device, number): Mtu(*mtu) for device, number, *mtu in said}
    return {}
