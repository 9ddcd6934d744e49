# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for a path's MTU: pure, over a question `does a packet of so many bytes pass?`."""

from __future__ import annotations

from collections.abc import Callable

# IPv4 allows links of 68 bytes, but nothing in use is below 576.
SMALLEST_BYTES = 576
# What a rail is most often wrongly set to; trying it first saves a lost packet's wait ten times over.
_USUAL_BYTES = 1500


def header_bytes(address: str) -> int:
    """Return what IP and ICMP (or UDP: the same) headers take: 28 bytes in IPv4, 48 in IPv6."""
    return 48 if ":" in address else 28


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
