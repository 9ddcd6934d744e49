# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counter proof: what crossed the rail, against what the tool says."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import proof
from ansible_collections.railyard.fabric.plugins.module_utils.proof import Allowance, Claim

NO_IDLE = Allowance(0.0, 5.0)
IDLE = Allowance(200000.0, 5.0)  # one million bytes, 15,625 packets
GIB = 1 << 30


def spans(**deltas: int) -> dict[str, list[int | None]]:
    return {name: [1000, 1000 + delta] for name, delta in deltas.items()}


def both(delta: int) -> dict[str, list[int | None]]:
    return spans(tx_packets=delta, rx_packets=delta)


@pytest.mark.parametrize(
    ("end", "counters", "proven"),
    [
        ("client", spans(tx_bytes=GIB, rx_bytes=0), True),
        ("client", spans(tx_bytes=GIB - 1, rx_bytes=GIB), False),
        ("server", spans(tx_bytes=0, rx_bytes=GIB), True),
        ("server", spans(tx_bytes=GIB, rx_bytes=GIB - 1), False),
        ("client", spans(tx_bytes=int(1.15 * GIB), rx_bytes=0), True),
        ("client", spans(tx_bytes=int(1.15 * GIB) + 1, rx_bytes=0), False),
    ],
)
def test_bytes_of_the_sender_and_of_the_receiver(
    end: str, counters: dict[str, list[int | None]], proven: bool
) -> None:
    verdict, reason = proof.prove(Claim("bytes", GIB, GIB), end, counters, {}, NO_IDLE)
    assert (verdict == proof.PROVEN) is proven
    assert (reason is None) is proven


def test_idle_traffic_is_allowed_on_top_and_never_makes_up_for_what_is_missing() -> None:
    claim = Claim("bytes", GIB, GIB)
    assert (
        proof.prove(claim, "client", spans(tx_bytes=int(1.15 * GIB) + 1_000_000), {}, IDLE)[0] == proof.PROVEN
    )
    assert (
        proof.prove(claim, "client", spans(tx_bytes=int(1.15 * GIB) + 1_000_001), {}, IDLE)[0]
        == proof.UNPROVEN
    )
    assert proof.prove(claim, "client", spans(tx_bytes=GIB - 1), {}, IDLE)[0] == proof.UNPROVEN


def test_a_probe_of_milliseconds_leaves_room_for_a_call_from_a_later_round() -> None:
    # Seen in the lab: 5 datagrams of 9000 bytes took 3.8 ms. A call (TCP, two HMACs, names) is some 2 kB.
    brief = Allowance(200000.0, 0.0038)
    claim = Claim("packets_forward", 5, 5)
    others = {"rail1": spans(tx_bytes=2000, rx_bytes=2500)}
    assert proof.prove(claim, "client", both(8), others, brief) == (proof.PROVEN, None)
    others = {"rail1": spans(tx_bytes=60000, rx_bytes=60000)}
    assert proof.prove(claim, "client", both(8), others, brief)[0] == proof.UNPROVEN
    assert proof.prove(claim, "client", both(4), {}, brief)[0] == proof.UNPROVEN


@pytest.mark.parametrize(
    ("tx", "rx", "proven"),
    [(1000, 1000, True), (999, 1000, False), (1000, 999, False), (2500, 2500, True), (2501, 1000, False)],
)
def test_packets_each_way(tx: int, rx: int, proven: bool) -> None:
    counters = spans(tx_packets=tx, rx_packets=rx)
    for end in ("client", "server"):
        verdict, _reason = proof.prove(Claim("packets", 1000, 1000), end, counters, {}, NO_IDLE)
        assert (verdict == proof.PROVEN) is proven


def test_sockperf_as_it_was_seen_in_the_lab() -> None:
    # 30,738 messages sent became 10,859 observations; all of them crossed the rail.
    seen = both(30_744)
    assert proof.prove(Claim("packets", 10_859, 30_738), "client", seen, {}, NO_IDLE)[0] == proof.PROVEN
    assert proof.prove(Claim("packets", 10_859, 10_859), "client", seen, {}, NO_IDLE)[0] == proof.UNPROVEN


def test_packets_one_way_ask_nothing_of_the_way_back() -> None:
    claim = Claim("packets_forward", 5, 5)
    assert proof.prove(claim, "client", spans(tx_packets=5, rx_packets=0), {}, NO_IDLE)[0] == proof.PROVEN
    assert proof.prove(claim, "server", spans(tx_packets=0, rx_packets=5), {}, NO_IDLE)[0] == proof.PROVEN
    assert proof.prove(claim, "server", spans(tx_packets=5, rx_packets=4), {}, NO_IDLE)[0] == proof.UNPROVEN


def test_traffic_that_took_another_rail_is_named() -> None:
    verdict, reason = proof.prove(
        Claim("bytes", GIB, GIB),
        "client",
        spans(tx_bytes=2000),
        {"rail1": spans(tx_bytes=GIB, rx_bytes=0)},
        IDLE,
    )
    assert (verdict, reason) == (
        proof.UNPROVEN,
        "tx_bytes grew by 2000, less than the 1073741824 bytes claimed: they took another way",
    )


def test_traffic_over_loopback_leaves_the_rail_silent() -> None:
    claim = Claim("packets", 40_000, 50_000)
    assert proof.prove(claim, "client", both(0), {}, IDLE)[0] == proof.UNPROVEN


@pytest.mark.parametrize("name", ["tx_bytes", "rx_bytes"])
def test_another_rail_at_work_spoils_the_proof(name: str) -> None:
    others = {"rail1": {**spans(tx_bytes=0, rx_bytes=0), **spans(**{name: 1_000_001})}}
    verdict, reason = proof.prove(Claim("bytes", GIB, GIB), "client", spans(tx_bytes=GIB), others, IDLE)
    assert verdict == proof.UNPROVEN
    assert reason is not None
    assert reason.startswith(f"rail1 was not idle: {name}")
    others["rail1"][name] = [0, 1_000_000]
    assert (
        proof.prove(Claim("bytes", GIB, GIB), "client", spans(tx_bytes=GIB), others, IDLE)[0] == proof.PROVEN
    )


@pytest.mark.parametrize(
    ("span", "word"),
    [
        (None, "absent"),
        ([None, 5], "absent"),
        ([5, None], "absent"),
        ([2 * GIB, 100], "reset"),
        ([0, 2**32 - 1], "saturated"),
        ([0, 2**64 - 1], "saturated"),
    ],
)
def test_a_counter_that_cannot_be_trusted_proves_nothing(span: list[int | None] | None, word: str) -> None:
    counters = {} if span is None else {"tx_bytes": span}
    verdict, reason = proof.prove(Claim("bytes", 10, 1e12), "client", counters, {}, NO_IDLE)
    assert verdict == proof.UNPROVEN
    assert reason is not None
    assert word in reason
    verdict, reason = proof.prove(
        Claim("bytes", 10, 10), "client", spans(tx_bytes=10), {"rail1": {"tx_bytes": [1, 1]}}, NO_IDLE
    )
    assert (verdict, reason) == (proof.UNPROVEN, "rail1: rx_bytes is absent")


def test_no_claim_is_no_proof() -> None:
    assert proof.prove(None, "client", spans(tx_bytes=GIB), {}, IDLE)[0] == proof.UNPROVEN
    assert not proof.falls_short(None, "client", {})


def test_falls_short_only_where_waiting_may_help() -> None:
    claim = Claim("bytes", 10, 10)
    assert proof.falls_short(claim, "client", spans(tx_bytes=9))
    assert not proof.falls_short(claim, "client", spans(tx_bytes=10))
    assert not proof.falls_short(claim, "client", {"tx_bytes": [10, 5]})


def test_a_claim_survives_the_way_to_the_other_end() -> None:
    claim = Claim("packets", 10.0, 12.0)
    assert proof.from_record(proof.as_record(claim)) == claim
    assert proof.from_record(None) is None
