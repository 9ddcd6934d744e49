# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE LAG: a bond of all ports of one card, which is one RDMA device (`mlx5_bond_0`). Pure.

mlx5 makes one device of the ports of a card where all of them, and nothing else, are in one bond whose mode
is active-backup or one that hashes, and where the card has no virtual functions (torvalds/linux
drivers/net/ethernet/mellanox/mlx5/core/lag/lag.c: mlx5_handle_changeupper_event, mlx5_lag_is_roce_lag).

Each queue pair leaves by one port; which one, the card decides, by turns or by a hash, and for what comes in
the switch. So one queue pair carries one port's rate (NVIDIA/nccl issue 1015; deepseek-ai/DeepEP pull request
671: 183 Gbit/s of 2 x 200, and 372 with 8 queue pairs), several carry up to the sum, and no vendor promises
more than one port. The device states one port's rate; `rdma link` shows the first port as its netdev, its
GIDs the bond.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

#: By which mlx5 makes one RDMA device of a card's ports, as the kernel's bonding driver calls them: whether
#: all ports carry at once. Of the others it makes none.
MODES = {"802.3ad": True, "balance-xor": True, "active-backup": False}
LEAST_PORTS, MOST_PORTS = 2, 4


def ports(rail: Mapping[str, Any]) -> list[str]:
    """Return the netdevs that a planned rail's bond is to have; none where it is no bond."""
    bond = rail.get("bond")
    return [str(port) for port in bond["ports"]] if isinstance(bond, Mapping) else []


def links(rail: Mapping[str, Any]) -> int:
    """Return how many ports of a planned rail carry at once: 1 but for a bond that spreads."""
    bond = rail.get("bond")
    return len(ports(rail)) if isinstance(bond, Mapping) and MODES.get(str(bond.get("mode"))) else 1


def differences(
    rail: Mapping[str, Any], device: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield where a node's netdev is not the bond that the inventory declares.

    Args:
        rail: the planned rail, with `bond`.
        device: the facts' netdev of its name.
        devices: all netdevs of the facts.
    """
    name, wanted = device["netdev"], ports(rail)
    if device.get("kind") != "bond":
        yield f"{name} is no bond, and the inventory declares one of {', '.join(wanted)}"
        return
    members = {str(one["netdev"]): one for one in devices if one.get("master") == name}
    if set(members) != set(wanted):
        found = ", ".join(sorted(members)) or "no port"
        yield f"{name} has {found}, the inventory declares {', '.join(wanted)}"
        return
    down = [port for port in wanted if members[port].get("carrier") is not True]
    if down:
        yield f"{', '.join(down)} of {name} has no carrier"
    cards = {str(members[port].get("pci")).rpartition(".")[0] for port in wanted}
    if len(cards) > 1:
        yield f"the ports of {name} are of {len(cards)} cards, and an RDMA device has those of one card"
