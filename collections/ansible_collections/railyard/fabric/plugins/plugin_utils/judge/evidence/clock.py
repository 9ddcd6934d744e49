# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Was a row written while its run was made? By the node's own clock, not the controller's. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: How far a clock may be set while a run is made: a node's first look at NTP, or summer time done wrong.
SET_S = 4000.0


class Clock:
    """When the rows of each node may have been written.

    Args:
        manifest: the run's, with its start and end.
        collected: node -> when it was inspected, by its own clock, as its facts say.
    """

    def __init__(self, manifest: Row, collected: Mapping[str, object]) -> None:
        begin, end = (at(manifest.get(key)) for key in ("start", "end"))
        self._begin_s = begin
        # The controller's clock may have been set back meanwhile.
        self._lasted_s = max(end - begin, 0.0) if begin is not None and end is not None else math.inf
        #: No window of a row ends later after its start.
        self.longest_s = self._lasted_s + SET_S
        self._inspected_s = {node: row_numbers.moment(told) for node, told in collected.items()}

    def outside(self, host: str, row: Row) -> str | None:
        """Tell that a row was not written by its node during the run, or None."""
        started, window = row_numbers.moment(row.get("started")), row_numbers.window_s(row)
        if started is None:
            return f"started is {row.get('started')!r}, no time"
        if not self.covers(host, started):
            return f"it was written at {row.get('started')}, not while the run was made"
        if window is not None and window[1] > self.longest_s:
            return f"it lasted {window[1]:g} s, the whole run {self._lasted_s:g} s"
        return None

    def covers(self, host: str, moment_s: float) -> bool:
        """Tell whether a moment by a node's clock lies within the run."""
        span_s = self.span_s(host)
        return span_s is not None and span_s[0] <= moment_s <= span_s[1]

    def span_s(self, host: str) -> tuple[float, float] | None:
        """Return the first and the last moment of the run by a node's clock, None where nothing tells."""
        base_s = self._inspected_s.get(host) or self._begin_s
        return None if base_s is None else (base_s - SET_S, base_s + self.longest_s)


def at(record: object) -> float | None:
    """Return when a run began or ended, by its manifest's record of it, or None."""
    return row_numbers.moment(record.get("at")) if isinstance(record, Mapping) else None
