# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses, networks and MACs on the controller: netaddr, and three functions on top of it."""

from __future__ import annotations

try:
    from netaddr import (
        EUI,
        AddrFormatError,
        IPAddress,
        IPNetwork,
        IPSet,
        NotRegisteredError,
        valid_ipv4,
        valid_ipv6,
    )
except ImportError:  # sanity's environment has none; `inventory.validate` reports it
    EUI = IPAddress = IPNetwork = IPSet = None  # type: ignore[assignment,misc]

__all__ = ["IPAddress", "IPNetwork", "IPSet", "address_of", "maker_of", "meet"]


def address_of(text: str) -> IPAddress | None:
    """Parse an address, with or without a zone; None where the text is a name."""
    bare = text.partition("%")[0]
    return IPAddress(bare) if valid_ipv4(bare) or valid_ipv6(bare) else None


def meet(one: IPNetwork, other: IPNetwork) -> bool:
    """Tell whether two networks share addresses: then one of them is inside the other."""
    return one in other or other in one


def maker_of(mac: str) -> str | None:
    """Return the vendor of a MAC address; None where none is registered, as for a VM's."""
    try:
        return str(EUI(mac).oui.registration().org)  # type: ignore[attr-defined] # its keys, which no stub knows
    except (AddrFormatError, NotRegisteredError):
        return None
