# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A failure is one when it is reproduced; what is not is flaky, and too much of that is unsteady."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import attempts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from support.runs.fake_run import FakeRun
from support.runs.run_builder import scale
from support.runs.spoil import again, error_row

HEALTHY = FakeRun()
BETTER = ("pass", "recorded", "not_applicable")


def with_attempts(run: FakeRun, identity: str, kinds: str) -> FakeRun:
    """Give a test attempts, a letter each: good, low, lOst, unproven, failed, - for a missing one."""
    run = run.copy()
    ends = run.rows(identity)
    run.results = [row for row in run.results if row["id"] != identity]
    for number, kind in enumerate(kinds, 1):
        for row in [again(one, number) for one in ends if kind != "-"]:
            _spoil(row, kind, number)
            run.results.append(row)
    return run


def _spoil(row: dict[str, Any], kind: str, number: int) -> None:
    if kind in "gl" and "bandwidth_gbps" in row["metrics"]:
        scale(row, (0.95 if kind == "g" else 0.5) - number / 100)
    elif kind == "o" and row["metrics"]:
        row["metrics"] |= {"loss_percent": 10.0}
    elif kind == "u":
        row.update(proof="unproven", proof_reason="other traffic on the rail")
    elif kind == "f":
        error_row(row, "deadline", "failed", row["host"])
    elif kind == "c":
        error_row(row, "unknown_connection", "unmeasured", row["host"])


def bandwidth(run: FakeRun) -> str:
    return run.ids("tcp_bandwidth")[0]


@pytest.mark.parametrize(
    ("attempts", "outcome", "reproduced", "flaky"),
    [
        ("g", "pass", None, False),
        ("l", "fail", "1/1", False),
        ("lll", "fail", "3/3", False),
        ("llg", "fail", "2/3", False),
        ("lgl", "fail", "2/3", False),
        ("gll", "fail", "2/3", False),
        ("lgg", "pass", "1/3", True),
        ("glg", "pass", "1/3", True),
        ("lug", "unmeasured", "2/3", False),
        # Somebody unknown at the tool's port says nothing of the rail, however often.
        ("ccc", "unmeasured", "3/3", False),
        ("c", "unmeasured", "1/1", False),
        ("cgg", "pass", "1/3", True),
        ("lcc", "unmeasured", "3/3", False),
        ("luu", "unmeasured", "3/3", False),
        ("u", "unmeasured", "1/1", False),
        ("uuu", "unmeasured", "3/3", False),
        ("ugg", "pass", "1/3", True),
        ("uug", "pass", "2/3", True),
        ("fgg", "pass", "1/3", True),
        ("fff", "unmeasured", "3/3", False),
        ("ull", "fail", "2/3", False),
        # An attempt that is missing is a bad one.
        ("lg-", "unmeasured", "2/3", False),
        ("l-g", "unmeasured", "2/3", False),
        ("-gg", "unmeasured", "1/3", False),
    ],
)
def test_what_the_attempts_mean_together(
    attempts: str, outcome: str, reproduced: str | None, flaky: bool
) -> None:
    run = with_attempts(HEALTHY, bandwidth(HEALTHY), attempts)
    one = run.verdict(bandwidth(run))
    assert (one["outcome"], one["reproduced"], one["flaky"]) == (outcome, reproduced, flaky), one["cause"]
    assert one["attempts"] == len(attempts)


def test_the_number_in_the_middle_is_shown() -> None:
    one = with_attempts(HEALTHY, bandwidth(HEALTHY), "lll").verdict(bandwidth(HEALTHY))
    assert one["observed"]["bandwidth_gbps"] == pytest.approx(0.48)
    assert "bandwidth_gbps 0.48, floor 0.8 (3 of 3 attempts)" in one["cause"]
    one = with_attempts(HEALTHY, bandwidth(HEALTHY), "lgg").verdict(bandwidth(HEALTHY))
    assert one["observed"]["bandwidth_gbps"] == pytest.approx(0.92)
    # Of two it is the upper one; where one has no number, the first.
    one = with_attempts(HEALTHY, bandwidth(HEALTHY), "ull").verdict(bandwidth(HEALTHY))
    assert one["observed"]["bandwidth_gbps"] == pytest.approx(0.48)
    seen = [Answer(observed=dict(one)).failed("tool_failed", "x") for one in ({}, {"bandwidth_gbps": 1.0})]
    assert attempts.combine_attempts("tcp_bandwidth", {1: seen[0], 2: seen[1]}, 1) is seen[0]


def test_the_result_of_each_attempt_is_reported_where_they_differ() -> None:
    said = with_attempts(HEALTHY, bandwidth(HEALTHY), "lug").verdict(bandwidth(HEALTHY))["cause"]
    assert "bandwidth_gbps 0.49, floor 0.8; attempt 2: " in said
    assert "other traffic on the rail; attempt 3: pass)" in said


def test_a_site_that_confirms_nothing_takes_the_first_word() -> None:
    quick = FakeRun(confirm=0)
    run = with_attempts(quick, bandwidth(quick), "l")
    one = run.verdict(bandwidth(run))
    assert (one["outcome"], one["reproduced"]) == ("fail", None)
    assert "unconfirmed" not in one["cause"]
    assert (
        "unconfirmed" in with_attempts(HEALTHY, bandwidth(HEALTHY), "l").verdict(bandwidth(HEALTHY))["cause"]
    )


@pytest.mark.parametrize(("grown", "outcome"), [(0, "recorded"), (3, "fail")])
def test_lost_packets_are_a_failure_at_once_where_a_counter_of_the_link_grew(
    grown: int, outcome: str
) -> None:
    ping = HEALTHY.ids("ping_rtt")[0]
    run = with_attempts(HEALTHY, ping, "ogg")
    run.rows(ping, "server")[0]["link_errors"] = {"netdev.rx_crc_errors": [2, 2 + grown]}
    assert run.verdict(ping)["outcome"] == outcome
    assert with_attempts(HEALTHY, ping, "oog").verdict(ping)["outcome"] == "fail"


@pytest.mark.parametrize("number", [0, 4, -1, True, None, "2", 2.0, [2]])
def test_an_attempt_that_cannot_be_is_garbage(number: Any) -> None:
    run = HEALTHY.copy()
    for row in run.rows(bandwidth(run)):
        row["attempt"] = number
    assert attempts.group_by_attempt([{"attempt": number}], 2) is None
    assert attempts.group_by_attempt([{}, {"attempt": 3}], 2) == {1: [{}], 3: [{"attempt": 3}]}
    assert run.verdict(bandwidth(run))["cause_class"] == "row_garbled"


@pytest.mark.parametrize(
    ("confirm", "numbers", "found"),
    [
        (0, [1], [1]),
        (0, [1, 2], None),
        (2, [3, 1, 2, 3], [3, 1, 2]),
        (2, [1, 4], None),
        (2, [1, 0], None),
        (2, [], []),
    ],
)
def test_there_are_as_many_attempts_as_a_site_confirms_and_the_first(
    confirm: int, numbers: list[int], found: list[int] | None
) -> None:
    rows = [{"attempt": number, "at": at} for at, number in enumerate(numbers)]
    by_number = attempts.group_by_attempt(rows, confirm)
    if found is None:
        assert by_number is None
    else:
        assert by_number == {number: [row for row in rows if row["attempt"] == number] for number in found}


def word(kind: str) -> Answer:
    """Return an attempt's answer: a pass, a bad number, or else that cause."""
    if kind == "pass":
        return Answer("pass")
    bad = ("below_floor", "path_mtu_small")
    return Answer().failed(kind, "x") if kind in bad else Answer.unmeasured(kind, "x")


@pytest.mark.parametrize(
    ("others", "confirm", "outcome", "reproduced", "flaky"),
    [
        ([], 2, "pass", None, False),
        (["pass"], 1, "pass", None, False),
        (["pass", "pass"], 2, "pass", None, False),
        # One that speaks against it makes it flaky, two make it a failure.
        (["below_floor"], 1, "pass", "1/2", True),
        (["below_floor", "pass"], 2, "pass", "1/3", True),
        (["pass", "below_floor"], 2, "pass", "1/3", True),
        (["below_floor", "below_floor"], 2, "fail", "2/3", False),
        (["below_floor", "pass", "below_floor"], 3, "fail", "2/4", False),
        # One that is missing may have failed.
        (["pass", None], 2, "pass", None, False),
        (["below_floor", None], 2, "unmeasured", "2/3", False),
        ([None, "below_floor"], 2, "unmeasured", "2/3", False),
        # A state is one however often it shows.
        (["path_mtu_small", "pass"], 2, "fail", "1/3", False),
        (["pass", "path_mtu_small"], 2, "fail", "1/3", False),
        (["path_mtu_small", None], 2, "fail", "1/3", False),
        ([None, "path_mtu_small"], 2, "fail", "1/3", False),
        # What was spoilt is inconclusive.
        *(
            (two, 2, "unmeasured", "1/3", False)
            for spoilt in ("row_garbled", "duplicate_row", "one_ended", "no_row")
            for two in ([spoilt, "pass"], ["pass", spoilt])
        ),
    ],
)
def test_a_good_first_attempt_counts_unless_contradicted(
    others: list[str | None], confirm: int, outcome: str, reproduced: str | None, flaky: bool
) -> None:
    answers = {number: word(kind) for number, kind in enumerate(["pass", *others], 1) if kind}
    one = attempts.combine_attempts("tcp_bandwidth", answers, confirm)
    assert (one.outcome, one.reproduced, one.flaky) == (outcome, reproduced, flaky), one.cause


@pytest.mark.parametrize(
    ("cause", "stands"),
    [("path_mtu_small", True), ("row_garbled", True), ("below_floor", False), ("unproven", False)],
)
def test_a_bad_first_attempt_counts_where_it_would_repeat(cause: str, stands: bool) -> None:
    answers = {1: word(cause), 2: Answer("pass"), 3: Answer("pass")}
    one = attempts.combine_attempts("tcp_bandwidth", answers, 2)
    assert (one is answers[1]) is stands
    assert one.flaky is not stands


def test_two_flaky_tests_are_unsteady() -> None:
    first, second = HEALTHY.ids("tcp_bandwidth")[:2]
    run = with_attempts(HEALTHY, first, "ugg")
    assert (run.verdict(first)["outcome"], run.status()) == ("pass", 0)
    run = with_attempts(run, second, "ugg")
    for identity in (first, second):
        one = run.verdict(identity)
        assert (one["outcome"], one["cause_class"]) == ("unmeasured", "unsteady")
    assert run.status() == 3


def make_pair(flaky: bool, check: str = "tcp_bandwidth") -> tuple[dict[str, Any], Answer]:
    line = {"check": check, "node": "gpu1", "peer": "gpu2", "rail": "rail0"}
    return line, Answer("pass", flaky=flaky, reproduced="1/3")


@pytest.mark.parametrize(
    ("flaky", "sound", "cause"),
    [
        # Two of a rail's 99 tests are more than 2 %, two of 100 are not, one is none.
        ([{}, {}], 97, "2 of 99 tests of gpu1 rail0"),
        ([{}, {}], 98, None),
        ([{}], 1, None),
        # On two rails of four nodes: of the run's, then.
        ([{}, {"node": "gpu3", "peer": "gpu4"}], 97, "2 of the run's 99 tests"),
        ([{}, {"node": "gpu3", "peer": "gpu4"}], 98, None),
        # A rail is of a node, and either end of a test may be the one.
        ([{}, {"peer": "gpu3"}], 0, "2 of 2 tests of gpu1 rail0"),
        ([{}, {"node": "gpu3"}], 0, "2 of 2 tests of gpu2 rail0"),
    ],
)
def test_from_how_many_flaky_tests_on_a_link_is_unsteady(
    flaky: list[dict[str, str]], sound: int, cause: str | None
) -> None:
    pairs = [make_pair(True) for _one in flaky]
    for (line, _answer), change in zip(pairs, flaky, strict=True):
        line.update(change)
    # What else a rail answers, a sum or a fact, is no test of it.
    pairs += [make_pair(False) for _one in range(sound)] + [make_pair(True, "aggregate_bandwidth")] * 9
    attempts.mark_unsteady(*zip(*pairs, strict=True))
    for _line, answer in pairs[: len(flaky)]:
        assert answer.outcome == ("pass" if cause is None else "unmeasured")
        assert (cause or "") in str(answer.cause.get("cause"))
    assert {answer.outcome for _line, answer in pairs[len(flaky) :]} == {"pass"}


def test_a_state_that_a_later_attempt_shows_is_no_matter_of_how_often() -> None:
    answers = {
        1: Answer.unmeasured("unproven", "x"),
        2: Answer().failed("path_mtu_small", "x"),
        3: Answer("pass"),
    }
    one = attempts.combine_attempts("path_mtu", answers, 2)
    assert (one.outcome, one.cause["cause_class"], one.reproduced) == ("fail", "path_mtu_small", "1/3")


def test_what_is_flaky_is_reported_in_one_sentence() -> None:
    one = {"check": "ping_rtt", "node": "gpu1", "peer": "gpu2", "rail": None, "reproduced": "1/3"}
    assert attempts.list_notes([{**one, "flaky": False}]) == []
    (said,) = attempts.list_notes([{**one, "flaky": False}, {**one, "flaky": True}])
    assert said == "flaky, good only when measured again: ping_rtt gpu1 to gpu2 all rails (1/3 bad)"


@pytest.mark.parametrize("attempts", ["lll", "llg", "lgl", "uuu", "luu", "ull", "lug", "fll"])
def test_no_row_that_is_dropped_leads_out_of_a_bad_verdict(attempts: str) -> None:
    identity = bandwidth(HEALTHY)
    run = with_attempts(HEALTHY, identity, attempts)
    assert run.verdict(identity)["outcome"] not in BETTER
    mine = run.rows(identity)
    for count in range(1, len(mine) + 1):
        for gone in itertools.combinations(range(len(mine)), count):
            left = copy.copy(run)  # the judge changes no row
            dropped = [mine[place] for place in gone]
            left.results = [row for row in run.results if not any(row is one for one in dropped)]
            assert left.verdict(identity)["outcome"] not in BETTER, (gone, left.verdict(identity))


def test_a_sum_is_of_one_attempt() -> None:
    """Its parts are measured again together: those of two attempts are no sum."""
    run = HEALTHY.copy()
    total = run.ids("aggregate_bandwidth")[0]
    parts = next(line for line in run.asked if line["id"] == total)["parts"]
    for part, kinds in zip(parts, ("ugg", "ggg"), strict=True):
        run = with_attempts(run, part, kinds)
    one = run.verdict(total)
    assert (one["flaky"], one["reproduced"]) == (True, "1/3"), one["cause"]
    run.results = [row for row in run.results if row["id"] != parts[1] or row.get("attempt", 1) == 1]
    assert run.verdict(total)["outcome"] == "unmeasured"
