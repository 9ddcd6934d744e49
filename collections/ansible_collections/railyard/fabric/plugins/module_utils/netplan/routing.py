# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan a rail's routes, its routing table and rule, and its ARP settings. Pure.

Linux routes by destination alone and answers ARP for any of its addresses on any netdev, so on a node with
several rails a reply may leave by another rail than the request. Each rail therefore has a table that a rule
selects by source address, and ARP sysctls that restrict its address to its netdev.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

# Kernel documentation, networking/ip-sysctl: arp_ignore 1 answers only for addresses of the netdev that
# received the request; arp_announce 2 sends requests with the netdev's address; rp_filter 2 (loose) accepts
# any route back, since with a table per rail the strict check would only use main. For each the larger of
# conf/all and conf/NETDEV applies.
ARP_IGNORE = 1
ARP_ANNOUNCE = 2
LOOSE = 2
MAIN = "main"

SYSCTL_HEADER = (
    "# Written by Railyard (role rail_network) from the inventory's `fabric`: a rail keeps its address to\n"
    "# itself. The next run undoes what is changed here by hand; change the inventory instead.\n"
)


def _family(cidr: str) -> str:
    return "inet6" if ":" in cidr else "inet"


def addresses(rail: Mapping[str, Any]) -> list[str]:
    """Return the rail's own addresses in CIDR form, IPv4 before IPv6; empty where none is planned."""
    return [str(rail[key]) for key in ("address", "address6") if rail.get(key)]


def routes(rail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the routes of a rail beyond those that its addresses make.

    In the main table: to the rail's `routes` through its gateway, never a default. In its own table: the
    subnet, the same routes, and with a gateway a default, which serves what is sent from the rail's address.

    Args:
        rail: rail dict with `address`, `address6`, `gateway`, `gateway6`, `routes`, `table`.

    Returns:
        `[{"to": CIDR or "default", "via": address or None, "table": int or None (main), "family"}]`.
    """
    planned = [dict(route) for route in rail.get("routes") or []]
    rows = [_row(route["to"], route["via"], None, _family(route["to"])) for route in planned]
    table = rail.get("table")
    if table is None:
        return rows
    for address in addresses(rail):
        family = _family(address)
        rows.append(_row(str(ipaddress.ip_interface(address).network), None, int(table), family))
        rows += [
            _row(route["to"], route["via"], int(table), family)
            for route in planned
            if _family(route["to"]) == family
        ]
        gateway = rail.get("gateway6" if family == "inet6" else "gateway")
        if gateway:
            rows.append(_row("default", str(gateway), int(table), family))
    return rows


def _row(to: str, via: str | None, table: int | None, family: str) -> dict[str, Any]:
    return {"to": str(to), "via": via, "table": table, "family": family}


def rules(rail: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return `[{"from": CIDR of one address, "table", "priority"}]`: its source address picks its table."""
    table = rail.get("table")
    if table is None:
        return []
    own = [ipaddress.ip_interface(address) for address in addresses(rail)]
    return [
        {"from": f"{one.ip}/{one.max_prefixlen}", "table": int(table), "priority": int(table)} for one in own
    ]


def sysctls(rail: Mapping[str, Any], rp_filter: int = LOOSE) -> dict[str, str]:
    """Return `{path under /proc/sys: value}` for a rail's netdev; a path, since a VLAN's name has a dot."""
    if not rail.get("address"):
        return {}
    folder = f"net/ipv4/conf/{rail['netdev']}"
    return {
        f"{folder}/arp_ignore": str(ARP_IGNORE),
        f"{folder}/arp_announce": str(ARP_ANNOUNCE),
        f"{folder}/rp_filter": str(rp_filter),
    }


def sysctl_text(rails: Sequence[Mapping[str, Any]], rp_filter: int = LOOSE) -> str:
    """Render the sysctl.d file for the next boots; empty when no rail needs a line.

    Keys are paths (sysctl.d(5): with a slash first, dots stand for themselves).
    """
    lines: list[str] = []
    for rail in rails:
        values = sysctls(rail, rp_filter)
        if values:
            lines.append(f"# {rail['name']}")
            lines += [f"{path} = {value}" for path, value in values.items()]
    return SYSCTL_HEADER + "\n".join(lines) + "\n" if lines else ""


def _network(text: str) -> str:
    if text == "default":
        return text
    # `ip` leaves the length away for a single address
    return str(ipaddress.ip_network(text, strict=False))


def drift(rail: Mapping[str, Any], snapshot: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return `(what, is, planned)` where the running routes and rules are not the rail's; carrier is needed.

    Args:
        rail: rail dict with its netdev resolved.
        snapshot: as `netplan_snapshot.take` returns it.
    """
    netdev, table = rail["netdev"], rail.get("table")
    planned = {_route_key(row["family"], row["table"] or MAIN, row["to"], row["via"]) for row in routes(rail)}
    running = {
        _route_key(row["family"], row["table"], row["dst"], row.get("gateway")): row
        for row in snapshot["routes"]
        if row.get("dev") == netdev and _is_plain(row)
    }
    found = [("route", "absent", _route_text(key)) for key in sorted(planned - set(running))]
    own = {str(table)} if table is not None else set()
    for key, row in sorted(running.items()):
        # In main only routes that networkd set from a file may be Railyard's; the rail's table is all
        # Railyard's.
        is_managed = row["protocol"] == "static" if row["table"] == MAIN else row["table"] in own
        if is_managed and key not in planned:
            found.append(("route", _route_text(key), "absent"))
    wanted = {(_network(rule["from"]), str(rule["table"]), rule["priority"]) for rule in rules(rail)}
    there = {
        (_source(row), str(row["table"]), row.get("priority"))
        for row in snapshot["rules"]
        if row.get("src", "all") != "all" and str(row.get("table")) in own
    }
    found += [("rule", "absent", _rule_text(rule)) for rule in sorted(wanted - there)]
    found += [("rule", _rule_text(rule), "absent") for rule in sorted(there - wanted, key=str)]
    return found


def _source(rule: Mapping[str, Any]) -> str:
    return _network(f"{rule['src']}/{rule['srclen']}" if "srclen" in rule else str(rule["src"]))


def _is_plain(row: Mapping[str, Any]) -> bool:
    # The kernel's multicast route is in no file.
    return row.get("type", "unicast") == "unicast" and not str(row.get("dst", "")).startswith("ff00")


def _route_key(family: str, table: object, to: str, via: str | None) -> tuple[str, str, str, str]:
    return family, str(table), _network(to), str(ipaddress.ip_address(via)) if via else ""


def _route_text(key: tuple[str, str, str, str]) -> str:
    _family_name, table, to, via = key
    return f"{to}{f' via {via}' if via else ''} in table {table}"


def _rule_text(rule: tuple[Any, ...]) -> str:
    return f"from {rule[0]} table {rule[1]} priority {rule[2]}"
