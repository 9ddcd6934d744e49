# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a run: the tests' own times, and what this run was seen to take beyond."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import eta
from ansible_collections.railyard.fabric.plugins.module_utils.runner.eta import Pace

PLANNED_S = {"ping_rtt": 0.0, "tcp_bandwidth": 9.0, "rdma_bandwidth": 14.0, "tcp_bandwidth_concurrent": 9.0}


def make_test(check: str, group: str | None = None) -> dict[str, Any]:
    return {"check": check, "group": group}


TESTS = [
    make_test("ping_rtt"),
    make_test("tcp_bandwidth"),
    make_test("rdma_bandwidth"),
    make_test("tcp_bandwidth_concurrent", "g0"),
    make_test("tcp_bandwidth_concurrent", "g0"),
]


class Clock:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 500.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now_s)


def test_before_the_first_test_a_second_is_added_to_each(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = Pace(PLANNED_S, TESTS)
    clock.now_s += 40  # The partner was waited for: no test is that slow.
    # 0 + 9 + 14 + 9 (two at once), and four turns.
    assert pace.left_s() == pytest.approx(36.0)


def test_where_the_runner_starts_slowly_so_do_the_tests_that_start_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Clock(monkeypatch)
    # 9 + 14 + 9, three turns of 2.5 s and the ping's one second.
    assert Pace(PLANNED_S, TESTS, started_in_s=2.5).left_s() == pytest.approx(40.5)


def test_the_age_of_a_process_is_reported() -> None:
    program = "import time; time.sleep(0.5); from {0} import {1} as age; print(age())"
    words = program.format(eta.__name__, eta.process_age_s.__name__)
    done = subprocess.run(
        [sys.executable, "-c", words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    # Since its start, not since the machine's, nor since the word.
    assert 0.5 <= float(done.stdout) < 30


def test_afterwards_what_this_run_took_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = Pace(PLANNED_S, TESTS, started_in_s=2.5)
    pace.begin()
    clock.now_s += 0.5
    pace.over(TESTS[0])
    # A ping says nothing of tools that measure for a time: 9 + 14 + 9, and 2.5 s for each.
    assert pace.left_s() == pytest.approx(39.5)
    pace.begin()
    clock.now_s += 13
    pace.over(TESTS[1])
    # It took 4 s more than its 9. Left: 14 + 9, and 4 s for each.
    assert pace.left_s() == pytest.approx(31.0)


def test_a_group_is_one_turn_and_a_cable_none(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    pace = Pace(PLANNED_S, TESTS)
    pace.over(make_test("cabling"))
    pace.begin()
    clock.now_s += 9
    for one in TESTS[3:]:
        pace.over(one)
    # Nothing was added to its 9 s. Left: 9 + 14, and the ping's one second.
    assert pace.left_s() == pytest.approx(24.0)
    for one in TESTS[:3]:
        pace.over(one)
    assert pace.left_s() == 0.0


def test_the_clock_is_the_one_that_a_shell_reads() -> None:
    before, seen = float(Path("/proc/uptime").read_text("ascii").split()[0]), eta.uptime_s()
    assert 0 <= seen - before < 5
