# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates over the time that is common to all rails are added up; what did not run at one time is not."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import aggregate


def server(rail: str, begin_s: float, end_s: float) -> Any:
    """Return as much of a row as is read here."""
    times = {"started": "2026-11-21T10:15:03.000Z", "window_s": [begin_s, end_s]}
    return {"rail": rail, "tool": "iperf3", "counters": {}, **times}


@pytest.mark.parametrize(
    ("windows", "says"),
    [
        # The windows that were seen on emulated nodes.
        (
            [(1.564, 4.628), (2.082, 5.137)],
            "only 83 % of the window is common to all rails "
            "(rail1 began 0.52 s after the first, rail0 ended 0.51 s before the last)",
        ),
        (
            [(1.0, 4.0), (1.0, 2.0)],
            "only 33 % of the window is common to all rails "
            "(rail0 began 0.00 s after the first, rail1 ended 2.00 s before the last)",
        ),
    ],
)
def test_who_was_late_is_named(windows: list[tuple[float, float]], says: str) -> None:
    rows = [
        {**sampled(list(window)), **server(f"rail{number}", *window)} for number, window in enumerate(windows)
    ]
    with pytest.raises(aggregate.NotSummable) as refused:
        aggregate.sum_received(rows)
    assert (refused.value.cause, str(refused.value)) == ("windows_apart", says)


def test_counters_that_a_busy_node_read_too_rarely_are_no_garbled_row() -> None:
    times = [1.0, 1.2, 2.4, 2.6, 2.8, 3.0, 5.0]  # nothing for 1.2 s of a window of 3.7 s
    sampled = {
        "t_s": times,
        "rx_bytes": [int(at * 1e9 / 8) for at in times],
    }
    row = {**server("rail0", 1.3, 5.0), "metrics": {"bandwidth_gbps": 1.0}, "samples": sampled}
    with pytest.raises(aggregate.NotSummable) as refused:
        aggregate.sum_received([row, {**row, "rail": "rail1"}])
    assert refused.value.cause == "samples_sparse"


SECOND = 125_000_000  # bytes of 1 Gbit/s
SOFT = {"counters": {"hw_rcvd_pkts": [0, 1]}}


def sampled(times: list[float], gbps: float = 1.0, **changes: Any) -> dict[str, Any]:
    """Return a receiver's row of 8 s, whose counter moved at a rate."""
    samples = {"t_s": times, "rx_bytes": [round(at * gbps * SECOND) for at in times]}
    return {**server("rail0", 4.0, 12.0), "metrics": {"bandwidth_gbps": 1.0}, "samples": samples, **changes}


EACH_SECOND = [float(at) for at in range(4, 13)]


def dipping() -> dict[str, Any]:
    """Return a row whose counter decreases once, by a byte, while its rate is right."""
    row = sampled(EACH_SECOND)
    row["samples"]["rx_bytes"][4] = row["samples"]["rx_bytes"][3] - 1
    return row


@pytest.mark.parametrize(
    ("row", "added"),
    [
        (sampled(EACH_SECOND), (1.0, 8.0)),
        # The counter may lie between 0.90 and 1.15 of the claim; of Soft-RoCE between 0.60 and 4.
        (sampled(EACH_SECOND, 0.9), (0.9, 8.0)),
        (sampled(EACH_SECOND, 0.899), "ends_disagree"),
        (sampled(EACH_SECOND, 1.15), (1.15, 8.0)),
        (sampled(EACH_SECOND, 1.151), "ends_disagree"),
        (sampled(EACH_SECOND, 0.6, **SOFT), (0.6, 8.0)),
        (sampled(EACH_SECOND, 0.599, **SOFT), "ends_disagree"),
        (sampled(EACH_SECOND, 4.0, **SOFT), (4.0, 8.0)),
        (sampled(EACH_SECOND, 4.001, **SOFT), "ends_disagree"),
        # Three quarters of the window are enough, and gaps of a quarter.
        (sampled(EACH_SECOND[:7]), (1.0, 6.0)),
        (sampled(EACH_SECOND[2:]), (1.0, 6.0)),
        (sampled([4.0, 12.0]), "samples_sparse"),
        (sampled([*EACH_SECOND[:6], 9.9]), "samples_sparse"),
        (sampled([4.0, 6.0, 8.0, 10.0, 12.0]), (1.0, 8.0)),
        (sampled([4.0, 6.1, 8.0, 10.0, 12.0]), "samples_sparse"),
        (sampled([4.0, 6.0, 8.0, 9.0, 12.0]), "samples_sparse"),
        (sampled([4.0, 12.0], window_s=None), "row_garbled"),
        (sampled([4.0, 12.0], started="today"), "row_garbled"),
        (sampled([4.0, 12.0], samples=None), "row_garbled"),
        (sampled([4.0, 12.0], samples={"t_s": [4.0, 8.0, 12.0], "rx_bytes": [0, 10**9]}), "row_garbled"),
        (sampled([4.0]), "row_garbled"),
        (sampled([4.0, 4.0, *EACH_SECOND[1:]]), "row_garbled"),
        (sampled(EACH_SECOND, -1.0), "row_garbled"),
        (dipping(), "row_garbled"),
        # A counter that does not move is in order, and contradicts the claim.
        (sampled(EACH_SECOND, 0.0), "ends_disagree"),
    ],
)  # fmt: skip
def test_what_samples_must_show(row: Any, added: Any) -> None:
    if isinstance(added, str):
        with pytest.raises(aggregate.NotSummable) as refused:
            aggregate.sum_received([row])
        assert refused.value.cause == added
        return
    gbps, length_s = added
    said = {"bandwidth_gbps": gbps, "overlap_percent": 100.0, "window_s": length_s}
    assert aggregate.sum_received([row]) == said


def test_the_bytes_of_a_moment_lie_on_a_line_between_two_samples() -> None:
    """The first second carries twice as much; the common window begins in the middle of it."""
    counts = [round(share * SECOND) for share in (0, 5, *(7 + more for more in range(8)), 20)]
    first = sampled([], samples={"t_s": [3.0, *EACH_SECOND, 13.0], "rx_bytes": counts})
    second = sampled([*EACH_SECOND, 13.0], window_s=[4.5, 12.5], rail="rail1")
    # 8 seconds' worth in 7.5 s, beside 1 Gbit/s.
    said = {"bandwidth_gbps": 2.0667, "overlap_percent": 93.8, "window_s": 7.5}
    assert aggregate.sum_received([first, second]) == said
    for row in (first, second):
        row["metrics"] = {"bandwidth_gbps": 0.99}
    # Of its own window the first one's claim is 0.99 of 9 in 8 s, the second one's of 1.
    payload = round(0.99 * (8 / 7.5) / (9 / 8) + 0.99, 4)
    assert aggregate.sum_received([first, second], payload=True) == {
        **said,
        "bandwidth_gbps": payload,
        "frames_gbps": 2.0667,
    }


@pytest.mark.parametrize(
    ("times", "gbps"),
    [
        # 10 seconds' worth in 8 s; before and after the window the rail was busier.
        ([3.0, *EACH_SECOND, 13.0], 10 / 8),
        # Half of the window is enough, and a sample at its very begin or end is of it.
        ([3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 13.0], 5 / 4),
        ([3.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0], 5 / 4),
        ([3.0, 4.0, 5.0, 6.0, 7.0, 7.9, 13.0], None),
        ([3.0, 4.0, 13.0], None),
        ([3.0, 13.0], None),
    ],
)
def test_a_rate_is_of_the_samples_in_the_window(times: list[float], gbps: float | None) -> None:
    busy = {3.0: -9.0, 4.0: -1.0, 12.0: 1.0, 13.0: 9.0}
    counts = [round((20 + at + busy.get(at, 0.0)) * SECOND) for at in times]
    row = sampled([], samples={"t_s": times, "rx_bytes": counts})
    if gbps is None:
        with pytest.raises(aggregate.NotSummable):
            aggregate.find_received_gbps(row)
    else:
        assert aggregate.find_received_gbps(row) == pytest.approx(gbps)


@pytest.mark.parametrize("row", [dipping(), sampled([0.0, 13.0], window_s=None)])
def test_garbled_samples_have_no_rate(row: Any) -> None:
    with pytest.raises(aggregate.NotSummable):
        aggregate.find_received_gbps(row)


@pytest.mark.parametrize("times", [EACH_SECOND[2:], EACH_SECOND[:-2]])
def test_payload_is_scaled_by_the_part_of_the_window_that_was_sampled(times: list[float]) -> None:
    # The counter shows 1.12 times the claim, in 6 of 8 s: of the frames 1 / 1.12 is payload.
    found = aggregate.sum_received([sampled(times, 1.12)], payload=True)
    assert (found["bandwidth_gbps"], found["frames_gbps"]) == (1.0, 1.12)


@pytest.mark.parametrize("started_ms", range(0, 1000, 37))
def test_the_first_and_last_sample_are_at_the_edges_of_the_window(started_ms: int) -> None:
    """A time in seconds since the epoch has a precision of 0.2 us: the difference of two may be outside."""
    times = [round(4.003 + at, 3) for at in range(9)]
    row = sampled(times, window_s=[times[0], times[-1]], started=f"2026-11-21T10:15:03.{started_ms:03}Z")
    assert aggregate.sum_received([row]) == {
        "bandwidth_gbps": 1.0, "overlap_percent": 100.0, "window_s": 8.0
    }  # fmt: skip


def receiver(begin: float, last: float, gbps: float = 1.0, **changes: Any) -> Any:
    times = [round(0.2 * step, 1) for step in range(60)]
    samples = {"t_s": times, "rx_bytes": [int(at * gbps * 1.01e9 / 8) for at in times]}
    row = server("rail0", begin, last)
    return {**row, "metrics": {"bandwidth_gbps": gbps}, "samples": samples, **changes}


def test_rates_over_the_common_window_are_added() -> None:
    # 10 s windows that share 9.0 s: exactly 90 %
    found = aggregate.sum_received([receiver(0.0, 10.0), receiver(1.0, 11.0, gbps=2.0)])
    assert found["bandwidth_gbps"] == pytest.approx(3.03, abs=0.001)
    assert found["overlap_percent"] == 90.0
    with pytest.raises(aggregate.NotSummable, match="only 89 %"):
        aggregate.sum_received([receiver(0.0, 10.0), receiver(1.1, 11.1)])


def test_windows_are_compared_on_the_clock_and_not_from_each_start() -> None:
    late = receiver(0.0, 10.0, started="2026-11-21T10:15:08.000Z")
    with pytest.raises(aggregate.NotSummable, match="50 %"):
        aggregate.sum_received([receiver(0.0, 10.0), late])
    apart = receiver(0.0, 10.0, started="2026-11-21T10:16:08.000Z")
    with pytest.raises(aggregate.NotSummable, match="only 0 %"):
        aggregate.sum_received([receiver(0.0, 10.0), apart])


def test_there_is_no_sum_of_nothing() -> None:
    with pytest.raises(aggregate.NotSummable):
        aggregate.sum_received([])


def test_what_rxe_sends_again_is_no_bandwidth() -> None:
    # The netdev carries 1.6 times the payload: all of it was RDMA, and only what arrived for good counts.
    rows = [receiver(0.0, 10.0), receiver(0.0, 10.0)]
    for row in rows:
        row["samples"]["rx_bytes"] = [int(at * 1.6e9 / 8) for at in row["samples"]["t_s"]]
    with pytest.raises(aggregate.NotSummable, match=r"the rail's counter 1\.6"):
        aggregate.sum_received(rows, payload=True)  # no driver but rxe does so
    for row in rows:
        row["counters"] = {"hw_rcvd_pkts": [0, 1]}
    found = aggregate.sum_received(rows, payload=True)
    assert found["bandwidth_gbps"] == pytest.approx(2.0, abs=0.001)
    assert found["frames_gbps"] == pytest.approx(3.2, abs=0.001)
    # A claim a little above what crossed the netdev in the common window counts for no more than that.
    rows[1]["metrics"]["bandwidth_gbps"] = 1.8
    assert aggregate.sum_received(rows, payload=True)["bandwidth_gbps"] == pytest.approx(2.6, abs=0.001)
    rows[1]["metrics"]["bandwidth_gbps"] = 2.7  # far above it
    with pytest.raises(aggregate.NotSummable):
        aggregate.sum_received(rows, payload=True)
