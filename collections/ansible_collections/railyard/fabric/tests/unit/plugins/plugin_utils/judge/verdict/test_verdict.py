# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy run, then broken in every way: nothing that was not measured may pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status, verdict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs.fake_run import NODES, FakeRun
from support.runs.spoil import (
    CHECKS_BETWEEN,
    FakeRunView,
    mutate,
    obstacle,
    paths,
    spoil_each_field,
    still_true,
)

GOOD = ("pass", "recorded")
HEALTHY = FakeRun()


def test_a_healthy_run_is_proven() -> None:
    verdicts = HEALTHY.judge()
    outcomes = {one["check"]: one["outcome"] for one in verdicts}
    assert outcomes == {
        "link": "pass",
        "address": "pass",
        "mtu": "pass",
        "path_mtu": "pass",
        "path_mtu_one_way": "pass",
        "ping_rtt": "recorded",
        "tcp_bandwidth": "pass",
        "tcp_latency": "recorded",
        "tcp_bandwidth_bi": "recorded",
        "tcp_bandwidth_concurrent": "pass",
        "link_errors": "pass",
        "cabling": "pass",
        "link_address_owner": "pass",
        "reply_path": "pass",
        "aggregate_bandwidth": "pass",
    }
    assert [one["id"] for one in verdicts] == [line["id"] for line in HEALTHY.asked]
    # 2 nodes x 2 rails x 3 facts, and x 3 questions about cables; 2 directions x 2 rails x 5 alone, 2 rails
    # both ways, 2 directions x 2 rails at once; 2 nodes x 2 rails of link errors; 2 aggregates
    assert len(verdicts) == 12 + 12 + 20 + 2 + 4 + 4 + 2
    assert HEALTHY.status() == 0


def test_every_pass_has_floor_ceiling_basis_and_proof() -> None:
    for one in HEALTHY.judge():
        if one["outcome"] == "pass":
            assert one["floor"], one
            assert one["ceiling"], one
            assert one["proof"] == "proven", one
        assert one["basis"], one
        assert (one["cause"], one["next"], one["cause_class"]) == (None, None, None)


# Fields of a result row that a TCP verdict does not rest on, each with the reason.
IRRELEVANT = {
    "tool_version": "any two versions of sockperf and ping measure TCP together; iperf3's: test_forged.py",
    "hca": "no RDMA test is asked",
    "gid_index": "no RDMA test is asked",
    "gid_type": "no RDMA test is asked",
    "active_mtu_bytes": "no RDMA test is asked",
    "qps": "no RDMA test is asked",
    "group": "a test that ran alone has none, and says so or not",
    "other_rails": "which have to be shown, the other rails' rows say: test_forged.py",
    "raw": "where to read on; the numbers are in the row",
    "link_errors": "the link_errors verdict of the end's own rail rests on it",
    "bandwidth_is": "TCP says each way's number, and their sum is reckoned",
    "metrics.retransmits": "shown, never judged",
    "metrics.cpu_percent": "shown, never judged",
    "metrics.node_cpu_percent": "shown, never judged",
}
# Relevant for some checks only: (field, check, end) that may change without changing the verdict.
IRRELEVANT_HERE: dict[str, Callable[[str, str], bool]] = {
    "message_bytes": lambda check, end: (check, end) != ("tcp_latency", "client"),
    "latency_is": lambda check, end: end == "server",
    "mtu_bytes": lambda check, end: check in ("path_mtu", "path_mtu_one_way") and end == "server",
    "metrics.sent_gbps": lambda check, end: end == "server",
    # Only the aggregate rests on the receiver's samples.
    "samples": lambda check, end: True,
    "samples.t_s": lambda check, end: True,
    "samples.tx_bytes": lambda check, end: True,
    "samples.rx_bytes": lambda check, end: True,
}


def is_relevant(path: str, check: str, end: str) -> bool:
    if path.split(".")[0] in IRRELEVANT or path in IRRELEVANT:
        return False
    return not (path in IRRELEVANT_HERE and IRRELEVANT_HERE[path](check, end))


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_no_field_of_a_row_can_be_spoilt_unnoticed(check: str, end: str) -> None:
    for what, one in spoil_each_field(HEALTHY, check, end, lambda path: is_relevant(path, check, end)):
        assert one["outcome"] not in GOOD, what
        assert one["cause"], what
        assert one["next"]
        json.dumps(one, allow_nan=False)


def test_rows_of_unknown_hosts_are_named_and_pass_nothing() -> None:
    run = HEALTHY.copy()
    other_run = {**run.results[0], "run": "20200101T000000Z-0000"}
    not_asked = {**run.results[0], "id": "m99999"}
    run.results += [other_run, not_asked]
    assert len(run_status.list_unplanned_rows(run.manifest, run.asked, run.results)) == 2
    assert len(run.judge()) == len(run.asked)
    # A row of another run under a planned id makes the test doubtful: it is not known which one is meant.
    run.results.append({**run.rows(run.ids("tcp_bandwidth")[0], "client")[0], "run": "20200101T000000Z-0000"})
    assert run.verdict(run.ids("tcp_bandwidth")[0])["outcome"] == "unmeasured"


def test_a_node_without_facts_is_unreachable_in_all_its_checks() -> None:
    run = HEALTHY.copy()
    run.facts = run.facts[:1]
    for one in run.judge():
        # What a cable leads to cannot be tested where there is no node at its other end.
        touched = NODES[1] in (one["node"], one["peer"]) or one["id"].startswith("c")
        assert one["outcome"] == ("unmeasured" if touched else "pass"), one
        if one["id"].startswith("c") and one["node"] == NODES[0]:
            assert one["cause_class"] == "peer_unheard"
            assert NODES[1] in one["cause"]
            continue
        assert one["cause_class"] == ("node_unreachable" if touched else None)
        assert not touched or (NODES[1] in one["cause"] and "unreachable" in one["cause"])
    assert run.status() == 3


def test_an_empty_plan_is_an_error() -> None:
    run = HEALTHY.copy()
    run.asked = []
    with pytest.raises(verdict.JudgeError, match="empty"):
        run.judge()


@pytest.mark.parametrize(
    "change",
    [
        {"node": "ghost"},
        {"peer": "ghost"},
        {"peer": None},
        {"peer": NODES[0]},
        {"parts": 5},
        {"parts": ["m00001"]},
        {"rail": "rail9"},
        {"check": "magic"},
        {"id": "f00000"},
    ],
)
def test_a_planned_line_beside_the_plan_is_an_error(change: dict[str, Any]) -> None:
    run = HEALTHY.copy()
    line = next(line for line in run.asked if (line["check"], line["node"]) == ("tcp_bandwidth", NODES[0]))
    line.update(change)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    with pytest.raises(verdict.JudgeError, match=line["id"]):
        run.judge()


def test_same_input_same_bytes_in_whatever_order_the_rows_came() -> None:
    run = HEALTHY.copy()
    run.results.reverse()
    run.facts.reverse()
    assert json.dumps(run.judge()) == json.dumps(HEALTHY.judge())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=120, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_garbage_anywhere_never_stops_the_judge_and_never_passes(data: st.DataObject) -> None:
    tests = [place for place, row in enumerate(HEALTHY.results) if row["id"].startswith("m")]
    index = data.draw(st.sampled_from(tests))  # test_cabling.py spoils the others
    original = HEALTHY.results[index]
    relevant = [path for path in paths(original) if is_relevant(path, original["check"], original["end"])]
    path = data.draw(st.sampled_from([path for path in relevant if path != "id"]))
    value = data.draw(json_values)
    run = FakeRunView(HEALTHY, original["id"], original["end"])
    mutate(run.row, path, value)
    before: Any = original
    for key in path.split("."):
        before = before[key]
    one = run.verdict(original["id"])
    json.dumps(one, allow_nan=False)
    # A number may be changed into another that is as good; anything that is not a number may not.
    number = isinstance(value, (int, float)) and isinstance(before, (int, float))
    if not number and not still_true(path, value, False, run.row, original):
        assert one["outcome"] not in GOOD or (path_is_pair(value) and path_is_pair(before)), (path, value)


def path_is_pair(value: Any) -> bool:
    numbers = isinstance(value, list) and all(isinstance(edge, (int, float)) for edge in value)
    return numbers and len(value) == 2


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(row=st.dictionaries(st.sampled_from(sorted(HEALTHY.results[0])), json_values), facts=json_values)
def test_rows_and_facts_of_pure_noise_never_stop_the_judge(row: dict[str, Any], facts: Any) -> None:
    run = copy.copy(HEALTHY)
    identity = HEALTHY.ids("tcp_bandwidth")[0]
    run.results = [*(other for other in HEALTHY.results if other["id"] != identity), {**row, "id": identity}]
    noisy = {**HEALTHY.facts[1], "netdevs": facts}
    run.facts = [HEALTHY.facts[0], noisy]
    assert {one["outcome"] for one in run.judge() if one["id"] == identity} == {"unmeasured"}


def test_a_node_that_could_not_be_staged_says_why() -> None:
    run = HEALTHY.copy()
    run.results = []
    said = run.judge([obstacle(run.manifest["run"], NODES[1], "not_staged")])
    tests = [one for one in said if one["peer"] is not None and one["rail"] is not None]
    assert {(one["outcome"], one["cause_class"]) for one in tests} == {("unmeasured", "not_staged")}
    assert all("No space left on device" in one["cause"] and NODES[1] in one["cause"] for one in tests)


def test_an_error_of_a_node_changes_no_outcome_and_another_runs_does_not_count() -> None:
    run = HEALTHY.copy()
    rows = [obstacle(run.manifest["run"], NODES[1], "not_staged")]
    assert [one["outcome"] for one in run.judge(rows)] == [one["outcome"] for one in run.judge()]
    run.results = []
    strange = run.judge([obstacle("20200101T000000Z-0000", NODES[1], "not_staged")])
    assert "not_staged" not in {one["cause_class"] for one in strange}


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        (lambda told: None, ()),  # a run of an earlier version
        (lambda told: told, ()),
        *((lambda told, more=more: {**told, NODES[0]: {"rows": told[NODES[0]]["rows"] + more}}, NODES[:1])
          for more in (1, -1)),
        (lambda told: {NODES[1]: told[NODES[1]]}, NODES[:1]),
        (lambda told: {**told, NODES[0]: "all"}, NODES[:1]),
        (lambda told: {}, NODES),
        (lambda told: "all", NODES),
    ],
)  # fmt: skip
def test_rows_that_were_handed_over_and_are_not_here_are_lost(
    told: Callable[[Any], Any], lost: tuple[str, ...]
) -> None:
    run = HEALTHY.copy()
    here = {node: sum(row["host"] == node for row in run.results) for node in NODES}
    run.manifest["archives"] = told({node: {"rows": count} for node, count in here.items()})
    for one in (one for one in run.judge() if one["check"] == "link_errors"):
        assert (one["outcome"] == "unmeasured") is (one["node"] in lost)
        assert one["node"] not in lost or f"{here[one['node']]} are in the folder" in one["cause"]
