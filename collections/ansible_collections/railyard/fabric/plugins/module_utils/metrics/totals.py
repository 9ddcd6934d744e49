# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums of a rail's error counters that never fall, kept from one write to the next.

Prometheus takes a counter that fell for one that began anew and counts all of its value as growth. A sum of
several files falls where one of them is gone for a moment (a driver that is loaded again), so that old errors
would raise an alert. So each file's growth is added up here. The sums begin with 0 when a port is seen first.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from .. import atomic_files
from ..facts.link_errors import KINDS, LINK_DOWN
from ..numeric import is_whole
from .catalogue import ERROR_KINDS

SCHEMA = 1
_LARGEST_BYTES = 1 << 22
_FLAP = "flap"


class Rail(NamedTuple):
    """What is kept of a rail.

    Attributes:
        port: its netdev and RDMA port: another one begins with values that say nothing of growth.
        last: the last value of each counter.
        sums: kind -> growth since the rail was first seen.
    """

    port: str
    last: Mapping[str, int]
    sums: Mapping[str, int]


def kind_of(counter: str) -> str | None:
    """Return the value of label `kind` for a counter; None for one that no error is."""
    kind = _FLAP if counter in LINK_DOWN else KINDS.get(counter)
    return kind if kind in ERROR_KINDS else None


def advance(before: Rail | None, port: str, values: Mapping[str, int]) -> Rail:
    """Return a rail with the growth of its counters added.

    Args:
        before: what was kept of the rail; None where nothing was.
        port: its netdev and RDMA port now.
        values: its counters now.
    """
    sums = dict.fromkeys(ERROR_KINDS, 0)
    if before is None:
        return Rail(port, dict(values), sums)
    sums.update(before.sums)
    if before.port != port:
        return Rail(port, dict(values), sums)
    for counter, value in values.items():
        kind, last = kind_of(counter), before.last.get(counter)
        if kind is not None and last is not None:
            # One that is lower began anew.
            sums[kind] += value - last if value >= last else value
    # A counter that is gone may come back.
    return Rail(port, {**before.last, **values}, sums)


def load(path: str) -> dict[str, Rail]:
    """Read what was kept; nothing where there is no such file, or it is damaged: the sums begin anew."""
    try:
        with open(path, "rb") as handle:
            document = json.loads(handle.read(_LARGEST_BYTES))
        if document["schema"] != SCHEMA:
            return {}
        return {str(name): _read(rail) for name, rail in document["rails"].items()}
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return {}


def store(path: str, rails: Mapping[str, Rail]) -> None:
    """Keep the sums, in one step; on a full disk the old ones stay, to which the next write adds."""
    document = {"schema": SCHEMA, "rails": {name: rail._asdict() for name, rail in rails.items()}}
    with contextlib.suppress(OSError):
        atomic_files.write_file(path, json.dumps(document) + "\n", 0o600, (os.geteuid(), os.getegid()))


def _read(rail: Mapping[str, Any]) -> Rail:
    last, sums = dict(rail["last"]), dict(rail["sums"])
    if not all(is_whole(value) for value in (*last.values(), *sums.values())) or set(sums) != set(
        ERROR_KINDS
    ):
        raise ValueError("no counters")
    return Rail(str(rail["port"]), last, sums)
