# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA against TCP: like with like, proven numbers only, and a gap never becomes a 0."""

from __future__ import annotations

import math

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison
from support.runs.comparison_cases import (
    A,
    B,
    all_verdicts,
    bandwidth,
    change,
    latency,
    plan,
    verdict,
    way,
)

UNPROVEN = {"outcome": "unmeasured", "proof": "unproven"}


def one(verdicts, **plan_fields):
    [row] = comparison.compare(plan(**plan_fields), verdicts)
    return row


def test_the_hand_measured_cluster_comes_out_as_recomputed():
    row = one(way())
    assert row["bandwidth_gbps"]["rdma"] == pytest.approx(38.2057, abs=1e-3)
    assert row["bandwidth_ratio"] == pytest.approx(1.3944, abs=1e-3)  # +39.4 %, not the notes' +33 %
    assert row["efficiency"]["rdma"] == pytest.approx(0.955, abs=1e-3)  # not the notes' 91 %
    assert row["efficiency"]["tcp"] == pytest.approx(0.685, abs=1e-3)
    assert row["latency_us"] == {"tcp": 21.622, "rdma": 0.85}
    assert row["latency_ratio"] == pytest.approx(25.44, abs=0.01)
    assert row["cpu_percent"] == {"tcp": 35.0, "rdma": 4.1}
    assert row["peer_cpu_percent"] == {"tcp": 41.0, "rdma": 0.0}  # an idle receiver is a finding, no gap
    assert row["rate_gbps"] == 40.0


def test_rows_are_each_way_then_both_ways_then_all_rails():
    rows = comparison.compare(plan(), all_verdicts())
    assert [(row["node"], row["rail"], row["direction"]) for row in rows] == [
        (A, "rail0", "uni"),
        (B, "rail0", "uni"),
        (A, "rail1", "uni"),
        (B, "rail1", "uni"),
        (A, "rail0", "bi"),
        (A, "rail1", "bi"),
        (A, None, "uni"),
        (B, None, "uni"),
    ]
    both, together = rows[4], rows[6]
    # Both ways at once share two directions of the link, all rails at once their sum.
    assert (both["rate_gbps"], both["efficiency"]["rdma"]) == (80.0, 75.0 / 80.0)
    assert (together["rate_gbps"], together["efficiency"]["rdma"]) == (80.0, 57.0 / 80.0)
    assert together["cpu_percent"] == {"tcp": 52.0, "rdma": 5.0}
    assert together["bandwidth_ratio"] == pytest.approx(1.14)
    for row in (both, together):
        assert row["latency_us"] == {"tcp": None, "rdma": None}
        assert row["asked"] == {"bandwidth": ["tcp", "rdma"], "latency": []}


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": "unmeasured", "proof": None, "observed": None},
        {"outcome": "unmeasured", "proof": "unproven"},
        {"outcome": "fail", "proof": None},
        {"outcome": "pass", "proof": "unproven"},
        {"outcome": "not_applicable", "proof": None},
        {"outcome": "splendid", "proof": "proven"},
        {"observed": None},
        {"observed": {"bandwidth_gbps": 0.0}},
        {"observed": {"bandwidth_gbps": -1.0}},
        {"observed": {"bandwidth_gbps": math.nan}},
        {"observed": {"bandwidth_gbps": True}},
        {"observed": {"bandwidth_gbps": "40"}},
    ],
)
@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_what_is_not_measured_and_proven_is_null_and_never_0(transport, fields):
    check = f"{transport}_bandwidth"
    row = one(change(way(), check, **fields))
    assert row["bandwidth_gbps"][transport] is None
    assert row["bandwidth_ratio"] is None
    assert row["efficiency"][transport] is None
    assert row["latency_ratio"] is not None
    assert transport in row["asked"]["bandwidth"]


@pytest.mark.parametrize("outcome", ["pass", "recorded", "fail"])
def test_a_proven_number_counts_whatever_its_bounds_say(outcome):
    assert one(way(outcome=outcome))["bandwidth_ratio"] == pytest.approx(1.3944, abs=1e-3)


@pytest.mark.parametrize("transport", ["tcp", "rdma"])
def test_a_number_beyond_what_the_link_can_carry_is_no_ratio_and_no_efficiency(transport):
    too_much = {"outcome": "fail", "cause_class": "above_ceiling", "observed": {"bandwidth_gbps": 55.0}}
    row = one(change(way(), f"{transport}_bandwidth", **too_much))
    assert row["bandwidth_gbps"][transport] is None
    assert row["bandwidth_ratio"] is None
    assert row["efficiency"][transport] is None
    # Too slow is no reason to doubt a number.
    slow = {"outcome": "fail", "cause_class": "below_floor", "observed": {"bandwidth_gbps": 13.7}}
    row = one(change(way(), "tcp_bandwidth", **slow))
    assert row["bandwidth_ratio"] == pytest.approx(38.2057 / 13.7, abs=1e-3)


@pytest.mark.parametrize("percent", [900.0, 100.1, -5.0, "31", True])
def test_a_node_is_never_busier_than_all_its_processors(percent):
    verdicts = way()
    verdicts[2]["observed"] |= {"node_cpu_percent": percent, "peer_node_cpu_percent": 100.0}
    row = one(verdicts)
    assert row["cpu_percent"] == {"tcp": 35.0, "rdma": None}
    assert row["peer_cpu_percent"]["rdma"] == 100.0


def test_a_round_trip_is_not_compared_with_one_way():
    verdicts = [*way()[:2], latency("rdma_read_latency", 1.7)]
    assert comparison.compare(plan(), verdicts) == []
    row = one([*way()[:3], latency("rdma_read_latency", 1.7)])
    assert row["latency_us"] == {"tcp": 21.622, "rdma": None}
    assert row["asked"]["latency"] == ["tcp"]


def test_all_latencies_of_the_comparison_are_one_way():
    compared = (comparison.TCP_LATENCY, *comparison.RDMA_LATENCY)
    assert {catalogue.LATENCY_IS[check] for check in compared} == {"one_way"}


def test_a_read_with_data_the_other_way_does_not_replace_the_write():
    assert comparison.compare(plan(), [*way()[:2], bandwidth("rdma_read_bandwidth", 30.0)]) == []


def test_send_represents_rdma_where_no_write_was_requested():
    row = one(
        [*way()[:2], bandwidth("rdma_send_bandwidth", 30.0), latency("rdma_send_latency", 1.0)], rails=1
    )
    assert row["bandwidth_gbps"]["rdma"] == 30.0
    assert row["latency_us"]["rdma"] == 1.0
    # But not in one table with writes: there the gap stays a gap.
    unproven = change(way(), "rdma_bandwidth", **UNPROVEN)
    assert one([*unproven, bandwidth("rdma_send_bandwidth", 30.0)])["bandwidth_gbps"]["rdma"] is None


def test_tcp_alone_gives_no_table_and_no_sentence():
    verdicts = [one for one in all_verdicts() if not one["check"].startswith("rdma")]
    assert comparison.compare(plan(), verdicts) == []
    assert comparison.compare_run(plan(), verdicts).sentence == ""
    # What facts say of ports is no measurement.
    local = verdict("rdma_port", peer=None, direction="local")
    assert comparison.compare(plan(), [*verdicts, local]) == []


def test_a_pair_without_planned_rdma_is_left_out():
    rows = comparison.compare(plan((A, B, "tcponly")), [*way(), *way(A, "tcponly")[:2]])
    assert [row["peer"] for row in rows] == [B]


def test_no_rate_no_efficiency():
    for rates in (None, True, "40"):
        assert one(way(), rate_gbps=rates)["efficiency"] == {"tcp": None, "rdma": None}
    half = plan()
    half["nodes"][B]["rails"][0]["rate_gbps"] = None
    assert comparison.compare(half, way())[0]["rate_gbps"] is None
    slower = plan()
    slower["nodes"][B]["rails"][0]["rate_gbps"] = 10.0
    assert comparison.compare(slower, way())[0]["rate_gbps"] == 10.0
    # All rails at once need all their rates.
    rows = comparison.compare(half, all_verdicts())
    assert [row["rate_gbps"] for row in rows if row["rail"] is None] == [None, None]


def facts(*classes):
    return [
        {
            "node": node,
            "netdevs": [],
            "hcas": [{"hca": f"rxe{at}:1", "driver_class": name} for at, name in enumerate(classes)],
        }
        for node in (A, B)
    ]


def with_hcas(**fields):
    declared = plan(**fields)
    for node in declared["nodes"].values():
        for at, rail in enumerate(node["rails"]):
            rail["hca"] = f"rxe{at}:1"
    return declared


@pytest.mark.parametrize(
    ("classes", "expected"),
    [
        (("software", "software"), "software"),
        (("hardware", "hardware"), "hardware"),
        ((None, None), None),
        (("hardware", "software"), "mixed"),
        ((), None),
    ],
)
def test_the_kind_of_rdma_is_what_the_rails_are_bound_to(classes, expected):
    assert comparison.rdma_class(with_hcas(), facts(*classes)) == expected
    # A device that is no rail's says nothing.
    assert comparison.rdma_class(plan(), facts(*classes)) is None


def slow(verdicts):
    """RDMA as under emulation: 5 times less bandwidth, twice the latency."""
    verdicts = change(verdicts, "rdma_bandwidth", observed={"bandwidth_gbps": 27.4 / 5})
    return change(verdicts, "rdma_latency", observed={"latency_p50_us": 21.622 * 2})


def test_the_sentence_says_faster_and_slower_plainly():
    rows = comparison.compare(plan(), way())
    assert comparison.sentence(rows, "hardware", "hardware") == (
        "RDMA is 1.39 times faster than TCP in bandwidth and 25.4 times faster in latency."
    )
    rows = comparison.compare(plan(), slow([*way(), *way(B, A)]))
    assert comparison.sentence(rows, "software", "virtual") == (
        "RDMA is 5.00 times slower than TCP in bandwidth and 2.00 times slower in latency (median of 2 "
        "directions of rails): this is software RDMA in emulated or virtual machines, so it does not "
        "predict hardware."
    )
    assert comparison.sentence(rows, "software", "hardware").endswith(
        ": this is software RDMA, so it does not predict hardware."
    )


def test_the_sentence_does_not_hide_that_rails_differ():
    rows = comparison.compare(plan(), [*way(), *slow(way(B, A))])
    assert "between 5.00 times slower and 1.39 times faster than TCP in bandwidth" in comparison.sentence(
        rows
    )


def test_the_sentence_counts_what_is_missing():
    verdicts = all_verdicts()
    for each in verdicts:
        if each["check"] in ("rdma_bandwidth_bi", "rdma_latency") and each["rail"] == "rail1":
            each.update(outcome="unmeasured", proof="unproven")
    # Four ways of bandwidth and latency, two of both ways, two of all rails: 12; three of them are unproven.
    told = comparison.sentence(comparison.compare(plan(), verdicts))
    assert "; 3 of RDMA's 12 numbers are not measured, not proven or not possible" in told


def test_the_sentence_claims_nothing_where_nothing_is_proven():
    verdicts = change(all_verdicts(), "rdma", **UNPROVEN)
    rows = comparison.compare(plan(), verdicts)
    assert len(rows) == 8
    told = comparison.sentence(rows, "software", "virtual")
    assert told.startswith("RDMA was planned, but cannot be compared with TCP")
    assert "faster" not in told
    assert "slower" not in told


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (1.3944, "1.39 times faster"),
        (0.2, "5.00 times slower"),
        (26.0, "26.0 times faster"),
        (1.0, "as fast"),
        (0.996, "as fast"),
        (0.001, "1000 times slower"),
        (1.006, "1.01 times faster"),
    ],
)
def test_a_ratio_below_1_is_reported_as_slower(ratio, text):
    assert comparison.times(ratio) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(38.2057, "38.2"), (0.193, "0.193"), (0.00123, "0.00123"), (4554.47, "4554"), (0, "0"), (1.0, "1.00")],
)
def test_three_significant_digits_without_an_exponent(value, text):
    assert comparison.three(value) == text


def test_what_was_compared_is_named():
    rules = {"sockperf_message_bytes": 14, "iperf3_streams": 4, "rdma_message_bytes": 65536, "rdma_qps": 1}
    compared = comparison.compare_run(plan(), all_verdicts(), (), rules)
    assert (
        compared.latency_of == "median, one way, both of 14-byte messages; TCP: sockperf; RDMA: ib_write_lat"
    )
    told = "TCP: iperf3, 4 streams; RDMA: ib_write_bw, 65536-byte messages, 1 QP"
    assert compared.bandwidth_of == told + "; all rails: TCP with its headers"
    # What is not in the table needs no remark.
    assert comparison.compare_run(plan(), way(), (), rules).bandwidth_of == told
