# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name the counters that show a rail's traffic: the netdev's, and those of each RDMA driver.

Which driver counts in which way is `nic_drivers`' data.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

COUNTERS, HW_COUNTERS = "counters", "hw_counters"
#: What a driver answers for a value that it could not read: all ones.
UNREADABLE = 2**64 - 1


class Counter(NamedTuple):
    """One counter of a port.

    Attributes:
        name: What rows of results call it.
        files: Alternatives between versions of the driver; of one alternative all files are added up.
        folder: Below `ports/N` in sysfs.
    """

    name: str
    files: tuple[tuple[str, ...], ...]
    folder: str = HW_COUNTERS


class Traffic(NamedTuple):
    """In which counters a driver shows a rail's traffic; each pair is (sent, received).

    Attributes:
        bytes: Names of the byte counters as rows have them.
        packets: Names of the packet counters.
        bytes_factor: How much more than the claim may be seen, for headers and what was sent again.
        netdev_shows_rdma: Whether the netdev's counters move with RDMA.
        counters: The port's own; empty where the netdev's are enough.
        count_acknowledgements: Whether a port that only sends is known to count what it receives in answer.
    """

    bytes: tuple[str, str]
    packets: tuple[str, str]
    bytes_factor: float
    netdev_shows_rdma: bool = True
    counters: tuple[Counter, ...] = ()
    count_acknowledgements: bool = True


NETDEV_BYTES = ("tx_bytes", "rx_bytes")
PORT_DATA = ("port_xmit_data", "port_rcv_data")
PORT_PACKETS = ("port_xmit_packets", "port_rcv_packets")
HW_BYTES = ("hw_tx_bytes", "hw_rx_bytes")
HW_PACKETS = ("hw_tx_pkts", "hw_rx_pkts")
# An InfiniBand port counts data in units of four bytes (IBTA vol. 1, PortCounters).
_UNIT_BYTES = dict.fromkeys(PORT_DATA, 4)

# Headers add 1.2 % at MTU 9000 and 4.6 % at 1500, retransmitted segments a little more.
_HEADERS = 1.15
NETDEV = Traffic(NETDEV_BYTES, ("tx_packets", "rx_packets"), _HEADERS)
# Soft-RoCE sends through its netdev, whose bytes alone could be TCP's: its own packets are counted as well.
# It goes back and sends all again where a packet is late, which an emulated processor makes often: 1.2 to
# 1.7 times the claim was seen with a window of 1 s. That nothing but RDMA was sent is known exactly all the
# same: each byte of the netdev must lie in a packet of the port.
SOFT_ROCE = Traffic(
    NETDEV_BYTES,
    ("hw_sent_pkts", "hw_rcvd_pkts"),
    4.0,
    counters=(Counter("hw_sent_pkts", (("sent_pkts",),)), Counter("hw_rcvd_pkts", (("rcvd_pkts",),))),
)
# Cards carry RDMA past the netdev, whose bytes say nothing of it.
PORT_WORDS = Traffic(
    PORT_DATA,
    PORT_PACKETS,
    _HEADERS,
    netdev_shows_rdma=False,
    counters=tuple(Counter(name, ((name,),), COUNTERS) for name in (*PORT_DATA, *PORT_PACKETS)),
)


def in_hw_counters(*files: tuple[tuple[str, ...], ...]) -> Traffic:
    """Return the traffic of a driver that counts bytes and packets in hw_counters.

    Args:
        files: Of bytes sent, bytes received, packets sent and packets received: the alternatives.
    """
    counters = tuple(
        Counter(name, one)
        for name, one in zip((*HW_BYTES, *HW_PACKETS), files)  # noqa: B905 - Python 3.9 has no strict
    )
    return Traffic(HW_BYTES, HW_PACKETS, _HEADERS, netdev_shows_rdma=False, counters=counters)


TX_RX = in_hw_counters((("tx_bytes",),), (("rx_bytes",),), (("tx_pkts",),), (("rx_pkts",),))
# EFA counts messages without headers, 2 bytes for one of 2 (linux-rdma/perftest issue 113). Whether it counts
# acknowledgements no source says.
EFA = TX_RX._replace(count_acknowledgements=False)
#: All ways of counting; rows of results tell by their counters' names which it was.
FORMS = (SOFT_ROCE, PORT_WORDS, TX_RX)
#: What a port counts of each way: whatever is sent is acknowledged.
BOTH_WAYS = (*SOFT_ROCE.packets, *PORT_PACKETS, *PORT_DATA, *HW_PACKETS, *HW_BYTES)
#: Byte counters of ports whose netdev does not show RDMA.
PORT_BYTES = (PORT_DATA, HW_BYTES)


def form_of(names: Iterable[str]) -> Traffic | None:
    """Return the way of counting that counters of a row are of; None where none or several match."""
    there = set(names)
    own = [form for form in FORMS if any(counter.name in there for counter in form.counters)]
    return own[0] if len(own) == 1 else None


def unit_bytes(name: str) -> int:
    """Return how many bytes a byte counter counts at a time."""
    return _UNIT_BYTES.get(name, 1)


def port_bytes(names: Iterable[str]) -> tuple[str, str] | None:
    """Return the byte counters of a port, sent and received, that are among these names."""
    there = set(names)
    return next((pair for pair in PORT_BYTES if there.intersection(pair)), None)
