# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an all-reduce reached at each size: small ones wait for the way, large ones fill it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement

CHECK = "collective_allreduce"
_SHOWN = ("pass", "fail", "recorded")
# More rails than that look alike.
_MOST = 9


@dataclass(frozen=True)
class Curve:
    """One job.

    Attributes:
        subject: the rail, or all rails.
        points: (bytes, GB/s on the wire), growing in size.
    """

    subject: str
    points: tuple[tuple[float, float], ...]


def ids(measurements: Iterable[Measurement]) -> dict[str, str]:
    """Return whose rows have the curves: question -> subject, a node's for each, since all saw the same."""
    found: dict[str, str] = {}
    for item in measurements:
        if item.check == CHECK and item.outcome in _SHOWN and item.subject not in found.values():
            found[item.id] = item.subject
    return found


def of(rows: Iterable[Mapping[str, Any] | None], wanted: Mapping[str, str]) -> tuple[Curve, ...]:
    """Return the curves of these rows, which were believed when they were judged."""
    found = {str(row["id"]): row.get("collective") for row in rows if row is not None}
    curves = []
    for one, subject in list(wanted.items())[:_MOST]:
        said = found.get(one)
        sizes = said.get("sizes") if isinstance(said, Mapping) else None
        points = tuple(
            (float(size["size_bytes"]), float(size["busbw_GBps"]))
            for size in (sizes if isinstance(sizes, list) else ())
            if isinstance(size, Mapping)
            and all(is_number(size.get(key)) for key in ("size_bytes", "busbw_GBps"))
        )
        if len(points) > 1:
            curves.append(Curve(subject, points))
    return tuple(curves)
