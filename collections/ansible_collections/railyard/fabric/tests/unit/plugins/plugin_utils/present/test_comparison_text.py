# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table at the end of a run: fits 100 columns, folds what is many, says what is not measured."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison, comparison_text
from support.runs.comparison_cases import (
    all_verdicts,
    bandwidth,
    change,
    plan,
    way,
)

WIDTH = 100
RULES = {"sockperf_message_bytes": 14, "iperf3_streams": 4, "rdma_message_bytes": 65536, "rdma_qps": 1}


def shown(verdicts, **fields):
    return comparison_text.lines(comparison.compare_run(plan(**fields), verdicts, (), RULES))


def test_two_nodes_are_shown_completely():
    text = "\n".join(shown(all_verdicts()))
    assert re.search(
        r"gpuserver1 → gpuserver2  rail0 +27\.4 \(68\.5 %\) +38\.2 \(95\.5 %\) +1\.39 times faster", text
    )
    assert re.search(
        r"gpuserver1 ↔ gpuserver2  rail1 +50\.0 \(62\.5 %\) +75\.0 \(93\.8 %\) +1\.50 times faster", text
    )
    assert re.search(
        r"gpuserver2 → gpuserver1  all rails +50\.0 .* +57\.0 \(71\.2 %\) +1\.14 times faster", text
    )
    assert re.search(r"gpuserver1 → gpuserver2  rail0 +21\.6 +0\.850 +25\.4 times faster", text)
    assert re.search(r"gpuserver1 → gpuserver2  rail0 +35\.0 / 41\.0 +4\.1 / 0\.0", text)
    assert re.search(r"gpuserver1 → gpuserver2  all rails +52\.0 / 60\.0 +5\.0 / 1\.0", text)
    assert "one way" in text
    assert "14-byte messages" in text
    assert "more: see" not in text
    assert text.endswith("(median of 4\ndirections of rails).")


def test_latency_shows_no_row_that_has_none():
    text = shown(all_verdicts())
    start = next(at for at, line in enumerate(text) if line.startswith("  latency"))
    stop = next(at for at, line in enumerate(text) if line.startswith("  host CPU"))
    block = "\n".join(text[start:stop])
    assert block.count("→") == 4
    assert "↔" not in block
    assert "all rails" not in block


def test_a_gap_is_reported_as_text_and_not_as_a_number():
    verdicts = change(all_verdicts(), "rdma", outcome="unmeasured", proof="unproven")
    text = "\n".join(shown(verdicts))
    assert re.search(r"gpuserver1 → gpuserver2  rail0 +27\.4 \(68\.5 %\) +not measured\n", text)
    assert "times" not in text
    assert not re.search(r"\s0(\.0+)?[\s%]", text)


def test_what_was_not_planned_is_not_called_unmeasured():
    text = "\n".join(shown([*way()[:2], way()[3]]))
    assert re.search(r"rail0 +27\.4 \(68\.5 %\) +not planned\n", text)
    assert "not measured" not in text
    text = "\n".join(shown(way()[:3]))
    assert "latency, µs" not in text


def test_tcp_alone_says_nothing():
    assert shown([each for each in all_verdicts() if not each["check"].startswith("rdma")]) == []


def many(nodes=12):
    names = tuple(f"gpu{number:03d}" for number in range(1, nodes + 1))
    verdicts = []
    for node in names:
        for peer in names:
            if node != peer:
                verdicts += way(node, peer)
    return names, verdicts


def test_many_rows_show_the_worst_few_and_where_the_others_are():
    names, verdicts = many()
    for each in verdicts:
        if each["check"] == "rdma_bandwidth" and each["node"] == "gpu007":
            each["observed"] = {**each["observed"], "bandwidth_gbps": 1.0}
        if each["check"] == "rdma_bandwidth" and each["node"] == "gpu003":
            each.update(outcome="unmeasured", proof=None)
    compared = comparison.compare_run(plan(names, rails=1), verdicts, (), RULES)
    text = comparison_text.lines(compared, lambda found: f"{found[0]}…{found[-1]}, {len(found)}")
    assert len(text) < 40
    block = text[: next(at for at, line in enumerate(text) if line.startswith("  latency"))]
    assert sum("gpu007 →" in line for line in block) == comparison_text.WORST_SHOWN
    assert any("not measured: 11 of 132 (gpu003 with gpu001…gpu012, 11; rail0)" in line for line in block)
    assert any(
        re.search(r"median of 121: one rail, one way +27\.4 +38\.2 +1\.39 times faster", line)
        for line in block
    )
    assert any(
        f"{121 - comparison_text.WORST_SHOWN} more: see report.md or index.html" in line for line in block
    )
    # 132 - 11 of the processors' shares, the busiest first.
    assert any("116 more" in line for line in text[-8:])


def test_without_a_folder_of_names_the_first_few_are_reported():
    names, verdicts = many()
    for each in verdicts:
        each.update(outcome="unmeasured", proof=None)
    text = "\n".join(comparison_text.lines(comparison.compare_run(plan(names, rails=1), verdicts)))
    assert "132 of 132 (gpu001, gpu002, gpu003 and 9 more; rail0)" in text


@pytest.mark.parametrize("length", [1, 10, 19, 40, 200])
def test_no_line_is_wider_than_the_terminal(length):
    nodes = ("n" * length + "1.example.org", "n" * length + "2.example.org")
    verdicts = [
        {**each, "node": nodes[each["node"] == "gpuserver2"], "peer": nodes[each["node"] != "gpuserver2"]}
        for each in all_verdicts()
        if each["peer"]
    ]
    for each in verdicts:
        if each["check"] == "rdma_bandwidth":
            each["observed"] = {**each["observed"], "bandwidth_gbps": 0.00123}
    text = comparison_text.lines(comparison.compare_run(plan(nodes), verdicts, (), RULES))
    assert max(map(len, text)) <= WIDTH
    # Cut or not, the two ways stay apart.
    rows = [line[4:42] for line in text if "→" in line and "rail0" in line]
    assert len(set(rows)) == 2


def test_a_failed_number_is_shown_as_measured():
    [row] = comparison.compare(
        plan(), [bandwidth("tcp_bandwidth", 27.4), bandwidth("rdma_bandwidth", 3.0, outcome="fail")]
    )
    assert comparison_text.cell(row, "bandwidth", "rdma") == "3.00 (7.50 %)"
    assert comparison_text.advantage(row, "bandwidth") == "9.13 times slower"
