# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a kernel driver of RDMA devices shows on every machine: a file of tests/machines/drivers."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from support.machines.fields import load, read
from support.machines.model import Gid, Text


@dataclass(frozen=True)
class Traffic:
    """A counter that RDMA traffic moves: its path below the port, what it counts, how much at a time."""

    path: str
    counts: Literal["sent_bytes", "received_bytes", "sent_packets", "received_packets"]
    unit: int = 1
    bits: int = 64


@dataclass(frozen=True, kw_only=True)
class Driver:
    """What a kernel driver of RDMA devices shows: tests/machines/drivers."""

    counters: list[str] = field(default_factory=list)
    hw_counters: list[str] = field(default_factory=list)
    counters_errno: str | None = None
    traffic: list[Traffic] = field(default_factory=list)
    gids: list[Gid] = field(default_factory=list)
    gid_table_entries: int = 8
    sources: dict[str, Text]


def read_driver(path: Path) -> Driver:
    """Read a file of tests/machines/drivers.

    Raises:
        DataError: it is none.
    """
    return read(Driver, load(path), str(path))
