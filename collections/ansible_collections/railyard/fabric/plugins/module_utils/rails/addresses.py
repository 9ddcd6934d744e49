# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses as numbers: networks, what of them a node may have, and a node's index.

Pure and of the standard library alone, like `rails`, which builds on it: filter, plan and runner use both.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache
from typing import Union

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Network = Union[ipaddress.IPv4Network, ipaddress.IPv6Network]  # noqa: UP007 - see above


class PlanError(ValueError):
    """What keeps a rail from being planned.

    Attributes:
        variable: dotted path of the variable at fault, as `fabric.rails[0].subnet` or `node_index`.
        rail: name of the rail, or None for the node.
        problem: what is wrong, without the host (equal problems of many hosts fold into one).
        fix: what to write instead.
    """

    def __init__(self, variable: str, rail: str | None, problem: str, fix: str) -> None:
        self.variable, self.rail = variable, rail
        self.problem, self.fix = problem, fix
        where = variable if rail is None else f"{variable} (rail {rail})"
        super().__init__(f"{where}: {problem}. Fix: {fix}")


@lru_cache(maxsize=65536)
def network_of(text: str) -> Network:
    """Parse a subnet; the cache makes one object of a subnet that thousands of nodes share.

    Raises:
        ValueError: the text is no network, or has host bits set.
    """
    return ipaddress.ip_network(text)


def usable_range(network: Network) -> tuple[int, int]:
    """Return the lowest and highest address a node or gateway may have, as integers.

    IPv4: neither network nor broadcast address, except in a /31 (RFC 3021) or /32, which have none. IPv6: not
    the first address, which is the subnet-router anycast (RFC 4291), except in a /127 (RFC 6164) or /128.
    """
    first, last = int(network.network_address), int(network.broadcast_address)
    if network.max_prefixlen - network.prefixlen >= 2:
        first += 1
        last -= 1 if network.version == 4 else 0
    return first, last


def address_text(network: Network, value: int) -> str:
    """Write an integer as an address of the network's family, without a prefix length."""
    return str(ipaddress.IPv4Address(value) if network.version == 4 else ipaddress.IPv6Address(value))


def node_number(name: str, node_index: int | None = None) -> int | None:
    """Return the node's index: `node_index`, else the number that ends the host's name, else None.

    The host's name is the part before the first dot. A name that is an IP address has no such number. The
    place in the inventory is never used: it shifts when a node is added.

    Raises:
        PlanError: `node_index` is given and is no integer ≥ 0.
    """
    if node_index is not None:
        if isinstance(node_index, bool) or not isinstance(node_index, int) or node_index < 0:
            raise PlanError(
                "node_index",
                None,
                f"it is {node_index!r}, not a whole number ≥ 0",
                "write it as `node_index: 7`",
            )
        return int(node_index)
    try:
        ipaddress.ip_address(name)
    except ValueError:
        match = re.search(r"([0-9]+)$", name.split(".", 1)[0])
        return int(match.group(1)) if match else None
    return None


def computed_subnet(supernet: str, rail_prefix: int, rail: int, variable: str = "fabric.supernet") -> str:
    """Return the `rail`-th subnet of length `rail_prefix` in `supernet`, counting from 0.

    Args:
        supernet: the network that is cut.
        rail_prefix: prefix length of each part.
        rail: which part, from 0.
        variable: the inventory variable that gives the supernet, for the error.

    Raises:
        PlanError: the supernet has no such subnet.
    """
    network = network_of(supernet)
    fits = network.prefixlen <= rail_prefix <= network.max_prefixlen
    if not fits or rail >> (rail_prefix - network.prefixlen):
        raise PlanError(
            variable,
            f"rail{rail}",
            f"{supernet} has no /{rail_prefix} number {rail} (counting from 0)",
            "take a larger supernet, or a longer rail_prefix",
        )
    base = int(network.network_address) + (rail << (network.max_prefixlen - rail_prefix))
    return f"{address_text(network, base)}/{rail_prefix}"


def node_network(
    variable: str, rail: str | None, subnet: str, prefix: int, number: int | None, host_offset: int
) -> str:
    """Return the network of node `number` alone: the part of a subnet numbered host_offset + number, from 0.

    Args:
        variable: the inventory variable that gives the subnet, for the error.
        rail: the rail's name.
        subnet: the rail's subnet, which holds all nodes' networks.
        prefix: prefix length of each node's network.
        number: the node's index (`node_number`); None where it has none.
        host_offset: the fabric's `host_offset`.

    Raises:
        PlanError: there is no number, or the subnet has no such part.
    """
    network, part = network_of(subnet), host_offset + _known(number)
    if part < 0 or part >> (prefix - network.prefixlen):
        most = (1 << (prefix - network.prefixlen)) - 1
        raise PlanError(
            variable,
            rail,
            f"host_offset + node_index must be 0 to {most}, the /{prefix} networks in {subnet}; host_offset "
            f"is {host_offset}",
            "take a larger subnet, or correct host_offset or node_index",
        )
    base = int(network.network_address) + (part << (network.max_prefixlen - prefix))
    return f"{address_text(network, base)}/{prefix}"


def host_address(variable: str, rail: str | None, subnet: str, number: int | None, host_offset: int) -> str:
    """Return the address of node `number` in a subnet, in CIDR form: network + host_offset + number.

    Args:
        variable: the inventory variable that gives the subnet, for the error.
        rail: the rail's name, or None where the address is on another network.
        subnet: the network, without host bits.
        number: the node's index (`node_number`); None where it has none.
        host_offset: the fabric's `host_offset`.

    Raises:
        PlanError: there is no number, or the address is none that a node may have.
    """
    number = _known(number)
    network = network_of(subnet)
    first, last = usable_range(network)
    base = int(network.network_address)
    value = base + host_offset + number
    if not first <= value <= last:
        raise PlanError(
            variable,
            rail,
            f"host_offset + node_index must be {first - base} to {last - base} in {subnet} (network, "
            f"broadcast and anycast addresses belong to no node); host_offset is {host_offset}",
            "take a larger subnet, or correct host_offset or node_index",
        )
    return f"{address_text(network, value)}/{network.prefixlen}"


def _known(number: int | None) -> int:
    if number is None:
        raise PlanError(
            "node_index",
            None,
            "the host's name ends in no number and node_index is not set, so no address can be computed",
            "set the host variable node_index (a number that stays when nodes are added)",
        )
    return number
