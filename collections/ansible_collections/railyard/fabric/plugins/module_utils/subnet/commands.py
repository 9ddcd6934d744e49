# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The commands that read a subnet. All of them read; none sets, resets or clears anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..parsers.subnet import answers
from ..records.subnet import Reading

# A subnet has a handful of managers. An answer that was cut may name arbitrary LIDs.
_MOST_MANAGERS = 32
#: Pairs of ports whose paths are traced in one reading, both ways.
MOST_PATHS = 32


class Step(NamedTuple):
    """A command, and the file of a capture that its output belongs to."""

    argv: tuple[str, ...]
    file: str


class Port(NamedTuple):
    """The port of this node to read from; None for the tools' own choice."""

    device: str | None
    number: int | None

    @property
    def options(self) -> tuple[str, ...]:
        """Return the options by which each tool takes it."""
        device = ("-C", self.device) if self.device is not None else ()
        return (*device, "-P", str(self.number)) if self.number is not None else device


def plan_links(port: Port) -> list[Step]:
    """Return what reads links: three tools, whose answers are compared."""
    return [
        Step(("ibnetdiscover", *port.options, "-p"), "ibnetdiscover.txt"),
        Step(("ibnetdiscover", *port.options), "topology.txt"),
        Step(("iblinkinfo", *port.options, "-l"), "iblinkinfo.txt"),
    ]


def plan_single(port: Port) -> list[Step]:
    """Return what reads the port's address and finds the subnet managers."""
    return [
        Step(("ibaddr", *port.options), "ibaddr.txt"),
        Step(("saquery", *port.options, "-s"), "saquery-s.txt"),
        Step(("sminfo", *port.options), "sminfo.txt"),
    ]


def plan_counters(port: Port, reading: int) -> Step:
    """Return what reads the error counters.

    The tool hides what is below the thresholds of `/etc/infiniband-diags/error_thresholds`: an empty file has
    none, so that small counters are seen to grow.
    """
    argv = ("ibqueryerrors", *port.options, "--threshold-file", "/dev/null")
    return Step(argv, f"ibqueryerrors.{reading}.txt")


def plan_managers(port: Port, saquery: str) -> list[Step]:
    """Return what asks each port that has a subnet manager."""
    lids = answers.parse_saquery(saquery, "saquery-s.txt").lids[:_MOST_MANAGERS]
    return [Step(("sminfo", *port.options, str(lid)), f"sminfo-{lid}.txt") for lid in lids]


def plan_partitions(port: Port, reading: Reading) -> list[Step]:
    """Return what reads the P_Keys of each adapter port that has a LID and a link."""
    lids: Iterable[tuple[int, int]] = sorted(
        {
            (one.lid, one.key.number)
            for device in reading.devices.values()
            if device.kind == "adapter"
            for one in device.ports.values()
            if one.lid is not None and one.peer is not None
        }
    )
    return [
        Step(
            ("smpquery", *port.options, "pkeys", str(lid), str(number)), f"smpquery-pkeys-{lid}-{number}.txt"
        )
        for lid, number in lids
    ]


def plan_paths(port: Port, reading: Reading, pairs: Sequence[tuple[str, str]]) -> list[Step]:
    """Return what traces the path between ports, both ways, which may differ.

    Args:
        port: where to read from.
        reading: the links, by which each port is found again; a pair is left out that it does not have.
        pairs: pairs of GUIDs of adapter ports.
    """
    lids = {
        one.port_guid: one.lid
        for device in reading.devices.values()
        if device.kind == "adapter"
        for one in device.ports.values()
        if one.port_guid is not None
    }
    both = [way for pair in pairs[:MOST_PATHS] for way in (pair, pair[::-1])]
    ways = [(lids.get(one), lids.get(other)) for one, other in both]
    return [
        Step(("ibtracert", *port.options, "-n", str(one), str(other)), f"ibtracert-{one}-{other}.txt")
        for one, other in dict.fromkeys(ways)
        if one is not None and other is not None
    ]
