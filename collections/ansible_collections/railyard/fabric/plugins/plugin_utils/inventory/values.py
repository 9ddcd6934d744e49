# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check single values: a check returns an error text, or None.

Use them as `is_.netdev(value)` and in tables of keys.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import lag, plan

Check = Callable[[Any], str | None]

_JINJA = re.compile(r"\{\{|\{%|\{#")
_HCA = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}:[1-9][0-9]?")
# Ethernet has 6 octets, an IPoIB interface 20.
_MAC = re.compile(r"[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){5}(?:(?::[0-9A-Fa-f]{2}){14})?")
# A domain has 4 digits, more only if necessary; nvidia-smi writes 8, sysfs never does.
_PCI = re.compile(r"(?:[0-9A-Fa-f]{4}|[1-9A-Fa-f][0-9A-Fa-f]{4,7}):[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_BOND = re.compile(r"(bond|team)[A-Za-z0-9_-]*(\.[0-9]+)?")
_NETDEV_CHARS_MAX = 15  # IFNAMSIZ is 16 with its closing zero
# The kernel accepts more, but netplan reads `*?[` as a pattern, programs a leading `-` as an option, and text
# after `@` in `ip link` is not part of the name.
_NETDEV = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
# `lo` carries no rail; the kernel keeps the other two for the sysctls of all interfaces.
_NETDEVS_RESERVED = ("lo", "all", "default")
# Linux accepts these as names, but they mean that there is none, as in `gateway: none`.
_WORDS_FOR_NOTHING = ("nil", "none", "null", "undefined")
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# Networks with addresses that no node can have: this-host, loopback, link-local,
# multicast and reserved.
_UNFIT = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/3", "::/8", "fe80::/10", "ff00::/8")
)


class Vaulted:
    """Stands for a value that is encrypted in the inventory: it is never opened, compared or shown."""

    def __repr__(self) -> str:
        return "an encrypted value"


def show(value: Any) -> str:
    """Return a value for a message, shortened, without opening an encrypted one."""
    if isinstance(value, datetime.date):
        return f"the date {value.isoformat()}"
    try:
        text = repr(value)
    except ValueError:  # Python refuses to write a number of thousands of digits
        return "a number with thousands of digits"
    return text if len(text) <= 80 else text[:77] + "..."


def literal(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield (path, error) of each expression or encrypted value inside `value`."""
    if isinstance(value, str):
        if _JINJA.search(value):
            yield path, f"{show(value)} is a Jinja expression"
    elif isinstance(value, Vaulted):
        yield path, "it is encrypted, but the fabric must be in plain text"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from literal(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from literal(item, f"{path}[{index}]")


def word(longest: int) -> Check:
    """Make a check for a text of one line that is not empty."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            return f"{show(value)} is not one line of text"
        return None if len(value) <= longest else f"{show(value)} is longer than {longest} characters"

    return check


def version(value: Any) -> str | None:
    """Check for a version of numbers, or its beginning; YAML reads 550.54 as a number and so drops zeros."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,6}){0,3}", value):
        return None
    return f"{show(value)} is not a version in quotes"


def choice(*allowed: str) -> Check:
    """Make a check for one of a few words."""
    return lambda value: None if value in allowed else f"{show(value)} is none of {', '.join(allowed)}"


def integer(low: int, high: int) -> Check:
    """Make a check for a whole number in a range (true and false are no numbers, whatever Python says)."""

    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, int):
            return f"{show(value)} is not a whole number"
        return None if low <= value <= high else f"{show(value)} is not between {low} and {high}"

    return check


def rate(most_gbps: int) -> Check:
    """Make a check for a rate in Gbit/s above 0; far beyond what links do, it was given in other units."""

    def check(value: Any) -> str | None:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0:
            return f"{show(value)} is not a number above 0"
        return None if value <= most_gbps else f"{show(value)} is more than {most_gbps} Gbit/s"

    return check


def boolean(value: Any) -> str | None:
    """Check for true or false."""
    return None if isinstance(value, bool) else f"{show(value)} is neither true nor false"


def text(value: Any) -> str | None:
    """Check for text of one line that is not empty: it is shown in tables and drawings."""
    if not isinstance(value, str) or not value.strip():
        return f"{show(value)} is not text"
    return None if value.isprintable() else f"{show(value)} has characters that cannot be shown in a line"


def mapping(value: Any) -> str | None:
    """Check for a mapping."""
    return None if isinstance(value, Mapping) else f"it is {show(value)}, not a mapping"


def filled_list(value: Any) -> str | None:
    """Check for a list with something in it, and no more than the computed form of rails may count."""
    if not isinstance(value, list):
        return f"it is {show(value)}, not a list"
    if len(value) > 256:
        return f"it has {len(value)} entries, and no node has more than 256"
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
            return f"{show(value)} is not text: YAML has read something else (quotes are missing)"
        return None if pattern.fullmatch(value) else f"{show(value)} is not a valid {what}"

    return check


name = _matches(_NAME, "name")
hca = _matches(_HCA, "HCA with its port")
pci = _matches(_PCI, "PCI address")


def mac(value: Any) -> str | None:
    """Check for the address of one interface: Ethernet's 6 octets or IPoIB's 20, no multicast address."""
    wrong = _matches(_MAC, "MAC address")(value)
    if wrong is None and len(value) == 17 and int(value[:2], 16) & 1:
        return f"{value} is a multicast address, which no interface has"
    if wrong is None and not value.strip("0:"):
        return f"{value} is all zeros, which no interface has"
    return wrong


def netdev(value: Any) -> str | None:
    """Check for a name that Linux accepts for an interface."""
    if not isinstance(value, str):
        return f"{show(value)} is not text"
    if not _NETDEV.fullmatch(value):
        return f"{show(value)} is not a valid interface name"
    if len(value) > _NETDEV_CHARS_MAX:
        return f"{show(value)} has {len(value)} characters, an interface name at most {_NETDEV_CHARS_MAX}"
    if value in _NETDEVS_RESERVED:
        return f"{show(value)} is not a port"
    if value.lower() in _WORDS_FOR_NOTHING:
        return (
            f"{show(value)} is a reserved word, not an interface's name; null without quotes removes a name, "
            "where mac, pci or hca identifies the port"
        )
    return None


def pattern(value: Any) -> str | None:
    """Check for text with `{rail}` and no other braces."""
    if not isinstance(value, str) or "{rail}" not in value:
        return f"{show(value)} does not contain {{rail}}"
    rest = value.replace("{rail}", "")
    return f"{show(value)} has braces besides {{rail}}" if "{" in rest or "}" in rest else None


def subnet(version: int | None) -> Check:
    """Make a check for a network without host bits, of one family or of either (None), fit for unicast."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or "/" not in value:
            return f"{show(value)} is not a network with a prefix length"
        try:
            network = plan.network_of(value)
        except ValueError:
            return _why_no_network(value)
        if "%" in value:
            return f"{value} has a zone, which a network cannot have"
        if version is not None and network.version != version:
            other = "subnet6" if network.version == 6 else "subnet"
            return f"{value} is IPv{network.version}, which goes under {other}"
        if network.prefixlen == 0:
            return f"{value} contains all addresses: not a network for nodes"
        unfit = next((one for one in _UNFIT if network.overlaps(one)), None)
        if unfit is not None:
            what = "multicast, loopback, link-local or reserved"
            return f"{value} overlaps {unfit}, which is {what}: not a network for nodes"
        return None

    return check


def _why_no_network(value: str) -> str:
    try:
        return f"{show(value)} has host bits set: the network is {ipaddress.ip_network(value, strict=False)}"
    except ValueError as error:
        return f"{show(value)} is not a network: {error}"


def filled_mapping(what: str) -> Check:
    """Make a check for a mapping that is not empty."""
    return lambda value: (
        None if isinstance(value, Mapping) and value else f"it is {show(value)}, not a mapping of {what}"
    )


def by_unit(of_one: Check, what: str) -> Check:
    """Make a check for a mapping of scalable units to values that another check accepts."""
    is_filled = filled_mapping(f"scalable units to {what}")

    def check(value: Any) -> str | None:
        if (wrong := is_filled(value)) is not None:
            return wrong
        for unit_name, item in value.items():
            wrong = unit(unit_name) or of_one(item)
            if wrong is not None:
                return f"unit {show(unit_name)}: {wrong}"
        return _same_unit(value)

    return check


def _same_unit(value: Mapping[Any, Any]) -> str | None:
    """Return an error for equal units; YAML reads `1:` as a number and `"1":` as text."""
    names = [str(name) for name in value]
    twice = next((name for index, name in enumerate(names) if name in names[:index]), None)
    return None if twice is None else f"unit {twice} is a duplicate, as a number and as text"


def interface(version: int | None) -> Check:
    """Make a check for an address with its prefix length, of one family or of either (None)."""

    def check(value: Any) -> str | None:
        if not isinstance(value, str) or "/" not in value:
            return f"{show(value)} is not an address with a prefix length"
        try:
            found = ipaddress.ip_interface(value)
        except ValueError as error:
            return f"{show(value)} is not an address: {error}"
        if version is not None and found.version != version:
            return f"{value} is IPv{found.version}, not IPv{version}"
        # Python reads 10.0.1.7/255.255.255.0 and fe80::1%ens6/64 as well; netplan does not.
        if not value.rpartition("/")[2].isdigit() or "%" in value:
            return f"{value} is not written as address/prefix length"
        first, last = plan.usable_range(found.network)
        unfit = any(one.version == found.version and found.ip in one for one in _UNFIT)
        if unfit or not first <= int(found.ip) <= last:
            return f"{value} is not an address that a node can have in {found.network}"
        return None

    return check


def address(value: Any) -> str | None:
    """Check for a bare IP address, of IPv4 in its own form."""
    try:
        found = ipaddress.ip_address(value if isinstance(value, str) and "%" not in value else "")
    except ValueError:
        return f"{show(value)} is not an IP address"
    mapped = getattr(found, "ipv4_mapped", None)
    return None if mapped is None else f"{value} is {mapped} of IPv4 in the form of IPv6"


def machine(value: Any) -> str | None:
    """Check for a bare IP address that one machine can have; loopback counts, for forwarded ports."""
    if (wrong := address(value)) is not None:
        return wrong
    found = ipaddress.ip_address(value)
    unusable = found.is_unspecified or found.is_multicast or (found.version == 4 and found.is_reserved)
    return f"{value} is not an address that a machine can have" if unusable else None


def bmc(value: Any) -> str | None:
    """Check for an address by which the controller could reach a BMC."""
    wrong = machine(value)
    if wrong is None and ipaddress.ip_address(value) in ipaddress.ip_network("fe80::/10"):
        return f"{value} is link-local, so it means another machine on each port of the controller"
    return wrong


def connection(value: Any) -> str | None:
    """Check for what Ansible can connect to: an IP address, perhaps with a zone, or a host name."""
    if not isinstance(value, str):
        return f"{show(value)} is not text: YAML has read something else (quotes are missing)"
    bare = value.partition("%")[0]
    if ":" in value or re.fullmatch(r"[0-9]+(\.[0-9]*)+", bare):
        return machine(bare)
    if _HOST.fullmatch(value):
        return None
    return f"{show(value)} is neither an IP address nor a host name"


def host_name(value: str) -> str | None:
    """Check for a valid node name: it becomes part of file names and host patterns."""
    if _HOST.fullmatch(value) or address(value) is None:
        return None
    return f"{show(value)} is not a host name (letters, digits, `-`, `_`, `.`)"


def subnets(value: Any) -> str | None:
    """Check for a list of networks of either family, each once."""
    if not isinstance(value, list):
        return f"it is {show(value)}, not a list"
    for item in value:
        wrong = subnet(None)(item)
        if wrong is not None:
            return wrong
    known = [plan.network_of(item) for item in value]
    twice = [item for index, item in enumerate(value) if known[index] in known[:index]]
    return f"{twice[0]} is a duplicate" if twice else None


def families(value: Any) -> str | None:
    """Check for a list of ipv4 and ipv6, each at most once."""
    if not isinstance(value, list) or any(item not in ("ipv4", "ipv6") for item in value):
        return f"{show(value)} is not a list of ipv4 and ipv6"
    return f"{show(value)} names a family twice" if len(value) > len(set(value)) else None


def is_bond(value: Any) -> bool:
    """Tell whether this is the usual name of a bond or team, or of a VLAN on one."""
    return isinstance(value, str) and _BOND.fullmatch(value) is not None


def bond(value: Any) -> str | None:
    """Check for a bond that is one RDMA device (RoCE LAG): its mode and its ports."""
    if not isinstance(value, Mapping):
        return f"the rail {plan.BOND_REFUSED}"
    if set(value) != {"mode", "ports"}:
        return f"{show(dict(value))} must have the keys mode and ports, and no others"
    if not isinstance(value["mode"], str) or value["mode"] not in lag.MODES:
        known = ", ".join(lag.MODES)
        return f"mode is {show(value['mode'])}, but cards support RoCE LAG only with mode {known}"
    ports = value["ports"]
    if not isinstance(ports, list) or not lag.LEAST_PORTS <= len(ports) <= lag.MOST_PORTS:
        return f"ports is {show(ports)}, not a list of {lag.LEAST_PORTS} to {lag.MOST_PORTS} ports of a card"
    wrong = next((found for found in map(netdev, ports) if found is not None), None)
    return wrong or (None if len(set(ports)) == len(ports) else f"{show(ports)} has a duplicate port")


def gateway(value: Any) -> str | None:
    """Check for `first`, `last`, `none` or an address."""
    wrong = None if value in ("first", "last", "none") else address(value)
    return f"{wrong}, nor first, last or none" if wrong else None


def gateway_of(gateway_address: str, interface_address: str) -> str | None:
    """Check that a gateway is inside an interface's network and is not the interface itself."""
    own, other = ipaddress.ip_interface(interface_address), ipaddress.ip_address(gateway_address)
    if other not in own.network:
        return f"{gateway_address} is outside {own.network}"
    first, last = plan.usable_range(own.network)
    if not first <= int(other) <= last:
        return f"{gateway_address} is not an address that a router can have in {own.network}"
    return f"{gateway_address} is the interface's own address" if other == own.ip else None
