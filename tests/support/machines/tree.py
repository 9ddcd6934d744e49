# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Turn a node's description into a tree of kernel files: sysfs, procfs, /etc and the kernel's log.

Layouts are those of torvalds/linux: drivers/pci/pci-sysfs.c, net/core/net-sysfs.c, drivers/infiniband/core/
sysfs.c. What is a value comes from the data; MACs, GUIDs and addresses, which no published source shares, are
made up here, and differ from node to node.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.machines import drivers as driver_files
from support.machines import model
from support.machines.fields import Content, content

_FLAGS_UP, _FLAGS_DOWN = "0x1003", "0x1002"
_ETHERNET, _INFINIBAND = 1, 32
_STATISTICS = (
    *("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors", "rx_dropped"),
    *("tx_dropped", "rx_crc_errors", "rx_frame_errors", "tx_carrier_errors"),
)
_MOST_PORTS = 4
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
#: A counter's value when the node is looked at first.
BEGIN = 1_000_000


@dataclass
class Tree:
    """The kernel's files of a node, below a folder.

    Attributes:
        root: the folder.
        number: the node's, from 1.
        node: its description.
        drivers: what each kernel driver of RDMA shows.
        addresses: rail -> its planned addresses in CIDR form.
        errors: path -> the number with which opening it fails; `kernel.Kernel` answers so.
        ethtool: netdev -> its statistics of `ethtool -S` as they are now.
    """

    root: Path
    number: int
    node: model.Node
    drivers: Mapping[str, driver_files.Driver]
    addresses: Mapping[str, list[str]]
    errors: dict[str, int] = field(default_factory=dict)
    ethtool: dict[str, dict[str, int]] = field(default_factory=dict)
    _folders: set[Path] = field(default_factory=set)

    def build(self) -> None:
        """Write all files."""
        for folder in ("sys/class/net", "sys/class/infiniband", "sys/bus/pci/devices", "proc/self", "etc"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        self._host()
        for address in self.node.pci:
            self._function(address)
        for name, netdev in self.node.netdevs.items():
            self._netdev(name, netdev)
            self.ethtool[name] = dict(netdev.ethtool or {})
        self._netdev("lo", _LOOPBACK)
        for name, device in self.node.rdma.items():
            self._rdma(name, device)
        if self.node.nvidia:
            self._nvidia(self.node.nvidia)
        for path, one in self.node.files.items():
            self.put(path, one)

    def put(self, path: str, value: object) -> None:
        """Write, replace or remove a file."""
        wanted = value if isinstance(value, Content) else content(value, path)
        place = self.root / path.lstrip("/")
        if place.parent not in self._folders:
            place.parent.mkdir(parents=True, exist_ok=True)
            self._folders.add(place.parent)
        if self.errors and str(place) in self.errors:
            del self.errors[str(place)]
        if wanted.link is not None or wanted.data is None or place.is_symlink():
            place.unlink(missing_ok=True)
        if wanted.link is not None:
            place.symlink_to(self.root / wanted.link.lstrip("/"))
        elif wanted.data is not None:
            place.write_bytes(wanted.data)
            if wanted.error is not None:
                self.errors[str(place)] = wanted.error

    def mac(self, name: str) -> str:
        """Return a netdev's MAC: the data's, or a locally administered one."""
        told = self._of_node(self.node.netdevs[name].mac or "")
        return told or f"02:00:00:{self.number:02x}:00:{list(self.node.netdevs).index(name) + 1:02x}"

    def of_netdev(self, name: str) -> list[str]:
        """Return a netdev's addresses in CIDR form: its rail's planned ones, and its own."""
        netdev = self.node.netdevs[name]
        own = [self._of_node(one) for one in netdev.addresses]
        return [*self.addresses.get(netdev.rail or "", []), *own]

    def ip_json(self) -> str:
        """Return what `ip -d -j addr` prints."""
        links: list[dict[str, Any]] = []
        for index, (name, netdev) in enumerate(self.node.netdevs.items(), start=2):
            info = [
                {
                    "family": f"inet{'6' if one.version == 6 else ''}",
                    "local": str(one.ip),
                    "prefixlen": one.network.prefixlen,
                }
                for one in map(ipaddress.ip_interface, self.of_netdev(name))
            ]
            flags = ["BROADCAST", "MULTICAST", *(["UP"] if netdev.is_up else [])]
            flags += ["LOWER_UP"] if netdev.is_up and netdev.has_carrier else []
            links.append(
                {
                    "ifindex": index,
                    "ifname": name,
                    "flags": flags,
                    "mtu": netdev.mtu_bytes,
                    "operstate": self._operstate(netdev).upper(),
                    "link_type": "infiniband" if netdev.infiniband else "ether",
                    "address": self.mac(name),
                    **({"max_mtu": netdev.mtu_max_bytes} if netdev.mtu_max_bytes else {}),
                    "addr_info": info,
                }
            )
        return json.dumps(links)

    def gids(self, device: str, number: str) -> list[tuple[int, str, str, str | None]]:
        """Return a port's GIDs in use: index, GID, type as the kernel writes it, netdev."""
        port = self.node.rdma[device].ports[number]
        rows = port.gids if port.gids is not None else self.drivers[self.node.rdma[device].driver].gids
        if port.link_layer == "InfiniBand" and port.gids is None:
            rows = [model.Gid("infiniband", "IB/RoCE v1")]
        found: list[tuple[int, str, str, str | None]] = []
        for row in rows:
            netdev = row.netdev or port.netdev
            for gid in self._expanded(row.gid, device, number, netdev):
                found.append((len(found), gid, row.type, None if row.gid == "infiniband" else netdev))
        return found

    def guid(self, device: str, number: str = "0") -> str:
        """Return a made-up GUID of a device or one of its ports."""
        return f"0200:00ff:fe{self.number:02x}:{list(self.node.rdma).index(device) + 1:02x}{int(number):02x}"

    def port_folder(self, device: str, number: str) -> str:
        """Return the path of a port below the root."""
        return f"sys/class/infiniband/{device}/ports/{number}"

    def _expanded(self, word: str, device: str, number: str, netdev: str | None) -> list[str]:
        if word == "infiniband":
            return [f"fe80:0000:0000:0000:{self.guid(device, number)}"]
        if word == "link_local":
            octets = [int(one, 16) for one in self.mac(netdev).split(":")] if netdev else [2, 0, 0, 0, 0, 1]
            octets[0] ^= 2
            half = [*octets[:3], 0xFF, 0xFE, *octets[3:]]
            return [
                "fe80:0000:0000:0000:" + ":".join(f"{half[at]:02x}{half[at + 1]:02x}" for at in (0, 2, 4, 6))
            ]
        if word == "ipv4":
            texts = self.of_netdev(netdev) if netdev else []
            owned = [one.ip for one in map(ipaddress.ip_interface, texts) if one.version == 4]
            # The kernel writes %pI6 (drivers/infiniband/core/sysfs.c), ipaddress the last half in decimals.
            return [ipaddress.IPv6Address(f"::ffff:{one}").packed.hex(":", 2) for one in owned]
        return [self._of_node(word)]

    def _of_node(self, text: str) -> str:
        """Put the node's number in the place of `{node}`."""
        return text.replace("{node}", str(self.number))

    def _host(self) -> None:
        node = self.node
        self.put("proc/sys/kernel/random/boot_id", f"8a1f3f0e-5a39-4b0c-9e0c-5d5d1b2f8a{self.number:02x}")
        self.put("proc/sys/kernel/osrelease", node.kernel)
        self.put(
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max locked memory         unlimited            unlimited            bytes     ",
        )
        self.put("etc/os-release", "\n".join(f'{key.upper()}="{value}"' for key, value in node.os.items()))
        for cpu in range(node.cpus):
            folder = f"sys/devices/system/cpu/cpu{cpu}"
            (self.root / folder).mkdir(parents=True)
            if node.governor:
                self.put(f"{folder}/cpufreq/scaling_governor", node.governor)
                self.put(f"{folder}/cpufreq/scaling_available_governors", "performance powersave")
                self.put(f"{folder}/cpufreq/scaling_driver", "intel_cpufreq")
        nodes = sorted({one.numa for one in node.pci.values() if one.numa >= 0}) or [0]
        self.put("sys/devices/system/node/online", ",".join(map(str, nodes)))
        records = (
            f"6,{place},{place * 10**6},-;{text}"
            for place, text in enumerate(["Linux version", *node.kernel_log])
        )
        self.put("dev/kmsg", "\n".join(records))

    def _folder_of(self, address: str) -> Path:
        way = [address]
        while not way[0].startswith("pci"):
            way.insert(0, self.node.pci[way[0]].parent)
        return self.root.joinpath("sys/devices", *way)

    def _function(self, address: str) -> None:
        function, folder = self.node.pci[address], self._folder_of(address)
        base = str(folder.relative_to(self.root))
        for name, value in (
            ("vendor", f"0x{function.ids[:4]}"),
            ("device", f"0x{function.ids[5:]}"),
            ("class", function.class_code),
            ("numa_node", function.numa),
        ):
            self.put(f"{base}/{name}", value)
        for prefix, link in (("current", function.link), ("max", function.max_link or function.link)):
            if link is not None:
                self.put(f"{base}/{prefix}_link_speed", f"{link.speed_gts} GT/s PCIe")
                self.put(f"{base}/{prefix}_link_width", link.width)
        (folder / "subsystem").symlink_to(self.root / "sys/bus/pci")
        if function.driver:
            driver = self.root / "sys/bus/pci/drivers" / function.driver
            driver.mkdir(parents=True, exist_ok=True)
            (folder / "driver").symlink_to(driver)
        (self.root / "sys/bus/pci/devices" / address).symlink_to(folder)
        for name, one in function.files.items():
            self.put(f"{base}/{name}", one)

    def _operstate(self, netdev: model.Netdev) -> str:
        return "up" if netdev.is_up and netdev.has_carrier else "down"

    def _netdev(self, name: str, netdev: model.Netdev) -> None:
        base = f"sys/class/net/{name}"
        place = self.root / base
        if netdev.pci is not None:
            below = self._folder_of(netdev.pci)
            real = below / "net" / name
            real.mkdir(parents=True)
            place.symlink_to(real)
            (real / "device").symlink_to(below)
        known = name in self.node.netdevs
        has_speed = netdev.speed_mbps is not None and netdev.is_up and netdev.has_carrier
        values: dict[str, object] = {
            "type": _INFINIBAND if netdev.infiniband else _ETHERNET if known else 772,
            "flags": _FLAGS_UP if netdev.is_up else _FLAGS_DOWN,
            "carrier": (1 if netdev.has_carrier else 0) if netdev.is_up else {"errno": "EINVAL"},
            "carrier_changes": 2,
            "operstate": self._operstate(netdev) if known else "unknown",
            "mtu": netdev.mtu_bytes,
            "address": self.mac(name) if known else "00:00:00:00:00:00",
            "addr_assign_type": 0,
            "dev_port": netdev.port - 1,
            "dev_id": "0x0",
            "speed": netdev.speed_mbps if has_speed else {"errno": "EINVAL"},
            "uevent": f"INTERFACE={name}",
            **({"mode": "datagram"} if netdev.infiniband else {}),
            **(
                {
                    f"statistics/{one}": BEGIN if one.endswith(("bytes", "packets")) else 0
                    for one in _STATISTICS
                }
            ),
        }
        for key, value in values.items():
            self.put(f"{base}/{key}", value)
        for key, one in netdev.files.items():
            self.put(f"{base}/{key}", one)

    def _rdma(self, name: str, device: model.RdmaDevice) -> None:
        base = f"sys/class/infiniband/{name}"
        if device.pci is not None:
            below = self._folder_of(device.pci)
            real = below / "infiniband" / name
            real.mkdir(parents=True)
            (self.root / base).symlink_to(real)
            (real / "device").symlink_to(below)
        self.put(f"{base}/node_guid", self.guid(name))
        self.put(f"{base}/sys_image_guid", self.guid(name))
        self.put(f"{base}/node_type", "1: CA")
        for key, one in device.files.items():
            self.put(f"{base}/{key}", one)
        driver = self.drivers[device.driver]
        for number, port in device.ports.items():
            self._port(name, number, port, driver)

    def _port(self, device: str, number: str, port: model.Port, driver: driver_files.Driver) -> None:
        base = self.port_folder(device, number)
        # An InfiniBand port has a LID of its own.
        place = 1 + list(self.node.rdma).index(device) * _MOST_PORTS + int(number)
        made_up = f"0x{self.number:x}{place:02x}" if port.link_layer == "InfiniBand" else "0x0"
        for key in ("link_layer", "state", "phys_state", "rate", "lid", "sm_lid"):
            value = getattr(port, key)
            self.put(f"{base}/{key}", made_up if value is None else self._of_node(value))
        for index, key in enumerate(port.pkeys):
            self.put(f"{base}/pkeys/{index}", key)
        used = self.gids(device, number)
        for index, gid, kind, netdev in used:
            self.put(f"{base}/gids/{index}", gid)
            self.put(f"{base}/gid_attrs/types/{index}", kind)
            self.put(f"{base}/gid_attrs/ndevs/{index}", netdev or {"errno": "EINVAL"})
        for index in range(len(used), driver.gid_table_entries):
            self.put(f"{base}/gids/{index}", _NO_GID)
            for kind in ("types", "ndevs"):
                self.put(f"{base}/gid_attrs/{kind}/{index}", {"errno": "EINVAL"})
        moved = {one.path for one in driver.traffic}
        for folder, names in (("counters", driver.counters), ("hw_counters", driver.hw_counters)):
            for name in names:
                value: object = BEGIN if f"{folder}/{name}" in moved else 0
                if folder == "counters" and driver.counters_errno:
                    value = {"errno": driver.counters_errno}
                self.put(f"{base}/{folder}/{name}", 10 if name == "lifespan" else value)
        for key, one in port.files.items():
            self.put(f"{base}/{key}", one)

    def _nvidia(self, nvidia: model.Nvidia) -> None:
        kind = " Open Kernel Module for x86_64" if nvidia.module == "open" else " x86_64 Kernel Module"
        self.put("sys/module/nvidia/version", nvidia.version)
        self.put(
            "proc/driver/nvidia/version",
            f"NVRM version: NVIDIA UNIX{kind}  {nvidia.version}  Release Build\nGCC version:  gcc 12.2.0",
        )


_LOOPBACK = model.Netdev(mtu_bytes=65536)
