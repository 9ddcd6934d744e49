# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two ends that each cut their window by their own clock: alike enough on a busy machine, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs.fake_run import FakeRun


def judged(run: FakeRun, check: str, **server: float) -> dict[str, Any]:
    identity = run.ids(check)[0]
    metrics = run.rows(identity, "client")[0]["metrics"]
    if "sent_gbps" in metrics:
        metrics["sent_gbps"] = 1.1
    run.rows(identity, "server")[0]["metrics"].update(server)
    return run.verdict(identity)


@pytest.mark.parametrize(
    ("gbps", "outcome"),
    # The client says 0.95; floor 0.80, ceiling 1.0125.
    [(0.95, "pass"), (0.84, "pass"), (0.79, "unmeasured"), (1.1, "pass"), (1.12, "unmeasured")],
)
def test_an_omitted_start_is_left_out_by_two_clocks(gbps: float, outcome: str) -> None:
    one = judged(FakeRun(), "tcp_bandwidth", bandwidth_gbps=gbps)
    assert one["outcome"] == outcome
    if outcome == "pass":
        # What is sure is the lower of both, and that is what is shown.
        assert one["observed"]["bandwidth_gbps"] == min(gbps, 0.95)
    else:
        assert one["cause_class"] == "ends_disagree"


@pytest.mark.parametrize("gbps", [0.84, 1.1])
def test_without_an_omitted_start_both_report_one_window(gbps: float) -> None:
    one = judged(FakeRun(iperf3_omit_s=0), "tcp_bandwidth", bandwidth_gbps=gbps)
    assert one["cause_class"] == "ends_disagree"


def test_the_lower_of_both_has_to_reach_the_floor_and_no_impossible_number_passes() -> None:
    run = FakeRun(floors={"tcp_bandwidth": {"bandwidth_gbps": [0.9, 1]}})
    assert judged(run, "tcp_bandwidth", bandwidth_gbps=0.88)["cause_class"] == "below_floor"
    run = FakeRun(floors={"tcp_bandwidth": {"bandwidth_gbps": [0.5, 0.9]}})
    assert judged(run, "tcp_bandwidth", bandwidth_gbps=0.94)["cause_class"] == "above_ceiling"


def test_both_ways_at_once_are_cut_by_two_clocks_as_well() -> None:
    one = judged(FakeRun(), "tcp_bandwidth_bi", forward_gbps=0.85, bandwidth_gbps=1.8)
    assert (one["outcome"], one["observed"]["bandwidth_gbps"]) == ("recorded", 1.8)
    one = judged(FakeRun(), "tcp_bandwidth_bi", forward_gbps=0.75, bandwidth_gbps=1.7)
    assert one["cause_class"] == "ends_disagree"


@pytest.mark.parametrize(("duration_s", "cause"), [(3, "below_floor"), (4, "ends_disagree")])
def test_a_short_window_of_perftests_send_is_wrong_by_more(duration_s: int, cause: str) -> None:
    run = FakeRun(transport="roce", rdma_tests=["ib_send_bw"], rdma_duration_s=duration_s)
    identity = run.ids("rdma_send_bandwidth")[0]
    for row in run.rows(identity):
        # 1 s of the fixture's 2 s.
        row["iterations"] = row["iterations"] * (duration_s - 2) // 2
        row["window_s"] = [1.4, 1.4 + duration_s - 2]
    gbps = 0.95 * 0.8
    rate = round(gbps * 1e9 / 8 / 65536 / 1e6, 6)
    run.rows(identity, "server")[0]["iterations"] = int(run.rows(identity, "server")[0]["iterations"] * 0.8)
    one = judged(run, "rdma_send_bandwidth", bandwidth_gbps=gbps, message_rate_mpps=rate)
    assert one["cause_class"] == cause, one["cause"]
