"""`discovered.txt`: each port as it was found, for people to read and for `--diff` to compare with."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from railyard.discover.model import Survey
from railyard.discover.ports import Port

#: Ansible reads no file of this ending in an inventory's folder.
FILE = "discovered.txt"
#: Files of the first version have no firmware and MTU.
_COLUMNS_MIN = 10
_NOTHING = "-"


class FoundPort(NamedTuple):
    """A line of the file; None where nothing is known."""

    node: str
    rail: str | None
    netdev: str | None
    pci: str | None
    mac: str | None
    rdma: str | None
    card: str | None
    serial: str | None
    gbps: str | None
    leaf: str | None
    firmware: str | None = None
    mtu: str | None = None


_HEAD = f"""\
# What `railyard discover` found, a line for each port; `railyard discover --diff` compares with it. Columns
# are separated by tabs, and `-` stands for what is not there or not known.
# {chr(9).join(FoundPort._fields)}
"""


def of_port(port: Port, rail: str | None) -> FoundPort:
    """Return what the file says of a port."""
    gbps = None if port.active_gbps is None else f"{port.active_gbps:g}"
    mtu = None if port.mtu_bytes is None else str(port.mtu_bytes)
    return FoundPort(
        port.node, rail, port.netdev, port.pci, port.mac, port.hca, port.card, port.serial, gbps, port.leaf,
        port.firmware, mtu,
    )  # fmt: skip


def write(survey: Survey) -> str:
    """Return the file's text."""
    return _HEAD + "".join(f"{chr(9).join(_cells(one))}\n" for one in _ports(survey))


def read(text: str) -> list[FoundPort]:
    """Return the ports of the file; a line that is not one, as people may leave it, is passed over."""
    ports = []
    for line in text.splitlines():
        cells = line.split("\t")
        if not line.startswith("#") and _COLUMNS_MIN <= len(cells) <= len(FoundPort._fields):
            known = [None if cell == _NOTHING else cell for cell in cells]
            if known[0] is not None:
                ports.append(FoundPort(known[0], *known[1:]))
    return ports


def _ports(survey: Survey) -> Iterator[FoundPort]:
    for name in survey.nodes:
        for rail in survey.rails:
            if name in rail.ports:
                yield of_port(rail.ports[name], rail.name)
        for port in survey.others.get(name, []):
            yield of_port(port, None)


def _cells(one: FoundPort) -> Iterator[str]:
    for text in one:
        yield " ".join(text.split()) or _NOTHING if text else _NOTHING
