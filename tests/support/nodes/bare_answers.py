# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `bare_node_info` returns of a node with rails, written by hand to the record `bare_node`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_NO_COUNTERS = ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped")


def _netdev(name: str, pci: str, mac: str, hca: str | None, speed_mbps: int) -> dict[str, Any]:
    return {
        **dict.fromkeys(("master", "ipoib_mode", "pci_link", "pci_path")),
        "netdev": name, "kind": "physical", "carrier": True, "operstate": "up", "admin_up": True,
        "speed_mbps": speed_mbps, "speed_max_mbps": speed_mbps, "mtu_bytes": 1500, "mtu_max_bytes": 9978,
        "mac": mac, "permanent_mac": mac, "addresses": [], "addresses6": [], "driver": "mlx5_core",
        "driver_class": "hardware", "pci": pci, "numa_node": 0, "hca": hca and f"{hca}:1", "qos_counters": {},
        "counters": dict.fromkeys((*_NO_COUNTERS, "tx_dropped"), 0),
    }  # fmt: skip


def _hca(name: str, netdev: str, pci: str, rate_gbps: float) -> dict[str, Any]:
    empty = ("lid", "sm_lid", "node_guid", "port_guid", "board_id", "hca_type", "dpu_mode", "pci_path")
    return {
        **dict.fromkeys(empty),
        "hca": f"{name}:1", "device": name, "port": 1, "link_layer": "Ethernet", "state": "ACTIVE",
        "physical_state": "LinkUp", "rate_gbps": rate_gbps, "width": "4X", "active_mtu_bytes": 1024,
        "max_mtu_bytes": 4096, "pkeys": ["0xffff"], "pkey_indices": {"0xffff": 0}, "netdev": netdev,
        "node_type": "1: CA", "driver": "mlx5_core", "driver_class": "hardware", "pci": pci, "numa_node": 0,
        "firmware": "28.43.2026", "gids": [], "counters": {}, "hw_counters": {},
    }  # fmt: skip


def _port(name: str, pci: str, hca: str | None) -> dict[str, Any]:
    return {
        **dict.fromkeys(("serial", "physical_port")),
        "netdev": name, "hca": hca, "pci": pci, "dev_port": 0, "pci_id": "15b3:1021" if hca else "8086:1563",
        "model": "ConnectX-7" if hca else "X550", "firmware": None, "is_virtual_function": False,
        "neighbours": [],
    }  # fmt: skip


def bare_node(
    key: str,
    number: int,
    *,
    hostname: str | None = None,
    rails: Sequence[str] = ("ens1np0", "ens2np0"),
    peers: Sequence[str] = (),
    speed_mbps: int = 400_000,
) -> dict[str, Any]:
    """Return a node with a frontend `eno1` and one ConnectX-7 port a rail.

    Args:
        key: what the controller calls it.
        number: from 1; ends its MAC addresses and its login address.
        hostname: what it calls itself; its key where it is not given.
        rails: netdevs, in the order of PCI addresses.
        peers: keys of the nodes whose beacons are heard, on each rail by the port of the same place.
        speed_mbps: of the rails.
    """
    netdevs = [_netdev("eno1", "0000:02:00.0", f"02:00:00:00:ff:{number:02x}", None, 10_000)]
    netdevs[0] |= {"driver": "ixgbe", "addresses": [f"192.0.2.{number}/24"]}
    hcas, ports, heard = [], [_port("eno1", "0000:02:00.0", None)], []
    for place, name in enumerate(rails):
        pci, mac, hca = (
            f"0000:{0x18 + place:02x}:00.0",
            f"02:00:00:00:{place:02x}:{number:02x}",
            f"mlx5_{place}",
        )
        netdevs.append(_netdev(name, pci, mac, hca, speed_mbps))
        hcas.append(_hca(hca, name, pci, speed_mbps / 1000))
        ports.append(_port(name, pci, f"{hca}:1"))
        senders = [
            {"key": peer, "netdev": name, "mac": f"02:00:00:00:{place:02x}:{at:02x}"}
            for at, peer in enumerate(peers, start=1)
            if peer != key
        ]
        heard.append({"netdev": name, "senders": senders, "strangers": 0, "raised": False, "error": None})
    facts = {
        "schema": 1, "node": key, "boot_id": f"00000000-0000-0000-0000-{number:012d}",
        "collected": "2026-11-27T10:15:40.000Z", "kernel": "6.8.0-60-generic", "python": "3.12.3",
        "os": {"id": "ubuntu", "version": "24.04"}, "netdevs": netdevs, "hcas": hcas, "tools": {},
        "cpu": {"governors": {"performance": 64}, "governor_available": True}, "memlock_bytes": -1,
        "warnings": [],
    }  # fmt: skip
    return {
        "schema": 1, "key": key, "hostname": hostname or key, "product": "test", "default_route": ["eno1"],
        "login_address": f"192.0.2.{number}", "bmc_address": None, "nvlink_domain": None, "facts": facts,
        "ports": ports, "beacons": heard,
    }  # fmt: skip
