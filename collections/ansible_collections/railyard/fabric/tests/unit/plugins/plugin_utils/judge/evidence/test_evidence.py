# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which two rows of a test a verdict may rest on, by the rows alone."""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import facts
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    PlannedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RunContext
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import cabling
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.trusted_rows import TrustedRows
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import AskedLines
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_rdma_without_ip import (
    WITHOUT_IP,
)
from support.runs.fake_run import NODES, RUN, FakeRun, exchanged

GONE = "gone"
TCP, PING, PATH, SOFT, CARD, IB = "tcp", "ping", "path", "soft", "card", "ib"
NETDEV = {"tx_bytes": [7, 7], "rx_bytes": [7, 7]}
DATA = {"port_xmit_data": [7, 7], "port_rcv_data": [7, 7]}
SOUND = FakeRun(transport="roce")
RUNS = {
    TCP: (SOUND, "tcp_bandwidth"),
    PING: (SOUND, "ping_rtt"),
    PATH: (SOUND, "path_mtu"),
    SOFT: (SOUND, "rdma_bandwidth"),
    CARD: (FakeRun(transport="roce", driver_class="hardware"), "rdma_bandwidth"),
    IB: (WITHOUT_IP, "rdma_bandwidth"),
}


@functools.cache
def known_of(kind: str, held: str, known: tuple[str, ...]) -> tuple[RunContext, cabling.CablingMap]:
    """Return what is known of a run: of `known` nodes there are facts, one was `held` up."""
    run = RUNS[kind][0]
    fleet = facts.bind_facts(run.plan, [row for row in run.facts if row["node"] in known], RUN)
    fleet.obstacles = {held: error("not_staged", held)["error"]} if held else {}
    clock = Clock(run.manifest, fleet.collected)
    chart = cabling.CablingMap(RUN, run.plan, fleet, clock)
    nothing = AskedLines()
    claims = row_counters.Claims(RUN, nothing, RowsByTest(RUN, [], PlannedTests(nothing, fleet.bound)))
    return RunContext.build(RUN, run.policy, fleet, clock, claims), chart


def trust(kind: str, held: str = "", known: tuple[str, ...] = NODES) -> TrustedRows:
    """Return what looks at rows, see `known_of`."""
    found, chart = known_of(kind, held, known)
    return TrustedRows(found, chart.find_cause)


def judge(kind: str, rows: Sequence[Mapping[str, Any]], *of: Any) -> Any:
    """Return what rows of a run's first test on rail0 come to."""
    run, check = RUNS[kind]
    line = next(line for line in run.asked if line["check"] == check and line["rail"] == "rail0")
    return trust(kind, *of).pair(line, exchanged(list(rows)))


def ends(kind: str, client: Mapping[str, Any], server: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return both rows, changed; what is a mapping is added to, or taken from."""
    run, check = RUNS[kind]
    rows = copy.deepcopy(run.rows(run.ids(check, rail="rail0")[0]))
    for row in rows:
        for key, value in (client if row["end"] == "client" else server).items():
            if isinstance(value, Mapping) and isinstance(row.get(key), dict):
                value = {name: one for name, one in {**row[key], **value}.items() if one != GONE}
            row[key] = value
    return [{key: value for key, value in row.items() if value != GONE} for row in rows]


def error(name: str, host: str = NODES[0], **more: Any) -> dict[str, Any]:
    said = {"class": name, "message": "x", "host": host, "fix": "y"}
    return {"status": "failed", "error": said, "metrics": {}, "proof": None, "counters": None, **more}


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize(
    ("kind", "changes", "cause"),
    [
        *((kind, {}, None) for kind in RUNS),
        *((TCP, {"end": end}, "row_garbled") for end in (None, "both", ["client"])),
        *((TCP, {"status": said}, "row_garbled") for said in ("failed", "unmeasured", "fine", None)),
        *((TCP, error("deadline", status=said), "deadline") for said in ("failed", "unmeasured")),
        *((TCP, error("deadline", status=said), "row_garbled") for said in ("fine", None)),
        *((TCP, {key: "x"}, "row_garbled") for key in (
            "schema", "run", "host", "address", "check", "tool", "node", "peer", "direction", "netdev",
            "started", "round", "group")),
        (TCP, {"started": "2020-01-01T00:00:00.000Z"}, "row_garbled"),
        (TCP, {"address": None}, "row_garbled"),
        (TCP, {"netdev": None}, "row_garbled"),
        # Rows of earlier versions say neither.
        (TCP, {"group": GONE}, None),
        (TCP, {"round": GONE}, "row_garbled"),
        (TCP, {"window_s": [1.0, 2.0]}, "window_short"),
        *((TCP, {"streams": said}, "row_garbled") for said in (3, 5, None, GONE)),
        *((TCP, {"mtu_bytes": said}, "mtu_differs") for said in (1500, None)),
        (TCP, {"mtu_bytes": 9000.0}, "row_garbled"),
        # A path is probed with its own size, whatever else the netdev could send.
        (PATH, {"mtu_bytes": 9100}, None),
        *((TCP, {"exit_status": said}, None) for said in (0, None)),
        *((TCP, {"exit_status": said}, "row_garbled") for said in (1, 127, 128, -1, True, False, "0")),
        # What a probe prints is a result whatever it says itself, unless a signal ended it.
        *((PING, {"exit_status": said}, None) for said in (0, 1, 127)),
        *((PING, {"exit_status": said}, "row_garbled") for said in (128, 137, -1)),
        (TCP, {"tool_version": "3.1"}, "row_garbled"),
        (TCP, {"tool_version": "unknown"}, None),
        # A tool's arguments name its own rail, at either end, and no other.
        *((TCP, {"argv": said}, None) for said in (
            [], [["iperf3", "-c", "10.0.1.2"]], [["iperf3", "-B", "10.0.1.1"]], [["iperf3", "ens6"]])),
        *((TCP, {"argv": said}, "row_garbled") for said in (
            None, "iperf3", [["iperf3", 5]], [["iperf3", "--version"]], [["sockperf", "10.0.1.2"]],
            [["iperf3", "10.0.1.2"], ["iperf3"]], [["iperf3", ""]],
            [["iperf3", "10.0.1.2", "ens6d1"]])),
        (SOFT, {"argv": [["ib_write_bw", "-d", "rxe0"]]}, None),
        (SOFT, {"argv": [["ib_write_bw", "-d", "rxe0", "rxe1"]]}, "row_garbled"),
        # Nor of a class that was not planned.
        (SOFT, {"argv": [["ib_write_bw", "-d", "rxe0", "--tclass=106"]]}, "row_garbled"),
        (SOFT, {"argv": [["ib_write_bw", "-d", "rxe0", "--sl=0"]]}, "row_garbled"),
        (TCP, {"proof": "unproven"}, "unproven"),
        (TCP, {"proof_reason": "other traffic"}, "unproven"),
        (TCP, {"counters": {"rx_packets": GONE}}, "unproven"),
        (TCP, {"other_end": None}, "ends_disagree"),
        (TCP, {"other_end": {"boot_id": "boot-9"}}, "node_rebooted"),
        (TCP, {"other_end": {"boot_id": None}}, "node_rebooted"),
        *((TCP, {"other_end": {key: "x"}}, "ends_disagree") for key in ("host", "status", "proof")),
        (TCP, {"other_end": {"metrics": {}}}, "ends_disagree"),
        (TCP, {"other_end": {"counters": {"tx_bytes": [5, 6]}}}, "ends_disagree"),
        *((TCP, {"other_end": {key: "x"}}, "row_garbled") for key in ("metrics", "counters", "other")),
        (TCP, {"metrics": {"bandwidth_gbps": 0.5}}, "ends_disagree"),
        *((SOFT, {"tool_version": said}, "version_differs") for said in ("6.05", None)),
        *((SOFT, {"hca": said}, "row_garbled") for said in (None, "rxe1:1", "rxe0:2", "rxe0", "mlx5_0:1")),
        (SOFT, {"exchange": {"over": "management"}}, "row_garbled"),
        *((SOFT, {key: said}, "gid_wrong") for key, said in (
            ("gid_index", 0), ("gid_index", 2), ("gid_index", None), ("gid_type", "RoCE v1"))),
        (SOFT, {"gid_index": True}, "row_garbled"),
        *((SOFT, {"active_mtu_bytes": said}, "row_garbled") for said in (None, 4095, 4096.0, 8192)),
        *((SOFT, {"active_mtu_bytes": said}, "rdma_mtu_small") for said in (1024, 2048)),
        (SOFT, {"counters": {"hw_sent_pkts": GONE}}, "unproven"),
        *((CARD, {"counters": {"port_xmit_data": said}}, "unproven") for said in (
            GONE, [2**32 - 5, 7], [5, None])),
        # Whatever is sent is acknowledged, also where nothing is claimed of the return path.
        *((SOFT, {"counters": {name: [5, 5]}}, "unproven") for name in ("hw_sent_pkts", "hw_rcvd_pkts")),
        *((CARD, {"counters": {name: [5, 5]}}, "unproven") for name in ("port_xmit_data", "port_rcv_data")),
        # Of another rail what its netdev carried, and of RDMA its card; of one that is not there nothing.
        *((TCP, {"other_rails": {"rail1": shown}}, "unproven") for shown in ({}, {"tx_bytes": [7, 7]}, DATA)),
        *((kind, {"other_rails": {"rail1": NETDEV, "rail9": DATA}}, None) for kind in (TCP, SOFT)),
        (CARD, {"other_rails": {"rail1": {**NETDEV, **DATA}}}, None),
        (CARD, {"other_rails": {"rail1": NETDEV}}, "unproven"),
        *((CARD, {"other_rails": {"rail1": {**NETDEV, name: [7, 7]}}}, "unproven") for name in DATA),
        (IB, {"other_rails": {"rail1": DATA}}, None),
        *((IB, {key: said}, "row_garbled") for key, said in (
            ("netdev", "ib0"), ("address", "192.168.0.1"), ("hca", "mlx5_1:1"))),
        *((IB, {"exchange": said}, "row_garbled") for said in (None, GONE, "management", {"over": "rail"})),
        *((IB, {"exchange": {key: said}}, "guid_differs")
          for key in ("port_guid", "peer_port_guid") for said in ("x", None, GONE)),
        *((IB, {"counters": said}, "unproven") for said in (
            None, {"port_xmit_data": GONE}, {"port_xmit_data": [5, 5]})),
    ],
)  # fmt: skip
def test_what_one_row_must_say(kind: str, end: str, changes: dict[str, Any], cause: str | None) -> None:
    found = judge(kind, ends(kind, **{"client": {}, "server": {}, end: changes}))
    if cause is None:
        assert not isinstance(found, Answer), found.cause
        assert [row["end"] for row in found] == ["client", "server"]
    else:
        assert (found.outcome, found.cause["cause_class"]) == ("unmeasured", cause), found.cause


def test_which_rows_are_a_pair() -> None:
    client, server = ends(TCP, {}, {})
    late, failed = error("rendezvous_timeout"), error("peer_failed")
    for rows, held, cause in (
        ([], "", "no_row"),
        ([], NODES[1], "not_staged"),
        ([client], "", "one_ended"),
        ([client], NODES[1], "not_staged"),
        ([server], NODES[1], "one_ended"),
        ([client, client], "", "duplicate_row"),
        # A node that met no partner reports so; why the partner was not there is the reason that counts.
        ([{**client, **late}], "", "rendezvous_timeout"),
        ([{**client, **late}], NODES[1], "not_staged"),
        ([{**client, **error("deadline")}], NODES[1], "deadline"),
        ([{**server, **late}], NODES[1], "rendezvous_timeout"),
        ([{**client, **late}, {**server, **late}], NODES[1], "rendezvous_timeout"),
        ([{**client, **failed}, {**server, **error("deadline")}], "", "deadline"),
        ([{**client, **error("deadline")}, {**server, **failed}], "", "deadline"),
    ):
        found = judge(TCP, rows, held)
        assert (found.outcome, found.cause["cause_class"]) == ("unmeasured", cause), (cause, found.cause)
    for node in NODES:
        found = judge(TCP, [client, server], "", (node,))
        assert found.cause["cause_class"] == "node_unreachable"


def test_why_it_is_not_proven_is_reported_in_the_rows_own_words() -> None:
    for changes, said in (
        ({"proof": "unproven", "proof_reason": "other traffic"}, "gpuserver1 (client): other traffic"),
        ({"proof": "unproven"}, "gpuserver1 (client): it reports 'unproven'"),
    ):
        assert judge(TCP, ends(TCP, changes, {})).cause["cause"].endswith(said)


@pytest.mark.parametrize(("kind", "name"), [(SOFT, "hw_sent_pkts"), (CARD, "port_xmit_data")])
def test_a_driver_shows_what_it_sends_by_a_counter_of_its_own(kind: str, name: str) -> None:
    found = judge(kind, ends(kind, {"counters": {name: GONE}}, {}))
    assert f": {name} is not counted" in found.cause["cause"]


@pytest.mark.parametrize(
    ("table", "change", "cause", "said"),
    [
        ("hcas", {"gids": []}, "no_gid", "no GID for the rail's address on rxe0:1"),
        # That a rail has no netdev is for those without an address alone.
        ("netdevs", {"netdev": "ens9"}, "row_garbled", "netdev None, the rail is bound to None"),
    ],
)
def test_what_the_facts_lack_no_row_makes_up(
    table: str, change: dict[str, Any], cause: str, said: str
) -> None:
    run = SOUND.copy()
    run.facts[0][table][0] |= change
    identity = run.ids("rdma_bandwidth", rail="rail0")[0]
    row = next(row for row in run.rows(identity) if row["host"] == NODES[0])
    row["netdev"] = None if table == "netdevs" else row["netdev"]
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", cause)
    assert said in one["cause"]


def test_what_a_cable_shows_explains_only_that_no_one_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cabling.CablingMap, "find_cause", lambda _map, _line: {"cause_class": "crossed"})
    for name, cause in (("rendezvous_timeout", "crossed"), ("deadline", "deadline")):
        assert judge(TCP, ends(TCP, error(name), {})[:1]).cause["cause_class"] == cause


@pytest.mark.parametrize(
    ("kind", "changes", "outcome"),
    [
        (PING, error("tool_failed"), "fail"),
        (PING, error("tool_failed", status="unmeasured"), "unmeasured"),
        (PING, error("deadline"), "unmeasured"),
        (TCP, error("tool_failed"), "unmeasured"),
        *((PING, error("tool_failed", **{key: "x"}), "unmeasured") for key in (
            "run", "check", "node", "peer", "rail")),
    ],
)  # fmt: skip
def test_a_probe_that_never_came_back_is_an_answer(kind: str, changes: dict[str, Any], outcome: str) -> None:
    found = judge(kind, ends(kind, changes, error("peer_failed")))
    assert (found.outcome, found.basis) == (outcome, "the probe must arrive" if outcome == "fail" else "")


@pytest.mark.parametrize(
    ("kind", "metrics", "arrived", "outcome", "cause"),
    [
        (PING, {"loss_percent": 10.0}, 0, "fail", "lost_packets"),
        # 5 probes of 9000 bytes and 14 of each frame came, whatever the tool saw of them.
        (PATH, {"sent": 5, "received": 4}, 45_069, "fail", "lost_packets"),
        (PATH, {"sent": 5, "received": 4}, 45_070, "unmeasured", "probes_missed"),
        # Of a smaller path the counters hold what was tried as well.
        (PATH, {"sent": 5, "received": 4, "path_mtu_bytes": 8000}, 45_070, "fail", "path_mtu_small"),
    ],
)
def test_what_is_lost_is_a_failure_but_where_the_counters_have_it(
    kind: str, metrics: dict[str, Any], arrived: int, outcome: str, cause: str
) -> None:
    counters = {key: [0, arrived] for key in ("rx_bytes", "tx_bytes")}
    counters |= {key: [0, 5] for key in ("rx_packets", "tx_packets")}
    changes = {"metrics": metrics, "claim": {"at_most": 5}, "counters": counters}
    found = judge(kind, ends(kind, changes, {}))
    assert (found.outcome, found.cause["cause_class"]) == (outcome, cause), found.cause
    assert found.basis == ("loss must be 0" if outcome == "fail" else "")
