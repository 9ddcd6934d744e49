# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The netplan file of the frontend and of other networks with `manage: true`. Pure.

A managed network is treated like a rail without a routing table. The frontend is written, but is never among
the netdevs that a change may alter: losing its address or default route triggers the rollback.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from . import render as netplan_render
from .render import scalar

FILE = "/etc/netplan/60-railyard-networks.yaml"
HEADER = (
    "# Written by Railyard (role rail_network) from the inventory's `fabric.networks` and `fabric.frontend`\n"
    "# (`manage: true`). The next run undoes what is changed here by hand; change the inventory instead.\n"
)


def as_rails(networks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return managed networks in the format of rails, so that the same code resolves, checks and proves both.

    Args:
        networks: as the filter `node_networks` returns them.
    """
    found = []
    for network in networks:
        if network.get("manage") and network.get("address") and not network.get("bmc"):
            key = "address6" if ":" in network["address"] else "address"
            row: dict[str, Any] = {"name": network["name"], key: network["address"], "network": True}
            row.update({field: network.get(field) for field in ("netdev", "vlan", "mtu")})
            found.append(row)
    return found


def managed_frontend(frontend: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the frontend if Railyard manages it, else None."""
    return dict(frontend) if frontend and frontend.get("manage") else None


def _frontend(frontend: Mapping[str, Any]) -> list[str]:
    lines = ["    # frontend", *netplan_render.head(frontend, parent=False)]
    lines.append(f"      dhcp4: {'true' if frontend.get('dhcp4') else 'false'}")
    if frontend.get("address"):
        lines += netplan_render.address_list([str(frontend["address"])])
    if frontend.get("gateway"):
        lines += [
            "      routes:",
            "        - to: default",
            f"          via: {scalar(str(frontend['gateway']))}",
        ]
    return lines


def render(
    networks: Sequence[Mapping[str, Any]], frontend: Mapping[str, Any] | None, carried: Sequence[str] = ()
) -> str:
    """Render the file.

    Args:
        networks: rows of `as_rails`, placed on the node.
        frontend: as `managed_frontend` returns it, or None.
        carried: netdevs that already have a stanza, in this file or the rails': VLANs may use them.

    Returns:
        The file's text, empty when nothing is managed (the file must then be absent).
    """
    if not networks and frontend is None:
        return ""
    known = [*carried, str(frontend["netdev"])] if frontend else list(carried)
    ethernets, vlans = netplan_render.stanzas(networks, known)
    links = {str(row["parent"]) for row in networks if row.get("vlan") is not None}
    for netdev in sorted(links & set(carried)):
        # netplan needs the stanza of a VLAN's link first, and reads the rails' file after this one; it merges
        # the two.
        ethernets = [f"    {scalar(netdev)}:", netplan_render.RENDERER, *ethernets]
    if frontend is not None:
        ethernets = [*_frontend(frontend), *ethernets]
    return HEADER + netplan_render.document(ethernets, vlans)
