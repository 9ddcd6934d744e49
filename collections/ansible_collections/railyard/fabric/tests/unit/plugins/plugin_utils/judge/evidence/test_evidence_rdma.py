# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Is an RDMA row the planned test's: its port, RDMA MTU, window, directions and numbers?"""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_false_pass_rdma import (
    CHECKS,
    SOFT,
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


@pytest.mark.parametrize("check", CHECKS)
def test_a_row_that_names_no_port_is_none_of_a_rail_without_one(check: str) -> None:
    run = SOFT.copy()
    run.facts[0]["hcas"] = []
    for row in run.rows(run.ids(check)[0]):
        row["hca"] = None
    one = run.verdict(run.ids(check)[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")


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
