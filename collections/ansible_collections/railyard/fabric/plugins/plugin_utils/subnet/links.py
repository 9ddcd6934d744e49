# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Links of a reading: each once, with both ends."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    NOMINAL_GBPS,
    Port,
    PortKey,
    Reading,
    Source,
)


class Link(NamedTuple):
    """A link between two ports.

    Attributes:
        one: the end with the smaller key.
        other: the other end.
        width: lanes, the smaller number where the ends differ; None where not read.
        lane_gbps: signalling rate of a lane, the lower one; None where not read.
        sources: the lines that say so.
    """

    one: PortKey
    other: PortKey
    width: int | None
    lane_gbps: float | None
    sources: tuple[Source, ...]

    @property
    def ends(self) -> tuple[PortKey, PortKey]:
        """Return both ports."""
        return self.one, self.other

    @property
    def rate_gbps(self) -> float | None:
        """Return the rate as inventories give it, None where it was not read."""
        return Port(self.one, width=self.width, lane_gbps=self.lane_gbps).rate_gbps

    def far_end(self, guid: str) -> PortKey:
        """Return the port that is not on this device."""
        return self.other if self.one.guid == guid else self.one


def lane_rate_gbps(lane_gbps: float) -> float:
    """Return what a lane counts for in a link's rate."""
    return NOMINAL_GBPS.get(lane_gbps, lane_gbps)


def list_links(reading: Reading) -> tuple[list[Link], list[tuple[PortKey, PortKey]]]:
    """Return the links between devices of a reading, and the pairs of ports whose ends disagree.

    A link that only one end reports counts as one: the other end may not have been read.
    """
    links: dict[tuple[PortKey, PortKey], Link] = {}
    conflicts: dict[tuple[PortKey, PortKey], None] = {}
    for device in reading.devices.values():
        for port in device.ports.values():
            if port.peer is None or port.peer.guid not in reading.devices:
                continue
            far = reading.port(port.peer)
            one, other = sorted((port.key, port.peer))
            if far is not None and far.peer not in (None, port.key):
                conflicts[one, other] = None
                continue
            if (one, other) not in links:
                ends = [port] if far is None else [port, far]
                widths = [end.width for end in ends if end.width is not None]
                lanes = [end.lane_gbps for end in ends if end.lane_gbps is not None]
                sources = tuple(source for end in ends for source in end.sources)
                links[one, other] = Link(
                    one, other, min(widths, default=None), min(lanes, default=None), sources
                )
    return list(links.values()), list(conflicts)


def has_link(port: Port) -> bool:
    """Tell whether a port is up, by its state alone: the rate of a port without a peer has no meaning."""
    return port.physical == "LinkUp" or port.state in ("Active", "Armed", "Init")
