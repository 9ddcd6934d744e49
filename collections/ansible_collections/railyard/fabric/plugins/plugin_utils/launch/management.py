# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the management addresses over which nodes connect whose rails (InfiniBand, EFA) have no IP.

It is the host variable `management_address`, else the address of `ansible_host`. An address counts only if
the node's facts show it on a netdev: behind a jump host, a port forward or NAT other nodes cannot use the
controller's address of a node. An unknown address is reported with its reason, and that node's pairs stay
unmeasured.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row

#: Returns the addresses that a name has, in the resolver's order; none where it has none.
Resolve = Callable[[str], list[str]]


def entries(
    nodes: Iterable[Node], plan: Plan, facts: Iterable[Row], resolve: Resolve
) -> dict[str, dict[str, Any]]:
    """Return the roster's entries for nodes whose rails have no IP.

    Args:
        nodes: the inventory's nodes.
        plan: plan.json.
        facts: the facts rows of the run.
        resolve: the controller's resolver; called only for names of such nodes.

    Returns:
        node -> `address` (bare, or None and then `why_not` says why) and `port_guids` (rail -> GUID, of those
        that the facts tell). Nodes that have no such rail are left out.
    """
    rows = {str(row.get("node")): row for row in facts}
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        planned = plan["nodes"].get(node.name) or {}
        rails = [rail for rail in planned.get("rails", ()) if bind.without_ip(rail)]
        if planned.get("transport") not in WITHOUT_IP or not rails:
            continue
        row = rows.get(node.name)
        address, why_not = _address(node, row, resolve)
        guids = bind.port_guids(rails, row) if row else {}
        found[node.name] = {"address": address, "why_not": why_not, "port_guids": guids}
    _refuse_shared(found)
    return found


def _address(node: Node, row: Row | None, resolve: Resolve) -> tuple[str | None, str | None]:
    """Return the node's address and None, or None and why there is none."""
    if row is None:
        return None, "the node could not be inspected"
    if node.management_address is not None:
        named, candidates = "management_address", [str(node.management_address)]
    elif node.ansible_host is None:
        return None, "ansible_host is an expression, which only Ansible can tell"
    else:
        named = f"ansible_host {node.ansible_host}"
        candidates = _bare(node.ansible_host) or resolve(node.ansible_host)
    if not candidates:
        return None, f"the controller cannot resolve {named}"
    own = _own_addresses(row)
    fit = [text for text in map(_canonical, candidates) if text in own]
    if fit:
        # Both ends must be of one family, so all that can take IPv4.
        return next((text for text in fit if ":" not in str(text)), fit[0]), None
    return None, f"{named} means {', '.join(candidates)} to the controller, which is on no netdev of the node"


def _refuse_shared(found: dict[str, dict[str, Any]]) -> None:
    """Remove addresses that several nodes share: a floating address identifies none of them."""
    owners: dict[str, list[str]] = {}
    for name, entry in found.items():
        if entry["address"] is not None:
            owners.setdefault(entry["address"], []).append(name)
    for address, names in owners.items():
        for name in names if len(names) > 1 else ():
            others = ", ".join(one for one in names if one != name)
            found[name].update(address=None, why_not=f"{address} is also that of {others}")


def _bare(text: str) -> list[str]:
    try:
        return [str(ipaddress.ip_address(text))]
    except ValueError:
        return []


def _canonical(text: str) -> str | None:
    """Return an address as facts write it; None for one that no other node could reach."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    local = address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast
    return None if local else str(address)


def _own_addresses(row: Row) -> set[str]:
    found = set()
    for device in row.get("netdevs") or ():
        for key in ("addresses", "addresses6"):
            for text in device.get(key) or ():
                found |= set(_bare(str(text).split("/", maxsplit=1)[0]))
    return found
