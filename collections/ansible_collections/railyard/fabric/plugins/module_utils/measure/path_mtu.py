# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Search for a path's MTU. Pure, with a function that probes how many packets of a size pass.

A path that loses packets does not have a small MTU. So a size is too large only when none of several packets
of it passes, and the result includes how many packets of the found size were lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

# IPv4 allows links of 68 bytes, but nothing in use is below 576.
SMALLEST_BYTES = 576
# The most frequent wrong setting; trying it first saves ten waits for lost packets.
_USUAL_BYTES = 1500
# How many packets of a size are lost before it counts as too large.
_TRIES = 3
# The size of a burst: it fits into a usual receive buffer of 208 KiB (of 40 jumbo packets 28 were dropped)
# and into the queue of a slow rail.
_AT_ONCE_BYTES = 45_000
#: After this time a packet is lost; a healthy node may be delayed for a second.
LOST_AFTER_S = 2.0


class Found(NamedTuple):
    """The largest size that passes a path, and how many of the packets of that size did."""

    size_bytes: int
    sent: int
    received: int


def header_bytes(address: str) -> int:
    """Return the size of the IP and ICMP (or UDP: the same) headers: 28 bytes in IPv4, 48 in IPv6."""
    return 48 if ":" in address else 28


def batches(count: int, size_bytes: int) -> Iterator[int]:
    """Split `count` packets of a size into bursts; yield the number of packets in each."""
    most = max(1, _AT_ONCE_BYTES // size_bytes)
    for begun in range(0, count, most):
        yield min(most, count - begun)


def search(probe: Callable[[int, int], int], mtu_bytes: int, count: int) -> Found | None:
    """Find the largest size that passes a path; None when no packet of any size does.

    Args:
        probe: (size, count) -> how many packets of that size passed.
        mtu_bytes: the expected size; smaller ones are tried when it does not pass.
        count: how many packets of the found size have to be sent.
    """
    received = probe(mtu_bytes, count)
    if received:
        return Found(mtu_bytes, count, received)
    smaller = largest_passing(lambda size_bytes: probe(size_bytes, _TRIES) > 0, mtu_bytes)
    if smaller is None:
        return None
    # Try again: if all were lost by chance, the result of the search is meaningless.
    received = probe(mtu_bytes, count)
    if received:
        return Found(mtu_bytes, 2 * count, received)
    return Found(smaller, count, probe(smaller, count))


def largest_passing(passes: Callable[[int], bool], too_large_bytes: int) -> int | None:
    """Find the largest size below `too_large_bytes` that passes; None when not even the smallest does."""
    low, high = SMALLEST_BYTES, too_large_bytes
    if high <= low or not passes(low):
        return None
    for guess in (_USUAL_BYTES, _USUAL_BYTES + 1):
        if low < guess < high:
            if not passes(guess):
                high = guess
                break
            low = guess
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
