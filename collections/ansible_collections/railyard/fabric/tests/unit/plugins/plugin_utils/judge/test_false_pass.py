# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to a pass, or to exit status 0, without a measurement; each was open once."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import (
    PROVEN,
    UNPROVEN,
    Allowance,
    Claim,
    prove,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
    rejudge,
    run_status,
    verdict,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from support.runs.fake_run import NODES, RUN, FakeRun, fabric

HEALTHY = FakeRun()


def summed_up(run: FakeRun) -> dict[str, Any]:
    verdicts = run.judge()
    judged = rejudge.Judged(verdicts, run.status(), incomplete=run.incomplete())
    return summary.summarise_verdicts(run.plan, judged)


def test_a_lone_node_measured_nothing() -> None:
    """As --limit does it."""
    run = HEALTHY.copy()
    del run.plan["nodes"]["gpuserver2"]
    run.order = requests.work_order(RUN, run.plan, {"gpuserver1": fabric()}, run.policy, reached=NODES)
    run.plan_again()
    assert {one["outcome"] for one in run.judge()} == {"pass"}  # links, addresses, MTUs
    said = summed_up(run)
    assert said["exit_status"] == 3
    assert "nothing is measured over gpuserver1 rail0, gpuserver1 rail1" in said["headline"]
    assert "proven" not in said["headline"]


def test_a_rail_that_no_other_node_has_measured_nothing() -> None:
    run = HEALTHY.copy()
    run.plan_again([line for line in run.asked if line["peer"] is None or line["rail"] == "rail0"])
    assert run.status() == 3
    assert "gpuserver1 rail1, gpuserver2 rail1" in str(run.incomplete())


@pytest.mark.parametrize("transport", ["roce", "infiniband"])
def test_a_declared_rdma_that_was_not_requested_is_no_zero(transport: str) -> None:
    run = HEALTHY.copy()
    run.plan["transport"] = "mixed"
    assert run.status() == 0
    run.plan["nodes"]["gpuserver2"]["transport"] = transport
    assert run.status() == 3
    assert transport in str(run.incomplete())
    # One RDMA test covers one rail of one pair, and a look at the port covers none.
    tests = [line for line in run.asked if line["check"] == "tcp_bandwidth" and line["node"] == NODES[0]]
    one = {**tests[0], "check": "rdma_bandwidth"}
    left = requests.rdma_left_out(run.plan, [*run.asked, one])
    assert str(left).endswith("no RDMA test covers gpuserver2 rail1")
    both = [{**line, "check": "rdma_bandwidth"} for line in tests]
    assert requests.rdma_left_out(run.plan, [*run.asked, *both]) is None
    looked_at = [{**line, "check": "rdma_port"} for line in run.asked if line["check"] == "link"]
    assert transport in str(requests.rdma_left_out(run.plan, [*run.asked, *looked_at]))


@pytest.mark.parametrize(
    ("document", "change"),
    [
        ("manifest", {"run": None}),
        ("plan", {"nodes": None}),
        ("plan", {"nodes": {"gpuserver1": {}, "gpuserver2": {}}}),
        ("plan", {"nodes": {"gpuserver1": {"rails": [{}]}}}),
        ("asked", {"node": ["gpuserver1"]}),
        ("asked", {"check": None}),
        ("asked", {"rail": {}}),
        # An aggregate of nothing is no question.
        *(("asked", {"parts": said}) for said in (None, "m00000", [["m00000"]], ["m00000", "m00000"])),
        # Another schema is not judged by this one's rules.
        *(
            (name, {"schema": said})
            for name in ("manifest", "plan", "asked")
            for said in (2, None, True, "1")
        ),
    ],
)
def test_a_damaged_question_is_named_and_never_a_verdict(document: str, change: dict[str, Any]) -> None:
    run = HEALTHY.copy()
    (run.asked[-1] if document == "asked" else getattr(run, document)).update(change)
    with pytest.raises(verdict.JudgeError, match=f"{document}.*{next(iter(change))}"):
        run.judge()


def test_a_manifest_that_does_not_know_what_was_requested_is_incomplete() -> None:
    run = HEALTHY.copy()
    assert run.status() == 0
    del run.manifest["asked"]
    assert run.status() == 3
    said = summed_up(run)
    assert "proven" not in said["headline"]


def test_facts_that_do_not_say_of_which_run_they_are_are_no_facts() -> None:
    run = HEALTHY.copy()
    for row in run.facts:
        del row["run"]
    assert {one["outcome"] for one in run.judge()} == {"unmeasured"}


@pytest.mark.parametrize("ceiling", [None, 1.97])
@pytest.mark.parametrize("check", ["tcp_bandwidth", "aggregate_bandwidth"])
def test_a_floor_of_zero_is_none(check: str, ceiling: float | None) -> None:
    run = FakeRun(floors={check: {"bandwidth_gbps": [0, ceiling]}})
    one = run.verdict(run.ids(check)[0])
    assert (one["outcome"], one["floor"]) == ("recorded", None)
    assert "floor of 0" in one["basis"]
    # What the site lays down above is kept, and so is what the link can carry.
    assert one["ceiling"]["bandwidth_gbps"] <= (ceiling or 2 * 1.02)
    most = FakeRun(floors={check: {"bandwidth_gbps": [0, 0.5]}})
    assert most.verdict(most.ids(check)[0])["cause_class"] == "above_ceiling"


@pytest.mark.parametrize(
    ("check", "key"),
    [
        ("tcp_bandwidth", "metrics.bandwidth_gbps"),
        ("rdma_bandwidth", "iterations"),
        ("rdma_latency", "metrics.observations"),
        ("tcp_latency", "metrics.observations"),
        ("rdma_bandwidth", "counters.tx_bytes"),
    ],
)
@pytest.mark.parametrize("value", [10**308, 10**400, 2**64, -(10**400)])
def test_counts_beyond_64_bits_stop_nothing_and_pass_nothing(check: str, key: str, value: int) -> None:
    run = FakeRun(transport="roce", floors={"tcp_latency": {"latency_average_us": [0, 1000]}})
    identity = run.ids(check)[0]
    row = run.rows(identity, "client")[0]
    *inside, last = key.split(".")
    for name in inside:
        row = row[name]
    row[last] = [0, value] if inside == ["counters"] else value
    assert run.verdict(identity)["outcome"] == "unmeasured"


@pytest.mark.parametrize("key", ["rail", "network", "nodes", "count"])
def test_a_garbled_beacon_stops_nothing(key: str) -> None:
    run = HEALTHY.copy()
    identity = run.ids("cabling")[0]
    heard = {"rail": "rail1", "network": "10.0.0.0/24", "count": 1, "nodes": ["gpuserver2"]}
    run.rows(identity)[0]["cabling"]["foreign"] = [{name: heard[name] for name in heard if name != key}]
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")


@pytest.mark.parametrize(
    ("key", "value"),
    [("address", "10.0.0"), ("address", 5), ("address6", "fd00::g/64"), ("mtu", "9000"), ("mtu", -1)],
)
def test_a_damaged_plan_is_named_and_never_a_verdict(key: str, value: object) -> None:
    run = HEALTHY.copy()
    run.plan["nodes"]["gpuserver2"]["rails"][1][key] = value
    with pytest.raises(verdict.JudgeError, match=f"gpuserver2 rail1: {key} is"):
        run.judge()


def test_a_run_of_which_nothing_applies_proves_nothing() -> None:
    run = HEALTHY.copy()
    verdicts = [{**one, "outcome": "not_applicable"} for one in run.judge()]
    for said_of_it in (verdicts, []):
        assert (
            run_status.find_exit_status({one["outcome"] for one in said_of_it}, run.incomplete() is None) == 3
        )
    said = summary.summarise_verdicts(run.plan, rejudge.Judged(verdicts, 3))
    assert "proven" not in said["headline"]


def test_integers_of_a_policy_are_given_to_tools_as_such() -> None:
    rules = policy.merge({"iperf3_duration_s": 4.0, "ping_interval_s": 0.5})
    assert (repr(rules["iperf3_duration_s"]), rules["ping_interval_s"]) == ("4", 0.5)


@pytest.mark.parametrize("garbage", [[], {}, ["gpuserver1"]])
def test_a_row_of_no_node_stops_nothing(garbage: object) -> None:
    run = HEALTHY.copy()
    run.facts.append({**run.facts[0], "node": garbage})
    assert run.status() == 0
    said = run_status.list_unplanned_rows(run.manifest, run.asked, [{**run.results[0], "id": garbage}])
    assert len(said) == 1


MOVED = {name: [0, 1000] for name in ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")}


def test_counters_that_are_reported_alone_prove_nothing_of_the_link() -> None:
    run = HEALTHY.copy()
    notices = [name for name, kind in link_errors.KINDS.items() if kind == link_errors.NOTICE]
    for row in run.results:
        if row["link_errors"]:
            row["link_errors"] = {notices[0]: [1, 1]}
    found = {(one["outcome"], one["cause_class"]) for one in run.judge() if one["check"] == "link_errors"}
    assert found == {("unmeasured", "no_error_counters")}
    assert run.status() == 3


@pytest.mark.parametrize(
    ("claim", "proof"),
    [
        (Claim("bytes", 1000.0, 1000.0), PROVEN),
        (Claim("bytes", 0.0, 0.0, 1000.0, 1000.0), PROVEN),
        (Claim("bytes", 0.0, 0.0), UNPROVEN),
        (Claim("packets", 0.0, 0.0), UNPROVEN),
        (Claim("bytes", 5e9, 0.0), UNPROVEN),
        (Claim("bytes", 1000.0, 1000.0, 5e9, 0.0), UNPROVEN),
        (Claim("words", 10.0, 1000.0), UNPROVEN),
    ],
)
def test_a_claim_of_nothing_is_not_proven(claim: Claim, proof: str) -> None:
    assert prove(claim, "client", MOVED, {}, Allowance(0, 1))[0] == proof


def test_a_boot_that_is_unknown_is_not_the_same_boot() -> None:
    run = HEALTHY.copy()
    for row in run.facts:
        row["boot_id"] = None
    for row in run.results:
        if row.get("other_end"):
            row["other_end"] = {"boot_id": None}
    assert run.verdict(run.ids("tcp_bandwidth")[0])["cause_class"] == "facts_garbled"
    assert run.status() == 3
