"""Faults of a simulated subnet: some change the net before ibsim starts, others a net that runs.

ibsim cannot change width and speed of a link that runs; a cable that ends elsewhere it can.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from railyard.base.errors import BAD_INPUT
from railyard.lab.process import LabError
from railyard.lab.subnet.net import End, Net


class LiveFault(Protocol):
    """A fault that is made while the subnet runs."""

    def commands(self, net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        ...


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
    """A device with this node GUID, such as that of another one; its ports' GUIDs follow it.

    ibsim 0.10 has a command for the GUID of a port, which changes nothing that a port answers.
    """

    device: str
    guid: int

    def commands(self, _net: Net) -> list[str]:
        """Return ibsim's commands that make it."""
        return [f'Guid "{self.device}" 0x{self.guid:016x}']


def _port(end: End) -> str:
    return f'"{end.device}"[{end.port}]'


#: The arguments of each kind of live fault. A device has its name in ibsim: "gpu05 mlx5_0".
FORMS = {
    "link_down": "DEVICE PORT",
    "device_lost": "DEVICE",
    "silent": "DEVICE",
    "exchanged": "DEVICE PORT DEVICE PORT",
    "counted": "DEVICE PORT COUNTER VALUE",
    "node_guid": "DEVICE GUID",
}


def parse(kind: str, words: list[str], net: Net) -> LiveFault:
    """Return the fault that a command line names.

    Raises:
        LabError: there is no such kind, device or port, or the words are of another form.
    """
    form = FORMS.get(kind)
    if form is None:
        raise LabError(f"there is no fault {kind}", f"there are: {', '.join(FORMS)}", BAD_INPUT)
    if len(words) != len(form.split()):
        raise LabError(f"{kind}: {len(words)} words are given", f"give {form}", BAD_INPUT)
    read = [_read(what, word, net) for what, word in zip(form.split(), words, strict=True)]
    match kind, read:
        case "link_down", [str(device), int(port)]:
            return LinkDown(_plugged(net, End(device, port)))
        case "device_lost", [str(device)]:
            return DeviceLost(device)
        case "silent", [str(device)]:
            return Silent(device)
        case "exchanged", [str(device), int(port), str(other), int(other_port)]:
            return Exchanged(_plugged(net, End(device, port)), _plugged(net, End(other, other_port)))
        case "counted", [str(device), int(port), str(counter), int(value)]:
            return Counted(_plugged(net, End(device, port)), counter, value)
        case _, [str(device), int(guid)]:
            return NodeGuid(device, guid)
    raise AssertionError(f"a form without a fault: {kind}")


def _read(what: str, word: str, net: Net) -> str | int:
    if what == "DEVICE" and word not in net.devices:
        some = ", ".join(
            f'"{name}"' for name in [*net.devices][:1] + [one.name for one in net.switches()][:1]
        )
        raise LabError(f"there is no device {word}", f"names are as {some}", BAD_INPUT)
    if what in ("DEVICE", "COUNTER"):
        return word
    try:
        return int(word, 0)
    except ValueError:
        raise LabError(f"{what} {word} is no number", "", BAD_INPUT) from None


def _plugged(net: Net, end: End) -> End:
    net.cable_at(end)
    return end
