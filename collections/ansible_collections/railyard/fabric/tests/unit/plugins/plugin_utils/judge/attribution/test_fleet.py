# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results without a threshold are compared with comparable tests: they can fail, and never pass by it."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import fleet
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from support.runs.fake_run import FakeRun, exchanged


def answers(first: list[float], last: list[float], metric: str = "latency_p50_us") -> list[Answer]:
    """Return recorded answers with one attempt each, the last one's with those that are given."""
    made = [Answer("recorded", {metric: value}, tries={1: {metric: value}}) for value in first]
    tries = {number: {metric: value} for number, value in enumerate(last, 1)}
    return [*made, Answer("recorded", {metric: last[0]}, tries=tries)]


def judge_last(
    made: list[Answer],
    hardware: bool,
    confirm: int = 2,
    lost: str = "",
    direct: bool = False,
    **conditions: str,
) -> tuple[str, str | None, bool]:
    for answer in made:
        answer.conditions = {"check": "tcp_latency", "hardware": str(hardware), **conditions}
    fleet.fail_outliers([(answer, lost) for answer in made], confirm, direct)
    assert {answer.outcome for answer in made[:-1]} == {"recorded"}
    last = made[-1]
    return last.outcome, last.reproduced, last.flaky


@pytest.mark.parametrize(
    ("last", "hardware", "seen"),
    [
        ([5000.0, 5000.0, 5000.0], True, ("fail", "3/3", False)),
        ([5000.0, 2.2, 5000.0], True, ("fail", "2/3", False)),
        ([5000.0, 2.2, 2.2], True, ("recorded", "1/3", True)),
        ([5000.0], True, ("fail", "1/1", False)),
        ([5000.0, 5000.0, 5000.0], False, ("fail", "3/3", False)),
        ([5000.0, 2.2, 5000.0], False, ("recorded", None, False)),
        ([5000.0], False, ("recorded", None, False)),
        ([2.3, 5000.0, 5000.0], True, ("fail", "2/3", False)),
        ([2.3, 5000.0, 2.3], True, ("recorded", None, False)),
    ],
)
def test_an_outlier_fails_when_it_is_one_again(
    last: list[float], hardware: bool, seen: tuple[str, str | None, bool]
) -> None:
    assert judge_last(answers([2.2] * 15, last), hardware) == seen


def test_software_that_was_not_measured_again_cannot_fail() -> None:
    assert judge_last(answers([2.2] * 15, [5000.0]), hardware=False, confirm=0)[0] == "recorded"


@pytest.mark.parametrize(
    ("last", "attempts", "lost", "hardware", "confirm", "seen"),
    [
        # Two of three attempts decide of a card, whichever was the first; the third may have been as bad.
        ([2.3, 5000.0], 3, "", True, 2, ("unmeasured", None, False)),
        ([2.3, 5000.0], 2, "", True, 2, ("recorded", "1/2", True)),
        ([5000.0, 2.2], 2, "", True, 2, ("recorded", "1/2", True)),
        ([5000.0, 2.2], 3, "", True, 2, ("unmeasured", None, False)),
        ([5000.0, 2.2, 2.2], 4, "", True, 3, ("unmeasured", None, False)),
        ([5000.0, 2.2, 2.2, 2.2], 5, "", True, 4, ("unmeasured", None, False)),
        # Software in all attempts: a good one is enough, and those that are missing may all have been bad.
        ([5000.0, 2.2], 3, "", False, 2, ("recorded", None, False)),
        ([5000.0, 5000.0], 3, "", False, 2, ("unmeasured", None, False)),
        ([5000.0], 3, "", False, 2, ("unmeasured", None, False)),
        # Rows that were lost are of an attempt only where one of them all is not there.
        ([5000.0], 1, "9 rows", False, 2, ("unmeasured", None, False)),
        ([5000.0, 5000.0], 2, "9 rows", False, 2, ("unmeasured", None, False)),
        ([5000.0, 5000.0], 2, "9 rows", True, 2, ("fail", "2/2", False)),
        ([2.3], 1, "9 rows", True, 2, ("recorded", None, False)),
        ([5000.0, 2.2], 2, "9 rows", True, 2, ("unmeasured", None, False)),
        ([5000.0, 2.2, 2.2], 3, "9 rows", True, 2, ("recorded", "1/3", True)),
        ([5000.0, 2.2, 2.2], 3, "9 rows", True, 3, ("unmeasured", None, False)),
        ([5000.0, 5000.0, 2.2], 3, "9 rows", False, 2, ("recorded", None, False)),
    ],
)  # fmt: skip
def test_what_an_attempt_that_is_not_there_may_have_been(
    last: list[float],
    attempts: int,
    lost: str,
    hardware: bool,
    confirm: int,
    seen: tuple[str, str | None, bool],
) -> None:
    made = answers([2.2] * 15, last)
    made[-1].attempts = attempts
    assert judge_last(made, hardware, confirm, lost) == seen
    if seen[0] == "unmeasured":
        assert (lost or f"{len(last)} of {attempts} have a result") in made[-1].cause["cause"]


@pytest.mark.parametrize(
    ("slow_us", "hardware", "outcome"),
    [(5.0, True, "fail"), (3.3, True, "recorded"), (5.0, False, "recorded"), (11.1, False, "fail")],
)
def test_a_card_is_an_outlier_by_the_spread_and_software_by_times_alone(
    slow_us: float, hardware: bool, outcome: str
) -> None:
    """Half as much again of 2.2 us is beyond cards that do not spread; software's are five times apart."""
    assert judge_last(answers([2.2] * 15, [slow_us] * 3), hardware)[0] == outcome


def both_ways(*ways_gbps: tuple[float, float], tries: int = 1) -> list[Answer]:
    """Return recorded answers of cards, of so many attempts; each is of its two directions at once."""
    made = []
    for forward, reverse in ways_gbps:
        seen = {"bandwidth_gbps": forward + reverse, "forward_gbps": forward, "reverse_gbps": reverse}
        answer = Answer("recorded", dict(seen), basis="x", attempts=tries)
        answer.tries = {number: dict(seen) for number in range(1, tries + 1)}
        answer.conditions = {"check": "tcp_bandwidth_bi", "hardware": "True"}
        made.append(answer)
    fleet.fail_outliers([(answer, "") for answer in made], 2)
    assert {answer.outcome for answer in made[:-1]} == {"recorded"}
    return made


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ((10.0, 90.0), "forward_gbps 10, the median of 16 comparable tests 50 (1 of 1 attempts)"),
        ((90.0, 10.0), "reverse_gbps 10, the median of 16 comparable tests 50 (1 of 1 attempts)"),
        # A processor may favour one of them, though not five times.
        ((10.1, 89.9), None),
        ((89.9, 10.1), None),
        # What the sum shows is reported once.
        ((5.0, 5.0), "bandwidth_gbps 10, the median of 16 comparable tests 100 (1 of 1 attempts)"),
    ],
)
def test_no_direction_hides_behind_the_sum_of_both(last: tuple[float, float], said: str | None) -> None:
    one = both_ways(*[(50.0, 50.0)] * 15, last)[-1]
    assert one.outcome == ("recorded" if said is None else "fail")
    assert (said or "") in one.cause.get("cause", "")
    assert one.basis == ("x" if said is None else "x; compared with comparable tests of the run")


@pytest.mark.parametrize(
    ("check", "observed", "compared"),
    [
        ("tcp_bandwidth", {"bandwidth_gbps": 1.0, "latency_p50_us": 2.0}, "bandwidth_gbps"),
        ("tcp_latency", {"bandwidth_gbps": 1.0, "latency_p50_us": 2}, "latency_p50_us"),
        ("ping_rtt", {"latency_p50_us": 2.0, "rtt_average_us": 3.0}, "rtt_average_us"),
        ("tcp_latency", {"bandwidth_gbps": 1.0}, ""),
        ("tcp_latency", {"latency_p50_us": "2"}, ""),
        ("path_mtu", {"bandwidth_gbps": 1.0}, ""),
        ("no_such_check", {"bandwidth_gbps": 1.0}, ""),
        (None, {"bandwidth_gbps": 1.0}, ""),
    ],
)
def test_a_test_is_compared_by_the_first_number_of_its_check(
    check: str | None, observed: dict[str, Any], compared: str
) -> None:
    answer = Answer("recorded", observed, conditions={} if check is None else {"check": check})
    assert fleet.find_compared_metric(answer) == compared


@pytest.mark.parametrize(
    ("classes", "hardware"),
    [
        (["hardware"], True),
        (["hardware", "hardware"], True),
        (["hardware", "software"], False),
        (["software", "software"], False),
        (["None", "hardware"], False),
        ([], False),
    ],
)
def test_a_test_is_of_cards_where_all_its_ends_are(classes: list[str], hardware: bool) -> None:
    line = {"check": "tcp_latency", "tool": "sockperf", "direction": "forward", "node": "gpu1"}
    measured = {"message_bytes": 64, "iterations": 9}
    made = fleet.describe_conditions(line, measured, (9000, None), 100, classes, 1)
    assert made == {
        "check": "tcp_latency",
        "tool": "sockperf",
        "direction": "forward",
        "message_bytes": "64",
        "qps": "None",
        "streams": "None",
        "mtu_bytes": "9000",
        "active_mtu_bytes": "None",
        "rate_gbps": "100",
        "classes": " and ".join(sorted(classes)),
        "hops": "1",
        "hardware": str(hardware),
    }


def test_only_peers_are_compared() -> None:
    made = answers([2.2] * 15, [5000.0])
    kinds = ["rdma_latency"] * 15 + ["rdma_read_latency"]
    for kind, answer in zip(kinds, made, strict=True):
        answer.conditions = {"check": kind, "hardware": "True"}
    fleet.fail_outliers([(answer, "") for answer in made], 2)
    assert {answer.outcome for answer in made} == {"recorded"}


NODES = tuple(f"gpuserver{number}" for number in range(1, 5))


def slow_down(run: FakeRun, identity: str, times: int) -> None:
    row = run.rows(identity, "client")[0]
    names = [name for name in row["metrics"] if name.endswith("_us")]
    row["metrics"] |= {name: row["metrics"][name] * times for name in names}
    row["metrics"]["observations"] //= times


def test_a_complete_run_names_the_latency_that_is_an_outlier() -> None:
    kind = {"transport": "roce", "driver_class": "hardware", "node_class": "hardware"}
    run = FakeRun(nodes=NODES, beacon=False, **kind)
    assert run.status() == 0
    slow = run.ids("tcp_latency")[5]
    slow_down(run, slow, 4)
    one = run.verdict(slow)
    # Both nodes are like the others with third ones: it is what lies between the two.
    assert (one["outcome"], one["cause_class"]) == ("fail", "path_slow"), one
    assert "of 24 comparable tests" in one["cause"]
    assert run.status() == 1


def test_what_lies_behind_the_spine_is_not_like_what_does_not() -> None:
    """Two units whose leaves the inventory does not name: it takes longer from one to the other."""
    run = FakeRun(nodes=(*NODES, "gpuserver5"), beacon=False, driver_class="hardware", node_class="hardware")
    far = [line["id"] for line in run.asked if line["check"] == "tcp_latency" and NODES[0] in line.values()]
    for identity in far:
        slow_down(run, identity, 4)
    assert run.status() == 1
    for number, node in enumerate(run.plan["nodes"].values()):
        node["scalable_unit"] = "su2" if number else "su1"
    assert {run.verdict(identity)["outcome"] for identity in far} == {"recorded"}


def test_the_class_is_the_netdevs_of_tcp_and_the_hcas_of_rdma() -> None:
    """Soft-RoCE over cards: its latency is software's, which one attempt does not fail."""
    run = FakeRun(nodes=NODES, transport="roce", beacon=False)
    for netdev in (netdev for row in run.facts for netdev in row["netdevs"]):
        netdev["driver_class"] = "hardware"
    slow = [run.ids(check)[5] for check in ("tcp_latency", "rdma_latency")]
    for identity in slow:
        slow_down(run, identity, 10)
    assert [run.verdict(identity)["outcome"] for identity in slow] == ["fail", "recorded"]


def test_rails_of_another_mtu_are_not_like() -> None:
    run = FakeRun(nodes=NODES, rails=4, driver_class="hardware", beacon=False)
    slow = run.ids("tcp_latency", rail="rail3")
    for identity in slow:
        slow_down(run, identity, 4)
    assert {run.verdict(identity)["outcome"] for identity in slow} == {"fail"}
    for node in run.plan["nodes"].values():
        node["rails"][3]["mtu"] = 1500
    for row in (row for identity in slow for row in run.rows(identity)):
        row["mtu_bytes"] = 1500
    assert {run.verdict(identity)["outcome"] for identity in slow} == {"recorded"}


@pytest.mark.parametrize(
    ("gone", "cause"), [(None, None), (0, "attempt_missing"), (1, "attempt_missing"), (2, None)]
)
def test_rows_of_its_own_nodes_that_were_lost_may_have_been_as_bad(
    gone: int | None, cause: str | None
) -> None:
    """Software that was an outlier once; of it all attempts have to be."""
    run = FakeRun(nodes=NODES, beacon=False)
    slow = run.ids("tcp_latency", node=NODES[0], peer=NODES[1])[0]
    slow_down(run, slow, 10)
    archives = {node: {"rows": sum(row["host"] == node for row in run.results)} for node in NODES}
    if gone is not None:
        archives[NODES[gone]]["rows"] += 1
    run.manifest["archives"] = archives
    one = run.verdict(slow)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured" if cause else "recorded", cause)
    assert not cause or f"were collected from {NODES[gone or 0]}" in one["cause"]


@pytest.mark.parametrize(
    ("leaves", "units", "hops"),
    [
        ((None, None), (None, None), "None"),
        ((None, None), ("su1", "su1"), "None"),
        ((None, None), ("su1", "su2"), "between units"),
        (("leaf1", None), ("su1", "su2"), "between units"),
        # The leaves say how many switches there are, whatever the units.
        (("leaf1", "leaf1"), ("su1", "su2"), "1"),
        (("leaf1", "leaf2"), ("su1", "su1"), "3"),
    ],
)
@pytest.mark.parametrize(
    ("check", "planned", "mtus"),
    [
        ("tcp_latency", 9000, ("9000", "None")),
        ("rdma_latency", 9000, ("9000", "4096")),
        # Where the plan has no MTU the netdev's own counts.
        ("tcp_latency", None, ("8000", "None")),
    ],
)
def test_a_tests_like_have_its_mtus_and_its_way(
    leaves: tuple[str | None, ...], units: tuple[str | None, ...], hops: str,
    check: str, planned: int | None, mtus: tuple[str, str],
) -> None:  # fmt: skip
    run = FakeRun(transport="roce")
    for node, leaf, unit in zip(run.plan["nodes"].values(), leaves, units, strict=True):
        node["scalable_unit"] = unit
        node["rails"][0] |= {"leaf": leaf, "mtu": planned}
    for facts in run.facts:
        facts["netdevs"][0]["mtu_bytes"] = 8000
    given = run.manifest, run.plan, run.asked, run.facts, exchanged(run.results)
    found = verdict.judge_tests(*given, (), (), None).found
    for line, answer in zip(run.asked, found, strict=True):
        if line["check"] == check and line["rail"] == "rail0":
            assert (answer.outcome, answer.conditions["hops"]) == ("recorded", hops)
            assert (answer.conditions["mtu_bytes"], answer.conditions["active_mtu_bytes"]) == mtus


EIGHT = tuple(f"gpuserver{number}" for number in range(1, 9))
#: Medians of ConnectX-7 through one switch, and through a leaf, a spine and a leaf.
NEAR_US, FAR_US = 2.2, 3.6


def eight(far_us: float, check: str = "rdma_latency") -> tuple[FakeRun, list[str]]:
    """Return 8 nodes with one rail, whose last node's latencies are all `far_us`; and these tests."""
    hardware = {"driver_class": "hardware", "node_class": "hardware"}
    run = FakeRun(nodes=EIGHT, rails=1, transport="roce", beacon=False, **hardware)
    far = []
    for identity in run.ids(check):
        row = run.rows(identity, "client")[0]
        is_far = EIGHT[-1] in (row["node"], row["peer"])
        far += [identity] if is_far else []
        names = [name for name in row["metrics"] if name.endswith("_us")]
        was = row["metrics"].get("rtt_average_us") or row["metrics"]["latency_p50_us"]
        times = (far_us if is_far else NEAR_US) / was
        row["metrics"] |= {name: row["metrics"][name] * times for name in names}
    return run, far


def test_a_node_behind_a_spine_that_the_inventory_does_not_name_fails_no_one() -> None:
    run, far = eight(FAR_US)
    assert far
    assert {run.verdict(identity)["outcome"] for identity in run.ids("rdma_latency")} == {"recorded"}
    assert "the number of switches on the path is not known; declare `leaf`" in run.verdict(far[0])["basis"]
    assert "leaf" not in run.verdict(next(one for one in run.ids("rdma_latency") if one not in far))["basis"]


def test_ten_times_the_latency_fails_over_whatever_switches() -> None:
    run, far = eight(10 * NEAR_US)
    assert {run.verdict(identity)["outcome"] for identity in far} == {"fail"}
    assert {run.verdict(identity)["cause_class"] for identity in far} == {"rail_slow"}


@pytest.mark.parametrize("leaves", [("leaf1", "leaf1"), ("leaf1", "leaf2")])
def test_where_the_leaves_are_declared_latencies_are_compared(leaves: tuple[str, str]) -> None:
    """Behind its own leaf the node has no comparable tests but its own; on the others' leaf it is slow."""
    run, far = eight(FAR_US)
    for name, node in run.plan["nodes"].items():
        node["rails"][0]["leaf"] = leaves[name == EIGHT[-1]]
    assert {run.verdict(identity)["outcome"] for identity in far} == {
        "fail" if len(set(leaves)) == 1 else "recorded"
    }
    assert all("declare `leaf`" not in run.verdict(identity)["basis"] for identity in far)


def test_a_bandwidth_is_compared_over_whatever_switches() -> None:
    made = answers([95.0] * 15, [60.0] * 3, "bandwidth_gbps")
    assert judge_last(made, hardware=True, check="tcp_bandwidth", hops="None")[0] == "fail"


@pytest.mark.parametrize(
    ("check", "metric", "us", "outcome"),
    [
        # Four switches more, of 1 us at most each, and twice that there and back.
        ("rdma_latency", "latency_p50_us", 6.1, "recorded"),
        ("rdma_latency", "latency_p50_us", 6.4, "fail"),
        ("rdma_read_latency", "latency_p50_us", 10.1, "recorded"),
        ("rdma_read_latency", "latency_p50_us", 10.4, "fail"),
        ("ping_rtt", "rtt_average_us", 10.1, "recorded"),
        ("ping_rtt", "rtt_average_us", 10.4, "fail"),
    ],
)
@pytest.mark.parametrize("hops", ["None", "between units", "None, GPUs by switch"])
def test_what_unknown_switches_explain_is_reported(
    check: str, metric: str, us: float, outcome: str, hops: str
) -> None:
    for direct in (False, True):
        made = answers([NEAR_US] * 15, [us] * 3, metric)
        seen = judge_last(made, hardware=True, direct=direct, check=check, hops=hops)
        assert seen[0] == ("fail" if direct else outcome)
