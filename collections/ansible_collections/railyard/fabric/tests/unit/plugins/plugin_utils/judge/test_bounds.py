# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds against the arithmetic of the wire, policy against bad input, and the sum of rails."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import aggregate, bounds_check, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import bounds as limits
from hypothesis import given
from hypothesis import strategies as st
from support.runs.fake_run import FakeRun


def end(rate_gbps: float | None = None, mtu: int | None = 9000, **netdev: Any) -> Bound:
    rail = {"name": "rail0", "mtu": mtu, "rate_gbps": rate_gbps, "address": "10.0.1.1/24"}
    return Bound(rail, {"netdev": "ens6", "driver_class": "hardware", "pci": None, **netdev})


def bounds(check: str = "tcp_bandwidth", versions: Any = (), shared: bool = False, **kind: Any) -> Any:
    rules = kind.pop("rules", {})
    one = end(**kind)
    return limits.for_test(check, one, one, limits.Conditions(policy.merge(rules), versions, shared))


def test_the_ceiling_is_what_tcp_leaves_of_the_wire() -> None:
    # IPv4 20 + TCP 20 + timestamps 12 = 52; Ethernet 14 + FCS 4 + preamble 8 + gap 12 = 38
    assert bounds(rate_gbps=10, mtu=1500).ceiling["bandwidth_gbps"] == pytest.approx(
        10 * 1448 / 1538 * 1.02, abs=1e-4
    )
    assert bounds(rate_gbps=40, mtu=9000).ceiling["bandwidth_gbps"] == pytest.approx(
        40 * 8948 / 9038 * 1.02, abs=1e-4
    )
    # IPv6 40; without a known MTU Ethernet's own
    six = Bound({**end(10).rail, "address": None, "mtu": None}, end(10).netdev)
    found = limits.for_test("tcp_bandwidth", six, end(10, mtu=None), limits.Conditions(policy.merge(None)))
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(10 * 1428 / 1538 * 1.02, abs=1e-4)
    # a link without a wire has the Ethernet header alone
    soft = bounds(rate_gbps=1, driver_class="software")
    assert soft.ceiling["bandwidth_gbps"] == pytest.approx(8948 / 9014 * 1.02, abs=1e-4)
    assert "0.9927 of it fits the link's frames" in soft.basis
    assert "0.9900 of it fits the wire" in bounds(rate_gbps=1).basis


@pytest.mark.parametrize(
    ("rate", "rules", "versions", "floor"),
    [
        (1, {}, (), 0.8),
        (10, {}, (), 8.0),
        (10, {"iperf3_streams": 3}, (), None),
        (15, {}, (), 12.0),
        (15.5, {}, ("3.18", "3.18"), None),
        # 27.4 Gbit/s, all that a core gives, is healthy: before 3.16 iperf3 feeds all streams from one.
        (40, {}, ("3.9", "3.9"), None),
        (40, {}, ("3.18", "3.18"), None),  # 4 streams
        (40, {"iperf3_streams": 12}, ("3.18", "3.18"), 32.0),
        (40, {"iperf3_streams": 11}, ("3.18", "3.18"), None),
        (100, {}, ("3.16", "3.18"), None),  # 4 streams
        (100, {"iperf3_streams": 12}, ("3.16", "3.18"), 80.0),
        (100, {"iperf3_streams": 12}, ("3.15", "3.18"), None),
        (100, {"iperf3_streams": 12}, (None, "3.18"), None),
        (100, {"iperf3_streams": 12}, (), None),
        (100, {"iperf3_streams": 12}, ("3", "3.18"), None),
        (100, {"iperf3_streams": 12}, ("4.0", "3.16"), 80.0),
        (100.5, {"iperf3_streams": 12}, ("3.18", "3.18"), None),
        (200, {"iperf3_streams": 64}, ("3.18", "3.18"), None),
        (400, {"iperf3_streams": 64}, ("3.18", "3.18"), None),
    ],
)
def test_floors_stand_only_where_an_authority_does(
    rate: float, rules: dict[str, Any], versions: Any, floor: float | None
) -> None:
    found = bounds(rate_gbps=rate, rules=rules, versions=versions)
    assert found.floor == ({} if floor is None else {"bandwidth_gbps": floor})
    assert found.ceiling, "the wire bounds it from above in any case"
    assert found.basis
    assert ("no floor" in found.basis) == (floor is None)
    assert ("of a single stream" in found.basis) == (floor is not None and rate <= 15)


@pytest.mark.parametrize(("mtu", "floor"), [(412, {}), (413, {"bandwidth_gbps": 8.0})])
def test_headers_must_leave_more_than_the_floor(mtu: int, floor: dict[str, float]) -> None:
    # 412 - 52 of 412 + 38 bytes are 0.80.
    assert bounds(rate_gbps=10, mtu=mtu).floor == floor


@given(st.integers(10, 400000), st.integers(10, 400000))
def test_a_trained_speed_never_moves_a_bound(one: int, other: int) -> None:
    def found(speed: int) -> Any:
        return bounds(rate_gbps=40, speed_mbps=speed)

    assert found(one) == found(other)
    assert bounds(speed_mbps=one) == bounds(speed_mbps=other)
    assert not bounds(speed_mbps=one).floor


def test_without_a_declared_rate_only_a_port_maximum_bounds() -> None:
    assert bounds(speed_max_mbps=10000, speed_mbps=1000).floor == {"bandwidth_gbps": 8.0}
    assert not bounds(speed_max_mbps=40000, driver_class="software").floor
    assert "software link" in bounds(driver_class="software", speed_mbps=10000).basis
    assert "declared" in bounds(speed_mbps=10000).basis


@pytest.mark.parametrize(
    ("one", "rate_gbps", "basis"),
    [
        (end(10), 10.0, "declared rate 10 Gbit/s"),
        (end(10, speed_max_mbps=40000), 10.0, "declared rate 10 Gbit/s"),
        (end(0, speed_max_mbps=40000), 40.0, "port's maximum 40 Gbit/s"),
        (end(speed_max_mbps=0), None, "neither a declared rate_gbps"),
        (end(speed_max_mbps="40000"), None, "neither a declared rate_gbps"),
        (end(driver_class=None, speed_max_mbps=40000), None, "neither a declared rate_gbps"),
    ],
)
def test_what_a_rail_can_do_is_what_its_lesser_end_can(
    one: Bound, rate_gbps: float | None, basis: str
) -> None:
    for ends in ((one, end(100)), (end(100), one)):
        able = limits.capability("tcp_bandwidth", *ends)
        assert able.rate_gbps == rate_gbps
        assert basis in able.basis
        # What explains a missing rate is the end that has none.
        assert ("declared rate 100" in able.basis) is (rate_gbps is not None)
    assert limits.capability("tcp_bandwidth", end(100), end(100)).basis == "declared rate 100 Gbit/s"


def test_a_slot_that_carries_just_the_rate_does_not_hold_it_back() -> None:
    link = {"pci_link": {"max_speed_gts": 8.0, "max_width": 8.0}}
    slot_gbps = slots.carries_gbps(link) or 0.0
    for rate_gbps, held in ((slot_gbps, False), (slot_gbps + 1, True)):
        able = limits.capability("tcp_bandwidth", *[end(rate_gbps, **link)] * 2)
        assert ("slot" in able.basis, able.nominal_gbps) == (held, slot_gbps)


@pytest.mark.parametrize(
    ("rate", "begin"), [(10, "sum over the rails, from byte"), (200, "declared rate 200")]
)
def test_a_sum_with_a_floor_says_what_it_is_of(rate: float, begin: str) -> None:
    able = [limits.capability("tcp_bandwidth", end(rate), end(rate))] * 2
    found = limits.for_aggregate("aggregate_bandwidth", able, limits.Conditions(policy.merge(None)))
    assert found.basis.startswith(begin)


@pytest.mark.parametrize(
    ("mtus", "exact"), [((9000, 9000), {"path_mtu_bytes": 9000.0}), ((9000, 1500), {}), ((None, None), {})]
)
def test_a_path_has_the_mtu_that_both_ends_are_planned_with(mtus: Any, exact: dict[str, float]) -> None:
    ends = [end(mtu=mtu) for mtu in mtus]
    for check in ("path_mtu", "path_mtu_one_way"):
        found = limits.for_test(check, *ends, limits.Conditions(policy.merge(None)))
        assert (found.floor, found.ceiling) == (exact, exact)


@pytest.mark.parametrize(
    ("metric", "value", "outcome", "cause"),
    [
        ("path_mtu_bytes", 9.0, "pass", None),
        ("path_mtu_bytes", 8.0, "fail", "path_mtu_small"),
        ("path_mtu_bytes", 10.0, "fail", "above_ceiling"),
        ("bandwidth_gbps", 8.0, "fail", "below_floor"),
        ("bandwidth_gbps", 10.0, "unmeasured", "above_ceiling"),
        ("latency_p99_us", 10.0, "fail", "too_slow"),
    ],
)
def test_what_is_beyond_a_bound_has_a_name(
    metric: str, value: float, outcome: str, cause: str | None
) -> None:
    both = {metric: 9.0}
    # Each end has to keep them.
    for judged in ([{metric: value}], [{metric: 9.0}, {metric: value}]):
        one = bounds_check.weigh({}, judged, limits.Bounds(both, both))
        assert (one.outcome, one.cause.get("cause_class")) == (outcome, cause)
        assert one.proof == (None if outcome == "unmeasured" else "proven")
    assert bounds_check.weigh({}, [{metric: 9.0}], limits.Bounds(both, {})).outcome == "recorded"


def test_what_both_ends_say_is_shown_and_judged() -> None:
    mine = {"bandwidth_gbps": 9.0, "forward_gbps": 4.0, "cpu_percent": 20.0, "note": "x"}
    theirs = {"bandwidth_gbps": 8.0, "forward_gbps": None, "cpu_percent": 60.0, "note": "x"}
    ends = [{"check": "tcp_bandwidth", "metrics": one} for one in (mine, theirs)]
    shown = {"bandwidth_gbps": 8.0, "forward_gbps": 4.0, "cpu_percent": 20.0, "peer_cpu_percent": 60.0}
    assert bounds_check.observed(*ends) == shown
    assert bounds_check.judged(*ends) == [mine, theirs]
    assert bounds_check.judged(*ends, own_windows=True) == [{"bandwidth_gbps": 8.0, "cpu_percent": 20.0}]
    ends[0]["check"] = "ping_rtt"  # its server measures nothing
    assert bounds_check.judged(*ends) == [mine]


@pytest.mark.parametrize(
    ("received", "own_mtu", "cause"),
    [(5, 9000, None), (4, 9000, "lost_packets"), (4, 9001, "path_mtu_small"), (0, 9000, "path_mtu_small")],
)
def test_one_probe_of_the_full_size_shows_that_the_size_is_not_the_matter(
    received: int, own_mtu: int, cause: str | None
) -> None:
    metrics = {"path_mtu_bytes": 9000, "sent": 5, "received": received}
    found = bounds_check.lost({"metrics": metrics, "mtu_bytes": own_mtu})
    assert (found or {}).get("cause_class") == cause


@pytest.mark.parametrize(
    ("packets", "moved", "came"), [(5, 45_070, True), (4, 45_070, False), (5, 45_069, False)]
)
def test_a_tool_missed_what_the_counters_show(packets: int, moved: int, came: bool) -> None:
    """Five probes of 9000 bytes, each with 14 of its frame."""
    grown = {"rx_packets": packets, "rx_bytes": moved, "tx_packets": 5, "tx_bytes": 45_070}
    client = {
        "check": "path_mtu", "host": "gpu1", "claim": {"at_most": 5},
        "counters": {name: [0, by] for name, by in grown.items()},
        "metrics": {"path_mtu_bytes": 9000, "sent": 5, "received": 4},
    }  # fmt: skip
    assert (bounds_check.came_after_all(client, {}) is not None) is came


def test_that_loss_must_be_zero_is_said_of_ping_alone() -> None:
    said = ["loss must be 0" in bounds(check, rate_gbps=10).basis for check in ("ping_rtt", "tcp_latency")]
    assert said == [True, False]


def test_tcp_over_infiniband_has_no_floor() -> None:
    # QDR "40" carries 32 Gbit/s: 0.80 of its name is all of it. ESnet's figures are of Ethernet.
    for rate, rules in ((40, {}), (100, {"iperf3_streams": 12})):
        one = end(rate, 2044)
        on = limits.Conditions(policy.merge(rules), ("3.18", "3.18"), transport="infiniband")
        found = limits.for_test("tcp_bandwidth", one, one, on)
        assert found.floor == {}
        assert found.ceiling["bandwidth_gbps"] <= rate * 1.02
        assert "InfiniBand" in found.basis
        able = [limits.capability("tcp_bandwidth", one, one)] * 2
        assert limits.for_aggregate("aggregate_bandwidth", able, on).floor == {}


def test_the_judge_lays_no_tcp_floor_on_infiniband() -> None:
    run = FakeRun(transport="infiniband", driver_class="hardware", rate_gbps=40.0)
    for row in run.facts:
        for port in row["hcas"]:
            port |= {"link_layer": "InfiniBand", "lid": 3, "sm_lid": 1}
    for check in ("tcp_bandwidth", "tcp_bandwidth_concurrent", "aggregate_bandwidth"):
        one = run.verdict(run.ids(check)[0])
        assert (one["outcome"], one["floor"]) == ("recorded", None), check


def test_the_slower_end_bounds_both() -> None:
    rules = policy.merge(None)
    found = limits.for_test("tcp_bandwidth", end(10), end(40), limits.Conditions(rules))
    assert found.floor == {"bandwidth_gbps": 8.0}
    assert limits.for_test("tcp_bandwidth", end(10), end(), limits.Conditions(rules)).floor == {}


def test_ports_of_one_card_have_no_floor_together() -> None:
    one, other = end(40, pci="0000:81:00.0"), end(40, pci="0000:81:00.1")
    assert limits.slots_shared([one, other])
    assert not limits.slots_shared([one, end(40, pci="0000:82:00.0")])
    assert not limits.slots_shared([end(40), end(40)])
    assert bounds(rate_gbps=40, shared=True).floor == {}
    assert "PCIe" in bounds(rate_gbps=40, shared=True).basis


def test_site_policy_comes_first_and_says_so() -> None:
    rules = {
        "floors": {
            "tcp_bandwidth": {"bandwidth_gbps": [30, None]},
            "tcp_latency": {"latency_p99_us": [0, 50]},
        }
    }
    found = bounds(rate_gbps=40, rules=rules)
    assert found.floor == {"bandwidth_gbps": 30.0}
    assert found.ceiling["bandwidth_gbps"] == pytest.approx(40 * 8948 / 9038 * 1.02, abs=1e-4)
    assert found.basis.startswith("site policy; else declared rate 40 Gbit/s")
    latency = bounds("tcp_latency", rate_gbps=40, rules=rules)
    assert (latency.floor, latency.ceiling) == ({"latency_p99_us": 0.0}, {"latency_p99_us": 50.0})
    assert latency.basis == "site policy"


def test_a_site_bound_makes_latency_pass_or_fail() -> None:
    for most, outcome, cause in ((30.0, "pass", None), (29.9, "fail", "too_slow")):
        run = FakeRun(floors={"tcp_latency": {"latency_p99_us": [0, most]}})
        one = run.verdict(run.ids("tcp_latency")[0])
        assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    # A floor without any ceiling is no pass: nothing would show an impossible number.
    run = FakeRun(rate_gbps=None, floors={"tcp_bandwidth": {"bandwidth_gbps": [0.5, None]}})
    assert run.verdict(run.ids("tcp_bandwidth")[0])["outcome"] == "recorded"
    run = FakeRun(rate_gbps=None, floors={"tcp_bandwidth": {"bandwidth_gbps": [0.96, None]}})
    assert run.verdict(run.ids("tcp_bandwidth")[0])["outcome"] == "fail"


def test_an_unshaped_software_link_is_recorded() -> None:
    run = FakeRun(rate_gbps=None)
    for check in ("tcp_bandwidth", "tcp_bandwidth_concurrent", "aggregate_bandwidth"):
        one = run.verdict(run.ids(check)[0])
        assert one["outcome"] == "recorded"
        assert "software link" in one["basis"]
    assert run.status() == 0


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ([], "fabric_policy must be a mapping"),
        ("fast", "fabric_policy must be a mapping"),
        ({"iperf_duration": 4}, "fabric_policy.iperf_duration is not known"),
        ({"iperf3_duration_s": "4"}, "fabric_policy.iperf3_duration_s must be a number"),
        ({"iperf3_duration_s": True}, "fabric_policy.iperf3_duration_s must be a number"),
        ({"iperf3_duration_s": -1}, "fabric_policy.iperf3_duration_s must be within 1 and"),
        ({"iperf3_duration_s": 0}, "fabric_policy.iperf3_duration_s must be within 1 and"),
        ({"iperf3_duration_s": 1.5}, "must be a whole number"),
        ({"ping_interval_s": float("nan")}, "fabric_policy.ping_interval_s must be a number"),
        ({"ping_interval_s": float("inf")}, "fabric_policy.ping_interval_s must be a number"),
        ({"allow_busy": "yes"}, "fabric_policy.allow_busy must be true or false"),
        ({"base_port": 80}, "fabric_policy.base_port must be within 1024"),
        ({"rdma_tests": []}, "use transport tcp"),
        ({"rdma_tests": "ib_write_bw"}, "fabric_policy.rdma_tests must be a list"),
        ({"rdma_tests": [1]}, "fabric_policy.rdma_tests must be a list"),
        ({"rdma_tests": ["ib_atomic_bw"]}, "fabric_policy.rdma_tests lists 'ib_atomic_bw'"),
        ({"rdma_tests": ["ib_write_bw", "ib_write_bw"]}, "fabric_policy.rdma_tests lists ib_write_bw twice"),
        ({"bidirectional": 1}, "fabric_policy.bidirectional must be true or false"),
        ({"numa_pinning": None}, "fabric_policy.numa_pinning must be true or false"),
        ({"rdma_duration_s": 2}, "fabric_policy.rdma_duration_s must be within 3 and"),
        ({"rdma_duration_s": 4, "rdma_margin_s": 2}, "leaves 0 s to measure"),
        ({"rdma_margin_s": 0}, "fabric_policy.rdma_margin_s must be within 1 and"),
        ({"rdma_latency_s": 10.5}, "fabric_policy.rdma_latency_s must be within 0.2 and 10"),
        ({"rdma_message_bytes": 8388609}, "fabric_policy.rdma_message_bytes must be within 1 and"),
        ({"rdma_qps": 65}, "fabric_policy.rdma_qps must be within 1 and 64"),
        ({"floors": {"rdma_port": {"x": [0, 1]}}}, "fabric_policy.floors.rdma_port is no check"),
        ({"floors": {"link_errors": {"errors": [0, 9]}}}, "fabric_policy.floors.link_errors is no check"),
        ({"floors": []}, "fabric_policy.floors must be a mapping"),
        ({"floors": {"link": {"x": [0, 1]}}}, "fabric_policy.floors.link is no check"),
        ({"floors": {"tcp_bandwidth": {}}}, "fabric_policy.floors.tcp_bandwidth must map"),
        (
            {"floors": {"tcp_bandwidth": {"mbps": [1, 2]}}},
            "fabric_policy.floors.tcp_bandwidth.mbps is no metric",
        ),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": 30}}}, r"must be \[floor, ceiling"),
        (
            {"floors": {"tcp_bandwidth": {"bandwidth_gbps": [-1, 2]}}},
            "a floor that is a number of at least 0",
        ),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": ["1", 2]}}}, "a floor that is a number"),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": [3, 2]}}}, "a ceiling above the floor"),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": [3, float("nan")]}}}, "a ceiling above the floor"),
    ],
)
def test_bad_policy_names_its_key(user: Any, said: str) -> None:
    with pytest.raises(policy.PolicyError, match=said):
        policy.merge(user)


def test_all_policy_problems_come_at_once_and_the_default_stays_clean() -> None:
    before = copy.deepcopy(policy.DEFAULT)
    with pytest.raises(policy.PolicyError) as caught:
        policy.merge({"a": 1, "ping_count": -1, "floors": {"x": {}}})
    assert len(caught.value.problems) == 3
    merged = policy.merge({"floors": {"ping_rtt": {"rtt_max_us": [0, 5]}}})
    merged["floors"]["tcp_latency"] = {}
    merged["rdma_tests"].append("ib_read_bw")
    assert before == policy.DEFAULT
    assert policy.merge(None) == before


def test_both_ways_at_once_may_carry_twice_the_rate_and_each_way_once() -> None:
    found = bounds("tcp_bandwidth_bi", rate_gbps=10, mtu=1500)
    one_way = 10 * 1448 / 1538 * 1.02
    assert found.ceiling == {
        "bandwidth_gbps": pytest.approx(2 * one_way, abs=1e-4),
        "forward_gbps": pytest.approx(one_way, abs=1e-4),
        "reverse_gbps": pytest.approx(one_way, abs=1e-4),
    }
    assert found.floor == {}
    assert "fits each way" in found.basis
    assert "no floor: no authority" in found.basis
    assert not bounds("tcp_bandwidth_bi").ceiling


def server(begin: float, last: float, gbps: float = 1.0, started: str = "2026-11-21T10:15:20.000Z") -> Any:
    times = [round(0.2 * step, 1) for step in range(60)]
    return {
        "rail": "rail0",
        "started": started,
        "window_s": [begin, last],
        "metrics": {"bandwidth_gbps": gbps},
        "samples": {"t_s": times, "rx_bytes": [int(at * gbps * 1.01e9 / 8) for at in times]},
    }


def test_rates_over_the_common_window_are_added() -> None:
    # 10 s windows that share 9.0 s: exactly 90 %
    found = aggregate.add_up([server(0.0, 10.0), server(1.0, 11.0, gbps=2.0)])
    assert found["bandwidth_gbps"] == pytest.approx(3.03, abs=0.001)
    assert found["overlap_percent"] == 90.0
    with pytest.raises(aggregate.NotAdded, match="only 89 %"):
        aggregate.add_up([server(0.0, 10.0), server(1.1, 11.1)])


def test_windows_are_compared_on_the_clock_and_not_from_each_start() -> None:
    late = server(0.0, 10.0, started="2026-11-21T10:15:25.000Z")
    with pytest.raises(aggregate.NotAdded, match="50 %"):
        aggregate.add_up([server(0.0, 10.0), late])
    apart = server(0.0, 10.0, started="2026-11-21T10:16:25.000Z")
    with pytest.raises(aggregate.NotAdded, match="only 0 %"):
        aggregate.add_up([server(0.0, 10.0), apart])


def test_a_counter_that_contradicts_iperf3_is_not_added() -> None:
    row = server(0.0, 10.0)
    row["metrics"]["bandwidth_gbps"] = 0.85
    with pytest.raises(aggregate.NotAdded) as caught:
        aggregate.add_up([row, server(0.0, 10.0)])
    assert caught.value.cause == "ends_disagree"
    with pytest.raises(aggregate.NotAdded):
        aggregate.add_up([])


def test_what_rxe_sends_again_is_no_bandwidth() -> None:
    # The netdev carries 1.6 times the payload: all of it was RDMA, and only what arrived for good counts.
    rows = [server(0.0, 10.0), server(0.0, 10.0)]
    for row in rows:
        row["samples"]["rx_bytes"] = [int(at * 1.6e9 / 8) for at in row["samples"]["t_s"]]
    with pytest.raises(aggregate.NotAdded, match=r"the rail's counter 1\.6"):
        aggregate.add_up(rows, payload=True)  # no driver but rxe does so
    for row in rows:
        row["counters"] = {"hw_rcvd_pkts": [0, 1]}
    found = aggregate.add_up(rows, payload=True)
    assert found["bandwidth_gbps"] == pytest.approx(2.0, abs=0.001)
    assert found["frames_gbps"] == pytest.approx(3.2, abs=0.001)
    # A claim a little above what crossed the netdev in the common window counts for no more than that.
    rows[1]["metrics"]["bandwidth_gbps"] = 1.8
    assert aggregate.add_up(rows, payload=True)["bandwidth_gbps"] == pytest.approx(2.6, abs=0.001)
    rows[1]["metrics"]["bandwidth_gbps"] = 2.7  # far above it
    with pytest.raises(aggregate.NotAdded):
        aggregate.add_up(rows, payload=True)
