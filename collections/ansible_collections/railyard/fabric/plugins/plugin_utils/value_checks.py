# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Checks of one value each: a check returns what is wrong with it, in words, or None.

Made to be read as `is_.netdev(value)` and put into tables of keys.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import rails

Check = Callable[[Any], str | None]

_JINJA = re.compile(r"\{\{|\{%|\{#")
_HCA = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*:[1-9][0-9]?")
# Ethernet has 6 octets, an IPoIB interface 20.
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?:(?::[0-9A-Fa-f]{2}){14})?")
_PCI = re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_BOND = re.compile(r"(bond|team)[0-9]+(\.[0-9]+)?")
_NETDEV_CHARS_MAX = 15  # IFNAMSIZ is 16 with its closing zero


class Vaulted:
    """Stands for a value that is encrypted in the inventory: it is never opened, compared or shown."""

    def __repr__(self) -> str:
        return "an encrypted value"


def show(value: Any) -> str:
    """Write a value for a message, without opening what is encrypted or printing a page."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def literal(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, what is wrong) of every expression or encrypted value inside `value`."""
    if isinstance(value, str):
        if _JINJA.search(value):
            yield path, f"{show(value)} is a Jinja expression"
    elif isinstance(value, Vaulted):
        yield path, "it is encrypted, and what the fabric is must be readable"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from literal(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from literal(item, f"{path}[{index}]")


def choice(*allowed: str) -> Check:
    """Make a check for one of a few words."""
    return lambda value: None if value in allowed else f"{show(value)} is none of {', '.join(allowed)}"


def integer(low: int, high: int) -> Check:
    """Make a check for a whole number in a range (true and false are no numbers, whatever Python says)."""

    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"{show(value)} is no whole number"
        return None if low <= value <= high else f"{value} is not between {low} and {high}"

    return check


def positive_number(value: Any) -> str | None:
    """Check for a number above 0."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if number and 0 < value < float("inf") else f"{show(value)} is no number above 0"


def boolean(value: Any) -> str | None:
    """Check for true or false."""
    return None if isinstance(value, bool) else f"{show(value)} is neither true nor false"


def text(value: Any) -> str | None:
    """Check for text that is not empty."""
    return None if isinstance(value, str) and value.strip() else f"{show(value)} is no text"


def mapping(value: Any) -> str | None:
    """Check for a mapping."""
    return None if isinstance(value, Mapping) else f"it is {show(value)}, not a mapping"


def filled_list(value: Any) -> str | None:
    """Check for a list with something in it."""
    if not isinstance(value, list):
        return f"it is {show(value)}, not a list"
    return None if value else "the list is empty"


def unit(value: Any) -> str | None:
    """Check for the name of a scalable unit: a number or a word."""
    if isinstance(value, bool) or not isinstance(value, (int, str)) or not str(value).strip():
        return f"{show(value)} is neither a number nor a name"
    return None


def _matches(pattern: re.Pattern[str], what: str) -> Check:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            # 02:10:20:30:40:50 without quotes is a number in base 60 to YAML.
            return f"{show(value)} is no text: YAML has read something else (quotes are missing)"
        return None if pattern.fullmatch(value) else f"{show(value)} is no {what}"

    return check


name = _matches(_NAME, "name")
hca = _matches(_HCA, "HCA with its port")
pci = _matches(_PCI, "PCI address")


def mac(value: Any) -> str | None:
    """Check for the address of one interface: Ethernet's 6 octets or IPoIB's 20, no multicast address."""
    wrong = _matches(_MAC, "MAC address")(value)
    if wrong is None and len(value) == 17 and int(value[:2], 16) & 1:
        return f"{value} is a multicast address, which no interface has"
    return wrong


def netdev(value: Any) -> str | None:
    """Check for a name that Linux accepts for an interface."""
    if not isinstance(value, str):
        return f"{show(value)} is no text"
    if not value or value in (".", "..") or re.search(r"[\s/:]", value) or not value.isascii():
        return f"{show(value)} is no interface name"
    if len(value) > _NETDEV_CHARS_MAX:
        return f"{show(value)} has {len(value)} characters, an interface name at most {_NETDEV_CHARS_MAX}"
    return None


def pattern(value: Any) -> str | None:
    """Check for text in which `{rail}` stands, and no other braces."""
    if not isinstance(value, str) or "{rail}" not in value:
        return f"{show(value)} does not contain {{rail}}"
    rest = value.replace("{rail}", "")
    return f"{show(value)} has braces besides {{rail}}" if "{" in rest or "}" in rest else None


def subnet(version: int | None) -> Check:
    """Make a check for a network without host bits, of one family or of either (None), fit for unicast."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or "/" not in value:
            return f"{show(value)} is no network with its prefix length"
        try:
            network = rails.network_of(value)
        except ValueError:
            return _why_no_network(value)
        if version is not None and network.version != version:
            other = "subnet6" if network.version == 6 else "subnet"
            return f"{value} is IPv{network.version}, which goes under {other}"
        if network.is_multicast or network.is_loopback or network.is_link_local or network.prefixlen == 0:
            return f"{value} is multicast, loopback, link-local or everything: no network for nodes"
        return None

    return check


def _why_no_network(value: str) -> str:
    try:
        return f"{show(value)} has host bits set: the network is {ipaddress.ip_network(value, strict=False)}"
    except ValueError as error:
        return f"{show(value)} is no network: {error}"


def by_unit(version: int) -> Check:
    """Make a check for a mapping of scalable units to networks of one family."""

    def check(value: Any) -> str | None:
        if not isinstance(value, Mapping) or not value:
            return f"it is {show(value)}, not a mapping of scalable units to networks"
        for unit_name, network in value.items():
            wrong = unit(unit_name) or subnet(version)(network)
            if wrong is not None:
                return f"unit {show(unit_name)}: {wrong}"
        return None

    return check


def interface(version: int | None) -> Check:
    """Make a check for an address with its prefix length, of one family or of either (None)."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or "/" not in value:
            return f"{show(value)} is no address with its prefix length"
        try:
            found = ipaddress.ip_interface(value)
        except ValueError as error:
            return f"{show(value)} is no address: {error}"
        wrong = version is not None and found.version != version
        return f"{value} is IPv{found.version}, not IPv{version}" if wrong else None

    return check


def address(value: Any) -> str | None:
    """Check for a bare IP address."""
    try:
        ipaddress.ip_address(value if isinstance(value, str) else "")
    except ValueError:
        return f"{show(value)} is no IP address"
    return None


def subnets(value: Any) -> str | None:
    """Check for a list of networks of either family, each once."""
    if not isinstance(value, list):
        return f"it is {show(value)}, not a list"
    for item in value:
        wrong = subnet(None)(item)
        if wrong is not None:
            return wrong
    twice = [item for index, item in enumerate(value) if item in value[:index]]
    return f"{twice[0]} is there twice" if twice else None


def families(value: Any) -> str | None:
    """Check for a list of ipv4 and ipv6, each at most once."""
    if not isinstance(value, list) or any(item not in ("ipv4", "ipv6") for item in value):
        return f"{show(value)} is no list of ipv4 and ipv6"
    return f"{show(value)} names a family twice" if len(value) > len(set(value)) else None


def texts_by_unit(value: Any) -> str | None:
    """Check for a mapping of scalable units to text."""
    if not isinstance(value, Mapping) or not value:
        return f"it is {show(value)}, not a mapping of scalable units to names"
    for unit_name, item in value.items():
        wrong = unit(unit_name) or text(item)
        if wrong is not None:
            return f"unit {show(unit_name)}: {wrong}"
    return None


def is_bond(value: Any) -> bool:
    """Tell whether this is the usual name of a bond or team, or of a VLAN on one."""
    return isinstance(value, str) and _BOND.fullmatch(value) is not None


def bond(value: Any) -> str:
    """Refuse a bond, whichever."""
    return f"the rail {rails.BOND_REFUSED}"


def gateway(value: Any) -> str | None:
    """Check for `first`, `last`, `none` or an address."""
    wrong = None if value in ("first", "last", "none") else address(value)
    return f"{wrong}, nor first, last or none" if wrong else None


def gateway_of(gateway_address: str, interface_address: str) -> str | None:
    """Check that a gateway is inside an interface's network and is not the interface itself."""
    own, other = ipaddress.ip_interface(interface_address), ipaddress.ip_address(gateway_address)
    if other not in own.network:
        return f"{gateway_address} is outside {own.network}"
    return f"{gateway_address} is the interface's own address" if other == own.ip else None
