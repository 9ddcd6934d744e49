# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build sysfs and procfs trees as the kernel lays them out, by hand, for tests of the readers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader


class Tree:
    """A fabricated node below one folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.links: list[dict[str, Any]] = []
        (root / "sys/class/net").mkdir(parents=True)
        (root / "proc/sys/kernel/random").mkdir(parents=True)
        (root / "proc/self").mkdir()
        (root / "etc").mkdir()

    def reader(self) -> Reader:
        return Reader(str(self.root / "sys"), str(self.root / "proc"), str(self.root / "etc"))

    def write(self, path: str, text: object) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
        return file

    def link(self, path: str, target: Path) -> None:
        link = self.root / path
        link.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)

    def pci(self, address: str, driver: str, numa: int = 0) -> Path:
        """Make a PCI device with a driver; return its folder."""
        folder = self.root / "sys/devices/pci0000:00" / address
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{numa}\n")
        (folder / "driver").symlink_to(self.root / "sys/bus/pci/drivers" / driver)
        (folder / "subsystem").symlink_to(self.root / "sys/bus/pci")
        return folder

    def netdev(
        self, name: str, device: Path | None = None, ip: dict[str, Any] | None = None, **files: Any
    ) -> str:
        """Make a netdev that is up; `files` override or (None) remove its attributes. Return its folder."""
        base = f"sys/class/net/{name}"
        values: dict[str, Any] = {
            "type": 1,
            "flags": "0x1003",
            "carrier": 1,
            "operstate": "up",
            "speed": 10000,
            "mtu": 9000,
            "address": "02:00:00:00:00:01",
            "addr_assign_type": 3,
            "dev_port": 0,
            "dev_id": "0x0",
            **files,
        }
        for key, value in values.items():
            if value is not None:
                self.write(f"{base}/{key}", value)
        for counter in ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets"):
            self.write(f"{base}/statistics/{counter}", 7)
        for counter in ("rx_errors", "tx_errors", "rx_dropped", "tx_dropped"):
            self.write(f"{base}/statistics/{counter}", 0)
        if device:
            (self.root / base / "device").symlink_to(device)
        self.links.append({"ifname": name, **(ip or {})})
        return base

    def port(self, device: str, number: int, bus: Path | None, layer: str = "Ethernet", **files: Any) -> str:
        """Make one port of an RDMA device; return its folder."""
        base = f"sys/class/infiniband/{device}/ports/{number}"
        values = {
            "link_layer": layer,
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "40 Gb/sec (4X QDR)",
            "lid": "0x0",
            "sm_lid": "0x0",
            **files,
        }
        for key, value in values.items():
            self.write(f"{base}/{key}", value)
        self.write(f"{base}/counters/port_xmit_data", 1000)
        self.write(f"{base}/hw_counters/lifespan", 10)
        link = self.root / f"sys/class/infiniband/{device}/device"
        if bus and not link.exists():
            link.symlink_to(bus)
        return base

    def gid(self, port: str, index: int, gid: str, kind: str, netdev: str | None) -> None:
        self.write(f"{port}/gids/{index}", gid)
        self.write(f"{port}/gid_attrs/types/{index}", kind)
        if netdev:
            self.write(f"{port}/gid_attrs/ndevs/{index}", netdev)

    def host(self) -> None:
        """Write what a node says of itself."""
        self.write("proc/sys/kernel/random/boot_id", "8a1f3f0e-5a39-4b0c-9e0c-5d5d1b2f8a11")
        self.write("proc/sys/kernel/osrelease", "6.1.0-28-amd64")
        self.write(
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max processes             100                  100                  processes \n"
            "Max locked memory         unlimited            unlimited            bytes     ",
        )
        self.write("etc/os-release", 'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"')
        for cpu in range(4):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor", "performance")
        self.write("sys/devices/system/cpu/cpufreq/boost", 1)

    def ip_json(self) -> str:
        return json.dumps(self.links)


def addresses(*texts: str) -> dict[str, Any]:
    """Return ip's `addr_info` of some addresses."""
    info = []
    for text in texts:
        local, _slash, length = text.partition("/")
        info.append({"family": "inet6" if ":" in local else "inet", "local": local, "prefixlen": int(length)})
    return {"addr_info": info}


def dual_port_mlx4(root: Path) -> Tree:
    """Return a node like the notes': ConnectX-3 with both rails on one PCI function, and a frontend."""
    tree = Tree(root)
    tree.host()
    card = tree.pci("0000:06:00.0", "mlx4_core")
    tree.netdev(
        "ens6",
        card,
        addresses("10.0.1.1/24", "fe80::1/64"),
        speed=40000,
        addr_assign_type=0,
        address="AA:00:00:00:00:01",
    )
    tree.netdev("ens6d1", card, addresses("10.0.0.1/24"), dev_port=1, speed=40000)
    nic = tree.pci("0000:05:00.0", "igb", numa=-1)
    tree.netdev("enp5s0", nic, addresses("198.51.100.11/24"), mtu=1500, speed=1000)
    tree.netdev("lo", type=772, address="00:00:00:00:00:00")
    for number, netdev, mapped in ((1, "ens6", "0a00:0101"), (2, "ens6d1", "0a00:0001")):
        port = tree.port("mlx4_0", number, card)
        tree.gid(port, 0, "fe80:0000:0000:0000:a800:00ff:fe00:0001", "IB/RoCE v1", netdev)
        tree.gid(port, 1, f"0000:0000:0000:0000:0000:ffff:{mapped}", "RoCE v2", netdev)
        tree.write(f"{port}/gids/2", "0000:0000:0000:0000:0000:0000:0000:0000")
    tree.write("sys/class/infiniband/mlx4_0/fw_ver", "2.42.5000")
    return tree
