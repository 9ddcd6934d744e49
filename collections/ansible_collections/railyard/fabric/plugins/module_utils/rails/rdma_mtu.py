# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA MTU a rail has to have: a step of the InfiniBand scale that fits into its netdev's MTU. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The only sizes that an RDMA packet's payload may have, in bytes.
STEPS = (256, 512, 1024, 2048, 4096)
#: What Linux sets aside of the netdev's MTU before it chooses the step (include/rdma/ib_addr.h,
#: iboe_get_mtu): GRH 40, UDP 8, BTH 12, XRC 4, AtomicETH 28, ICRC 4. 9000 gives 4096, 1500 gives 1024.
KERNEL_HEADERS = 96
#: What a RoCE v2 packet over IPv4 needs at least inside the netdev's MTU: IPv4 20, UDP 8, BTH 12, ICRC 4.
LEAST_HEADERS = 44
#: perftest takes no more than this on a ConnectX-3, whose 4096 is at fault, on either link layer.
MLX4_BYTES = 2048
#: IPoIB: the header of each packet (RFC 4391), and the most in connected mode (IPOIB_CM_MTU).
IPOIB_HEADER_BYTES = 4
IPOIB_CONNECTED_BYTES = 0x10000 - 0x10


def largest(netdev_mtu: int, headers: int = KERNEL_HEADERS) -> int | None:
    """Return the largest step in bytes that fits into a netdev's MTU, or None when not even 256 does."""
    return max((step for step in STEPS if step + headers <= netdev_mtu), default=None)


def span(
    rail: Mapping[str, Any], hca: Mapping[str, Any] | None, transport: str
) -> tuple[int | None, int | None]:
    """Return the least and the greatest RDMA MTU in bytes that a rail may have; None where it is not known.

    Both rest on what the inventory declares and the port can at most do, never on what it negotiated.

    Args:
        rail: the plan's rail.
        hca: the facts' HCA port, or None where there is none.
        transport: `roce`, `infiniband` or `efa`.
    """
    port = hca or {}
    most = _step(port.get("max_mtu_bytes"))
    if transport != "roce":
        return (min(most, MLX4_BYTES) if most is not None and is_mlx4(port) else most), most
    mtu = rail.get("mtu")
    if not isinstance(mtu, int) or isinstance(mtu, bool):
        return None, most
    least, greatest = largest(mtu), largest(mtu, LEAST_HEADERS)
    if most is not None:
        least = least and min(least, most)
        greatest = greatest and min(greatest, most)
    if is_mlx4(port):
        least = least and min(least, MLX4_BYTES)
    return least, greatest


def declared(rail: Mapping[str, Any], hca: Mapping[str, Any] | None, transport: str) -> int:
    """Return the RDMA MTU in bytes that a rail should have by its inventory, whatever its port says."""
    mtu = rail.get("mtu")
    fits = largest(mtu) if transport == "roce" and isinstance(mtu, int) else None
    return min(fits or STEPS[-1], MLX4_BYTES if is_mlx4(hca or {}) else STEPS[-1])


def used(rail: Mapping[str, Any], hca: Mapping[str, Any] | None, transport: str) -> int | None:
    """Return the RDMA MTU in bytes that perftest has to use on a rail, or None where it is not known."""
    least, greatest = span(rail, hca, transport)
    return least if is_mlx4(hca or {}) else greatest


def is_mlx4(hca: Mapping[str, Any]) -> bool:
    """Tell whether a port belongs to a ConnectX-3 or older card."""
    return any(str(hca.get(key) or "").startswith("mlx4") for key in ("driver", "device"))


def _step(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value in STEPS else None


def ipoib_most(mode: object, hca: Mapping[str, Any] | None) -> int | None:
    """Return the largest MTU in bytes that an IPoIB netdev can have, or None where that is not known.

    Connected mode has a limit of its own; in datagram mode a packet is one of InfiniBand, whose header takes
    4 bytes (torvalds/linux Documentation/infiniband/ipoib.rst; ipoib_change_mtu in drivers/infiniband/ulp/
    ipoib/ipoib_main.c refuses more).

    Args:
        mode: what the netdev's `mode` in sysfs says.
        hca: the facts' HCA port, or None where there is none.
    """
    if mode == "connected":
        return IPOIB_CONNECTED_BYTES
    if mode != "datagram":
        return None
    port = hca or {}
    step = _step(port.get("active_mtu_bytes")) or _step(port.get("max_mtu_bytes")) or STEPS[-1]
    return step - IPOIB_HEADER_BYTES
