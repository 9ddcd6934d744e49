# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy run, then broken in every way: nothing that was not measured may pass."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.runs.fake_run import NODES, FakeRun, exchanged, in_sequence
from support.runs.spoil import GARBAGE, FakeRunView, mutate, paths, still_true

GOOD = ("pass", "recorded")
HEALTHY = FakeRun()
CHECKS_BETWEEN = (
    "path_mtu",
    "path_mtu_one_way",
    "ping_rtt",
    "tcp_bandwidth",
    "tcp_latency",
    "tcp_bandwidth_bi",
    "tcp_bandwidth_concurrent",
)


def test_a_healthy_run_is_proven() -> None:
    verdicts = HEALTHY.judge()
    outcomes = {one["check"]: one["outcome"] for one in verdicts}
    assert outcomes == {
        "link": "pass",
        "address": "pass",
        "mtu": "pass",
        "path_mtu": "pass",
        "path_mtu_one_way": "pass",
        "ping_rtt": "recorded",
        "tcp_bandwidth": "pass",
        "tcp_latency": "recorded",
        "tcp_bandwidth_bi": "recorded",
        "tcp_bandwidth_concurrent": "pass",
        "link_errors": "pass",
        "cabling": "pass",
        "link_address_owner": "pass",
        "reply_path": "pass",
        "aggregate_bandwidth": "pass",
    }
    assert [one["id"] for one in verdicts] == [line["id"] for line in HEALTHY.asked]
    # 2 nodes x 2 rails x 3 facts, and x 3 questions about cables; 2 directions x 2 rails x 5 alone, 2 rails
    # both ways, 2 directions x 2 rails at once; 2 nodes x 2 rails of link errors; 2 aggregates
    assert len(verdicts) == 12 + 12 + 20 + 2 + 4 + 4 + 2
    assert HEALTHY.status() == 0


def test_every_pass_has_floor_ceiling_basis_and_proof() -> None:
    for one in HEALTHY.judge():
        if one["outcome"] == "pass":
            assert one["floor"], one
            assert one["ceiling"], one
            assert one["proof"] == "proven", one
        assert one["basis"], one
        assert (one["cause"], one["next"], one["cause_class"]) == (None, None, None)


# Fields of a result row that a TCP verdict does not rest on, each with the reason.
IRRELEVANT = {
    "tool_version": "any two versions of sockperf and ping measure TCP together; iperf3's: test_forged.py",
    "hca": "no RDMA test is asked",
    "gid_index": "no RDMA test is asked",
    "gid_type": "no RDMA test is asked",
    "active_mtu_bytes": "no RDMA test is asked",
    "qps": "no RDMA test is asked",
    "group": "a test that ran alone has none, and says so or not",
    "other_rails": "which have to be shown, the other rails' rows say: test_forged.py",
    "raw": "where to read on; the numbers are in the row",
    "link_errors": "the link_errors verdict of the end's own rail rests on it",
    "bandwidth_is": "TCP says each way's number, and their sum is reckoned",
    "metrics.retransmits": "shown, never judged",
    "metrics.cpu_percent": "shown, never judged",
    "metrics.node_cpu_percent": "shown, never judged",
}
# Relevant for some checks only: (field, check, end) that may change without changing the verdict.
IRRELEVANT_HERE: dict[str, Callable[[str, str], bool]] = {
    "message_bytes": lambda check, end: (check, end) != ("tcp_latency", "client"),
    "latency_is": lambda check, end: end == "server",
    "mtu_bytes": lambda check, end: check in ("path_mtu", "path_mtu_one_way") and end == "server",
    "metrics.sent_gbps": lambda check, end: end == "server",
    # Only the aggregate rests on the receiver's samples.
    "samples": lambda check, end: True,
    "samples.t_s": lambda check, end: True,
    "samples.tx_bytes": lambda check, end: True,
    "samples.rx_bytes": lambda check, end: True,
}


def is_relevant(path: str, check: str, end: str) -> bool:
    if path.split(".")[0] in IRRELEVANT or path in IRRELEVANT:
        return False
    return not (path in IRRELEVANT_HERE and IRRELEVANT_HERE[path](check, end))


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_no_field_of_a_row_can_be_spoilt_unnoticed(check: str, end: str) -> None:
    identity = HEALTHY.ids(check)[0]
    original = HEALTHY.rows(identity, end)[0]
    for path in paths(original):
        if not is_relevant(path, check, end):
            continue
        for value, remove in [(None, True), *((garbage, False) for garbage in GARBAGE)]:
            run = FakeRunView(HEALTHY, identity, end)
            mutate(run.row, path, value, remove)
            if still_true(path, value, remove, run.row, original):
                continue
            one = run.verdict(identity)
            assert one["outcome"] not in GOOD, (path, "removed" if remove else value, one["outcome"])
            assert one["cause"], (path, value)
            assert one["next"]
            json.dumps(one, allow_nan=False)


@pytest.mark.parametrize("identity", HEALTHY.ids("aggregate_bandwidth"))
@pytest.mark.parametrize("path", ["samples", "samples.t_s", "samples.rx_bytes"])
@pytest.mark.parametrize(
    "value", [None, [], "x", [1, 2], [0.1] * 29, [float("nan")] * 29, list(range(29, 0, -1))]
)
def test_the_aggregate_rests_on_the_receivers_samples(identity: str, path: str, value: Any) -> None:
    part = next(line for line in HEALTHY.asked if line["id"] == identity)["parts"][1]
    run = FakeRunView(HEALTHY, part, "server")
    mutate(run.row, path, value)
    one = run.verdict(identity)
    assert one["outcome"] == "unmeasured"
    assert one["cause"]


@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_rows_missing_doubled_or_one_ended_are_unmeasured(check: str) -> None:
    identity = HEALTHY.ids(check)[0]
    for kept, cause in ((0, "no_row"), (1, "one_ended"), (3, "duplicate_row")):
        run = HEALTHY.copy()
        mine = run.rows(identity)
        run.results = [row for row in run.results if row["id"] != identity] + (mine + mine)[:kept]
        one = run.verdict(identity)
        assert (one["outcome"], one["cause_class"]) == ("unmeasured", cause)
        assert run.status() == 3


def test_two_rows_of_one_end_are_no_pair() -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth")[0]
    client = run.rows(identity, "client")[0]
    run.results = [row for row in run.results if row["id"] != identity] + [client, copy.deepcopy(client)]
    assert run.verdict(identity)["outcome"] == "unmeasured"


@pytest.mark.parametrize("rail", ["rail0", "rail1"])
@pytest.mark.parametrize(
    ("bandwidth", "outcome", "cause"),
    # floor 0.80 x 1 Gbit/s; ceiling (9000 - 52) / (9000 + 14) x 1.02 = 1.01253 on a link without a wire
    [
        (0.80, "pass", None),
        (0.7999, "fail", "below_floor"),
        (1.0125, "pass", None),
        # More than the link can carry was not measured on it: no failure, and no pass.
        (1.0126, "unmeasured", "above_ceiling"),
        (38.2, "unmeasured", "above_ceiling"),
    ],
)
def test_bounds_are_kept_to_the_digit(rail: str, bandwidth: float, outcome: str, cause: str | None) -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth", rail=rail)[0]
    for row in run.rows(identity):
        row["metrics"] |= {"bandwidth_gbps": bandwidth, "sent_gbps": bandwidth}
        for counter in ("tx_bytes", "rx_bytes"):
            row["counters"][counter] = [0, int(bandwidth * 5.3e9 / 8)]
    in_sequence(run.results)
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    assert one["observed"]["bandwidth_gbps"] == bandwidth
    assert run.status() == {"pass": 0, "fail": 1, "unmeasured": 3}[outcome]


@pytest.mark.parametrize(
    ("frames_gbps", "outcome", "cause", "shown_gbps"),
    # iperf3 says 1.05; of a frame's 9014 bytes 8948 are payload, which has to lie between 0.80 and 1.0125.
    [
        (1.0, "pass", None, 0.9927),
        (1.019, "pass", None, 1.0115),
        (1.03, "unmeasured", "above_ceiling", 1.0225),
        (0.5, "unmeasured", "ends_disagree", None),
        (None, "unmeasured", "above_ceiling", 1.05),
    ],
)
@pytest.mark.parametrize("check", ["tcp_bandwidth", "tcp_bandwidth_bi"])
def test_what_the_link_cannot_carry_is_held_against_its_counters(
    check: str, frames_gbps: float | None, outcome: str, cause: str | None, shown_gbps: float | None
) -> None:
    """A receiver that was held up across the omitted start read what its kernel had taken before."""
    run = HEALTHY.copy()
    identity = run.ids(check)[0]
    times = [round(0.2 * step, 1) for step in range(29)]
    for row in run.rows(identity):
        for name in ("bandwidth_gbps", "forward_gbps", "reverse_gbps"):
            if name in row["metrics"]:
                row["metrics"][name] = 1.05
        if check == "tcp_bandwidth_bi":
            row["metrics"]["bandwidth_gbps"] = 2.1
        else:
            row["metrics"]["sent_gbps"] = 1.06
        for counter in ("tx_bytes", "rx_bytes"):
            row["counters"][counter] = [0, int(1.05 * 5.3e9 / 8)]
        if frames_gbps is not None:
            moved = [int(1000 + at * frames_gbps * 1e9 / 8) for at in times]
            row["samples"] = {"t_s": times, "tx_bytes": moved, "rx_bytes": moved}
    in_sequence(run.results)
    one = run.verdict(identity)
    if check == "tcp_bandwidth_bi":
        # Of both ways at once no authority says a floor.
        outcome, cause = {"pass": ("recorded", None), "unmeasured": (outcome, cause)}[outcome]
        if frames_gbps == 0.5:
            outcome, cause, shown_gbps = "recorded", None, 0.4963
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    metric = "forward_gbps" if check == "tcp_bandwidth_bi" else "bandwidth_gbps"
    assert (one["observed"] or {}).get(metric) == shown_gbps


def test_either_end_below_the_floor_fails() -> None:
    for end in ("client", "server"):
        run = HEALTHY.copy()
        identity = run.ids("tcp_bandwidth")[0]
        for row in run.rows(identity):
            row["metrics"]["bandwidth_gbps"] = 0.79 if row["end"] == end else 0.81
        assert run.verdict(identity)["outcome"] == "fail"


def test_ends_that_differ_by_more_than_five_percent_are_unmeasured() -> None:
    for server, outcome in ((0.95 * 0.951, "pass"), (0.95 * 0.949, "unmeasured"), (0.95 / 0.951, "pass")):
        run = FakeRun(iperf3_omit_s=0)
        identity = run.ids("tcp_bandwidth")[0]
        run.rows(identity, "server")[0]["metrics"]["bandwidth_gbps"] = server
        run.rows(identity, "client")[0]["metrics"]["sent_gbps"] = 1.0
        assert run.verdict(identity)["outcome"] == outcome, server


# Four streams in 4 s: buffers of 64 MiB each explain 0.5369 Gbit/s that did not arrive.
@pytest.mark.parametrize(
    ("arrived", "sent", "cause"),
    [
        (0.0101, 0.0315, "below_floor"),
        (0.0101, 0.5468, "below_floor"),
        (0.0101, 0.5472, "ends_disagree"),
        (0.95, 1.9, None),
        (0.95, 1.9001, "ends_disagree"),
        (0.0101, 0.005, "ends_disagree"),
    ],
)
def test_a_slow_rail_leaves_much_in_buffers_and_is_measured(
    arrived: float, sent: float, cause: str | None
) -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth")[0]
    for row in run.rows(identity):
        row["metrics"] |= {"bandwidth_gbps": arrived, "sent_gbps": sent}
        for span in row["counters"].values() if arrived < 0.1 else ():
            # What lies in a socket's buffer has not passed the netdev.
            span[1] = span[0] + (span[1] - span[0]) // 20
    assert run.verdict(identity)["cause_class"] == cause


@pytest.mark.parametrize("proof", ["unproven", None, "yes", True])
@pytest.mark.parametrize("end", ["client", "server"])
def test_unproven_is_unmeasured_and_says_so(end: str, proof: object) -> None:
    for check in CHECKS_BETWEEN:
        run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], end)
        run.row["proof"] = proof
        one = run.verdict(run.row["id"])
        assert (one["outcome"], one["cause_class"], one["proof"]) == ("unmeasured", "unproven", "unproven")


def test_counters_that_moved_less_than_the_claim_contradict_the_word_proven() -> None:
    # 0.95 Gbit/s for 4 s are 475 MB of payload
    for moved, outcome in ((475_000_000, "pass"), (440_000_000, "unmeasured"), (0, "unmeasured")):
        run = FakeRunView(HEALTHY, HEALTHY.ids("tcp_bandwidth")[0], "server")
        run.row["counters"]["rx_bytes"] = [0, moved]
        assert run.verdict(run.row["id"])["outcome"] == outcome


@pytest.mark.parametrize(
    ("window", "outcome"),
    [([-0.0008, 5.1], "pass"), ([-0.51, 5.1], "unmeasured"), ([1.1, 3.0], "unmeasured")],
)
def test_a_window_is_an_interval_of_at_least_half_the_asked_time(window: list[float], outcome: str) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("tcp_bandwidth")[0], "server")
    run.row["window_s"] = window
    assert run.verdict(run.row["id"])["outcome"] == outcome


@pytest.mark.parametrize("lost", [10.0, 0.1, 100.0])
def test_loss_fails(lost: float) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("ping_rtt")[0], "client")
    run.row["metrics"]["loss_percent"] = lost
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "lost_packets")


@pytest.mark.parametrize(("metric", "value"), [("path_mtu_bytes", 1500), ("path_mtu_bytes", 8999)])
@pytest.mark.parametrize("check", ["path_mtu", "path_mtu_one_way"])
def test_a_smaller_path_fails(check: str, metric: str, value: int) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    run.row["metrics"][metric] = value
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "path_mtu_small")


@pytest.mark.parametrize("check", ["path_mtu", "path_mtu_one_way"])
def test_lost_probes_of_the_full_size_are_no_small_path(check: str) -> None:
    run = HEALTHY.copy()
    client, server = (run.rows(run.ids(check)[0], end)[0] for end in ("client", "server"))
    client["metrics"]["received"] = 3
    client["claim"] = {"unit": "packets", "at_least": 3.0, "at_most": 5.0}
    counters = (server if check == "path_mtu_one_way" else client)["counters"]
    # Two packets of 9000 bytes and their Ethernet headers are missing, beside what the rendezvous sends.
    counters["rx_bytes"] = [0, 3 * 9014 + 800]
    one = run.verdict(client["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "lost_packets")
    assert "3 of 5 probes of 9000 bytes" in one["cause"]
    # The counters show all five: the tool was held up, and the rail has lost nothing.
    counters["rx_bytes"] = [0, 5 * 9014 + 800]
    assert run.verdict(client["id"])["cause_class"] == "probes_missed"
    counters["rx_packets"] = [0, 4]
    assert run.verdict(client["id"])["cause_class"] == "lost_packets"
    client["metrics"]["path_mtu_bytes"] = 1500
    assert run.verdict(client["id"])["cause_class"] == "path_mtu_small"


def test_a_ping_that_was_held_up_is_no_loss_of_the_rail() -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("ping_rtt")[0], "client")
    run.row["metrics"] |= {"loss_percent": 1.0, "sent": 300, "received": 297, "packet_bytes": 1428}
    run.row["claim"] = {"unit": "packets", "at_least": 304.0, "at_most": 310.0}
    for counter in ("tx_bytes", "rx_bytes"):
        run.row["counters"][counter] = [0, 300 * 1442 + 980]
    for counter in ("tx_packets", "rx_packets"):
        run.row["counters"][counter] = [0, 312]
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "probes_missed")
    run.row["counters"]["rx_bytes"] = [0, 297 * 1442 + 980 + 500]
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("fail", "lost_packets")


def test_a_path_larger_than_declared_fails_too() -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("path_mtu")[0], "client")
    run.row["metrics"]["path_mtu_bytes"] = 9001
    # The own netdev would have cut it up: then the packet was not whole, whatever the tool says.
    assert run.verdict(run.row["id"])["outcome"] == "unmeasured"
    run.row["mtu_bytes"] = 9100
    assert run.verdict(run.row["id"])["outcome"] == "fail"


def test_a_lost_one_way_probe_fails() -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids("path_mtu_one_way")[0], "client")
    run.row["metrics"]["received"] = 4
    assert run.verdict(run.row["id"])["outcome"] == "fail"


def error_row(row: dict[str, Any], name: str, status: str, host: str = "gpuserver2") -> None:
    row.update(
        status=status,
        metrics={},
        counters=None,
        proof=None,
        error={"class": name, "message": "what was seen", "host": host, "fix": "do this"},
    )


@pytest.mark.parametrize("status", ["failed", "unmeasured"])
@pytest.mark.parametrize("check", CHECKS_BETWEEN)
def test_an_error_brings_its_cause_and_fix(check: str, status: str) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    error_row(run.row, "tool_failed", status)
    one = run.verdict(run.row["id"])
    probe = check in ("path_mtu", "path_mtu_one_way", "ping_rtt")
    assert one["outcome"] == ("fail" if probe and status == "failed" else "unmeasured")
    assert (one["cause_class"], one["next"]) == ("tool_failed", "do this")
    assert "gpuserver2: what was seen" in one["cause"]


@pytest.mark.parametrize("check", [*CHECKS_BETWEEN, "cabling"])
@pytest.mark.parametrize("host", ["gpuserver9", "", None, ["gpuserver2"]])
def test_an_error_is_laid_at_no_other_nodes_door(check: str, host: Any) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    error_row(run.row, "tool_failed", "unmeasured", host)
    assert f": {run.row['host']}: what was seen" in run.verdict(run.row["id"])["cause"]


@pytest.mark.parametrize("turned", [False, True])
def test_the_end_that_knows_the_reason_is_heard_whatever_the_order(turned: bool) -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth")[0]
    client, server = run.rows(identity)
    error_row(client, "peer_failed", "failed")
    error_row(server, "tool_missing", "unmeasured")
    if turned:
        run.results.reverse()
    assert run.verdict(identity)["cause_class"] == "tool_missing"
    assert run.status() == 3


@pytest.mark.parametrize("name", ["address_in_use", "stranger"])
def test_an_address_claimed_by_a_stranger_fails_where_it_belongs(name: str) -> None:
    run = HEALTHY.copy()
    identity = run.ids("ping_rtt", node="gpuserver1", rail="rail0")[0]
    error_row(run.rows(identity, "client")[0], name, "unmeasured", host="gpuserver2")
    failed = [one for one in run.judge() if one["outcome"] == "fail"]
    assert [(one["node"], one["rail"], one["check"]) for one in failed] == [
        ("gpuserver2", "rail0", "address")
    ]
    assert failed[0]["cause_class"] == "address_duplicate"
    assert run.verdict(identity)["outcome"] == "unmeasured"
    assert run.status() == 1


def test_rows_of_strangers_are_named_and_pass_nothing() -> None:
    run = HEALTHY.copy()
    other_run = {**run.results[0], "run": "20200101T000000Z-0000"}
    not_asked = {**run.results[0], "id": "m99999"}
    run.results += [other_run, not_asked]
    assert len(run_status.strangers(run.manifest, run.asked, run.results)) == 2
    assert len(run.judge()) == len(run.asked)
    # A row of another run under an asked id makes the test doubtful: it is not known which one is meant.
    run.results.append({**run.rows(run.ids("tcp_bandwidth")[0], "client")[0], "run": "20200101T000000Z-0000"})
    assert run.verdict(run.ids("tcp_bandwidth")[0])["outcome"] == "unmeasured"


def test_a_node_without_facts_is_unreachable_in_all_its_checks() -> None:
    run = HEALTHY.copy()
    run.facts = run.facts[:1]
    for one in run.judge():
        # What a cable leads to cannot be asked where there is nobody at its other end.
        touched = NODES[1] in (one["node"], one["peer"]) or one["id"].startswith("c")
        assert one["outcome"] == ("unmeasured" if touched else "pass"), one
        if one["id"].startswith("c") and one["node"] == NODES[0]:
            assert one["cause_class"] == "peer_unheard"
            assert NODES[1] in one["cause"]
            continue
        assert one["cause_class"] == ("node_unreachable" if touched else None)
        assert not touched or (NODES[1] in one["cause"] and "unreachable" in one["cause"])
    assert run.status() == 3


def test_an_address_of_the_plan_that_no_subnet_declares_is_not_applicable() -> None:
    run = HEALTHY.copy()
    for node in run.plan["nodes"].values():
        node["rails"][0]["address"] = None
    ones = [run.verdict(identity) for identity in run.ids("address", rail="rail0")]
    assert [one["outcome"] for one in ones] == ["not_applicable"] * 2
    # The facts being gone as well does not make anything else not applicable.
    run.facts = []
    assert {one["outcome"] for one in run.judge()} == {"not_applicable", "unmeasured"}


def test_exit_status_follows_the_contract() -> None:
    run = HEALTHY.copy()
    verdicts = run.judge()

    def status(said: list[dict[str, Any]], torn: bool = False, **manifest: Any) -> int:
        told = {**run.manifest, **manifest}
        whole = not torn and run_status.incomplete(told, run.asked, run.sealed(), run.order) is None
        return run_status.status_of({one["outcome"] for one in said}, whole)

    assert (status(verdicts), status(verdicts, torn=True), status([])) == (0, 3, 3)
    for end in (None, {}, {"at": "x", "reason": "interrupted"}, {"at": "x"}, {"reason": "completed"}):
        assert status(verdicts, end=end) == 3
    assert status(verdicts, end={"at": "soon", "reason": "completed"}) == 3
    assert status(verdicts, start=None) == 3
    one_bad = [*verdicts[:-1], {**verdicts[-1], "outcome": "unmeasured"}]
    assert status(one_bad) == 3
    assert status([*one_bad[1:], {**verdicts[0], "outcome": "fail"}], torn=True, end=None) == 1
    assert status([{**verdicts[0], "outcome": "great"}]) == 3


@pytest.mark.parametrize(
    "forge",
    [
        lambda run: run.asked.pop(),
        lambda run: run.asked.__setitem__(slice(2, None), []),
        lambda run: run.asked[0].update(check="mtu"),
        lambda run: run.order.update(rails=["rail1"]),
        lambda run: run.order.update(policy={**run.policy, "bidirectional": False}),
        lambda run: run.order.update(run="20200101T000000Z-0000"),
        lambda run: run.order["roster"].pop(),
        lambda run: run.order.pop("fabrics"),
        lambda run: run.order.update(roster=7),
    ],
)
def test_less_asked_than_plan_and_work_order_say_is_incomplete(forge: Any) -> None:
    """Signed again, so that asked.jsonl and manifest agree."""
    run = HEALTHY.copy()
    forge(run)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    assert run.incomplete() is not None


def test_a_folder_that_lost_its_work_order_or_the_plans_fingerprint_is_incomplete() -> None:
    told = HEALTHY.manifest, HEALTHY.asked
    assert "work_order.json" in str(run_status.incomplete(*told, HEALTHY.sealed(), None))
    assert "inventory_sha256" in str(run_status.incomplete(*told, HEALTHY.plan, HEALTHY.order))
    assert run_status.incomplete(*told, HEALTHY.sealed(), HEALTHY.order) is None


def test_nothing_asked_is_an_error() -> None:
    run = HEALTHY.copy()
    run.asked = []
    with pytest.raises(verdict.JudgeError, match="empty"):
        run.judge()


@pytest.mark.parametrize(
    "change",
    [
        {"node": "ghost"},
        {"peer": "ghost"},
        {"peer": None},
        {"rail": "rail9"},
        {"check": "magic"},
        {"id": "f00000"},
    ],
)
def test_an_asked_line_beside_the_plan_is_an_error(change: dict[str, Any]) -> None:
    run = HEALTHY.copy()
    line = next(line for line in run.asked if line["check"] == "tcp_bandwidth")
    line.update(change)
    with pytest.raises(verdict.JudgeError):
        run.judge()


def test_same_input_same_bytes_in_whatever_order_the_rows_came() -> None:
    run = HEALTHY.copy()
    run.results.reverse()
    run.facts.reverse()
    assert json.dumps(run.judge()) == json.dumps(HEALTHY.judge())


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_garbage_anywhere_never_stops_the_judge_and_never_passes(data: st.DataObject) -> None:
    tests = [place for place, row in enumerate(HEALTHY.results) if row["id"].startswith("m")]
    index = data.draw(st.sampled_from(tests))  # test_cabling.py spoils the others
    original = HEALTHY.results[index]
    relevant = [path for path in paths(original) if is_relevant(path, original["check"], original["end"])]
    path = data.draw(st.sampled_from([path for path in relevant if path != "id"]))
    value = data.draw(json_values)
    run = FakeRunView(HEALTHY, original["id"], original["end"])
    mutate(run.row, path, value)
    before: Any = original
    for key in path.split("."):
        before = before[key]
    one = run.verdict(original["id"])
    json.dumps(one, allow_nan=False)
    # A number may be changed into another that is as good; anything that is not a number may not.
    number = isinstance(value, (int, float)) and isinstance(before, (int, float))
    if not number and not still_true(path, value, False, run.row, original):
        assert one["outcome"] not in GOOD or _equal_numbers(value, before), (path, value)


def _equal_numbers(one: Any, other: Any) -> bool:
    return isinstance(one, list) and isinstance(other, list) and path_is_pair(one) and path_is_pair(other)


def path_is_pair(value: list[Any]) -> bool:
    return len(value) == 2 and all(isinstance(edge, (int, float)) for edge in value)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(row=st.dictionaries(st.sampled_from(sorted(HEALTHY.results[0])), json_values), facts=json_values)
def test_rows_and_facts_of_pure_noise_never_stop_the_judge(row: dict[str, Any], facts: Any) -> None:
    run = copy.copy(HEALTHY)
    identity = HEALTHY.ids("tcp_bandwidth")[0]
    run.results = [*(other for other in HEALTHY.results if other["id"] != identity), {**row, "id": identity}]
    noisy = {**HEALTHY.facts[1], "netdevs": facts}
    run.facts = [HEALTHY.facts[0], noisy]
    assert {one["outcome"] for one in run.judge() if one["id"] == identity} == {"unmeasured"}


@pytest.mark.parametrize("key", ["parts"])
def test_an_aggregate_with_a_part_that_was_not_asked_is_unmeasured(key: str) -> None:
    run = HEALTHY.copy()
    identity = run.ids("aggregate_bandwidth")[0]
    next(line for line in run.asked if line["id"] == identity)[key] = ["m77777"]
    assert run.verdict(identity)["outcome"] == "unmeasured"


def test_the_asked_fingerprint_sees_a_changed_line() -> None:
    changed = copy.deepcopy(HEALTHY.asked)
    changed[0]["check"] = "mtu"
    assert requests.fingerprint(changed) != requests.fingerprint(HEALTHY.asked)
    assert requests.fingerprint(HEALTHY.asked)["count"] == 56


def obstacle(run: str, node: str, kind: str) -> dict[str, Any]:
    error = {"class": kind, "message": "No space left on device", "host": node}
    return {"schema": 1, "run": run, "node": node, "error": error}


def judged_with(run: FakeRun, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return verdict.judge(run.manifest, run.plan, run.asked, run.facts, exchanged(run.results), rows)


def test_a_node_that_could_not_be_staged_says_why() -> None:
    run = HEALTHY.copy()
    run.results = []
    said = judged_with(run, [obstacle(run.manifest["run"], NODES[1], "not_staged")])
    tests = [one for one in said if one["peer"] is not None and one["rail"] is not None]
    assert {(one["outcome"], one["cause_class"]) for one in tests} == {("unmeasured", "not_staged")}
    assert all("No space left on device" in one["cause"] and NODES[1] in one["cause"] for one in tests)


def test_a_node_that_could_not_be_inspected_is_not_called_unreachable() -> None:
    run = HEALTHY.copy()
    run.facts = run.facts[:1]
    said = judged_with(run, [obstacle(run.manifest["run"], NODES[1], "not_inspected")])
    own = [one for one in said if one["node"] == NODES[1] and one["peer"] is None]
    assert {(one["outcome"], one["cause_class"]) for one in own} == {("unmeasured", "not_inspected")}


def test_an_obstacle_changes_no_outcome_and_another_runs_says_nothing() -> None:
    run = HEALTHY.copy()
    rows = [obstacle(run.manifest["run"], NODES[1], "not_staged")]
    assert [one["outcome"] for one in judged_with(run, rows)] == [one["outcome"] for one in run.judge()]
    run.results = []
    strange = judged_with(run, [obstacle("20200101T000000Z-0000", NODES[1], "not_staged")])
    assert "not_staged" not in {one["cause_class"] for one in strange}


@pytest.mark.parametrize("check", ["path_mtu", "path_mtu_one_way"])
@pytest.mark.parametrize(
    ("sent", "received", "outcome", "cause"),
    [
        (10, 5, "fail", "lost_packets"),  # the first batch was lost, the second was not
        (4, 4, "unmeasured", "row_garbled"),
        (15, 15, "unmeasured", "row_garbled"),
        (5, 6, "unmeasured", "row_garbled"),
    ],
)
def test_as_many_probes_of_the_size_were_sent_as_were_asked(
    check: str, sent: int, received: int, outcome: str, cause: str | None
) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], "client")
    run.row["metrics"].update(sent=sent, received=received)
    for counter in run.row["counters"].values():
        counter[1] = counter[0] + 2 * (counter[1] - counter[0])
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)


@pytest.mark.parametrize("check", ["tcp_bandwidth", "tcp_bandwidth_bi", "tcp_bandwidth_concurrent"])
@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("streams", [3, 5, 0, None, True, 4.0, "4"])
def test_a_row_of_other_streams_than_asked_is_not_the_asked_tests(check: str, end: str, streams: Any) -> None:
    run = FakeRunView(HEALTHY, HEALTHY.ids(check)[0], end)
    run.row["streams"] = streams
    one = run.verdict(run.row["id"])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")
    assert f"streams is {streams!r}, asked was 4" in one["cause"]


ASKED = {
    "id": "7",
    "check": "link",
    "tool": "",
    "node": "gpu1",
    "peer": None,
    "rail": "rail0",
    "direction": "",
}


@pytest.mark.parametrize(
    ("cause", "proof"), [("unproven", "unproven"), ("counted_twice", "unproven"), ("no_row", None)]
)
def test_only_what_was_not_proven_says_so_where_nothing_was_measured(cause: str, proof: str | None) -> None:
    line = Answer.unmeasured(cause, "x").line(ASKED, ())
    assert (line["outcome"], line["cause_class"], line["proof"]) == ("unmeasured", cause, proof)


@pytest.mark.parametrize(
    ("own", "parts", "rows"),
    [
        (None, None, ["7"]),
        (None, ["3", "5", "4"], ["3", "4"]),
        # What an answer says that it rests on goes before, also that it rests on nothing.
        (["4", "5", "7"], ["3"], ["4", "7"]),
        ([], ["3"], []),
    ],
)
def test_a_verdict_rests_on_its_own_rows_that_there_are(
    own: list[str] | None, parts: list[str] | None, rows: list[str]
) -> None:
    assert Answer(rows=own).line({**ASKED, "parts": parts}, {"3", "4", "7"})["rows"] == rows


def test_a_cause_is_told_of_what_did_not_pass_alone() -> None:
    explained = ("cause_class", "cause", "next")
    for made in (Answer().failed("below_floor", "x"), Answer().unknown("no_row", "x")):
        assert all(made.line(ASKED, ())[key] for key in explained)
        for outcome in ("pass", "recorded", "not_applicable"):
            made.outcome = outcome
            line = made.line(ASKED, ())
            assert [line[key] for key in explained] == [None] * 3


def test_an_answer_that_says_nothing_else_was_measured_once() -> None:
    line = Answer().line(ASKED, ())
    assert (line["outcome"], line["attempts"], line["reproduced"], line["flaky"]) == (
        "unmeasured",
        1,
        None,
        False,
    )


@pytest.mark.parametrize(
    ("seen", "shown"),
    [
        (1.5, 1.5),
        (0, 0),
        (True, True),
        ("NaN", "NaN"),
        (None, None),
        (float("nan"), None),
        (float("-inf"), None),
        (10**400, None),
    ],
)
def test_a_number_that_no_float_holds_is_shown_as_none(seen: Any, shown: Any) -> None:
    line = Answer("recorded", {"x": seen, "within": {"y": {"z": seen}}}).line(ASKED, ())
    assert line["observed"] == {"x": shown, "within": {"y": {"z": shown}}}
    assert type(line["observed"]["x"]) is type(shown)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        *((end, "the run has no end record") for end in (None, "x", {}, {"reason": "completed"}, {"at": ""})),
        ({"at": "soon", "reason": "completed"}, "manifest.json does not say when the run began and ended"),
        ({"at": "2026-11-21T10:16:10.000Z", "reason": "interrupted"}, "the run was interrupted"),
        ({"at": "2026-11-21T10:16:10.000Z"}, "the run was None"),
        ({"at": "2026-11-21T10:16:10.000Z", "reason": "completed"}, None),
    ],
)
def test_why_a_run_did_not_come_to_its_end(end: Any, said: str | None) -> None:
    assert run_status.not_ended({**HEALTHY.manifest, "end": end}) == said


def test_nobody_else_has_a_say_in_what_a_node_was_asked() -> None:
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth")[0]
    run.results.append({**run.rows(identity, "client")[0], "host": "gpuserver9"})
    run.results.append({**run.results[-1], "id": run.ids("link")[0], "host": None})
    assert run.verdict(identity)["outcome"] == "pass"
    assert len(run_status.strangers(run.manifest, run.asked, run.results)) == 2


@pytest.mark.parametrize(("attempt", "garbled"), [(3, False), (4, True), (0, True)])
def test_an_attempt_that_there_cannot_be_garbles_the_test(attempt: int, garbled: bool) -> None:
    """There are the first, and two more where it has to be confirmed twice."""
    run = HEALTHY.copy()
    identity = run.ids("tcp_bandwidth")[0]
    run.rows(identity, "client")[0]["attempt"] = attempt
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"] == "row_garbled") == ("unmeasured", garbled)


def test_both_ways_hold_what_one_way_has_to_carry_where_it_was_not_proven() -> None:
    run = FakeRun(transport="roce", driver_class="hardware", bidirectional=True)
    both = run.ids("rdma_bandwidth_bi", rail="rail0")[0]
    alone = run.ids("rdma_bandwidth", rail="rail0")
    proven, least = run.verdict(alone[0])["observed"], run.verdict(alone[0])["floor"]
    assert proven["bandwidth_gbps"] > least["bandwidth_gbps"]
    for row in run.rows(alone[0]):
        row["attempt"] = 4
    floors = [run.verdict(both)["floor"][way] for way in ("forward_gbps", "reverse_gbps")]
    carried = [least["bandwidth_gbps"], proven["bandwidth_gbps"]]
    assert sorted(floors) == [pytest.approx(0.8 * one, abs=1e-3) for one in carried]


@pytest.mark.parametrize("gone", ["row", "node", "held up"])
def test_an_address_passes_where_all_that_could_say_whom_they_heard_did(gone: str) -> None:
    """Who was never asked has heard nobody; who was, and whose row is gone, may have heard another owner."""
    run = HEALTHY.copy()
    test = run.ids("tcp_bandwidth", rail="rail0")[0]
    lost = [row for row in run.results if row["host"] == NODES[1] and gone in ("node", "held up")]
    lost += run.rows(test, "server") if gone == "row" else []
    run.results = [row for row in run.results if not any(row is one for one in lost)]
    run.facts = run.facts[:1] if gone == "node" else run.facts
    rows = [obstacle(run.manifest["run"], NODES[1], "not_staged")] if gone == "held up" else []
    found = {(one["node"], one["rail"]): one for one in judged_with(run, rows) if one["check"] == "address"}
    assert found[NODES[0], "rail1"]["outcome"] == "pass"
    one = found[NODES[0], "rail0"]
    assert (one["outcome"], one["cause_class"]) == (
        ("unmeasured", "no_row") if gone == "row" else ("pass", None)
    )
    assert gone != "row" or f"wrote no row of test {test}" in one["cause"]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({}, "fail"),
        ({"run": "20200101T000000Z-0000"}, "pass"),
        ({"peer": "x"}, "pass"),
        ({"host": 7}, "pass"),
    ],
)
def test_only_an_end_of_a_test_of_this_run_claims_an_address(changes: dict[str, Any], outcome: str) -> None:
    run = HEALTHY.copy()
    row = run.rows(run.ids("ping_rtt", node=NODES[0], rail="rail0")[0], "client")[0]
    error_row(row, "stranger", "unmeasured", host=changes.get("host", NODES[1]))
    row.update({key: value for key, value in changes.items() if key != "host"})
    one = run.verdict(run.ids("address", node=NODES[1], rail="rail0")[0])
    assert one["outcome"] == outcome
    assert outcome == "pass" or "what was seen" in one["cause"]


def test_no_third_nodes_address_is_contested_by_a_test_of_two_others() -> None:
    run = FakeRun(nodes=(*NODES, "gpuserver3"), beacon=False)
    row = run.rows(run.ids("ping_rtt", node=NODES[0], peer=NODES[1], rail="rail0")[0], "client")[0]
    error_row(row, "stranger", "unmeasured", host="gpuserver3")
    assert run.verdict(run.ids("address", node="gpuserver3", rail="rail0")[0])["outcome"] == "pass"


def with_leaves() -> FakeRun:
    """Return a run whose inventory names the leaves: switches on the way are asked for."""
    run = FakeRun(transport="roce")
    for rail in (rail for node in run.plan["nodes"].values() for rail in node["rails"]):
        rail["leaf"] = "leaf1"
    run.asked = requests.asked_lines(run.plan, run.order)
    run.manifest["asked"] = requests.fingerprint(run.asked)
    return run


def test_hops_rest_on_the_latencies_that_are_trusted() -> None:
    run = with_leaves()
    hops = run.ids("hops", node=NODES[0], rail="rail0")[0]
    forth, back = run.ids("rdma_latency", rail="rail0")
    one = run.verdict(hops)
    assert (one["outcome"], sorted(one["rows"])) == ("recorded", sorted([forth, back]))
    # Neither where there cannot be such an attempt, nor where it is not proven.
    for row in run.rows(forth):
        row["attempt"] = 4
    assert run.verdict(hops)["rows"] == [back]
    for row in run.rows(back):
        row["proof"] = "unproven"
    assert run.verdict(hops)["cause_class"] == "hops_unclear"
    run.facts = run.facts[1:]
    assert run.verdict(hops)["cause_class"] == "node_unreachable"


def test_a_sum_is_of_tests_at_once_between_its_own_two_nodes() -> None:
    run = HEALTHY.copy()
    lines = [line for line in run.asked if line["check"] == "aggregate_bandwidth"]
    lines[0]["parts"] = lines[1]["parts"]
    one = run.verdict(lines[0]["id"])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "part_unmeasured")
    assert f"is of {lines[1]['node']} and {lines[1]['peer']}" in one["cause"]
    lines[0]["parts"] = run.ids("tcp_bandwidth", node=lines[0]["node"])
    assert "is a tcp_bandwidth" in run.verdict(lines[0]["id"])["cause"]


SLOT = {"max_speed_gts": 2.5, "max_width": 1}
SLOT_GBPS = 2.5 * 8 / 10 * 0.905  # line code, then packets of 256 bytes


@pytest.mark.parametrize(
    ("check", "transport", "rate_gbps", "link", "least_gbps"),
    [
        # Of each slot the best rail alone: TCP's of TCP, RDMA's of RDMA, which is faster here.
        ("aggregate_bandwidth", "roce", 1.0, None, 0.9 * 2 * 0.85),
        ("rdma_aggregate_bandwidth", "roce", 1.0, None, 0.9 * 2 * 0.95),
        # RDMA is held to what the slots carry where that is known, TCP is not.
        ("aggregate_bandwidth", "roce", 1.0, SLOT, 0.9 * 2 * 0.85),
        ("rdma_aggregate_bandwidth", "roce", 1.0, SLOT, 0.9 * 2 * SLOT_GBPS),
        # Beyond 100 Gbit/s no authority says what TCP reaches on several rails: no less than on one.
        ("aggregate_bandwidth", "tcp", 100, None, 0.9 * 2 * 0.85),
        ("aggregate_bandwidth", "tcp", 100.001, None, 0.9 * 0.85),
    ],
)
def test_rails_of_shared_slots_carry_at_once_what_the_slots_do(
    check: str, transport: str, rate_gbps: float, link: dict[str, Any] | None, least_gbps: float
) -> None:
    """Four rails on two cards."""
    run = FakeRun(rate_gbps, "hardware", transport, rails=4, node_class="hardware", beacon=False)
    for facts in run.facts:
        for number, device in enumerate(facts["netdevs"][:4]):
            device |= {"pci": f"0000:{'3b' if number < 2 else '5e'}:00.{number % 2}", "pci_link": link}
    for identity in run.ids("tcp_bandwidth"):
        for row in run.rows(identity):
            row["metrics"] |= {"bandwidth_gbps": 0.85, "sent_gbps": 0.851}
    for identity in run.ids(check):
        assert run.verdict(identity)["floor"] == {"bandwidth_gbps": pytest.approx(least_gbps, abs=1e-3)}


@pytest.mark.parametrize(
    ("told", "lost"),
    [
        (lambda told: None, ()),  # a run of an earlier version
        (lambda told: told, ()),
        *((lambda told, more=more: {**told, NODES[0]: {"rows": told[NODES[0]]["rows"] + more}}, NODES[:1])
          for more in (1, -1)),
        (lambda told: {NODES[1]: told[NODES[1]]}, NODES[:1]),
        (lambda told: {**told, NODES[0]: "all"}, NODES[:1]),
        (lambda told: {}, NODES),
        (lambda told: "all", NODES),
    ],
)  # fmt: skip
def test_rows_that_were_handed_over_and_are_not_here_are_lost(
    told: Callable[[Any], Any], lost: tuple[str, ...]
) -> None:
    run = HEALTHY.copy()
    here = {node: sum(row["host"] == node for row in run.results) for node in NODES}
    run.manifest["archives"] = told({node: {"rows": count} for node, count in here.items()})
    for one in (one for one in run.judge() if one["check"] == "link_errors"):
        assert (one["outcome"] == "unmeasured") is (one["node"] in lost)
        assert one["node"] not in lost or f"{here[one['node']]} of them are here" in one["cause"]
