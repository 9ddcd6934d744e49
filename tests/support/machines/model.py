# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of the gallery as its data describes it; tests/machines/README.md documents each key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from support.machines.fields import Content, DataError, Fields, content

_ADDRESS = re.compile(r"[0-9a-f]{4,5}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")
_ROOT = re.compile(r"pci[0-9a-f]{4,5}:[0-9a-f]{2}\Z")
_LINK = re.compile(r"(?P<speed_gts>2\.5|5\.0|8\.0|16\.0|32\.0|64\.0) GT/s x(?P<width>1|2|4|8|12|16|32)\Z")
_IDS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{4}\Z")


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


@dataclass(frozen=True)
class Function:
    """A PCI function, or a bridge; `inside_chip`: what stands between it and the bridge above is no link."""

    parent: str
    vendor: str
    device: str
    class_code: str
    driver: str | None
    numa: int
    link: PciLink | None
    max_link: PciLink | None
    inside_chip: bool
    files: dict[str, Content]


@dataclass(frozen=True)
class Netdev:
    """A netdev."""

    pci: str | None
    infiniband: bool
    port: int
    mac: str | None
    rail: str | None
    addresses: list[str]
    speed_mbps: int | None
    speed_max_mbps: int | None
    mtu_bytes: int
    mtu_max_bytes: int | None
    is_up: bool
    has_carrier: bool
    ethtool: dict[str, int] | None
    files: dict[str, Content]


@dataclass(frozen=True)
class Port:
    """A port of an RDMA device."""

    link_layer: str
    state: str
    phys_state: str
    rate: str
    lid: str | None
    sm_lid: str
    netdev: str | None
    gids: list[dict[str, str]] | None
    pkeys: list[str]
    active_mtu_bytes: int | None
    max_mtu_bytes: int | None
    files: dict[str, Content]


@dataclass(frozen=True)
class RdmaDevice:
    """An RDMA device."""

    pci: str | None
    driver: str
    files: dict[str, Content]
    ports: dict[str, Port]


@dataclass(frozen=True)
class Nvidia:
    """NVIDIA's driver, and what nvidia-smi answers."""

    version: str
    module: str
    fields: dict[str, str]
    gpus: dict[str, dict[str, str]]
    nvlinks: int
    nvlink_speed_gbytes_per_s: float
    inactive_nvlinks: dict[str, list[int]]
    topology: str | None


@dataclass(frozen=True)
class Answer:
    """What a program prints to the arguments that a pattern of the shell matches, and its exit status."""

    arguments: str
    stdout: str
    stderr: str
    exit: int


@dataclass(frozen=True)
class Node:
    """A node of the gallery."""

    kernel: str
    os: dict[str, str]
    cpus: int
    governor: str | None
    kernel_log: list[str]
    pci: dict[str, Function]
    netdevs: dict[str, Netdev]
    rdma: dict[str, RdmaDevice]
    nvidia: Nvidia | None
    tools: dict[str, str | list[Answer]]
    files: dict[str, Content]


def read_node(value: object, where: str, folder: Path) -> Node:
    """Read a node.

    Args:
        value: the mapping.
        where: file and key path, for messages.
        folder: the machine's folder, in which files of outputs lie.

    Raises:
        DataError: it is none.
    """
    fields = Fields(value, where)
    node = Node(
        kernel=fields.take("kernel", str),
        os={key: str(one) for key, one in fields.take("os", dict).items()},
        cpus=fields.take("cpus", int),
        governor=fields.take("governor", str, None),
        kernel_log=fields.listed("kernel_log", read_text),
        pci=fields.each("pci", _function),
        netdevs=fields.each("netdevs", _netdev),
        rdma=fields.each("rdma", _rdma_device),
        nvidia=_nvidia(fields.take("nvidia", dict, None), f"{where}.nvidia", folder),
        tools=fields.each("tools", lambda one, at: _tool(one, at, folder)),
        files=fields.each("files", content),
    )
    fields.done()
    _check_references(node, where)
    return node


def _check_references(node: Node, where: str) -> None:
    for address, function in node.pci.items():
        if not _ADDRESS.match(address):
            raise DataError(f"{where}.pci.{address}: no PCI address; write 0000:e1:00.0")
        if not _ROOT.match(function.parent) and function.parent not in node.pci:
            raise DataError(f"{where}.pci.{address}.below: {function.parent} is no function of `pci`")
    for kind, found in (("netdevs", node.netdevs), ("rdma", node.rdma)):
        for name, one in found.items():
            if one.pci is not None and one.pci not in node.pci:
                raise DataError(f"{where}.{kind}.{name}.pci: {one.pci} is no function of `pci`")
    for name, device in node.rdma.items():
        for number, port in device.ports.items():
            for netdev in (port.netdev, *(row.get("netdev") for row in port.gids or [])):
                if netdev is not None and netdev not in node.netdevs:
                    raise DataError(f"{where}.rdma.{name}.ports.{number}.netdev: there is no {netdev}")
    for address in node.nvidia.gpus if node.nvidia else {}:
        if address not in node.pci:
            raise DataError(f"{where}.nvidia.gpus.{address}: it is no function of `pci`")


def read_text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise DataError(f"{where}: must be a text, not {value!r}")
    return value


def _link(value: str | None, where: str) -> PciLink | None:
    if value is None or value == "none":
        return None
    found = _LINK.match(value)
    if found is None:
        raise DataError(f"{where}: must be like `16.0 GT/s x16`, or none, not {value!r}")
    return PciLink(float(found["speed_gts"]), int(found["width"]))


def _function(value: object, where: str) -> Function:
    fields = Fields(value, where)
    below, ids = fields.take("below", str), fields.take("ids", str, "8086:352a")
    if not _IDS.match(ids):
        raise DataError(f"{where}.ids: must be vendor and device like 15b3:1019, not {ids!r}")
    link = fields.take("link", str, None)
    function = Function(
        parent=below,
        vendor=f"0x{ids[:4]}",
        device=f"0x{ids[5:]}",
        class_code=fields.take("class", str, "0x060400"),
        driver=fields.take("driver", str, None),
        numa=fields.take("numa", int, -1),
        link=_link(link, f"{where}.link"),
        max_link=_link(fields.take("max_link", str, link), f"{where}.max_link"),
        inside_chip=fields.take("inside_chip", bool, False),
        files=fields.each("files", content),
    )
    fields.done()
    return function


def _netdev(value: object, where: str) -> Netdev:
    fields = Fields(value, where)
    statistics = fields.take("ethtool", dict, None)
    netdev = Netdev(
        pci=fields.take("pci", str, None),
        infiniband=fields.word("kind", ("ethernet", "infiniband"), "ethernet") == "infiniband",
        port=fields.take("port", int, 1),
        mac=fields.take("mac", str, None),
        rail=fields.take("rail", str, None),
        addresses=fields.listed("addresses", read_text),
        speed_mbps=fields.take("speed_mbps", int, None),
        speed_max_mbps=fields.take("speed_max_mbps", int, None),
        mtu_bytes=fields.take("mtu_bytes", int, 1500),
        mtu_max_bytes=fields.take("mtu_max_bytes", int, None),
        is_up=fields.take("up", bool, True),
        has_carrier=fields.take("carrier", bool, True),
        ethtool=None if statistics is None else {str(name): int(one) for name, one in statistics.items()},
        files=fields.each("files", content),
    )
    fields.done()
    return netdev


def _rdma_device(value: object, where: str) -> RdmaDevice:
    fields = Fields(value, where)
    device = RdmaDevice(
        pci=fields.take("pci", str, None),
        driver=fields.take("driver", str),
        files=fields.each("files", content),
        ports=fields.each("ports", _port),
    )
    fields.done()
    return device


def _port(value: object, where: str) -> Port:
    fields = Fields(value, where)
    layer = fields.word("link_layer", ("Ethernet", "InfiniBand", "Unknown"), "Ethernet")
    gids = fields.take("gids", list, None)
    port = Port(
        link_layer=layer,
        state=fields.take("state", str, "4: ACTIVE"),
        phys_state=fields.take("phys_state", str, "5: LinkUp"),
        rate=fields.take("rate", str),
        lid=fields.take("lid", str, None if layer == "InfiniBand" else "0x0"),
        sm_lid=fields.take("sm_lid", str, "0x0"),
        netdev=fields.take("netdev", str, None),
        gids=None if gids is None else read_gids(gids, f"{where}.gids"),
        pkeys=fields.take("pkeys", list, ["0xffff"]),
        active_mtu_bytes=fields.take("active_mtu_bytes", int, None),
        max_mtu_bytes=fields.take("max_mtu_bytes", int, None),
        files=fields.each("files", content),
    )
    fields.done()
    return port


def read_gids(rows: object, where: str) -> list[dict[str, str]]:
    if not isinstance(rows, list):
        raise DataError(f"{where}: must be a list")
    found = []
    for place, row in enumerate(rows):
        fields = Fields(row, f"{where}[{place}]")
        one = {"gid": fields.take("gid", str), "type": fields.take("type", str)}
        netdev = fields.take("netdev", str, None)
        found.append({**one, "netdev": netdev} if netdev else one)
        fields.done()
    return found


def _nvidia(value: object, where: str, folder: Path) -> Nvidia | None:
    if value is None:
        return None
    fields = Fields(value, where)
    topology = fields.take("topology_file", str, None)
    nvidia = Nvidia(
        version=fields.take("version", str),
        module=fields.word("module", ("open", "proprietary"), "proprietary"),
        fields=_texts(fields.take("fields", dict, {}), f"{where}.fields"),
        gpus=fields.each("gpus", lambda one, at: _texts(one or {}, at)),
        nvlinks=fields.take("nvlinks", int, 0),
        nvlink_speed_gbytes_per_s=fields.take("nvlink_speed_gbytes_per_s", float, 0.0),
        inactive_nvlinks=fields.each("inactive_nvlinks", lambda one, _at: [int(link) for link in one]),
        topology=None if topology is None else _output(folder / topology, f"{where}.topology_file"),
    )
    fields.done()
    return nvidia


def _texts(value: object, where: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: must be a mapping, not {value!r}")
    return {str(key): str(one) for key, one in value.items()}


def _tool(value: object, where: str, folder: Path) -> str | list[Answer]:
    """Read what stands in for a program: `qos_recorder`, or a list of answers."""
    if value == "qos_recorder":
        return "qos_recorder"
    if not isinstance(value, list):
        raise DataError(f"{where}: must be qos_recorder or a list of answers, not {value!r}")
    answers = []
    for place, one in enumerate(value):
        fields = Fields(one, f"{where}[{place}]")
        file = fields.take("stdout_file", str, None)
        stdout = fields.take("stdout", str, "")
        answers.append(
            Answer(
                arguments=str(fields.take("arguments", (str, int), "*")),
                stdout=_output(folder / file, fields.where) if file else stdout,
                stderr=fields.take("stderr", str, ""),
                exit=fields.take("exit", int, 0),
            )
        )
        fields.done()
    return answers


def _output(path: Path, where: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise DataError(f"{where}: {path}: {error.strerror}") from error
