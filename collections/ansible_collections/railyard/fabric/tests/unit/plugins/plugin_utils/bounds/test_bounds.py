# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bounds against the arithmetic of the wire."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds as limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from hypothesis import given
from hypothesis import strategies as st
from support.runs.fake_run import FakeRun


def end(rate_gbps: float | None = None, mtu: int | None = 9000, **netdev: Any) -> Bound:
    rail = {"name": "rail0", "mtu": mtu, "rate_gbps": rate_gbps, "address": "10.0.1.1/24"}
    return Bound(rail, {"netdev": "ens6", "driver_class": "hardware", "pci": None, **netdev})


SHARED = slots.Share(None, "rail0 and rail1 share 0000:80:01.0, whose capability is not known")


def bounds(check: str = "tcp_bandwidth", versions: Any = (), shared: bool = False, **kind: Any) -> Any:
    rules = kind.pop("rules", {})
    one = end(**kind)
    share = SHARED if shared else None
    return limits.bound_test(check, one, one, limits.Conditions(policy.merge(rules), versions, share))


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
    found = limits.bound_test("tcp_bandwidth", six, end(10, mtu=None), limits.Conditions(policy.merge(None)))
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
def test_floors_need_a_published_reference(
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
        able = limits.find_capability("tcp_bandwidth", *ends)
        assert able.rate_gbps == rate_gbps
        assert basis in able.basis
        # What explains a missing rate is the end that has none.
        assert ("declared rate 100" in able.basis) is (rate_gbps is not None)
    assert limits.find_capability("tcp_bandwidth", end(100), end(100)).basis == "declared rate 100 Gbit/s"


def test_a_slot_that_carries_just_the_rate_does_not_hold_it_back() -> None:
    link = {"pci_link": {"max_speed_gts": 8.0, "max_width": 8.0}}
    slot_gbps = slots.find_slot_gbps(end(**link)) or 0.0
    for rate_gbps, held in ((slot_gbps, False), (slot_gbps + 1, True)):
        able = limits.find_capability("tcp_bandwidth", *[end(rate_gbps, **link)] * 2)
        assert ("slot" in able.basis, able.nominal_gbps) == (held, slot_gbps)


@pytest.mark.parametrize(
    ("rate", "begin"), [(10, "sum over the rails, from byte"), (200, "declared rate 200")]
)
def test_a_sum_with_a_floor_says_what_it_is_of(rate: float, begin: str) -> None:
    able = [limits.find_capability("tcp_bandwidth", end(rate), end(rate))] * 2
    found = limits.bound_aggregate("aggregate_bandwidth", able, limits.Conditions(policy.merge(None)))
    assert found.basis.startswith(begin)


@pytest.mark.parametrize(
    ("mtus", "exact"), [((9000, 9000), {"path_mtu_bytes": 9000.0}), ((9000, 1500), {}), ((None, None), {})]
)
def test_a_path_has_the_mtu_that_both_ends_are_planned_with(mtus: Any, exact: dict[str, float]) -> None:
    ends = [end(mtu=mtu) for mtu in mtus]
    for check in ("path_mtu", "path_mtu_one_way"):
        found = limits.bound_test(check, *ends, limits.Conditions(policy.merge(None)))
        assert (found.floor, found.ceiling) == (exact, exact)


def test_that_loss_must_be_zero_is_reported_of_ping_alone() -> None:
    said = ["loss must be 0" in bounds(check, rate_gbps=10).basis for check in ("ping_rtt", "tcp_latency")]
    assert said == [True, False]


def test_tcp_over_infiniband_has_no_floor() -> None:
    # QDR "40" carries 32 Gbit/s: 0.80 of its name is all of it. ESnet's figures are of Ethernet.
    for rate, rules in ((40, {}), (100, {"iperf3_streams": 12})):
        one = end(rate, 2044)
        on = limits.Conditions(policy.merge(rules), ("3.18", "3.18"), transport="infiniband")
        found = limits.bound_test("tcp_bandwidth", one, one, on)
        assert found.floor == {}
        assert found.ceiling["bandwidth_gbps"] <= rate * 1.02
        assert "InfiniBand" in found.basis
        able = [limits.find_capability("tcp_bandwidth", one, one)] * 2
        assert limits.bound_aggregate("aggregate_bandwidth", able, on).floor == {}


def test_the_judge_lays_no_tcp_floor_on_infiniband() -> None:
    run = FakeRun(transport="infiniband", driver_class="hardware", rate_gbps=40.0)
    for row in run.facts:
        for port in row["hcas"]:
            port |= {"link_layer": "InfiniBand", "lid": 3, "sm_lid": 1}
    for check in ("tcp_bandwidth", "tcp_bandwidth_concurrent", "aggregate_bandwidth"):
        one = run.verdict(run.ids(check)[0])
        assert (one["outcome"], one["floor"]) == ("recorded", None), check


def test_ports_of_one_card_have_no_floor_together() -> None:
    one, other = end(40, pci="0000:81:00.0"), end(40, pci="0000:81:00.1")
    assert set(limits.find_shares({"rail0": one, "rail1": other})) == {"rail0", "rail1"}
    assert not limits.find_shares({"rail0": one, "rail1": end(40, pci="0000:82:00.0")})
    assert not limits.find_shares({"rail0": end(40), "rail1": end(40)})
    assert bounds(rate_gbps=40, shared=True).floor == {}
    assert "rail0 and rail1 share 0000:80:01.0" in bounds(rate_gbps=40, shared=True).basis


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


def test_both_ways_at_once_may_carry_twice_the_rate_and_each_way_once() -> None:
    found = bounds("tcp_bandwidth_bi", rate_gbps=10, mtu=1500)
    one_way = 10 * 1448 / 1538 * 1.02
    assert found.ceiling == {
        "bandwidth_gbps": pytest.approx(2 * one_way, abs=1e-4),
        "forward_gbps": pytest.approx(one_way, abs=1e-4),
        "reverse_gbps": pytest.approx(one_way, abs=1e-4),
    }
    assert found.floor == {}
    assert "fits each direction" in found.basis
    assert "no floor: no published reference" in found.basis
    assert not bounds("tcp_bandwidth_bi").ceiling
