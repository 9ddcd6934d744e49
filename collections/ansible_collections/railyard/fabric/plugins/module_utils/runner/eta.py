# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate how long the remaining tests take: the planned measuring time of each, and the overhead.

The controller polls when that time is over. From the number of tests alone it would poll often during the
last and longest ones, and on a slow node each poll disturbs the running test.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

# The assumed overhead of a test until tests of this run have shown it.
_EXTRA_S = 1.0
# A test that is planned to measure for at least this long counts as timed; pings of a few packets take less.
_TIMED_S = 1.0


def uptime_s() -> float:
    """Return the seconds since the node's boot, from a file that a shell can read too."""
    with open("/proc/uptime", encoding="ascii") as handle:
        return float(handle.read().split()[0])


def process_age_s() -> float:
    """Return the age of this process in seconds; proc(5), `stat`, field 22, counted after the name."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as handle:
        after_name = handle.read().rpartition(")")[2].split()
    return max(0.0, uptime_s() - int(after_name[19]) / os.sysconf("SC_CLK_TCK"))


class _Turns:
    """Comparable turns: how many are left, and the overhead of those that are over."""

    def __init__(self, guess_s: float) -> None:
        self.left = 0
        self._guess_s = guess_s
        self._seen_s: list[float] = []

    def over(self, extra_s: float) -> None:
        """Note a turn that is over."""
        self.left -= 1
        self._seen_s = [*self._seen_s[-7:], max(0.0, extra_s)]

    def extra_s(self) -> float:
        """Return the expected overhead of all turns that are left."""
        each_s = sum(self._seen_s) / len(self._seen_s) if self._seen_s else self._guess_s
        return self.left * each_s


class Pace:
    """Counts turns: a test, or all tests of a group together.

    Timed tests start servers and clients and have more overhead than tests that send a few packets, so the
    two kinds are counted separately.

    Args:
        planned_s: check -> planned measuring time of its tool.
        tests: the tests of this node, as `schedule.asked_tests` yields them.
        started_in_s: how long the runner took to start; where that is long, so is the overhead of each test.
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
        """Add tests that are to come."""
        groups: set[object] = set()
        for test in tests:
            if not _is_repeated(test, groups):
                planned_s_here = self._planned_s[str(test["check"])]
                self._left_s += planned_s_here
                self._turns(planned_s_here).left += 1

    def begin(self) -> None:
        """Note that a turn begins."""
        self._begun = time.monotonic()

    def over(self, test: Mapping[str, Any]) -> None:
        """Note that a test has its row; cable checks are no turns and are ignored."""
        planned_s = self._planned_s.get(str(test["check"]))
        if planned_s is None or _is_repeated(test, self._groups_over):
            return
        self._left_s -= planned_s
        self._turns(planned_s).over(time.monotonic() - self._begun - planned_s)

    def planned_s(self, check: str) -> float:
        """Return the planned measuring time of a check's tool."""
        return self._planned_s[check]

    def left_s(self) -> float:
        """Return the expected time of the rest, as of the start of a turn."""
        return max(0.0, self._left_s + self._timed.extra_s() + self._short.extra_s())

    def _turns(self, planned_s: float) -> _Turns:
        return self._timed if planned_s >= _TIMED_S else self._short


def _is_repeated(test: Mapping[str, Any], groups: set[object]) -> bool:
    """Return whether a test of the same group and attempt was seen before."""
    if test["group"] is None:
        return False
    group = (test["group"], test.get("attempt", 1))
    if group in groups:
        return True
    groups.add(group)
    return False
