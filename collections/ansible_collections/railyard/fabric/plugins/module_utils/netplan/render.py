# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Render netplan: a node's rails in, the text of its netplan file out. The only place that does so.

Pure and standard library only: it runs in the golden tests and on the node, where rails that are named by MAC
or bus address get their netdev.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from . import routing

addresses = routing.addresses

HEADER = (
    "# Written by Railyard (role rail_network) from the inventory's `fabric`: one stanza per rail.\n"
    "# The next run undoes what is changed here by hand; change the inventory instead.\n"
)

# Per device, never for the file: a global renderer would apply to all files of the node.
RENDERER = "      renderer: networkd"

# Values that YAML 1.1 does not read as strings when they are not quoted.
_BARE_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_YAML_WORDS = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}


class RenderError(ValueError):
    """A rail has a setting that this role does not write."""


def scalar(text: str) -> str:
    """Write a string so that YAML reads it as one."""
    if _BARE_ID.match(text) and text.lower() not in _YAML_WORDS:
        return text
    if re.match(r"[0-9.]+/[0-9]+\Z", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def has_stanza(rail: Mapping[str, Any]) -> bool:
    """Return whether the rail needs netplan at all: an InfiniBand rail without IP does not."""
    return bool(addresses(rail))


def head(device: Mapping[str, Any], *, parent: bool) -> list[str]:
    """Return a device's id and, where its permanent MAC is known, a match that does not depend on the name.

    netplan's reference says that `mtu` "will not work reliably for devices matched by name only and rendered
    by networkd", since udev renames devices (netplan-yaml, `mtu`; LP #1724895). The MAC is matched where it
    is permanent; `set-name` keeps the name that rules, sysctls and NCCL use.
    """
    name = str(device["parent"] if parent else device["netdev"])
    lines = [f"    {scalar(name)}:", RENDERER]
    if device.get("permanent_mac"):
        lines += [
            "      match:",
            f"        macaddress: {scalar(str(device['permanent_mac']))}",
            f"      set-name: {scalar(name)}",
        ]
    return lines


def quiet() -> list[str]:
    """Return the settings of a netdev that only carries VLANs: no addresses."""
    return ["      dhcp4: false", "      dhcp6: false", "      accept-ra: false", "      link-local: []"]


def address_list(values: Sequence[str]) -> list[str]:
    """Return the `addresses` key of a device."""
    return ["      addresses:", *(f"        - {scalar(value)}" for value in values)]


def _settings(rail: Mapping[str, Any]) -> list[str]:
    local = rail.get("link_local")
    local = ["ipv6"] if local is None else list(local)
    lines = [
        "      dhcp4: false",
        "      dhcp6: false",
        # Unless declared, a router advertisement must not give the node a default route through a rail.
        f"      accept-ra: {'true' if rail.get('accept_ra') else 'false'}",
    ]
    # Kept by default: RoCE v2 has a GID from the link-local address, and IPv6 neighbor discovery needs one.
    lines.append("      link-local:" + ("" if local else " []"))
    lines += [f"        - {scalar(str(family))}" for family in local]
    if rail.get("ipoib_mode"):
        lines.append(f"      infiniband-mode: {scalar(str(rail['ipoib_mode']))}")
    lines += address_list(addresses(rail))
    if rail.get("mtu") is not None:
        lines.append(f"      mtu: {int(rail['mtu'])}")
    rows = routing.routes(rail)
    lines += ["      routes:"] if rows else []
    for row in rows:
        lines.append(f"        - to: {scalar(row['to'])}")
        lines.append(f"          via: {scalar(row['via'])}" if row["via"] else "          scope: link")
        if row["table"] is not None:
            lines.append(f"          table: {row['table']}")
    policies = routing.rules(rail)
    lines += ["      routing-policy:"] if policies else []
    for rule in policies:
        lines.append(f"        - from: {scalar(rule['from'])}")
        lines.append(f"          table: {rule['table']}")
        lines.append(f"          priority: {rule['priority']}")
    # Without it a node with an unplugged cable waits two minutes at boot for a rail.
    lines.append("      optional: true")
    return lines


def _parents(rails: Sequence[Mapping[str, Any]], known: Sequence[str]) -> list[str]:
    """Return the stanzas of netdevs that only carry rails' VLANs; each as large as its largest VLAN."""
    own = {rail["netdev"] for rail in rails if rail.get("vlan") is None} | set(known)
    lines: list[str] = []
    for rail in rails:
        parent = rail.get("parent")
        if rail.get("vlan") is None or parent in own:
            continue
        own.add(parent)
        tagged = [one for one in rails if one.get("parent") == parent]
        mtus = [int(one["mtu"]) for one in tagged if one.get("mtu") is not None]
        lines += [f"    # carries {', '.join(str(one['name']) for one in tagged)}", *head(rail, parent=True)]
        lines += quiet()
        lines += [f"      mtu: {max(mtus)}"] if mtus else []
        lines.append("      optional: true")
    return lines


def render(rails: Sequence[Mapping[str, Any]]) -> str:
    """Render the netplan file for a node's rails.

    Args:
        rails: rail dicts as `rails.plan_node` makes them, `netdev` known and, as `resolve.place`
            leaves it, `parent` for a VLAN and `permanent_mac` where there is one; the order is kept.

    Returns:
        The file's text, or an empty string when no rail needs a stanza (the file must then be absent).

    Raises:
        RenderError: a rail without netdev, or a VLAN without the netdev that carries it.
    """
    used = [rail for rail in rails if has_stanza(rail)]
    if not used:
        return ""
    return HEADER + document(*stanzas(used))


def stanzas(used: Sequence[Mapping[str, Any]], known: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """Return the lines below `ethernets` and below `vlans` for these rails.

    Args:
        used: rails that have an address.
        known: netdevs that have another stanza, so that a VLAN on them needs none.

    Raises:
        RenderError: as `render`.
    """
    for rail in used:
        if not rail.get("netdev") or (rail.get("vlan") is not None and not rail.get("parent")):
            raise RenderError(f"rail {rail.get('name')}: no netdev; resolve it on the node first")
    ethernets = _parents(used, known)
    vlans: list[str] = []
    for rail in used:
        if rail.get("vlan") is None:
            ethernets += [f"    # {rail['name']}", *head(rail, parent=False), *_settings(rail)]
        else:
            vlans += [f"    # {rail['name']}", f"    {scalar(str(rail['netdev']))}:", RENDERER]
            vlans += [f"      id: {int(rail['vlan'])}", f"      link: {scalar(str(rail['parent']))}"]
            # netplan knows `infiniband-mode` for devices that exist, not for VLANs
            vlans += _settings({**rail, "ipoib_mode": None})
    return ethernets, vlans


def document(ethernets: Sequence[str], vlans: Sequence[str]) -> str:
    """Return a netplan document of these stanzas; at least one must be there."""
    lines = ["network:", "  version: 2"]
    lines += ["  ethernets:", *ethernets] if ethernets else []
    lines += ["  vlans:", *vlans] if vlans else []
    return "\n".join(lines) + "\n"
