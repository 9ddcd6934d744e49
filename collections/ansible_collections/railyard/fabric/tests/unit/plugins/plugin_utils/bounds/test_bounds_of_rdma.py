# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA bounds against the arithmetic of the packet, and floors with a published reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import rdma_mtu
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link as link_rules
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import packets, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from hypothesis import given
from hypothesis import strategies as st
from support.runs import fake_rdma

#: 0.90 of what packets of 4096 bytes leave of 100 Gbit/s.
DATA_FLOOR = pytest.approx(0.9 * 100 * 4096 / 4178, abs=1e-3)


def end(
    rate_gbps: float | None = None,
    mtu: int | None = 9000,
    kind: str = "RoCE v2",
    hca: Any = None,
    **rail: Any,
) -> Bound:
    port = fake_rdma.port("mlx5_0:1", "ens6", "10.0.1.1", "hardware") | (hca or {})
    for gid in port["gids"]:
        gid["type"] = kind
    planned = {"name": "rail0", "mtu": mtu, "rate_gbps": rate_gbps, "address": "10.0.1.1/24", **rail}
    return Bound(planned, {"netdev": "ens6", "driver_class": "hardware", "pci": None}, port)


def bounds(
    one: Bound, check: str = "rdma_bandwidth", transport: str = "roce", shared: bool = False, **rules: Any
) -> Any:
    share = slots.Share(None, "rail0 and rail1 share 0000:80:01.0") if shared else None
    return limits.bound_test(check, one, one, limits.Conditions(policy.merge(rules), (), share, transport))


def test_a_connectx3_carries_at_most_38_24_of_40() -> None:
    # The value of the note on the two-node cluster: perftest takes 2048 there, over RoCE v1.
    able = limits.find_capability(
        "rdma_bandwidth",
        *[end(40, kind="RoCE v1", hca={"driver": "mlx4_core", "device": "mlx4_0"})] * 2,
        "roce",
    )
    assert able.packet.payload_bytes == 2048
    assert 40 * able.packet.payload_share == pytest.approx(38.24, abs=0.005)


@pytest.mark.parametrize(
    ("mtu", "kind", "rail", "share"),
    [
        # Ethernet 14 + FCS 4 + preamble 8 + gap 12 = 38; IPv4 20 + UDP 8 + BTH 12 + ICRC 4 = 44
        (9000, "RoCE v2", {}, 4096 / (4096 + 38 + 44)),
        (1500, "RoCE v2", {}, 1024 / (1024 + 38 + 44)),
        # GRH 40 + BTH 12 + ICRC 4 = 56
        (9000, "RoCE v1", {}, 4096 / (4096 + 38 + 56)),
        (9000, "RoCE v2", {"vlan": 100}, 4096 / (4096 + 38 + 4 + 44)),
        # of both addresses, or none, IPv4's header is the shorter
        (9000, "RoCE v2", {"address6": "fd00::1/64"}, 4096 / (4096 + 38 + 44)),
        (9000, "RoCE v2", {"address": None}, 4096 / (4096 + 38 + 44)),
        # what is not known is taken for the most that could be
        (None, "RoCE v2", {}, 4096 / (4096 + 38 + 44)),
    ],
)
def test_the_ceiling_is_what_the_packets_leave(
    mtu: int | None, kind: str, rail: dict[str, Any], share: float
) -> None:
    assert bounds(end(100, mtu, kind, **rail)).ceiling["bandwidth_gbps"] == pytest.approx(
        100 * share * 1.02, abs=1e-3
    )


def test_efa_has_the_rate_itself_as_ceiling_and_the_same_floor() -> None:
    # AWS publishes no packet format. stas00/ml-engineering: 193.72 of 200 Gbit/s by ib_write_bw -c SRD.
    found = bounds(end(200, None), transport="efa")
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(200 * 1.02)
    assert found.floor["bandwidth_gbps"] == pytest.approx(0.9 * 200)
    assert found.floor["bandwidth_gbps"] < 193.72 < found.ceiling["bandwidth_gbps"]


def test_infiniband_has_26_bytes_around_each_packet() -> None:
    # LRH 8 + BTH 12 + ICRC 4 + VCRC 2
    found = bounds(end(200, None), transport="infiniband")
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(200 * 4096 / 4122 * 1.02, abs=1e-3)
    assert found.floor == {"bandwidth_gbps": pytest.approx(0.9 * 200 * 4096 / 4122, abs=1e-3)}


def test_a_software_link_counts_frames_and_has_a_floor_where_its_rate_is_declared() -> None:
    soft = end(1, hca={"driver_class": "software"})
    found = bounds(soft)
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(4096 / (4096 + 14 + 44) * 1.02, abs=1e-4)
    assert found.floor == {"bandwidth_gbps": pytest.approx(0.9 * 4096 / 4154, abs=1e-4)}
    unshaped = Bound(
        {**soft.rail, "rate_gbps": None}, {**(soft.netdev or {}), "driver_class": "software"}, soft.hca
    )
    assert (bounds(unshaped).floor, bounds(unshaped).ceiling) == ({}, {})
    assert "no threshold" in bounds(unshaped).basis


@pytest.mark.parametrize("value", [None, "", "virtual", 1])
def test_an_unknown_device_has_no_floor(value: object) -> None:
    assert bounds(end(100, hca={"driver_class": value})).floor == {}
    assert bounds(end(100)).floor == {"bandwidth_gbps": DATA_FLOOR}


@pytest.mark.parametrize(
    ("check", "rules", "shared", "floor", "why"),
    [
        ("rdma_bandwidth", {}, False, DATA_FLOOR, "ngc_multinode_perf"),
        ("rdma_read_bandwidth", {}, False, DATA_FLOOR, "ngc_multinode_perf"),
        ("rdma_send_bandwidth", {}, False, DATA_FLOOR, "ngc_multinode_perf"),
        ("rdma_bandwidth_concurrent", {}, False, DATA_FLOOR, "ngc_multinode_perf"),
        ("rdma_bandwidth_concurrent", {}, True, None, "rail0 and rail1 share 0000:80:01.0"),
        ("rdma_bandwidth_unpinned", {}, False, None, "pinning"),
        ("rdma_gpu_bandwidth", {}, False, None, "root complex"),
        ("rdma_bandwidth_bi", {}, False, None, "both directions"),
        ("rdma_bandwidth", {"rdma_message_bytes": 65535}, False, None, "65536"),
    ],
)
def test_floors_need_a_published_reference(
    check: str, rules: dict[str, Any], shared: bool, floor: float | None, why: str
) -> None:
    found = bounds(end(100), check, shared=shared, **rules)
    assert found.floor == ({} if floor is None else {"bandwidth_gbps": floor})
    assert why in found.basis
    assert "ceiling: 0.9804 of it with packets of 4096 bytes of payload and 82 around them" in found.basis
    ways = 2 if check.endswith("_bi") else 1
    assert (", both directions;" in found.basis) is (ways == 2)
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(ways * 100 * 4096 / 4178 * 1.02, abs=1e-3)


@pytest.mark.parametrize(("gpu_gbps", "floor"), [(100.0, DATA_FLOOR), (99.0, None), (None, None)])
def test_gpu_memory_has_a_floor_where_the_gpus_links_carry_the_rate(
    gpu_gbps: float | None, floor: float | None
) -> None:
    gpu = None if gpu_gbps is None else slots.GpuPath(gpu_gbps, None)
    on = limits.Conditions(policy.merge(None), transport="roce", gpu=gpu)
    found = limits.bound_test("rdma_gpu_bandwidth", end(100), end(100), on)
    assert found.floor == ({} if floor is None else {"bandwidth_gbps": floor})
    assert ("--use_cuda" in found.basis) is (floor is not None)


def test_a_floor_is_of_the_data_at_the_declared_mtu_whatever_the_port_says_it_can_do() -> None:
    found = bounds(end(100, 700))
    assert found.floor == {"bandwidth_gbps": pytest.approx(0.9 * 100 * 512 / 594, abs=1e-3)}
    assert bounds(end(100, hca={"max_mtu_bytes": 256})).floor == {"bandwidth_gbps": DATA_FLOOR}
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(100 * 512 / 594 * 1.02, abs=1e-3)


@given(st.sampled_from(rdma_mtu.STEPS), st.integers(10, 400))
def test_a_trained_rate_or_a_negotiated_mtu_never_moves_a_bound(active: int, trained: int) -> None:
    lame = end(100, hca={"active_mtu_bytes": active, "rate_gbps": float(trained)})
    assert bounds(lame) == bounds(end(100))
    undeclared = end(None, hca={"active_mtu_bytes": active, "rate_gbps": float(trained)})
    assert (bounds(undeclared).floor, bounds(undeclared).ceiling) == ({}, {})


def test_a_site_bounds_rdma_too_but_not_beyond_the_wire() -> None:
    site = {"floors": {"rdma_bandwidth": {"bandwidth_gbps": [95, 1000]}}}
    found = bounds(end(100), **site)
    assert found.floor == {"bandwidth_gbps": 95.0}
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(100 * 4096 / 4178 * 1.02, abs=1e-3)
    late = bounds(end(100), "rdma_latency", floors={"rdma_latency": {"latency_p99_us": [0, 4.2]}})
    assert (late.floor, late.ceiling) == ({"latency_p99_us": 0.0}, {"latency_p99_us": 4.2})
    assert bounds(end(100), "rdma_latency").ceiling == {}


def test_all_rails_together_carry_their_sum() -> None:
    able = [limits.find_capability("rdma_bandwidth", end(100), end(100), "roce")] * 2
    on = limits.Conditions(policy.merge(None), transport="roce")
    found = limits.bound_aggregate("rdma_aggregate_bandwidth", able, on)
    assert found.floor == {"bandwidth_gbps": pytest.approx(2 * 0.9 * 100 * 4096 / 4178, abs=1e-3)}
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(200 * 4096 / 4178 * 1.02, abs=1e-3)
    assert found.basis.startswith("payload summed over the rails")
    shared = [replace(one, share=slots.Share(None, "they share")) for one in able]
    assert limits.bound_aggregate("rdma_aggregate_bandwidth", shared, on).floor == {}
    assert limits.bound_aggregate("rdma_aggregate_bandwidth", [], on).floor == {}
    able[1] = limits.find_capability("rdma_bandwidth", end(100), end(100, hca={"driver_class": None}), "roce")
    assert limits.bound_aggregate("rdma_aggregate_bandwidth", able, on).floor == {}


def test_each_rail_of_a_sum_carries_what_its_own_packets_allow() -> None:
    ends = [end(25.0, mtu=1500), end(100.0)]
    able = [limits.find_capability("rdma_bandwidth", one, one, "roce") for one in ends]
    on = limits.Conditions(policy.merge(None), transport="roce")
    both = limits.bound_aggregate("rdma_aggregate_bandwidth", able, on)
    # 1024 of 1106 bytes and 4096 of 4178 are payload: the fast rail is not held to the slow one's share.
    most = 25 * 1024 / 1106 + 100 * 4096 / 4178
    assert both.ceiling["bandwidth_gbps"] == pytest.approx(most * 1.02, abs=1e-3)
    frames = [limits.find_capability("tcp_bandwidth", one, one) for one in ends]
    on = limits.Conditions(policy.merge(None), ("3.16", "3.16"))
    tcp = limits.bound_aggregate("aggregate_bandwidth", frames, on)
    most = 25 * 1514 / 1538 + 100 * 9014 / 9038
    assert tcp.ceiling["bandwidth_gbps"] == pytest.approx(most * 1.02, abs=1e-3)


@pytest.mark.parametrize(
    ("mtu", "step"),
    # 40 + 8 + 12 + 4 + 28 + 4 = 96 bytes are set aside by Linux
    [(9000, 4096), (4192, 4096), (4191, 2048), (1500, 1024), (1119, 512), (352, 256), (351, None)],
)
def test_the_rdma_mtu_is_the_largest_step_that_fits(mtu: int, step: int | None) -> None:
    assert rdma_mtu.largest(mtu) == step


SOFT = {"driver_class": "software"}


@pytest.mark.parametrize(
    ("changes", "netdev", "headers", "wire"),
    [
        # IPv4 20 or IPv6 40, TCP 20, its timestamps 12; Ethernet 14, on a wire FCS 4, preamble 8, gap 12.
        ({}, {}, 52, 38),
        ({"address": None, "address6": "fd00::1/64"}, {}, 72, 38),
        ({}, SOFT, 52, 14),
    ],
)
def test_a_packet_of_tcp_says_nothing_of_rdma(
    changes: dict[str, Any], netdev: dict[str, str], headers: int, wire: int
) -> None:
    one, other = end(100, 9000, **changes), end(100, 1500)
    found = packets.build_tcp(replace(one, netdev={**(one.netdev or {}), **netdev}), other)
    assert (found.software, found.payload_bytes) == (bool(netdev), 1500 - headers)
    assert (found.counted_bytes, found.link_bytes) == (1514, 1500 + wire)
    assert (found.declared_bytes, found.unknown) == (0, False)


@pytest.mark.parametrize(
    ("one", "other", "share", "floor"),
    [
        # The slower end and the smaller RDMA MTU bound both, whichever of the two sends.
        (end(100), end(40), 40 * 4096 / 4178, 0.9 * 40 * 4096 / 4178),
        (end(100), end(100, 1500), 100 * 1024 / 1106, 0.9 * 100 * 1024 / 1106),
        # A rate that one end does not know bounds nothing, and neither does the other's then.
        (end(100), end(None), None, None),
        # One end without an adapter: no wire is sure.
        (end(100), end(100, hca=SOFT), 100 * 4096 / 4154, 0.9 * 100 * 4096 / 4154),
        # A tag at one end alone may be the switch's to add or take: the larger limit applies.
        (end(100), end(100, vlan=7), 100 * 4096 / 4178, 0.9 * 100 * 4096 / 4178),
        # IPv6 40 instead of IPv4's 20; the shorter header of two kinds.
        (end(100, address=None, address6="fd00::1/64"),) * 2 + (100 * 4096 / 4198, 0.9 * 100 * 4096 / 4198),
        (end(100), end(100, address=None, address6="fd00::1/64"), 100 * 4096 / 4178, 0.9 * 100 * 4096 / 4178),
    ],
)
def test_two_unlike_ends_are_bound_by_what_both_can_do(
    one: Bound, other: Bound, share: float | None, floor: float | None
) -> None:
    on = limits.Conditions(policy.merge(None), transport="roce")
    for ends in ((one, other), (other, one)):
        found = limits.bound_test("rdma_bandwidth", *ends, on)
        assert found.floor == ({} if floor is None else {"bandwidth_gbps": pytest.approx(floor, abs=1e-3)})
        assert found.ceiling == (
            {} if share is None else {"bandwidth_gbps": pytest.approx(share * 1.02, abs=1e-3)}
        )


@pytest.mark.parametrize(("rate", "data"), [(400, 400), (100, 100), (56, 54.5), (40, 32), (20, 16), (10, 8)])
def test_the_name_of_an_infiniband_rate_counts_the_line_code_up_to_fdr(rate: float, data: float) -> None:
    found = bounds(end(rate, None), transport="infiniband")
    assert found.floor == {"bandwidth_gbps": pytest.approx(0.9 * data * 4096 / 4122, abs=1e-3)}


def test_both_ways_carry_each_most_of_what_it_carries_alone() -> None:
    own = bounds(end(100), "rdma_bandwidth_bi")
    found = limits.add_each_direction(own, (96.0, 94.0))
    assert found.floor == {"forward_gbps": 76.8, "reverse_gbps": 75.2, "bandwidth_gbps": 152.0}
    most = own.ceiling["bandwidth_gbps"]
    assert found.ceiling == {"bandwidth_gbps": most, "forward_gbps": most / 2, "reverse_gbps": most / 2}
    assert limits.add_each_direction(own, (96.0, None)) is own
    assert limits.add_each_direction(own, (None, 94.0)) is own
    unshaped = limits.Bounds(basis="no rate")
    assert limits.add_each_direction(unshaped, (96.0, 94.0)) is unshaped


def test_rails_of_one_slot_carry_together_what_the_best_of_them_does_alone() -> None:
    able = [limits.find_capability("rdma_bandwidth", end(100), end(100), "roce")] * 2
    shared = [replace(one, share=slots.Share(None, "they share")) for one in able]
    on = limits.Conditions(policy.merge(None), transport="roce")
    own = limits.bound_aggregate("rdma_aggregate_bandwidth", shared, on)
    assert limits.add_shared_slot_floor(own, 96.0).floor == {"bandwidth_gbps": 86.4}
    assert limits.add_shared_slot_floor(own, 0.0) is own
    for other in (limits.Bounds(), limits.Bounds({"bandwidth_gbps": 1.0}, dict(own.ceiling))):
        assert limits.add_shared_slot_floor(other, 96.0) is other


@pytest.mark.parametrize(
    ("speed_gts", "width", "gbps"),
    [(2.5, 8, 16.0), (5, 8, 32.0), (8, 16, 126.0), (16, 16, 252.1), (32, 16, 504.1), (64, 16, 944.0)],
)
def test_a_slot_carries_its_lanes_less_code_and_packets(speed_gts: float, width: float, gbps: float) -> None:
    one = slot("0000:81:00.0", pci_link={"max_speed_gts": speed_gts, "max_width": width})
    assert slots.find_slot_gbps(one) == pytest.approx(gbps * 0.905, abs=0.1)


@pytest.mark.parametrize("width", range(34))
def test_a_slot_has_1_2_4_8_12_16_or_32_lanes(width: int) -> None:
    found = slots.find_slot_gbps(slot(None, pci_link={"max_speed_gts": 8.0, "max_width": float(width)}))
    lanes = width if width in (1, 2, 4, 8, 12, 16, 32) else None
    assert found == (None if lanes is None else pytest.approx(lanes * 8 * 128 / 130 * 0.905, rel=1e-3))


LINK = {"speed_gts": 8.0, "max_speed_gts": 8.0, "width": 8.0, "max_width": 8.0}


def slot(pci: str | None, name: str = "rail0", **facts: Any) -> Bound:
    return Bound({"name": name}, {"pci": pci, "pci_link": LINK, **facts})


@pytest.mark.parametrize(
    ("change", "low", "gbps"),
    [
        ({}, None, 57.0),
        ({"speed_gts": 5.0}, "at 0000:81:00 runs at 5 GT/s, both of its ends can do 8", 57.0),
        ({"width": 4.0}, "at 0000:81:00 runs at 4 lanes, both of its ends can do 8", 57.0),
        ({"speed_gts": None, "width": None}, None, 57.0),
        *(
            ({name: said}, None, None)
            for name in ("max_speed_gts", "max_width")
            for said in (None, 0.0, 1e-9, -8.0, 3.0, 65.0, True, "8")
        ),
    ],
)
def test_what_a_slot_is_trained_to(change: dict[str, Any], low: str | None, gbps: float | None) -> None:
    one = slot("0000:81:00.0", pci_link={**LINK, **change})
    found = link_rules.trained_low(one)
    assert (found and found.cause) == (low and "slot_slow")
    assert (low or "") in (found.detail if found else "")
    assert slots.find_slot_gbps(one) == (None if gbps is None else pytest.approx(gbps, abs=0.1))
    bare = Bound({"name": "rail0"}, {})
    assert (link_rules.trained_low(bare), slots.find_slot_gbps(bare)) == (None, None)


def test_no_rail_is_held_to_more_than_its_slot_carries() -> None:
    one = end(400)
    one.netdev["pci_link"] = {"max_speed_gts": 16.0, "max_width": 16.0}  # type: ignore[index]
    able = limits.find_capability("rdma_bandwidth", one, end(400), "roce")
    # No slot lowers what is impossible: larger packets leave more of it.
    assert (able.rate_gbps, able.nominal_gbps) == (400, pytest.approx(228.1, abs=0.1))
    assert "PCIe slot carries 228.1" in able.basis
    found = limits.bound_test(
        "rdma_bandwidth", one, end(400), limits.Conditions(policy.merge(None), transport="roce")
    )
    assert found.floor == {"bandwidth_gbps": pytest.approx(0.9 * 228.1 * 4096 / 4178, abs=0.1)}
    assert limits.find_capability("rdma_bandwidth", end(200), end(200), "roce").nominal_gbps == 200
