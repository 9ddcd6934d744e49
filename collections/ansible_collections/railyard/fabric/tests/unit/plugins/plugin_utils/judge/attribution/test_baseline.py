# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results without a threshold compared with a saved baseline: pass, fail, or still recorded."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import baseline as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import baseline, fleet
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline as kept
from support.runs.fake_run import RUN, FakeRun, exchanged
from support.runs.spoil import again

LATENCY = "latency_p50_us"
LINE = {"check": "rdma_latency", "node": "gpu1", "peer": "gpu2", "rail": "rail0"}
LIKE = {"check": "rdma_latency", "tool": "ib_write_lat", "direction": "uni", "message_bytes": "64",
        "qps": "1", "streams": "None", "mtu_bytes": "9000", "active_mtu_bytes": "4096", "hops": "1",
        "rate_gbps": "400", "classes": "hardware and hardware", "hardware": "True"}  # fmt: skip
THREE = {"confirm": 2, "baseline_tolerance": 0}


def held(
    then: float, seen: list[float], *, like: dict[str, str] | None = None, line: dict[str, Any] | None = None,
    metric: str = LATENCY, rules: dict[str, Any] | None = None, now: dict[str, str] | None = None,
) -> Answer:  # fmt: skip
    """Return the recorded answer of a test with these attempts after a baseline of its link has judged it."""
    line, rules = line or LINE, rules or THREE
    like = {**LIKE, **(like or {}), "check": line["check"]}
    figure = kept.Figure(metric, then, like)
    saved = kept.Saved(RUN, {tuple(line[key] for key in ("check", "node", "peer", "rail")): figure})
    tries = {number: {metric: value} for number, value in enumerate(seen, 1)}
    answer = Answer("recorded", dict(tries[1]), proof="proven", basis="no authority", tries=tries)
    answer.conditions = {**like, **(now or {})}
    baseline.compare_with_baseline([line], [answer], saved, rules)
    return answer


def read_answer(answer: Answer) -> tuple[str, str | None, bool]:
    return answer.outcome, answer.reproduced, answer.flaky


#: Of 2.0 us of a card the noise margin is 15 %, of a bandwidth of RDMA 5 %, of software a factor of 2.
@pytest.mark.parametrize(
    ("seen", "hardware", "outcome"),
    [
        ([2.0], True, ("pass", None, False)),
        ([2.29], True, ("pass", None, False)),
        ([1.75], True, ("pass", None, False)),
        ([2.31, 2.31, 2.31], True, ("fail", "3/3", False)),
        ([2.31, 2.0, 2.31], True, ("fail", "2/3", False)),
        ([2.31, 2.0, 2.0], True, ("pass", "1/3", True)),
        ([2.31], True, ("fail", "1/1", False)),
        # The attempt that is not there may have been the second bad one.
        ([2.31, 2.0], True, ("unmeasured", "1/2", False)),
        ([1.7], True, ("recorded", None, False)),
        ([1.7, 2.0, 2.0], True, ("recorded", None, False)),
        ([2.0, 2.31, 2.31], True, ("fail", "2/3", False)),
        ([2.0, 2.31, 2.0], True, ("pass", None, False)),
        ([3.9], False, ("pass", None, False)),
        ([4.1, 4.1, 4.1], False, ("fail", "3/3", False)),
        ([4.1, 2.0, 4.1], False, ("recorded", None, False)),
        ([4.1, 2.0, 2.0], False, ("pass", "1/3", True)),
        ([4.1], False, ("unmeasured", "1/1", False)),
        ([4.1, 4.1], False, ("unmeasured", "2/2", False)),
    ],
)
def test_who_passes_by_a_baseline_and_who_fails(
    seen: list[float], hardware: bool, outcome: tuple[str, str | None, bool]
) -> None:
    answer = held(2.0, seen, like={"hardware": str(hardware)})
    assert read_answer(answer) == outcome
    assert f"baseline {RUN}: 2 then" in answer.basis
    if answer.outcome in ("pass", "fail"):
        assert answer.proof == "proven"
        low, high = (2 / 1.15, 2.3) if hardware else (1.0, 4.0)
        assert answer.floor[LATENCY] == pytest.approx(low, abs=1e-4)
        assert answer.ceiling[LATENCY] == pytest.approx(high, abs=1e-4)
        beyond = not answer.floor[LATENCY] <= answer.observed[LATENCY] <= answer.ceiling[LATENCY]
        assert beyond == (answer.outcome == "fail")


@pytest.mark.parametrize(
    ("then", "now", "check", "rules", "outcome"),
    [
        (392.0, 374.0, "rdma_bandwidth", {}, "pass"),
        (392.0, 373.0, "rdma_bandwidth", {}, "fail"),
        (392.0, 412.0, "rdma_bandwidth", {}, "recorded"),
        (27.4, 22.9, "tcp_bandwidth", {}, "pass"),
        (27.4, 22.8, "tcp_bandwidth", {}, "fail"),
        (392.0, 374.0, "rdma_bandwidth", {"baseline_tolerance": 0.01}, "fail"),
        (392.0, 300.0, "rdma_bandwidth", {"baseline_tolerance": 0.5}, "pass"),
        (392.0, 373.0, "rdma_bandwidth", {"confirm": 0}, "fail"),
    ],
)
def test_the_tolerance_is_what_a_comparison_takes_for_noise_or_the_policys(then, now, check, rules, outcome):
    line = {**LINE, "check": check}
    answer = held(then, [now], line=line, metric="bandwidth_gbps", rules={**THREE, **rules})
    assert answer.outcome == outcome


def test_of_software_that_was_not_measured_again_nothing_is_reported() -> None:
    answer = held(2.0, [9.0], like={"hardware": "False"}, rules={**THREE, "confirm": 0})
    assert read_answer(answer) == ("recorded", None, False)
    assert "it is worse in 1 attempts" in answer.basis


@pytest.mark.parametrize("key", [*sorted(LIKE.keys() - {"check"}), "traffic_class"])
def test_what_was_measured_otherwise_is_not_compared_with_it_and_says_so(key: str) -> None:
    answer = held(2.0, [9.0], now={key: "another"})
    assert (answer.outcome, answer.floor) == ("recorded", {})
    assert (
        answer.basis
        == f"no authority; not compared with the baseline {RUN}: {key} {LIKE.get(key)} then, another now"
    )


@pytest.mark.parametrize(
    ("check", "rules", "words"),
    [
        ("rdma_latency", {"rdma_traffic_class": 106}, {"traffic_class": "106"}),
        ("rdma_latency", {"rdma_service_level": 3}, {"service_level": "3"}),
        # As in baselines of earlier versions.
        ("rdma_latency", {}, {}),
        ("tcp_latency", {"rdma_traffic_class": 106, "rdma_service_level": 3}, {}),
        ("rdma_bandwidth_default_class", {"rdma_traffic_class": 106}, {}),
    ],
)
def test_the_class_of_a_test_is_part_of_how_it_was_measured(
    check: str, rules: dict[str, int], words: dict[str, str]
) -> None:
    line = {"check": check, "tool": "x", "direction": "uni"}
    measured = row_numbers.list_required_settings(check, True, policy.merge(rules))
    like = fleet.describe_conditions(line, measured, (9000, 4096), 400, ["hardware"], 1)
    assert {key: like[key] for key in ("traffic_class", "service_level") if key in like} == words


def test_a_link_that_the_baseline_does_not_have_stays_recorded() -> None:
    answer = Answer(
        "recorded", {LATENCY: 9.0}, basis="no authority", tries={1: {LATENCY: 9.0}}, conditions=LIKE
    )
    baseline.compare_with_baseline([LINE], [answer], kept.Saved(RUN), THREE)
    assert (answer.outcome, answer.basis) == (
        "recorded",
        f"no authority; the baseline {RUN} has no result for it",
    )


@pytest.mark.parametrize("outcome", ["pass", "fail", "unmeasured", "not_applicable"])
def test_what_an_authority_judged_is_not_for_a_baseline(outcome: str) -> None:
    answer = Answer(outcome, {LATENCY: 9.0}, tries={1: {LATENCY: 9.0}}, conditions=LIKE)
    own = {("rdma_latency", "gpu1", "gpu2", "rail0"): kept.Figure(LATENCY, 2.0, LIKE)}
    for saved in (kept.Saved(RUN, own), kept.Saved(lost="gone")):
        baseline.compare_with_baseline([LINE], [answer], saved, THREE)
        assert answer.outcome == outcome


def test_dropping_attempts_never_leads_out_of_a_bad_verdict() -> None:
    worse = ("fail", "unmeasured")
    # Of a good first attempt the manifest tells that rows of others are gone.
    for hardware, seen in itertools.product("TF", itertools.product([9.0], *[[1.0, 2.0, 9.0]] * 2)):
        like = {"hardware": str(hardware == "T")}
        if held(2.0, list(seen), like=like).outcome in worse:
            for fewer in ([seen[0]], list(seen[:2]), [seen[0], seen[2]]):
                assert held(2.0, fewer, like=like).outcome in worse, (hardware, seen, fewer)


RUN_OF = {"transport": "roce", "driver_class": "hardware", "node_class": "hardware"}
HEALTHY = FakeRun(**RUN_OF)


def saved_of(run: FakeRun) -> kept.Saved:
    found = verdict.judge_tests(
        run.manifest, run.plan, run.asked, run.facts, exchanged(run.results), (), (), None
    )
    return kept.read(baseline.build_baseline(run.manifest, found.lines, found.found))


def judged(run: FakeRun, saved: kept.Saved | None) -> dict[str, dict[str, Any]]:
    results = exchanged(run.results)
    told = verdict.judge(run.manifest, run.plan, run.asked, run.facts, results, saved=saved)
    return {one["id"]: one for one in told}


def slower(run: FakeRun, identity: str, attempts: int) -> FakeRun:
    """A latency of twice as much, in so many attempts."""
    run = run.copy()
    first = run.rows(identity)
    for row in run.rows(identity, "client"):
        twice = {name: 2 * value for name, value in row["metrics"].items() if name.endswith("_us")}
        row["metrics"] |= {**twice, "observations": row["metrics"]["observations"] // 2}
    run.results += [again(row, attempt) for attempt in range(2, attempts + 1) for row in first]
    return run


def test_a_complete_run_passes_by_its_own_baseline_and_a_slower_link_fails() -> None:
    saved, before = saved_of(HEALTHY), judged(HEALTHY, None)
    after = judged(HEALTHY, saved)
    now_passed = {one["check"] for key, one in after.items() if one["outcome"] != before[key]["outcome"]}
    assert now_passed >= {"rdma_latency", "tcp_latency", "ping_rtt", "tcp_bandwidth_bi"}
    assert {one["outcome"] for one in after.values() if one["check"] in now_passed} == {"pass"}
    assert all(one["floor"] and one["ceiling"] for one in after.values() if one["check"] in now_passed)
    slow = HEALTHY.ids("rdma_latency")[1]
    run = slower(HEALTHY, slow, 3)
    assert judged(run, None)[slow]["outcome"] == "recorded"
    one = judged(run, saved)[slow]
    assert (one["outcome"], one["cause_class"]) == ("fail", "worse_than_baseline"), one
    assert one["reproduced"] == "3/3"
    assert [key for key, other in judged(run, saved).items() if other["outcome"] == "fail"] == [slow]


def test_a_flaky_number_is_not_saved() -> None:
    found = [
        Answer("pass", {LATENCY: 2.0}, flaky=flaky, tries={1: {}}, conditions=LIKE) for flaky in (True, False)
    ]
    lines = [{**LINE, "rail": rail} for rail in ("rail0", "rail1")]
    links = kept.read(baseline.build_baseline(HEALTHY.manifest, lines, found)).figures
    assert [rail for *_rest, rail in links] == ["rail1"]


def test_the_fleet_holds_no_sum_against_another(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(
        verdict.fleet_rules,
        "fail_outliers",
        lambda members, *_how, **_keys: seen.extend(
            one.conditions["check"] for one, _lost in members if one.tries
        ),
    )
    run = FakeRun(None, transport="roce")
    judged(run, None)
    saved = {check for check, *_ends in saved_of(run).figures}
    assert "aggregate_bandwidth" in saved
    assert set(seen) == saved - {"aggregate_bandwidth", "rdma_aggregate_bandwidth"}


def test_what_the_nodes_measure_again_is_what_the_judge_fails() -> None:
    saved = saved_of(HEALTHY)
    told = {"rdma_latency": {"rail0": {LATENCY: [None, None]}},
            "tcp_bandwidth_bi": {"rail0": {"bandwidth_gbps": [1.0, 2.1]}}}  # fmt: skip
    bounds = limits.add_link_limits(told, saved, "gpuserver1", 0)
    figure = saved.figures["rdma_latency", "gpuserver2", "gpuserver1", "rail0"]
    link = bounds["rdma_latency"]["gpuserver2 gpuserver1 rail0"]
    assert link == {LATENCY: [None, limits.find_limits(figure, 0)[1]]}, "a bound to the worse alone"
    both = bounds["tcp_bandwidth_bi"]["gpuserver1 gpuserver2 rail0"]
    assert both == {"bandwidth_gbps": [1.0, 2.1]}, "an authority's bound stays"
    assert told["rdma_latency"].keys() == {"rail0"}
    assert limits.add_link_limits(told, saved, "gpu9", 0) == told
