# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum the bandwidth of all rails: bytes that arrived while every rail was being measured. Pure.

A sum of separate tests may exceed what the node's PCIe slot can carry. Here the receiver's byte counters,
sampled on one clock, are cut to the window that is common to all rails.

The sum for TCP is of frames, as the netdevs count them. The sum for RDMA is of payload, since software RDMA
retransmits a lot: a rail's frames in the common window are scaled by the ratio of the tool's result to the
frames in its own window. The frames are shown beside it.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Sequence
from itertools import pairwise

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OVERLAP, MOST_GAP
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers

#: Minimum share of the common window that the counter samples must cover.
LEAST_COVERED = 0.75
#: The same for a test's own window, where only a rate is needed.
LEAST_SEEN = 0.5
#: The counters include headers and acknowledgements that the tool does not count, up to the proof's factor;
#: Soft-RoCE also retransmits packets that were only late.
MOST_OVERHEAD = rdma_counters.NETDEV.bytes_factor
MOST_RESENT = rdma_counters.SOFT_ROCE.bytes_factor
#: A row with this counter is of such a driver.
_RESENDS = rdma_counters.SOFT_ROCE.packets[1]
LEAST_OVERHEAD = 0.90
#: perftest does not report when its window was, and an emulated processor's rate varies: a counter 11 % below
#: the claim was seen. The lower of the two is summed, so this tolerance never increases the sum.
LEAST_WAVERING = 0.60


class NotSummable(ValueError):  # noqa: N818 - a result, not an error
    """The parts cannot be summed.

    Attributes:
        cause: id in the cause table.
    """

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause


def sum_received(servers: Sequence[PairRow], payload: bool = False) -> dict[str, float]:
    """Sum the receivers' rows of tests that ran at the same time.

    Args:
        servers: the server rows, one per rail, all from one host, each measured and proven.
        payload: sum payload (RDMA) and not frames (TCP).

    Returns:
        `bandwidth_gbps`, `overlap_percent`, `window_s` (length), for payload also `frames_gbps`.

    Raises:
        NotAdded: the windows differ too much, or the samples do not cover them or contradict the tool.
    """
    if not servers:
        raise NotSummable("part_unmeasured", "the sum has no parts")
    windows = [_find_absolute_window(row) for row in servers]
    longest = max(last - first for first, last in windows)
    common = max(first for first, _last in windows), min(last for _first, last in windows)
    overlap = (common[1] - common[0]) / longest
    if overlap < LEAST_OVERLAP:
        apart = f"only {max(overlap, 0) * 100:.0f} % of the window is common to all rails"
        raise NotSummable("windows_apart", f"{apart} ({_describe_late_rails(servers, windows)})")
    # Samples have separate grids: sum over the part of the common window that all of them cover.
    each = [_Samples(row) for row in servers]
    covered = [common, *(one.covers for one in each)]
    begin, end = max(first for first, _last in covered), min(last for _first, last in covered)
    if end - begin < LEAST_COVERED * (common[1] - common[0]):
        raise NotSummable("samples_sparse", "the counter samples do not cover the common window")
    total = frames = 0.0
    for row, samples, window in zip(servers, each, windows, strict=True):
        rate = samples.rate_gbps(begin, end)
        claimed = row_numbers.read_metrics(row)["bandwidth_gbps"]
        least, most = find_permitted_overhead(row["counters"] or ())
        if not claimed * least <= rate <= claimed * most:
            raise NotSummable(
                "ends_disagree",
                f"{row['rail']}: {row['tool']} reports {claimed:g} Gbit/s, the rail's counter {rate:.4g}",
            )
        frames += rate
        total += rate * claimed / _find_own_rate_gbps(row, samples, window) if payload else rate
    return {
        "bandwidth_gbps": round(total, 4),
        **({"frames_gbps": round(frames, 4)} if payload else {}),
        "overlap_percent": round(overlap * 100, 1),
        "window_s": round(end - begin, 3),
    }


def find_received_gbps(row: PairRow) -> float:
    """Return the rate of frames that arrived in a test's own window, from the samples in it.

    Raises:
        NotAdded: the row has no samples, or too few of them.
    """
    times, values = _read_samples(row)
    begin, end = row_numbers.read_window_s(row) or (0.0, 0.0)
    inside = [(at, value) for at, value in zip(times, values, strict=True) if begin <= at <= end]
    if not inside or inside[-1][0] - inside[0][0] < LEAST_SEEN * (end - begin):
        raise NotSummable("samples_sparse", f"{row['rail']}: the counter samples do not cover the window")
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    return (last - first) * 8 / 1e9 / (last_s - first_s)


def _describe_late_rails(servers: Sequence[PairRow], windows: Sequence[tuple[float, float]]) -> str:
    """Return which rail's window began last and which ended first, as text."""
    rails = [row["rail"] for row in servers]
    begins, ends = ([window[side] for window in windows] for side in (0, 1))
    late, early = begins.index(max(begins)), ends.index(min(ends))
    return (
        f"{rails[late]} began {begins[late] - min(begins):.2f} s after the first, "
        f"{rails[early]} ended {max(ends) - ends[early]:.2f} s before the last"
    )


class _Samples:
    """A receiver's byte counter during its test.

    Attributes:
        covers: first and last sample, in seconds since the epoch.

    Raises:
        NotAdded: they are missing or garbled.
    """

    def __init__(self, row: PairRow) -> None:
        self._times, self._values = _read_samples(row)
        self._rail, self._started_s = row["rail"], row_numbers.parse_time(row["started"]) or 0.0
        begin, end = row_numbers.read_window_s(row) or (0.0, 0.0)
        self._most_gap_s = MOST_GAP * (end - begin)
        self.covers = self._started_s + self._times[0], self._started_s + self._times[-1]

    def rate_gbps(self, begin: float, end: float) -> float:
        """Return the rate of frames between two moments.

        Raises:
            NotAdded: the samples do not cover them.
        """
        return (self._bytes_at(end) - self._bytes_at(begin)) * 8 / 1e9 / (end - begin)

    def _bytes_at(self, when: float) -> float:
        """Return the counter at a time, by linear interpolation."""
        times, values = self._times, self._values
        # Seconds since the epoch lose precision as a float: clamp, so that rounding never leaves the range.
        at = min(max(when - self._started_s, times[0]), times[-1])
        index = max(bisect.bisect_left(times, at), 1)
        if times[index] - times[index - 1] > self._most_gap_s:
            raise NotSummable("samples_sparse", f"{self._rail}: the counter samples do not cover the window")
        share = (at - times[index - 1]) / (times[index] - times[index - 1])
        return values[index - 1] + share * (values[index] - values[index - 1])


def _find_own_rate_gbps(row: PairRow, samples: _Samples, window: tuple[float, float]) -> float:
    """Return the rate of frames in the part of the test's own window that its samples cover.

    It is at least the claimed rate: a lower rate would scale payload above the claim.
    """
    begin, end = max(window[0], samples.covers[0]), min(window[1], samples.covers[1])
    return max(samples.rate_gbps(begin, end), row_numbers.read_metrics(row)["bandwidth_gbps"])


def find_permitted_overhead(counters: Collection[str]) -> tuple[float, float]:
    """Return the permitted ratio of the counter's rate to the claim: minimum and maximum.

    Args:
        counters: names of the rail's counters.
    """
    return (LEAST_WAVERING, MOST_RESENT) if _RESENDS in counters else (LEAST_OVERHEAD, MOST_OVERHEAD)


def _find_absolute_window(row: PairRow) -> tuple[float, float]:
    window, started = row_numbers.read_window_s(row), row_numbers.parse_time(row["started"])
    if window is None or started is None:
        raise NotSummable("row_garbled", f"{row['rail']}: no window")
    return started + window[0], started + window[1]


def _read_samples(row: PairRow) -> tuple[list[float], list[float]]:
    samples, rail = row.get("samples"), row["rail"]
    if samples is None:
        raise NotSummable("row_garbled", f"{rail}: no counter samples")
    times, values = samples["t_s"], samples["rx_bytes"]
    if not 2 <= len(times) == len(values):
        raise NotSummable(
            "row_garbled", f"{rail}: {len(times)} times and {len(values)} values of counter samples"
        )
    if any(later <= earlier for earlier, later in pairwise(times)) or any(
        later < earlier for earlier, later in pairwise(values)
    ):
        raise NotSummable("row_garbled", f"{rail}: the counter samples decrease")
    return [float(value) for value in times], [float(value) for value in values]
