# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Folders that were forged from a healthy one: each is reported, and none ends with 0."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
from support.runs.fake_run import NODES, FakeRun
from support.runs.run_builder import scale
from support.runs.spoil import again, error_row

Row = dict[str, Any]
HEALTHY = FakeRun(transport="roce", driver_class="hardware", node_class="hardware")


def row_of(run: FakeRun, check: str = "rdma_bandwidth", end: str = "client") -> Row:
    return run.rows(run.ids(check, rail="rail0")[0], end)[0]


def test_the_run_that_is_forged_is_healthy() -> None:
    assert HEALTHY.status() == 0, [one for one in HEALTHY.judge() if one["outcome"] in ("fail", "unmeasured")]


def slow_reverse(run: FakeRun) -> None:
    """RDMA both ways, of which one direction is as good as dead."""
    for identity in run.ids("rdma_bandwidth_bi"):
        for row in run.rows(identity):
            row["metrics"] = {name: value / 2 for name, value in row["metrics"].items()}
            if row["end"] == "server":
                row["iterations"] = max(1, round(row["iterations"] * 0.005))


def virtual(run: FakeRun) -> None:
    for facts in run.facts:
        for device in facts["netdevs"]:
            device.update(driver_class="virtual", driver="virtio_net")


def too_much(run: FakeRun) -> None:
    for end in ("client", "server"):
        counters = row_of(run, end=end)["counters"]
        for name in ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets"):
            before, after = counters[name]
            counters[name] = [before, before + 50 * (after - before)]


def at(moment: str, check: str = "rdma_bandwidth") -> Callable[[FakeRun], None]:
    return lambda run: row_of(run, check).update(started=moment)


def set_back(run: FakeRun) -> None:
    run.manifest["end"]["at"] = "2026-11-21T09:15:00.000Z"
    row_of(run)["started"] = "2031-11-21T10:15:20.000Z"


def says(**changes: Any) -> Callable[[FakeRun], None]:
    return lambda run: row_of(run).update(changes)


def small_port(run: FakeRun) -> None:
    """The port says that it can do 512 bytes at most, and its tests are slow."""
    for facts in run.facts:
        for port in facts["hcas"]:
            port.update(max_mtu_bytes=512, active_mtu_bytes=512)
    for row in run.results:
        if row["check"] == "rdma_bandwidth":
            scale(row, 0.095)
            row["active_mtu_bytes"] = 512


def no_physical_counter(run: FakeRun) -> None:
    for row in run.results:
        if row.get("link_errors"):
            row["link_errors"] = {"hw.out_of_sequence": [7, 7]}


def symbols_alone(run: FakeRun) -> None:
    for row in run.results:
        (row.get("link_errors") or {}).pop("netdev.rx_crc_errors", None)


def grew_unseen(run: FakeRun) -> None:
    """Checksum errors grew in the first tests of a rail, whose rows have lost that counter."""
    rows = [row for row in run.results if (row["host"], row["rail"]) == (NODES[0], "rail0")]
    for row in rows[:4]:
        (row.get("link_errors") or {}).pop("netdev.rx_crc_errors", None)


def still_above_ceiling(run: FakeRun) -> None:
    """More than the link can carry, both ways, while its samples say that nothing arrived."""
    for row in run.rows(run.ids("tcp_bandwidth_bi", rail="rail0")[0]):
        scale(row, 1.2)
        row["counters"] = again(row, 1)["counters"]
        row["samples"] = {"t_s": list(range(7)), "rx_bytes": [7] * 7}


def other_owner(run: FakeRun) -> None:
    """The node that answers claims to be the port itself, which by its facts has another MAC address."""
    told = run.rows(run.ids("link_address_owner")[0])[0]["cabling"]
    mac = "02:00:00:00:ee:ee"
    told.update(peer_mac=mac, claimed_by=[mac], known={mac: f"{told['peer']} rail0"})


def slow_ping(says: Row, metrics: Row) -> Callable[[FakeRun], None]:
    """Return what makes a ping a hundred times as slow as its peers, and what it claims to be unlike them."""

    def forge(run: FakeRun) -> None:
        row = row_of(run, "ping_rtt")
        slow = {name: 100 * value for name, value in row["metrics"].items() if name.endswith("_us")}
        row.update(says, metrics=row["metrics"] | slow | metrics)

    return forge


def slow_in_one_slot(run: FakeRun) -> None:
    """All rails at once a tenth of one of them alone, on two functions of one card."""
    for facts in run.facts:
        for number, device in enumerate(facts["netdevs"][:2]):
            device["pci"] = f"0000:3b:00.{number}"
    for row in run.results:
        if row["check"] == "rdma_bandwidth_concurrent":
            scale(row, 0.04)


IDLE = {"tx_bytes": [7, 7], "rx_bytes": [7, 7]}
# What test_evidence.py has of one row, here once for each rule that sees it.
FORGED: dict[str, Callable[[FakeRun], None]] = {
    "both ways, one dead": slow_reverse,
    "virtual where hardware is declared": virtual,
    "all rails of a slot slow": slow_in_one_slot,
    "another rail carried it": says(
        other_rails={"rail1": {**IDLE, "port_xmit_data": [0, 2 * 10**11], "port_rcv_data": [0, 0]}}
    ),
    "far more than it claims": too_much,
    "a row of 2019": at("2019-11-21T10:15:20.000Z"),
    "an end before the beginning": set_back,
    "a TCP row of another day": at("2026-11-23T10:15:20.000Z", "tcp_bandwidth"),
    "a window of 10^6 s": says(window_s=[1.0, 1e6]),
    "ended with a failure": says(exit_status=1),
    "another device": says(argv=[["ib_write_bw", "-d", "mlx5_1", "10.0.1.2"]]),
    "another group": says(group="g00099"),
    "a test of many at once as one alone": lambda run: row_of(run, "rdma_bandwidth_concurrent").pop("group"),
    "a beacon of 1970": at("1970-01-01T00:00:18.000Z", "cabling"),
    "no physical counter": no_physical_counter,
    "a reason beside a proven cable": lambda run: run.rows(run.ids("cabling")[0])[0].update(
        proof_reason="no"
    ),
    "an owner of another MAC": other_owner,
    "symbol errors alone": symbols_alone,
    "a counter that grew unseen": grew_unseen,
    "above the ceiling, and nothing arrived": still_above_ceiling,
    "a port of 512 bytes": small_port,
    "no word of the other rails": says(other_rails={}),
    "no word of the other cards": says(other_rails={"rail1": IDLE}),
    "no word of the other netdevs": lambda run: row_of(run, "tcp_bandwidth").update(
        other_rails={"rail1": {"port_xmit_data": [7, 7], "port_rcv_data": [7, 7]}}
    ),
    "minutes in place of seconds": lambda run: row_of(run, "tcp_bandwidth").update(window_s=[1.1, 301.1]),
    "a window of 100 s": lambda run: row_of(run, "tcp_bandwidth").update(window_s=[1.1, 101.1]),
    "a driver of no kind": lambda run: run.facts[0]["hcas"][0].update(driver_class={}),
    "an iperf3 that its node has not": lambda run: run.facts[0]["tools"].update(iperf3="3.1"),
    "milliseconds in place of microseconds": lambda run: row_of(run, "ping_rtt")["metrics"].update(
        rtt_average_us=0.08, rtt_min_us=0.06
    ),
    "a loss that is none": lambda run: row_of(run, "ping_rtt")["metrics"].update(sent=300, received=200),
    "an idle rate of its own": says(idle_bytes_per_s=10**12),
}


def one_way_dead(run: FakeRun) -> None:
    """TCP both ways on one rail, of which the return path is nearly dead: the sum is half of its peers'."""
    for row in run.rows(run.ids("tcp_bandwidth_bi", rail="rail0")[0]):
        row["metrics"].update(bandwidth_gbps=0.953, reverse_gbps=0.003)
        span = row["counters"]["rx_bytes" if row["end"] == "client" else "tx_bytes"]
        span[1] = span[0] + 30_000_000


#: What its peers alone show to be bad: without their rows it is not.
UNLIKE: dict[str, Callable[[FakeRun], None]] = {
    "a slow ping of another size": slow_ping({"message_bytes": 3, "qps": 4, "active_mtu_bytes": 256}, {}),
    "TCP both ways, one dead": one_way_dead,
    "a slow ping with a bandwidth": slow_ping({}, {"bandwidth_gbps": 1.0}),
}


@pytest.mark.parametrize("name", FORGED | UNLIKE)
def test_no_forged_folder_ends_with_0(name: str) -> None:
    run = HEALTHY.copy()
    (FORGED | UNLIKE)[name](run)
    bad = [one for one in run.judge() if one["outcome"] in ("fail", "unmeasured")]
    assert bad
    assert run.status() in (1, 3)


@pytest.mark.parametrize("check", ["rdma_aggregate_bandwidth", "aggregate_bandwidth"])
def test_two_cards_at_once_carry_what_each_of_them_does(check: str) -> None:
    """Four rails on two cards; at once they carry little more than one card's."""
    run = FakeRun(rails=4, beacon=False, transport="roce", driver_class="hardware", node_class="hardware")
    for facts in run.facts:
        for number, device in enumerate(facts["netdevs"][:4]):
            device["pci"] = f"0000:{'3b' if number < 2 else '5e'}:00.{number % 2}"
    for gbps, outcome in ((0.5, "pass"), (0.3, "fail")):
        for row in run.results:
            if row["group"]:
                scale(row, gbps / row["metrics"]["bandwidth_gbps"] * 0.95)
        assert {run.verdict(name)["outcome"] for name in run.ids(check)} == {outcome}


@pytest.mark.parametrize(("kind", "outcome"), [("hardware", "fail"), ("software", "recorded")])
def test_cards_of_no_known_rate_carry_both_ways_what_they_do_one_way(kind: str, outcome: str) -> None:
    run = FakeRun(None, kind, transport="roce", bidirectional=True)
    slow_reverse(run)
    for row in run.results:
        if row["check"] == "rdma_bandwidth_bi":
            way = {"client": ("rx", "rcv", "rcvd"), "server": ("tx", "xmit", "sent")}[row["end"]]
            for name, (before, after) in row["counters"].items():
                if any(word in name.split("_") for word in way):
                    row["counters"][name] = [before, before + math.ceil((after - before) / 50)]
    found = [run.verdict(name) for name in run.ids("rdma_bandwidth_bi")]
    assert {one["outcome"] for one in found} == {outcome}, found[0]["cause"]


def test_software_where_hardware_is_declared_fails() -> None:
    run = FakeRun(transport="roce", node_class="hardware")
    assert {run.verdict(name)["cause_class"] for name in run.ids("rdma_port")} == {"not_hardware"}
    assert run.status() == 1


def test_an_address_whose_contest_was_dropped_does_not_pass() -> None:
    run = HEALTHY.copy()
    row = row_of(run, "tcp_bandwidth", "server")
    run.results = [one for one in run.results if one is not row]
    one = run.verdict(run.ids("address", node=NODES[0], rail="rail0")[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "no_row")


def low(run: FakeRun) -> None:
    """Measured three times below the floor."""
    identity = run.ids("tcp_bandwidth", rail="rail0")[0]
    for first in run.rows(identity):
        for attempt in (2, 3):
            run.results.append(again(first, attempt))
    for row in run.rows(identity):
        scale(row, 0.4 + row.get("attempt", 1) / 100)


def contested(run: FakeRun) -> None:
    error_row(row_of(run, "tcp_bandwidth"), "address_in_use", "unmeasured", NODES[0])


def good_at_first(run: FakeRun) -> None:
    """Measured again twice, and below the floor both times."""
    low(run)
    for row in run.rows(run.ids("tcp_bandwidth", rail="rail0")[0]):
        row["attempt"] = {1: 2, 2: 3, 3: 1}[row.get("attempt", 1)]
        if row["attempt"] == 1:
            scale(row, 0.95**2 / 0.43)


def small_once(run: FakeRun) -> None:
    """Measured again, a path has a smaller MTU: one of several paths, that is, and no accident."""
    for row in run.rows(run.ids("path_mtu", rail="rail0")[0]):
        run.results += [again(row, 2), again(row, 3)]
        if row["metrics"]:
            run.results[-1]["metrics"]["path_mtu_bytes"] = 1500


BAD: dict[str, Callable[[FakeRun], None]] = {
    **FORGED,
    "low three times": low,
    "contested": contested,
    "low two times": good_at_first,
    "small once": small_once,
}
WORSE = ("fail", "unmeasured")


def outcomes(run: FakeRun) -> dict[str, str]:
    return {one["id"]: one["outcome"] for one in run.judge()}


@pytest.mark.parametrize("name", BAD)
def test_rows_that_are_dropped_or_added_never_lead_out_of_a_bad_verdict(name: str) -> None:
    run, chance = HEALTHY.copy(), random.Random(name)
    BAD[name](run)
    before = outcomes(run)
    bad = [identity for identity, outcome in before.items() if outcome in WORSE]
    assert bad
    shuffled = run.copy()
    chance.shuffle(shuffled.results)
    assert outcomes(shuffled) == before
    tests = [row for row in run.results if row["id"].startswith("m")]
    for count in (1, 1, 3, 30):
        fewer, more = run.copy(), run.copy()
        gone = set(chance.sample(range(len(run.results)), count))
        fewer.results = [row for place, row in enumerate(fewer.results) if place not in gone]
        for row in chance.sample(tests, count):
            # A good row of another attempt, of the other end, and the row itself once more.
            changes: list[Row] = [again(row, chance.choice((2, 3))), {**row, "end": "client"}, dict(row)]
            more.results.append(chance.choice(changes))
        for other in (fewer, more):
            after = outcomes(other)
            assert [one for one in bad if after[one] not in WORSE] == []
