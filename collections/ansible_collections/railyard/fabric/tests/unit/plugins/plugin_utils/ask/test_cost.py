# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy

POLICY = {
    "iperf3_duration_s": 4, "iperf3_omit_s": 1, "sockperf_duration_s": 2, "ping_count": 10,
    "ping_interval_s": 0.02, "rdma_duration_s": 4, "rdma_latency_s": 2, "bidirectional": False,
}  # fmt: skip


def order(
    nodes: int, rails: int, transport: str = "tcp", rate_gbps: float | None = 10, **rules: Any
) -> dict[str, Any]:
    fabric = {
        "transport": transport,
        "mtu": 9000,
        "rails": [
            {"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/20"}
            | ({"rate_gbps": rate_gbps} if rate_gbps else {})
            for k in range(rails)
        ],
    }
    names = [f"gpu{number}" for number in range(1, nodes + 1)]
    plan = {"nodes": {name: {"node_index": number} for number, name in enumerate(names, 1)}}
    fabrics = dict.fromkeys(names, fabric)
    return requests.work_order("run", plan, fabrics, policy.merge(POLICY | rules), names)


def test_the_time_is_that_of_the_tools_and_two_seconds_around_each() -> None:
    found = cost.estimate_order(order(3, 1))
    # Five tests for each direction: two probes of the MTU, pings (0.2 s), iperf3 (5 s), sockperf (2 s).
    meeting_s = 2 * (5 * 2 + 0.2 + 5 + 2)
    # An odd number of nodes: one rests in each of three rounds.
    assert (found.pairs, found.rounds) == (3, 3)
    assert found.duration_s == pytest.approx(30 + 3 * meeting_s)
    # 10 Gbit/s are 1.25 GB/s, five seconds each way, for three pairs.
    assert found.data_bytes == pytest.approx(3 * 2 * 5 * 1.25e9)
    assert "3 pairs in 3 rounds, up to 37.5 GB over the rails." in found.text()


def test_all_rails_at_once_are_one_turn_and_both_ways_are_twice_the_data() -> None:
    one, two = (cost.estimate_order(order(2, rails, bidirectional=True)) for rails in (1, 2))
    both_s, alone_s = 5 + 2, 2 * (5 * 2 + 0.2 + 5 + 2)
    assert one.duration_s == pytest.approx(30 + alone_s + both_s)
    assert two.duration_s == pytest.approx(30 + 2 * (alone_s + both_s) + 2 * (5 + 2))
    assert one.data_bytes == pytest.approx((2 + 2) * 5 * 1.25e9)


def test_rdma_counts_as_well() -> None:
    tcp, roce = (cost.estimate_order(order(2, 1, transport)) for transport in ("tcp", "roce"))
    assert roce.duration_s - tcp.duration_s == pytest.approx(2 * (4 + 2 + 2 + 2))


def test_without_declared_rates_the_amount_is_not_known() -> None:
    found = cost.estimate_order(order(2, 2, rate_gbps=None))
    assert found.data_bytes is None
    assert "no rate_gbps is declared" in found.text()


def test_more_than_half_an_hour_wants_the_users_word() -> None:
    assert cost.estimate_order(order(32, 1, pattern="all_pairs")).refusal() is None
    said = cost.estimate_order(order(32, 8, "roce", 400, pattern="all_pairs")).refusal()
    assert said is not None
    assert "496 pairs in 31 rounds" in said
    # One meeting of such tests is too long already.
    assert cost.estimate_order(order(32, 8, "roce", 400, iperf3_duration_s=120)).refusal() is not None


@pytest.mark.parametrize(
    ("nodes", "minutes"), [(32, 15), (33, 15), (231, 15), (1000, 15), (66, 25), (65, 25)]
)
def test_what_is_measured_by_default_fits_the_time_that_there_is(nodes: int, minutes: int) -> None:
    found = cost.estimate_order(order(nodes, 8, "roce", 400, budget_min=minutes))
    # The budget is that of measuring, without the start of the runners, one after the other.
    assert 0.9 * minutes < (found.duration_s - round(nodes * 0.15)) / 60 <= minutes
    assert found.refusal() is None
    assert found.of_pairs == nodes * (nodes - 1) // 2
    assert f"{found.pairs} of {found.of_pairs} pairs in {found.rounds} rounds (" in found.text()


def test_a_thousand_nodes_are_calculated_at_once_and_a_lone_one_is_no_pair() -> None:
    assert cost.estimate_order(order(1000, 8, pattern="all_pairs")).pairs == 499500
    lone = cost.estimate_order(order(1, 2))
    assert (lone.pairs, lone.rounds, lone.data_bytes) == (0, 0, 0.0)


def test_a_sweep_is_calculated_by_what_it_asks() -> None:
    swept = cost.estimate_order(order(4, 2, pattern="all_pairs", questions="together"))
    # All rails at once: the path, and what they carry, in both directions. Four runners are started in 1 s.
    assert swept.duration_s == pytest.approx(30 + 1 + 3 * (2 * 2 + 2 * (5 + 2)))
    assert "6 pairs in 3 rounds (the path and all rails at once)" in swept.text()
    ring = cost.estimate_order(order(6, 2, pattern="ring", questions="one_by_one"))
    assert ring.duration_s == pytest.approx(30 + 1 + 2 * (4 * 2 + 4 * (5 + 2)))
    large = cost.estimate_order(order(1000, 2, pattern="ring", questions="one_by_one"))
    assert large.duration_s == pytest.approx(30 + 1000 * 0.15 + 2 * (4 * 2 + 4 * (5 + 2)))
    assert ring.data_bytes == pytest.approx(6 * 2 * 2 * 5 * 1.25e9)
    assert "6 of 15 pairs in 2 rounds (the path and each rail alone)" in ring.text()
