# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Error counters that grew name the cable; those that were not read, or cannot be trusted, are no pass."""

from __future__ import annotations

from typing import Any

import pytest
from support.runs.fake_run import NODES, FakeRun

SOFT = FakeRun(transport="roce")
CARD = FakeRun(transport="roce", driver_class="hardware")
TCP = FakeRun()
OOS = "hw.out_of_sequence"


def row_of(run: FakeRun, check: str = "tcp_bandwidth", end: str = "client") -> dict[str, Any]:
    """Return a row of the first node's first rail, the last one that it wrote."""
    row = run.rows(run.ids(check, node=NODES[0], rail="rail0")[0], end)[0]
    row["started"] = "2026-11-21T10:15:59.000Z"
    return row


def link_errors(run: FakeRun, node: str = NODES[0], rail: str = "rail0") -> dict[str, Any]:
    return run.verdict(run.ids("link_errors", node=node, rail=rail)[0])


def test_each_tested_rail_of_each_node_is_planned_once() -> None:
    for run in (TCP, SOFT, CARD):
        lines = [line for line in run.asked if line["check"] == "link_errors"]
        assert [(line["node"], line["rail"]) for line in lines] == [
            (node, rail) for node in NODES for rail in ("rail0", "rail1")
        ]
        assert all(
            (line["peer"], line["direction"], line["tool"]) == (None, "local", "counters") for line in lines
        )
        assert [line["id"] for line in lines] == ["e00000", "e00001", "e00002", "e00003"]
        places = [line["check"] for line in run.asked]
        assert places.index("link_errors") > places.index("tcp_bandwidth_concurrent")
        assert places.index("link_errors") < places.index("aggregate_bandwidth")


def test_counters_that_did_not_move_pass() -> None:
    one = link_errors(SOFT)
    assert (one["outcome"], one["proof"]) == ("pass", "proven")
    assert (one["observed"]["errors"], one["floor"], one["ceiling"]) == (0, {"errors": 0}, {"errors": 0})
    mine = [line["id"] for line in SOFT.asked if line["id"].startswith("m") and line["rail"] == "rail0"]
    assert one["rows"] == mine


@pytest.mark.parametrize("run", [TCP, SOFT, CARD])
@pytest.mark.parametrize(
    "name",
    ["hw.rx_icrc_encapsulated", "hca.link_downed", "netdev.rx_crc_errors", "ethtool.rx_crc_errors_phy"],
)
def test_a_physical_error_fails_and_names_the_cable(run: FakeRun, name: str) -> None:
    run = run.copy()
    row_of(run)["link_errors"] = {"netdev.rx_frame_errors": [0, 0], "hw.link_downed": [0, 0], name: [2, 5]}
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("fail", "link_errors")
    for word in ("gpuserver1 rail0", "ens6", f"{name} grew by 3", "the cable to gpuserver2"):
        assert word in one["cause"]
    assert one["observed"][name] == 3
    assert link_errors(run, NODES[1])["outcome"] == "pass"
    assert link_errors(run, rail="rail1")["outcome"] == "pass"
    assert run.status() == 1


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [([[2, 5], [5, 5]], "recorded"), ([[2, 3], [3, 4]], "fail"), ([[2, 2], [3, 5]], "fail"),
     ([[2, 30], [30, 30]], "fail")],
)  # fmt: skip
@pytest.mark.parametrize(
    "name",
    ["hca.symbol_error", "hca.port_rcv_remote_physical_errors", "ethtool.rx_fec_uncorrectable_blocks"],
)
def test_symbol_errors_weigh_when_they_come_again_or_many_at_once(
    name: str, spans: list[list[int]], outcome: str
) -> None:
    run = CARD.copy()
    tests = [row_of(run, check) for check in ("tcp_bandwidth", "rdma_latency")]
    mine = [row for row in run.results if row["host"] == NODES[0] and row["rail"] == "rail0"]
    # The clock was set back in between: the rows' own numbers tell which came first.
    for sequence, row in enumerate([*(row for row in mine if row not in tests), *tests]):
        row["sequence"], row["started"] = sequence, f"2026-11-21T10:15:{59 - sequence}.000Z"
        row["link_errors"][name] = spans[tests.index(row)] if row in tests else [2, 2]
    assert link_errors(run)["outcome"] == outcome


def test_what_is_sent_again_fails_on_a_card_and_is_recorded_of_software() -> None:
    for run, name, outcome in (
        (CARD.copy(), "hw.out_of_sequence", "fail"),
        (SOFT.copy(), "hw.out_of_seq_request", "recorded"),
    ):
        row_of(run, "rdma_bandwidth")["link_errors"][name] = [7, 9]
        one = link_errors(run)
        assert one["outcome"] == outcome
        assert f"{name} grew by 2" in (one["cause"] or one["basis"])
        assert (one["floor"] is None) == (outcome == "recorded")
    unknown = SOFT.copy()
    unknown.facts[0]["hcas"][0]["driver_class"] = None
    row_of(unknown, "rdma_bandwidth")["link_errors"]["hw.out_of_seq_request"] = [7, 9]
    assert link_errors(unknown)["outcome"] == "unmeasured"


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("hw.out_of_sequence", "pass"), ("hw.packet_seq_err", "fail"), ("netdev.rx_crc_errors", "fail")],
)
def test_packets_out_of_order_are_reported_where_the_policy_has_adaptive_routing(
    name: str, outcome: str
) -> None:
    run = CARD.copy()
    run.policy["adaptive_routing"] = True
    row_of(run, "rdma_bandwidth")["link_errors"][name] = [7, 9]
    one = link_errors(run)
    assert one["outcome"] == outcome
    assert f"{name} grew by" in (one["cause"] or one["basis"])


@pytest.mark.parametrize(
    "name",
    [
        "hca.port_xmit_discards",
        "hca.port_xmit_wait",
        "ethtool.rx_corrected_bits_phy",
        "ethtool.rx_corrected_bits",
    ],
)
def test_waits_discards_and_bits_that_were_corrected_are_reported(name: str) -> None:
    run = CARD.copy()
    row_of(run, "rdma_bandwidth")["link_errors"][name] = [7, 90]
    one = link_errors(run)
    assert (one["outcome"], one["observed"]["errors"]) == ("pass", 0)
    assert f"{name} grew by 83" in one["basis"]


def test_a_physical_error_is_not_hidden_by_what_software_sends_again() -> None:
    run = SOFT.copy()
    row_of(run, "rdma_bandwidth")["link_errors"] = {
        "hw.out_of_seq_request": [7, 900],
        "netdev.rx_crc_errors": [2, 3],
    }
    assert link_errors(run)["outcome"] == "fail"


def grow_between_tests(run: FakeRun, name: str, before: int, after: int) -> None:
    """Let a counter of the first node's first rail grow while none of its tests runs."""
    late = False
    for row in run.results:
        if row["host"] == NODES[0] and row["rail"] == "rail0":
            late = late or row["check"] == "rdma_bandwidth"
            row["started"] = "2026-11-21T10:15:4" + ("1" if late else "0") + ".000Z"
            row["link_errors"][name] = [after, after] if late else [before, before]


def test_an_error_of_a_test_without_a_row_shows_between_those_that_have_one() -> None:
    run = SOFT.copy()
    grow_between_tests(run, "netdev.rx_crc_errors", 2, 3)
    one = link_errors(run)
    assert (one["outcome"], one["observed"]["netdev.rx_crc_errors"]) == ("fail", 1)


def test_what_a_card_sent_again_once_is_recorded_and_twice_fails() -> None:
    for again, outcome in (([9, 9], "recorded"), ([9, 10], "fail")):
        run = CARD.copy()
        identity = run.ids("rdma_bandwidth", node=NODES[0], rail="rail0")[0]
        first = run.rows(identity, "client")[0]
        first["started"] = "2026-11-21T10:15:59.000Z"
        for attempt in (2, 3):
            span = again if attempt == 3 else [9, 9]
            run.results.append(
                {**first, "attempt": attempt, "link_errors": {**first["link_errors"], OOS: span}}
            )
        first["link_errors"] = {**first["link_errors"], OOS: [7, 9]}
        assert link_errors(run)["outcome"] == outcome


@pytest.mark.parametrize("told", ["one more", None, "no record", "not at all"])
def test_rows_that_are_gone_are_no_pass(told: str | None) -> None:
    """What grew in them is not known: by the question that they answered, or by how many there were."""
    run = SOFT.copy()
    if told != "not at all":
        rows = {node: sum(row["host"] == node for row in run.results) for node in NODES}
        archives: dict[str, Any] = {node: {"rows": rows[node]} for node in NODES}
        archives[NODES[0]] = {"rows": rows[NODES[0]] + 1} if told == "one more" else told
        run.manifest["archives"] = archives
    else:
        gone = row_of(run)
        run.results = [row for row in run.results if row is not gone]
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "no_row")
    assert link_errors(run, NODES[1])["outcome"] == "pass"


def test_without_any_row_there_is_nothing_to_pass() -> None:
    run = SOFT.copy()
    run.results = []
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "no_error_counters")
    failed = SOFT.copy()
    for row in failed.results:
        row.update(status="failed", counters=None, link_errors=None)
    assert link_errors(failed)["outcome"] == "unmeasured"
    unreachable = SOFT.copy()
    unreachable.facts = unreachable.facts[1:]
    assert link_errors(unreachable)["cause_class"] == "node_unreachable"


@pytest.mark.parametrize(
    ("key", "value"),
    [("host", NODES[1]), ("run", "20200101T000000Z-0000"), ("end", "server"), ("rail", "rail1")],
)
def test_rows_of_others_say_nothing_of_a_rail(key: str, value: str) -> None:
    run = SOFT.copy()
    identity = run.ids("tcp_bandwidth", node=NODES[0], rail="rail0")[0]
    row = {**run.rows(identity, "client")[0], key: value}
    run.results = [{**row, "id": "m99999"} if key == "rail" else row]
    assert link_errors(run)["outcome"] == "unmeasured"


@pytest.mark.parametrize(
    "spans",
    [
        None,
        {},
        [],
        "none",
        {"netdev.rx_crc_errors": [2, None]},
        {"netdev.rx_crc_errors": [None, None]},
        {"netdev.rx_crc_errors": [2]},
        {"netdev.rx_crc_errors": [2.0, 2.0]},
        {"netdev.rx_crc_errors": [False, False]},
        {"netdev.rx_crc_errors": [-2, -2]},
        {"netdev.rx_crc_errors": [2, 1]},
        {"netdev.rx_crc_errors": [0, 0]},
        {"hca.symbol_error": [65535, 65535]},
        {"hca.link_downed": [255, 255]},
        {"netdev.rx_frame_errors": [2**64 - 1, 2**64 - 1]},
        {"netdev.unheard_of": [0, 0]},
    ],
)
@pytest.mark.parametrize("check", ["tcp_bandwidth", "rdma_latency"])
def test_counters_that_cannot_be_trusted_are_no_pass(spans: Any, check: str) -> None:
    run = SOFT.copy()
    row_of(run, check)["link_errors"] = spans
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "error_counters_reset")


@pytest.mark.parametrize("span", [[True, True], [1.0, 1.0]])
def test_what_only_equals_the_counts_of_the_row_before_is_no_count(span: list[Any]) -> None:
    run = TCP.copy()
    for row in run.results:
        if row.get("link_errors"):
            row["link_errors"] = {"netdev.rx_crc_errors": [1, 1]}
    assert link_errors(run)["outcome"] == "pass"
    row_of(run)["link_errors"] = {"netdev.rx_crc_errors": span}
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "error_counters_reset")


def test_the_counters_of_another_netdev_are_not_the_rails() -> None:
    run = SOFT.copy()
    row_of(run)["netdev"] = "ens6d1"
    assert link_errors(run)["outcome"] == "unmeasured"


def test_a_rail_with_rdma_needs_the_ports_own_counters() -> None:
    run = SOFT.copy()
    for row in run.results:
        row["link_errors"] = {"netdev.rx_crc_errors": [2, 2]}
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "no_error_counters")
    assert link_errors(TCP)["outcome"] == "pass"


@pytest.mark.parametrize("run", [TCP, SOFT, CARD])
def test_a_counter_that_vanished_between_two_tests_says_nothing_any_more(run: FakeRun) -> None:
    run = run.copy()
    for row in run.results:
        if row["host"] == NODES[0] and row["rail"] == "rail0":
            row["link_errors"]["hca.symbol_error"] = [3, 3]
    last = row_of(run)
    del last["link_errors"]["hca.symbol_error"]
    one = link_errors(run)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "error_counters_reset")
    assert f"{last['id']}: hca.symbol_error is missing, and was there before" in one["cause"]
    # One that a driver brings later is no doubt about those that were read.
    last["link_errors"] |= {"hca.symbol_error": [3, 3], "hca.link_downed": [0, 0]}
    assert link_errors(run)["outcome"] == "pass"


def count_qos(run: FakeRun, counters: dict[str, int]) -> None:
    for netdev in (netdev for facts in run.facts for netdev in facts["netdevs"]):
        netdev["qos_counters"] = counters


def on_card(
    counters: dict[str, list[int]],
    qos: Any = None,
    check: str = "rdma_bandwidth",
    node: str = NODES[0],
    traffic_class: int | None = 106,
) -> dict[str, Any]:
    """Return the verdict of a card's rail whose port has these counters of QoS, and grew so in one test."""
    run = CARD.copy()
    count_qos(run, qos or {})
    row = row_of(run, check) if node == NODES[0] else row_of(run, check, "server")
    row["link_errors"] |= counters
    row["traffic_class"] = traffic_class if check.startswith("rdma") else None
    return link_errors(run, node)


PFC3 = {"rx_prio3_pause": 12, "tx_prio3_pause": 0}
GLOBAL = {"rx_global_pause": 4, "tx_global_pause": 0}
NONE = {"rx_prio3_discards": 0}


@pytest.mark.parametrize("node", NODES)
def test_drops_of_a_lossless_priority_fail_at_the_end_that_had_them(node: str) -> None:
    one = on_card({"ethtool.rx_prio3_discards": [5, 9]}, PFC3, node=node)
    assert (one["outcome"], one["cause_class"]) == ("fail", "lossless_drops")
    other = NODES[1] if node == NODES[0] else NODES[0]
    for word in (f"{node} rail0 (ens6)", "ethtool.rx_prio3_discards grew by 4", f"with {other}"):
        assert word in one["cause"]
    assert "roce_qos" in one["next"]
    assert one["observed"]["ethtool.rx_prio3_discards"] == 4


@pytest.mark.parametrize(
    ("counters", "qos", "check", "cause"),
    [
        ({"ethtool.rx_prio3_buf_discard": [0, 1]}, PFC3, "rdma_bandwidth", "lossless_drops"),
        ({"ethtool.rx_prio3_cong_discard": [0, 1]}, PFC3, "tcp_bandwidth", "lossless_drops"),
        ({"ethtool.rx_prio0_discards": [0, 1]}, PFC3, "rdma_bandwidth", None),  # TCP's priority is lossy
        ({"ethtool.rx_prio3_discards": [0, 1]}, NONE, "rdma_bandwidth", None),  # no PFC, no promise
        ({"ethtool.rx_prio0_discards": [0, 1]}, GLOBAL, "tcp_bandwidth", "lossless_drops"),
        ({"ethtool.rx_discards_phy": [0, 1]}, GLOBAL, "tcp_bandwidth", "lossless_drops"),
        # All priorities together: RDMA's where there is no counter for each.
        ({"ethtool.rx_discards_phy": [0, 1]}, PFC3, "rdma_bandwidth", "lossless_drops"),
        ({"ethtool.rx_discards_phy": [0, 1]}, PFC3, "tcp_bandwidth", None),
        (
            {"ethtool.rx_discards_phy": [0, 1], "ethtool.rx_prio3_discards": [2, 2]},
            PFC3,
            "rdma_bandwidth",
            None,
        ),
        ({"ethtool.rx_discards_phy": [0, 1]}, NONE, "rdma_bandwidth", None),
        ({"ethtool.tx_pause_storm_error_events": [0, 1]}, PFC3, "rdma_bandwidth", "pause_storm"),
        ({"ethtool.tx_pause_storm_error_events": [0, 1]}, NONE, "tcp_bandwidth", "pause_storm"),
        ({"ethtool.tx_pause_storm_error_events": [7, 7]}, PFC3, "rdma_bandwidth", None),  # of long ago
        ({"ethtool.tx_pause_storm_warning_events": [0, 1]}, PFC3, "rdma_bandwidth", None),
        ({"hw.np_cnp_sent": [1, 900], "hw.rp_cnp_handled": [3, 40]}, PFC3, "rdma_bandwidth", None),
    ],
)
def test_what_a_port_promises_not_to_drop_is_read_from_the_port(
    counters: dict[str, list[int]], qos: Any, check: str, cause: str | None
) -> None:
    one = on_card(counters, qos, check)
    assert one["cause_class"] == cause
    assert one["outcome"] == ("fail" if cause else "pass")
    if not cause:
        assert one["observed"]["errors"] == 0
        for name, (before, after) in counters.items():
            assert (f"{name} grew by {after - before}" in one["basis"]) == (after > before)


def test_rdma_in_the_default_class_may_be_dropped_beside_a_lossless_priority() -> None:
    drops = {"ethtool.rx_discards_phy": [0, 1]}
    assert on_card(drops, PFC3)["cause_class"] == "lossless_drops"
    assert on_card(drops, PFC3, traffic_class=None)["outcome"] == "pass"


@pytest.mark.parametrize(("traffic_class", "outcome"), [(0, "pass"), (2, "pass"), (4, "fail"), (106, "fail")])
def test_a_class_of_dscp_0_is_the_default_class_too(traffic_class: int, outcome: str) -> None:
    # RFC 2474: DSCP 0 is default forwarding; the lowest two bits are ECN's (RFC 3168).
    one = on_card({"ethtool.rx_discards_phy": [0, 1]}, PFC3, traffic_class=traffic_class)
    assert one["outcome"] == outcome


def test_drops_between_the_tests_are_others() -> None:
    run = CARD.copy()
    grow_between_tests(run, "ethtool.rx_prio3_discards", 2, 30)
    count_qos(run, PFC3)
    one = link_errors(run)
    assert (one["outcome"], one["observed"]["errors"]) == ("pass", 0)


def test_a_lossless_rail_whose_drops_are_not_counted_says_so() -> None:
    assert "counts no drops: not judged" in on_card({}, PFC3)["basis"]
    assert "no packet of it may be dropped" in on_card({"ethtool.rx_prio3_discards": [2, 2]}, PFC3)["basis"]
    assert "lossless" not in on_card({}, NONE)["basis"]


def test_congestion_control_alone_is_no_reading_of_the_ports_errors() -> None:
    run = CARD.copy()
    for row in run.results:
        row["link_errors"] = {"netdev.rx_crc_errors": [2, 2], "hw.np_cnp_sent": [1, 9]}
    assert link_errors(run)["cause_class"] == "no_error_counters"
    reset = CARD.copy()
    row_of(reset, "rdma_bandwidth")["link_errors"]["hw.np_cnp_sent"] = [9, 1]
    assert link_errors(reset)["outcome"] == "pass"
