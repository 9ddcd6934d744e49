# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Calculate how many symbol errors a link may have, from its rate, its FEC and a time. Pure.

A port counts a symbol error where FEC and the retransmission of the physical layer (PLR) could not correct
it, or where there is neither (mlx5: "symbol errors that were not corrected by FEC correction algorithm or
that FEC was not active", torvalds/linux 5db0a4f64c04; UFM: "BER after all phy correction mechanism: post FEC
+ PLR"). So the bound is a bit error ratio after correction. Idle links send symbols too, so that the number
of bits is rate times time.

Where two sources fit a link, the larger ratio counts: what fails is beyond both. NVIDIA's own table is
stricter for EDR (1e-13) and for some HDR ports with PLR (1e-14, by the age of the chip, which the node does
not know).
"""

from __future__ import annotations

from typing import NamedTuple, Optional

#: So many at once may be a single burst, whatever the time. Railyard's own choice, without a source.
AT_ONCE = 10


class Limit(NamedTuple):
    """A bit error ratio after correction that a link may have.

    Attributes:
        above_gbps: links that are faster than this.
        to_gbps: and at most as fast as this; None without an end.
        with_plr: whether only links whose FEC has PLR; else all.
        ratio: errors per bit.
        source: who says so.
    """

    above_gbps: float
    to_gbps: Optional[float]  # noqa: UP045 - Python 3.9 evaluates it
    with_plr: bool
    ratio: float
    source: str


_IBTA = (
    "InfiniBand: fewer than one bit error in 10^12 (NVIDIA, DGX SuperPOD Cabling Data Centers Design Guide, "
    "Bit Error Rate; ibdiagnet --ber_thresh has it as its default)"
)
_UFM = (
    "NVIDIA UFM, plugin PDR Deterministic, Field_BER_Thresholds.csv V06 (Mellanox/ufm_sdk_3.0 0eea373bb97b), "
    "Symbol BER Error"
)
#: The first that fits counts.
LIMITS = (
    Limit(
        0,
        100,
        False,
        1e-12,
        f"{_IBTA}; Ethernet: IEEE P802.3ba objectives, 10^-12 at the MAC/PLS service interface",
    ),
    Limit(200, 400, True, 1e-14, f"{_UFM} of NDR with PLR"),
    Limit(
        100,
        None,
        False,
        1e-13,
        f"{_UFM} of HDR, and of NDR without PLR; Ethernet: IEEE P802.3df objectives, 10^-13 at the MAC/PLS "
        "service interface (or the frame loss ratio equivalent)",
    ),
)


class Permitted(NamedTuple):
    """What a link may have in a time.

    Attributes:
        errors: the most that its source permits, and at least a burst.
        ratio: errors per bit.
        source: who says so.
    """

    errors: float
    ratio: float
    source: str


def permitted(rate_gbps: float | None, fec: str | None, seconds: float) -> Permitted | None:
    """Return the most symbol errors that a link may have in so many seconds.

    Args:
        rate_gbps: the rate that the link trained to.
        fec: its FEC as mlxlink or ethtool names it, such as `Ethernet_Consortium_LL_50G_RS_FEC_PLR -
            (272,257+1)`, `RS` or `Off`; None where it is not known, which gives the larger limit.
        seconds: how long it was counted.

    Returns:
        None where no source gives a number: the rate is not known.
    """
    if not rate_gbps or rate_gbps <= 0:
        return None
    has_plr = fec is not None and "PLR" in fec.upper()
    for limit in LIMITS:
        fits = limit.above_gbps < rate_gbps and (limit.to_gbps is None or rate_gbps <= limit.to_gbps)
        if fits and (has_plr or not limit.with_plr):
            errors = limit.ratio * rate_gbps * 1e9 * max(seconds, 0.0)
            return Permitted(max(errors, AT_ONCE), limit.ratio, limit.source)
    return None
