"""Slow components by all tests of a run, further tests of suspects, and the verdicts of those."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.action import fabric_confirm, fabric_srun
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks, rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders, pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import NODE_RAIL, Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import (
    isolation,
    matrix,
    oversubscription,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import NOTHING
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
    rejudge,
    run_status,
    stored_judgement,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits, intake, orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.orders import Orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.srun import Allocation
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import stale_secrets
from ansible_collections.railyard.fabric.tests.unit.plugins.action.test_fabric_srun import Step
from support.runs.sweeps import sound_run

A, B, C, D = (f"gpu{number:04d}" for number in range(1, 5))
CHECK = "rdma_bandwidth_concurrent"
Row = dict[str, Any]


def slow(*ends: str, rail: str = "rail0", left: float = 0.3) -> Callable[[Row], Row]:
    """Return a change by which only so much is left of the tests with one of the ends, or between two."""

    def change(row: Row) -> Row:
        hit = set(ends) <= {row["node"], row["peer"]} and row["rail"] == rail and row["check"] == CHECK
        if not hit:
            return row
        numbers = ("bandwidth_gbps", "message_rate_mpps")
        return {**row, "metrics": {**row["metrics"], **{key: row["metrics"][key] * left for key in numbers}}}

    return change


@pytest.fixture
def swept(tmp_path):
    def make(change: Callable[[Row], Row] = lambda row: row, nodes: int = 4, **rules: Any):
        path = tmp_path / "cluster" / sound_run.RUN
        rules = {"questions": "together", **rules}
        folder = run_folder.RunFolder(sound_run.build(path, nodes, 2, rules=rules, change=change))
        for name in folder.plan()["nodes"]:
            intake.archive_path(folder, name).touch()
        folder.update_manifest(end=None)
        return folder

    return make


def second_order(folder: run_folder.RunFolder, hosts: list[str] | None = None) -> dict[str, Any] | None:
    return fabric_confirm.second_order(folder, hosts)[0]


def sentences(folder: run_folder.RunFolder) -> list[str]:
    found: list[str] = ended(folder, summary.summarise)["who_is_slow"]
    return found


def ended(folder: run_folder.RunFolder, read: Callable[[Path], Any], reason: str = "completed") -> Any:
    """Return what is read of a run that has ended; it goes on afterwards."""
    folder.finish(reason)
    found = read(folder.path)
    folder.update_manifest(end=None)
    return found


def test_a_run_in_which_all_is_well_names_no_node_plans_no_more_and_is_judged_once(swept, monkeypatch):
    folder = swept()
    assert ended(folder, rejudge.judge_folder).exit_status == 0
    assert sentences(folder) == []
    monkeypatch.setattr(rejudge, "judge_folder", None)
    assert second_order(folder) is None
    assert not folder.confirms()


def test_a_slow_test_that_passes_is_no_fault(swept):
    folder = swept(slow(A))
    files = (run_folder.ASKED, run_folder.RESULTS)
    read = folder.document(run_folder.WORK_ORDER), *(folder.rows(name)[0] for name in files)
    verdicts = rejudge.judge_folder(folder.path).verdicts
    assert isolation.find_suspects(*read, verdicts).suspects
    assert isolation.find_suspects(*read, [{**one, "outcome": "pass"} for one in verdicts]) == NOTHING


def test_half_of_a_part_s_pairs_are_bad_or_it_is_none_however_often_one_met(swept):
    folder = swept(slow(A))
    wiring = matrix.read_wiring(folder.document(run_folder.WORK_ORDER))
    verdicts = rejudge.judge_folder(folder.path).verdicts
    found = replace(NOTHING, suspects=(Suspect(NODE_RAIL, A, "rail0"),))
    assert isolation.keep_confirmed(found, verdicts, wiring) == found
    good = [{**one, "outcome": "pass"} if not {C, D}.isdisjoint((one["node"], one["peer"])) else one
            for one in verdicts]  # fmt: skip
    with_b = [one for one in good if {one["node"], one["peer"]} == {A, B}]
    assert isolation.keep_confirmed(found, [*good, *with_b, *with_b], wiring) == NOTHING


def test_beside_a_dead_path_no_node_with_good_numbers_is_slow(swept, monkeypatch):
    def change(row: Row) -> Row:
        # Good numbers, and far apart, as unlike machines with rails of no declared rate have them.
        for one, other in ((A, B), (A, D), (C, B), (C, D)):
            row = slow(one, other, left=0.6)(row)
        return slow(A, C, left=0.01)(row)

    def is_dead(one: Row) -> bool:
        return ({one["node"], one["peer"]}, one["rail"], one["check"]) == ({A, C}, "rail0", CHECK)

    folder = swept(change)
    rows = folder.rows(run_folder.RESULTS)[0]
    read = folder.document(run_folder.WORK_ORDER), folder.rows(run_folder.ASKED)[0], rows
    verdicts = [
        {**one, "outcome": "fail" if is_dead(one) else "pass"}
        for one in rejudge.judge_folder(folder.path).verdicts
    ]
    found = isolation.find_suspects(*read, verdicts)
    assert isolation.needs_judge(read[0], read[1], lambda: iter(rows))
    assert found.suspects == ()
    assert [(one.kind, one.node, one.peer, one.rail) for one in found.doubtful] == [("pair", A, C, "rail0")]
    monkeypatch.setattr(rejudge, "judge_folder", lambda *_args: SimpleNamespace(findings=found))
    assert [len(turn) for turn in second_order(folder)["meetings"]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("row", "bad"),
    [
        ({"peer": B, "status": "measured"}, False),
        ({"peer": B, "status": "measured", "attempt": 2}, True),
        ({"peer": B, "status": "failed"}, True),
        ({"peer": None, "status": "failed"}, False),
    ],
)
def test_the_judge_runs_before_where_the_nodes_saw_something_bad(row, bad):
    assert isolation.looks_bad(row) == bad


def test_a_slow_card_is_named_by_all_of_its_peers_and_no_pair_meets_again(swept):
    folder = swept(slow(C))
    assert sentences(folder) == [
        f"{C} rail0: carries 30 % of what its peers do (confirmed, by 3 partners that are good with others)"
    ]
    assert summary.summarise(folder.path)["suspects"][0]["node"] == C
    assert second_order(folder) is None


def measured_again(folder: run_folder.RunFolder, *pair: str) -> list[Row]:
    """Return two further attempts at a pair's tests on rail0."""
    return [
        {**row, "attempt": attempt}
        for row in folder.rows(run_folder.RESULTS)[0]
        if row["check"] == CHECK and row["rail"] == "rail0" and {row["node"], row["peer"]} == {*pair}
        for attempt in (2, 3)
    ]


def test_a_run_that_was_judged_and_measures_no_further_is_not_judged_again(swept):
    folder = swept(slow(C))
    folder.append(run_folder.RESULTS, measured_again(folder, C, B))
    folder.append(run_folder.ARCHIVES, [{"node": A, "sha256": "0" * 64, "rows": 7}])
    second, digest = fabric_confirm.second_order(folder)
    assert (second, folder.manifest()["end"]["reason"]) == (None, "completed")
    assert folder.manifest()["archives"] == {A: {"rows": 7, "sha256": "0" * 64}}
    before = (folder.path / run_folder.MANIFEST).read_bytes()
    folder.finish("interrupted")
    assert (folder.path / run_folder.MANIFEST).read_bytes() == before
    judged = rejudge.judge_folder(folder.path)
    assert repr(stored_judgement.load(folder, digest)) == repr(judged)
    assert [one.node for one in judged.findings.suspects] == [C]
    assert judged.incomplete is None
    # Rows that come later are judged.
    folder.append(run_folder.RESULTS, folder.rows(run_folder.RESULTS)[0][:1])
    assert stored_judgement.load(folder, digest) is None


def test_a_run_that_measures_further_keeps_no_judgement_and_has_not_ended(swept):
    folder = swept(slow(A, C))
    second, digest = fabric_confirm.second_order(folder)
    assert second
    assert digest == ""
    assert folder.manifest()["end"] is None
    assert not (folder.path / stored_judgement.FILE).exists()


def test_a_slow_path_is_in_doubt_until_its_nodes_have_met_again(swept):
    folder = swept(slow(A, C))
    assert sentences(folder) == [
        f"the path between {A} and {C} on rail0: may be slow, but too few meetings confirm it (1)",
        "possible suspects were not measured further: the run ended before that",
    ]
    before = folder.rows(run_folder.ASKED)[0]
    doubt = rejudge.judge_folder(folder.path).findings
    second = second_order(folder)
    order = folder.document(run_folder.WORK_ORDER)
    assert run_status.explain_not_confirmed(folder.manifest(), order, before, second, doubt) is None
    assert [(one.node, one.peer) for one in rounds.meetings(second)] == [(A, C)] * 3
    asked = folder.rows(run_folder.ASKED)[0]
    assert asked[: len(before)] == before
    further = asked[len(before) :]
    assert {line["round"] for line in further} == {3, 4, 5}
    assert len({line["id"] for line in asked}) == len(asked)
    # All rails at once as before, which takes no longer, and the sums over them.
    assert sum(line["check"] == CHECK for line in further) == 3 * 2 * 2
    assert sum(line["rail"] is None for line in further) == 3 * 2
    judged = ended(folder, rejudge.judge_folder)
    assert judged.incomplete is None
    unmeasured = [one["id"] for one in judged.verdicts if one["outcome"] == "unmeasured"]
    assert {line["id"] for line in further} <= set(unmeasured)
    assert list(cable_checks.asked_lines(second)) == []
    # It is made once: the plan is fixed. As long as no node has handed over results of it, it was not
    # measured: the controller was killed before, whatever it had written by then.
    folder.write(run_folder.ASKED, "".join(run_folder.line(line) + "\n" for line in before))
    assert second_order(folder) == second
    assert folder.rows(run_folder.ASKED)[0] == asked
    assert ended(folder, rejudge.judge_folder).incomplete is None
    intake.archive_path(folder, C).touch()
    assert second_order(folder) is None


def test_a_path_that_is_slow_each_time_is_accused_alone(swept):
    folder = swept(slow(A, C))
    first = folder.rows(run_folder.RESULTS)[0]
    second_order(folder)
    asked = {line["id"]: line for line in folder.rows(run_folder.ASKED)[0]}
    known = {row["id"] for row in first}
    for line in asked.values():
        if line["check"] != CHECK or line["id"] in known:
            continue
        like = next(
            row for row in first if all(row[key] == line[key] for key in ("check", "node", "peer", "rail"))
        )
        ends = [row for row in first if row["id"] == like["id"]]
        folder.append(run_folder.RESULTS, [{**row, "id": line["id"], "round": line["round"]} for row in ends])
    found = rejudge.judge_folder(folder.path).findings
    assert [(one.kind, one.node, one.peer, one.rail, one.evidence) for one in found.suspects] == [
        ("pair", A, C, "rail0", 4)
    ]
    assert found.doubtful == ()


def test_what_leaves_let_through_is_a_note(swept):
    folder = swept()
    crossed = oversubscription.Crossed("rail0", 0.5, 1, 2, 2, True)
    judged = replace(rejudge.judge_folder(folder.path), crossed=[crossed])
    assert wording.across_leaves(crossed) in summary.summarise_verdicts(folder.plan(), judged)["notes"]


def test_each_attempt_is_a_meeting(swept):
    folder = swept(slow(A, C))
    folder.append(run_folder.RESULTS, measured_again(folder, A, C))
    assert rejudge.judge_folder(folder.path).findings.doubtful[0].evidence == 3
    assert [len(turn) for turn in second_order(folder)["meetings"]] == [1]


def test_of_a_node_that_was_not_there_nothing_is_concluded(swept):
    folder = swept()
    wiring = matrix.read_wiring(folder.document(run_folder.WORK_ORDER))
    read = [folder.rows(name)[0] for name in (run_folder.ASKED, run_folder.RESULTS)]
    every = isolation.read_tests(*read, [], wiring)
    assert len(every.gbps) == 6 * 2 * 2
    found = isolation.read_tests(*read, [], wiring, absent=[C])
    assert len(found.gbps) == 3 * 2 * 2
    assert 2 not in {*found.sender, *found.receiver}


def test_a_node_without_results_or_outside_the_play_is_not_paired(swept):
    folder = swept(slow(A, C))
    assert second_order(folder, [A, B, D]) is None
    intake.archive_path(folder, C).unlink()
    assert second_order(folder) is None


def test_a_run_that_has_ended_is_not_measured_further(swept):
    folder = swept(slow(A, C))
    folder.finish("interrupted")
    assert second_order(folder) is None


def test_the_secret_is_there_before_nodes_are_staged_and_has_a_living_controller(swept):
    folder = swept(slow(A, C))
    assert second_order(folder)
    assert (folder.path / run_folder.SECRET).exists()
    assert folder.manifest()["controller"] == stale_secrets.controller(os.getppid())


@pytest.mark.parametrize(
    ("rules", "lost", "reason", "why"),
    [
        ({"confirm": 0}, None, "completed", "fabric_policy.confirm is 0"),
        ({}, None, "interrupted", "the run was interrupted"),
        ({}, C, "completed", "no node that is good on their rails is left to measure them with"),
        ({}, None, "completed", "the run ended before that"),
    ],
)
def test_the_reason_why_nothing_more_was_measured_is_reported(swept, rules, lost, reason, why):
    folder = swept(slow(A, C), **rules)
    archives = folder.manifest()["archives"]
    folder.update_manifest(archives={name: kept for name, kept in archives.items() if name != lost})
    said = ended(folder, summary.summarise, reason)["who_is_slow"]
    assert said[-1] == f"possible suspects were not measured further: {why}"


@pytest.mark.parametrize("rules", [{"confirm": 0}, {}], ids=["no_confirming", "two_nodes"])
def test_no_further_test_is_planned(swept, rules):
    folder = swept(slow(A, C if rules else B), nodes=4 if rules else 2, **rules)
    assert second_order(folder) is None
    assert not folder.confirms()


def test_one_by_one_measures_the_rails_in_doubt_alone(swept):
    def change(row: Row) -> Row:
        hit = {row["node"], row["peer"]} == {A, C} and row["rail"] == "rail1"
        if row["check"] != "rdma_bandwidth" or not hit:
            return row
        metrics = row["metrics"]
        return {**row, "metrics": {**metrics, "bandwidth_gbps": metrics["bandwidth_gbps"] * 0.3}}

    folder = swept(change, questions="one_by_one")
    second = second_order(folder)
    assert second["rails"] == ["rail1"]
    assert {test["rail"] for test in rounds.asked_tests(second)} == {"rail1"}


def test_a_second_order_of_other_nodes_or_another_policy_is_none_of_the_run(swept):
    folder = swept(slow(A, C))
    order = folder.document(run_folder.WORK_ORDER)
    second = second_order(folder)
    assert pattern.goes_on(order, second)
    assert not pattern.goes_on(order, {**second, "policy": {**order["policy"], "confirm": 0}})
    assert not pattern.goes_on(order, {**second, "roster": order["roster"][:2]})
    assert not pattern.goes_on(order, order)
    folder.write(run_folder.CONFIRM_ORDER, run_folder.pretty({**second, "run": "20261124T100000Z-0000"}))
    assert "confirm_order.json" in str(ended(folder, rejudge.judge_folder).incomplete)
    (folder.path / run_folder.CONFIRM_ORDER).unlink()
    assert "had to be planned" in str(ended(folder, rejudge.judge_folder).incomplete)


def test_rows_of_both_orders_are_counted_and_numbered_on(swept):
    folder = swept(slow(A, C))
    count = folder.manifest()["archives"][A]["rows"]
    folder.append(run_folder.ARCHIVES, [{"node": A, "sha256": "0" * 64, "rows": count}])
    order = folder.document(run_folder.WORK_ORDER)
    own_orders.keep(folder, folder.plan(), folder.rows(run_folder.FACTS)[0], order)
    assert "rows_before" not in Orders(folder).build(A)
    assert list(orders.split_orders(folder, [A, B, C, D]).own) == [A, B, C, D]
    second = second_order(folder)
    mine = Orders(folder).build(A)
    assert (mine["rows_before"], mine["meetings"]) == (count, second["meetings"])
    sent = orders.split_orders(folder, [A, B, C, D])
    assert (list(sent.own), sent.refused) == ([A, C], {})
    assert {**sent.common, **sent.own[A], "secret": folder.secret()} == mine
    assert folder.secret() not in str(sent)
    assert intake.archive_path(folder, A).name == f"{A}.confirm.tar.gz"
    # A node that could not be reached before hands over what it has of both.
    both = archive_limits.of_node(folder.orders(), A).raw
    assert both > archive_limits.of_node(folder.orders()[:1], A).raw
    folder.append(run_folder.ARCHIVES, [{"of": "confirm", "node": A, "sha256": "1" * 64, "rows": 5}])
    folder.finish("completed")
    manifest = folder.manifest()
    assert manifest["archives"][A]["rows"] == count
    assert manifest["confirm_archives"][A] == {"rows": 5, "sha256": "1" * 64}
    causes = [str(one["cause"]) for one in rejudge.judge_folder(folder.path).verdicts if one["node"] == A]
    assert any(
        f"{count + 5} rows were collected from {A}, {count} are in the folder" in cause for cause in causes
    )


def test_srun_lets_those_alone_measure_further_whom_the_second_order_lets_meet(swept, monkeypatch):
    folder = swept(slow(A, C))
    own_orders.keep(
        folder, folder.plan(), folder.rows(run_folder.FACTS)[0], folder.document(run_folder.WORK_ORDER)
    )
    second = second_order(folder)
    step, started = Step([]), []
    work = fabric_srun._Measure(
        folder, Allocation("614", (A, B, C, D)), {name: name for name in (A, B, C, D)}
    )
    monkeypatch.setattr(work, "start", lambda most_bytes: started.extend(most_bytes) or step)
    work.run()
    sent = json.loads(step.sent[0])
    assert started == list(sent["nodes"]) == [A, C]
    assert sent["common"]["meetings"] == second["meetings"]
    assert set(work.failed) == {A, C}
