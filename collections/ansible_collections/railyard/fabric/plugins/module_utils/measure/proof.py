# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prove by counters that the traffic of a test crossed its rail. Pure.

A tool's number may come from another path (a wrong route, loopback, a wrapper that prints a good table). The
kernel's counters of the rail before and after the test, at both ends, show whether it does: those of the
netdev for TCP, and for RDMA those in which the port's driver counts it (`catalogue/nic_drivers`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Optional

from ..catalogue.rdma_counters import NETDEV, NETDEV_BYTES, Traffic, port_bytes, unit_bytes

PROVEN = "proven"
UNPROVEN = "unproven"

# Measured with sockperf 3.7 on veth rails: replies carry the ACKs, and 49,279 messages sent showed as 49,285
# tx and 49,283 rx packets (1.00). A receiver that acknowledges each message in a separate packet doubles
# that, as RDMA write does (2.00). The factor applies to all messages that the tool SENT: sockperf's
# observations leave out warm-up and the ends of the run (10,859 observations of 30,738 messages), which no
# factor near 2.5 covers.
PACKETS_FACTOR = 2.5
# Ethernet, IPv4 or IPv6, UDP, the InfiniBand headers and both checksums, rounded up.
RDMA_HEADER_BYTES = 110
SMALLEST_FRAME_BYTES = 64
SHORTEST_S = 0.25
#: Another rail that carries less than this share of the claim did not carry the test.
OTHER_RAILS_SHARE = 0.10
#: How many times the background traffic of a rail is allowed.
BACKGROUND_TIMES = 3.0
#: A counter at its maximum is stuck there, or about to wrap.
SATURATED = (2**32 - 1, 2**64 - 1)
UNITS = ("bytes", "packets", "packets_forward")
if TYPE_CHECKING:
    # Python 3.9, which nodes may have, cannot evaluate `X | Y`.
    Span = Sequence[int | None]


class Claim(NamedTuple):
    """The traffic that a test claims to have moved over the rail.

    `unit` is `bytes` (payload), `packets` (each way) or `packets_forward` (client to server). `at_least` must
    have passed from client to server, `at_most` is the most without other traffic, before the factor and the
    idle allowance; `back_…` is the same from server to client, 0 for no claim. `packet_bytes` is set for
    RDMA: the active MTU, which turns bytes into packets.
    """

    unit: str
    at_least: float
    at_most: float
    back_at_least: float = 0.0
    back_at_most: float = 0.0
    packet_bytes: Optional[int] = None  # noqa: UP045 - Python 3.9 evaluates it


class Allowance(NamedTuple):
    """The allowed other traffic: an idle rail's rate over the seconds of the test."""

    idle_bytes_per_s: float
    elapsed_s: float

    @property
    def idle_bytes(self) -> float:
        """Return the bytes that an idle rail may carry in this time, but at least in `SHORTEST_S`.

        A probe takes 4 ms, for which the rate allows 800 bytes; a partner of a later round that connects at
        that moment sends more.
        """
        return self.idle_bytes_per_s * max(self.elapsed_s, SHORTEST_S)

    @property
    def idle_packets(self) -> float:
        """Return the packets that an idle rail may carry in this time."""
        return self.idle_bytes / SMALLEST_FRAME_BYTES


class Bound(NamedTuple):
    """The limits of a counter's growth, in its unit."""

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
        claim: what the test claims to have moved; None for no claim.
        end: `client` (sends forward traffic) or `server` (receives it).
        counters: `{counter: [before, after]}` of the rail.
        other_rails: the same for each rail that should be idle.
        allowance: the allowed other traffic.
        driver: the counters in which the claim must show.

    Returns:
        (`proven`, None) or (`unproven`, the reason).
    """
    if claim is None:
        return UNPROVEN, "the tool's output claims no amount to compare the counters with"
    if not _is_amount(claim):
        return UNPROVEN, f"the tool's output claims an invalid amount: {claim}"
    for bound in bounds(claim, end, allowance, driver):
        reason = _outside(bound, counters.get(bound.counter))
        if reason:
            return UNPROVEN, reason
    if claim.packet_bytes is not None and claim.unit == "bytes" and driver.netdev_shows_rdma:
        reason = _find_other_traffic(claim.packet_bytes, counters, allowance, driver)
        if reason:
            return UNPROVEN, reason
    elsewhere = OTHER_RAILS_SHARE * claim.at_least if claim.unit == "bytes" else 0.0
    most = max(allowance.idle_bytes, elsewhere) if other_rails else 0.0
    for rail in sorted(other_rails):
        spans = other_rails[rail]
        of_port = port_bytes(spans) or ()
        # A rail without a netdev has only the port's counters; without any it is unknown.
        netdev = NETDEV_BYTES[0] in spans or NETDEV_BYTES[1] in spans
        for name in (*(NETDEV_BYTES if netdev or not of_port else ()), *of_port):
            grown, reason = _growth(name, spans.get(name))
            if grown is None:
                return UNPROVEN, f"{rail}: {reason}"
            if grown > most:
                return (UNPROVEN, f"{rail} was not idle: {name} grew by {grown:.0f}, more than {most:.0f}")
    return PROVEN, None


def _is_amount(claim: Claim) -> bool:
    """Return whether a claim is valid: not NaN, not zero, and its minimum not above its maximum."""
    unit, least, most, back_least, back_most, packet_bytes = claim
    # Comparisons with NaN are false.
    fits = 0 <= least <= most < math.inf and 0 <= back_least <= back_most < math.inf
    packets = packet_bytes is None or packet_bytes > 0
    return fits and packets and bool(most or back_most) and unit in UNITS


def falls_short(
    claim: Claim | None, end: str, counters: Mapping[str, Span], driver: Traffic = NETDEV
) -> bool:
    """Return whether a counter shows less than the claim; a driver that counts late may still catch up."""
    if claim is None or not _is_amount(claim):
        return False
    for bound in bounds(claim, end, Allowance(0.0, 0.0), driver):
        grown, _reason = _growth(bound.counter, counters.get(bound.counter))
        if grown is not None and grown < bound.at_least:
            return True
    return False


def bounds(claim: Claim, end: str, allowance: Allowance, driver: Traffic) -> Iterator[Bound]:
    """Yield the limits of each counter of this end; the claim's numbers may be columns of many tests."""
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
    """Return whether the claim is zero; a column is never zero as a whole."""
    return getattr(amount, "ndim", 0) == 0 and not amount


def _outside(bound: Bound, span: Span | None) -> str | None:
    grown, reason = _growth(bound.counter, span)
    if grown is None:
        return reason
    if grown < bound.at_least:
        where = "they took another path" if grown else "they took another path, or the counter does not count"
        return (
            f"{bound.counter} grew by {grown:.0f}, less than the {bound.at_least:.0f} {bound.unit} claimed: "
            f"{where}"
        )
    if grown > bound.at_most:
        return (
            f"{bound.counter} grew by {grown:.0f}, the test explains at most {bound.at_most:.0f}: "
            "other traffic on the rail"
        )
    return None


def _find_other_traffic(
    packet_bytes: int, counters: Mapping[str, Span], allowance: Allowance, driver: Traffic
) -> str | None:
    """Return a reason if the netdev moved more than the port's packets can hold, or None."""
    for way in (0, 1):
        moved, reason = _growth(NETDEV_BYTES[way], counters.get(NETDEV_BYTES[way]))
        packets, reason_of_port = _growth(driver.packets[way], counters.get(driver.packets[way]))
        if moved is None or packets is None:
            return reason or reason_of_port
        most = most_of_port(packets, packet_bytes, allowance.idle_bytes)
        if moved > most:
            return (
                f"{NETDEV_BYTES[way]} grew by {moved}, the port's {packets} packets explain at most "
                f"{most:.0f}: other traffic than RDMA on the rail"
            )
    return None


def most_of_port(packets: Any, packet_bytes: Any, idle_bytes: Any) -> Any:
    """Return the most bytes of a number of RDMA packets and an idle rail; numbers or columns."""
    return packets * (packet_bytes + RDMA_HEADER_BYTES) + idle_bytes


def _growth(name: str, span: Span | None) -> tuple[int | None, str | None]:
    """Return the growth of a counter in bytes or packets, or why it is unknown."""
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
    """Return the claim in the format of a row, without optional fields at their defaults."""
    if claim is None:
        return None
    return {
        name: value
        for name, value in claim._asdict().items()
        if name in ("unit", "at_least", "at_most") or value != Claim._field_defaults[name]
    }


def from_record(record: Mapping[str, Any] | None) -> Claim | None:
    """Parse a claim that the other end sent."""
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
