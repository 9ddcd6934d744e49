# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An InfiniBand subnet as it was read from one node: switches, adapters, ports, subnet managers, counters.

A subnet is what one master subnet manager (SM) serves. GUIDs are texts of `0x` and 16 small hexadecimal
digits, so that they are equal exactly if they are the same. A reading states what was seen; whether that is
right is decided by `plugin_utils/subnet`.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

#: Gbit/s per lane (signalling), by the name that the tools print. IBTA roadmap; infiniband-diags 44.0,
#: libibmad/dump.c.
LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.3125,
    "FDR": 14.0625,
    "EDR": 25.78125,
    "HDR": 53.125,
    "NDR": 106.25,
    "XDR": 212.5,
}
WIDTHS = (1, 2, 4, 8, 12)


class PortKey(NamedTuple):
    """A port: the GUID of its switch or adapter (node GUID), and its number there."""

    guid: str
    number: int


class Source(NamedTuple):
    """Where a statement was read: the capture's file, and its line from 1; 0 for the file as a whole."""

    file: str
    line: int


class Port(NamedTuple):
    """A port.

    Attributes:
        key: whose port it is.
        port_guid: an adapter port's own GUID; a switch's port 0 has it for all its ports.
        lid: of the adapter port, or of the switch; None where no subnet manager gave one.
        state: logical state as printed: `Active`, `Init`, `Armed`, `Down`; None where it was not read.
        physical: physical state as printed: `LinkUp`, `Polling`, `Disabled`, ...; None where not read.
        width: lanes of the active link; None without a link.
        lane_gbps: signalling rate of a lane in Gbit/s; None without a link.
        peer: the port at the other end; None where there is none or where it could not be read.
        could_be: what the tool prints that both ends support (`12X`, `53.125 Gbps`), for information only.
        sources: the lines that say so.
    """

    key: PortKey
    port_guid: Optional[str] = None
    lid: Optional[int] = None
    state: Optional[str] = None
    physical: Optional[str] = None
    width: Optional[int] = None
    lane_gbps: Optional[float] = None
    peer: Optional[PortKey] = None
    could_be: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def rate_gbps(self) -> Optional[float]:
        """Return the data rate of the link in Gbit/s as inventories give it (4x EDR is 100); None without.

        The nominal rate: SDR to QDR lose a fifth to 8b/10b coding, faster ones 2/66 to 64b/66b; names round
        that (FDR 56, EDR 100, HDR 200, NDR 400, XDR 800 at four lanes).
        """
        if self.width is None or self.lane_gbps is None:
            return None
        return self.width * NOMINAL_GBPS.get(self.lane_gbps, self.lane_gbps)


#: The rate of a lane as it is sold, in Gbit/s, by signalling rate: a quarter of FDR 56, EDR 100, HDR 200...
#: SDR to QDR are sold by their signalling rate (4x QDR is 40).
NOMINAL_GBPS = {
    2.5: 2.5,
    5.0: 5.0,
    10.0: 10.0,
    10.3125: 10.0,
    14.0625: 14.0,
    25.78125: 25.0,
    53.125: 50.0,
    106.25: 100.0,
    212.5: 200.0,
}


class Device(NamedTuple):
    """A switch or an adapter (HCA).

    Attributes:
        guid: its node GUID.
        kind: `switch`, `adapter` or `router`; `aggregation` for a SHARP aggregation node, which shows as an
            adapter in a switch and counts neither as a host nor as missing.
        description: its NodeDescription, as it is: text of the device, which may hold anything.
        ports: by number; a port that no line names is missing here.
        system_guid: the system image GUID, the same for the ASICs of a chassis; None where not read.
    """

    guid: str
    kind: str
    description: str
    ports: dict[int, Port]
    system_guid: Optional[str] = None


class SubnetManager(NamedTuple):
    """What `sminfo` printed of a port that has a subnet manager.

    `state` is MASTER, STANDBY, DISCOVER or NOTACT; None where the port did not answer.
    """

    port_guid: Optional[str]
    lid: Optional[int]
    state: Optional[str]
    priority: Optional[int]
    activity: Optional[int]
    source: Source


class NoAnswer(NamedTuple):
    """A request without an answer: a direct route (ports from the node on), or a LID, as the tool prints it.

    `behind` is the port at whose far end the silent device is, where the route's last answer tells.
    """

    target: str
    behind: Optional[PortKey]
    text: str
    source: Source


class Duplicate(NamedTuple):
    """A GUID that two ports or devices have; `keys` are the ports by which they were reached, if known."""

    guid: str
    keys: tuple[PortKey, ...]
    text: str
    source: Source


class Problem(NamedTuple):
    """Why a part of the reading is not known.

    Attributes:
        kind: `line` (not understood), `command` (failed or timed out), `missing` (was not captured),
            `denied` (not permitted: M_Key, no access to umad), `changed` (two sources disagree about a link),
            `damaged` (truncated, or not text).
        text: what is wrong, in a sentence.
        source: where.
    """

    kind: str
    text: str
    source: Source


class Counters(NamedTuple):
    """The error counters of all ports that are not 0, at one time.

    Attributes:
        taken_at_s: seconds since the epoch, in the middle of the command.
        errors: port -> counter's name as printed (`SymbolErrorCounter`) -> value. A port without counters
            has none above 0, if `complete`.
        complete: whether the command read all ports; if not, a port that is missing says nothing.
    """

    taken_at_s: float
    errors: dict[PortKey, dict[str, int]]
    complete: bool


class Reading(NamedTuple):
    """A subnet, read once.

    Attributes:
        taken_at_s: when the reading began, seconds since the epoch.
        host: the node that it was read from, as the inventory calls it; None for a capture.
        device: the RDMA device and port used, `mlx5_0:1`; None for the tools' own choice.
        prefix: the subnet's GID prefix, `0xfe80000000000000`; None where not read.
        devices: by node GUID.
        managers: subnet managers; None where they were not read.
        pkeys: adapter port -> its P_Key table without zeros, each with the membership bit 0x8000 as read;
            None where partitions were not read.
        counters: readings of the error counters, the oldest first; none where they were not read.
        silent: what did not answer.
        duplicates: GUIDs that two ports have.
        problems: what of the reading is not known.
    """

    taken_at_s: float
    host: Optional[str]
    device: Optional[str]
    prefix: Optional[str]
    devices: dict[str, Device]
    managers: Optional[tuple[SubnetManager, ...]] = None
    pkeys: Optional[dict[PortKey, tuple[int, ...]]] = None
    counters: tuple[Counters, ...] = ()
    silent: tuple[NoAnswer, ...] = ()
    duplicates: tuple[Duplicate, ...] = ()
    problems: tuple[Problem, ...] = ()

    def port(self, key: Optional[PortKey]) -> Optional[Port]:
        """Return a port, or None where the reading has none of this key."""
        device = self.devices.get(key.guid) if key else None
        return device.ports.get(key.number) if device and key else None
