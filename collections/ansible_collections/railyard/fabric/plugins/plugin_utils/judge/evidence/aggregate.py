# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all rails carried together: bytes that arrived while every rail was being measured. Pure.

Adding up numbers of separate runs gives sums that the node's PCIe slot may never carry. Here the receiver's
own byte counters, sampled on one clock, are cut to the window that is common to all rails.

TCP's sum is of frames, as the netdevs count them. RDMA's is of payload: software RDMA sends much again, and
what was sent again is no bandwidth. So a rail's frames in the common window are taken for payload by the
share that the tool's claim has of the frames in its own window; the frames are shown beside it.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from itertools import pairwise

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OVERLAP, MOST_GAP
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers

#: Least share of the common window that the counter samples must cover.
LEAST_COVERED = 0.75
#: The same of a test's own window, where a rate is asked and not the bytes of a moment.
LEAST_SEEN = 0.5
#: The counters see headers and acknowledgements that the tool does not, up to the proof's own factor;
#: Soft-RoCE sends again what was only late.
MOST_OVERHEAD = rdma_counters.NETDEV.bytes_factor
MOST_RESENT = rdma_counters.SOFT_ROCE.bytes_factor
#: A row that counts these packets is of such a driver.
_RESENDS = rdma_counters.SOFT_ROCE.packets[1]
LEAST_OVERHEAD = 0.90
#: perftest does not say when its window was, and an emulated processor's rate wavers: a counter 11 % below
#: the claim was seen. What is added up is the lower of the two, so it never grows by this.
LEAST_WAVERING = 0.60


class NotAdded(ValueError):  # noqa: N818 - it says what happened; nothing is in error
    """The parts cannot be added up.

    Attributes:
        cause: id in the cause table.
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


def add_up(servers: Sequence[PairRow], payload: bool = False) -> dict[str, float]:
    """Add up the receivers' rows of tests that ran at once.

    Args:
        servers: the server rows, one for each rail, all written by one host, each measured and proven.
        payload: count payload (RDMA) and not frames (TCP).

    Returns:
        `bandwidth_gbps`, `overlap_percent`, `window_s` (its length), with payload also `frames_gbps`.

    Raises:
        NotAdded: the windows differ too much, or the samples do not cover them or contradict the tool.
    """
    if not servers:
        raise NotAdded("part_unmeasured", "it has no parts")
    windows = [_absolute_window(row) for row in servers]
    longest = max(last - first for first, last in windows)
    common = max(first for first, _last in windows), min(last for _first, last in windows)
    overlap = (common[1] - common[0]) / longest
    if overlap < LEAST_OVERLAP:
        apart = f"only {max(overlap, 0) * 100:.0f} % of the time is common to all rails"
        raise NotAdded("windows_apart", f"{apart} ({_who_was_late(servers, windows)})")
    # The samples stand on a grid of their own: add up over the part of the common window that all cover.
    each = [_Samples(row) for row in servers]
    covered = [common, *(one.covers for one in each)]
    begin, end = max(first for first, _last in covered), min(last for _first, last in covered)
    if end - begin < LEAST_COVERED * (common[1] - common[0]):
        raise NotAdded("samples_sparse", "the counter samples do not cover the common window")
    total = frames = 0.0
    for row, samples, window in zip(servers, each, windows, strict=True):
        rate = samples.rate_gbps(begin, end)
        said = row_numbers.numbers_of(row)["bandwidth_gbps"]
        least, most = _overhead(row)
        if not said * least <= rate <= said * most:
            raise NotAdded(
                "ends_disagree",
                f"{row['rail']}: {row['tool']} says {said:g} Gbit/s, the rail's counter {rate:.4g}",
            )
        frames += rate
        total += rate * said / _own_rate_gbps(row, samples, window) if payload else rate
    return {
        "bandwidth_gbps": round(total, 4),
        **({"frames_gbps": round(frames, 4)} if payload else {}),
        "overlap_percent": round(overlap * 100, 1),
        "window_s": round(end - begin, 3),
    }


def received_gbps(row: PairRow) -> float:
    """Return the rate of frames that arrived in a test's own window, by the samples that lie in it.

    Raises:
        NotAdded: the row has no samples, or too few of them.
    """
    times, values = _samples(row)
    begin, end = row_numbers.window_s(row) or (0.0, 0.0)
    inside = [(at, value) for at, value in zip(times, values, strict=True) if begin <= at <= end]
    if not inside or inside[-1][0] - inside[0][0] < LEAST_SEEN * (end - begin):
        raise NotAdded("samples_sparse", f"{row['rail']}: the counter samples do not cover the window")
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return (last - first) * 8 / 1e9 / (last_s - first_s)


def _who_was_late(servers: Sequence[PairRow], windows: Sequence[tuple[float, float]]) -> str:
    """Return which rail's window began last, and which ended first: one of the two is the reason."""
    rails = [row["rail"] for row in servers]
    begins, ends = ([window[side] for window in windows] for side in (0, 1))
    late, early = begins.index(max(begins)), ends.index(min(ends))
    return (
        f"{rails[late]} began {begins[late] - min(begins):.2f} s after the first, "
        f"{rails[early]} ended {max(ends) - ends[early]:.2f} s before the last"
    )


class _Samples:
    """A receiver's byte counter over the time of its test.

    Attributes:
        covers: from when to when, in seconds since the epoch.

    Raises:
        NotAdded: they are missing or garbled.
    """

    def __init__(self, row: PairRow) -> None:
        self._times, self._values = _samples(row)
        self._rail, self._started_s = row["rail"], row_numbers.moment(row["started"]) or 0.0
        begin, end = row_numbers.window_s(row) or (0.0, 0.0)
        self._most_gap_s = MOST_GAP * (end - begin)
        self.covers = self._started_s + self._times[0], self._started_s + self._times[-1]

    def rate_gbps(self, begin: float, end: float) -> float:
        """Return the rate of frames between two moments.

        Raises:
            NotAdded: the samples do not cover them.
        """
        return (self._bytes_at(end) - self._bytes_at(begin)) * 8 / 1e9 / (end - begin)

    def _bytes_at(self, when: float) -> float:
        """Return the counter at a moment, between two samples by a straight line."""
        times, values = self._times, self._values
        # Back from the epoch's seconds, which a float holds to a microsecond: never outside by that rounding
        # alone.
        at = min(max(when - self._started_s, times[0]), times[-1])
        index = max(bisect.bisect_left(times, at), 1)
        if times[index] - times[index - 1] > self._most_gap_s:
            raise NotAdded("samples_sparse", f"{self._rail}: the counter samples do not cover the window")
        share = (at - times[index - 1]) / (times[index] - times[index - 1])
        return values[index - 1] + share * (values[index] - values[index - 1])


def _own_rate_gbps(row: PairRow, samples: _Samples, window: tuple[float, float]) -> float:
    """Return the rate of frames in the part of the test's own window that its samples cover.

    It is at least the claim: where the ends of an interval are cut so that it seems less, payload would be
    more than was claimed.
    """
    begin, end = max(window[0], samples.covers[0]), min(window[1], samples.covers[1])
    return max(samples.rate_gbps(begin, end), row_numbers.numbers_of(row)["bandwidth_gbps"])


def _overhead(row: PairRow) -> tuple[float, float]:
    """Return between which multiples of the claim the counter's rate may lie."""
    software = _RESENDS in (row["counters"] or {})
    return (LEAST_WAVERING, MOST_RESENT) if software else (LEAST_OVERHEAD, MOST_OVERHEAD)


def _absolute_window(row: PairRow) -> tuple[float, float]:
    window, started = row_numbers.window_s(row), row_numbers.moment(row["started"])
    if window is None or started is None:
        raise NotAdded("row_garbled", f"{row['rail']}: no window")
    return started + window[0], started + window[1]


def _samples(row: PairRow) -> tuple[list[float], list[float]]:
    samples, rail = row.get("samples"), row["rail"]
    if samples is None:
        raise NotAdded("row_garbled", f"{rail}: no counter samples")
    times, values = samples["t_s"], samples["rx_bytes"]
    if not 2 <= len(times) == len(values):
        raise NotAdded(
            "row_garbled", f"{rail}: {len(times)} times and {len(values)} values of counter samples"
        )
    if any(later <= earlier for earlier, later in pairwise(times)) or any(
        later < earlier for earlier, later in pairwise(values)
    ):
        raise NotAdded("row_garbled", f"{rail}: the counter samples run backwards")
    return [float(value) for value in times], [float(value) for value in values]
