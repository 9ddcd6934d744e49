# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node's addresses on the networks beside its rails (storage, out-of-band), as pure as the rails' rule."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping
from typing import Any

from .addresses import PlanError, host_address, network_of, node_number, usable_range

NETWORK_KEYS = ("name", "purpose", "netdev", "subnet", "address", "vlan", "mtu", "manage", "bmc")


def plan_networks(
    fabric: Mapping[str, Any],
    name: str,
    node_index: int | None = None,
    network_addresses: Mapping[str, str] | None = None,
) -> list[dict[str, Any]]:
    """Plan what a node has on each of `fabric.networks`.

    A managed network gives an address by the rails' rule (subnet + host_offset + index), unless the node's
    `network_addresses` names one. On a network that Railyard does not manage only the latter is known. On a
    network of BMCs the node itself has none.

    Args:
        fabric: the inventory's `fabric`.
        name: the node's inventory name.
        node_index: the node's index; if None, the number that ends its name.
        network_addresses: the host variable: network's name → address in CIDR form.

    Returns:
        One dict per network, in the order of the fabric, each with all of `NETWORK_KEYS`; `address` is in
        CIDR form or None, `mtu` in bytes or None.

    Raises:
        PlanError: an address cannot be given, or `network_addresses` names a network that there is not.
    """
    declared = dict(network_addresses or {})
    items = list(fabric.get("networks") or [])
    strangers = sorted(set(declared) - {item.get("name") for item in items}, key=str)
    if strangers:
        raise PlanError(
            f"network_addresses.{strangers[0]}", None, "the fabric has no such network", "correct the name"
        )
    offset = int(fabric.get("host_offset") or 0)
    planned = []
    for index, item in enumerate(items):
        network: dict[str, Any] = {key: item.get(key) for key in NETWORK_KEYS}
        network["manage"], network["bmc"] = bool(item.get("manage")), bool(item.get("bmc"))
        if network["subnet"] is not None:
            network["subnet"] = str(network_of(network["subnet"]))
        network["address"] = None
        if network["name"] in declared:
            network["address"] = _declared(network, declared[network["name"]])
        elif network["manage"] and not network["bmc"]:
            variable = f"fabric.networks[{index}].subnet"
            if network["subnet"] is None:
                raise PlanError(
                    variable,
                    None,
                    f"network {network['name']} is to be written, and nothing gives the node an address",
                    f"add a subnet, or `network_addresses: {{{network['name']}: ...}}` to the node",
                )
            number = node_number(name, node_index)
            network["address"] = host_address(variable, None, network["subnet"], number, offset)
        planned.append(network)
    return planned


def _declared(network: Mapping[str, Any], text: str) -> str:
    refuse = functools.partial(PlanError, f"network_addresses.{network['name']}", None)
    try:
        interface = ipaddress.ip_interface(text)
    except ValueError:
        interface = None
    if interface is None or "/" not in text:
        raise refuse(f"{text!r} is no address with its prefix length", "write it as 10.9.0.7/24")
    if network["bmc"]:
        raise refuse(
            f"network {network['name']} is that of the BMCs, where the node itself has no address",
            "write the BMC's address as the host variable bmc_address",
        )
    own = interface.network if network["subnet"] is None else network_of(network["subnet"])
    first, last = usable_range(own)
    if interface.network != own or not first <= int(interface.ip) <= last:
        raise refuse(
            f"{text} is no usable address of {own}, the subnet of network {network['name']}",
            f"take a free address of {own}, with that prefix length",
        )
    return str(interface)
