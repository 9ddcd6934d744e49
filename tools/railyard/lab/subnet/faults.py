"""Faults of a simulated subnet: some change the net before ibsim starts, others a net that runs.

ibsim cannot change width and speed of a link that runs; a cable that ends elsewhere it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from railyard.lab.subnet.net import End, Net, Rate


class NetFault(Protocol):
    """A fault that the net has from the start."""

    def apply_to(self, net: Net) -> Net:
        """Return the net with the fault."""
        ...


class LiveFault(Protocol):
    """A fault that is made while the subnet runs."""

    def commands(self, net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        ...


@dataclass(frozen=True)
class OtherRate:
    """A link with fewer lanes or at another speed than its neighbors."""

    end: End
    rate: Rate

    def apply_to(self, net: Net) -> Net:
        """Return the net with the fault."""
        return net.with_rate(self.end, self.rate)


@dataclass(frozen=True)
class OtherDescription:
    """A device that calls itself something else."""

    device: str
    description: str

    def apply_to(self, net: Net) -> Net:
        """Return the net with the fault."""
        return net.with_description(self.device, self.description)


@dataclass(frozen=True)
class LinkDown:
    """A cable without a signal: both ends are polling."""

    end: End

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f"Unlink {_port(self.end)}"]


@dataclass(frozen=True)
class DeviceLost:
    """A switch or an adapter that is off: all its links are down."""

    device: str

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f'Unlink "{self.device}"']


@dataclass(frozen=True)
class Silent:
    """A device whose links are up and that answers nothing."""

    device: str

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f'Error "{self.device}" 100']


@dataclass(frozen=True)
class Exchanged:
    """Two cables that were plugged into each other's ports, at these ends.

    opensm needs a sweep to make both links active.
    """

    first: End
    second: End

    def commands(self, net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        peers = []
        for end in (self.first, self.second):
            ends = net.cable_at(end).ends
            peers.append(ends[1] if ends[0] == end else ends[0])
        return [
            f"Unlink {_port(self.first)}",
            f"Unlink {_port(self.second)}",
            f"Link {_port(self.first)} {_port(peers[1])}",
            f"Link {_port(self.second)} {_port(peers[0])}",
        ]


@dataclass(frozen=True)
class Counted:
    """An error counter of a port at a value; `counter` as `ibqueryerrors` prints it."""

    end: End
    counter: str
    value: int

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f"PerformanceSet {_port(self.end)} PortCounters.{self.counter}={self.value}"]


@dataclass(frozen=True)
class NodeGuid:
    """A device with this node GUID, such as that of another one."""

    device: str
    guid: int

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f'Guid "{self.device}" 0x{self.guid:016x}']


@dataclass(frozen=True)
class PortGuid:
    """An adapter's port with this GUID."""

    end: End
    guid: int

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f"Guid {_port(self.end)} 0x{self.guid:016x}"]


def _port(end: End) -> str:
    return f'"{end.device}"[{end.port}]'
