# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a path's MTU: pure, over a question `how many packets of so many bytes pass?`.

A path that loses packets is not one of a small MTU. So a size is too large only when none of several packets
of it passes, and how many of the size that was found were lost is told with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

# IPv4 allows links of 68 bytes, but nothing in use is below 576.
SMALLEST_BYTES = 576
# What a rail is most often wrongly set to; trying it first saves a lost packet's wait ten times over.
_USUAL_BYTES = 1500
# So many packets of a size are lost before it is held to be too large.
_TRIES = 3
# So much is sent at once: it fits a receive buffer of the usual 208 KiB (of 40 jumbo packets 28 were dropped)
# and the queue of a slow rail.
_AT_ONCE_BYTES = 45_000
#: A packet that did not come after so long is lost; a healthy node may be held up for a second.
LOST_AFTER_S = 2.0


class Found(NamedTuple):
    """The largest size that passes a path, and how many of the packets of that size did."""

    size_bytes: int
    sent: int
    received: int


def header_bytes(address: str) -> int:
    """Return what IP and ICMP (or UDP: the same) headers take: 28 bytes in IPv4, 48 in IPv6."""
    return 48 if ":" in address else 28


def batches(count: int, size_bytes: int) -> Iterator[int]:
    """Yield how many packets of a size are sent at once, until there are `count`."""
    most = max(1, _AT_ONCE_BYTES // size_bytes)
    for begun in range(0, count, most):
        yield min(most, count - begun)


def search(probe: Callable[[int, int], int], mtu_bytes: int, count: int) -> Found | None:
    """Return what passes a path; None when no packet of any size does.

    Args:
        probe: sends so many packets of a size and returns how many passed.
        mtu_bytes: the size that is to pass; smaller ones are tried when it does not.
        count: how many packets of the size that is found have to be sent.
    """
    received = probe(mtu_bytes, count)
    if received:
        return Found(mtu_bytes, count, received)
    smaller = largest_passing(lambda size_bytes: probe(size_bytes, _TRIES) > 0, mtu_bytes)
    if smaller is None:
        return None
    # Were all of them lost by chance? Then the search stopped somewhere for no reason.
    received = probe(mtu_bytes, count)
    if received:
        return Found(mtu_bytes, 2 * count, received)
    return Found(smaller, count, probe(smaller, count))


def largest_passing(passes: Callable[[int], bool], too_large_bytes: int) -> int | None:
    """Return the largest size below `too_large_bytes` that passes; None when not even the smallest does."""
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
