# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The values that all rows of a rail's end must match, calculated once. Pure."""

from __future__ import annotations

import functools

from ansible_collections.railyard.fabric.plugins.module_utils.facts.gid import Choice
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma


class RailEnd:
    """A rail's end.

    Attributes:
        bound: the rail, bound to its node's facts.
        without_ip: the inventory declares no address for it.
        address: its bare address, or None.
        words: names of it that may occur in a tool's command line.
    """

    def __init__(self, bound: Bound, transport: str) -> None:
        self.bound = bound
        self.without_ip = bind.without_ip(bound.rail)
        address = bound.rail.get("address") or bound.rail.get("address6")
        self.address = address.split("/")[0] if address else None
        self.words = _list_names(bound)
        self._transport = transport

    @functools.cached_property
    def gid(self) -> Choice | None:
        """The GID that it must use on RoCE."""
        return rdma.choice(self.bound)

    @functools.cached_property
    def rdma_mtus(self) -> tuple[int | None, int | None]:
        """The smallest and the largest permitted RDMA MTU in bytes; None if unknown."""
        return rdma_mtu.span(self.bound.rail, self.bound.hca, self._transport)


def _list_names(end: Bound) -> set[str]:
    """Return the names of a rail's end in command lines: netdev, addresses, RDMA device."""
    addresses = (end.rail.get(key) for key in ("address", "address6"))
    device = str((end.hca or {}).get("hca") or "").partition(":")[0]
    words = [str((end.netdev or {}).get("netdev") or ""), device]
    return {word for word in (*words, *(str(cidr or "").partition("/")[0] for cidr in addresses)) if word}
