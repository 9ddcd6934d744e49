# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Move a node's counters by what a test sends and receives, as its driver counts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Claim
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound

from support.machines.tree import Tree

_PORT = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
_NETDEV = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
_WORD_BYTES = 4


@dataclass(frozen=True)
class Moved:
    """What one end of a test sends and receives."""

    sent_bytes: int
    received_bytes: int
    sent_packets: int
    received_packets: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Moved:
        """Return what a healthy row's counters say that it moved."""
        spans = row["counters"]
        is_port = _PORT[0] in spans
        grown = [spans[name][1] - spans[name][0] for name in (_PORT if is_port else _NETDEV)]
        unit = _WORD_BYTES if is_port else 1
        return cls(grown[0] * unit, grown[1] * unit, grown[2], grown[3])

    def claim(self, row: Mapping[str, Any], policy: Mapping[str, Any]) -> Claim:
        """Return what the tool claims of an RDMA test: nine tenths of what crossed, at most all of it."""
        mtu = row["active_mtu_bytes"]
        if "latency" in str(row["check"]):
            each = min(self.sent_packets, self.received_packets)
            return Claim("packets", 0.95 * each, each)
        forward, back = self.sent_bytes, self.received_bytes
        if row["end"] == "server":
            forward, back = back, forward
        if row["check"] == "rdma_bandwidth_bi":
            return Claim("bytes", 0.9 * forward, forward, 0.9 * back, back, mtu)
        if row["check"] == "rdma_read_bandwidth":
            return Claim("bytes", 0.0, 0.0, 0.9 * back, back, mtu)
        return Claim("bytes", 0.9 * forward, forward, packet_bytes=mtu)


def move(tree: Tree, bound: Bound, moved: Moved, rdma: bool, over: Mapping[str, Any]) -> None:
    """Add to the counters of a rail's port, or of its netdev.

    Args:
        tree: the node's files.
        bound: the rail.
        moved: what was sent and received.
        rdma: whether it was RDMA, which passes the netdev's counters by.
        over: counter's path below the port or netdev -> `stuck`, `reset`, `wraps`, or what is added besides.
    """
    if not rdma:
        if bound.netdev is not None:
            base = f"sys/class/net/{bound.netdev['netdev']}/statistics"
            amounts = (moved.sent_bytes, moved.received_bytes, moved.sent_packets, moved.received_packets)
            for name, amount in zip(_NETDEV, amounts, strict=True):
                _add(tree, f"{base}/{name}", amount, 64, over.get(f"statistics/{name}"))
        return
    if bound.hca is None:
        return
    device, _colon, number = str(bound.hca["hca"]).partition(":")
    base = tree.port_folder(device, number)
    driver = tree.drivers[tree.node.rdma[device].driver]
    for one in driver.traffic:
        amount = -(-getattr(moved, one.counts) // one.unit)
        _add(tree, f"{base}/{one.path}", amount, one.bits, over.get(one.path))
    known = {one.path for one in driver.traffic}
    for path, change in over.items():
        if path not in known and not path.startswith("statistics/"):
            _add(tree, f"{base}/{path}", 0, 64, change)


def _add(tree: Tree, path: str, amount: int, bits: int, change: object) -> None:
    file = tree.root / path
    if not file.is_file() or str(file) in tree.errors:
        return
    now = int(file.read_text())
    if change == "stuck":
        return
    if change == "reset":
        then = min(amount, now - 1)
    elif change == "wraps":
        then = (now + amount) % (1 << 32) if now + amount >= 1 << 32 else (now // 2)
    elif change == "saturated":
        then = (1 << bits) - 1
    elif isinstance(change, int):
        then = now + amount + change
    elif change is None:
        then = (now + amount) % (1 << bits)
    else:
        raise ValueError(f"{path}: {change!r} is no change of a counter")
    file.write_text(f"{then}\n")
