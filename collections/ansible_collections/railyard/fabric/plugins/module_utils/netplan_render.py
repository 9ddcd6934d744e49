# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one place where Railyard renders netplan: a node's rails in, the text of its netplan file out.

Pure and standard library only, since it runs on the node, where rails that are named by MAC or bus address
have just got their netdev, and in the golden tests.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

HEADER = (
    "# Written by Railyard (role rail_network) from the inventory's `fabric`: one stanza per rail.\n"
    "# The next run undoes what is changed here by hand; change the inventory instead.\n"
)

# What YAML 1.1 would read as something else than a string when it stands bare.
_BARE_ID = re.compile(r"[A-Za-z][A-Za-z0-9_-]*\Z")
_YAML_WORDS = {"y", "n", "yes", "no", "true", "false", "on", "off", "null"}


class RenderError(ValueError):
    """A rail says something that this role does not write."""


def _scalar(text: str) -> str:
    if _BARE_ID.match(text) and text.lower() not in _YAML_WORDS:
        return text
    if re.match(r"[0-9.]+/[0-9]+\Z", text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def addresses(rail: Mapping[str, Any]) -> list[str]:
    """Return the rail's own addresses in CIDR form, IPv4 before IPv6; empty where none is planned."""
    return [str(rail[key]) for key in ("address", "address6") if rail.get(key)]


def has_stanza(rail: Mapping[str, Any]) -> bool:
    """Say whether the rail needs netplan at all: an InfiniBand rail without IP does not."""
    return bool(addresses(rail))


def _stanza(rail: Mapping[str, Any]) -> list[str]:
    if not rail.get("netdev"):
        raise RenderError(f"rail {rail.get('name')}: no netdev; resolve it on the node first")
    if rail.get("vlan") is not None:
        raise RenderError(
            f"rail {rail.get('name')}: vlan {rail['vlan']} is not written by rail_network yet; "
            "give the rail an untagged port, or make the VLAN yourself and name it as the rail's netdev"
        )
    lines = [
        f"    # {rail['name']}",
        f"    {_scalar(str(rail['netdev']))}:",
        "      dhcp4: false",
        "      dhcp6: false",
        # A router's advertisement on a rail must never give the node a default route through it.
        "      accept-ra: false",
        # Kept: RoCE v2 has a GID from the link-local address, and IPv6 neighbours need one.
        "      link-local:",
        "        - ipv6",
        "      addresses:",
    ]
    lines += [f"        - {_scalar(address)}" for address in addresses(rail)]
    if rail.get("mtu") is not None:
        lines.append(f"      mtu: {int(rail['mtu'])}")
    # Without it a node with a cable out waits two minutes at boot for a rail.
    lines.append("      optional: true")
    return lines


def render(rails: Sequence[Mapping[str, Any]]) -> str:
    """Render the netplan file for a node's rails.

    Args:
        rails: rail dicts as `rails.plan_node` makes them, `netdev` known; order is kept.

    Returns:
        The file's text, or an empty string when no rail needs a stanza (the file must then be absent).

    Raises:
        RenderError: a rail without netdev, or with a setting that is not written yet.
    """
    lines: list[str] = []
    for rail in rails:
        if has_stanza(rail):
            lines += _stanza(rail)
    if not lines:
        return ""
    head = ["network:", "  version: 2", "  renderer: networkd", "  ethernets:"]
    return HEADER + "\n".join(head + lines) + "\n"
