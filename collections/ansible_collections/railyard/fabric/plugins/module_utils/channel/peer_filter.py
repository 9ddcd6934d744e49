# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Restrict a program's sockets to one peer address: the kernel drops packets of others.

For tools that are started without systemd, which would filter a unit's packets. The socket of the running
program is duplicated (pidfd_getfd, kernel 5.6) and gets a classic BPF filter. Accepted connections inherit
it, and it ends with them, so there is nothing to undo. Earlier connections are in the kernel's table
(`rail_socket.callers`).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
from collections.abc import Iterator

# <asm-generic/unistd.h> and <asm-generic/socket.h>: the same on x86-64 and arm64. Python has no names for
# them.
_PIDFD_GETFD = 438
_SO_ATTACH_FILTER = 26
# <linux/bpf_common.h>: load a byte, load a word, and, jump if equal, return.
_LOAD_BYTE, _LOAD_WORD, _AND, _JUMP_EQUAL, _RETURN = 0x30, 0x20, 0x54, 0x15, 0x06
# <linux/filter.h>: offsets from here on count from the IP header.
_IP_HEADER = 0xFFF00000
_ALL = 0xFFFFFFFF
_VERSION_MASK = 0xF0
# IP version's byte, and where the source address begins.
_IPV4, _IPV6 = (0x40, 12), (0x60, 8)


def program(peer: str) -> bytes:
    """Return the filter: a packet passes when its source is this address."""
    version, at = _IPV6 if ":" in peer else _IPV4
    packed = socket.inet_pton(socket.AF_INET6 if ":" in peer else socket.AF_INET, peer)
    # Each comparison: what to load, and the expected value.
    words = struct.unpack(f"!{len(packed) // 4}I", packed)
    steps = [(_LOAD_BYTE, 0, 0, _IP_HEADER), (_AND, 0, 0, _VERSION_MASK)]
    tail = 2 * len(words)
    # A failed comparison jumps to the last instruction, which drops the packet.
    steps.append((_JUMP_EQUAL, 0, tail + 1, version))
    for number, word in enumerate(words):
        steps.append((_LOAD_WORD, 0, 0, _IP_HEADER + at + 4 * number))
        steps.append((_JUMP_EQUAL, 0, tail - 2 * number - 1, word))
    steps += [(_RETURN, 0, 0, _ALL), (_RETURN, 0, 0, 0)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)


def attach(descriptor: int, peer: str) -> None:
    """Restrict a socket to one peer address.

    Raises:
        OSError: the kernel rejects it, or it is no socket.
    """
    code = program(peer)
    instructions = ctypes.create_string_buffer(code, len(code))
    described = struct.pack("HP", len(code) // 8, ctypes.addressof(instructions))
    with socket.socket(fileno=os.dup(descriptor)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, described)


def confine(session: int, peer: str) -> bool:
    """Restrict the IP sockets of all processes of a session to one peer address.

    Args:
        session: id of the session, that of its first process.
        peer: the address.

    Returns:
        Whether at least one socket was found and all are restricted; False where the kernel does not allow
        it.
    """
    found = 0
    try:
        for pid in _of_session(session):
            for descriptor in _sockets(pid):
                with _borrowed(pid, descriptor) as ours, socket.socket(fileno=os.dup(ours)) as sock:
                    if sock.family in (socket.AF_INET, socket.AF_INET6):
                        attach(ours, peer)
                        found += 1
    except OSError:
        return False
    return found > 0


def _of_session(session: int) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):  # one that has just ended
                if os.getsid(int(name)) == session:
                    yield int(name)


def _sockets(pid: int) -> list[int]:
    folder = f"/proc/{pid}/fd"
    found = []
    for name in os.listdir(folder):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/{name}").startswith("socket:"):
                found.append(int(name))
    return found


@contextlib.contextmanager
def _borrowed(pid: int, descriptor: int) -> Iterator[int]:
    """Yield a duplicate of another process's file descriptor.

    Raises:
        OSError: the kernel is older than 5.6, or does not allow it.
    """
    if not hasattr(os, "pidfd_open"):
        raise OSError(errno.ENOSYS, "no pidfd_open")
    process = os.pidfd_open(pid)
    try:
        call = ctypes.CDLL(None, use_errno=True).syscall
        ours = call(_PIDFD_GETFD, process, descriptor, 0)
        if ours < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
    finally:
        os.close(process)
    try:
        yield ours
    finally:
        os.close(ours)
