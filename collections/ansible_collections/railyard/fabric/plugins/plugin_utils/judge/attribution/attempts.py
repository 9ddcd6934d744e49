# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What several attempts at one test mean together: a failure is reproduced before it is a failure. Pure.

The first attempt stands where it is good and no two others speak against it, and where a state or the
kernel's own count speaks (a path MTU, packets lost while a counter of the link grew). Else the nodes measured
it again, `fabric_policy.confirm` times:

- lost packets, no reply, a number beyond its bound: a failure when two attempts say so;
- anything that left an attempt without a number: unmeasured when no attempt has a good one;
- an attempt of which rows are missing or garbled is never made good by others: dropping rows never leads out
  of a bad verdict;
- otherwise the good word stands and is `flaky`, which is always told.

Two flaky tests of one node and rail, or of a run, that are more than 2 % of its tests are `unsteady`: such a
link is not good, whatever the last attempts say.
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

#: What is measured again; whatever else a test says, it would say again.
REPEATED = frozenset(
    {"lost_packets", "probes_missed", "below_floor", "too_slow", "above_ceiling", "unproven", "ends_disagree",
     "windows_apart", "window_short", "samples_sparse", "part_unmeasured", "tool_failed", "tool_garbage",
     "clock_lost", "deadline", "peer_failed", "peer_deaf", "unknown_connection"}
)  # fmt: skip
#: Of an attempt whose rows are so, nobody knows what it found.
_SPOILT = ("row_garbled", "duplicate_row", "one_ended", "no_row")
_BEYOND = ("lost_packets", "below_floor", "too_slow", "tool_failed")
#: So many attempts that say it make it so.
REPRODUCED = 2
#: Flaky tests are unsteady from so many, and from this share of the tests.
UNSTEADY_TESTS, UNSTEADY_SHARE = 2, 0.02
_PASSING = Answer(PASS)


def by_attempt(rows: Iterable[Row], confirm: int) -> dict[int, list[Row]] | None:
    """Return attempt -> its rows; None where a row says an attempt that there cannot be."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        attempt = row_numbers.attempt_of(row)
        if not 1 <= attempt <= 1 + confirm:
            return None
        found.setdefault(attempt, []).append(row)
    return found


def combine(
    check: str, answers: Mapping[int, Answer], confirm: int, lost_on_the_link: bool = False
) -> Answer:
    """Return what the attempts at a test mean together.

    Args:
        check: the test's.
        answers: attempt -> its answer; without rows at all, the first attempt's says so.
        confirm: how often a bad test had to be measured again.
        lost_on_the_link: packets were lost in the first attempt while a counter of the link grew.
    """
    first = answers.get(1) or Answer.unmeasured("attempt_missing", "the first")
    if not confirm or _stands(first, answers, confirm):
        failed = sum(answer.outcome == FAIL for answer in answers.values())
        if failed and not _is_bad(first):
            first.flaky, first.reproduced = True, f"{failed}/{len(answers)}"
        return first
    if lost_on_the_link and _is_bad(first):
        first.cause = {**first.cause, "cause": f"{first.cause['cause']}, and a counter of the link grew"}
        return first
    if len(answers) < 2:
        first.reproduced = "1/1"
        return _told(first, "unconfirmed: it was not measured again")
    every = {number: answers.get(number) or Answer.unmeasured("attempt_missing", f"number {number}")
             for number in range(1, 2 + confirm)}  # fmt: skip
    bad = [answer for answer in every.values() if _is_bad(answer)]
    # Whose rows are missing or garbled may have been anything.
    passing = all(answer.cause.get("cause_class") in REPEATED for answer in bad)
    beyond = [answer for answer in bad if answer.outcome == FAIL]
    good = [answer for answer in every.values() if not _is_bad(answer)]
    state = next(filter(_is_state, beyond), None)
    if state is not None:
        found = state
    elif len(beyond) >= REPRODUCED:
        found = _median(check, [*beyond, *good], beyond)
    elif good and passing and (not beyond or len(good) == confirm):
        found = replace(_median(check, [*beyond, *good], good), flaky=True)
    else:
        said = "; ".join(f"attempt {number}: {_word(answer)}" for number, answer in every.items())
        found = _told(next(answer for answer in bad if answer.outcome == UNMEASURED), said)
    found.attempts = len(every)
    counted = beyond if found.outcome == FAIL else bad
    found.reproduced = f"{len(counted)}/{len(every)}"
    return _told(found, f"{len(counted)} of {len(every)} attempts") if found.outcome == FAIL else found


def with_tries(found: Answer, attempts: Mapping[int, Answer]) -> Answer:
    """Keep what was seen in the attempts that no authority bounds, and how many there were."""
    found.attempts = max(found.attempts, len(attempts))
    found.tries = {n: dict(one.observed) for n, one in attempts.items() if one.outcome == RECORDED}
    return found


def _stands(first: Answer, answers: Mapping[int, Answer], confirm: int) -> bool:
    """Tell whether the first attempt's word stands: of a state, or a good one that nothing speaks against."""
    if _is_bad(first):
        return first.cause.get("cause_class") not in (*REPEATED, "attempt_missing")
    others = [answers.get(number) for number in range(2, 2 + confirm)] if len(answers) > 1 else []
    if any(one is not None and (_is_state(one) or one.cause.get("cause_class") in _SPOILT) for one in others):
        return False
    # One that was not made may have failed.
    return sum(one is None or one.outcome == FAIL for one in others) < REPRODUCED


def grew_on_the_link(rows: Iterable[Row]) -> bool:
    """Tell whether a counter of the cable, or of drops, grew in the rows of an attempt."""
    for row in rows:
        spans = row.get("link_errors")
        for name, span in spans.items() if isinstance(spans, Mapping) else ():
            if KINDS.get(str(name)) in (PHYSICAL, LOSS) and is_pair(span) and span[1] > span[0]:
                return True
    return False


def unsteady(
    asked: Sequence[AskedLine],
    answers: Sequence[Answer],
    passing: Callable[[], Iterable[tuple[int, AskedLine]]] = tuple,
) -> None:
    """Turn flaky tests into unmeasured ones where there are too many of them.

    Args:
        asked: the asked lines.
        answers: their answers, in the same order; changed in place.
        passing: returns the asked lines of further tests, which pass at once.
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
    everywhere = _too_many(len(flaky), len(tests))
    for both, answer in flaky:
        worst = next((place for place in both if _too_many(flaky_of[place], all_of[place])), None)
        if worst is not None:
            seen = f"{flaky_of[worst]} of {all_of[worst]} tests of {worst[0]} {worst[1]}"
        elif everywhere:
            seen = f"{len(flaky)} of the run's {len(tests)} tests"
        else:
            continue
        answer.unknown("unsteady", f"{seen}; this one {answer.reproduced} times")


def notes(verdicts: Iterable[Row]) -> list[str]:
    """Return what is told of flaky tests beside their verdicts, one sentence for all."""
    flaky = [one for one in verdicts if one["flaky"]]
    if not flaky:
        return []
    said = [
        f"{one['check']} {one['node']} to {one['peer']} {one['rail'] or 'all rails'} "
        f"({one['reproduced']} bad)"
        for one in flaky
    ]
    return [f"flaky, good only when measured again: {plain_text.named(said, between='; ')}"]


def _too_many(flaky: int, tests: int) -> bool:
    return flaky >= UNSTEADY_TESTS and flaky > UNSTEADY_SHARE * tests


def _is_state(answer: Answer) -> bool:
    return answer.outcome == FAIL and answer.cause.get("cause_class") not in _BEYOND


def _is_bad(answer: Answer) -> bool:
    return answer.outcome in (FAIL, UNMEASURED)


def _told(answer: Answer, more: str) -> Answer:
    answer.cause = {**answer.cause, "cause": f"{answer.cause['cause']} ({more})"}
    return answer


def _word(answer: Answer) -> str:
    return str(answer.cause.get("cause")) if _is_bad(answer) else answer.outcome


def _median(check: str, measured: Sequence[Answer], among: Sequence[Answer]) -> Answer:
    """Return the answer in the middle by the check's first number; the first of `among` where it is none."""
    metric = next(iter(CHECKS[check].bounded), "")
    if not all(metric in answer.observed for answer in measured):
        return among[0]
    middle = sorted(measured, key=lambda answer: float(answer.observed[metric]))[len(measured) // 2]
    return next((answer for answer in among if answer is middle), among[0])
