# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the kernel's facts about each RDMA port (HCA): state, rate, MTU, GID table, counters and netdev."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator
from typing import Any

from . import verbs
from .hca import dpu_mode, numbered, read_device
from .sysfs import Reader, real_device

# `100 Gb/sec (4X EDR)`
_RATE = re.compile(r"(?P<gbps>[0-9]+(?:\.[0-9]+)?) Gb/sec(?: \((?P<width>[0-9]+X))?")
# Also a port that was split: p0s1 (devlink, torvalds/linux net/devlink/port.c).
_PHYSICAL_PORT = re.compile(r"p[0-9]+(?:s[0-9]+)?\Z")
_ROCE_V1 = "IB/RoCE v1"
#: The link layer of EFA in sysfs, IB_LINK_LAYER_UNSPECIFIED (torvalds/linux core/sysfs.c).
UNSPECIFIED_LAYER = "Unknown"


def _address(gid: str) -> str | None:
    """Return the IP address of a RoCE GID (IPv4 addresses are mapped into IPv6)."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)


def _table(reader: Reader, folder: str) -> Iterator[tuple[str, str]]:
    """Yield the entries in use of a table of GIDs or P_Keys, in the order of their indices.

    Most of its entries (rxe: 1024, mlx5: 256) are zero.
    """
    indices = [one for one in reader.unsorted_names(folder) if one.isdecimal()]
    for index in sorted(indices, key=int):
        entry = reader.text(os.path.join(folder, index))
        if entry and entry.replace(":", "").replace("0x", "", 1).strip("0"):
            yield index, entry


def _gids(reader: Reader, port_folder: str, ethernet: bool) -> list[dict[str, Any]]:
    rows = []
    for index, gid in _table(reader, os.path.join(port_folder, "gids")):
        # Type and netdev of an entry that vanished meanwhile return EINVAL.
        kind = reader.text(os.path.join(port_folder, "gid_attrs", "types", index))
        if kind == _ROCE_V1:
            kind = "RoCE v1" if ethernet else "IB"
        rows.append(
            {
                "index": int(index),
                "gid": gid,
                "type": kind,
                "netdev": reader.text(os.path.join(port_folder, "gid_attrs", "ndevs", index)),
                "address": _address(gid) if ethernet else None,
            }
        )
    return rows


def is_representor(reader: Reader, folder: str) -> bool:
    """Return whether a netdev is a switch representor, which represents another function's port."""
    label = reader.text(os.path.join(folder, "phys_port_name"))
    return label is not None and not _PHYSICAL_PORT.match(label)


def port_of_netdev(reader: Reader, folder: str) -> int:
    """Return the port number of a netdev; mlx4 has both ports on one PCI function.

    `dev_port` counts from 0; mlx4 in older kernels left it at 0 and set `dev_id` instead.
    """
    port = reader.number(os.path.join(folder, "dev_port")) or 0
    return (port or reader.number(os.path.join(folder, "dev_id")) or 0) + 1


def netdev_by_bus(reader: Reader, hca_folder: str, port: int, ports: int) -> str | None:
    """Find the netdev with the same bus device and port; a switch representor is not the port itself."""
    device = real_device(reader, hca_folder)
    if device is None:
        return None
    for name in reader.names(reader.sys("class", "net")):
        folder = reader.sys("class", "net", name)
        if real_device(reader, folder) != device:
            continue
        if is_representor(reader, folder):
            continue
        if ports == 1 or port_of_netdev(reader, folder) == port:
            return name
    return None


def _netdev(reader: Reader, hca_folder: str, port: int, ports: int, gids: list[dict[str, Any]]) -> str | None:
    """Return the netdev of a port, from the most reliable source to the least.

    rxe has its netdev in `parent`; a RoCE port has it for each GID; InfiniBand has none, so bus device and
    port number are compared.
    """
    parent = reader.text(os.path.join(hca_folder, "parent"))
    if parent:
        return parent
    found = netdev_by_bus(reader, hca_folder, port, ports)
    named = [gid["netdev"] for gid in gids if gid["netdev"]]
    if named:
        # A VLAN's GIDs are in the same table with the VLAN's name.
        return found if found in named else str(named[0])
    return found


def _port_guid(gids: list[dict[str, Any]], layer: str | None) -> str | None:
    """Return the GUID of a port of InfiniBand or EFA: the lower half of its first GID. A RoCE port has none.

    EFA's driver has no node_guid; its only GID is the device's address (torvalds/linux efa_verbs.c,
    efa_query_gid).
    """
    first = next((gid["gid"] for gid in gids if gid["index"] == 0), None)
    return ":".join(first.split(":")[4:]) if first and layer in ("InfiniBand", UNSPECIFIED_LAYER) else None


def _counters(reader: Reader, folder: str) -> dict[str, int]:
    values = {name: reader.number(os.path.join(folder, name)) for name in reader.names(folder)}
    # `lifespan` is how long hw_counters are cached, in ms: a setting.
    return {name: value for name, value in values.items() if value is not None and name != "lifespan"}


def _read_port(reader: Reader, device: str, port: int) -> dict[str, Any] | None:
    """Return a port's facts without its MTU."""
    hca_folder = reader.sys("class", "infiniband", device)
    ports = [one for one in reader.names(os.path.join(hca_folder, "ports")) if one.isdecimal()]
    if str(port) not in ports:
        return None
    folder = os.path.join(hca_folder, "ports", str(port))
    layer = reader.text(os.path.join(folder, "link_layer"))
    rate = _RATE.match(reader.text(os.path.join(folder, "rate")) or "")
    gids = _gids(reader, folder, layer == "Ethernet")
    netdev = _netdev(reader, hca_folder, port, len(ports), gids)
    pkeys: dict[str, int] = {}
    for index, key in _table(reader, os.path.join(folder, "pkeys")):
        pkeys.setdefault(key, int(index))
    row = {
        "hca": f"{device}:{port}",
        "device": device,
        "port": port,
        "link_layer": layer,
        "state": numbered(reader.text(os.path.join(folder, "state"))),
        "physical_state": numbered(reader.text(os.path.join(folder, "phys_state"))),
        "rate_gbps": float(rate.group("gbps")) if rate else None,
        "width": rate.group("width") if rate else None,
        "active_mtu_bytes": None,
        "max_mtu_bytes": None,
        "lid": reader.number(os.path.join(folder, "lid")),
        "sm_lid": reader.number(os.path.join(folder, "sm_lid")),
        "port_guid": _port_guid(gids, layer),
        "pkeys": list(pkeys),
        "pkey_indices": pkeys,
        "netdev": netdev,
        **read_device(reader, device),
        "dpu_mode": dpu_mode(reader, device, netdev),
        "gids": gids,
        "counters": _counters(reader, os.path.join(folder, "counters")),
        "hw_counters": _counters(reader, os.path.join(folder, "hw_counters")),
    }
    # A port that vanished between two of these reads is gone, not a port with unknown values.
    return row if os.path.isdir(folder) else None


def _add_mtu(reader: Reader, rows: list[dict[str, Any]]) -> None:
    """Add the MTU of all ports, with one query; it only works on the running kernel's sysfs."""
    if not reader.live:
        return
    found = verbs.query([(row["device"], row["port"]) for row in rows])
    for row in rows:
        mtu = found.get((row["device"], row["port"]))
        if mtu is not None:
            row["active_mtu_bytes"], row["max_mtu_bytes"] = mtu.active_bytes, mtu.max_bytes


def read_port(reader: Reader, device: str, port: int) -> dict[str, Any] | None:
    """Return the facts of one RDMA port.

    Args:
        reader: Where sysfs is.
        device: RDMA device, such as `mlx4_0`.
        port: Its port number, from 1.

    Returns:
        HCA object of the facts row, named `device:port`; None when there is no such device or port.
    """
    row = _read_port(reader, device, port)
    if row is not None:
        _add_mtu(reader, [row])
    return row


def read_hcas(reader: Reader) -> list[dict[str, Any]]:
    """Return the facts of all RDMA ports.

    Args:
        reader: Where sysfs is.

    Returns:
        HCA objects of the facts row, one per port, in natural order of their names; empty without RDMA.
    """
    rows = []
    for device in reader.names(reader.sys("class", "infiniband")):
        for port in reader.names(reader.sys("class", "infiniband", device, "ports")):
            row = _read_port(reader, device, int(port)) if port.isdecimal() else None
            if row is not None:
                rows.append(row)
    _add_mtu(reader, rows)
    return rows


def attach(netdevs: list[dict[str, Any]], hcas: list[dict[str, Any]]) -> None:
    """Write each port's name into its netdev's `hca`.

    If several ports have the same netdev, an adapter's comes before a software port, else the first.
    """
    by_netdev: dict[str, str] = {}
    for row in sorted(hcas, key=lambda one: one["driver_class"] != "hardware"):
        if row["netdev"]:
            by_netdev.setdefault(row["netdev"], row["hca"])
    for netdev in netdevs:
        netdev["hca"] = by_netdev.get(netdev["netdev"])
