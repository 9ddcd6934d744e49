# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of the gallery as its data describes it; tests/machines/README.md documents each key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from support.machines.fields import Content, DataError, content, key, read

_ADDRESS = re.compile(r"[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ROOT = re.compile(r"pci[0-9a-f]{4,5}:[0-9a-f]{2}\Z")
_LINK = re.compile(r"(?P<speed_gts>2\.5|5\.0|8\.0|16\.0|32\.0|64\.0) GT/s x(?P<width>1|2|4|8|12|16|32)\Z")
_IDS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}\Z")


# What YAML reads as a number stands for its text.
Text = Annotated[str, lambda value, _where: str(value)]
Files = dict[str, Annotated[Content, content]]


@dataclass(frozen=True)
class PciLink:
    """A PCI Express link: GT/s of each lane, and lanes."""

    speed_gts: float
    width: int

    @property
    def gbps(self) -> float:
        """Return what it carries after its line code: 8b/10b up to 5 GT/s, 128b/130b up to 32."""
        code = 8 / 10 if self.speed_gts <= 5 else 128 / 130 if self.speed_gts <= 32 else 236 / 256
        return self.speed_gts * self.width * code


def _link(value: object, where: str) -> PciLink | None:
    if value == "none":
        return None
    found = _LINK.match(str(value))
    if found is None:
        raise DataError(f"{where}: must be like `16.0 GT/s x16`, or none, not {value!r}")
    return PciLink(float(found["speed_gts"]), int(found["width"]))


def _ids(value: object, where: str) -> str:
    if not _IDS.match(str(value)):
        raise DataError(f"{where}: must be vendor and device like 15b3:1019, not {value!r}")
    return str(value)


@dataclass(frozen=True, kw_only=True)
class Function:
    """A PCI function, or a bridge; `inside_chip`: what is between it and the bridge above is no link."""

    parent: str = key("below")
    ids: Annotated[str, _ids] = "8086:352a"
    class_code: str = key("class", "0x060400")
    driver: str | None = None
    numa: int = -1
    link: Annotated[PciLink | None, _link] = None
    #: None where it is as fast as `link`.
    max_link: Annotated[PciLink | None, _link] = None
    inside_chip: bool = False
    files: Files = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Netdev:
    """A netdev."""

    pci: str | None = None
    kind: Literal["ethernet", "infiniband"] = "ethernet"
    port: int = 1
    mac: str | None = None
    rail: str | None = None
    addresses: list[str] = field(default_factory=list)
    speed_mbps: int | None = None
    speed_max_mbps: int | None = None
    mtu_bytes: int = 1500
    mtu_max_bytes: int | None = None
    is_up: bool = key("up", True)
    has_carrier: bool = key("carrier", True)
    ethtool: dict[str, int] | None = None
    files: Files = field(default_factory=dict)

    @property
    def infiniband(self) -> bool:
        """Tell whether it is IP over InfiniBand."""
        return self.kind == "infiniband"


@dataclass(frozen=True)
class Gid:
    """An entry of a GID table."""

    gid: str
    type: str
    netdev: str | None = None


@dataclass(frozen=True, kw_only=True)
class Port:
    """A port of an RDMA device."""

    link_layer: Literal["Ethernet", "InfiniBand", "Unknown"] = "Ethernet"
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str
    lid: str | None = None
    sm_lid: str = "0x0"
    netdev: str | None = None
    gids: list[Gid] | None = None
    pkeys: list[str] = field(default_factory=lambda: ["0xffff"])
    active_mtu_bytes: int | None = None
    max_mtu_bytes: int | None = None
    files: Files = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RdmaDevice:
    """An RDMA device."""

    pci: str | None = None
    driver: str
    files: Files = field(default_factory=dict)
    ports: dict[str, Port] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Nvidia:
    """NVIDIA's driver, and what nvidia-smi answers."""

    version: str
    module: Literal["open", "proprietary"] = "proprietary"
    fields: dict[str, Text] = field(default_factory=dict)
    gpus: dict[str, dict[str, Text]] = field(default_factory=dict)
    nvlinks: int = 0
    nvlink_speed_gbytes_per_s: float = 0.0
    inactive_nvlinks: dict[str, list[int]] = field(default_factory=dict)
    topology: str | None = None


@dataclass(frozen=True)
class Answer:
    """What a program prints to the arguments that a pattern of the shell matches, and its exit status."""

    arguments: Text = "*"
    stdout: str = ""
    stderr: str = ""
    exit: int = 0


def _tool(value: object, where: str) -> str | list[Answer]:
    """Read what stands in for a program: `qos_recorder`, or a list of answers."""
    if value == "qos_recorder":
        return "qos_recorder"
    if not isinstance(value, list):
        raise DataError(f"{where}: must be qos_recorder or a list of answers, not {value!r}")
    return [read(Answer, one, f"{where}[{place}]") for place, one in enumerate(value)]


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node of the gallery."""

    kernel: str
    os: dict[str, Text]
    cpus: int
    governor: str | None = None
    kernel_log: list[str] = field(default_factory=list)
    pci: dict[str, Function] = field(default_factory=dict)
    netdevs: dict[str, Netdev] = field(default_factory=dict)
    rdma: dict[str, RdmaDevice] = field(default_factory=dict)
    nvidia: Nvidia | None = None
    tools: dict[str, Annotated[str | list[Answer], _tool]] = field(default_factory=dict)
    files: Files = field(default_factory=dict)

    def complain(self, where: str) -> None:
        """Complain of a reference to what is not there."""
        for address, function in self.pci.items():
            if not _ADDRESS.match(address):
                raise DataError(f"{where}.pci.{address}: no PCI address; write 0000:e1:00.0")
            if not _ROOT.match(function.parent) and function.parent not in self.pci:
                raise DataError(f"{where}.pci.{address}.below: {function.parent} is no function of `pci`")
        for kind, found in (("netdevs", self.netdevs), ("rdma", self.rdma)):
            for name, one in found.items():
                if one.pci is not None and one.pci not in self.pci:
                    raise DataError(f"{where}.{kind}.{name}.pci: {one.pci} is no function of `pci`")
        for name, device in self.rdma.items():
            for number, port in device.ports.items():
                for netdev in (port.netdev, *(row.netdev for row in port.gids or [])):
                    if netdev is not None and netdev not in self.netdevs:
                        raise DataError(f"{where}.rdma.{name}.ports.{number}.netdev: there is no {netdev}")
        for address in self.nvidia.gpus if self.nvidia else {}:
            if address not in self.pci:
                raise DataError(f"{where}.nvidia.gpus.{address}: it is no function of `pci`")


def read_node(value: object, where: str, folder: Path) -> Node:
    """Read a node.

    Args:
        value: the mapping.
        where: file and key path, for messages.
        folder: the machine's folder, in which files of outputs lie.

    Raises:
        DataError: it is none.
    """
    return read(Node, _with_outputs(value, where, folder), where)


def _with_outputs(value: Any, where: str, folder: Path) -> Any:
    """Put what the named files of outputs hold in the place of their names: `stdout` of `stdout_file`."""
    if isinstance(value, list):
        return [_with_outputs(one, f"{where}[{place}]", folder) for place, one in enumerate(value)]
    if not isinstance(value, Mapping):
        return value
    found = {name: _with_outputs(one, f"{where}.{name}", folder) for name, one in value.items()}
    for name in found.keys() & {"stdout_file", "topology_file"}:
        path = folder / found.pop(name)
        try:
            found[name.removesuffix("_file")] = path.read_text(encoding="utf-8")
        except OSError as error:
            raise DataError(f"{where}.{name}: {path}: {error.strerror}") from error
    return found
