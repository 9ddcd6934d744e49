# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node writes of a rail's cable, the key `cabling` of its row: a record for each check."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Optional, TypedDict

from . import reader
from .facts import Count
from .node_rows import Amount, Positive
from .reader import Long, NotEmpty, NotTwice

Names = Annotated[list[str], NotTwice()]


class Foreign(TypedDict):
    """Ports of another segment that were heard: how many, and some of their nodes."""

    rail: str
    network: str
    count: Positive
    nodes: Annotated[list[str], NotEmpty()]


class Heard(TypedDict):
    """Whose beacons a port heard; `listened` is from when to when, in seconds since the epoch."""

    expected: Count
    heard: Count
    missing: Names
    foreign: list[Foreign]
    strangers: Count
    listened: Annotated[list[Amount], Long(2)]


class Owner(TypedDict):
    """Which MAC addresses answer for an address of a peer, and for one of another of its rails."""

    peer: str
    peer_address: str
    peer_mac: str
    claimed_by: list[str]
    other_rail: Optional[str]
    other_address: Optional[str]
    other_claimed_by: list[str]
    known: dict[str, str]


class Replies(TypedDict):
    """By which netdev a reply to a peer would leave, and how many of its replies came by which rail."""

    peer: str
    peer_address: str
    route_netdev: Optional[str]
    replies: dict[str, Count]


class Switch(TypedDict):
    """A switch, as it says itself by LLDP."""

    switch: Optional[str]
    chassis: str
    port: str


class Neighbours(TypedDict):
    """The switches that were heard: the first of so many."""

    neighbours: list[Switch]
    count: Count


_KINDS: Mapping[str, Any] = {
    "cabling": Heard,
    "link_address_owner": Owner,
    "reply_path": Replies,
    "neighbour": Neighbours,
}


def refusal(check: str, value: object) -> str | None:
    """Return why a row's `cabling` is invalid for a check, or None."""
    return reader.refusal(_KINDS[check], value, "cabling")
