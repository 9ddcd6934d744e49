# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sum the bandwidth of all rails: bytes that arrived while every rail was being measured. Pure.

A sum of separate tests may exceed what the node's PCIe slot can carry. Here the receiver's byte counters,
sampled on one clock, are cut to the window that is common to all rails.

The sum for TCP is of frames, as the netdevs count them. The sum for RDMA is of payload, since software RDMA
retransmits a lot: a rail's frames in the common window are scaled by the ratio of the tool's result to the
frames in its own window. The frames are shown beside it.

The sums of many pairs are calculated at once, with arrays; that of one pair is the same calculation.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import LEAST_OVERLAP, MOST_GAP
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Bools, Floats, Ints, np
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


class Parts(NamedTuple):
    """Receivers' results of tests that ran at the same time: for each sum (first axis) its rails (second).

    Attributes:
        started_s: when the tests were started, in seconds since the epoch; other times are relative to it.
        begin_s, end_s: their windows.
        claimed_gbps: bandwidth by the tools.
        least, most: permitted ratio of the counters' rates to it.
        t_s, rx_bytes: samples of the counters (third axis); infinite after the last one.
        counts: numbers of samples, two or more.
    """

    started_s: Floats
    begin_s: Floats
    end_s: Floats
    claimed_gbps: Floats
    least: Floats
    most: Floats
    t_s: Floats
    rx_bytes: Floats
    counts: Ints

    @classmethod
    def empty(cls, sums: int, rails: int, samples: int) -> Parts:
        """Return parts to be filled in, with at most so many samples."""
        shape = sums, rails
        started, begin, end, claimed, least, most = (np.empty(shape) for _column in range(6))
        times, sampled = (np.full((*shape, samples), np.inf) for _column in range(2))
        return cls(started, begin, end, claimed, least, most, times, sampled, np.empty(shape, dtype=np.int64))


class Sums:
    """Sums of parts.

    Args:
        parts: what is summed.
        payload: sum payload (RDMA) and not frames (TCP).
    """

    def __init__(self, parts: Parts, payload: bool) -> None:
        self._parts, self._payload = parts, payload
        # Missing samples give values that are no numbers. These compare as false, which is intended.
        with np.errstate(all="ignore"):
            self._calculate()

    def _calculate(self) -> None:
        parts = self._parts
        self._are_garbled = ~_increase(parts.t_s, parts.rx_bytes)
        self._windows = parts.started_s + parts.begin_s, parts.started_s + parts.end_s
        last_s = np.take_along_axis(parts.t_s, parts.counts[..., np.newaxis] - 1, axis=2)
        self._last_s = last_s[..., 0]
        covers = parts.started_s + parts.t_s[..., 0], parts.started_s + self._last_s
        common = self._windows[0].max(axis=1), self._windows[1].min(axis=1)
        self._overlap = (common[1] - common[0]) / (self._windows[1] - self._windows[0]).max(axis=1)
        # Samples have separate grids: sum over the part of the common window that all of them cover.
        begin, end = (
            np.maximum(common[0], covers[0].max(axis=1)),
            np.minimum(common[1], covers[1].min(axis=1)),
        )
        self._window_s = end - begin
        self._are_covered = self._window_s >= LEAST_COVERED * (common[1] - common[0])
        self._have_gaps = np.zeros(parts.counts.shape, dtype=bool)
        self._rates = self._rates_gbps(begin[:, np.newaxis], end[:, np.newaxis])
        self._agree = (parts.claimed_gbps * parts.least <= self._rates) & (
            self._rates <= parts.claimed_gbps * parts.most
        )
        self._shares = self._rates
        if self._payload:
            # The rate in the part of a test's own window that its samples cover. A rate below the claimed one
            # would scale payload above the claim.
            own = self._rates_gbps(
                np.maximum(self._windows[0], covers[0]), np.minimum(self._windows[1], covers[1])
            )
            self._shares = self._rates * parts.claimed_gbps / np.maximum(own, parts.claimed_gbps)

    def _rates_gbps(self, begin: Floats, end: Floats) -> Floats:
        """Return the rates of frames between two moments."""
        return (self._bytes_at(end) - self._bytes_at(begin)) * 8 / 1e9 / (end - begin)

    def _bytes_at(self, when: Floats) -> Floats:
        """Return the counters at a time, by linear interpolation; gaps that are too long are noted."""
        parts = self._parts
        # Seconds since the epoch lose precision as a float: clamp, so that rounding never leaves the range.
        at = np.minimum(np.maximum(when - parts.started_s, parts.t_s[..., 0]), self._last_s)
        index = np.maximum((parts.t_s < at[..., np.newaxis]).sum(axis=2), 1)[..., np.newaxis]
        (early_s, late_s), (early, late) = (
            [np.take_along_axis(column, one, axis=2)[..., 0] for one in (index - 1, index)]
            for column in (parts.t_s, parts.rx_bytes)
        )
        self._have_gaps |= ~(late_s - early_s <= MOST_GAP * (parts.end_s - parts.begin_s))
        return np.asarray(early + (at - early_s) / (late_s - early_s) * (late - early))

    def values(self) -> list[dict[str, float] | None]:
        """Return each sum, None if its parts cannot be summed.

        Returns:
            `bandwidth_gbps`, `overlap_percent`, `window_s` (length), for payload also `frames_gbps`.
        """
        wrong = self._are_garbled | self._have_gaps | ~self._agree
        good = (self._overlap >= LEAST_OVERLAP) & self._are_covered & ~wrong.any(axis=1)
        total, frames = (sum(column.T, np.zeros(len(good))) for column in (self._shares, self._rates))
        columns = (one.tolist() for one in (good, total, frames, self._overlap, self._window_s))
        return [
            {
                "bandwidth_gbps": round(gbps, 4),
                **({"frames_gbps": round(frames_gbps, 4)} if self._payload else {}),
                "overlap_percent": round(share * 100, 1),
                "window_s": round(lasted_s, 3),
            }
            if is_good
            else None
            for is_good, gbps, frames_gbps, share, lasted_s in zip(*columns, strict=True)
        ]

    def explain(self, servers: Sequence[PairRow]) -> NotSummable:
        """Return why the parts of the first sum cannot be summed.

        Args:
            servers: their rows.
        """
        overlap = self._overlap.item(0)
        if not overlap >= LEAST_OVERLAP:
            apart = f"only {max(overlap, 0) * 100:.0f} % of the window is common to all rails"
            return NotSummable("windows_apart", f"{apart} ({self._describe_late_rails(servers)})")
        for row, is_garbled in zip(servers, self._are_garbled[0], strict=True):
            if is_garbled:
                return NotSummable("row_garbled", f"{row['rail']}: the counter samples decrease")
        if not self._are_covered[0]:
            return NotSummable("samples_sparse", "the counter samples do not cover the common window")
        each = zip(servers, self._have_gaps[0], self._agree[0], self._rates[0].tolist(), strict=True)
        row, has_gaps, _agrees, gbps = next(one for one in each if one[1] or not one[2])
        if has_gaps:
            return _not_covered(row)
        claimed = f"{row['tool']} reports {row['metrics']['bandwidth_gbps']:g} Gbit/s"
        return NotSummable("ends_disagree", f"{row['rail']}: {claimed}, the rail's counter {gbps:.4g}")

    def _describe_late_rails(self, servers: Sequence[PairRow]) -> str:
        """Return which rail's window began last and which ended first, as text."""
        rails = [row["rail"] for row in servers]
        begins, ends = (side[0].tolist() for side in self._windows)
        late, early = begins.index(max(begins)), ends.index(min(ends))
        return (
            f"{rails[late]} began {begins[late] - min(begins):.2f} s after the first, "
            f"{rails[early]} ended {max(ends) - ends[early]:.2f} s before the last"
        )


def sum_received(servers: Sequence[PairRow], payload: bool = False) -> dict[str, float]:
    """Sum the receivers' rows of tests that ran at the same time.

    Args:
        servers: the server rows, one per rail, all from one host, each measured and proven.
        payload: as for `Sums`.

    Returns:
        The values of `Sums`.

    Raises:
        NotSummable: the windows differ too much, or the samples do not cover them or contradict the tool.
    """
    if not servers:
        raise NotSummable("part_unmeasured", "the sum has no parts")
    samples = [_read_samples(row) for row in servers]
    parts = Parts.empty(1, len(servers), max(len(times) for times, _bytes in samples))
    for number, (row, (times, values)) in enumerate(zip(servers, samples, strict=True)):
        window, started_s = row_numbers.read_window_s(row), row_numbers.parse_time(row["started"])
        if window is None or started_s is None:
            raise NotSummable("row_garbled", f"{row['rail']}: no window")
        overhead = find_permitted_overhead(row["counters"] or ())
        numbers = started_s, *window, row_numbers.read_metrics(row)["bandwidth_gbps"], *overhead
        for column, value in zip(parts, numbers, strict=False):
            column[0, number] = value
        count = len(times)
        parts.t_s[0, number, :count], parts.rx_bytes[0, number, :count] = times, values
        parts.counts[0, number] = count
    sums = Sums(parts, payload)
    found = sums.values()[0]
    if found is None:
        raise sums.explain(servers)
    return found


def find_received_gbps(row: PairRow) -> float:
    """Return the rate of frames that arrived in a test's own window, from the samples in it.

    Raises:
        NotSummable: the row has no samples, or too few of them.
    """
    times, values = _read_samples(row)
    if not _increase(times, values):
        raise NotSummable("row_garbled", f"{row['rail']}: the counter samples decrease")
    begin, end = row_numbers.read_window_s(row) or (0.0, 0.0)
    inside = np.flatnonzero((begin <= times) & (times <= end))
    if len(inside) < 2 or times[inside[-1]] - times[inside[0]] < LEAST_SEEN * (end - begin):
        raise _not_covered(row)
    first, last = inside[0], inside[-1]
    return float((values[last] - values[first]) * 8 / 1e9 / (times[last] - times[first]))


def find_permitted_overhead(counters: Collection[str]) -> tuple[float, float]:
    """Return the permitted ratio of the counter's rate to the claim: minimum and maximum.

    Args:
        counters: names of the rail's counters.
    """
    return (LEAST_WAVERING, MOST_RESENT) if _RESENDS in counters else (LEAST_OVERHEAD, MOST_OVERHEAD)


def _not_covered(row: PairRow) -> NotSummable:
    return NotSummable("samples_sparse", f"{row['rail']}: the counter samples do not cover the window")


def _read_samples(row: PairRow) -> tuple[Floats, Floats]:
    samples, rail = row.get("samples"), row["rail"]
    if samples is None:
        raise NotSummable("row_garbled", f"{rail}: no counter samples")
    times, values = samples["t_s"], samples["rx_bytes"]
    if not 2 <= len(times) == len(values):
        raise NotSummable(
            "row_garbled", f"{rail}: {len(times)} times and {len(values)} values of counter samples"
        )
    return np.array(times, dtype=np.float64), np.array(values, dtype=np.float64)


def _increase(times: Floats, values: Floats) -> Bools:
    """Tell whether times increase and values do not decrease (last axis); the rest is infinite."""
    return np.asarray(~((np.diff(times) <= 0) | (np.diff(values) < 0)).any(axis=-1))
