# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same bytes of a counter prove one test at most; two that claim them are both unproven."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue, policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    PlannedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from support.runs.bare_rows import counter_problem
from support.runs.fake_run import NODES, FakeRun, in_sequence

HEALTHY = FakeRun()
ROCE = FakeRun(transport="roce")


def causes(run: FakeRun, *ids: str) -> list[tuple[str, str | None, str | None]]:
    verdicts = {one["id"]: one for one in run.judge()}
    return [(verdicts[one]["outcome"], verdicts[one]["cause_class"], verdicts[one]["proof"]) for one in ids]


TWICE = ("unmeasured", "counted_twice", "unproven")


def test_tests_that_follow_each_other_are_each_ones_own() -> None:
    for run in (HEALTHY, ROCE):
        assert run.status() == 0
        assert not [one for one in run.judge() if one["cause_class"] == "counted_twice"]


@pytest.mark.parametrize(("run", "check"), [(HEALTHY, "tcp_bandwidth"), (ROCE, "rdma_bandwidth")])
@pytest.mark.parametrize("share", [0.0, 0.5, 0.999])
def test_a_span_that_begins_within_another_proves_neither(run: FakeRun, check: str, share: float) -> None:
    run = run.copy()
    one = run.ids(check, rail="rail0", node=NODES[0])[0]
    other = run.ids("tcp_latency", rail="rail0", node=NODES[0])[0]
    mine, theirs = run.rows(one, "client")[0]["counters"], run.rows(other, "client")[0]["counters"]
    for name in theirs:
        begin, end = mine[name]
        length = theirs[name][1] - theirs[name][0]
        theirs[name] = [begin + int(share * (end - begin)), begin + int(share * (end - begin)) + length]
    assert causes(run, one, other) == [TWICE, TWICE]
    assert run.status() == 3
    said = run.verdict(one)["cause"]
    assert NODES[0] in said
    assert f"test {other}" in said


def test_the_receivers_counters_count_once_too() -> None:
    run = HEALTHY.copy()
    first, second = run.ids("tcp_bandwidth", rail="rail1")
    # The second test's receiver is the first one's sender: its own bytes came in.
    row, copied = run.rows(first, "client")[0], run.rows(second, "server")[0]
    copied["counters"]["rx_packets"] = list(row["counters"]["rx_packets"])
    assert causes(run, first, second) == [TWICE, TWICE]


def test_the_sum_does_not_add_up_what_was_counted_twice() -> None:
    run = HEALTHY.copy()
    one = run.ids("tcp_bandwidth_concurrent", rail="rail0", node=NODES[0])[0]
    other = run.ids("tcp_bandwidth", rail="rail0", node=NODES[0])[0]
    run.rows(one, "server")[0]["counters"] = copy.deepcopy(run.rows(other, "server")[0]["counters"])
    total = run.ids("aggregate_bandwidth", node=NODES[0])[0]
    assert run.verdict(total)["cause_class"] == "part_unmeasured"


def test_rails_on_one_netdev_count_the_same_bytes() -> None:
    run = HEALTHY.copy()
    run.plan["nodes"][NODES[0]]["rails"][1]["netdev"] = "ens6"
    for row in run.results:
        if row["host"] == NODES[0] and row["rail"] == "rail1":
            row["netdev"] = "ens6"
    one = run.ids("tcp_bandwidth_concurrent", rail="rail0", node=NODES[0])[0]
    assert run.verdict(one)["cause_class"] == "counted_twice"


@pytest.mark.parametrize(
    "change",
    [
        {"run": "20200101T000000Z-0000"},
        {"host": "gpuserver9"},
        {"proof": "unproven"},
        {"counters": {"tx_bytes": ["0", 10**12], "rx_bytes": [0, 10**400], "tx_packets": [None, 5]}},
    ],
)
def test_a_row_that_claims_nothing_spoils_no_other(change: dict[str, Any]) -> None:
    run = HEALTHY.copy()
    spoilt = run.ids("tcp_latency", rail="rail0", node=NODES[0])[0]
    row = run.rows(spoilt, "client")[0]
    row["counters"] = {name: [0, 10**12] for name in row["counters"]}
    row.update(change)
    one = run.ids("tcp_bandwidth", rail="rail0", node=NODES[0])[0]
    assert causes(run, one) == [("pass", None, "proven")]


def test_a_test_that_is_there_twice_is_no_second_test() -> None:
    run = HEALTHY.copy()
    one = run.ids("tcp_bandwidth", rail="rail0", node=NODES[0])[0]
    run.results.append(copy.deepcopy(run.rows(one, "client")[0]))
    assert run.verdict(one)["cause_class"] == "duplicate_row"
    others = [line["cause_class"] for line in run.judge() if line["id"] != one]
    assert set(others) <= {None, "part_unmeasured"}


def test_a_reset_between_two_tests_is_no_overlap_where_none_is() -> None:
    run = HEALTHY.copy()
    ids = run.ids("tcp_bandwidth", rail="rail0", node=NODES[0])
    for row in run.results:
        if row["counters"]:
            row["counters"] = {
                name: [span[0] + 10**12, span[1] + 10**12] for name, span in row["counters"].items()
            }
    in_sequence(run.results)
    for row in run.rows(ids[0]):
        row["counters"] = {name: [0, span[1] - span[0]] for name, span in row["counters"].items()}
    assert causes(run, *ids)[0] == ("pass", None, "proven")


@pytest.mark.parametrize(
    ("counts", "replies", "word"),
    [("replies", 900, None), ("replies", 1100, "1000"), ("", 900, "the traffic that its results require")],
)
def test_a_new_test_is_proven_by_the_metric_that_counts_its_packets_or_not_at_all(
    monkeypatch: pytest.MonkeyPatch, counts: str, replies: int, word: str | None
) -> None:
    new = Check("tcp_replies", "replies", client={"replies": "positive_count"}, counts=counts)
    monkeypatch.setitem(catalogue.CHECKS, new.name, new)
    counters = grown(10**6, 10**6, 1000, 1000)
    problem = find_fault(new.name, "client", counters, {"replies": replies}, window_s=None)
    assert problem is None if word is None else word in str(problem)


RULES = policy.merge({"iperf3_duration_s": 4, "ping_count": 10, "idle_bytes_per_s": 1000})
#: 1 Gbit/s for 4 s, less the 5 % by which two ends may differ.
LEAST = 475_000_000
ONE_WAY, BOTH = {"bandwidth_gbps": 1.0}, {"forward_gbps": 1.0, "reverse_gbps": 2.0}
PROBES, NO_LOSS = {"path_mtu_bytes": 9000, "received": 5}, {"loss_percent": 0.0}


def grown(tx: int = 0, rx: int = 0, tx_packets: int = 1, rx_packets: int = 1) -> dict[str, list[int]]:
    """Return how far a netdev's counters rose; a packet each way where nothing else is given."""
    deltas = {"tx_bytes": tx or 14, "rx_bytes": rx or 14, "tx_packets": tx_packets, "rx_packets": rx_packets}
    return {name: [7, 7 + by] for name, by in deltas.items()}


def find_fault(check: str, end: str, counters: Any, metrics: dict[str, Any], **more: Any) -> str | None:
    """Return what is wrong with a row's counters; its window ends at 4 s."""
    row = {
        "check": check,
        "end": end,
        "counters": counters,
        "metrics": metrics,
        "window_s": [0.0, 4.0],
        "netdev": None,
        "active_mtu_bytes": None,
        "other_rails": {},
        **more,
    }
    return counter_problem(row, row, {**RULES, **more.get("policy", {})})


@pytest.mark.parametrize(
    ("check", "metrics", "end", "counters", "good"),
    [
        ("tcp_bandwidth", ONE_WAY, "client", grown(tx=LEAST), True),
        ("tcp_bandwidth", ONE_WAY, "client", grown(tx=LEAST - 1, rx=LEAST), False),
        ("tcp_bandwidth", ONE_WAY, "server", grown(rx=LEAST), True),
        ("tcp_bandwidth", ONE_WAY, "server", grown(tx=LEAST, rx=LEAST - 1), False),
        ("tcp_bandwidth_bi", BOTH, "client", grown(LEAST, 2 * LEAST), True),
        ("tcp_bandwidth_bi", BOTH, "server", grown(2 * LEAST, LEAST), True),
        ("tcp_bandwidth_bi", BOTH, "client", grown(2 * LEAST, LEAST), False),
        # As many packets as arrived, one of them of the whole size; of ping both ways.
        ("path_mtu", PROBES, "server", grown(9000, 9000, 5, 5), True),
        ("path_mtu", PROBES, "server", grown(8999, 9000, 5, 5), False),
        ("path_mtu", PROBES, "server", grown(9000, 9000, 4, 5), False),
        ("path_mtu_one_way", PROBES, "server", grown(14, 9000, 1, 5), True),
        ("path_mtu_one_way", PROBES, "server", grown(14, 9000, 1, 4), False),
        ("ping_rtt", {"loss_percent": 20.0}, "client", grown(800, 800, 8, 8), True),
        ("ping_rtt", {"loss_percent": 20.0}, "client", grown(800, 800, 8, 7), False),
        # A frame is no shorter than its header, and there are bytes where there are packets.
        ("ping_rtt", NO_LOSS, "client", grown(140, 140, 10, 10), True),
        ("ping_rtt", NO_LOSS, "client", grown(139, 140, 10, 10), False),
        ("ping_rtt", NO_LOSS, "client", {**grown(140, 140, 10, 10), "tx_packets": [7, 7]}, False),
        ("ping_rtt", NO_LOSS, "client", {**grown(140, 140, 10, 10), "tx_bytes": [-1, 200]}, False),
        ("ping_rtt", NO_LOSS, "client", None, False),
        ("tcp_bandwidth", ONE_WAY, "client", {**grown(LEAST), "rx_bytes": [7, 7]}, False),
    ],
)  # fmt: skip
def test_what_must_have_crossed_a_netdev(
    check: str, metrics: dict[str, Any], end: str, counters: Any, good: bool
) -> None:
    assert (find_fault(check, end, counters, metrics) is None) is good


@pytest.mark.parametrize(("packets", "good"), [(160, True), (159, False)])
def test_of_many_pings_as_many_crossed_as_were_not_lost(packets: int, good: bool) -> None:
    counters = grown(10**4, 10**4, packets, packets)
    said = find_fault("ping_rtt", "client", counters, {"loss_percent": 20.0}, policy={"ping_count": 200})
    assert (said is None) is good, said


def test_counters_that_are_no_counts_are_named() -> None:
    backwards = {**grown(10**4, 10**4, 10, 10), "tx_bytes": [7, 6]}
    assert "rx_packets are missing, garbled, full or decreased" in str(
        find_fault("ping_rtt", "client", backwards, NO_LOSS)
    )
    short = grown(10**4, 139, 10, 10)
    assert (
        find_fault("ping_rtt", "client", short, NO_LOSS) == "its rx_bytes rose by 139, its rx_packets by 10"
    )


def test_a_row_without_counters_proves_nothing() -> None:
    assert row_counters.find_counter_deltas(None) is None
    for check, metrics in (("ping_rtt", NO_LOSS), ("rdma_latency", {"observations": 5})):
        assert find_fault(check, "client", None, metrics) == "its counters are missing"


def test_tcp_that_no_one_acknowledged_did_not_cross_the_rail() -> None:
    silent = {**grown(tx=LEAST), "rx_bytes": [7, 7], "rx_packets": [7, 7]}
    said = find_fault("tcp_bandwidth", "client", silent, ONE_WAY)
    assert str(said).startswith("rx_packets grew by 0, less than the 1 packets claimed")


@pytest.mark.parametrize(
    ("came", "iterations", "word"),
    [
        # 1 Gbit/s each way for 2 s: a tenth less of both than their sum, and all that was sent itself.
        (200_000_000, 5000, None),
        (199_999_999, 5000, "rx_bytes grew by 199999999, less than the 200000000 bytes claimed"),
        (250_000_000, 5001, "tx_bytes grew by 250000000, less than the 250050000 bytes claimed"),
    ],
)
@pytest.mark.parametrize("end", ["client", "server"])
def test_of_both_directions_each_end_saw_what_it_sent_and_the_rest_of_the_sum(
    end: str, came: int, iterations: int, word: str | None
) -> None:
    counters = grown(250_000_000, came, 62_000, 62_000)
    counters |= {"hw_sent_pkts": [0, 62_000], "hw_rcvd_pkts": [0, 62_000]}
    more = {"iterations": iterations, "active_mtu_bytes": 4096, "netdev": "ens6"}
    rules = {"rdma_duration_s": 4, "rdma_margin_s": 1, "rdma_message_bytes": 50_000}
    said = find_fault("rdma_bandwidth_bi", end, counters, {"bandwidth_gbps": 2.0}, **more, policy=rules)
    assert said is None if word is None else str(said).startswith(word), said


# Twenty times the claim, 1.15 of it with headers, and 1000 bytes/s for 124 s.
MOST = int(20 * 1.15 * LEAST)
IDLE = {"tx_bytes": [0, 0], "rx_bytes": [0, 0]}


@pytest.mark.parametrize(
    ("moved", "more", "word"),
    [
        (MOST + 124_000, {}, None),
        (MOST + 124_001, {}, "other traffic"),
        (MOST + 120_000, {"window_s": None}, None),
        (MOST + 120_001, {"window_s": None}, "other traffic"),
        (MOST, {"idle_bytes_per_s": 0}, None),
        (MOST + 1, {"idle_bytes_per_s": 0}, "other traffic"),
        # An idle rail has three times what is busy at most, unless the site takes what is there.
        (LEAST, {"idle_bytes_per_s": 300, "policy": {"busy_bytes_per_s": 100}}, None),
        (LEAST, {"idle_bytes_per_s": 301, "policy": {"busy_bytes_per_s": 100}}, "idle_bytes_per_s is 301"),
        (LEAST, {"idle_bytes_per_s": 301, "policy": {"busy_bytes_per_s": 100, "allow_busy": True}}, None),
        (LEAST, {"idle_bytes_per_s": -1}, "idle_bytes_per_s is -1"),
        # Less than a tenth of the claim went over another rail.
        (LEAST, {"other_rails": {"rail1": {**IDLE, "tx_bytes": [0, LEAST // 10]}}}, None),
        (LEAST, {"other_rails": {"rail1": {**IDLE, "tx_bytes": [0, LEAST // 10 + 1]}}}, "rail1 was not idle"),
        (LEAST, {"other_rails": {"rail1": {**IDLE, "tx_bytes": [0, None]}}}, "other_rails is"),
        (LEAST, {"other_rails": None}, "other_rails is None"),
    ],
)  # fmt: skip
def test_far_more_than_the_claim_is_not_the_tests_own(
    moved: int, more: dict[str, Any], word: str | None
) -> None:
    found = find_fault("tcp_bandwidth", "client", grown(tx=moved), ONE_WAY, **more)
    assert found is None if word is None else word in str(found)


# Twenty times the claim, 2.5 of it with acknowledgements, and 124,000 bytes in frames of 64: 1937.5.
@pytest.mark.parametrize(
    ("check", "metrics", "packets", "good"),
    [
        ("ping_rtt", NO_LOSS, 20 * 25 + 1937, True),
        ("ping_rtt", NO_LOSS, 20 * 25 + 1938, False),
        ("path_mtu", PROBES, 250 + 1937, True),
        ("path_mtu", PROBES, 250 + 1938, False),
    ],
)
def test_far_more_packets_than_were_counted_are_not_the_tests_own(
    check: str, metrics: dict[str, Any], packets: int, good: bool
) -> None:
    said = find_fault(check, "client", grown(packets * 14, packets * 14, packets, packets), metrics)
    assert said is None if good else "other traffic" in str(said), said


@pytest.mark.parametrize(
    ("changes", "good"),
    [
        ({}, True),
        ({"hw_rcvd_pkts": [None, None]}, False),
        ({"tx_packets": [5, None]}, False),
        ({"tx_bytes": [7, 20]}, False),
    ],
)
def test_soft_roce_counts_at_its_netdev_and_its_port(changes: dict[str, Any], good: bool) -> None:
    counters = grown(7000, 7000, 5, 5) | {"hw_sent_pkts": [0, 5], "hw_rcvd_pkts": [0, 5]} | changes
    assert (
        find_fault("rdma_latency", "client", counters, {"observations": 5}, netdev="ens6") is None
    ) is good


def claims(*rows: dict[str, Any]) -> row_counters.Claims:
    """Return what tests claim of which gpu1 is the client; a row each, on a rail of its own."""
    of_all = {"check": "tcp_bandwidth", "node": "gpu1", "peer": "gpu2"}
    tests: list[Any] = [{**of_all, "id": str(at), "rail": f"rail{at}"} for at in range(len(rows))]
    common = {"run": "r", "host": "gpu1", "end": "client", "proof": "proven"}
    asked = AskedLines(tests)
    written = [{**common, **one, **row} for one, row in zip(tests, rows, strict=True)]
    return row_counters.Claims("r", asked, RowsByTest("r", written, PlannedTests(asked, ["gpu1", "gpu2"])))


@pytest.mark.parametrize(
    ("name", "second", "change", "shared"),
    [
        ("tx_bytes", [10, 20], {}, False),
        ("tx_bytes", [9, 20], {}, True),
        # What did not grow claims nothing.
        ("tx_bytes", [5, 5], {}, False),
        ("tx_bytes", [5, 6], {}, True),
        # A netdev's counters are its own, and a port's are the port's, whatever netdev is on it.
        ("tx_bytes", [0, 10], {"hca": "mlx5_1:1"}, True),
        ("tx_bytes", [0, 10], {"netdev": "ens7"}, False),
        ("port_xmit_data", [0, 10], {"hca": "mlx5_1:1"}, False),
        ("port_xmit_data", [0, 10], {"netdev": "ens7"}, True),
        ("tx_bytes", [0, 10], {"host": "gpu9"}, False),
    ],
)
def test_two_tests_claim_a_counter_of_one_source(
    name: str, second: list[int], change: dict[str, Any], shared: bool
) -> None:
    place = {"netdev": "ens6", "hca": "mlx5_0:1"}
    found = claims({**place, "counters": {name: [0, 10]}}, {**place, "counters": {name: second}} | change)
    for identity in ("0", "1"):
        said = found.find_overlap({"id": identity, "end": "client"})
        assert (said is not None) is shared, said


@pytest.mark.parametrize(
    ("other_rails", "missing"),
    [
        ({"rail1": {}, "rail2": {}}, ""),
        ({"rail2": {}}, "rail1"),
        ({}, "rail1"),
        (None, "rail1"),
    ],
)
def test_a_row_shows_all_measured_rails_of_its_node(other_rails: Any, missing: str) -> None:
    asked = {"host": "gpu1", "rail": "rail0", "other_rails": other_rails}
    assert claims({}, {}, {}).find_unlisted_rail(asked) == missing
    # Of another node nothing was measured.
    assert claims({}, {}, {}).find_unlisted_rail({**asked, "host": "gpu9"}) == ""
