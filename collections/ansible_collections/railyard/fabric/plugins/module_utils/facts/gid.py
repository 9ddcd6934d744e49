# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a rail's entry in a port's GID table by its address, never by a stored index.

The index of an address changes when addresses come and go, and differs between drivers; the address does not.
"""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

ROCE_V1 = "RoCE v1"
ROCE_V2 = "RoCE v2"
# RoCE v1 has no IP header: it cannot be routed, and NCCL does not choose it by default.
_PREFERENCE = (ROCE_V2, ROCE_V1)


@dataclass(frozen=True)
class Choice:
    """An entry of the GID table: its index (for perftest's `-x`), type and GID."""

    index: int
    type: str
    gid: str


def _same(one: object, other: str) -> bool:
    """Return whether two strings are the same IP address, in any notation of IPv6."""
    mine, theirs = _address(str(one)), _address(other)
    return mine is not None and mine == theirs


# The controller looks up the same few addresses for every test.
@functools.lru_cache(maxsize=1 << 16)
def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def choose(gids: Iterable[Mapping[str, Any]], address: str, netdev: str | None = None) -> Choice | None:
    """Return the GID that a rail uses.

    Args:
        gids: `gids` of a port as in the facts: index, gid, type, netdev and address of each entry in use.
        address: The rail's IP address, bare.
        netdev: The rail's netdev. An entry of another one (a VLAN with the same address) is not the rail's;
            an entry without netdev matches.

    Returns:
        The RoCE v2 entry of exactly this address with the lowest index; a RoCE v1 entry only when there is
        no v2 one; None when the address has neither (InfiniBand GIDs have no IP address).
    """
    ours = [
        gid
        for gid in gids
        if _same(gid.get("address"), address) and (not netdev or gid.get("netdev") in (None, netdev))
    ]
    for kind in _PREFERENCE:
        found = min(
            (gid for gid in ours if gid.get("type") == kind), key=lambda gid: gid["index"], default=None
        )
        if found is not None:
            return Choice(found["index"], kind, found["gid"])
    return None
