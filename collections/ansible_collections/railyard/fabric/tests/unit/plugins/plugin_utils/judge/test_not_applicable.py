# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand without IP: not applicable by the inventory's word, never because nothing was found."""

from __future__ import annotations

import pytest
from support.runs.fake_run import NODES, FakeRun

IP_CHECKS = {
    "path_mtu", "path_mtu_one_way", "ping_rtt", "tcp_bandwidth", "tcp_latency", "tcp_bandwidth_bi",
    "tcp_bandwidth_concurrent", "aggregate_bandwidth",
}  # fmt: skip


def without_subnets(transport: str = "infiniband") -> FakeRun:
    """Return a run whose plan has neither address nor netdev on any rail, and whose rows are as before."""
    run = FakeRun(transport=transport, rate_gbps=100.0, driver_class="hardware")
    for node in NODES:
        for rail in run.plan["nodes"][node]["rails"]:
            rail.update(address=None, address6=None, subnet=None, subnet6=None, mtu=None, netdev=None)
    return run


def outcomes(run: FakeRun) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for verdict in run.judge():
        found.setdefault(str(verdict["check"]), set()).add(str(verdict["outcome"]))
    return found


def test_what_needs_ip_is_not_applicable_by_the_inventory() -> None:
    run = without_subnets()
    verdicts = [one for one in run.judge() if one["check"] in IP_CHECKS]
    assert {one["check"] for one in verdicts} == IP_CHECKS
    assert {one["outcome"] for one in verdicts} == {"not_applicable"}
    assert all("the inventory declares no subnet for rail" in one["basis"] for one in verdicts)
    link = [one for one in run.judge() if one["check"] in ("link", "address", "mtu")]
    assert {one["outcome"] for one in link} == {"not_applicable"}


def test_rdma_is_planned_all_the_same() -> None:
    found = outcomes(without_subnets())
    assert not any("not_applicable" in found[check] for check in found if check.startswith("rdma_bandwidth"))
    assert "not_applicable" not in found["rdma_port"]


def test_rows_that_say_nothing_excuse_no_test() -> None:
    """The inventory declares addresses, and no node has one: that is no reason to leave a test out."""
    run = FakeRun(transport="infiniband", rate_gbps=100.0, driver_class="hardware")
    run.results = []
    for facts in run.facts:
        for netdev in facts["netdevs"]:
            netdev["addresses"] = []
    found = outcomes(run)
    assert all("not_applicable" not in found[check] for check in IP_CHECKS)


@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_no_other_transport_does_without_addresses(transport: str) -> None:
    found = outcomes(without_subnets(transport))
    assert all("not_applicable" not in found[check] for check in IP_CHECKS)


def test_a_sum_lacks_no_rail() -> None:
    run = FakeRun(transport="infiniband", rate_gbps=100.0, driver_class="hardware")
    run.plan["nodes"][NODES[1]]["rails"][0].update(address=None, address6=None)
    found = outcomes(run)
    assert found["aggregate_bandwidth"] == {"not_applicable"}
    assert "not_applicable" in found["tcp_bandwidth"]
    assert found["tcp_bandwidth"] != {"not_applicable"}
