# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests between two nodes: what their two rows say, and what makes them say nothing."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs.fake_run import FakeRun, in_sequence
from support.runs.spoil import CHECKS_BETWEEN, FakeRunView, error_row

HEALTHY = FakeRun()


@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_rows_missing_doubled_or_one_ended_are_unmeasured(check: str) -> None:
    identity = HEALTHY.ids(check)[0]
    for kept, cause in ((0, "no_row"), (1, "one_ended"), (3, "duplicate_row")):
        run = HEALTHY.copy()
        mine = run.rows(identity)
        run.results = [row for row in run.results if row["id"] != identity] + (mine + mine)[:kept]
        one = run.verdict(identity)
        assert (one["outcome"], one["cause_class"]) == ("unmeasured", cause)
        assert run.status() == 3


@pytest.mark.parametrize("rail", ["rail0", "rail1"])
@pytest.mark.parametrize(
    ("bandwidth", "outcome", "cause"),
    # floor 0.80 x 1 Gbit/s; ceiling (9000 - 52) / (9000 + 14) x 1.02 = 1.01253 on a link without a wire
    [
        (0.80, "pass", None),
        (0.7999, "fail", "below_floor"),
        (1.0125, "pass", None),
        # More than the link can carry was not measured on it: no failure, and no pass.
        (1.0126, "unmeasured", "above_ceiling"),
        (38.2, "unmeasured", "above_ceiling"),
    ],
)
def test_bounds_are_kept_to_the_digit(rail: str, bandwidth: float, outcome: str, cause: str | None) -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth", rail=rail)[0]
    for row in run.rows(identity):
        row["metrics"] |= {"bandwidth_gbps": bandwidth, "sent_gbps": bandwidth}
        for counter in ("tx_bytes", "rx_bytes"):
            row["counters"][counter] = [0, int(bandwidth * 5.3e9 / 8)]
    in_sequence(run.results)
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    assert one["observed"]["bandwidth_gbps"] == bandwidth
    assert run.status() == {"pass": 0, "fail": 1, "unmeasured": 3}[outcome]


@pytest.mark.parametrize(
    ("frames_gbps", "outcome", "cause", "shown_gbps"),
    # iperf3 says 1.05; of a frame's 9014 bytes 8948 are payload, which has to lie between 0.80 and 1.0125.
    [
        (1.0, "pass", None, 0.9927),
        (1.019, "pass", None, 1.0115),
        (1.03, "unmeasured", "above_ceiling", 1.0225),
        (0.5, "unmeasured", "ends_disagree", None),
        (None, "unmeasured", "above_ceiling", 1.05),
    ],
)
@pytest.mark.parametrize("check", ["tcp_bandwidth", "tcp_bandwidth_bi"])
def test_what_the_link_cannot_carry_is_compared_with_its_counters(
    check: str, frames_gbps: float | None, outcome: str, cause: str | None, shown_gbps: float | None
) -> None:
    """A receiver that was held up across the omitted start read what its kernel had taken before."""
    run = HEALTHY.copy()
    identity = run.ids(check)[0]
    times = [round(0.2 * step, 1) for step in range(29)]
    for row in run.rows(identity):
        for name in ("bandwidth_gbps", "forward_gbps", "reverse_gbps"):
            if name in row["metrics"]:
                row["metrics"][name] = 1.05
        if check == "tcp_bandwidth_bi":
            row["metrics"]["bandwidth_gbps"] = 2.1
        else:
            row["metrics"]["sent_gbps"] = 1.06
        for counter in ("tx_bytes", "rx_bytes"):
            row["counters"][counter] = [0, int(1.05 * 5.3e9 / 8)]
        if frames_gbps is not None:
            moved = [int(1000 + at * frames_gbps * 1e9 / 8) for at in times]
            row["samples"] = {"t_s": times, "rx_bytes": moved}
    in_sequence(run.results)
    one = run.verdict(identity)
    if check == "tcp_bandwidth_bi":
        # Of both ways at once no authority says a floor.
        outcome, cause = {"pass": ("recorded", None), "unmeasured": (outcome, cause)}[outcome]
        if frames_gbps == 0.5:
            outcome, cause, shown_gbps = "recorded", None, 0.4963
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    metric = "forward_gbps" if check == "tcp_bandwidth_bi" else "bandwidth_gbps"
    assert (one["observed"] or {}).get(metric) == shown_gbps


@pytest.mark.parametrize("check", ["path_mtu", "path_mtu_one_way"])
def test_lost_probes_of_the_full_size_are_no_small_path(check: str) -> None:
    run = HEALTHY.copy()
    client, server = (run.rows(run.ids(check)[0], end)[0] for end in ("client", "server"))
    client["metrics"]["received"] = 3
    client["claim"] = {"unit": "packets", "at_least": 3.0, "at_most": 5.0}
    counters = (server if check == "path_mtu_one_way" else client)["counters"]
    # Two packets of 9000 bytes and their Ethernet headers are missing, beside what the rendezvous sends.
    counters["rx_bytes"] = [0, 3 * 9014 + 800]
    one = run.verdict(client["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "lost_packets")
    assert "3 of 5 probes of 9000 bytes" in one["cause"]
    # The counters show all five: the tool was held up, and the rail has lost nothing.
    counters["rx_bytes"] = [0, 5 * 9014 + 800]
    assert run.verdict(client["id"])["cause_class"] == "probes_missed"
    counters["rx_packets"] = [0, 4]
    assert run.verdict(client["id"])["cause_class"] == "lost_packets"
    client["metrics"]["path_mtu_bytes"] = 1500
    assert run.verdict(client["id"])["cause_class"] == "path_mtu_small"


def test_a_ping_that_was_held_up_is_no_loss_of_the_rail() -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("ping_rtt")[0], "client")
    run.row["metrics"] |= {"loss_percent": 1.0, "sent": 300, "received": 297, "packet_bytes": 1428}
    run.row["claim"] = {"unit": "packets", "at_least": 304.0, "at_most": 310.0}
    for counter in ("tx_bytes", "rx_bytes"):
        run.row["counters"][counter] = [0, 300 * 1442 + 980]
    for counter in ("tx_packets", "rx_packets"):
        run.row["counters"][counter] = [0, 312]
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "probes_missed")
    run.row["counters"]["rx_bytes"] = [0, 297 * 1442 + 980 + 500]
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "lost_packets")


@pytest.mark.parametrize("status", ["failed", "unmeasured"])
@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_an_error_brings_its_cause_and_fix(check: str, status: str) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    error_row(run.row, "tool_failed", status)
    one = run.verdict(run.row["id"])
    probe = check in ("path_mtu", "path_mtu_one_way", "ping_rtt")
    assert one["outcome"] == ("fail" if probe and status == "failed" else "unmeasured")
    assert (one["cause_class"], one["next"]) == ("tool_failed", "do this")
    assert "gpuserver2: what was seen" in one["cause"]


@pytest.mark.parametrize("check", [*CHECKS_BETWEEN, "cabling"])
@pytest.mark.parametrize("host", ["gpuserver9", "", None])
def test_an_error_is_laid_at_no_other_nodes_door(check: str, host: Any) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    error_row(run.row, "tool_failed", "unmeasured", host)
    assert f": {run.row['host']}: what was seen" in run.verdict(run.row["id"])["cause"]


def test_both_ways_hold_what_one_way_has_to_carry_where_it_was_not_proven() -> None:
    run = FakeRun(transport="roce", driver_class="hardware", bidirectional=True)
    both = run.ids("rdma_bandwidth_bi", rail="rail0")[0]
    alone = run.ids("rdma_bandwidth", rail="rail0")
    proven, least = run.verdict(alone[0])["observed"], run.verdict(alone[0])["floor"]
    assert proven["bandwidth_gbps"] > least["bandwidth_gbps"]
    for row in run.rows(alone[0]):
        row["attempt"] = 4
    floors = [run.verdict(both)["floor"][way] for way in ("forward_gbps", "reverse_gbps")]
    carried = [least["bandwidth_gbps"], proven["bandwidth_gbps"]]
    assert sorted(floors) == [pytest.approx(0.8 * one, abs=1e-3) for one in carried]
    # Where no test of one way was planned, nothing bounds it from below.
    one = FakeRunView(run, both, "client").verdict(both)
    assert (one["outcome"], one["floor"]) == ("recorded", None)
