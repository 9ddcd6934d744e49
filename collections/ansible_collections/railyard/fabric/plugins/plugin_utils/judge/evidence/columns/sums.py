# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum the bandwidth of all rails for many pairs at once. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import aggregate
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    Column,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.views import ColumnEnd


def sum_received(
    ends: Sequence[ColumnEnd], which: Column, at: Column, payload: bool
) -> list[dict[str, float] | None]:
    """Sum the receivers' rows of tests that ran at the same time.

    Args:
        ends: rows of receivers, each of them trusted.
        which: for each pair (first axis) and rail (second), the index of its row's end.
        at: the place of the row in it.
        payload: as in `aggregate.sum_received`.

    Returns:
        For each pair what `aggregate.sum_received` returns; None if the parts cannot be summed.

    Raises:
        RunFolderError: the samples cannot be read, or have changed.
    """
    used = {number: np.nonzero(which == number) for number in np.unique(which).tolist()}
    if not all(ends[number].has_samples for number in used):
        return [None] * len(at)
    pairs, rails = at.shape
    parts = aggregate.Parts.empty(pairs, rails, max(ends[number].sample_count for number in used))
    for number, places in used.items():
        end = ends[number].only(at[places])
        parts.started_s[places] = end.started_s
        parts.begin_s[places], parts.end_s[places] = end.window_s
        parts.claimed_gbps[places] = end.metric("bandwidth_gbps")
        parts.least[places], parts.most[places] = aggregate.find_permitted_overhead(end.kind.counters)
        times, values = end.samples
        count = times.shape[1]
        pair, rail = places
        parts.t_s[pair, rail, :count], parts.rx_bytes[pair, rail, :count] = times, values
        parts.counts[places] = count
    return aggregate.Sums(parts, payload).values()
