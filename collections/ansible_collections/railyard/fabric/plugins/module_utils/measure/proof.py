# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Did what a tool claims cross the rail it names? Pure: claims and counters in, a verdict and a reason out.

A tool's number can come from another wire (a wrong route, loopback, a wrapper that prints a fine table). The
kernel's counters of the rail, before and after, at both ends, say whether it did: those of the netdev for
TCP, and for RDMA those that the port's driver counts it in (`catalogue/nic_drivers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import (
    NETDEV,
    NETDEV_BYTES,
    Traffic,
    port_bytes,
    unit_bytes,
)

PROVEN = "proven"
UNPROVEN = "unproven"

# Settled with sockperf 3.7 on veth rails: replies carry the ACKs, and 49,279 messages sent showed as
# 49,285 tx and 49,283 rx packets (1.00). A receiver that acknowledges each message by a packet of its own
# doubles that, as RDMA write does (2.00). The factor is applied to all messages that the tool SENT: sockperf
# leaves out warm-up and the ends of the run, and 30,738 messages were seen to become 10,859 observations,
# which no factor near 2.5 would have covered.
PACKETS_FACTOR = 2.5
# Ethernet, IPv4 or IPv6, UDP, the InfiniBand headers and both checksums, rounded up.
RDMA_HEADER_BYTES = 110
SMALLEST_FRAME_BYTES = 64
SHORTEST_S = 0.25
#: Another rail that carries less than this share of what a test claims cannot be where its traffic went.
OTHER_RAILS_SHARE = 0.10
#: How many times a rail's own background of other traffic is let pass.
BACKGROUND_TIMES = 3.0
#: A counter that stands at its greatest value stopped there, or is about to wrap.
SATURATED = (2**32 - 1, 2**64 - 1)
UNITS = ("bytes", "packets", "packets_forward")
if TYPE_CHECKING:
    # Python 3.9, which nodes may have, cannot evaluate `X | Y`.
    Span = Sequence[int | None]


class Claim(NamedTuple):
    """What a test says it moved over the rail.

    `unit` is `bytes` (payload), `packets` (each way) or `packets_forward` (client to server). `at_least` is
    what must have passed from client to server, `at_most` what explains it without other traffic, before the
    factor and the idle allowance; `back_…` the same from server to client, 0 where nothing is claimed of it.
    `packet_bytes` is set for RDMA: the active MTU, by which bytes become packets.
    """

    unit: str
    at_least: float
    at_most: float
    back_at_least: float = 0.0
    back_at_most: float = 0.0
    packet_bytes: Optional[int] = None  # noqa: UP045 - Python 3.9 evaluates it


class Allowance(NamedTuple):
    """How much traffic that is not ours is let pass: an idle rail's rate over the seconds of the test."""

    idle_bytes_per_s: float
    elapsed_s: float

    @property
    def idle_bytes(self) -> float:
        """Return the bytes that an idle rail may carry in this time, as though it were not all too short.

        A probe takes 4 ms, in which the rate alone lets 800 bytes pass; a partner of a later round that calls
        in just then brings more. What the test itself claims has to have crossed its rail all the same.
        """
        return self.idle_bytes_per_s * max(self.elapsed_s, SHORTEST_S)

    @property
    def idle_packets(self) -> float:
        """Return the packets that an idle rail may carry in this time."""
        return self.idle_bytes / SMALLEST_FRAME_BYTES


class Bound(NamedTuple):
    """What a counter must have grown by, in its unit."""

    counter: str
    at_least: float
    at_most: float
    unit: str


def prove(
    claim: Claim | None,
    end: str,
    counters: Mapping[str, Span],
    other_rails: Mapping[str, Mapping[str, Span]],
    allowance: Allowance,
    driver: Traffic = NETDEV,
) -> tuple[str, str | None]:
    """Compare one end's counters with the claim.

    Args:
        claim: what the test says it moved; None when it says nothing.
        end: `client` (sends what goes forward) or `server` (receives it).
        counters: the own rail's `{counter: [before, after]}`.
        other_rails: the same of each rail that ought to have been idle.
        allowance: the idle traffic that is let pass.
        driver: in which counters the claim must show.

    Returns:
        (`proven`, None) or (`unproven`, the reason).
    """
    if claim is None:
        return UNPROVEN, "the tool's output claims no amount to compare the counters with"
    if not _is_amount(claim):
        return UNPROVEN, f"the tool's output claims what is no amount: {claim}"
    for bound in bounds(claim, end, allowance, driver):
        reason = _outside(bound, counters.get(bound.counter))
        if reason:
            return UNPROVEN, reason
    if claim.packet_bytes is not None and claim.unit == "bytes" and driver.netdev_shows_rdma:
        reason = _not_the_ports_own(claim.packet_bytes, counters, allowance, driver)
        if reason:
            return UNPROVEN, reason
    elsewhere = OTHER_RAILS_SHARE * claim.at_least if claim.unit == "bytes" else 0.0
    most = max(allowance.idle_bytes, elsewhere) if other_rails else 0.0
    for rail in sorted(other_rails):
        spans = other_rails[rail]
        of_port = port_bytes(spans) or ()
        # A rail without a netdev has the port's counters alone; without any nothing is known.
        netdev = NETDEV_BYTES[0] in spans or NETDEV_BYTES[1] in spans
        for name in (*(NETDEV_BYTES if netdev or not of_port else ()), *of_port):
            grown, reason = _growth(name, spans.get(name))
            if grown is None:
                return UNPROVEN, f"{rail}: {reason}"
            if grown > most:
                return (
                    UNPROVEN,
                    f"{rail} was not idle: {name} grew by {grown:.0f}, more than {most:.0f}",
                )
    return PROVEN, None


def _is_amount(claim: Claim) -> bool:
    """Tell whether a claim can be compared: NaN is neither more nor less than any counter.

    A claim of nothing claims nothing, and what has passed at least lies within what explains it.
    """
    unit, least, most, back_least, back_most, packet_bytes = claim
    # NaN keeps no order.
    fits = 0 <= least <= most < math.inf and 0 <= back_least <= back_most < math.inf
    packets = packet_bytes is None or packet_bytes > 0
    return fits and packets and bool(most or back_most) and unit in UNITS


def falls_short(
    claim: Claim | None, end: str, counters: Mapping[str, Span], driver: Traffic = NETDEV
) -> bool:
    """Tell whether a counter shows less than the claim, which a driver that counts late may still mend."""
    if claim is None or not _is_amount(claim):
        return False
    for bound in bounds(claim, end, Allowance(0.0, 0.0), driver):
        grown, _reason = _growth(bound.counter, counters.get(bound.counter))
        if grown is not None and grown < bound.at_least:
            return True
    return False


def bounds(claim: Claim, end: str, allowance: Allowance, driver: Traffic) -> Iterator[Bound]:
    """Yield what each counter of this end must show; the claim's numbers may be columns of many tests."""
    forward, back = (0, 1) if end == "client" else (1, 0)
    if claim.unit != "bytes":
        most = PACKETS_FACTOR * claim.at_most + allowance.idle_packets
        ways = (forward,) if claim.unit == "packets_forward" else (0, 1)
        for way in ways:
            yield Bound(driver.packets[way], claim.at_least, most, "packets")
        return
    ways_claimed = ((forward, claim.at_least, claim.at_most), (back, claim.back_at_least, claim.back_at_most))
    for way, least, most in ways_claimed:
        if _is_nothing(most):
            continue
        most = driver.bytes_factor * most + allowance.idle_bytes
        yield Bound(driver.bytes[way], least, most, "bytes")
        if claim.packet_bytes is not None:
            yield Bound(driver.packets[way], least / claim.packet_bytes, float("inf"), "packets")


def _is_nothing(amount: Any) -> bool:
    """Tell whether nothing is claimed; a column claims something of some test."""
    return getattr(amount, "ndim", 0) == 0 and not amount


def _outside(bound: Bound, span: Span | None) -> str | None:
    grown, reason = _growth(bound.counter, span)
    if grown is None:
        return reason
    if grown < bound.at_least:
        where = "they took another way" if grown else "they took another way, or the counter stands still"
        return (
            f"{bound.counter} grew by {grown:.0f}, less than the {bound.at_least:.0f} {bound.unit} claimed: "
            f"{where}"
        )
    if grown > bound.at_most:
        return (
            f"{bound.counter} grew by {grown:.0f}, the test explains {bound.at_most:.0f} at most: "
            "other traffic on the rail"
        )
    return None


def _not_the_ports_own(
    packet_bytes: int, counters: Mapping[str, Span], allowance: Allowance, driver: Traffic
) -> str | None:
    """Tell when the netdev moved more than the port's packets can hold: something else than RDMA."""
    for way in (0, 1):
        moved, reason = _growth(NETDEV_BYTES[way], counters.get(NETDEV_BYTES[way]))
        packets, reason_of_port = _growth(driver.packets[way], counters.get(driver.packets[way]))
        if moved is None or packets is None:
            return reason or reason_of_port
        most = most_of_port(packets, packet_bytes, allowance.idle_bytes)
        if moved > most:
            return (
                f"{NETDEV_BYTES[way]} grew by {moved}, the port's {packets} packets explain {most:.0f} at "
                "most: something else than RDMA was on the rail"
            )
    return None


def most_of_port(packets: Any, packet_bytes: Any, idle_bytes: Any) -> Any:
    """Return how many bytes so many packets of RDMA are at most, and an idle rail's; numbers or columns."""
    return packets * (packet_bytes + RDMA_HEADER_BYTES) + idle_bytes


def _growth(name: str, span: Span | None) -> tuple[int | None, str | None]:
    """Return the growth of a counter in bytes or packets, or why there is none."""
    before, after = span if span is not None and len(span) == 2 else (None, None)
    if before is None or after is None:
        return None, f"{name} is absent"
    if after in SATURATED:
        return None, f"{name} is saturated at {after}"
    if after < before:
        why = "it was reset, wrapped, or the device came back"
        return None, f"{name} went from {before} back to {after}: {why}"
    return (after - before) * unit_bytes(name), None


def as_record(claim: Claim | None) -> Mapping[str, Any] | None:
    """Return the claim as a row carries it; fields that say nothing are left out."""
    if claim is None:
        return None
    said = claim._asdict()
    return {
        name: value
        for name, value in said.items()
        if name in ("unit", "at_least", "at_most") or value != Claim._field_defaults[name]
    }


def from_record(record: Mapping[str, Any] | None) -> Claim | None:
    """Rebuild a claim that the other end sent."""
    if not record:
        return None
    packet_bytes = record.get("packet_bytes")
    return Claim(
        str(record["unit"]),
        float(record["at_least"]),
        float(record["at_most"]),
        float(record.get("back_at_least", 0.0)),
        float(record.get("back_at_most", 0.0)),
        None if packet_bytes is None else int(packet_bytes),
    )
