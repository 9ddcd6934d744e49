# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the bandwidth of collectives at each size: latency limits small sizes, bandwidth large ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.measure.torch_job import OPERATIONS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

_SHOWN = ("pass", "fail", "recorded")
# Curves of one check; more rails look alike.
_MOST = 9


@dataclass(frozen=True)
class Curve:
    """The curve of one job.

    Attributes:
        check: the operation, by its check.
        subject: the rail, or all rails.
        points: (bytes, GB/s on the wire), growing in size.
    """

    check: str
    subject: str
    points: tuple[tuple[float, float], ...]


def ids(measurements: Iterable[Measurement]) -> dict[str, tuple[str, str]]:
    """Return test id -> (check, subject) of the rows with curves, one node each: all nodes saw the same."""
    found: dict[str, tuple[str, str]] = {}
    drawn: Counter[str] = Counter()
    for item in measurements:
        one = (item.check, item.subject)
        shown = item.check in OPERATIONS and item.outcome in _SHOWN and drawn[item.check] < _MOST
        if shown and one not in found.values():
            found[item.id] = one
            drawn[item.check] += 1
    return found


def build_curves(rows: Iterable[Row | None], wanted: Mapping[str, tuple[str, str]]) -> tuple[Curve, ...]:
    """Build the curves of these rows, which the judge has accepted."""
    found = {str(row["id"]): row.get("collective") for row in rows if row is not None}
    curves = []
    for one, (check, subject) in wanted.items():
        collective = found.get(one)
        sizes = collective.get("sizes") if isinstance(collective, Mapping) else None
        points = tuple(
            (float(size["size_bytes"]), float(size["busbw_GBps"]))
            for size in (sizes if isinstance(sizes, list) else ())
            if isinstance(size, Mapping)
            and all(is_number(size.get(key)) for key in ("size_bytes", "busbw_GBps"))
        )
        if len(points) > 1:
            curves.append(Curve(check, subject, points))
    return tuple(curves)
