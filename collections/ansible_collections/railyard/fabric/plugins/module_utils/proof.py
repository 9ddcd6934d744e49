# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Did what a tool claims cross the rail it names? Pure: claims and counters in, a verdict and a reason out.

A tool's number can come from another wire (a wrong route, loopback, a wrapper that prints a fine table). The
kernel's counters of the rail's netdev, before and after, at both ends, say whether it did.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

PROVEN = "proven"
UNPROVEN = "unproven"

# Headers add 1.2 % at MTU 9000 and 4.6 % at 1500, retransmitted segments a little more.
BYTES_FACTOR = 1.15
# Settled with sockperf 3.7 on veth rails: replies carry the ACKs, and 49,279 messages sent showed as
# 49,285 tx and 49,283 rx packets (1.00). A receiver that acknowledges each message by a packet of its own
# doubles that. The factor is applied to all messages that the tool SENT: sockperf leaves out warm-up and
# the ends of the run, and 30,738 messages were seen to become 10,859 observations, which no factor near
# 2.5 would have covered.
PACKETS_FACTOR = 2.5
_SMALLEST_FRAME_BYTES = 64
SHORTEST_S = 0.25
_SATURATED = (2**32 - 1, 2**64 - 1)

if TYPE_CHECKING:
    # Python 3.9, which nodes may have, cannot evaluate `X | Y`.
    Span = Sequence[int | None]


class Claim(NamedTuple):
    """What a test says it moved over the rail.

    `unit` is `bytes` (payload from client to server), `packets` (each way) or `packets_forward` (client
    to server). `at_least` is what must have passed, `at_most` what explains it without other traffic,
    before the factor and the idle allowance.
    """

    unit: str
    at_least: float
    at_most: float


class Allowance(NamedTuple):
    """How much traffic that is not ours is let pass: the policy's idle rate over the seconds of the test."""

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
        return self.idle_bytes / _SMALLEST_FRAME_BYTES


def prove(
    claim: Claim | None,
    end: str,
    counters: Mapping[str, Span],
    other_rails: Mapping[str, Mapping[str, Span]],
    allowance: Allowance,
) -> tuple[str, str | None]:
    """Compare one end's counters with the claim.

    Args:
        claim: what the test says it moved; None when it says nothing.
        end: `client` (sends the bytes) or `server` (receives them).
        counters: the own rail's `{counter: [before, after]}`.
        other_rails: the same of each rail that ought to have been idle.
        allowance: the idle traffic that is let pass.

    Returns:
        (`proven`, None) or (`unproven`, the reason).
    """
    if claim is None:
        return UNPROVEN, "the tool's output claims no amount to compare the counters with"
    for name in _counters_of(claim, end):
        reason = _outside(claim, name, counters.get(name), allowance)
        if reason:
            return UNPROVEN, reason
    for rail in sorted(other_rails):
        for name in ("tx_bytes", "rx_bytes"):
            reason = _not_idle(rail, name, other_rails[rail].get(name), allowance)
            if reason:
                return UNPROVEN, reason
    return PROVEN, None


def falls_short(claim: Claim | None, end: str, counters: Mapping[str, Span]) -> bool:
    """Tell whether a counter shows less than the claim, which a driver that counts late may still mend."""
    if claim is None:
        return False
    for name in _counters_of(claim, end):
        delta, _reason = _delta(name, counters.get(name))
        if delta is not None and delta < claim.at_least:
            return True
    return False


def _counters_of(claim: Claim, end: str) -> list[str]:
    if claim.unit == "bytes":
        return ["tx_bytes" if end == "client" else "rx_bytes"]
    if claim.unit == "packets_forward":
        return ["tx_packets" if end == "client" else "rx_packets"]
    return ["tx_packets", "rx_packets"]


def _outside(claim: Claim, name: str, span: Span | None, allowance: Allowance) -> str | None:
    delta, reason = _delta(name, span)
    if delta is None:
        return reason
    if delta < claim.at_least:
        return "{} grew by {:.0f}, less than the {:.0f} {} claimed: they took another way".format(
            name, delta, claim.at_least, claim.unit.split("_")[0]
        )
    if claim.unit == "bytes":
        most = BYTES_FACTOR * claim.at_most + allowance.idle_bytes
    else:
        most = PACKETS_FACTOR * claim.at_most + allowance.idle_packets
    if delta > most:
        return f"{name} grew by {delta:.0f}, the test explains {most:.0f} at most: other traffic on the rail"
    return None


def _not_idle(rail: str, name: str, span: Span | None, allowance: Allowance) -> str | None:
    delta, reason = _delta(name, span)
    if delta is None:
        return f"{rail}: {reason}"
    if delta > allowance.idle_bytes:
        return f"{rail} was not idle: {name} grew by {delta:.0f}, more than {allowance.idle_bytes:.0f}"
    return None


def _delta(name: str, span: Span | None) -> tuple[int | None, str | None]:
    """Return the growth of a counter, or why there is none."""
    if span is None or len(span) != 2 or span[0] is None or span[1] is None:
        return None, f"{name} is absent"
    before, after = span[0], span[1]
    if after in _SATURATED:
        return None, f"{name} is saturated at {after}"
    if after < before:
        return None, f"{name} went from {before} back to {after}: it was reset or the device came back"
    return after - before, None


def as_record(claim: Claim | None) -> Mapping[str, Any] | None:
    """Return the claim as a row carries it."""
    return None if claim is None else dict(claim._asdict())


def from_record(record: Mapping[str, Any] | None) -> Claim | None:
    """Rebuild a claim that the other end sent."""
    if not record:
        return None
    return Claim(str(record["unit"]), float(record["at_least"]), float(record["at_most"]))
