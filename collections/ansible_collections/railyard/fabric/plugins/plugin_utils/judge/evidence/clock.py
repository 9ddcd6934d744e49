# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that a row was written during its run, by the node's clock and not the controller's. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Permitted clock adjustment during a run: a node's first NTP synchronization, or wrong daylight saving time.
SET_S = 4000.0


class Clock:
    """The time span in which the rows of each node may have been written.

    Args:
        manifest: the run's, with its start and end.
        collected: node -> time of inspection, by its clock, from its facts.
    """

    def __init__(self, manifest: Row, collected: Mapping[str, object]) -> None:
        begin, end = (parse_moment(manifest.get(key)) for key in ("start", "end"))
        self._begin_s = begin
        # The controller's clock may have been set back during the run.
        self._lasted_s = max(end - begin, 0.0) if begin is not None and end is not None else math.inf
        #: Maximum end of a row's window, after the row's start.
        self.longest_s = self._lasted_s + SET_S
        self._inspected_s = {node: row_numbers.parse_time(at) for node, at in collected.items()}

    def explain_outside(self, host: str, row: Row) -> str | None:
        """Return why a row was not written by its node during the run, or None."""
        started, window = row_numbers.parse_time(row.get("started")), row_numbers.read_window_s(row)
        if started is None:
            return f"started is {row.get('started')!r}, which is not a time"
        if not self.covers(host, started):
            return f"it was written at {row.get('started')}, not during the run"
        if window is not None and window[1] > self.longest_s:
            return f"it lasted {window[1]:g} s, the complete run {self._lasted_s:g} s"
        return None

    def covers(self, host: str, moment_s: float) -> bool:
        """Tell whether a time by a node's clock is within the run."""
        span_s = self.span_s(host)
        return span_s is not None and span_s[0] <= moment_s <= span_s[1]

    def span_s(self, host: str) -> tuple[float, float] | None:
        """Return the start and the end of the run by a node's clock, None if unknown."""
        base_s = self._inspected_s.get(host) or self._begin_s
        return None if base_s is None else (base_s - SET_S, base_s + self.longest_s)


def parse_moment(record: object) -> float | None:
    """Return the time in a manifest's start or end record, or None."""
    return row_numbers.parse_time(record.get("at")) if isinstance(record, Mapping) else None
