# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From planned lines to the sentence: plan, judge a folder, summarise, collect."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import headline, summary, suspects
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from support.runs.fake_run import NODES, RUN, FakeRun, exchanged, fabric


def write(run: FakeRun, tmp_path: Path) -> RunFolder:
    folder = run_folder.create(tmp_path, "lab", RUN, {})
    folder.write("manifest.json", run_folder.pretty(run.manifest))
    folder.write("plan.json", run_folder.pretty(run.sealed()))
    folder.write("work_order.json", run_folder.pretty(run.order))
    folder.append("facts.jsonl", run.facts)
    folder.append("asked.jsonl", run.asked)
    folder.append("results.jsonl", exchanged(run.results))
    return folder


def test_judging_again_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = write(FakeRun(), tmp_path)
    assert rejudge.rejudge(folder.path) == 0
    first = (folder.path / "verdicts.jsonl").read_bytes()
    (folder.path / "verdicts.jsonl").write_text("nonsense")
    assert rejudge.rejudge(folder.path) == 0
    assert (folder.path / "verdicts.jsonl").read_bytes() == first
    assert len(first.splitlines()) == 56


@pytest.mark.parametrize("name", ["results.jsonl", "asked.jsonl", "facts.jsonl"])
def test_a_torn_line_is_no_zero(tmp_path: Path, name: str) -> None:
    folder = write(FakeRun(), tmp_path)
    path = folder.path / name
    path.write_bytes(path.read_bytes()[:-9])
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    assert f"{name}: a torn line was dropped" in said["notes"]
    assert "lost a line" in said["headline"]


@pytest.mark.parametrize("name", ["results.jsonl", "asked.jsonl"])
def test_a_line_that_went_without_a_trace_is_no_zero(tmp_path: Path, name: str) -> None:
    folder = write(FakeRun(), tmp_path)
    path = folder.path / name
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert rejudge.rejudge(folder.path) == 3


def test_facts_that_were_lost_are_no_unreachable_nodes(tmp_path: Path) -> None:
    run = FakeRun()
    folder = write(run, tmp_path)
    (folder.path / "facts.jsonl").unlink()
    lost = {one["cause_class"] for one in rejudge.judge_folder(folder.path).verdicts}
    assert lost == {"facts_lost"}
    folder.write("work_order.json", run_folder.pretty(run.order))
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    assert "unreachable" not in said["headline"]
    assert {one["cause_class"] for one in said["problems"]} == {"facts_lost"}
    assert all("facts.jsonl" in one["next"] for one in said["problems"])
    # One node's alone.
    folder.append("facts.jsonl", run.facts[:1])
    mine = {
        one["node"]: one["cause_class"]
        for one in summary.summarise(folder.path)["problems"]
        if not one["peer"]
    }
    assert mine[NODES[1]] == "facts_lost"


def test_a_node_that_did_not_answer_is_unreachable_though_the_folder_has_no_facts(tmp_path: Path) -> None:
    run = FakeRun()
    folder = write(run, tmp_path)
    (folder.path / "facts.jsonl").unlink()
    folder.write("work_order.json", run_folder.pretty({**run.order, "absent": list(NODES)}))
    assert {one["cause_class"] for one in rejudge.judge_folder(folder.path).verdicts} == {"node_unreachable"}
    (folder.path / "work_order.json").unlink()
    for node in NODES:
        error = {"class": "not_inspected", "message": "no Python", "host": node}
        action_base.record_node_error(folder, node, error)
    assert {one["cause_class"] for one in rejudge.judge_folder(folder.path).verdicts} == {"not_inspected"}


@pytest.mark.parametrize("damage", ["lost", "torn", "doubled"])
def test_the_facts_of_one_node_stop_nothing_where_hops_are_planned(tmp_path: Path, damage: str) -> None:
    run = FakeRun(transport="roce", driver_class="hardware")
    for node in run.plan["nodes"].values():
        for rail in node["rails"]:
            rail["leaf"] = "leaf1"
    run.plan_again()
    other = {**run.facts[1], "boot_id": "another"}
    run.facts = {"lost": run.facts[:1], "torn": run.facts, "doubled": [*run.facts, other]}[damage]
    folder = write(run, tmp_path)
    if damage == "torn":
        path = folder.path / "facts.jsonl"
        path.write_bytes(path.read_bytes()[:-9])
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    hops = {one["node"]: one["outcome"] for one in said["problems"] if one["check"] == "hops"}
    assert hops == dict.fromkeys(NODES, "unmeasured")


def test_the_sentence_calls_nothing_proven_that_only_a_switch_reported() -> None:
    local = {"node": NODES[0], "peer": None, "rail": "rail0"}
    verdicts = [
        {**local, "check": "cabling", "outcome": "pass", "proof": "proven"},
        {**local, "check": "neighbour", "outcome": "recorded", "proof": "unproven"},
    ]
    counts, judged = dict.fromkeys(("pass", "recorded"), 1), SimpleNamespace(torn=(), incomplete=None)
    counts["not_applicable"] = 0
    every_pair = {"pairs": 1, "of_pairs": 1}
    line = headline.write(FakeRun().plan, verdicts, counts, judged, every_pair, suspects.find(verdicts))  # type: ignore[arg-type]
    assert "all 2 checks measured, all but 1 confirmed (1 pass, 1 recorded)." in line


def test_the_sentence_of_a_good_run() -> None:
    said = summarise_run(FakeRun())
    assert said["headline"] == (
        "2 of 2 nodes good: all 56 checks measured and confirmed (46 pass, 10 recorded). "
        "2 rails, TCP only, RDMA was not planned."
    )
    assert said["counts"] == {"pass": 46, "fail": 0, "unmeasured": 0, "not_applicable": 0, "recorded": 10}
    assert said["problems"] == []
    assert [(one["node"], one["rail"]) for one in said["rails"]] == [
        (node, rail) for node in NODES for rail in ("rail0", "rail1")
    ]


def summarise_run(run: FakeRun) -> dict[str, Any]:
    judged = rejudge.Judged(run.judge(), run.status())
    return summary.summarise_verdicts(run.plan, judged)


def test_the_sentence_names_node_and_rail_of_what_failed() -> None:
    run = FakeRun()
    run.facts[1]["netdevs"][1]["carrier"] = False
    said = summarise_run(run)
    assert said["exit_status"] == 1
    assert said["headline"].startswith(
        "1 of 56 checks failed (gpuserver2 rail1: link state). 1 of 2 nodes good. "
    )
    shown = {(one["node"], one["rail"]): one["outcome"] for one in said["rails"]}
    assert shown["gpuserver2", "rail1"] == "fail"
    lines = summary.lines(said, "reports/lab/x")
    assert any(line.startswith("fail: gpuserver2 rail1 link state: the link is down") for line in lines)
    assert sum(line.startswith("  next: ") for line in lines) == 1


def test_a_silent_node_is_named_once() -> None:
    run = FakeRun()
    run.facts = run.facts[1:]
    said = summarise_run(run)
    assert said["headline"].startswith("48 of 56 checks unmeasured (no answer from gpuserver1). ")
    lines = summary.lines(said, "reports/lab/x")
    assert sum("unreachable" in line for line in lines) == 1
    assert any("and 41 more" in line for line in lines)


def test_an_interrupted_run_says_so() -> None:
    run = FakeRun()
    judged = rejudge.Judged(run.judge(), 3, incomplete="the run was interrupted")
    assert summary.summarise_verdicts(run.plan, judged)["headline"] == (
        "2 of 2 nodes good: 56 checks measured (46 pass, 10 recorded), not all that were planned. "
        "Incomplete: the run was interrupted. 2 rails, TCP only, RDMA was not planned."
    )


def test_ask_covers_every_node_and_rail_and_the_silent_ones_too() -> None:
    run = FakeRun()
    whole = {(line["check"], line["node"], line["peer"], line["rail"]) for line in run.asked}
    order = requests.work_order(
        RUN, run.plan, {node: fabric() for node in NODES}, run.policy, reached=["gpuserver1"]
    )
    assert order["absent"] == ["gpuserver2"]
    assert len(order["fabrics"]) == 1
    lines = requests.asked_lines(run.plan, order)
    assert {(line["check"], line["node"], line["peer"], line["rail"]) for line in lines} == whole
    facts = [line for line in lines if line["id"].startswith("f")]
    assert [(line["node"], line["rail"], line["check"]) for line in facts] == [
        (node, rail, check)
        for node in NODES
        for rail in ("rail0", "rail1")
        for check in ("link", "address", "mtu")
    ]
    for line in lines:
        if line["check"] == "aggregate_bandwidth":
            parts = [part for part in lines if part["id"] in line["parts"]]
            assert [part["rail"] for part in parts] == ["rail0", "rail1"]
            assert {(part["node"], part["peer"], part["check"]) for part in parts} == {
                (line["node"], line["peer"], "tcp_bandwidth_concurrent")
            }
    assert len({line["id"] for line in lines}) == len(lines)


def test_ask_refuses_an_empty_question() -> None:
    plan = {"nodes": {}}
    with pytest.raises(requests.AskError, match="nothing is planned"):
        requests.asked_lines(plan, requests.work_order(RUN, plan, {}, FakeRun().policy, reached=[]))


def test_ask_is_the_same_for_the_same_input_and_keeps_to_the_rails_named() -> None:
    run = FakeRun()
    fabrics = {node: fabric() for node in NODES}
    order = requests.work_order(RUN, run.plan, fabrics, run.policy, reached=NODES, rails=["rail1"])
    lines = requests.asked_lines(run.plan, order)
    assert {line["rail"] for line in lines} == {"rail1"}
    assert requests.asked_lines(run.plan, order) == lines


def test_no_secret_of_the_command_line_is_kept() -> None:
    safe = action_base.safe_argv(
        ["ansible-playbook", "-i", "inventories/lab", "-e", "ansible_become_password=s3cret", "-e@vault.yml",
         "-e", "railyard_run=" + RUN, "--extra-vars=x=s3cret y=2", "-ezz=s3cret", "-e", '{"a": "s3cret"}',
         "--limit", "gpuserver1"]
    )  # fmt: skip
    assert "s3cret" not in " ".join(safe)
    assert "railyard_run=" + RUN in safe
    assert "-e@vault.yml" in safe
    assert safe[-2:] == ["--limit", "gpuserver1"]
