# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kernel driver of RDMA devices shows on every machine: a file of tests/machines/drivers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from support.machines.fields import Fields, load
from support.machines.model import read_gids, read_text

#: What RDMA traffic can count.
COUNTED = ("sent_bytes", "received_bytes", "sent_packets", "received_packets")


@dataclass(frozen=True)
class Traffic:
    """A counter that RDMA traffic moves: its path below the port, what it counts, how much at a time."""

    path: str
    counts: str
    unit: int
    bits: int


@dataclass(frozen=True)
class Driver:
    """What a kernel driver of RDMA devices shows: tests/machines/drivers."""

    name: str
    counters: list[str]
    hw_counters: list[str]
    counters_errno: str | None
    traffic: list[Traffic]
    gids: list[dict[str, str]]
    gid_table_entries: int
    sources: dict[str, str]


def read_driver(path: Path) -> Driver:
    """Read a file of tests/machines/drivers.

    Raises:
        DataError: it is none.
    """
    fields = Fields(load(path), str(path))
    driver = Driver(
        name=path.stem,
        counters=fields.listed("counters", read_text),
        hw_counters=fields.listed("hw_counters", read_text),
        counters_errno=fields.take("counters_errno", str, None),
        traffic=fields.listed("traffic", _traffic),
        gids=read_gids(fields.take("gids", list, []), f"{path}.gids"),
        gid_table_entries=fields.take("gid_table_entries", int, 8),
        sources={str(key): str(one) for key, one in fields.take("sources", dict).items()},
    )
    fields.done()
    return driver


def _traffic(value: object, where: str) -> Traffic:
    fields = Fields(value, where)
    traffic = Traffic(
        path=fields.take("path", str),
        counts=fields.word("counts", COUNTED),
        unit=fields.take("unit", int, 1),
        bits=fields.take("bits", int, 64),
    )
    fields.done()
    return traffic
