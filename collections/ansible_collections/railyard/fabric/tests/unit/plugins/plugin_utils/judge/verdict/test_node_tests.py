# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A test of one node rests on its facts, and on what others heard of it."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs.fake_run import NODES, FakeRun
from support.runs.spoil import error_row, obstacle

HEALTHY = FakeRun()


@pytest.mark.parametrize("name", ["address_in_use", "stranger"])
def test_an_address_claimed_by_an_unknown_host_fails_where_it_belongs(name: str) -> None:
    run = HEALTHY.copy()
    identity = run.ids("ping_rtt", node="gpuserver1", rail="rail0")[0]
    error_row(run.rows(identity, "client")[0], name, "unmeasured", host="gpuserver2")
    failed = [one for one in run.judge() if one["outcome"] == "fail"]
    assert [(one["node"], one["rail"], one["check"]) for one in failed] == [
        ("gpuserver2", "rail0", "address")
    ]
    assert failed[0]["cause_class"] == "address_duplicate"
    assert run.verdict(identity)["outcome"] == "unmeasured"
    assert run.status() == 1


def test_an_address_of_the_plan_that_no_subnet_declares_is_not_applicable() -> None:
    run = HEALTHY.copy()
    for node in run.plan["nodes"].values():
        node["rails"][0]["address"] = None
    ones = [run.verdict(identity) for identity in run.ids("address", rail="rail0")]
    assert [one["outcome"] for one in ones] == ["not_applicable"] * 2
    # The facts being gone as well does not make anything else not applicable.
    run.facts = []
    assert {one["outcome"] for one in run.judge()} == {"not_applicable", "unmeasured"}


@pytest.mark.parametrize("gone", ["row", "node", "held up"])
def test_an_address_passes_where_all_that_could_say_whom_they_heard_did(gone: str) -> None:
    """A node without the test has heard no one; one whose row is gone may have heard another owner."""
    run = HEALTHY.copy()
    test = run.ids("tcp_bandwidth", rail="rail0")[0]
    lost = [row for row in run.results if row["host"] == NODES[1] and gone in ("node", "held up")]
    lost += run.rows(test, "server") if gone == "row" else []
    run.results = [row for row in run.results if not any(row is one for one in lost)]
    run.facts = run.facts[:1] if gone == "node" else run.facts
    rows = [obstacle(run.manifest["run"], NODES[1], "not_staged")] if gone == "held up" else []
    found = {(one["node"], one["rail"]): one for one in run.judge(rows) if one["check"] == "address"}
    assert found[NODES[0], "rail1"]["outcome"] == "pass"
    one = found[NODES[0], "rail0"]
    assert (one["outcome"], one["cause_class"]) == (
        ("unmeasured", "no_row") if gone == "row" else ("pass", None)
    )
    assert gone != "row" or f"wrote no row of test {test}" in one["cause"]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "fail"),
        ({"run": "20200101T000000Z-0000"}, "pass"),
        ({"peer": "x"}, "pass"),
        ({"host": 7}, "pass"),
    ],
)
def test_only_an_end_of_a_test_of_this_run_claims_an_address(changes: dict[str, Any], outcome: str) -> None:
    run = HEALTHY.copy()
    row = run.rows(run.ids("ping_rtt", node=NODES[0], rail="rail0")[0], "client")[0]
    error_row(row, "stranger", "unmeasured", host=changes.get("host", NODES[1]))
    row.update({key: value for key, value in changes.items() if key != "host"})
    one = run.verdict(run.ids("address", node=NODES[1], rail="rail0")[0])
    assert one["outcome"] == outcome
    assert outcome == "pass" or "what was seen" in one["cause"]


def test_no_third_nodes_address_is_contested_by_a_test_of_two_others() -> None:
    run = FakeRun(nodes=(*NODES, "gpuserver3"), beacon=False)
    row = run.rows(run.ids("ping_rtt", node=NODES[0], peer=NODES[1], rail="rail0")[0], "client")[0]
    error_row(row, "stranger", "unmeasured", host="gpuserver3")
    assert run.verdict(run.ids("address", node="gpuserver3", rail="rail0")[0])["outcome"] == "pass"


def test_hops_rest_on_the_latencies_that_are_trusted() -> None:
    """Where the inventory names the leaves, switches on the way are planned."""
    run = FakeRun(transport="roce")
    for rail in (rail for node in run.plan["nodes"].values() for rail in node["rails"]):
        rail["leaf"] = "leaf1"
    run.plan_again()
    hops = run.ids("hops", node=NODES[0], rail="rail0")[0]
    forth, back = run.ids("rdma_latency", rail="rail0")
    one = run.verdict(hops)
    assert (one["outcome"], sorted(one["rows"])) == ("recorded", sorted([forth, back]))
    # Neither where there cannot be such an attempt, nor where it is not proven.
    for row in run.rows(forth):
        row["attempt"] = 4
    assert run.verdict(hops)["rows"] == [back]
    for row in run.rows(back):
        row["proof"] = "unproven"
    assert run.verdict(hops)["cause_class"] == "hops_unclear"
    run.facts = run.facts[1:]
    assert run.verdict(hops)["cause_class"] == "node_unreachable"
