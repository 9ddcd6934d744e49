# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and set the ring sizes of network ports (`ethtool -g`, `-G`) by ioctl.

A unit runs it as a program when a port appears (its driver starts with default sizes), to set those of one
netdev: `rings.py ens6 rx 8192 tx max`. So it needs the standard library alone. A size is a number of
descriptors, one packet or a part of one each. Layouts are those of linux/ethtool.h.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: What stands for the largest ring that the driver has.
MOST = "max"
#: The kinds of ring that are set; those for small and for jumbo packets, of old cards, are left alone.
KINDS = ("rx", "tx")
_COMMAND = "ethtool -G "
_SIOCETHTOOL = 0x8946
_GRINGPARAM, _SRINGPARAM = 0x10, 0x11
# struct ethtool_ringparam: command; most for rx, rx mini, rx jumbo, tx; in the same order, what is.
_RINGPARAM = struct.Struct("=9I")
_MOST_AT = {"rx": 1, "tx": 4}
_NOW_AT = {"rx": 5, "tx": 8}


class RingError(Exception):
    """A size that a port cannot have; the message says which, and what it has."""


def command(netdev: str) -> str:
    """Return what stands for a port's rings where others are named by their path."""
    return _COMMAND + netdev


def netdev_of(path: str) -> str | None:
    """Return the netdev that `command` was given; None for a path."""
    return path[len(_COMMAND) :] if path.startswith(_COMMAND) else None


def read(netdevs: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read sizes.

    Returns:
        `rings` ({netdev: "rx 256 tx 256"}) and `ring_most` (the same of the largest), both without netdevs
        whose driver has no rings, such as software links.
    """
    found: dict[str, dict[str, str]] = {"rings": {}, "ring_most": {}}
    for netdev in netdevs:
        try:
            words = _ask(netdev, _RINGPARAM.pack(_GRINGPARAM, *[0] * 8))
        except OSError:
            continue
        found["rings"][netdev] = _text(words, _NOW_AT)
        found["ring_most"][netdev] = _text(words, _MOST_AT)
    return found


def held(state: Mapping[str, Any], wanted: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Return the sizes that each port is to have that has rings.

    Args:
        state: From `read`.
        wanted: Netdev to kind to number or `max`; a kind that is not named stays as it is.

    Raises:
        RingError: It is no number, or more than the port can have.
    """
    values = {}
    for netdev, sizes in wanted.items():
        if netdev not in state["rings"]:
            continue
        now, most = _numbers(state["rings"][netdev]), _numbers(state["ring_most"][netdev])
        for kind, size in sizes.items():
            if size != MOST and not (size.isascii() and size.isdigit() and 0 < int(size) <= most[kind]):
                raise RingError(
                    f"{netdev} cannot have a {kind} ring of {size}: it has from 1 to {most[kind]} "
                    f"descriptors, or {MOST}"
                )
            now[kind] = most[kind] if size == MOST else int(size)
        values[netdev] = _format(now)
    return values


def write(netdev: str, value: str) -> None:
    """Set the sizes of a port. Its driver makes its queues anew for that, and most take the link down.

    Args:
        netdev: The port.
        value: As `read` returns it.

    Raises:
        OSError: The driver refuses it, or has made something else of it.
    """
    words = list(_ask(netdev, _RINGPARAM.pack(_GRINGPARAM, *[0] * 8)))
    words[0] = _SRINGPARAM
    for kind, size in _numbers(value).items():
        words[_NOW_AT[kind]] = size
    _ask(netdev, _RINGPARAM.pack(*words))
    made = read([netdev])["rings"].get(netdev)
    if made != value:
        raise OSError(0, f"its driver has made {made} of it: ask for that")


def _text(words: tuple[int, ...], places: Mapping[str, int]) -> str:
    return _format({kind: words[place] for kind, place in places.items()})


def _format(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{kind} {sizes[kind]}" for kind in KINDS)


def _numbers(value: str) -> dict[str, int]:
    words = value.split()
    return {kind: int(words[words.index(kind) + 1]) for kind in KINDS}


def _ask(netdev: str, question: bytes) -> tuple[int, ...]:
    """Send a request to the kernel; return the nine words of its answer.

    Raises:
        OSError: There is no such netdev, or its driver does not do this.
    """
    memory = array.array("B", question)
    request = struct.pack("16sP", netdev.encode()[:15], memory.buffer_info()[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # An ifreq has 40 bytes; what follows the pointer is not read.
        fcntl.ioctl(sock, _SIOCETHTOOL, request.ljust(40, b"\0"))
    return _RINGPARAM.unpack(memory.tobytes())


def main(netdev: str, words: Sequence[str]) -> int:
    """Set the rings of a port where they differ (`rx 8192 tx max`); return 1 after an error."""
    state = read([netdev])
    try:
        if netdev not in state["rings"]:
            raise RingError("it has no rings to size")
        sizes = dict(zip(words[::2], words[1::2]))  # noqa: B905 - strict= is Python 3.10's
        value = held(state, {netdev: sizes})[netdev]
        if state["rings"][netdev] != value:
            write(netdev, value)
    except (OSError, RingError) as error:
        why = getattr(error, "strerror", None) or error
        sys.stderr.write(f"{command(netdev)} {' '.join(words)}: {why}\n")
        return 1
    return 0


if __name__ == "__main__":
    # A program of a unit's, no module: the status is for systemd.
    sys.exit(main(sys.argv[1], sys.argv[2:]))  # pylint: disable=ansible-bad-function
