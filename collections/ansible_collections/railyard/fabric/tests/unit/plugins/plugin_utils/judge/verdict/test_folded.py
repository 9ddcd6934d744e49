# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passing verdicts of a large run are counts; everything except a clear pass keeps its own line."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded

PLAIN = {
    "schema": 1, "id": "m00001", "check": "tcp_bandwidth", "tool": "iperf3", "node": "gpu1", "peer": "gpu2",
    "rail": "rail0", "direction": "uni", "outcome": "pass", "proof": "proven", "basis": "declared",
    "observed": {"bandwidth_gbps": 9.0, "cpu_model": "x"}, "floor": {"bandwidth_gbps": 8.0},
    "ceiling": {"bandwidth_gbps": 10.0}, "cause_class": None, "cause": None, "next": None, "rows": ["m00001"],
    "attempts": 1, "reproduced": None, "flaky": False,
}  # fmt: skip


def verdict(**change: Any) -> dict[str, Any]:
    return {**PLAIN, **change}


def test_plain_passes_alike_are_one_count_with_the_spread_of_their_numbers() -> None:
    passes = [
        verdict(node=f"gpu{number}", observed={"bandwidth_gbps": number}) for number in (9, 8.5, 9.5, 8.1)
    ]
    [line] = folded.fold_verdicts(passes, 0)
    assert (line["count"], line["check"], line["rail"], line["floor"]) == (
        4, "tcp_bandwidth", "rail0", {"bandwidth_gbps": 8.0},
    )  # fmt: skip
    assert line["observed"] == {"bandwidth_gbps": {"min": 8.1, "median": 8.75, "max": 9.5}}
    assert folded.take_medians(line)["observed"] == {"bandwidth_gbps": 8.75}


def test_what_differs_in_check_rail_or_bound_is_another_count() -> None:
    others = [
        {"rail": "rail1"},
        {"check": "path_mtu"},
        {"floor": {"bandwidth_gbps": 7.0}},
        {"basis": "maximum"},
    ]
    lines = list(folded.fold_verdicts([verdict(), verdict(), *(verdict(**one) for one in others)], 0))
    assert Counter(line["count"] for line in lines) == {2: 1, 1: 4}


def test_whatever_is_no_plain_pass_keeps_its_line() -> None:
    kept = [
        verdict(outcome="fail"), verdict(outcome="recorded"), verdict(outcome="unmeasured"),
        verdict(peer=None), verdict(attempts=4, flaky=True, reproduced="1/4"), verdict(subject="all"),
    ]  # fmt: skip
    assert list(folded.fold_verdicts([*kept, verdict()], 0))[:-1] == kept


def test_of_a_run_that_is_not_large_each_verdict_has_its_line() -> None:
    assert list(folded.fold_verdicts([verdict()] * 3, 3)) == [verdict()] * 3
    assert [folded.read_count(line) for line in folded.fold_verdicts([verdict()] * 4, 3)] == [4]


def test_a_count_that_was_edited_is_one() -> None:
    assert [folded.read_count({"count": told}) for told in (0, -1, True, "7", 1.5, None, 10**30)] == [1] * 7
    assert folded.take_medians({"count": 2, "observed": {"a": 1}})["observed"] == {}
    assert folded.take_medians({"count": 2, "observed": 3})["observed"] == 3
