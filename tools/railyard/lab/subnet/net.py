"""The net that ibsim simulates: switches, adapters and cables, made from a plan and written in ibsim's form.

Pure. A device is called in ibsim by its name, which is its NodeDescription as well unless it has another one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records import subnet

from railyard.base.errors import BAD_INPUT
from railyard.lab.process import LabError

#: What ibsim 0.10 of Debian 12 can simulate.
SPEEDS = ("SDR", "DDR", "QDR", "FDR10", "FDR", "EDR", "HDR")
# As of NVIDIA's adapters and switches; what follows is counted.
_ADAPTER_GUID = 0x0002C903_00100000
_SWITCH_GUID = 0x7CFE9003_00200000
# An adapter has its own GUID and one for its port; a switch has room for those of a chassis.
_GUIDS_PER_ADAPTER = 2
_GUIDS_PER_SWITCH = 16
# What NodeDescription has room for, and ibsim's name of a device.
_NAME_BYTES = 64
# Where ibsim takes a description to end.
_ENDS_TEXT = re.compile(r"\n| (?:lid|lmc|enhanced port|base port) ")


class End(NamedTuple):
    """An end of a cable: a device by its name, and its port."""

    device: str
    port: int


class Rate(NamedTuple):
    """Lanes, and the speed of each by its name."""

    lanes: int
    speed: str

    def __str__(self) -> str:
        return f"{self.lanes}x{self.speed}"


class Cable(NamedTuple):
    """A cable between two ports, and the rate of its link."""

    ends: tuple[End, End]
    rate: Rate


@dataclass(frozen=True)
class Device:
    """A switch or an adapter.

    Attributes:
        name: what ibsim calls it; no two devices have the same.
        kind: `switch` or `adapter`.
        ports: how many it has.
        guid: its node GUID. The port of an adapter has the next one.
        description: its NodeDescription, if that is not its name.
    """

    name: str
    kind: str
    ports: int
    guid: int
    description: str | None = None


@dataclass(frozen=True)
class Net:
    """A subnet to simulate. The first adapter is where tools and the subnet manager run."""

    devices: Mapping[str, Device]
    cables: tuple[Cable, ...]

    def cable_at(self, end: End) -> Cable:
        """Return the cable that ends at a port.

        Raises:
            LabError: there is none.
        """
        for cable in self.cables:
            if end in cable.ends:
                return cable
        raise LabError(f"the net has no cable at {end.device} port {end.port}", "", BAD_INPUT)

    def adapters(self) -> list[Device]:
        """Return the adapters, in the net's order."""
        return [device for device in self.devices.values() if device.kind == "adapter"]

    def switches(self) -> list[Device]:
        """Return the switches, in the net's order."""
        return [device for device in self.devices.values() if device.kind == "switch"]


def link_rate(rate_gbps: float) -> Rate:
    """Return the link that has a rate as inventories give it: four lanes if there is one, else any number.

    Raises:
        LabError: no link of the simulator has this rate.
    """
    for lanes in sorted(subnet.WIDTHS, key=lambda lanes: (lanes != 4, lanes)):
        for speed in SPEEDS:
            if lanes * subnet.NOMINAL_GBPS[subnet.LANE_GBPS[speed]] == rate_gbps:
                return Rate(lanes, speed)
    raise LabError(
        f"rate_gbps {rate_gbps:g}: the simulator has no link of this rate",
        f"its speeds are {', '.join(SPEEDS)}; 4x EDR is 100, 4x HDR is 200",
        BAD_INPUT,
    )


def from_plan(
    plan: Mapping[str, Any],
    spines: int,
    uplinks: int | None = None,
    leaf_guids: Mapping[str, str] | None = None,
) -> Net:
    """Make the net that a plan declares: each rail of each node on its leaf, each leaf on all spines.

    Args:
        plan: what `build_plan` of the inventory returned; each rail names its `leaf`. A scalable unit has
            leaves of its own if the inventory gives them names of their own.
        spines: how many switches join the leaves.
        uplinks: cables from each leaf to all spines together; None for as many as it has nodes.
        leaf_guids: node GUIDs of leaves by name, if the inventory has some.

    Raises:
        LabError: a rail has no leaf or a rate that cannot be simulated.
    """
    below: dict[str, list[tuple[str, Rate]]] = {}
    adapters: dict[str, Device] = {}
    for node, planned in plan["nodes"].items():
        for position, rail in enumerate(planned["rails"]):
            name = f"{node} {str(rail['hca'] or f'mlx5_{position}').partition(':')[0]}"
            if not rail["leaf"]:
                raise LabError(
                    f"{node}: {rail['name']}: it has no leaf",
                    "a simulated subnet is cabled as the inventory says: give each rail its `leaf`",
                    BAD_INPUT,
                )
            guid = _ADAPTER_GUID + _GUIDS_PER_ADAPTER * len(adapters)
            adapters[name] = Device(name, "adapter", 1, guid)
            below.setdefault(rail["leaf"], []).append((name, link_rate(rail["rate_gbps"] or 100)))
    known = leaf_guids or {}
    return _two_tiers(adapters, below, spines, uplinks, known)


def _two_tiers(
    adapters: dict[str, Device],
    below: Mapping[str, list[tuple[str, Rate]]],
    spines: int,
    uplinks: int | None,
    leaf_guids: Mapping[str, str],
) -> Net:
    switches: dict[str, Device] = {}
    cables: list[Cable] = []
    spine_ports = [0] * spines
    for leaf, hosts in below.items():
        guid = leaf_guids.get(leaf)
        wanted = len(hosts) if uplinks is None else uplinks
        switches[leaf] = Device(
            leaf,
            "switch",
            len(hosts) + wanted,
            int(guid, 16) if guid else _SWITCH_GUID + _GUIDS_PER_SWITCH * len(switches),
        )
        for port, (adapter, rate) in enumerate(hosts, 1):
            cables.append(Cable((End(leaf, port), End(adapter, 1)), rate))
        for number in range(wanted):
            # Cables to the same spine are beside each other, as one plugs them.
            spine = number * spines // wanted
            spine_ports[spine] += 1
            ends = (End(leaf, len(hosts) + 1 + number), End(f"spine{spine + 1}", spine_ports[spine]))
            cables.append(Cable(ends, hosts[0][1]))
    for spine, ports in enumerate(spine_ports):
        name = f"spine{spine + 1}"
        switches[name] = Device(
            name, "switch", max(ports, 1), _SWITCH_GUID + _GUIDS_PER_SWITCH * len(switches)
        )
    return Net({**adapters, **switches}, tuple(cables))


def render(net: Net) -> str:
    """Return the net as ibsim reads it.

    Raises:
        LabError: a name or description that ibsim cannot read.
    """
    at: dict[str, list[str]] = {name: [] for name in net.devices}
    for cable in net.cables:
        for here, there in (cable.ends, cable.ends[::-1]):
            # ibsim takes the rate of the words behind the comment, as ibnetdiscover writes them.
            at[here.device].append(
                f'[{here.port}] "{there.device}"[{there.port}] # lid 0 lmc 0 "" lid 0 {cable.rate}'
            )
    blocks = []
    for device in net.devices.values():
        _check(device)
        is_switch = device.kind == "switch"
        lines = [f"{'switchguid' if is_switch else 'caguid'}=0x{device.guid:016x}"]
        head = f'{"Switch" if is_switch else "Hca"} {device.ports} "{device.name}"'
        lines.append(head if device.description is None else f"{head} # {device.description}")
        blocks.append("\n".join([*lines, *at[device.name]]))
    return "\n\n".join(blocks) + "\n"


def _check(device: Device) -> None:
    text = device.name if device.description is None else device.description
    is_name_plain = device.name and not any(letter in device.name for letter in '"#@\n')
    is_text_plain = text == text.strip() != "" and not text.startswith('"') and not _ENDS_TEXT.search(text)
    longest = max(len(device.name.encode()), len(text.encode()))
    if not is_name_plain or not is_text_plain or longest >= _NAME_BYTES:
        raise LabError(
            f"{device.name!r}, {text!r}: ibsim cannot read this device's name or description",
            f"at most {_NAME_BYTES - 1} bytes on one line; no quotation mark, # or @ in the name, no"
            " quotation mark or space at the description's start",
            BAD_INPUT,
        )
