# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sums over the rails of two nodes rest on tests that ran at once."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs.fake_run import FakeRun
from support.runs.spoil import FakeRunView, mutate

HEALTHY = FakeRun()


@pytest.mark.parametrize("identity", HEALTHY.ids("aggregate_bandwidth"))
@pytest.mark.parametrize("path", ["samples", "samples.t_s", "samples.rx_bytes"])
@pytest.mark.parametrize(
    "value", [None, [], "x", [1, 2], [0.1] * 29, [float("nan")] * 29, list(range(29, 0, -1))]
)
def test_the_aggregate_rests_on_the_receivers_samples(identity: str, path: str, value: Any) -> None:
    part = next(line for line in HEALTHY.asked if line["id"] == identity)["parts"][1]
    run = FakeRunView(HEALTHY, part, "server")
    mutate(run.row, path, value)
    one = run.verdict(identity)
    assert one["outcome"] == "unmeasured"
    assert one["cause"]


def test_an_aggregate_with_an_unplanned_part_is_unmeasured() -> None:
    run = HEALTHY.copy()
    identity = run.ids("aggregate_bandwidth")[0]
    next(line for line in run.asked if line["id"] == identity)["parts"] = ["m77777"]
    assert run.verdict(identity)["outcome"] == "unmeasured"


def test_a_sum_is_of_tests_at_once_between_its_own_two_nodes() -> None:
    run = HEALTHY.copy()
    lines = [line for line in run.asked if line["check"] == "aggregate_bandwidth"]
    lines[0]["parts"] = lines[1]["parts"]
    one = run.verdict(lines[0]["id"])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "part_unmeasured")
    assert f"is of {lines[1]['node']} and {lines[1]['peer']}" in one["cause"]
    lines[0]["parts"] = run.ids("tcp_bandwidth", node=lines[0]["node"])
    assert "is a tcp_bandwidth" in run.verdict(lines[0]["id"])["cause"]


SLOT = {"speed_gts": 2.5, "width": 1, "max_speed_gts": 2.5, "max_width": 1}
SLOT_GBPS = 2.5 * 8 / 10 * 0.905  # line code, then packets of 256 bytes


@pytest.mark.parametrize(
    ("check", "transport", "rate_gbps", "link", "least_gbps"),
    [
        # Of each slot the best rail alone: TCP's of TCP, RDMA's of RDMA, which is faster here.
        ("aggregate_bandwidth", "roce", 1.0, None, 0.9 * 2 * 0.85),
        ("rdma_aggregate_bandwidth", "roce", 1.0, None, 0.9 * 2 * 0.95),
        # RDMA is held to what the slots carry where that is known, TCP is not.
        ("aggregate_bandwidth", "roce", 1.0, SLOT, 0.9 * 2 * 0.85),
        ("rdma_aggregate_bandwidth", "roce", 1.0, SLOT, 0.9 * 2 * SLOT_GBPS),
        # Beyond 100 Gbit/s no authority says what TCP reaches on several rails: no less than on one.
        ("aggregate_bandwidth", "tcp", 100, None, 0.9 * 2 * 0.85),
        ("aggregate_bandwidth", "tcp", 100.001, None, 0.9 * 0.85),
    ],
)
def test_rails_of_shared_slots_carry_at_once_what_the_slots_do(
    check: str, transport: str, rate_gbps: float, link: dict[str, Any] | None, least_gbps: float
) -> None:
    """Four rails on two cards."""
    run = FakeRun(rate_gbps, "hardware", transport, rails=4, node_class="hardware", beacon=False)
    for facts in run.facts:
        for number, device in enumerate(facts["netdevs"][:4]):
            device |= {"pci": f"0000:{'3b' if number < 2 else '5e'}:00.{number % 2}", "pci_link": link}
    for identity in run.ids("tcp_bandwidth"):
        for row in run.rows(identity):
            row["metrics"] |= {"bandwidth_gbps": 0.85, "sent_gbps": 0.851}
    for identity in run.ids(check):
        assert run.verdict(identity)["floor"] == {"bandwidth_gbps": pytest.approx(least_gbps, abs=1e-3)}
