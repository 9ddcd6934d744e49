# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read what `ethtool` and `ethtool -S` show of a netdev by ioctl, without starting a program.

Layouts are those of linux/ethtool.h; reading needs no privilege. A request that the kernel or the driver
rejects has no answer (None, empty), which is normal for software links.
"""

from __future__ import annotations

import array
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GDRVINFO = 0x03
_GSTRINGS = 0x1B
_GSTATS = 0x1D
_GSSET_INFO = 0x37
_GLINKSETTINGS = 0x4C
_STRING_SET_STATS = 1
_NAME_BYTES = 32
_IFNAME_BYTES = 16
# struct ifreq of 64-bit kernels, the larger one.
_IFREQ_BYTES = 40
# GSTATS writes as many numbers as the driver has *now*, whatever the buffer size; channels that were added
# after the count was read must not be written beyond the buffer.
_SPARE_STATS = 8192
_MOST_STATS = 65536

_LINK_HEADER = struct.Struct("=II7Bb4B28x")
_NWORDS_AT = 15
# struct ethtool_drvinfo: command, then driver, version, firmware and bus of 32 bytes each, and more.
_DRVINFO_BYTES, _FIRMWARE_AT = 196, 4 + 32 + 32
# Link modes by bit, as (first bit, last bit, Mbit/s): enum ethtool_link_mode_bit_indices, without bits for
# other things than speeds (autonegotiation, ports, pause, FEC) and modes that are half duplex only.
LINK_MODES_MBPS: tuple[tuple[int, int, int], ...] = (
    (1, 1, 10),
    (3, 3, 100),
    (5, 5, 1000),
    (12, 12, 10000),
    (15, 15, 2500),
    (17, 17, 1000),
    (18, 20, 10000),
    (21, 22, 20000),
    (23, 26, 40000),
    (27, 30, 56000),
    (31, 33, 25000),
    (34, 35, 50000),
    (36, 39, 100000),
    (40, 40, 50000),
    (41, 41, 1000),
    (42, 46, 10000),
    (47, 47, 2500),
    (48, 48, 5000),
    (52, 56, 50000),
    (57, 61, 100000),
    (62, 66, 200000),
    (67, 67, 100),
    (68, 68, 1000),
    (69, 73, 400000),
    (75, 79, 100000),
    (80, 84, 200000),
    (85, 89, 400000),
    (91, 91, 100),
    (92, 92, 10),
    (93, 98, 800000),
    (99, 99, 10),
    (102, 102, 10),
    (103, 108, 200000),
    (109, 114, 400000),
    (115, 120, 800000),
    (121, 124, 1600000),
)


def _ask(netdev: str, request: bytes | bytearray, room_bytes: int = 0) -> bytes | None:
    """Send a request to a netdev's driver.

    Args:
        netdev: Its name.
        request: The command's structure; `room_bytes` more are reserved after it for the answer.
        room_bytes: Largest growth of the structure.

    Returns:
        The structure with the answer; None when there is no such netdev or the request is rejected.
    """
    name = netdev.encode("utf-8", errors="surrogateescape")
    if not name or len(name) >= _IFNAME_BYTES:
        return None
    data = array.array("B", bytes(request) + bytes(room_bytes))
    ifreq = struct.pack(f"{_IFNAME_BYTES}sP", name, data.buffer_info()[0]).ljust(_IFREQ_BYTES, b"\0")
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            fcntl.ioctl(asked, _SIOCETHTOOL, ifreq)
    except OSError:
        return None
    return data.tobytes()


def stats_count(answer: bytes) -> int:
    """Return the number of statistics in an ETHTOOL_GSSET_INFO answer, 0 for a driver without any."""
    _command, _reserved, mask, count = struct.unpack_from("=IIQI", answer)
    return int(count) if mask >> _STRING_SET_STATS & 1 and count <= _MOST_STATS else 0


def decode_stats(names: bytes, values: bytes) -> dict[str, int] | None:
    """Join the answers of ETHTOOL_GSTRINGS and ETHTOOL_GSTATS.

    Args:
        names: Command, set, count, then 32 bytes per name.
        values: Command, count, then a 64-bit number per statistic.

    Returns:
        Number by name; the first of repeated names. None when the counts differ: the driver changed them
        between the two requests, so numbers and names do not match.
    """
    _command, _set, count = struct.unpack_from("=III", names)
    _command, counted = struct.unpack_from("=II", values)
    if count != counted or len(names) < 12 + count * _NAME_BYTES or len(values) < 8 + count * 8:
        return None
    found: dict[str, int] = {}
    for place, value in enumerate(struct.unpack_from(f"={count}Q", values, 8)):
        raw = names[12 + place * _NAME_BYTES : 12 + (place + 1) * _NAME_BYTES]
        name = raw.split(b"\0", 1)[0].decode("utf-8", errors="replace").strip()
        if name:
            found.setdefault(name, value)
    return found


def stats(netdev: str) -> dict[str, int]:
    """Return the driver's statistics of a netdev (`ethtool -S`); empty when it has none."""
    for _attempt in range(3):
        info = _ask(netdev, struct.pack("=IIQI", _GSSET_INFO, 0, 1 << _STRING_SET_STATS, 0))
        count = stats_count(info) if info else 0
        if not count:
            return {}
        names = _ask(
            netdev,
            struct.pack("=III", _GSTRINGS, _STRING_SET_STATS, count),
            (count + _SPARE_STATS) * _NAME_BYTES,
        )
        values = _ask(netdev, struct.pack("=II", _GSTATS, count), (count + _SPARE_STATS) * 8)
        if names is None or values is None:
            return {}
        found = decode_stats(names, values)
        if found is not None:
            return found
    return {}


def firmware(netdev: str) -> str | None:
    """Return the firmware version that the driver reports, as `ethtool -i` shows it."""
    answer = _ask(netdev, struct.pack("=I", _GDRVINFO).ljust(_DRVINFO_BYTES, b"\0"))
    text = answer[_FIRMWARE_AT : _FIRMWARE_AT + 32].split(b"\0", 1)[0] if answer else b""
    return text.decode("ascii", errors="replace").strip() or None


def read_mask_size(answer: bytes) -> int:
    """Return the word count of a mode mask; the kernel answers a wrong number with the right one, negated."""
    asked = int(_LINK_HEADER.unpack_from(answer)[9])
    return -asked if asked < 0 else 0


def decode_speed_max_mbps(answer: bytes) -> int | None:
    """Return the fastest link mode that an ETHTOOL_GLINKSETTINGS answer lists as supported.

    Args:
        answer: struct ethtool_link_settings and its three masks; the first is what the port supports.

    Returns:
        Mbit/s; None when it supports no mode known here (software links list none).
    """
    words = int(_LINK_HEADER.unpack_from(answer)[9])
    if words <= 0 or len(answer) < _LINK_HEADER.size + 4 * words:
        return None
    supported = 0
    for place, word in enumerate(struct.unpack_from(f"={words}I", answer, _LINK_HEADER.size)):
        supported |= word << (32 * place)
    speeds = [
        mbps for first, last, mbps in LINK_MODES_MBPS if supported >> first & ((1 << (last - first + 1)) - 1)
    ]
    return max(speeds, default=None)


def speed_max_mbps(netdev: str) -> int | None:
    """Return the highest speed that a netdev's port supports, in Mbit/s; None when the driver lists none."""
    request = bytearray(_LINK_HEADER.size)
    struct.pack_into("=I", request, 0, _GLINKSETTINGS)
    answer = _ask(netdev, request)
    words = read_mask_size(answer) if answer else 0
    if not words:
        return None
    struct.pack_into("=b", request, _NWORDS_AT, words)
    answer = _ask(netdev, request, 3 * 4 * words)
    return decode_speed_max_mbps(answer) if answer else None
