# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The counter proof: what crossed the rail, against what the tool says."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import (
    PORT_WORDS,
    SOFT_ROCE,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.proof import Allowance, Claim

NO_IDLE = Allowance(0.0, 5.0)
IDLE = Allowance(200000.0, 5.0)  # one million bytes, 15,625 packets
GIB = 1 << 30


def spans(**deltas: int) -> dict[str, list[int | None]]:
    return {name: [1000, 1000 + delta] for name, delta in deltas.items()}


def both(delta: int) -> dict[str, list[int | None]]:
    return spans(tx_packets=delta, rx_packets=delta)


def is_proven(*given: Any) -> bool:
    verdict, _reason = proof.prove(*given)
    assert verdict in (proof.PROVEN, proof.UNPROVEN)
    return verdict == proof.PROVEN


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
    assert is_proven(claim, "client", spans(tx_bytes=int(1.15 * GIB) + 1_000_000), {}, IDLE)
    assert not is_proven(claim, "client", spans(tx_bytes=int(1.15 * GIB) + 1_000_001), {}, IDLE)
    assert not is_proven(claim, "client", spans(tx_bytes=GIB - 1), {}, IDLE)


def test_a_probe_of_milliseconds_leaves_room_for_a_call_from_a_later_round() -> None:
    # Seen in the lab: 5 datagrams of 9000 bytes took 3.8 ms. A call (TCP, two HMACs, names) is some 2 kB.
    brief = Allowance(200000.0, 0.0038)
    claim = Claim("packets_forward", 5, 5)
    others = {"rail1": spans(tx_bytes=2000, rx_bytes=2500)}
    assert proof.prove(claim, "client", both(8), others, brief) == (proof.PROVEN, None)
    others = {"rail1": spans(tx_bytes=60000, rx_bytes=60000)}
    assert not is_proven(claim, "client", both(8), others, brief)
    assert not is_proven(claim, "client", both(4), {}, brief)


@pytest.mark.parametrize(
    ("tx", "rx", "proven"),
    [(1000, 1000, True), (999, 1000, False), (1000, 999, False), (2500, 2500, True), (2501, 1000, False)],
)
def test_packets_each_way(tx: int, rx: int, proven: bool) -> None:
    counters = spans(tx_packets=tx, rx_packets=rx)
    for end in ("client", "server"):
        assert is_proven(Claim("packets", 1000, 1000), end, counters, {}, NO_IDLE) is proven


def test_idle_traffic_of_packets_is_of_the_smallest_frames() -> None:
    claim = Claim("packets", 1000, 1000)
    for packets, word in ((2500 + 15_625, None), (2500 + 15_626, "other traffic")):
        _verdict, reason = proof.prove(claim, "client", both(packets), {}, IDLE)
        assert (reason is None) is (word is None)
        assert word is None or word in str(reason)


def test_sockperf_as_it_was_seen_in_the_lab() -> None:
    # 30,738 messages sent became 10,859 observations; all of them crossed the rail.
    seen = both(30_744)
    assert is_proven(Claim("packets", 10_859, 30_738), "client", seen, {}, NO_IDLE)
    assert not is_proven(Claim("packets", 10_859, 10_859), "client", seen, {}, NO_IDLE)


def test_packets_one_way_ask_nothing_of_the_return_path() -> None:
    claim = Claim("packets_forward", 5, 5)
    assert is_proven(claim, "client", spans(tx_packets=5, rx_packets=0), {}, NO_IDLE)
    assert is_proven(claim, "server", spans(tx_packets=0, rx_packets=5), {}, NO_IDLE)
    assert not is_proven(claim, "server", spans(tx_packets=5, rx_packets=4), {}, NO_IDLE)


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
        "tx_bytes grew by 2000, less than the 1073741824 bytes claimed: they took another path",
    )


def test_traffic_over_loopback_leaves_the_rail_silent() -> None:
    claim = Claim("packets", 40_000, 50_000)
    assert not is_proven(claim, "client", both(0), {}, IDLE)


@pytest.mark.parametrize("name", ["tx_bytes", "rx_bytes"])
def test_another_rail_at_work_spoils_the_proof(name: str) -> None:
    # A tenth of what is claimed: less cannot be where it went.
    others = {"rail1": {**spans(tx_bytes=0, rx_bytes=0), **spans(**{name: GIB // 10 + 1})}}
    verdict, reason = proof.prove(Claim("bytes", GIB, GIB), "client", spans(tx_bytes=GIB), others, IDLE)
    assert verdict == proof.UNPROVEN
    assert reason.startswith(f"rail1 was not idle: {name}")
    others["rail1"][name] = [0, 1_000_000]
    assert is_proven(Claim("bytes", GIB, GIB), "client", spans(tx_bytes=GIB), others, IDLE)
    small, sent = Claim("bytes", 10, 10), spans(tx_bytes=10)
    assert is_proven(small, "client", sent, others, IDLE)
    others["rail1"][name] = [0, 1_000_001]
    assert not is_proven(small, "client", sent, others, IDLE)
    # A claim of packets is no number of bytes of which another rail could carry a share.
    many = Claim("packets", 10**9, 10**9)
    assert not is_proven(many, "client", both(10**9), others, IDLE)


@pytest.mark.parametrize(
    ("span", "word"),
    [
        (None, "absent"),
        ([None, 5], "absent"),
        ([5, None], "absent"),
        ([2 * GIB, 100], "reset"),
        ([1000, 999], "back to 999"),
        ([0, 2**32 - 1], "saturated"),
        ([0, 2**64 - 1], "saturated"),
    ],
)
def test_a_counter_that_cannot_be_trusted_proves_nothing(span: list[int | None] | None, word: str) -> None:
    counters = {} if span is None else {"tx_bytes": span}
    verdict, reason = proof.prove(Claim("bytes", 10, 1e12), "client", counters, {}, NO_IDLE)
    assert verdict == proof.UNPROVEN
    assert word in reason
    verdict, reason = proof.prove(
        Claim("bytes", 10, 10), "client", spans(tx_bytes=10), {"rail1": {"tx_bytes": [1, 1]}}, NO_IDLE
    )
    assert (verdict, reason) == (proof.UNPROVEN, "rail1: rx_bytes is absent")


def test_no_claim_is_no_proof() -> None:
    assert not is_proven(None, "client", spans(tx_bytes=GIB), {}, IDLE)
    assert not proof.falls_short(None, "client", {})


def test_falls_short_only_where_waiting_may_help() -> None:
    claim = Claim("bytes", 10, 10)
    assert proof.falls_short(claim, "client", spans(tx_bytes=9))
    assert not proof.falls_short(claim, "client", spans(tx_bytes=10))
    assert not proof.falls_short(claim, "client", {"tx_bytes": [10, 5]})


def test_a_claim_survives_the_way_to_the_other_end() -> None:
    claim = Claim("packets", 10.0, 12.0)
    both = Claim("bytes", 1.0, 2.0, packet_bytes=4096, back_at_least=3.0, back_at_most=4.0)
    for one in (claim, both):
        assert proof.from_record(proof.as_record(one)) == one
    assert proof.as_record(claim) == {"unit": "packets", "at_least": 10.0, "at_most": 12.0}
    assert proof.as_record(None) is None
    assert proof.from_record(None) is None


SIZE = 65536
# 100 messages of 64 KiB at an MTU of 4096: 1,600 packets; three times as much is sent as is counted.
RDMA = Claim("bytes", 100 * SIZE, 300 * (SIZE + 16 * proof.RDMA_HEADER_BYTES), packet_bytes=4096)


def soft(sent: tuple[int, int], received: tuple[int, int] = (0, 0)) -> dict[str, list[int | None]]:
    """Soft-RoCE's counters of (bytes, packets)."""
    return spans(tx_bytes=sent[0], hw_sent_pkts=sent[1], rx_bytes=received[0], hw_rcvd_pkts=received[1])


def card(sent: tuple[int, int], received: tuple[int, int] = (0, 0)) -> dict[str, list[int | None]]:
    """A card's counters of (words of four bytes, packets)."""
    return spans(
        port_xmit_data=sent[0],
        port_xmit_packets=sent[1],
        port_rcv_data=received[0],
        port_rcv_packets=received[1],
    )


@pytest.mark.parametrize(
    ("sent", "word"),
    [
        ((100 * SIZE, 1600), None),
        ((300 * SIZE, 4800), None),
        ((100 * SIZE - 1, 1600), "another path"),
        ((100 * SIZE, 1599), "another path"),
        # iperf3 under the name of ib_write_bw: the bytes crossed the rail, but not as RDMA.
        ((100 * SIZE, 0), "another path"),
        # And beside a true test: more bytes than its packets can hold.
        ((300 * SIZE, 1600), "other traffic than RDMA"),
        # 1,600 packets hold 4,096 bytes and at most 110 around them each.
        ((1600 * (4096 + 110), 1600), None),
        ((1600 * (4096 + 110) + 1, 1600), "other traffic than RDMA"),
        ((1300 * SIZE, 20800), "other traffic"),
    ],
)
def test_soft_roce_is_proven_by_its_netdev_and_its_own_packets(
    sent: tuple[int, int], word: str | None
) -> None:
    for end, counters in (("client", soft(sent)), ("server", soft((0, 0), sent))):
        verdict, reason = proof.prove(RDMA, end, counters, {}, NO_IDLE, SOFT_ROCE)
        assert (verdict == proof.PROVEN) is (word is None)
        assert word is None or word in str(reason)
        # The return path is counted too, though nothing is claimed of it.
        for name in counters if word is None else ():
            less = {one: span for one, span in counters.items() if one != name}
            said = (proof.UNPROVEN, f"{name} is absent")
            assert proof.prove(RDMA, end, less, {}, NO_IDLE, SOFT_ROCE) == said


@pytest.mark.parametrize(
    ("sent", "proven"),
    [
        ((100 * SIZE // 4, 1600), True),
        ((100 * SIZE // 4 - 1, 1600), False),
        ((100 * SIZE // 4, 1599), False),
        # 1.15 x 300 x (65536 + 16 x 110) bytes are 5,804,280 words.
        ((5_804_280, 4800), True),
        ((5_804_281, 4800), False),
    ],
)
def test_a_cards_data_are_words_of_four_bytes(sent: tuple[int, int], proven: bool) -> None:
    for end, counters in (("client", card(sent)), ("server", card((0, 0), sent))):
        assert is_proven(RDMA, end, counters, {}, NO_IDLE, PORT_WORDS) is proven
    # What crosses the netdev of a card says nothing.
    netdev = spans(tx_bytes=10**9, rx_bytes=10**9, tx_packets=10**6, rx_packets=10**6)
    assert not is_proven(RDMA, "client", netdev, {}, NO_IDLE, PORT_WORDS)


def test_what_a_read_fetches_comes_from_the_server() -> None:
    read = RDMA._replace(at_least=0.0, at_most=0.0, back_at_least=RDMA.at_least, back_at_most=RDMA.at_most)
    moved = (100 * SIZE, 1600)
    for end, counters in (("client", soft((0, 0), moved)), ("server", soft(moved))):
        assert is_proven(read, end, counters, {}, NO_IDLE, SOFT_ROCE)
    assert not is_proven(read, "client", soft(moved), {}, NO_IDLE, SOFT_ROCE)


def test_both_directions_are_both_proven() -> None:
    both = RDMA._replace(back_at_least=50.0 * SIZE, back_at_most=RDMA.at_most)
    forward, back = (100 * SIZE, 1600), (50 * SIZE, 800)
    assert is_proven(both, "client", soft(forward, back), {}, NO_IDLE, SOFT_ROCE)
    assert is_proven(both, "server", soft(back, forward), {}, NO_IDLE, SOFT_ROCE)
    assert not is_proven(both, "client", soft(back, forward), {}, NO_IDLE, SOFT_ROCE)
    less = (50 * SIZE - 1, 800)
    assert not is_proven(both, "client", soft(forward, less), {}, NO_IDLE, SOFT_ROCE)


@pytest.mark.parametrize(("packets", "proven"), [(99, False), (100, True), (300, True), (301, False)])
def test_rdma_latency_is_packets_of_the_port_each_way(packets: int, proven: bool) -> None:
    # A probe of 20 before a test of 100: 120 x 2.5 at most.
    claim = Claim("packets", 100, 120, packet_bytes=4096)
    counters = {**spans(tx_packets=9, rx_packets=9), **spans(hw_sent_pkts=packets, hw_rcvd_pkts=packets)}
    assert is_proven(claim, "client", counters, {}, NO_IDLE, SOFT_ROCE) is proven


def test_another_rails_port_has_to_be_idle_too() -> None:
    others = {"rail1": {**spans(tx_bytes=0, rx_bytes=0, port_xmit_data=GIB // 40 + 1, port_rcv_data=0)}}
    claim = Claim("bytes", GIB, GIB)
    verdict, reason = proof.prove(claim, "client", spans(tx_bytes=GIB), others, IDLE)
    assert (verdict, str(reason)[:32]) == (proof.UNPROVEN, "rail1 was not idle: port_xmit_da")
    others["rail1"]["port_xmit_data"] = [0, GIB // 40]
    assert is_proven(claim, "client", spans(tx_bytes=GIB), others, IDLE)


def test_an_infiniband_port_without_a_netdev_is_idle_by_its_own_counters() -> None:
    claim = Claim("bytes", GIB, GIB)
    others: dict[str, dict[str, list[int | None]]] = {
        "rail1": {"port_xmit_data": [0, 0], "port_rcv_data": [0, 0]}
    }
    assert is_proven(claim, "client", spans(tx_bytes=GIB), others, IDLE)
    others["rail1"]["port_rcv_data"] = [0, GIB // 40 + 1]
    assert not is_proven(claim, "client", spans(tx_bytes=GIB), others, IDLE)
    # Of a rail that shows nothing at all it is not known that it was idle.
    for nothing in ({}, {"tx_bytes": [None, None], "port_xmit_data": [0, 0], "port_rcv_data": [0, 0]}):
        others["rail1"] = nothing
        assert not is_proven(claim, "client", spans(tx_bytes=GIB), others, IDLE)


def test_a_claim_of_nothing_explains_no_traffic_either() -> None:
    # An interrupted test counts no iteration and has sent for a while: what it cannot explain is not its own.
    claim = Claim("bytes", 0.0, 1000.0)
    assert is_proven(claim, "client", spans(tx_bytes=1150), {}, NO_IDLE)
    verdict, reason = proof.prove(claim, "client", spans(tx_bytes=1151), {}, NO_IDLE)
    assert verdict == proof.UNPROVEN
    assert "other traffic" in str(reason)


NAN, INFINITE = float("nan"), float("inf")


@pytest.mark.parametrize(
    "claim",
    [
        Claim("bytes", NAN, NAN),
        Claim("bytes", 10, NAN),
        Claim("bytes", NAN, 10),
        Claim("bytes", INFINITE, INFINITE),
        Claim("bytes", 10, INFINITE),
        Claim("bytes", -1, 10),
        Claim("packets", -5, 10),
        Claim("bytes", 10, 10, NAN, NAN),
        Claim("bytes", 10, 10, packet_bytes=0),
    ],
)
def test_a_claim_that_is_no_amount_is_not_proven_by_any_counter(claim: Claim) -> None:
    """JSON knows NaN, and NaN is neither less nor more than what a counter shows."""
    seen = spans(tx_bytes=10, rx_bytes=10, tx_packets=10, rx_packets=10)
    verdict, reason = proof.prove(claim, "client", seen, {}, NO_IDLE)
    assert verdict == proof.UNPROVEN
    assert "invalid amount" in str(reason)
