# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel counts of processors."""

from __future__ import annotations

import itertools
import threading
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.measure import counters


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [
        # user nice system idle iowait irq softirq steal
        ("cpu 0 0 0 0 0 0 0 0", "cpu 10 0 20 60 5 1 4 0", 35.0),
        ("cpu 0 0 0 0 0 0 0 0", "cpu 0 0 0 100 0 0 0 0", 0.0),
        # Documentation/filesystems/proc.rst: iowait may decrease.
        ("cpu 0 0 0 100 50 0 0 0", "cpu 60 0 0 100 48 0 0 0", 100.0),
        ("cpu 7 0 0 100 50 0 0 0", "cpu 7 0 0 100 50 0 0 0", None),
    ],
)
def test_a_node_is_busy_with_all_but_idling(before: str, after: str, percent: float | None) -> None:
    spans = [counters.processor_ticks(text + "\ncpu0 0 0 0 0") for text in (before, after)]
    assert counters.node_cpu_percent(*spans) == percent


class Rail:
    """10,000 bytes a second by a clock that stands still but for waits, and for readings that are held up."""

    def __init__(self, held: set[int]) -> None:
        self.now_s = 100.0
        self.held = held
        self.readings = itertools.count()
        self.waits = 0

    def monotonic(self) -> float:
        return self.now_s

    def read_bytes(self) -> tuple[int, int]:
        seen = round((self.now_s - 100.0) * 10_000)
        if next(self.readings) in self.held:
            self.now_s += 1.0
        return seen, seen

    def wait(self, seconds: float) -> bool:
        self.now_s += seconds
        self.waits += 1
        return self.waits == 8

    def set(self) -> None:
        pass


@pytest.mark.parametrize("held", [set(), {0}, {2}, {1, 2}, {1, 2, 3, 4, 5}])
def test_a_sample_is_of_the_time_that_it_says(monkeypatch: pytest.MonkeyPatch, held: set[int]) -> None:
    """Of a process that was held up behind its reading the bytes were a second older than their time."""
    rail = Rail(held)
    monkeypatch.setattr(counters, "time", rail)
    fake = SimpleNamespace(Thread=threading.Thread, Event=lambda: rail)
    monkeypatch.setattr(counters, "threading", fake)
    sampler = counters.Sampler("rail0", 100.0, rail.read_bytes)
    sampler._thread.join(10)
    samples = sampler.stop()
    assert samples["rx_bytes"] == samples["tx_bytes"] == [round(at * 10_000) for at in samples["t_s"]]
    # Nor is what was missed made up for at once: samples of one moment have no rate.
    apart = [later - earlier for earlier, later in itertools.pairwise(samples["t_s"])]
    assert len(apart) >= 6
    assert min(apart) > counters.SAMPLE_PERIOD_S / 20, samples["t_s"]
