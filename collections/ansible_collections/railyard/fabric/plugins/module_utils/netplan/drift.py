# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare a node's running network with its rails: before an apply (drift) and after it (proof)."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any

from . import render, routing

# netplan and systemctl print these on nodes without problems; other lines are reported.
HARMLESS = (
    # Open vSwitch is not installed and not needed.
    "Cannot call Open vSwitch: ovsdb-server.service is not running",
    "Cannot call openvswitch: ovsdb-server.service is not running",
    # The first apply finds networkd not started yet, and starts it.
    "Falling back to a hard restart of systemd-networkd.service",
    "Failed to reload network settings: Unit dbus-org.freedesktop.network1.service not found",
    "Failed to reload network settings: Could not activate remote peer",
)


def unexpected_lines(stderr: str) -> list[str]:
    """Return the lines of netplan's standard error that are not known to be harmless, each once."""
    # Every step of an apply generates again and repeats its messages.
    lines = dict.fromkeys(line.strip() for line in stderr.splitlines())
    return [line for line in lines if line and not any(known in line for known in HARMLESS)]


def _cidr(text: str) -> str:
    return str(ipaddress.ip_interface(text))


def drift(rails: Sequence[Mapping[str, Any]], snapshot: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return the differences between the running network and the rails.

    Without carrier networkd sets no address, so a missing address is then no drift: applying again would not
    help.
    The MTU and the link state are set with or without a cable.

    Args:
        rails: rail dicts with their netdev resolved.
        snapshot: as `netplan_snapshot.take` returns it.

    Returns:
        `[{"rail", "netdev", "what", "is", "planned"}]`, empty when both agree.
    """
    found = []

    def say(rail: Mapping[str, Any], what: str, actual: object, planned: object) -> None:
        row = {"rail": rail["name"], "netdev": rail["netdev"], "what": what}
        found.append({**row, "is": str(actual), "planned": str(planned)})

    for rail in rails:
        if not render.has_stanza(rail):
            continue
        link = snapshot["links"].get(rail["netdev"])
        if link is None:
            say(rail, "netdev", "absent", "present")
            continue
        if not link["admin_up"]:
            say(rail, "link", "down", "up")
        if rail.get("mtu") is not None and link["mtu_bytes"] != int(rail["mtu"]):
            say(rail, "mtu", link["mtu_bytes"], rail["mtu"])
        rows = snapshot["addresses"].get(rail["netdev"], [])
        present = {_cidr(row["cidr"]) for row in rows if row["scope"] == "global"}
        planned = {_cidr(address) for address in render.addresses(rail)}
        if link["carrier"] or not link["admin_up"]:
            for address in sorted(planned - present):
                say(rail, "address", "absent", address)
            # networkd sets routes and rules with the address, so with carrier alone
            for what, actual, wanted in routing.drift(rail, snapshot):
                say(rail, what, actual, wanted)
        for address in sorted(present - planned):
            say(rail, "address", address, "absent")
    return found


def sysctl_drift(
    rails: Sequence[Mapping[str, Any]], snapshot: Mapping[str, Any], wanted: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return the sysctls (`{path under /proc/sys: value}`) that are not as wanted; rows as in `drift`."""
    rail_of = {rail["netdev"]: rail["name"] for rail in rails}
    found = []
    for path, value in wanted.items():
        now = snapshot["sysctls"].get(path)
        if now != value:
            netdev = path.split("/")[-2] if path.count("/") > 1 else ""
            row = {"rail": rail_of.get(netdev, "node"), "netdev": netdev, "what": path}
            found.append({**row, "is": str(now), "planned": value})
    return found


def sentence(row: Mapping[str, str]) -> str:
    """Format a drift row: `rail0 (ens6): mtu is 1500, planned 9000`."""
    return f"{row['rail']} ({row['netdev']}): {row['what']} is {row['is']}, planned {row['planned']}"


def without_carrier(rails: Sequence[Mapping[str, Any]], snapshot: Mapping[str, Any]) -> list[str]:
    """Return the rails that are up without carrier: a finding about cable or peer, not an error of the files.

    A link that is down has no carrier either, which means nothing for its cable.
    """
    found = []
    for rail in rails:
        link = snapshot["links"].get(rail["netdev"])
        if render.has_stanza(rail) and link and link["admin_up"] and not link["carrier"]:
            found.append(
                f"{rail['name']} ({rail['netdev']}): no carrier; its address is set when the link comes up"
            )
    return found


def guards(
    rails: Sequence[Mapping[str, Any]], snapshot: Mapping[str, Any], masters: Mapping[str, str]
) -> list[str]:
    """Return why these netdevs must not be rails: ports of another device, or the path to the node."""
    found = []
    seen: dict[str, str] = {}
    for rail in rails:
        where = f"{rail['name']}: netdev {rail['netdev']}"
        if rail["netdev"] in seen:
            found.append(f"{where} is also the netdev of {seen[rail['netdev']]}; one of the two is wrong")
        seen.setdefault(rail["netdev"], rail["name"])
        if rail["netdev"] in masters:
            found.append(
                f"{where} is a port of {masters[rail['netdev']]}; take it out of that bond or bridge, or "
                "name another netdev for the rail"
            )
        # The table of a rail may have a default route through its gateway; the node's are in main.
        defaults = [
            row
            for row in snapshot["routes"]
            if row.get("dst") == "default" and row.get("table", "main") == "main"
        ]
        if any(rail["netdev"] in (row.get("dev"), *_hop_devs(row)) for row in defaults):
            found.append(
                f"{where} carries a default route of the node: it looks like the management network; "
                "correct `fabric.rails`, or remove that route first"
            )
    return found


def _hop_devs(row: Mapping[str, Any]) -> list[str]:
    return [hop.get("dev") for hop in row.get("nexthops", [])]
