# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum the bandwidth of all rails for many pairs at once: `evidence/aggregate` with arrays. Pure.

It has the numbers of the same calculation for one pair, bit by bit: the order of operations is the same. What
is not clearly right is left to that one, which says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OVERLAP, MOST_GAP
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
        For each pair what `aggregate.sum_received` returns; None if that has to decide.

    Raises:
        RunFolderError: the samples cannot be read, or have changed.
    """
    used = {number: np.nonzero(which == number) for number in np.unique(which).tolist()}
    if not all(ends[number].has_samples for number in used):
        return [None] * len(at)
    size = max(ends[number].sample_count for number in used)
    begun, first, last, claimed, least, most = (np.empty(at.shape) for _each in range(6))
    times, values = np.full((*at.shape, size), np.inf), np.zeros((*at.shape, size))
    count = np.empty(at.shape, dtype=np.int64)
    for number, places in used.items():
        end = ends[number].only(at[places])
        begun[places] = end.started_s
        first[places], last[places] = end.window_s
        claimed[places] = end.metric("bandwidth_gbps")
        least[places], most[places] = aggregate.find_permitted_overhead(end.kind.counters)
        seen_s, seen = end.samples
        count[places] = seen_s.shape[1]
        pair, rail = places
        times[pair, rail, : seen_s.shape[1]], values[pair, rail, : seen.shape[1]] = seen_s, seen
    good = np.ones(len(at), dtype=bool)
    inside = np.arange(1, size) < count[..., np.newaxis]
    steps_s, steps = (column[..., 1:] - column[..., :-1] for column in (times, values))
    good &= ((steps_s > 0) & (steps >= 0) | ~inside).all(axis=(1, 2)) & (count >= 2).all(axis=1)
    windows = begun + first, begun + last
    ends_s = np.take_along_axis(times, count[..., np.newaxis] - 1, axis=2)[..., 0]
    covers = begun + times[..., 0], begun + ends_s
    common = windows[0].max(axis=1), windows[1].min(axis=1)
    overlap = (common[1] - common[0]) / (windows[1] - windows[0]).max(axis=1)
    begin, end_s = np.maximum(common[0], covers[0].max(axis=1)), np.minimum(common[1], covers[1].min(axis=1))
    good &= (overlap >= LEAST_OVERLAP) & (end_s - begin >= aggregate.LEAST_COVERED * (common[1] - common[0]))
    whole = np.ones(at.shape, dtype=bool)

    def bytes_at(when: Column) -> Column:
        """Return the counters at a time, by linear interpolation."""
        moment = np.minimum(np.maximum(when - begun, times[..., 0]), ends_s)
        index = np.maximum((times < moment[..., np.newaxis]).sum(axis=2), 1)[..., np.newaxis]
        early_s, late_s = (np.take_along_axis(times, one, axis=2)[..., 0] for one in (index - 1, index))
        early, late = (np.take_along_axis(values, one, axis=2)[..., 0] for one in (index - 1, index))
        nonlocal whole
        whole &= late_s - early_s <= MOST_GAP * (last - first)
        return early + (moment - early_s) / (late_s - early_s) * (late - early)

    def rate_gbps(since: Column, until: Column) -> Column:
        return (bytes_at(until) - bytes_at(since)) * 8 / 1e9 / (until - since)

    rates = rate_gbps(begin[:, np.newaxis], end_s[:, np.newaxis])
    good &= ((claimed * least <= rates) & (rates <= claimed * most)).all(axis=1)
    own = (
        rate_gbps(np.maximum(windows[0], covers[0]), np.minimum(windows[1], covers[1])) if payload else rates
    )
    shares = rates * claimed / np.maximum(own, claimed) if payload else rates
    good &= whole.all(axis=1)
    total, frames = (sum(column.T, np.zeros(len(at))) for column in (shares, rates))
    columns = (one.tolist() for one in (good, total, frames, overlap, end_s - begin))
    return [
        {
            "bandwidth_gbps": round(gbps, 4),
            **({"frames_gbps": round(frames_gbps, 4)} if payload else {}),
            "overlap_percent": round(share * 100, 1),
            "window_s": round(lasted_s, 3),
        }
        if is_good
        else None
        for is_good, gbps, frames_gbps, share, lasted_s in zip(*columns, strict=True)
    ]
