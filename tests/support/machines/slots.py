# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the PCI Express links of a machine leave to each rail, calculated apart from the product."""

from __future__ import annotations

from collections.abc import Mapping

from support.machines.model import Node


def narrowest_gbps(node: Node, pcis: Mapping[str, str], alone: str | None) -> dict[str, float]:
    """Return what each rail has of the narrowest link to its root.

    Args:
        node: the machine's description.
        pcis: rail -> PCI address.
        alone: the only rail that is at work, or None for all at once, which share.
    """
    ways = {rail: _way(node, pci) for rail, pci in pcis.items() if alone in (None, rail)}
    found = {}
    for rail, way in ways.items():
        shares = [
            link.gbps / sum(_holds(other, key) for other in ways.values())
            for key in way
            if (link := node.pci[key[0]].link) is not None and not node.pci[key[0]].inside_chip
        ]
        if shares:
            found[rail] = min(shares)
    return found


def _way(node: Node, pci: str) -> list[tuple[str, str]]:
    """Return the functions from a card to the root; functions of one device share its link."""
    way, at = [], pci
    while at in node.pci:
        way.append((at, at.rsplit(".", 1)[0]))
        at = node.pci[at].parent
    return way


def _holds(way: list[tuple[str, str]], key: tuple[str, str]) -> bool:
    return any(one[1] == key[1] for one in way)
