# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the card, RDMA device, wire and switch port of each port, beside what the facts have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..cabling import lldp
from ..facts import ethtool
from ..facts.rdma_port import is_representor, netdev_by_bus, port_of_netdev
from ..facts.sysfs import Reader
from ..records.bare_node import IdleFunction, Neighbour, Port
from . import vpd

Row = Mapping[str, Any]
_NETWORK_CLASS = 0x02
_DEVICE_KINDS = ("physical", "ipoib")
_NO_GUID = "0000:0000:0000:0000"


def read(reader: Reader, facts: Row, neighbours: Mapping[str, Sequence[lldp.Neighbour]]) -> list[Port]:
    """Return a node's ports, and its RDMA ports without netdev.

    Args:
        reader: where sysfs is; takes a warning for each VPD that cannot be read.
        facts: the node's facts.
        neighbours: netdev -> switch ports, as lldpd knows them.
    """
    rows = port_rows(reader, facts["netdevs"])
    by_name = {hca["hca"]: hca for hca in facts["hcas"]}
    hcas = _hcas(reader, rows, facts["hcas"])
    cards = _Cards(reader)
    found = []
    for row in rows:
        netdev, hca = row["netdev"], by_name.get(hcas.get(row["netdev"], ""))
        folder = reader.sys("class", "net", netdev)
        place = (row["pci"], max(port_of_netdev(reader, folder) - 1, 0))
        one = _port(cards, netdev, hca, place, lldp_rows(neighbours.get(netdev, ())))
        one["physical_port"] = _physical_port(reader, folder, hca)
        if one["firmware"] is None and reader.live and row["driver_class"] == "hardware":
            one["firmware"] = ethtool.firmware(netdev)
        found.append(one)
    taken, known = set(hcas.values()), {row["netdev"] for row in facts["netdevs"]}
    for hca in facts["hcas"]:
        # One whose netdev is a bond, or hidden in another namespace, is no port without netdev.
        if hca["hca"] not in taken and hca["driver_class"] == "hardware" and hca["netdev"] not in known:
            found += [_port(cards, None, hca, (hca["pci"], hca["port"] - 1), [])]
    return found


def port_rows(reader: Reader, netdevs: Iterable[Row]) -> list[Row]:
    """Return the netdevs that are ports: those of devices, or veths where there are none, as in a container.

    Representors and IPoIB's children share the device of a port and are none; the latter have an attribute
    `parent` (torvalds/linux drivers/infiniband/ulp/ipoib/ipoib_vlan.c).
    """
    netdevs = list(netdevs)
    found = []
    for row in netdevs:
        folder = reader.sys("class", "net", row["netdev"])
        is_child = row["kind"] == "ipoib" and os.path.exists(os.path.join(folder, "parent"))
        if row["kind"] in _DEVICE_KINDS and not is_child and not is_representor(reader, folder):
            found.append(row)
    return found or [row for row in netdevs if row["kind"] == "veth"]


def idle_functions(reader: Reader, facts: Row) -> list[IdleFunction]:
    """Return the network functions without netdev and RDMA device, as under vfio; virtual ones left out.

    A container sees the functions of the host and none of their netdevs: which are idle is unknown there.
    """
    if not any(row["kind"] in _DEVICE_KINDS for row in facts["netdevs"]):
        return []
    used = {row["pci"] for row in (*facts["netdevs"], *facts["hcas"])}
    found: list[IdleFunction] = []
    for pci in reader.names(reader.sys("bus", "pci", "devices")):
        folder = reader.sys("bus", "pci", "devices", pci)
        if pci in used or (reader.number(os.path.join(folder, "class")) or 0) >> 16 != _NETWORK_CLASS:
            continue
        if not _is_virtual_function(folder):
            driver = reader.link_name(os.path.join(folder, "driver"))
            found.append({"pci": pci, "pci_id": _pci_id(reader, folder), "driver": driver})
    return found


def lldp_rows(found: Iterable[lldp.Neighbour]) -> list[Neighbour]:
    """Return LLDP neighbours as the record has them, `lldp.MOST` at most."""
    most = list(found)[: lldp.MOST]
    return [{"switch": one.switch, "chassis": one.chassis, "port": one.port} for one in most]


def _hcas(reader: Reader, rows: Sequence[Row], hcas: Sequence[Row]) -> dict[str, str]:
    """Return netdev -> RDMA port: by the facts, else by PCI function and port number.

    The kernel may name a bond or a VLAN beside the GIDs of a port, so that the facts join those to it.
    """
    found = {row["netdev"]: row["hca"] for row in rows if row["hca"] is not None}
    taken, names = set(found.values()), {row["netdev"] for row in rows}
    devices = [hca["device"] for hca in hcas]
    for hca in hcas:
        if hca["hca"] in taken or hca["driver_class"] != "hardware":
            continue
        folder = reader.sys("class", "infiniband", hca["device"])
        netdev = netdev_by_bus(reader, folder, hca["port"], devices.count(hca["device"]))
        if netdev in names and netdev is not None:
            found.setdefault(netdev, hca["hca"])
    return found


def _port(
    cards: _Cards,
    netdev: str | None,
    hca: Row | None,
    place: tuple[str | None, int],
    neighbours: list[Neighbour],
) -> Port:
    pci, dev_port = place
    card = cards.read(pci)
    return {
        "netdev": netdev,
        "hca": hca["hca"] if hca else None,
        "pci": pci,
        "dev_port": dev_port,
        "pci_id": card[0],
        "model": card[1].model,
        "serial": card[1].serial,
        "firmware": hca["firmware"] if hca else None,
        "physical_port": None,
        "is_virtual_function": card[2],
        "neighbours": neighbours,
    }


class _Cards:
    """The PCI functions behind ports, each read once."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: dict[str, tuple[str | None, vpd.Card, bool]] = {}

    def read(self, pci: str | None) -> tuple[str | None, vpd.Card, bool]:
        """Return vendor and device, VPD, and whether the function is virtual."""
        if pci is None:
            return None, vpd.Card(), False
        if pci not in self._known:
            folder = self._reader.sys("bus", "pci", "devices", pci)
            is_virtual = _is_virtual_function(folder)
            card = vpd.Card() if is_virtual else self._vpd(os.path.join(folder, "vpd"))
            self._known[pci] = (_pci_id(self._reader, folder), card, is_virtual)
        return self._known[pci]

    def _vpd(self, path: str) -> vpd.Card:
        data = self._reader.data(path, vpd.MOST_BYTES)
        try:
            return vpd.read(data or b"")
        except vpd.VpdError as error:
            self._reader.warnings.append(f"{path}: {error}")
            return vpd.Card()


def _is_virtual_function(folder: str) -> bool:
    return os.path.lexists(os.path.join(folder, "physfn"))


def _pci_id(reader: Reader, folder: str) -> str | None:
    vendor, device = (reader.number(os.path.join(folder, name)) for name in ("vendor", "device"))
    if vendor is None or device is None or not (0 <= vendor <= 0xFFFF and 0 <= device <= 0xFFFF):
        return None
    return f"{vendor:04x}:{device:04x}"


def _physical_port(reader: Reader, folder: str, hca: Row | None) -> str | None:
    """Return what two functions on one wire share, None where the kernel does not report it.

    Many drivers answer EOPNOTSUPP to each of these. mlx5's switch id is the card's system image GUID
    (torvalds/linux mlx5/core/esw/devlink_port.c), which the RDMA device has where the switch id is missing.
    """
    port_id, name, card = (
        reader.text(os.path.join(folder, one)) for one in ("phys_port_id", "phys_port_name", "phys_switch_id")
    )
    if port_id or not name:
        return port_id
    if card is None and hca is not None:
        card = reader.text(reader.sys("class", "infiniband", hca["device"], "sys_image_guid"))
    return f"{card} {name}" if card and card != _NO_GUID else None
