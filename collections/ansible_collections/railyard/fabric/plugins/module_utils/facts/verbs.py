# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Active and largest MTU of RDMA ports: the two port attributes that sysfs lacks, asked through libibverbs.

A child process asks. A vendor's driver library is mapped into whoever opens a device: what it prints, and a
crash or a hang in it, must not become the node's facts.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import struct
import sys
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

LIBRARY = "libibverbs.so.1"
# struct ibv_port_attr begins with three C enums: state, max_mtu, active_mtu. The rest is not read, but the
# library writes it: 52 bytes through the exported function, 60 in the newest header.
_HEAD = struct.Struct("=iii")
_PORT_ATTR_BYTES = 512
# enum ibv_mtu
_MTU_BYTES = {1: 256, 2: 512, 3: 1024, 4: 2048, 5: 4096}
_MOST_DEVICES = 1024
_LIMIT_S = 5.0
_MOST_BYTES = 65536


class Mtu(NamedTuple):
    """MTU of a port in bytes; None for a value that the library does not know either."""

    active_bytes: int | None
    max_bytes: int | None


def decode(attributes: bytes) -> Mtu:
    """Read struct ibv_port_attr."""
    _state, largest, active = _HEAD.unpack_from(attributes)
    return Mtu(_MTU_BYTES.get(active), _MTU_BYTES.get(largest))


def parse(text: str) -> dict[tuple[str, int], Mtu]:
    """Read what the child wrote, a line `device port active max` per port; a line cut short is left out."""
    found = {}
    for line in text.split("\n")[:-1]:
        words = line.split(" ")
        if len(words) == 4 and all(word.isdecimal() for word in words[1:]):
            active, largest = int(words[2]), int(words[3])
            found[words[0], int(words[1])] = Mtu(active or None, largest or None)
    return found


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
    # The header makes ibv_query_port a macro around the provider's own function; the symbol of this name is
    # the exported one, whose shorter structure every version of the library fills.
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


def _query_here(ctypes: Any, library: str, ports: Collection[tuple[str, int]]) -> Iterator[str]:
    """Yield the lines that `parse` reads."""
    verbs = _library(ctypes, library)
    count = ctypes.c_int(0)
    handles = verbs.ibv_get_device_list(ctypes.byref(count))
    if not handles:
        return
    try:
        for place in range(min(count.value, _MOST_DEVICES)):
            device = (verbs.ibv_get_device_name(handles[place]) or b"").decode("utf-8", errors="replace")
            wanted = sorted(number for name, number in ports if name == device)
            if wanted:
                for number, mtu in _ports(ctypes, verbs, handles[place], wanted):
                    yield f"{device} {number} {mtu.active_bytes or 0} {mtu.max_bytes or 0}\n"
    finally:
        verbs.ibv_free_device_list(handles)


def _child(ctypes: Any, write_end: int, library: str, ports: Collection[tuple[str, int]]) -> None:
    """Write the lines and end; never return into the parent's code, whatever happens."""
    try:
        # A crash is quiet too: no trace of a handler that the parent may have set, no core file.
        for fault in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL):
            signal.signal(fault, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(quiet, stream)
        for line in _query_here(ctypes, library, ports):
            os.write(write_end, line.encode())
    except BaseException:  # noqa: S110 - a child that raised would run on as a second parent
        pass
    finally:
        os._exit(0)


@contextmanager
def _no_fork_warning() -> Iterator[None]:
    """Python 3.12 and later warns of a fork beside threads; the child here takes no lock of theirs."""
    if sys.version_info < (3, 12):
        yield
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _read(read_end: int, deadline: float) -> bytes:
    """Read until the child ends or the deadline passes."""
    data = b""
    while len(data) < _MOST_BYTES:
        ready, _write, _error = select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(read_end, 4096) if ready else b""
        if not part:
            break
        data += part
    return data


def _end(child: int, patience_s: float = 1.0) -> None:
    """Kill and reap the child; one that hangs in the kernel is left to init, never waited for without end."""
    deadline = time.monotonic() + patience_s
    try:
        os.kill(child, signal.SIGKILL)
        while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
    except (ChildProcessError, ProcessLookupError):
        return


def query(
    ports: Collection[tuple[str, int]], library: str = LIBRARY, limit_s: float = _LIMIT_S
) -> dict[tuple[str, int], Mtu]:
    """Ask libibverbs for the MTU of ports.

    Args:
        ports: Device and port number of each.
        library: The library's name for the loader.
        limit_s: After so many seconds what has not answered is given up.

    Returns:
        MTU by device and port; a port that cannot be asked (no library, no driver library, no right to open
        the device, gone, hung) is missing. Empty without ports.
    """
    if not ports:
        return {}
    deadline = time.monotonic() + limit_s
    try:
        # A node without RDMA never needs it; before the fork, so that the child takes no import lock.
        import ctypes
    except ImportError:
        return {}
    read_end, write_end = os.pipe()
    try:
        with _no_fork_warning():
            child = os.fork()
    except OSError:
        os.close(read_end)
        os.close(write_end)
        return {}
    if child == 0:
        _child(ctypes, write_end, library, ports)
    os.close(write_end)
    try:
        data = _read(read_end, deadline)
    finally:
        os.close(read_end)
        _end(child)
    return parse(data.decode("utf-8", errors="replace"))
