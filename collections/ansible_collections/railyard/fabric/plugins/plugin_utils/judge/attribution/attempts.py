# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combine several attempts at one test: a failure must be reproduced. Pure.

The first attempt is final if it is good and no two others contradict it, and if it shows a state or the
kernel's counters confirm it (a path MTU, packets lost while a counter of the link grew). Otherwise the nodes
measured it again, `fabric_policy.confirm` times:

- lost packets, no reply, a result beyond its threshold: a failure if two attempts have it; - an error that
left an attempt without a result: unmeasured if no attempt has a good one; - an attempt with missing or
garbled rows is never replaced by good ones: removing rows never improves a verdict; - otherwise the good
result counts and is `flaky`, which is always reported.

Two flaky tests of one node and rail, or of a run, that are more than 2 % of its tests are `unsteady`: such a
link is not good, whatever the last attempts show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.module_utils.facts.link_errors import KINDS, LOSS, PHYSICAL
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    CHECKS,
    FAIL,
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Causes of tests that are measured again; others would have the same result again.
REPEATED = frozenset(
    {"lost_packets", "probes_missed", "below_floor", "too_slow", "above_ceiling", "unproven", "ends_disagree",
     "windows_apart", "window_short", "samples_sparse", "part_unmeasured", "tool_failed", "tool_garbage",
     "clock_lost", "deadline", "peer_failed", "peer_deaf", "unknown_connection"}
)  # fmt: skip
#: Attempts with these causes are inconclusive.
_INCONCLUSIVE = ("row_garbled", "duplicate_row", "one_ended", "no_row")
_BEYOND = ("lost_packets", "below_floor", "too_slow", "tool_failed")
#: Number of attempts that reproduce a failure.
REPRODUCED = 2
#: Minimum number and share of flaky tests that are unsteady.
UNSTEADY_TESTS, UNSTEADY_SHARE = 2, 0.02
_PASSING = Answer(PASS)


def group_by_attempt(rows: Iterable[Row], confirm: int) -> dict[int, list[Row]] | None:
    """Return attempt -> its rows; None if a row has an invalid attempt."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        attempt = row_numbers.read_attempt(row)
        if not 1 <= attempt <= 1 + confirm:
            return None
        found.setdefault(attempt, []).append(row)
    return found


def combine_attempts(
    check: str, answers: Mapping[int, Answer], confirm: int, lost_on_the_link: bool = False
) -> Answer:
    """Return the answer to a test from its attempts.

    Args:
        check: the test's check.
        answers: attempt -> its answer, always with the first attempt.
        confirm: how often a bad test must be measured again.
        lost_on_the_link: packets were lost in the first attempt while a counter of the link grew.
    """
    first = answers.get(1) or Answer.unmeasured("attempt_missing", "the first")
    if not confirm or _is_final(first, answers, confirm):
        failed = sum(answer.outcome == FAIL for answer in answers.values())
        if failed and not _is_bad(first):
            first.flaky, first.reproduced = True, f"{failed}/{len(answers)}"
        return first
    if lost_on_the_link and _is_bad(first):
        first.cause = {**first.cause, "cause": f"{first.cause['cause']}, and a counter of the link grew"}
        return first
    if len(answers) < 2:
        first.reproduced = "1/1"
        return _add_detail(first, "unconfirmed: it was not measured again")
    every = {number: answers.get(number) or Answer.unmeasured("attempt_missing", f"number {number}")
             for number in range(1, 2 + confirm)}  # fmt: skip
    bad = [answer for answer in every.values() if _is_bad(answer)]
    # An attempt with missing or garbled rows may have been bad.
    may_pass = all(answer.cause.get("cause_class") in REPEATED for answer in bad)
    beyond = [answer for answer in bad if answer.outcome == FAIL]
    good = [answer for answer in every.values() if not _is_bad(answer)]
    state = next(filter(_is_state, beyond), None)
    if state is not None:
        found = state
    elif len(beyond) >= REPRODUCED:
        found = _take_median(check, [*beyond, *good], beyond)
    elif good and may_pass and (not beyond or len(good) == confirm):
        found = replace(_take_median(check, [*beyond, *good], good), flaky=True)
    else:
        each = "; ".join(f"attempt {number}: {_describe_answer(answer)}" for number, answer in every.items())
        found = _add_detail(next(answer for answer in bad if answer.outcome == UNMEASURED), each)
    found.attempts = len(every)
    counted = beyond if found.outcome == FAIL else bad
    found.reproduced = f"{len(counted)}/{len(every)}"
    return _add_detail(found, f"{len(counted)} of {len(every)} attempts") if found.outcome == FAIL else found


def add_tries(found: Answer, attempts: Mapping[int, Answer]) -> Answer:
    """Add the observed values of attempts without a threshold, and the number of attempts."""
    found.attempts = max(found.attempts, len(attempts))
    found.tries = {n: dict(one.observed) for n, one in attempts.items() if one.outcome == RECORDED}
    return found


def _is_final(first: Answer, answers: Mapping[int, Answer], confirm: int) -> bool:
    """Tell whether the first attempt is final: a state, or a good result that no others contradict."""
    if _is_bad(first):
        return first.cause.get("cause_class") not in (*REPEATED, "attempt_missing")
    others = [answers.get(number) for number in range(2, 2 + confirm)] if len(answers) > 1 else []
    if any(
        one is not None and (_is_state(one) or one.cause.get("cause_class") in _INCONCLUSIVE)
        for one in others
    ):
        return False
    # A missing attempt may have failed.
    return sum(one is None or one.outcome == FAIL for one in others) < REPRODUCED


def has_link_errors(rows: Iterable[Row]) -> bool:
    """Tell whether a counter of physical errors or drops grew in the rows of an attempt."""
    for row in rows:
        spans = row.get("link_errors")
        for name, span in spans.items() if isinstance(spans, Mapping) else ():
            if KINDS.get(str(name)) in (PHYSICAL, LOSS) and is_pair(span) and span[1] > span[0]:
                return True
    return False


def mark_unsteady(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    passing: Callable[[], Iterable[tuple[int, AskedLine]]] = tuple,
) -> None:
    """Turn flaky tests into unmeasured ones if there are too many of them.

    Args:
        asked: the planned tests.
        answers: their answers, in the same order; changed in place.
        passing: returns further planned tests, which pass at the first attempt.
    """
    if not any(answer.flaky for answer in answers):
        return
    tests = [([(line[end], line["rail"]) for end in ("node", "peer")], answer)
             for line, answer in zip(asked, answers, strict=True)
             if CHECKS[str(line["check"])].source == "test"]  # fmt: skip
    tests += [([(line[end], line["rail"]) for end in ("node", "peer")], _PASSING) for _at, line in passing()]
    all_of = Counter(place for both, _answer in tests for place in both)
    flaky = [(both, answer) for both, answer in tests if answer.flaky]
    flaky_of = Counter(place for both, _answer in flaky for place in both)
    everywhere = _is_too_many(len(flaky), len(tests))
    for both, answer in flaky:
        worst = next((place for place in both if _is_too_many(flaky_of[place], all_of[place])), None)
        if worst is not None:
            seen = f"{flaky_of[worst]} of {all_of[worst]} tests of {worst[0]} {worst[1]}"
        elif everywhere:
            seen = f"{len(flaky)} of the run's {len(tests)} tests"
        else:
            continue
        answer.unknown("unsteady", f"{seen}; this one {answer.reproduced} times")


def list_notes(verdicts: Iterable[Row]) -> list[str]:
    """Return a note that lists all flaky tests."""
    flaky = [one for one in verdicts if one["flaky"]]
    if not flaky:
        return []
    tests = [
        f"{one['check']} {one['node']} to {one['peer']} {one['rail'] or 'all rails'} "
        f"({one['reproduced']} bad)"
        for one in flaky
    ]
    return [f"flaky, good only when measured again: {plain_text.named(tests, between='; ')}"]


def _is_too_many(flaky: int, tests: int) -> bool:
    return flaky >= UNSTEADY_TESTS and flaky > UNSTEADY_SHARE * tests


def _is_state(answer: Answer) -> bool:
    return answer.outcome == FAIL and answer.cause.get("cause_class") not in _BEYOND


def _is_bad(answer: Answer) -> bool:
    return answer.outcome in (FAIL, UNMEASURED)


def _add_detail(answer: Answer, more: str) -> Answer:
    answer.cause = {**answer.cause, "cause": f"{answer.cause['cause']} ({more})"}
    return answer


def _describe_answer(answer: Answer) -> str:
    return str(answer.cause.get("cause")) if _is_bad(answer) else answer.outcome


def _take_median(check: str, measured: Sequence[Answer], among: Sequence[Answer]) -> Answer:
    """Return the median answer by the check's first metric; the first of `among` if it is not among them."""
    metric = next(iter(CHECKS[check].bounded), "")
    if not all(metric in answer.observed for answer in measured):
        return among[0]
    middle = sorted(measured, key=lambda answer: float(answer.observed[metric]))[len(measured) // 2]
    return next((answer for answer in among if answer is middle), among[0])
