# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan of a run folder, as types. What each key means is in `docs/schema`; a test compares the two.

Sizes are bytes (`_bytes`, and `mtu`), bandwidths Gbit/s (`_gbps`), times seconds (`_s`).
"""

from __future__ import annotations

from typing import Literal, TypedDict


class Network(TypedDict):
    """A network beside the rails, as a node of the plan has it."""

    name: str
    purpose: str | None
    netdev: str | None
    subnet: str | None
    address: str | None
    vlan: int | None
    mtu: int | None
    manage: bool
    bmc: bool


class Bond(TypedDict):
    """A bond of a card's ports that is one rail (RoCE LAG)."""

    mode: Literal["802.3ad", "balance-xor", "active-backup"]
    ports: list[str]


class _RailOfSome(TypedDict, total=False):
    shares_wire_with: str
    divided_subnet: str
    divided_subnet6: str
    routes: list[dict[str, str]]
    table: int | None
    ipoib_mode: Literal["datagram", "connected"] | None
    link_local: list[Literal["ipv4", "ipv6"]]
    accept_ra: bool
    bond: Bond | None


class Rail(_RailOfSome):
    """A rail of a node, as the plan has it."""

    name: str
    netdev: str | None
    mac: str | None
    pci: str | None
    hca: str | None
    address: str | None
    address6: str | None
    subnet: str | None
    subnet6: str | None
    mtu: int | None
    gateway: str | None
    gateway6: str | None
    vlan: int | None
    rate_gbps: float | None
    leaf: str | None
