# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Suspects: components that may be slow, and how often they must be measured. Pure.

The judge names suspects; a second test schedule measures the uncertain ones further.
"""

from __future__ import annotations

from typing import NamedTuple

RAIL, LEAF, NODE, NODE_RAIL, PAIR = KINDS = ("rail", "leaf", "node", "node_rail", "pair")
CONFIRMED, LIKELY = "confirmed", "likely"
#: An end that was slow with so many good partners needs no further ones. There are thousands of ends, and
#: by chance one of them is measured badly with four of its seven partners.
ENOUGH_PARTNERS = 9
#: A pair that was low the first time is measured so often again.
FURTHER_MEETINGS = 3


class Suspect(NamedTuple):
    """A part that is slow.

    Attributes:
        kind: one of KINDS.
        node, rail, peer, leaf: its names; None where they do not apply. A leaf of one rail has that rail.
        share: its rate as a share of its peers'.
        evidence: on how many partners known good, of a rail on how many ends, of a pair on how many meetings.
        confidence: CONFIRMED, or LIKELY where it rests on few partners or its meetings were not repeated.
    """

    kind: str
    node: str | None = None
    rail: str | None = None
    peer: str | None = None
    leaf: str | None = None
    share: float = 0.0
    evidence: int = 0
    confidence: str = CONFIRMED
