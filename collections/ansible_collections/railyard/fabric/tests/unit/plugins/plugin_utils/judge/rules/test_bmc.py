# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A BMC from the planned line to the verdict."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import bmc
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.bmc_probe import Reply
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import headline
from support.runs.fake_bmc import ADDRESSES, REFUSED, SILENT, TAKEN, lines, with_bmcs
from support.runs.fake_run import NODES, FakeRun
from support.runs.spoil import GARBAGE, mutate, paths


def judge_bmcs(run: FakeRun) -> list[dict[str, Any]]:
    return [one for one in run.judge() if one["check"] == "bmc"]


def test_each_declared_bmc_is_planned_once_and_on_no_rail() -> None:
    asked = lines(with_bmcs())
    assert [(line["id"], line["node"], line["rail"], line["peer"], line["tool"]) for line in asked] == [
        ("b00000", NODES[0], None, None, "tcp"),
        ("b00001", NODES[1], None, None, "tcp"),
    ]
    assert lines(FakeRun()) == []
    # Of earlier versions, and still accepted.
    assert lines(with_bmcs(None, None, bmc_check="rmcp")) == asked


def test_a_bmc_that_answers_passes_and_the_run_is_complete() -> None:
    run = with_bmcs()
    for one in judge_bmcs(run):
        assert (one["outcome"], one["proof"]) == ("pass", "proven")
        assert one["floor"] == one["ceiling"] == {"answers": True}
        assert one["observed"] == {
            "answers": True, "port": 443, "questions": 1, "round_trip_us": 812.5,
        }  # fmt: skip
        assert one["basis"]
        assert one["rows"] == [one["id"]]
    assert run.status() == 0
    assert run_status.list_unplanned_rows(run.manifest, run.asked, run.results) == []


@pytest.mark.parametrize(
    ("reply", "outcome", "cause"),
    [
        (SILENT, "fail", "bmc_silent"),
        (Reply("silent", 443, None, 2, message="No route to host"), "fail", "bmc_silent"),
        (Reply("no_way", 443, message="Network is unreachable"), "unmeasured", "bmc_no_way"),
        (None, "unmeasured", "bmc_not_asked"),
    ],
)
def test_one_that_does_not_is_reported_with_its_reason(reply: Reply | None, outcome: str, cause: str) -> None:
    run = with_bmcs(reply, TAKEN)
    bad, good = judge_bmcs(run)
    assert (bad["outcome"], bad["cause_class"], good["outcome"]) == (outcome, cause, "pass")
    assert "172.16.8.11" in bad["cause"]
    assert bad["next"]
    if reply is not None and reply.message:
        assert reply.message in bad["cause"]
    assert "none of this run's BMCs" not in bad["cause"]
    assert run.status() == {"fail": 1, "unmeasured": 3}[outcome]


def test_where_none_answers_the_way_is_named_as_well() -> None:
    run = with_bmcs(SILENT, SILENT)
    assert all("none of this run's BMCs answers" in one["cause"] for one in judge_bmcs(run))
    assert "none of" not in judge_bmcs(with_bmcs(SILENT, REFUSED))[0]["cause"]


def test_one_that_refuses_is_there_and_no_pass() -> None:
    run = with_bmcs(REFUSED, TAKEN)
    one = judge_bmcs(run)[0]
    assert (one["outcome"], one["proof"], one["floor"]) == ("recorded", "proven", None)
    assert "refuses" in one["basis"]
    assert run.status() == 0


def test_a_bmc_is_reported_when_its_node_is_gone() -> None:
    run = with_bmcs()
    run.facts = [row for row in run.facts if row["node"] != NODES[0]]
    run.results = [row for row in run.results if row["host"] != NODES[0]]
    assert judge_bmcs(run)[0]["outcome"] == "pass"


def test_a_node_that_has_the_bmcs_address_is_named() -> None:
    run = with_bmcs()
    run.facts[1]["netdevs"][2]["addresses"].append("172.16.8.11/24")
    bad = judge_bmcs(run)[0]
    assert (bad["outcome"], bad["cause_class"]) == ("fail", "bmc_address_taken")
    assert NODES[1] in bad["cause"]


def test_site_policy_leaves_them_unasked_and_shows_it() -> None:
    run = with_bmcs(None, None, bmc_check="none")
    assert {one["outcome"] for one in judge_bmcs(run)} == {"not_applicable"}
    assert all("fabric_policy.bmc_check" in one["basis"] for one in judge_bmcs(run))
    assert bmc.list_bmc_addresses(run.asked, run.plan) == {}
    assert run.status() == 0


def test_what_the_controller_is_to_ask() -> None:
    run = with_bmcs()
    assert bmc.list_bmc_addresses(run.asked, run.plan) == ADDRESSES


#: What a verdict does not rest on.
IRRELEVANT = (
    "tool_version", "rail", "peer", "netdev", "hca", "gid_index", "gid_type", "window_s", "message_bytes",
    "qps", "mtu_bytes", "active_mtu_bytes", "counters", "raw", "bmc.questions",
)  # fmt: skip


def test_no_field_of_a_row_can_be_spoilt_unnoticed() -> None:
    original = next(row for row in with_bmcs().results if row["check"] == "bmc")
    for path in paths(original):
        if path in IRRELEVANT:
            continue
        for value, remove in [(None, True), *((garbage, False) for garbage in GARBAGE)]:
            run = with_bmcs()
            run.asked, run.results = lines(run), [row for row in run.results if row["check"] == "bmc"]
            row = run.results[0]
            mutate(row, path, value, remove)
            if row == original or (path == "error" and not value) or (path == "id" and remove):
                continue
            one = judge_bmcs(run)[0]
            good_time = path == "metrics.round_trip_us" and policy.is_number(value) and value > 0
            good_port = path == "bmc.port" and policy.is_whole(value)
            if not (good_time or good_port):
                assert one["outcome"] == "unmeasured", (path, "removed" if remove else value)


@pytest.mark.parametrize("started", ["2019-11-21T10:15:20.000Z", "2031-11-21T10:15:20.000Z"])
def test_an_answer_from_before_or_after_the_run_is_none_of_its_own(started: str) -> None:
    run = with_bmcs()
    run.results[-1]["started"] = started
    assert [(one["outcome"], one["cause_class"]) for one in judge_bmcs(run)] == [
        ("pass", None),
        ("unmeasured", "row_garbled"),
    ]


def test_two_rows_are_none() -> None:
    run = with_bmcs()
    run.results.append(dict(run.results[-1]))
    assert judge_bmcs(run)[1]["cause_class"] == "duplicate_row"


@pytest.mark.parametrize("change", [{"node": "gpu9"}, {"rail": "rail0"}, {"peer": NODES[1]}])
def test_a_question_for_a_bmc_that_the_plan_lacks_is_refused(change: dict[str, Any]) -> None:
    run = with_bmcs()
    lines(run)[0].update(change)
    with pytest.raises(verdict.JudgeError, match="b00000"):
        run.judge()
    run = with_bmcs()
    del run.plan["nodes"][NODES[0]]["bmc_address"]
    with pytest.raises(verdict.JudgeError, match="BMC"):
        run.judge()


def test_bmcs_alone_are_no_run() -> None:
    run = FakeRun()
    for node in run.plan["nodes"].values():
        node.update(rails=[], bmc_address="172.16.8.11")
    run.order["fabrics"] = [{**fabric, "rails": []} for fabric in run.order["fabrics"]]
    with pytest.raises(requests.AskError, match="nothing is planned"):
        requests.asked_lines(run.plan, run.order)


def test_the_place_is_the_node() -> None:
    assert headline.place(judge_bmcs(with_bmcs())[0]) == NODES[0]
