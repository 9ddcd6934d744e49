# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of errors of a link or cable, of retransmissions, and of packets dropped for lack of buffers.

They are read before and after each test. The names depend on the driver (`catalogue/nic_drivers`); the
controller decides what growth means.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Optional

from .. import node_files
from ..catalogue import nic_drivers
from . import counter_file, ethtool, vlan

PHYSICAL = "physical"
SYMBOL = "symbol"
TRANSPORT = "transport"
LOSS = "loss"
NOTICE = "notice"

_KIND_OF_FIELD = {
    "physical": PHYSICAL,
    "link_down": PHYSICAL,
    "symbol": SYMBOL,
    "transport": TRANSPORT,
    "loss": LOSS,
    "notice": NOTICE,
}
#: Name -> its meaning, for all drivers; the part before the dot is where it is read.
KINDS: dict[str, str] = {
    name: kind
    for errors in (nic_drivers.COMMON, *(driver.errors for driver in nic_drivers.DRIVERS))
    for field, kind in _KIND_OF_FIELD.items()
    for name in getattr(errors, field)
}

#: Counters of link changes; an administrator who sets a netdev down causes them too.
LINK_DOWN = frozenset(
    name
    for errors in (nic_drivers.COMMON, *(driver.errors for driver in nic_drivers.DRIVERS))
    for name in errors.link_down
)

_OF_HIDDEN_LINKS = frozenset(
    name for driver in nic_drivers.DRIVERS if driver.link_is_hidden for name in driver.errors.transport
)

#: Packets that came before an earlier one. On a single path that is a loss; where the fabric spreads the
#: packets of a connection over several paths (adaptive routing) it is no fault: NICs place them "instead of
#: being dropped, in order to avoid retransmission" (DOCA and MLNX_OFED documentation, "Out-of-Order (OOO)
#: Data Placement"). A receiver that cannot requests them again, which the sender counts: packet_seq_err,
#: sq_num_oos.
OUT_OF_ORDER = frozenset(
    (
        "hw.out_of_sequence",
        "hw.out_of_seq_request",
        "hw.rq_num_oos",
        "hw.responder_oos",
        "hw.Rcvd Out of order packets",
    )
)

#: A counter of InfiniBand's PortCounters stops at its maximum (IBTA volume 1, 16.1.3.5).
_GREATEST = {
    "hca.symbol_error": 0xFFFF,
    "hca.link_error_recovery": 0xFF,
    "hca.link_downed": 0xFF,
    "hca.port_rcv_errors": 0xFFFF,
    "hca.port_rcv_remote_physical_errors": 0xFFFF,
    "hca.local_link_integrity_errors": 0xF,
    "hca.excessive_buffer_overrun_errors": 0xF,
}
_GREATEST_OF_ANY = (2**32 - 1, 2**64 - 1)

Values = dict[str, int]
#: Returns the driver's statistics of a netdev.
Stats = Callable[[str], Mapping[str, int]]
# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Span = dict[str, list[Optional[int]]]  # noqa: UP045 - see above


def read(netdev: str, hca: str | None, sys_root: str = "/sys", stats: Stats | None = None) -> Values:
    """Return the rail's counters: for a VLAN its port's, for a bond the sums of its ports.

    Args:
        netdev: the rail's netdev.
        hca: the rail's RDMA port as `device:port`, or None.
        sys_root: where sysfs is.
        stats: reads the statistics of `ethtool -S`; by default each call queries the driver.
    """
    values: Values = {}
    if hca:
        device, _colon, port = hca.partition(":")
        folder = os.path.join(sys_root, "class/infiniband", device, "ports", port)
        values = _in({"hca": os.path.join(folder, "counters"), "hw": os.path.join(folder, "hw_counters")})
    for one in ports_of(netdev, sys_root):
        found = _in({"netdev": os.path.join(sys_root, "class/net", one, "statistics")})
        for counter, value in (stats or ethtool.stats)(one).items():
            if "ethtool." + counter in KINDS:
                found["ethtool." + counter] = value
        for name, value in found.items():
            values[name] = values.get(name, 0) + value
    return values


def ports_of(netdev: str, sys_root: str = "/sys") -> list[str]:
    """Return the netdevs that count for a rail: for a VLAN its port, for a bond its ports."""
    port_netdev = vlan.port_of(netdev, sys_root)
    bond = os.path.join(sys_root, "class/net", port_netdev, "bonding", "slaves")
    return node_files.read_word(bond).split() or [port_netdev]


def _in(folders: Mapping[str, str]) -> Values:
    """Return the counters of the table that are files below these folders."""
    values: Values = {}
    for name in KINDS:
        place, _dot, counter = name.partition(".")
        if place in folders:
            folder = folders[place]
            if name == "netdev.carrier_changes":
                folder = os.path.dirname(folder)
            number = counter_file.read(os.path.join(folder, counter)).number
            if number is not None:
                values[name] = number
    return values


def show_link(names: Iterable[str]) -> bool:
    """Return whether these counters show errors of a link: those of its cable, where its driver has them."""
    return any(KINDS.get(name) == PHYSICAL or name in _OF_HIDDEN_LINKS for name in names)


def kind_of(name: str, adaptive_routing: bool = False) -> str | None:
    """Return the meaning of a counter; None for one that this version does not know."""
    return NOTICE if adaptive_routing and name in OUT_OF_ORDER else KINDS.get(name)


def is_saturated(name: str, value: int) -> bool:
    """Return whether a counter is at its maximum, from where on it no longer counts."""
    return value in _GREATEST_OF_ANY or value == _GREATEST.get(name)


def spans(before: Mapping[str, int], after: Mapping[str, int]) -> Span:
    """Return `{name: [before, after]}`; None for a counter that vanished with its device."""
    return {name: [before.get(name), after.get(name)] for name in KINDS if name in before or name in after}
