# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Faults that a simulated subnet has from the start, as another net."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from railyard.lab.subnet.net import End, Net, Rate


class OtherRate(NamedTuple):
    """A link with fewer lanes or at another speed than its neighbors."""

    end: End
    rate: Rate

    def apply_to(self, net: Net) -> Net:
        """Return the net with the fault."""
        old = net.cable_at(self.end)
        cables = (old._replace(rate=self.rate) if one is old else one for one in net.cables)
        return replace(net, cables=tuple(cables))


def cut_cables(net: Net, ends: Iterable[End]) -> Net:
    """Return the net without the cables at these ports."""
    gone = set(ends)
    return replace(net, cables=tuple(cable for cable in net.cables if not gone & set(cable.ends)))


def describe(net: Net, name: str, description: str) -> Net:
    """Return the net with another NodeDescription of a device."""
    return replace(net, devices={**net.devices, name: replace(net.devices[name], description=description)})
