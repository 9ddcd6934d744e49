# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""InfiniBand rows without IP on the rail: accepted only with the ports' GUIDs and the ports' own counters."""

from __future__ import annotations

import pytest
from support.runs.fake_run import NODES, FakeRun
from support.runs.spoil import error_row

CHECKS = ("rdma_bandwidth", "rdma_latency")
NETDEV_COUNTERS = ("tx_bytes", "rx_bytes", "tx_packets", "rx_packets")


def guid(host: str, rail: str) -> str:
    return f"b83f:d203:00a{NODES.index(host) + 1}:000{rail[-1]}"


def healthy() -> FakeRun:
    """Return a run of two cards without IP and without any netdev: only port and GUID tell a rail."""
    run = FakeRun(transport="infiniband", rate_gbps=1.0, driver_class="hardware")
    for node in NODES:
        for rail in run.plan["nodes"][node]["rails"]:
            rail.update(address=None, subnet=None, mtu=None, netdev=None)
    for facts in run.facts:
        for port, rail in zip(facts["hcas"], ("rail0", "rail1"), strict=True):
            port |= {"link_layer": "InfiniBand", "lid": 3, "sm_lid": 1, "netdev": None, "rate_gbps": 1.0}
            port["port_guid"] = guid(facts["node"], rail)
            port["gids"] = [{**port["gids"][0], "type": "IB", "netdev": None, "address": None}]
    run.results = [row for row in run.results if row["check"].startswith("rdma_")]
    for row in run.results:
        other = NODES[1 - NODES.index(row["host"])]
        row.update(netdev=None, address=None, mtu_bytes=None, gid_index=None, gid_type="IB")
        row["counters"] = {
            name: span for name, span in row["counters"].items() if name not in NETDEV_COUNTERS
        }
        row["link_errors"] = {"hw.out_of_sequence": [7, 7], "hca.link_downed": [0, 0]}
        row["exchange"] = {
            "over": "management",
            "address": "192.168.0.1",
            "peer_address": "192.168.0.2",
            "port_guid": guid(row["host"], row["rail"]),
            "peer_port_guid": guid(other, row["rail"]),
        }
    return run


WITHOUT_IP = healthy()


@pytest.mark.parametrize("check", CHECKS)
def test_a_healthy_pair_without_any_netdev_is_measured_and_proven(check: str) -> None:
    for identity in WITHOUT_IP.ids(check):
        one = WITHOUT_IP.verdict(identity)
        assert (one["outcome"], one["proof"]) in {("pass", "proven"), ("recorded", "proven")}, one["cause"]
        assert one["observed"]
    assert {WITHOUT_IP.verdict(name)["outcome"] for name in WITHOUT_IP.ids("link_errors")} == {"pass"}


def test_facts_without_a_guid_make_no_port_known() -> None:
    run = WITHOUT_IP.copy()
    for facts in run.facts:
        facts["hcas"][0]["port_guid"] = None
    for row in run.results:
        for key in ("port_guid", "peer_port_guid"):
            row["exchange"][key] = None
    one = run.verdict(run.ids("rdma_bandwidth", rail="rail0")[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "guid_unknown")


def test_two_ends_that_agree_on_a_port_that_was_not_inspected_prove_nothing() -> None:
    run = WITHOUT_IP.copy()
    identity = run.ids("rdma_bandwidth", rail="rail0")[0]
    for row in run.rows(identity):
        key = "port_guid" if row["host"] == NODES[1] else "peer_port_guid"
        row["exchange"][key] = "b83f:d203:00ff:0000"
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "guid_differs")


def test_a_port_that_met_itself_is_no_pair() -> None:
    run = WITHOUT_IP.copy()
    for facts in run.facts:
        facts["hcas"][0]["port_guid"] = guid(NODES[0], "rail0")
    identity = run.ids("rdma_bandwidth", rail="rail0")[0]
    for row in run.rows(identity):
        row["exchange"] |= dict.fromkeys(("port_guid", "peer_port_guid"), guid(NODES[0], "rail0"))
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "guid_differs")


@pytest.mark.parametrize(
    "name", ["no_management", "management_timeout", "guid_differs", "guid_unknown", "link_layer_wrong"]
)
def test_what_keeps_the_ends_apart_is_reported_with_its_cause(name: str) -> None:
    run = WITHOUT_IP.copy()
    identity = run.ids("rdma_bandwidth")[0]
    for row in run.rows(identity):
        error_row(row, name, "unmeasured", NODES[1])
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"], one["next"]) == ("unmeasured", name, "do this")


def over_efa() -> FakeRun:
    """Return the run with cards of EFA, whose ports count what they send, and no acknowledgements."""
    run = healthy()
    for node in run.plan["nodes"].values():
        node["transport"] = "efa"
    for facts in run.facts:
        for port in facts["hcas"]:
            port |= {"link_layer": "Unknown", "driver": "efa", "lid": 0, "sm_lid": 0}
    for row in run.results:
        sends = {"client": "port_xmit", "server": "port_rcv"}[row["end"]]
        one_way = {}
        for name, (before, after) in row["counters"].items():
            way, unit = ("tx", "rx")["rcv" in name], 4 if name.endswith("data") else 1
            own = f"hw_{way}_{'bytes' if unit == 4 else 'pkts'}"
            one_way[own] = [before * unit, (after if name.startswith(sends) else before) * unit]
        row.update(gid_index=0, gid_type=None, counters=one_way)
        row["other_rails"] = {
            rail: {"hw_tx_bytes": [7, 7], "hw_rx_bytes": [7, 7]} for rail in row["other_rails"]
        }
        row["link_errors"] = {"hw.rx_drops": [0, 0]}
    return run


OVER_EFA = over_efa()


def test_efa_is_accepted_without_counted_acknowledgements_and_at_gid_0_alone() -> None:
    identity = OVER_EFA.ids("rdma_bandwidth")[0]
    one = OVER_EFA.verdict(identity)
    assert (one["outcome"], one["proof"]) == ("pass", "proven"), one["cause"]
    run = OVER_EFA.copy()
    for row in run.rows(identity, "client"):
        row["gid_index"] = None
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "gid_wrong")
