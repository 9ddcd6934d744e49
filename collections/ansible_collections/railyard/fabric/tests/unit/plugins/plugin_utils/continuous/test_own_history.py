"""A node beside itself: its last five good runs, with any partners; by the rule of compare."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import own_history
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import (
    NodeResult,
    RunResult,
)

PLACE = ("rdma_bandwidth", "rail0")


def run(day, value, *, good=True, place=PLACE, settings="s", steady=True):
    found = NodeResult(True, good, (), {place: value})
    return RunResult(f"202611{day:02d}T000000Z-0000", day * 86400.0, True, settings, steady, {"n1": found})


def compared(last, *earlier):
    [found] = own_history.compare(last, [last, *sorted(earlier, key=lambda one: one.run, reverse=True)])
    return found


def test_a_rail_that_lost_more_than_the_margin_is_worse():
    before = [run(day, 390.0 + day) for day in range(1, 6)]
    found = compared(run(9, 350.0), *before)
    assert (found.word, found.usual, len(found.before)) == ("worse", 393.0, 5)
    assert own_history.worse([found]) == [found]
    assert compared(run(9, 388.0), *before).word == "no significant difference"


def test_more_of_a_latency_is_worse():
    place = ("rdma_latency", "rail0")
    before = [run(day, 2.0, place=place) for day in range(1, 6)]
    assert compared(run(9, 3.0, place=place), *before).word == "worse"


def test_a_rail_that_was_never_measured_is_recorded():
    assert compared(run(9, 350.0)).word == "recorded"
    other = run(1, 390.0, place=("rdma_bandwidth", "rail7"))
    assert compared(run(9, 350.0), other).word == "recorded"


def test_only_good_runs_of_the_same_settings_count_and_only_five():
    bad, other = run(8, 100.0, good=False), run(7, 100.0, settings="t")
    assert compared(run(9, 390.0), bad, other).before == ()
    before = [run(day, 390.0 + day) for day in range(1, 8)]
    assert compared(run(9, 390.0), *before).before == (397.0, 396.0, 395.0, 394.0, 393.0)


def test_later_runs_are_no_history():
    assert compared(run(5, 350.0), run(6, 390.0)).before == ()


def test_software_links_need_a_factor_of_two():
    before = [run(day, 10.0, steady=False) for day in range(1, 6)]
    assert compared(run(9, 6.0, steady=False), *before).word == "no significant difference"
    assert compared(run(9, 4.0, steady=False), *before).word == "worse"
