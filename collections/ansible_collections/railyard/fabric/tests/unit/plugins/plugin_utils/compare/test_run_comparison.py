# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs compared: only comparable results, what is refused and what has no result, folded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.significance import (
    IMPROVED,
    NO_DIFFERENCE,
    NOT_COMPARABLE,
    WORSE,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare import environment, run_comparison, text
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.runs import Number, Place, Run
from support.runs.comparison_cases import WRITE_GBPS

TOOLS = {"rdma_bandwidth": "ib_write_bw", "tcp_bandwidth": "iperf3"}
N1, N2 = "gpuserver1", "gpuserver2"


def run(numbers, *, rails=2, driver_class="hardware", outcomes=None, conditions=None, plan=None, **facts):
    """A run with these numbers: (check, node, peer, rail) -> value."""
    names = sorted({name for _check, *ends, _rail in numbers for name in ends} | {N1, N2})
    planned = [{"name": f"rail{number}", "mtu": 9000} for number in range(rails)]
    device = {"netdev": "ens6", "driver_class": driver_class, "firmware": "2.42.5000"}
    told = {Place(*place): "recorded" for place in numbers}
    return Run(
        folder=Path("somewhere"),
        name="lab/one",
        manifest={"run": "one", "cluster": "lab", "policy": {}, "versions": {}},
        plan={
            "node_class": driver_class,
            "cabling": "back_to_back",
            "transport": "roce",
            "nodes": {name: {"rails": planned} for name in names},
            **(plan or {}),
        },
        nodes={name: {"kernel": "6.1.0", **facts} for name in names},
        fleet=BoundFacts(
            bound={
                name: {one["name"]: Bound(one, device, {**device, **facts}) for one in planned}
                for name in names
            }
        ),
        numbers={
            Place(*place): Number(
                value, {"tool": (TOOLS.get(place[0], "sockperf"),), "qps": ("1",), **(conditions or {})}
            )
            for place, value in numbers.items()
        },
        outcomes=told | {Place(*place): one for place, one in (outcomes or {}).items()},
        against_tcp="",
        notes=(),
    )


def ways(check, *values, rails=("rail0", "rail1")):
    """Both directions of each rail: values in this order, the last one again and again."""
    places = [(check, *ends, rail) for rail in rails for ends in ((N1, N2), (N2, N1))]
    return dict(zip(places, [*values, *[values[-1]] * len(places)], strict=False))


def list_findings(found):
    return {(row.check, row.rails): row.finding for row in found.rows}


def test_the_table_of_the_notes_is_filled():
    """Back to back as its owner measured it, beside the same cluster behind a switch."""
    numbers = {
        "rdma_bandwidth": (WRITE_GBPS, WRITE_GBPS * 0.999),
        "rdma_latency": (0.85, 1.3),
        "tcp_bandwidth": (27.4, 27.9),
        "tcp_latency": (21.622, 29.1),
        "ping_rtt": (150.0, 160.0),
    }
    a, b = (
        run(
            {
                place: value
                for check, of in numbers.items()
                for place, value in ways(check, of[which]).items()
            },
            plan={"cabling": cabling},
        )
        for which, cabling in enumerate(("back_to_back", "switched"))
    )
    lines = text.format_comparison(run_comparison.compare_runs(a, b))
    assert (
        lines[3] == "  B is worse in One-way TCP latency, rail[0-1]; One-way RDMA write latency, rail[0-1]."
    )
    at = next(number for number, line in enumerate(lines) if line.split()[:1] == ["Results"])
    assert [" ".join(line.split()) for line in lines[at : at + 6]] == [
        "Results A: back to back B: switched difference",
        "RDMA write bandwidth 38.2 Gbit/s 38.2 Gbit/s -0.1 %: no significant difference",
        "One-way RDMA write latency 0.850 µs 1.30 µs +52.9 %: worse",
        "TCP bandwidth 27.4 Gbit/s 27.9 Gbit/s +1.8 %: no significant difference",
        "One-way TCP latency 21.6 µs 29.1 µs +34.6 %: worse",
        "Ping round trip 150 µs 160 µs +6.7 %: no significant difference",
    ]
    assert "  cabling: back_to_back → switched" in lines
    assert any("adjusted for" in line for line in lines), "the rule is said"


@pytest.mark.parametrize(
    ("before", "after", "rows"),
    [
        # All of one rail got worse, the other stayed: the rail's row says it, the row of both cannot.
        ((38.0, 38.1, 38.0, 38.1), (30.0, 30.1, 38.0, 38.1), (NO_DIFFERENCE, WORSE, NO_DIFFERENCE)),
        ((30.0,), (38.0,), (IMPROVED,) * 3),
        ((38.0, 37.9, 38.1, 38.2), (38.1, 38.0, 38.1, 37.9), (NO_DIFFERENCE,) * 3),
    ],
)
def test_a_row_for_each_rail_and_one_for_all(before, after, rows):
    found = run_comparison.compare_runs(*(run(ways("rdma_bandwidth", *values)) for values in (before, after)))
    assert [row.rails for row in found.rows] == [("rail0", "rail1"), ("rail0",), ("rail1",)]
    assert tuple(row.finding for row in found.rows) == rows
    assert found.is_compared
    assert not found.places, "where the rail says it, no sender says it again"


def test_of_many_rows_each_has_to_be_rarer():
    """Four senders of a rail, 4 % more: chance does that in 2 of 70 rails, so that of two it is no news."""
    ring = [(f"gpu{one}", f"gpu{one % 4 + 1}") for one in range(1, 5)]
    for rails, word in ((1, IMPROVED), (2, NO_DIFFERENCE)):
        a, b = (
            run(
                {("rdma_bandwidth", *ends, f"rail{rail}"): gbps for rail in range(rails) for ends in ring},
                rails=rails,
            )
            for gbps in (380.0, 395.2)
        )
        assert list_findings(run_comparison.compare_runs(a, b))["rdma_bandwidth", ("rail0",)] == word


def test_software_links_have_to_change_by_a_factor_of_two():
    for value, word in ((1.9, NO_DIFFERENCE), (2.1, IMPROVED)):
        soft = [run(ways("tcp_bandwidth", gbps), driver_class="software") for gbps in (1.0, value)]
        assert {row.finding for row in run_comparison.compare_runs(*soft).rows} == {word}
        hard = run(ways("tcp_bandwidth", value))
        assert {row.finding for row in run_comparison.compare_runs(soft[0], hard).rows} == {word}, (
            "the noisier run decides"
        )


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("tool", "ib_send_bw"),
        ("message_bytes", "1048576"),
        ("qps", "4"),
        ("streams", "8"),
        ("mtu_bytes", "1500"),
        ("active_mtu_bytes", "1024"),
        ("latency_is", "round_trip"),
        ("bandwidth_is", "sum_of_both"),
    ],
)
def test_what_is_not_alike_is_refused_once_and_folded(key, other):
    ours = ways("rdma_bandwidth", 38.0)
    a, b = run(ours, conditions={key: ("65536",)}), run(ours, conditions={key: (other,)})
    found = run_comparison.compare_runs(a, b)
    [refused] = found.refused
    assert (refused.differs, refused.rows) == (((key, "65536", other),), 4)
    assert {row.finding for row in found.rows} == {NOT_COMPARABLE}
    assert all(row.ratio is None and row.a and row.b for row in found.rows)
    assert not found.is_compared
    name = "rdma_bandwidth" if key == "tool" else "ib_write_bw"
    assert f"  {name} {key} 65536 / {other}: 4 rows not compared" in text.format_comparison(found)


def test_the_other_direction_is_not_the_same():
    a = run({("tcp_bandwidth", N1, N2, "rail0"): 9.0})
    b = run({("tcp_bandwidth", N2, N1, "rail0"): 19.0})
    found = run_comparison.compare_runs(a, b)
    assert [(one.tool, one.differs[0][0], one.rows) for one in found.refused] == [("iperf3", "direction", 1)]
    assert not found.is_compared
    both = run(ways("tcp_bandwidth", 9.0, rails=("rail0",)))
    assert not run_comparison.compare_runs(both, b).refused, "one direction is alike, the other was not asked"


def test_what_is_unmeasured_is_reported_and_never_equal():
    both = ways("tcp_bandwidth", 9.0)
    gone = [("tcp_bandwidth", N1, N2, "rail0"), ("tcp_bandwidth", N2, N1, "rail0")]
    less = {place: value for place, value in both.items() if place not in gone}
    a, b = run(both), run(less, outcomes=dict.fromkeys(gone, "unmeasured"))
    found = run_comparison.compare_runs(a, b)
    assert list_findings(found)["tcp_bandwidth", ("rail0",)] == NOT_COMPARABLE
    assert list_findings(found)["tcp_bandwidth", ("rail0", "rail1")] == NO_DIFFERENCE
    assert (found.rows[0].a, found.rows[0].b.values) == (found.rows[0].b, 2), "of the same places"
    assert [(one.run, one.outcomes, len(one.places)) for one in found.lacking] == [("b", ("unmeasured",), 2)]
    assert [(one.a, one.b, len(one.places)) for one in found.changed] == [("recorded", "unmeasured", 2)]
    told = text.format_comparison(found)
    assert "  TCP bandwidth: 2 in B (unmeasured): gpuserver[1-2], rail0" in told
    assert any("not measured" in line and NOT_COMPARABLE in line for line in told)
    # Tests that one of the runs did not plan are listed too.
    asked = run_comparison.compare_runs(run(less), a).lacking
    assert [(one.run, one.outcomes) for one in asked] == [("a", ("not asked",))]


def test_a_single_sender_that_changed_is_not_hidden_by_its_rail():
    nodes = [f"gpu{number:03d}" for number in range(1, 11)]
    places = [
        ("rdma_bandwidth", node, peer, "rail0")
        for node, peer in zip(nodes, nodes[1:] + nodes[:1], strict=True)
    ]
    a = run({place: 380.0 + number for number, place in enumerate(places)}, rails=1)
    b = run({place: (150.0 if number == 3 else 381.0) for number, place in enumerate(places)}, rails=1)
    found = run_comparison.compare_runs(a, b)
    assert list_findings(found) == {("rdma_bandwidth", ("rail0",)): NO_DIFFERENCE}
    assert [(one.node, one.peer, one.finding) for one in found.places] == [("gpu004", "gpu005", WORSE)]
    assert any("gpu004 → gpu005 rail0" in line for line in text.format_comparison(found))
    # Where all of them got slower by as much, no one stands out.
    slow = run({place: 150.0 + number for number, place in enumerate(places)}, rails=1)
    assert not run_comparison.compare_runs(a, slow).places
    # Nor where all changed as widely as this one.
    wide = run(
        {place: (380.0 + number) * (0.93, 1.07)[number % 2] for number, place in enumerate(places)}, rails=1
    )
    assert not run_comparison.compare_runs(a, wide).places


def test_what_else_differs_is_folded_by_node():
    numbers = {("tcp_bandwidth", f"gpu{one}", f"gpu{one + 1}", "rail0"): 9.0 for one in (1, 3)}
    a = run(numbers)
    b = run(numbers, kernel="6.8.0", firmware="2.42.5700", plan={"cabling": "switched"})
    told = environment.find_differences(a, b)
    nodes = ("gpu1", "gpu2", "gpu3", "gpu4", N1, N2)
    assert told == [
        ("cabling", "back_to_back", "switched", (), ()),
        ("kernel", "6.1.0", "6.8.0", nodes, ()),
        ("HCA firmware", "2.42.5000", "2.42.5700", nodes, ("rail0", "rail1")),
    ]
    unread = environment.find_differences(a, replace(a, nodes={}))
    assert unread == [("facts", "read", "none", nodes, ())]
    lines = text.format_comparison(run_comparison.compare_runs(a, b))
    assert "  kernel: 6.1.0 → 6.8.0 (gpu[1-4],gpuserver[1-2])" in lines
    assert "Nothing else differs." in text.format_comparison(run_comparison.compare_runs(a, a))


def test_no_string_is_more_than_a_line():
    hostile = "gpu\x1b[2J\n\rfake"
    numbers = {("tcp_bandwidth", hostile, N2, "rail0"): 9.0}
    a, b = run(numbers), run(numbers, kernel="6\n  Results  all is well\x1b[0m")
    for line in text.format_comparison(run_comparison.compare_runs(a, b)):
        assert not {"\x1b", "\n"} & set(line)
