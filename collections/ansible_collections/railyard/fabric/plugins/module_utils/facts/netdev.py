# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's facts about each netdev; addresses and types of software links from `ip -d -j addr`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from . import ethtool, pcie
from .sysfs import Reader, numa_node, real_device

COUNTERS = (
    "rx_bytes",
    "tx_bytes",
    "rx_packets",
    "tx_packets",
    "rx_errors",
    "tx_errors",
    "rx_dropped",
    "tx_dropped",
)
_KINDS = ("veth", "bond", "bridge", "vlan", "ipoib")
_SYSFS_MARKS = (("bonding", "bond"), ("bridge", "bridge"))
# Drivers and buses of a hypervisor's devices, whose reported speed is no line rate.
_VIRTUAL_DRIVERS = frozenset(
    ("virtio_net", "vmxnet3", "hv_netvsc", "netvsc", "vif", "xen_netfront", "xen-netfront")
)
_VIRTUAL_BUSES = frozenset(("virtio", "vmbus", "xen"))
_SOFTWARE_BUSES = frozenset(("netdevsim",))
# From the weakest class to the strongest: a bond has the class of its weakest member.
_CLASSES = ("software", "virtual", "hardware")
_ARPHRD_INFINIBAND = 32
_IFF_UP = 1
_ADDRESS_IS_PERMANENT = 0
_MAC = re.compile(r"(?:[0-9a-f]{2}:)+[0-9a-f]{2}\Z")
_NO_HARDWARE_ADDRESS = re.compile(r"(?:00[:-]?)+\Z")


def read_ip_json(text: str | None) -> dict[str, dict[str, Any]]:
    """Read the output of `ip -d -j addr`.

    Args:
        text: What ip printed, or None when it could not be run.

    Returns:
        Link objects by name; an empty mapping for text that is not ip's JSON.
    """
    try:
        links = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(links, list):
        return {}
    return {str(link["ifname"]): link for link in links if isinstance(link, dict) and "ifname" in link}


def _addresses(link: Mapping[str, Any], family: str) -> list[str]:
    found = link.get("addr_info")
    return [
        f"{one['local']}/{one['prefixlen']}"
        for one in (found if isinstance(found, list) else [])
        if isinstance(one, dict) and one.get("family") == family and "local" in one and "prefixlen" in one
    ]


def _link_kind(link: Mapping[str, Any]) -> str | None:
    info = link.get("linkinfo")
    kind = info.get("info_kind") if isinstance(info, dict) else None
    return kind if isinstance(kind, str) else None


def _kind(reader: Reader, folder: str, device: str | None, link_kind: str | None) -> str:
    """Return the type of a netdev; `virtual` is any software link without a type listed here."""
    if reader.number(os.path.join(folder, "type")) == _ARPHRD_INFINIBAND:
        return "ipoib"
    if device:
        return "physical"
    if link_kind:
        return link_kind if link_kind in _KINDS else "virtual"
    for mark, kind in _SYSFS_MARKS:
        if os.path.isdir(os.path.join(folder, mark)):
            return kind
    uevent = reader.text(os.path.join(folder, "uevent")) or ""
    return "vlan" if "DEVTYPE=vlan" in uevent.splitlines() else "virtual"


def _driver_class(reader: Reader, folder: str, device: str | None, driver: str | None) -> str:
    if device is None:
        # Only bonds and VLANs depend on other links; a bridge or veth is software whatever is attached to it.
        below = [name[len("lower_") :] for name in reader.names(folder) if name.startswith("lower_")]
        if not below or os.path.isdir(os.path.join(folder, "bridge")):
            return "software"
        return min((_class_by_name(reader, name) for name in below), key=_CLASSES.index)
    bus = reader.link_name(os.path.join(device, "subsystem"))
    if bus in _SOFTWARE_BUSES:
        return "software"
    return "virtual" if driver in _VIRTUAL_DRIVERS or bus in _VIRTUAL_BUSES else "hardware"


def _class_by_name(reader: Reader, name: str) -> str:
    folder = reader.sys("class", "net", name)
    device = real_device(reader, folder)
    # One level deep: a VLAN on a bond has the class of the bond's members; no loops.
    if device is None:
        members = [one[len("lower_") :] for one in reader.names(folder) if one.startswith("lower_")]
        devices = [real_device(reader, reader.sys("class", "net", one)) for one in members]
        return "hardware" if devices and all(devices) else "software"
    return _driver_class(reader, folder, device, reader.link_name(os.path.join(device, "driver")))


def _permanent_mac(reader: Reader, folder: str, link: Mapping[str, Any], mac: str | None) -> str | None:
    stated = link.get("permaddr")
    if isinstance(stated, str):
        # iproute2 prints a part of the IPv6 address for a tunnel over IPv6: "permaddr 8a4c:2ab6:ec8c::".
        return stated.lower() if _MAC.match(stated.lower()) else None
    # ip shows the permanent address only where it differs from the current one.
    permanent = reader.number(os.path.join(folder, "addr_assign_type")) == _ADDRESS_IS_PERMANENT
    return mac if permanent and os.path.exists(os.path.join(folder, "device")) else None


def _mtu_max_bytes(link: Mapping[str, Any]) -> int | None:
    """Return the largest MTU that the driver accepts; 0, which ip prints too, is no limit."""
    most = link.get("max_mtu")
    return most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else None


def read_netdev(reader: Reader, name: str, link: Mapping[str, Any]) -> dict[str, Any]:
    """Return one netdev's facts.

    Args:
        reader: Where sysfs is.
        name: Name of an existing netdev.
        link: Its object from `ip -d -j addr`, empty when unknown.

    Returns:
        The netdev object of the facts row, `hca` still None (`rdma_port.attach` fills it).
    """
    folder = reader.sys("class", "net", name)

    def at(*parts: str) -> str:
        return os.path.join(folder, *parts)

    device = real_device(reader, folder)
    bus_folder = pcie.pci_folder(device)
    pci_path = pcie.path(reader, bus_folder)
    link_kind = _link_kind(link)
    driver = reader.link_name(os.path.join(device, "driver")) if device else link_kind
    driver_class = _driver_class(reader, folder, device, driver)
    kind = _kind(reader, folder, device, link_kind)
    flags = reader.number(at("flags"))
    carrier = reader.number(at("carrier"))
    speed = reader.number(at("speed"))
    mac = (reader.text(at("address")) or "").lower() or None
    if mac and _NO_HARDWARE_ADDRESS.match(mac):
        mac = None
    return {
        "netdev": name,
        "kind": kind,
        "master": reader.link_name(at("master")),
        "carrier": None if carrier is None else carrier == 1,
        "operstate": reader.text(at("operstate")),
        "admin_up": None if flags is None else bool(flags & _IFF_UP),
        "speed_mbps": speed if speed is not None and 0 < speed < 2**31 else None,
        # The modes of a hypervisor's or a software link mean nothing.
        "speed_max_mbps": (
            ethtool.speed_max_mbps(name) if reader.live and driver_class == "hardware" else None
        ),
        "mtu_bytes": reader.number(at("mtu")),
        "mtu_max_bytes": _mtu_max_bytes(link),
        "ipoib_mode": reader.text(at("mode")) if kind == "ipoib" else None,
        "mac": mac,
        "permanent_mac": _permanent_mac(reader, folder, link, mac),
        "addresses": _addresses(link, "inet"),
        "addresses6": _addresses(link, "inet6"),
        "driver": driver,
        "driver_class": driver_class,
        "pci": os.path.basename(bus_folder) if bus_folder else None,
        "pci_link": pcie.own_link(pci_path),
        "pci_path": pci_path,
        "numa_node": numa_node(reader, bus_folder),
        "hca": None,
        "counters": {one: reader.number(at("statistics", one)) for one in COUNTERS},
    }


def read_netdevs(
    reader: Reader, ip_json: str | None, wanted: Iterable[str] | None = None
) -> list[dict[str, Any]]:
    """Return the facts of many netdevs.

    Args:
        reader: Where sysfs is; a wanted netdev that does not exist becomes one of its warnings.
        ip_json: The output of `ip -d -j addr`; None when it could not be run: then addresses are empty.
        wanted: Names; None for all but the loopback and the host's ends of containers (veth below a bridge).

    Returns:
        Netdev objects of the facts row, in natural order of their names.
    """
    links = read_ip_json(ip_json)
    if not links:
        reader.warnings.append(
            "ip -d -j addr gave no JSON: addresses and the kind of software links are unknown"
        )
    present = [one for one in reader.names(reader.sys("class", "net")) if one != "bonding_masters"]
    if wanted is None:
        rows = [read_netdev(reader, name, links.get(name, {})) for name in present if name != "lo"]
        return [row for row in rows if not (row["kind"] == "veth" and row["master"])]
    asked = list(dict.fromkeys(wanted))
    reader.warnings += [f"netdev {name}: there is none on this node" for name in asked if name not in present]
    return [read_netdev(reader, name, links.get(name, {})) for name in present if name in asked]
