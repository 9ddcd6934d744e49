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

from support.machines.fields import DataError
from support.machines.tree import Tree

_PORT = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets")
_NETDEV = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")
_WORD_BYTES = 4
_NUMBER_BYTES = 21
_ETHTOOL = "ethtool/"


@dataclass(frozen=True)
class Moved:
    """What one end of a test sends and receives."""

    sent_bytes: int
    received_bytes: int
    sent_packets: int
    received_packets: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Moved:
        """Return what a healthy row's counters say that it moved; RDMA's packets have the port's MTU."""
        spans = row["counters"]
        is_port = _PORT[0] in spans
        grown = [spans[name][1] - spans[name][0] for name in (_PORT if is_port else _NETDEV)]
        unit = _WORD_BYTES if is_port else 1
        sent, received = grown[0] * unit, grown[1] * unit
        mtu = row["active_mtu_bytes"]
        if is_port and mtu:
            grown[2:] = [max(grown[2], sent // mtu), max(grown[3], received // mtu)]
        return cls(sent, received, grown[2], grown[3])

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
        over: counter's path below the port, or `statistics/` or `ethtool/` of the netdev -> `stuck`, `reset`,
            `wraps`, `saturated`, or what is added besides.

    Raises:
        DataError: the rail has no such counter.
    """
    for path, change in over.items():
        if path.startswith(_ETHTOOL):
            _move_ethtool(tree, bound, path, change)
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
        if path not in known and not path.startswith(("statistics/", _ETHTOOL)):
            if not (tree.root / base / path).is_file():
                raise DataError(f"counters.{path}: {bound.hca['hca']} has no such counter")
            _add(tree, f"{base}/{path}", 0, 64, change)


def _move_ethtool(tree: Tree, bound: Bound, path: str, change: object) -> None:
    """Change a statistic of `ethtool -S`."""
    netdev, name = str((bound.netdev or {}).get("netdev")), path.removeprefix(_ETHTOOL)
    if bound.hca is not None and not tree.ethtool.get(netdev):
        # A VLAN has none, its port has.
        device, _colon, number = str(bound.hca["hca"]).partition(":")
        netdev = tree.node.rdma[device].ports[number].netdev or netdev
    statistics = tree.ethtool.get(netdev, {})
    if name not in statistics:
        raise DataError(f"counters.{path}: netdev {netdev} has no such statistic in `ethtool`")
    statistics[name] = _changed(statistics[name], 0, 64, change, path)


def _add(tree: Tree, path: str, amount: int, bits: int, change: object) -> None:
    file = tree.root / path
    if not file.is_file() or str(file) in tree.errors:
        return
    now = file.read_bytes()[:_NUMBER_BYTES].strip()
    # What the data makes of a counter that is none stays as it is.
    if now.isdigit():
        file.write_text(f"{_changed(int(now), amount, bits, change, path)}\n")


def _changed(now: int, amount: int, bits: int, change: object, path: str) -> int:
    """Return a counter's value after an amount was counted, or another change of it."""
    if change == "stuck":
        return now
    if change == "reset":
        return min(amount, now - 1)
    if change == "wraps":
        return (now + amount) % (1 << 32) if now + amount >= 1 << 32 else (now // 2)
    if change == "saturated":
        return (1 << bits) - 1
    if isinstance(change, int):
        return now + amount + change
    if change is None:
        return (now + amount) % (1 << bits)
    raise DataError(f"counters.{path}: {change!r} is no change of a counter")
