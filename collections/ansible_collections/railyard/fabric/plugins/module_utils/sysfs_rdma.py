# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel says of each RDMA port (HCA): state, rate, GID table, counters and its netdev."""

from __future__ import annotations

import ipaddress
import os
import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.sysfs import Reader, real_device

_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?) Gb/sec")
_NUMBERED = re.compile(r"[0-9]+: *")
_PHYSICAL_PORT = re.compile(r"p[0-9]+\Z")
_ROCE_V1 = "IB/RoCE v1"


def _word(text: str | None) -> str | None:
    """Drop the number before a state: `4: ACTIVE`."""
    return _NUMBERED.sub("", text, count=1) if text else None


def _address(gid: str) -> str | None:
    """Return the IP address that a RoCE GID stands for (IPv4 addresses are mapped into IPv6)."""
    try:
        address = ipaddress.IPv6Address(gid)
    except ValueError:
        return None
    return str(address.ipv4_mapped or address)


def _gids(reader: Reader, port_folder: str, ethernet: bool) -> list[dict[str, Any]]:
    rows = []
    for index in reader.names(os.path.join(port_folder, "gids")):
        gid = reader.text(os.path.join(port_folder, "gids", index))
        # Most of the table's 128 or more entries are empty; type and netdev of such an entry answer EINVAL.
        if not gid or not index.isdecimal() or not gid.replace(":", "").strip("0"):
            continue
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


def _port_of_netdev(reader: Reader, folder: str) -> int:
    """Return the port number of a netdev; mlx4 has both ports on one PCI function.

    `dev_port` counts from 0; mlx4 of older kernels left it 0 and told the port in `dev_id`.
    """
    port = reader.number(os.path.join(folder, "dev_port")) or 0
    return (port or reader.number(os.path.join(folder, "dev_id")) or 0) + 1


def _netdev_by_bus(reader: Reader, hca_folder: str, port: int, ports: int) -> str | None:
    """Find the netdev with the same bus device and port; a switch representor is not the port itself."""
    device = real_device(reader, hca_folder)
    if device is None:
        return None
    for name in reader.names(reader.sys("class", "net")):
        folder = reader.sys("class", "net", name)
        if real_device(reader, folder) != device:
            continue
        label = reader.text(os.path.join(folder, "phys_port_name"))
        if label and not _PHYSICAL_PORT.match(label):
            continue
        if ports == 1 or _port_of_netdev(reader, folder) == port:
            return name
    return None


def _netdev(reader: Reader, hca_folder: str, port: int, ports: int, gids: list[dict[str, Any]]) -> str | None:
    """Return the netdev of a port, from the surest source to the least.

    rxe and siw name their netdev in `parent`; a RoCE port names it beside each GID; InfiniBand names none, so
    that the bus device and port number have to tell.
    """
    parent = reader.text(os.path.join(hca_folder, "parent"))
    if parent:
        return parent
    found = _netdev_by_bus(reader, hca_folder, port, ports)
    named = [gid["netdev"] for gid in gids if gid["netdev"]]
    if named:
        # A VLAN's GIDs stand in the same table and name the VLAN.
        return found if found in named else str(named[0])
    return found


def _counters(reader: Reader, folder: str) -> dict[str, int]:
    values = {name: reader.number(os.path.join(folder, name)) for name in reader.names(folder)}
    # `lifespan` is how long hw_counters are cached, in ms: a setting.
    return {name: value for name, value in values.items() if value is not None and name != "lifespan"}


def read_port(reader: Reader, device: str, port: int | str) -> dict[str, Any] | None:
    """Return the facts of one RDMA port.

    Args:
        reader: Where sysfs is.
        device: RDMA device, such as `mlx4_0`.
        port: Its port number, from 1.

    Returns:
        HCA object of the facts row, named `device:port`; None when there is no such device or port now.
    """
    hca_folder = reader.sys("class", "infiniband", device)
    ports = [one for one in reader.names(os.path.join(hca_folder, "ports")) if one.isdecimal()]
    if str(port) not in ports:
        return None
    folder = os.path.join(hca_folder, "ports", str(port))
    layer = reader.text(os.path.join(folder, "link_layer"))
    rate = _RATE.match(reader.text(os.path.join(folder, "rate")) or "")
    gids = _gids(reader, folder, layer == "Ethernet")
    return {
        "hca": f"{device}:{port}",
        "device": device,
        "port": int(port),
        "link_layer": layer,
        "state": _word(reader.text(os.path.join(folder, "state"))),
        "physical_state": _word(reader.text(os.path.join(folder, "phys_state"))),
        "rate_gbps": float(rate.group(1)) if rate else None,
        "lid": reader.number(os.path.join(folder, "lid")),
        "sm_lid": reader.number(os.path.join(folder, "sm_lid")),
        "netdev": _netdev(reader, hca_folder, int(port), len(ports), gids),
        "firmware": reader.text(os.path.join(hca_folder, "fw_ver")),
        "node_guid": reader.text(os.path.join(hca_folder, "node_guid")),
        "board_id": reader.text(os.path.join(hca_folder, "board_id")),
        "gids": gids,
        "counters": _counters(reader, os.path.join(folder, "counters")),
        "hw_counters": _counters(reader, os.path.join(folder, "hw_counters")),
    }


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
            row = read_port(reader, device, port)
            if row is not None:
                rows.append(row)
    return rows


def attach(netdevs: list[dict[str, Any]], hcas: list[dict[str, Any]]) -> None:
    """Write each port's name into its netdev's `hca`; of two ports that claim one, the first has it."""
    by_netdev: dict[str, str] = {}
    for row in hcas:
        if row["netdev"]:
            by_netdev.setdefault(row["netdev"], row["hca"])
    for netdev in netdevs:
        netdev["hca"] = by_netdev.get(netdev["netdev"])
