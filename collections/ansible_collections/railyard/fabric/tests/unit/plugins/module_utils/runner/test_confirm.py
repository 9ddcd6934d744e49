# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What looks bad in passing is measured again, by both ends alike, and within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import confirm

POLICY = {"iperf3_omit_s": 1, "iperf3_duration_s": 4, "rdma_duration_s": 4, "rdma_margin_s": 1}
BOUNDS = {"tcp_bandwidth": {"rail0": {"bandwidth_gbps": [8.0, 10.2]}}}
COST_S = {"tcp_bandwidth": 14.0, "ping_rtt": 4.0}


def row(**changes: Any) -> dict[str, Any]:
    """Return the client's row of a healthy test."""
    said = {"status": "measured", "proof": "proven", "metrics": {"bandwidth_gbps": 9.4}, "error": None}
    sound: dict[str, Any] = {
        "id": "m00003", "check": "tcp_bandwidth", "tool": "iperf3", "rail": "rail0", "end": "client",
        "group": None, "counters": {}, "window_s": [0.0, 4.0], **said,
        "other_end": {**said, "metrics": {"bandwidth_gbps": 9.3}},
    }  # fmt: skip
    return {**sound, **changes}


def other(**changes: Any) -> dict[str, Any]:
    return row(other_end={**row()["other_end"], **changes})


def sampled(counted_gbps: float, gap: bool = False) -> dict[str, Any]:
    """Return a receiver's row of a group, whose counter moved at a rate, with or without a gap of 1.2 s."""
    times = [place / 5 for place in range(21) if not gap or not 5 <= place <= 10]
    samples = {"t_s": times, "rx_bytes": [int(at * counted_gbps * 1e9 / 8) for at in times]}
    return row(end="server", group="g00001", samples=samples)


def error(name: str) -> dict[str, Any]:
    return {"status": "failed", "error": {"class": name}, "proof": None, "metrics": {}}


def test_a_links_own_bound_comes_before_its_rails() -> None:
    link = {"node": "gpu1", "peer": "gpu2"}
    bounds = {
        "tcp_bandwidth": {**BOUNDS["tcp_bandwidth"], "gpu1 gpu2 rail0": {"bandwidth_gbps": [9.35, None]}}
    }
    assert confirm.suspects([row(**link)], bounds, POLICY) == ["m00003"], "the other end says 9.3"
    assert confirm.suspects([row(node="gpu1", peer="gpu3")], bounds, POLICY) == []


@pytest.mark.parametrize(
    "one",
    [
        row(proof="unproven"),
        other(proof="unproven"),
        row(metrics={"bandwidth_gbps": 7.9}),
        other(metrics={"bandwidth_gbps": 7.9}),
        row(metrics={"bandwidth_gbps": 10.3}),
        row(**error("deadline")),
        row(**error("tool_failed"), other_end=None),
        other(**error("clock_lost")),
        row(check="ping_rtt", metrics={"loss_percent": 0.3}),
        row(check="path_mtu", metrics={"sent": 10, "received": 9}),
        # Both above the floor, and they do not say the same.
        other(metrics={"bandwidth_gbps": 8.8}) | {"tool": "ib_write_bw", "check": "rdma_bandwidth"},
        row(link_errors={"hw.out_of_sequence": [4, 5]}),
        row(window_s=[0.0, 1.9]),
        row(metrics={"bandwidth_gbps": 9.4, "sent_gbps": 8.0}),
        sampled(9.4 * 0.8),
        sampled(9.4, gap=True),
    ],
)  # fmt: skip
def test_what_may_be_gone_the_next_time_is_suspect(one: dict[str, Any]) -> None:
    assert confirm.suspects([one], BOUNDS, POLICY) == ["m00003"]


@pytest.mark.parametrize(
    "one",
    [
        row(),
        # No bound of another check or rail, and what a state says would be said again.
        row(rail="rail1", metrics={"bandwidth_gbps": 0.1}, other_end={**row()["other_end"], "metrics": {}}),
        *(row(**error(name)) for name in ("tool_missing", "link_down", "version_differs", "hca_missing",
                                          "rendezvous_timeout", "no_gid", "busy", "interrupted")),
        # Each end cuts iperf3's window by its own clock.
        other(metrics={"bandwidth_gbps": 8.4}),
        sampled(9.4 * 1.01),
        row(link_errors={"hw.out_of_sequence": [4, 4], "hw.sq_num_to": [None, 1], "netdev.x": [1, 2]}),
        row(link_errors={"hw.rcvd_seq_err": [4, 9]}, counters={"hw_sent_pkts": [1, 2]}),
    ],
)  # fmt: skip
def test_what_is_good_or_would_be_the_same_is_not(one: dict[str, Any]) -> None:
    assert confirm.suspects([one], BOUNDS, POLICY) == []


def test_what_stands_apart_from_its_like_is_suspect() -> None:
    quiet = {"check": "tcp_latency", "tool": "sockperf", "other_end": {**row()["other_end"], "metrics": {}}}
    like = [row(**quiet, id=f"m{n:05d}", metrics={"latency_p50_us": 9.0 + n / 10}) for n in range(4)]
    assert confirm.suspects(like, BOUNDS, POLICY) == []
    like[2]["metrics"] = {"latency_p50_us": 90.0}
    assert confirm.suspects(like, BOUNDS, POLICY) == ["m00002"]
    like[2]["tool"] = "another"
    assert confirm.suspects(like, BOUNDS, POLICY) == []


def test_rails_that_did_not_run_at_once_are_suspect_together() -> None:
    group = [
        row(id=f"m{n:05d}", group="g1", window_s=[n * late, 4 + n * late]) for late in (1.0,) for n in (0, 1)
    ]
    assert confirm.suspects(group, BOUNDS, POLICY) == ["m00000", "m00001"]
    group[1]["window_s"] = [0.2, 4.2]
    assert confirm.suspects(group, BOUNDS, POLICY) == []


def of_meeting(count: int, group: str | None = None) -> list[dict[str, Any]]:
    return [{"id": f"m{n:05d}", "check": "tcp_bandwidth", "group": group} for n in range(count)]


def chosen(asked: list[dict[str, Any]], bad: int, left_s: float = 1000.0) -> int:
    return len(confirm.chosen(asked, {test["id"] for test in asked[:bad]}, left_s, COST_S))


def test_of_what_is_the_system_some_are_enough() -> None:
    assert [chosen(of_meeting(40), bad) for bad in (0, 1, 8, 9, 40)] == [0, 1, 8, 3, 3]
    assert chosen(of_meeting(4), 4) == 3


def test_no_more_time_is_spent_than_there_is() -> None:
    assert [chosen(of_meeting(40), 8, left_s) for left_s in (0.0, 13.9, 14.0, 60.0)] == [0, 0, 1, 4]
    assert [confirm.budget_s(planned_s) for planned_s in (10.0, 1000.0)] == [60.0, 200.0]


def test_a_group_is_measured_again_as_a_whole_and_paid_once() -> None:
    asked = of_meeting(8, group="g00000")
    assert chosen(asked, 1, left_s=14.0) == 8
    assert chosen(asked, 8, left_s=14.0) == 8
