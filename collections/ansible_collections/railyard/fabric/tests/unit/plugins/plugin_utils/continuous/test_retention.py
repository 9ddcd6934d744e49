"""Which run folders stay."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import retention
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import (
    NodeResult,
    RunResult,
)

NEVER_S = 4e9


def run(day, **nodes):
    found = {name: NodeResult(True, good) for name, good in nodes.items()}
    return RunResult(f"202611{day:02d}T000000Z-0000", None, True, "s", True, found)


def stays(runs, keep=1, since_s=NEVER_S, names=None):
    names = names or [one.run for one in runs]
    return sorted(int(name[6:8]) for name in retention.needed(names, runs, keep, since_s))


def test_the_newest_and_each_nodes_last_five_good_runs_stay():
    runs = [run(day, n1=True) for day in range(20, 0, -1)]
    assert stays(runs) == [16, 17, 18, 19, 20]
    assert stays(runs, keep=7) == [14, 15, 16, 17, 18, 19, 20]


def test_the_newest_good_run_of_a_node_stays_however_old():
    runs = [run(day, n1=False) for day in range(20, 2, -1)] + [run(2, n1=True), run(1, n2=True)]
    assert stays(runs) == [1, 2, 19, 20]


def test_young_runs_and_those_that_cannot_be_read_stay():
    runs = [run(day, n1=True) for day in range(20, 0, -1)]
    # 2026-11-10T00:00:00Z
    assert stays(runs, since_s=1794268800.0) == list(range(10, 21))
    names = [one.run for one in runs]
    assert stays([one for one in runs if "1103T" not in one.run], names=names) == [3, 16, 17, 18, 19, 20]
