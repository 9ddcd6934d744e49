# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long the tests to come should take: the time that each is asked to measure for, and what is added.

The controller looks when that time is over. By the number of tests alone it would look again and again during
the last and longest ones, and a look takes something from the test under way where the node is slow.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

# The least that a test is thought to take beyond its own time until this run's tests tell.
_EXTRA_S = 1.0
# From here on a test counts as one that measures for a given time; pings of some packets take less.
_TIMED_S = 1.0


def uptime_s() -> float:
    """Return the seconds since the node's boot as a shell can read them too."""
    with open("/proc/uptime", encoding="ascii") as handle:
        return float(handle.read().split()[0])


def process_age_s() -> float:
    """Return for how long this process has been there; proc(5), `stat`, field 22, counted after the name."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as handle:
        after_name = handle.read().rpartition(")")[2].split()
    return max(0.0, uptime_s() - int(after_name[19]) / os.sysconf("SC_CLK_TCK"))


class _Turns:
    """Turns of one kind: how many are left, and what those that are over took beyond their own time."""

    def __init__(self, guess_s: float) -> None:
        self.left = 0
        self._guess_s = guess_s
        self._seen_s: list[float] = []

    def over(self, extra_s: float) -> None:
        """Note a turn that is over."""
        self.left -= 1
        self._seen_s = [*self._seen_s[-7:], max(0.0, extra_s)]

    def extra_s(self) -> float:
        """Return what those that are left should take beyond their own time, together."""
        each_s = sum(self._seen_s) / len(self._seen_s) if self._seen_s else self._guess_s
        return self.left * each_s


class Pace:
    """Counts turns: a test alone is one, the tests of a group are one together.

    Those that measure for a given time start servers and clients and take longer around it than those that
    send a few packets; so each kind is counted by itself.

    Args:
        planned_s: by check, the seconds that its tool is asked to measure for.
        tests: those of this node, as `schedule.asked_tests` yields them.
        started_in_s: what the runner took to start. Where that is long, so is what surrounds each test.
    """

    def __init__(
        self, planned_s: Mapping[str, float], tests: Iterable[Mapping[str, Any]], started_in_s: float = 0.0
    ) -> None:
        self._planned_s = planned_s
        self._left_s = 0.0
        self._timed = _Turns(max(_EXTRA_S, started_in_s))
        self._short = _Turns(_EXTRA_S)
        self._groups_over: set[object] = set()
        self._begun = time.monotonic()
        self.more(tests)

    def more(self, tests: Iterable[Mapping[str, Any]]) -> None:
        """Count tests that are to come."""
        groups: set[object] = set()
        for test in tests:
            if not _again(test, groups):
                planned_s_here = self._planned_s[str(test["check"])]
                self._left_s += planned_s_here
                self._turns(planned_s_here).left += 1

    def begin(self) -> None:
        """Note that a turn begins."""
        self._begun = time.monotonic()

    def over(self, test: Mapping[str, Any]) -> None:
        """Note that a test has its row; a question about cables, which is no turn, changes nothing."""
        planned_s = self._planned_s.get(str(test["check"]))
        if planned_s is None or _again(test, self._groups_over):
            return
        self._left_s -= planned_s
        self._turns(planned_s).over(time.monotonic() - self._begun - planned_s)

    def planned_s(self, check: str) -> float:
        """Return the seconds that a check's tool is asked to measure for."""
        return self._planned_s[check]

    def left_s(self) -> float:
        """Return how long the rest should take, as seen at the start of a turn."""
        return max(0.0, self._left_s + self._timed.extra_s() + self._short.extra_s())

    def _turns(self, planned_s: float) -> _Turns:
        return self._timed if planned_s >= _TIMED_S else self._short


def _again(test: Mapping[str, Any], groups: set[object]) -> bool:
    """Tell whether another test of this one's group, at the same attempt, was met before."""
    if test["group"] is None:
        return False
    group = (test["group"], test.get("attempt", 1))
    if group in groups:
        return True
    groups.add(group)
    return False
