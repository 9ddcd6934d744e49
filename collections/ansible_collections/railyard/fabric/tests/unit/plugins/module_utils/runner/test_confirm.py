# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What looks bad in passing is measured again, by both ends alike, and within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import confirm

POLICY = {"iperf3_omit_s": 1, "iperf3_duration_s": 4, "rdma_duration_s": 4, "rdma_margin_s": 1}
BOUNDS = {
    "tcp_bandwidth": {
        "rail0": {"bandwidth_gbps": [8.0, 10.2]},
        "rail2": {"bandwidth_gbps": [None, 10.2], "latency_p50_us": [1.0, None]},
    }
}
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
    times = [1 + place / 5 for place in range(21) if not gap or not 5 <= place <= 10]
    samples = {"t_s": times, "rx_bytes": [int(at * counted_gbps * 1e9 / 8) for at in times]}
    return row(end="server", group="g00001", samples=samples, window_s=[1.0, 5.0])


def at_its_ends(said_gbps: float, counted_gbps: float) -> dict[str, Any]:
    """Return such a row, of a rail without bounds, whose first and last second carried 40 % each.

    Before and after its window the rail was much busier.
    """
    shares = (-9.0, 0.0, 0.4, 0.5, 0.6, 1.0, 9.0)
    samples = {
        "t_s": list(range(7)),
        "rx_bytes": [(9 + share) * counted_gbps * 4 * 1e9 / 8 for share in shares],
    }
    said = {"metrics": {"bandwidth_gbps": said_gbps}, "rail": "rail1", "samples": samples}
    return {**sampled(1.0), **said, "other_end": {**row()["other_end"], "metrics": said["metrics"]}}


SOFTWARE = {"counters": {"hw_sent_pkts": [1, 2]}}
RDMA = {"tool": "ib_write_bw", "check": "rdma_bandwidth"}
QUIET = {
    "check": "tcp_latency",
    "tool": "sockperf",
    "metrics": {},
    "other_end": {**row()["other_end"], "metrics": {}},
}


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
        row(**error("unknown_connection")),
        row(check="ping_rtt", metrics={"loss_percent": 0.3}),
        row(check="path_mtu", metrics={"sent": 10, "received": 9}),
        # Both above the floor, and they do not say the same.
        other(metrics={"bandwidth_gbps": 8.8}) | {"tool": "ib_write_bw", "check": "rdma_bandwidth"},
        row(link_errors={"hw.out_of_sequence": [4, 5]}),
        row(window_s=[0.0, 1.9]),
        row(metrics={"bandwidth_gbps": 9.4, "sent_gbps": 8.0}),
        row(window_s=[1.0, 2.9]),
        row(**RDMA, window_s=[0.0, 0.9]),
        row(rail="rail2", metrics={"bandwidth_gbps": 10.3}),
        row(**QUIET) | {"other_end": {**QUIET["other_end"], "metrics": {"sent": 5, "received": 4}}},
        sampled(9.4 * 0.8),
        sampled(9.4 * 1.13),
        sampled(9.4, gap=True),
        sampled(9.4) | {"samples": {"t_s": [], "rx_bytes": []}},
        sampled(9.4 * 0.69) | SOFTWARE,
        sampled(9.4 * 3.51) | SOFTWARE,
    ],
)  # fmt: skip
def test_what_may_be_gone_the_next_time_is_suspect(one: dict[str, Any]) -> None:
    assert confirm.suspects([one], BOUNDS, POLICY) == ["m00003"]


@pytest.mark.parametrize(
    "one",
    [
        row(),
        # No bound of another check or rail, and what a state reports would be reported again.
        row(rail="rail1", metrics={"bandwidth_gbps": 0.1}, other_end={**row()["other_end"], "metrics": {}}),
        *(row(**error(name)) for name in ("tool_missing", "link_down", "version_differs", "hca_missing",
                                          "rendezvous_timeout", "no_gid", "busy", "interrupted")),
        # At its bound is not beyond it.
        row(metrics={"bandwidth_gbps": 8.0}),
        row(metrics={"bandwidth_gbps": 10.2}),
        row(rail="rail2", metrics={"bandwidth_gbps": 0.1}, other_end={**row()["other_end"], "metrics": {}}),
        # Without the other end, or without a measurement, there is no number to doubt.
        row(metrics={"bandwidth_gbps": 7.9}, other_end=None),
        row(metrics={"bandwidth_gbps": 7.9}, status="unmeasured"),
        # Each end cuts iperf3's window by its own clock.
        other(metrics={"bandwidth_gbps": 8.4}),
        row(window_s=[1.0, 3.0]),
        row(window_s=None),
        row(**QUIET, window_s=[0.0, 1.0]),
        row(**RDMA, window_s=[0.0, 1.0]),
        sampled(9.4 * 1.01),
        # Samples at the very begin and end of the window are of it, and these bounds are within.
        *(at_its_ends(1.0, counted_gbps) for counted_gbps in (0.92, 1.12)),
        *(at_its_ends(1.0, counted_gbps) | SOFTWARE for counted_gbps in (0.7, 3.5)),
        # Only a receiver of a group has samples that are added up.
        *(sampled(9.4, gap=True) | one for one in ({"group": None}, {"end": "client"}, {"samples": None},
                                                   {"window_s": None}, QUIET)),
        row(link_errors={"hw.out_of_sequence": [4, 4], "hw.sq_num_to": [None, 1], "netdev.x": [1, 2]}),
        row(link_errors={"hw.rcvd_seq_err": [4, 9]}, **SOFTWARE),
    ],
)  # fmt: skip
def test_what_is_good_or_would_be_the_same_is_not(one: dict[str, Any]) -> None:
    assert confirm.suspects([one], BOUNDS, POLICY) == []


@pytest.mark.parametrize(
    ("name", "is_suspect"),
    [
        ("hw.out_of_sequence", False),
        ("hw.rq_num_oos", False),
        # A receiver that requested them again: the fabric's packets were not placed, or were lost.
        ("hw.packet_seq_err", True),
        ("hw.local_ack_timeout_err", True),
    ],
)
def test_packets_out_of_order_are_no_fault_where_the_fabric_has_adaptive_routing(name, is_suspect):
    one = row(link_errors={name: [4, 5]})
    assert bool(confirm.suspects([one], BOUNDS, {**POLICY, "adaptive_routing": True})) is is_suspect
    assert bool(confirm.suspects([one], BOUNDS, {**POLICY, "adaptive_routing": False})) is True


@pytest.mark.parametrize(
    ("tool", "policy", "theirs_gbps", "bad"),
    [
        ("ib_write_bw", {}, 9.5, False),
        ("ib_write_bw", {}, 9.49, True),
        # iperf3 and ib_send_bw: 15 %, or 0.3 s of what was measured, by two clocks.
        ("iperf3", {}, 8.5, False),
        ("iperf3", {}, 8.49, True),
        ("iperf3", {"iperf3_duration_s": 1}, 7.01, False),
        ("iperf3", {"iperf3_duration_s": 1}, 6.99, True),
        ("iperf3", {"iperf3_omit_s": 0}, 9.49, True),
        ("ib_send_bw", {}, 8.51, False),
        ("ib_send_bw", {}, 8.49, True),
        ("ib_send_bw", {"rdma_margin_s": 1.5}, 7.01, False),
    ],
)
def test_how_far_the_ends_may_differ(
    tool: str, policy: dict[str, Any], theirs_gbps: float, bad: bool
) -> None:
    one = other(metrics={"bandwidth_gbps": theirs_gbps})
    one |= {"tool": tool, "rail": "rail1", "metrics": {"bandwidth_gbps": 10.0}, "window_s": None}
    assert confirm.looks_bad(one, BOUNDS, {**POLICY, **policy}) is bad


def test_what_was_sent_arrives_but_for_the_windows() -> None:
    said = [{"bandwidth_gbps": gbps, "sent_gbps": 10.0} for gbps in (11.5, 11.51)]
    rows = [other(metrics=one) | {"rail": "rail1", "metrics": one} for one in said]
    assert [confirm.looks_bad(one, BOUNDS, POLICY) for one in rows] == [False, True]


def test_others_are_compared_only_with_what_was_proven() -> None:
    like = [row(**QUIET, id=f"m{n:05d}") for n in range(4)]
    for one, latency_us in zip(like, (0.1, 0.1, 9.0, 9.2), strict=True):
        one["metrics"] = {"latency_p50_us": latency_us}
    assert confirm.suspects(like, BOUNDS, POLICY) == ["m00002", "m00003"]
    for one in like[:2]:
        one["status"] = "unmeasured"
    assert confirm.suspects(like, BOUNDS, POLICY) == []
    for one in like[:2]:
        one |= {"status": "measured", "proof": "unproven"}
    assert confirm.suspects(like, BOUNDS, POLICY) == ["m00000", "m00001"]


def test_of_many_a_tenth_below_is_an_outlier() -> None:
    like = [other(id=f"m{n:05d}", metrics={}) | {"id": f"m{n:05d}", "rail": "rail1"} for n in range(9)]
    like[4]["metrics"] = {"bandwidth_gbps": 8.0}
    assert confirm.suspects(like, BOUNDS, POLICY) == ["m00004"]


def test_an_outlier_among_its_peers_is_suspect() -> None:
    like = [row(**QUIET, id=f"m{n:05d}") | {"metrics": {"latency_p50_us": 9.0 + n / 10}} for n in range(4)]
    assert confirm.suspects(like, BOUNDS, POLICY) == []
    like[2]["metrics"] = {"latency_p50_us": 90.0}
    assert confirm.suspects(like, BOUNDS, POLICY) == ["m00002"]
    like[2]["tool"] = "another"
    assert confirm.suspects(like, BOUNDS, POLICY) == []
    # Of both ways at once each is reported by itself: the sum of one that is dead is half of the others'.
    for one, back in zip(like[:2], (9.0, 0.1), strict=True):
        one["metrics"] = {"bandwidth_gbps": 9.0 + back, "forward_gbps": 9.0, "reverse_gbps": back}
    assert confirm.suspects(like, {}, POLICY) == ["m00001"]


def test_rails_that_did_not_run_at_once_are_suspect_together() -> None:
    group = [
        row(id=f"m{n:05d}", group="g1", window_s=[n * late, 4 + n * late]) for late in (1.0,) for n in (0, 1)
    ]
    assert confirm.suspects(group, BOUNDS, POLICY) == ["m00000", "m00001"]
    for window in ([0.2, 4.2], [0.4, 4.4], None):
        group[1]["window_s"] = window
        assert confirm.suspects(group, BOUNDS, POLICY) == []
    group[0]["window_s"] = None
    assert confirm.suspects(group, BOUNDS, POLICY) == []
    alone = [row(id=f"m{n:05d}", window_s=[4.0 * n, 4.0 + 4 * n]) for n in (0, 1)]
    assert confirm.suspects(alone, BOUNDS, POLICY) == []


def of_meeting(count: int, group: str | None = None) -> list[dict[str, Any]]:
    return [{"id": f"m{n:05d}", "check": "tcp_bandwidth", "group": group} for n in range(count)]


def chosen(asked: list[dict[str, Any]], bad: int, left_s: float = 1000.0) -> int:
    return len(confirm.choose_tests(asked, {test["id"] for test in asked[:bad]}, left_s, COST_S))


def test_of_what_is_the_system_some_are_enough() -> None:
    assert [chosen(of_meeting(40), bad) for bad in (0, 1, 8, 9, 40)] == [0, 1, 8, 3, 3]
    assert chosen(of_meeting(4), 4) == 3


def test_no_more_time_is_spent_than_there_is() -> None:
    assert [chosen(of_meeting(40), 8, left_s) for left_s in (0.0, 13.9, 14.0, 60.0)] == [0, 0, 1, 4]
    assert [confirm.budget_s(planned_s) for planned_s in (10.0, 1000.0)] == [60.0, 200.0]


def test_a_group_is_measured_again_as_one_and_paid_once() -> None:
    asked = of_meeting(8, group="g00000")
    assert chosen(asked, 1, left_s=14.0) == 8
    assert chosen(asked, 8, left_s=14.0) == 8
