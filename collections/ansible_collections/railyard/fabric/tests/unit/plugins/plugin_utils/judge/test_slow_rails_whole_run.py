# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole run with a slow rail or node: the verdicts name it, and so does the sum of the rails."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from support.runs.fake_run import FakeRun
from support.runs.spoil import error_row


def slow_down(run: FakeRun, tests: list[str]) -> None:
    for row in (row for identity in tests for row in run.rows(identity)):
        row["metrics"] |= {"bandwidth_gbps": 0.1, "sent_gbps": 0.1}


def test_a_complete_run_names_the_slow_rail_and_counts_the_unmeasured_for_nothing() -> None:
    run = FakeRun()
    slow_down(run, run.ids("tcp_bandwidth", rail="rail1"))
    found = {one["id"]: one for one in run.judge()}
    slow = [found[identity] for identity in run.ids("tcp_bandwidth", rail="rail1")]
    assert [(one["outcome"], one["cause_class"]) for one in slow] == [("fail", "rail_slow")] * 2
    assert all("rate_gbps" in one["next"] for one in slow)
    run.results = [row for row in run.results if row["id"] != slow[0]["id"]]
    assert run.verdict(slow[0]["id"])["outcome"] == "unmeasured"
    assert run.verdict(slow[1]["id"])["cause_class"] == "below_floor"


def test_the_sum_of_all_rails_says_which_of_them_is_slow() -> None:
    run = FakeRun()
    for identity in run.ids("tcp_bandwidth_concurrent", rail="rail1"):
        for row in run.rows(identity):
            row["metrics"] |= {"bandwidth_gbps": 0.1, "sent_gbps": 0.1}
            row["samples"]["rx_bytes"] = [int(value * 0.1 / 0.95) for value in row["samples"]["rx_bytes"]]
    sums = [one for one in run.judge() if one["check"] == "aggregate_bandwidth"]
    assert [(one["outcome"], one["cause_class"]) for one in sums] == [("fail", "rail_slow")] * 2
    assert all("gpuserver1 or gpuserver2 rail1" in one["cause"] for one in sums)
    # A sum that keeps its floor is no finding, whatever its parts are.
    answers = [
        Answer("fail", cause=causes.explain("rail_slow", "n1 rail1")),
        Answer("pass"),
    ]
    slow_rails.name_causes(
        [
            {"id": "m1", "check": "tcp_latency", "node": "n1", "peer": "n2", "rail": "rail1"},
            {"id": "a1", "check": "aggregate_bandwidth", "parts": ["m1"]},
        ],
        answers,
        BoundFacts(),
    )
    assert answers[1].cause == {}


def test_a_complete_run_names_the_slow_node_and_its_governor() -> None:
    nodes = tuple(f"gpuserver{number}" for number in range(1, 5))
    run = FakeRun(nodes=nodes, beacon=False)
    for facts in run.facts:
        facts["cpu"] = {"governors": {"performance": 64}, "governor_available": True}
    run.facts[2]["cpu"]["governors"] = {"powersave": 64}
    tests = [line for line in run.asked if line["check"] == "tcp_bandwidth"]
    slow = [line["id"] for line in tests if "gpuserver3" in (line["node"], line["peer"])]
    slow_down(run, slow)
    found = {one["id"]: one for one in run.judge()}
    assert {found[identity]["cause_class"] for identity in slow} == {"node_slow"}
    assert {found[identity]["next"].split(". ")[0] for identity in slow} == {
        "Likely CPU governor powersave on gpuserver3, performance on the others; see `cpupower "
        "frequency-info`"
    }
    others = [found[one]["outcome"] for one in run.ids("tcp_bandwidth") if one not in slow]
    assert set(others) == {"pass"}


def test_a_complete_run_whose_ends_do_not_meet_names_the_firewall_where_pings_pass() -> None:
    run = FakeRun()
    (identity, *_others) = run.ids("tcp_bandwidth", rail="rail0")
    for row in run.rows(identity):
        error_row(row, "rendezvous_timeout", "unmeasured", row["host"])
        row["error"]["message"] = "gpuserver2 was not met at 10.0.1.2 on rail0: timed out (own ens6 is up)"
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "rendezvous_timeout")
    assert one["next"] == (
        "Likely a firewall that drops TCP on gpuserver1 or gpuserver2: pings pass on this rail; see "
        "`nft list ruleset`. do this"
    )
