# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is an RDMA row the planned test's: its port, RDMA MTU, window, directions and numbers?"""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_false_pass_rdma import (
    BANDWIDTHS,
    CHECKS,
    SOFT,
    both_ends,
    judged,
)
from support.runs.fake_run import NODES, FakeRun


def test_a_larger_rdma_mtu_than_the_networks_is_not_the_planned_test() -> None:
    run = SOFT.copy()
    for rail in (rail for node in run.plan["nodes"].values() for rail in node["rails"]):
        rail["mtu"] = 1500
    for row in run.results:
        row["mtu_bytes"] = 1500
    one = run.verdict(run.ids("rdma_latency")[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "mtu_differs")


@pytest.mark.parametrize("check", [check for check in BANDWIDTHS if not check.endswith("_bi")])
def test_the_sum_of_both_directions_is_never_taken_for_one(check: str) -> None:
    one = both_ends(SOFT, check, lambda row: row.update(bandwidth_is="sum_of_both"))
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")


@pytest.mark.parametrize("check", BANDWIDTHS)
def test_a_window_longer_than_the_full_test_is_none(check: str) -> None:
    """Alone perftest counts for 2 s of its 4, in a group the window is what all rails share of the 4."""
    for end_s, outcome in ((3.4, "pass"), (5.4, "pass"), (6.0, "unmeasured"), (3600.0, "unmeasured")):
        one = judged(SOFT, check, "client", lambda row, end_s=end_s: row.update(window_s=[1.4, end_s]))
        assert one["outcome"] == outcome, end_s


@pytest.mark.parametrize("check", CHECKS)
def test_a_row_that_names_no_port_is_none_of_a_rail_without_one(check: str) -> None:
    run = SOFT.copy()
    run.facts[0]["hcas"] = []
    for row in run.rows(run.ids(check)[0]):
        row["hca"] = None
    one = run.verdict(run.ids(check)[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")


@pytest.mark.parametrize(("average_us", "outcome"), [(1e9, "fail"), (1.1e9, "unmeasured")])
def test_beyond_1000_s_no_latency_is_accepted(average_us: float, outcome: str) -> None:
    def slow(row: dict[str, Any]) -> None:
        row["window_s"] = [0.1, 1e5]
        row["metrics"] |= {name: average_us for name in row["metrics"] if name.endswith("_us")}
        row["metrics"]["observations"] = 20

    run = SOFT.copy()
    run.manifest["end"]["at"] = "2026-11-23T10:16:10.000Z"
    assert judged(run, "rdma_latency", "client", slow)["outcome"] == outcome


@pytest.mark.parametrize("check", BANDWIDTHS)
def test_other_queue_pairs_at_both_ends_are_not_the_planned_test(check: str) -> None:
    one = both_ends(SOFT, check, lambda row: row.update(qps=2))
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")
    assert "qps is 2, planned was 4" in one["cause"]


@pytest.mark.parametrize("end", ["client", "server"])
def test_each_ends_directions_make_its_own_sum(end: str) -> None:
    """Each number within 5 % of the other end's, and the sum 8 % off its parts."""

    def apart(row: dict[str, Any]) -> None:
        row["metrics"] |= {
            "bandwidth_gbps": 1.9 * 0.96,
            "forward_gbps": 0.95 * 1.04,
            "reverse_gbps": 0.95 * 1.04,
        }

    one = judged(SOFT, "tcp_bandwidth_bi", end, apart)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "ends_disagree")
    assert "it reports" in one["cause"]


@pytest.mark.parametrize(("key", "theirs"), [("gid_type", "RoCE v1"), ("active_mtu_bytes", 2048)])
def test_both_ends_run_over_the_same_kind_of_rdma(key: str, theirs: object) -> None:
    """Each is its own rail's, as its facts say; only together are they none."""
    run = FakeRun(transport="roce", driver_class="hardware")
    identity = run.ids("rdma_latency", node=NODES[0])[0]
    for port in run.facts[1]["hcas"]:
        port["driver"] = "mlx4_core"  # 2048 is enough there
        if key == "gid_type":
            for gid in port["gids"]:
                gid["type"] = theirs
    for row in run.rows(identity, "server"):
        row[key] = theirs
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "ends_disagree")
    assert key in one["cause"]
