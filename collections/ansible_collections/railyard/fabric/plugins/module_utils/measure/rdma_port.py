# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find a rail's RDMA port at the moment of a test; it is read from the kernel each time, never cached.

A device may vanish between inspection and test, and the index of a GID changes when addresses change.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

from ..catalogue import nic_drivers
from ..channel.rail_socket import Place
from ..facts import gid, rdma_port
from ..facts.sysfs import Reader


class RdmaPort(NamedTuple):
    """The port and its GID.

    Attributes:
        device: the RDMA device.
        port: the port number.
        gid_index: that of the rail's address on RoCE, 0 on EFA; None on InfiniBand, which needs none.
        gid_type: the GID's type on RoCE.
        numa_node: the device's NUMA node.
        port_guid: None on RoCE.
        connection: the value for perftest's `-c`; empty for its default, RC.
    """

    device: str
    port: int
    gid_index: Optional[int]  # noqa: UP045 - Python 3.9 evaluates it
    gid_type: Optional[str]  # noqa: UP045 - as above
    numa_node: Optional[int]  # noqa: UP045 - as above
    port_guid: Optional[str] = None  # noqa: UP045 - as above
    connection: str = ""


def find(place: Place, hca: str | None, reader: Reader | None = None) -> RdmaPort:
    """Return the rail's port as the kernel shows it now.

    Args:
        place: host, rail, netdev and address.
        hca: the port that the rail is bound to, as `device:port`.
        reader: where sysfs is.

    Raises:
        MeasurementError: `hca_missing`: it does not exist; `link_layer_wrong`: a rail without IP has another
            kind of port; `no_gid`: its table lacks the rail's address.
    """
    if not hca:
        raise place.error(
            "hca_missing",
            f"{place.rail} of {place.host} has no RDMA port: none belongs to {place.netdev or 'it'}",
            f"run the role rdma_stack, then check `rdma link` for a port with netdev {place.netdev}"
            if place.netdev
            else "name the rail's pci in the inventory, run the role rdma_stack, then check `rdma link`",
        )
    device, _colon, port = hca.partition(":")
    reader = reader or Reader()
    seen = rdma_port.read_port(reader, device, int(port)) if port.isdecimal() else None
    if seen is None:
        on = f" on {place.netdev}" if place.netdev else ""
        renamed = _find_new_name(place, reader)
        raise place.error(
            "hca_missing",
            f"{place.host} has no RDMA port {hca} now, which {place.rail}{on} needs"
            + (f": the port of {place.netdev} is called {renamed} now" if renamed else ""),
            "measure again: the device was renamed after this run had read the node's facts"
            if renamed
            else "check: rdma link; dmesg | grep -i -e mlx -e rxe; the role rdma_stack creates it again",
        )
    numa_node = seen.get("numa_node")
    if seen["link_layer"] == "InfiniBand":
        return RdmaPort(device, int(port), None, None, numa_node, seen.get("port_guid"))
    if connection := nic_drivers.connection_of(seen["driver"]):
        # EFA's table has one GID; without its index nothing arrives (linux-rdma/perftest issue 113).
        return RdmaPort(device, int(port), 0, None, numa_node, seen.get("port_guid"), connection)
    if place.management:
        raise place.error(
            "link_layer_wrong",
            f"{hca} of {place.host} is {seen['link_layer']}, and its rail {place.rail} has no IP address, "
            "which all but InfiniBand and EFA need",
            "set the port's type to InfiniBand (LINK_TYPE_P1=1 or LINK_TYPE_P2=1 with mstconfig from the "
            "package mstflint), or give the rail an address",
        )
    choice = gid.choose(seen["gids"], place.address, place.netdev)
    if choice is None:
        raise place.error(
            "no_gid",
            f"{hca} of {place.host} has no GID for {place.address}, the address of {place.rail} on "
            f"{place.netdev}",
            f"check that {place.netdev} has the address (ip addr show dev {place.netdev}) and is up; "
            f"grep . /sys/class/infiniband/{device}/ports/{port}/gids/*",
        )
    return RdmaPort(device, int(port), choice.index, choice.type, numa_node)


def _find_new_name(place: Place, reader: Reader) -> str | None:
    """Return the current name of the rail's port, by its netdev; None where that has none or two."""
    found = [
        row["hca"] for row in rdma_port.read_hcas(reader) if place.netdev and row["netdev"] == place.netdev
    ]
    return str(found[0]) if len(found) == 1 else None
