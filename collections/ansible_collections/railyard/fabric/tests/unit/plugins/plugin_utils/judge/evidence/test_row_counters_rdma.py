# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters of RDMA: what a port and its netdev must have counted of a test's iterations."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from support.runs.bare_rows import counter_problem

POLICY = policy.merge({"rdma_duration_s": 4, "rdma_margin_s": 1, "rdma_message_bytes": 65536})
# 1000 messages of 64 KiB in 2 s: 524,288,000 bit in 2 s.
GBPS, PAYLOAD = 0.262144, 1000 * 65536
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
    whole = {"check": check, "end": end, "iterations": 1000, "active_mtu_bytes": 4096, "netdev": None}
    whole["other_rails"] = {}
    return {**whole, "metrics": {"bandwidth_gbps": GBPS}, "counters": soft(PAYLOAD, PACKETS), **changes}


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
    assert (counter_problem(one, one, POLICY) is None) is good


def test_who_receives_and_who_sends_a_read() -> None:
    client = row()
    got = row(end="server", counters=soft(0, 0, PAYLOAD, PACKETS))
    assert counter_problem(got, client, POLICY) is None
    assert counter_problem(row(end="server"), client, POLICY) is not None
    read = row("rdma_read_bandwidth", counters=soft(0, 0, PAYLOAD, PACKETS))
    answered = row("rdma_read_bandwidth", end="server")
    assert counter_problem(read, read, POLICY) is None
    assert counter_problem(answered, read, POLICY) is None
    assert counter_problem(row("rdma_read_bandwidth"), read, POLICY) is not None


def test_both_directions_rest_on_both_ends_iterations() -> None:
    metrics = {"bandwidth_gbps": 2 * GBPS}
    both = soft(PAYLOAD, PACKETS, PAYLOAD, PACKETS)
    client = row("rdma_bandwidth_bi", metrics=metrics, counters=both)
    server = row("rdma_bandwidth_bi", end="server", metrics=metrics, counters=both)
    for one in (client, server):
        assert counter_problem(one, client, POLICY) is None
    one_way = {**client, "counters": soft(PAYLOAD, PACKETS, PAYLOAD // 2, PACKETS)}
    assert counter_problem(one_way, client, POLICY) is not None
    # The sum of both needs the iterations of both.
    idle = {**server, "iterations": 100}
    assert "follow" in str(counter_problem(idle, client, POLICY))


def test_latency_is_proven_by_packets_each_way() -> None:
    client = row("rdma_latency", metrics={"observations": 500}, counters=soft(0, 500, 0, 500))
    assert counter_problem(client, client, POLICY) is None
    for sent, received in ((499, 500), (500, 499)):
        short = {**client, "counters": soft(10**6, sent, 10**6, received)}
        assert counter_problem(short, client, POLICY) is not None
