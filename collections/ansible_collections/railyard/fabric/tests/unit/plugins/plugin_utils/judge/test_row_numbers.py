# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA rows against themselves: what follows from iterations, from a window, from counters."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import row_counters, row_numbers

POLICY = policy.merge({"rdma_duration_s": 4, "rdma_margin_s": 1, "rdma_message_bytes": 65536})
# 1000 messages of 64 KiB in 2 s: 524,288,000 bit in 2 s.
ITERATIONS, GBPS = 1000, 0.262144
PAYLOAD = ITERATIONS * 65536
PACKETS = PAYLOAD // 4096


def span(delta: int) -> list[int]:
    return [7, 7 + delta]


def soft(out_bytes: int, out_packets: int, in_bytes: int = 0, in_packets: int = 0) -> dict[str, Any]:
    return {
        "tx_bytes": span(out_bytes),
        "rx_bytes": span(in_bytes),
        "hw_sent_pkts": span(out_packets),
        "hw_rcvd_pkts": span(in_packets),
    }


def card(out_words: int, out_packets: int, in_words: int = 0, in_packets: int = 0) -> dict[str, Any]:
    return {
        "tx_bytes": span(0),
        "rx_bytes": span(0),
        "port_xmit_data": span(out_words),
        "port_rcv_data": span(in_words),
        "port_xmit_packets": span(out_packets),
        "port_rcv_packets": span(in_packets),
    }


def row(check: str = "rdma_bandwidth", end: str = "client", **changes: Any) -> dict[str, Any]:
    whole: dict[str, Any] = {
        "check": check,
        "end": end,
        "iterations": ITERATIONS,
        "active_mtu_bytes": 4096,
        "metrics": {"bandwidth_gbps": GBPS},
        "counters": soft(PAYLOAD, PACKETS),
    }
    return {**whole, **changes}


@pytest.mark.parametrize(
    ("gbps", "good"),
    [(GBPS, True), (GBPS * 1.09, True), (GBPS * 1.11, False), (GBPS * 0.37, True), (GBPS * 0.35, False)],
)
def test_a_bandwidth_follows_from_its_iterations(gbps: float, good: bool) -> None:
    # Below: 2 s may have been 5 s, and 10 % less of that: 2 / 5 x 0.9 = 36 %.
    problem = next(row_numbers.unlike_iterations(row(metrics={"bandwidth_gbps": gbps}), POLICY), None)
    assert (problem is None) is good


@pytest.mark.parametrize("iterations", [None, 0, -5, True, 1000.0, "1000"])
def test_without_iterations_there_is_no_bandwidth(iterations: object) -> None:
    assert list(row_numbers.unlike_iterations(row(iterations=iterations), POLICY))


@pytest.mark.parametrize(
    ("counters", "good"),
    [
        (soft(PAYLOAD, PACKETS), True),
        (soft(PAYLOAD - 1, PACKETS), False),
        # Plain TCP: the bytes are there, the port's packets are not.
        (soft(2 * PAYLOAD, PACKETS - 1), False),
        (soft(2 * PAYLOAD, 0), False),
        (card(PAYLOAD // 4, PACKETS), True),
        (card(PAYLOAD // 4 - 1, PACKETS), False),
        (card(PAYLOAD // 4, PACKETS - 1), False),
        ({"tx_bytes": span(PAYLOAD), "rx_bytes": span(0)}, False),
        ({**card(PAYLOAD // 4, PACKETS), "port_rcv_data": [5, 4]}, False),
        ({**soft(PAYLOAD, PACKETS), "hw_rcvd_pkts": [None, 4]}, False),
        # A counter at its greatest value stopped there, or will.
        ({**card(PAYLOAD // 4, PACKETS), "port_xmit_data": [7, 2**32 - 1]}, False),
        ({**card(PAYLOAD // 4, PACKETS), "port_xmit_packets": [7, 2**64 - 1]}, False),
        ({**card(PAYLOAD // 4, PACKETS), "port_xmit_data": [2**32 - PAYLOAD // 4, 2**32]}, True),
        # Two drivers' counters: which of them the bounds are drawn by is not for the row to choose.
        ({**soft(0, 1), **card(PAYLOAD // 4, PACKETS)}, False),
        ({**card(0, 1), **soft(PAYLOAD, PACKETS)}, False),
    ],
)
def test_the_senders_counters_moved_as_much(counters: dict[str, Any], good: bool) -> None:
    one = row(counters=counters)
    assert (row_counters.counter_problem(one, one, POLICY) is None) is good


def test_who_receives_and_who_sends_a_read() -> None:
    client = row()
    got = row(end="server", counters=soft(0, 0, PAYLOAD, PACKETS))
    assert row_counters.counter_problem(got, client, POLICY) is None
    assert row_counters.counter_problem(row(end="server"), client, POLICY) is not None
    read = row("rdma_read_bandwidth", counters=soft(0, 0, PAYLOAD, PACKETS))
    answered = row("rdma_read_bandwidth", end="server")
    assert row_counters.counter_problem(read, read, POLICY) is None
    assert row_counters.counter_problem(answered, read, POLICY) is None
    assert row_counters.counter_problem(row("rdma_read_bandwidth"), read, POLICY) is not None


def test_both_directions_rest_on_both_ends_iterations() -> None:
    metrics = {"bandwidth_gbps": 2 * GBPS}
    both = soft(PAYLOAD, PACKETS, PAYLOAD, PACKETS)
    client = row("rdma_bandwidth_bi", metrics=metrics, counters=both)
    server = row("rdma_bandwidth_bi", end="server", metrics=metrics, counters=both)
    for one in (client, server):
        assert row_counters.counter_problem(one, client, POLICY) is None
    one_way = {**client, "counters": soft(PAYLOAD, PACKETS, PAYLOAD // 2, PACKETS)}
    assert row_counters.counter_problem(one_way, client, POLICY) is not None
    # The sum of both needs the iterations of both.
    idle = {**server, "iterations": 100}
    assert "follow" in str(row_counters.counter_problem(idle, client, POLICY))


def test_latency_is_proven_by_packets_each_way() -> None:
    client = row("rdma_latency", metrics={"observations": 500}, counters=soft(0, 500, 0, 500))
    assert row_counters.counter_problem(client, client, POLICY) is None
    for sent, received in ((499, 500), (500, 499)):
        short = {**client, "counters": soft(10**6, sent, 10**6, received)}
        assert row_counters.counter_problem(short, client, POLICY) is not None


@pytest.mark.parametrize(
    ("latency_is", "lasted_s", "good"),
    [("one_way", 2.0, True), ("one_way", 1.9, False), ("round_trip", 1.0, True), ("round_trip", 0.9, False)],
)
def test_a_chain_of_exchanges_fits_into_its_window(latency_is: str, lasted_s: float, good: bool) -> None:
    # 2000 exchanges of 500 us: 1 s as round trips, 2 s as halves of one.
    one = {"latency_is": latency_is, "metrics": {"observations": 2000, "latency_average_us": 500.0}}
    said = list(row_numbers.impossible_exchanges(one, (0.5, 0.5 + lasted_s), {"rdma_latency_s": 2}))
    assert (not said) is good


def test_ends_of_a_send_time_it_each_by_its_own_clock() -> None:
    def ends(check: str, theirs: float) -> str | None:
        client = {"check": check, "metrics": {"bandwidth_gbps": 1.0}}
        server = {"check": check, "metrics": {"bandwidth_gbps": theirs}}
        return row_numbers.disagreement(client, server, POLICY)

    assert ends("rdma_send_bandwidth", 1.1) is None
    assert ends("rdma_send_bandwidth", 1.3) is not None
    assert ends("rdma_bandwidth", 1.1) is not None


@pytest.mark.parametrize(
    ("observations", "average_us", "why"),
    [
        (2000, 500.0, None),  # 2000 x 2 x 500 us fill 2 s
        (2000, 500e3, "the test lasted"),  # nanoseconds taken for microseconds
        (2000, 0.5, "asked were 2 s"),  # milliseconds taken for microseconds
        (2000, 2.1, None),  # a cold probe of 20 exchanges may be far slower than the test
        (1, 500.0, "1 exchanges"),
        (19, 500.0, "19 exchanges"),
        (20, 150.0, None),  # the fewest that are asked for, where the probe was slow
        (20, 0.5, "asked were 2 s"),  # no probe was ever so much slower
        (100000, 0.05, "less than any message takes"),
        (100000, 0.5, None),  # the most that are asked for, where a card is fast
        (100001, 0.5, "100001 exchanges"),
    ],
)
def test_a_latency_is_that_of_as_many_exchanges_as_were_asked(
    observations: int, average_us: float, why: str | None
) -> None:
    metrics = {"observations": observations, "latency_average_us": average_us}
    one = row("rdma_latency", metrics=metrics, latency_is="one_way")
    found = next(row_numbers.impossible_exchanges(one, (0.1, 2.2), {**POLICY, "rdma_latency_s": 2}), None)
    assert (found is None) is (why is None), found
    assert (why or "") in str(found)


@pytest.mark.parametrize(
    ("end", "changes", "said"),
    [
        ("client", {}, None),
        ("server", {"metrics": {}, "window_s": None}, None),
        ("client", {"window_s": None}, "window_s is None, no interval"),
        ("client", {"window_s": [0.0, 0.9]}, "it lasted 0.9 s, asked was 2 s"),
        ("client", {"message_bytes": 131072}, "message_bytes is 131072, asked was 100"),
        ("server", {"metrics": {}, "window_s": None, "message_bytes": None}, "message_bytes is None"),
        ("client", {"metrics": {"rtt_min_us": 9.0, "rtt_average_us": 8.0}}, "rtt_min_us 9 is above"),
    ],
)
def test_what_a_row_of_a_new_tool_must_hold_follows_from_the_table(
    monkeypatch: pytest.MonkeyPatch, end: str, changes: dict[str, Any], said: str | None
) -> None:
    told = {"rtt_min_us": "positive", "rtt_average_us": "positive"}
    new = Check("replies", "replies", client=told, lasts="replies_s", message="replies_bytes")
    monkeypatch.setitem(row_numbers.CHECKS, "replies", new)
    whole = {
        "started": "2026-11-21T10:15:20.000Z",
        "metrics": {"rtt_min_us": 7.0, "rtt_average_us": 8.0},
        "window_s": [0.0, 2.0],
        "message_bytes": 100,
    }
    policy_of_it = {"replies_s": 2, "replies_bytes": 100}
    told_by = row("replies", end, **{**whole, **changes})
    first = next(row_numbers.impossible(told_by, policy_of_it), row_numbers.too_short(told_by, policy_of_it))
    assert first is None if said is None else str(first).startswith(said), first
