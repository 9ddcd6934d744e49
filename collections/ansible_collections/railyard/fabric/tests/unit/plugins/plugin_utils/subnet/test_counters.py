# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Counters: growth is compared with what a link's rate permits."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Counters, PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.rules import symbol_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from support.fake_subnets import EDR, FDR, HDR, NDR, Net, describe


def watch(
    net: Net, after: dict[str, int], before: dict[str, int] | None = None, *, at_leaf: bool = True
) -> Judgement:
    key = net.adapter_key(1, 0)
    end = net.peer(key) if at_leaf else key
    net.before, net.after = {end: before or {}}, {end: after}
    return judge(net.reading(), net.expected())


@pytest.mark.parametrize("at_leaf", [True, False])
def test_a_thousand_symbol_errors_in_an_hour_on_edr_fail(at_leaf: bool) -> None:
    net = Net(lane_gbps=EDR)
    (found,) = watch(net, {"SymbolErrorCounter": 1000}, at_leaf=at_leaf).findings
    assert describe(found) == ("errors_above_ber", "fail", "gpu002", "rail0")
    assert set(found.ports) == {net.adapter_key(1, 0), PortKey(net.leaf(0, 0), 2)}
    # 1000 errors / (100e9 bit/s * 3600 s); 1e-12 of that are 360.
    assert "2.8e-12 errors per bit" in found.text
    assert "permitted are 360 (1e-12 per bit" in found.text
    # The source of the limit is named to its end.
    assert found.text.count("(") == found.text.count(")")


@pytest.mark.parametrize(("lane", "rate"), [(EDR, 100.0), (HDR, 200.0), (NDR, 400.0)])
def test_one_symbol_error_beyond_fec_is_a_warning(lane: float, rate: float) -> None:
    judgement = watch(Net(lane_gbps=lane, rate_gbps=rate), {"SymbolErrorCounter": 1})
    assert [(one.cause, one.severity) for one in judgement.findings] == [("errors_counted", "warn")]
    assert judgement.status == 0


def test_fdr_has_no_fec_so_that_few_symbol_errors_are_permitted() -> None:
    net = Net(lane_gbps=FDR, rate_gbps=56.0)
    assert watch(net, {"SymbolErrorCounter": 200}).findings == ()
    # 56e9 * 3600 * 1e-12 = 201.6
    (found,) = watch(net, {"SymbolErrorCounter": 202}).findings
    assert found.cause == "errors_above_ber"


def test_the_limit_is_the_one_of_the_rule_for_symbol_errors() -> None:
    permitted = symbol_errors.permitted(400.0, None, 3600.0)
    assert permitted is not None
    limit = int(permitted.errors)
    net = Net(lane_gbps=NDR, rate_gbps=400.0)
    assert watch(net, {"SymbolErrorCounter": limit}).findings[0].cause == "errors_counted"
    assert watch(net, {"SymbolErrorCounter": limit + 1}).findings[0].cause == "errors_above_ber"


@pytest.mark.parametrize("name", ["LinkDownedCounter", "LinkErrorRecoveryCounter"])
def test_any_flap_fails(name: str) -> None:
    (found,) = watch(Net(), {name: 8, "SymbolErrorCounter": 5}, {name: 7}).findings
    assert (found.cause, found.severity) == ("flapped", "fail")
    assert f"{name} by 1 at" in found.text
    assert "SymbolErrorCounter by 5" in found.text


@pytest.mark.parametrize(
    "name", ["PortRcvErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors"]
)
def test_receive_errors_warn_and_fail_beyond_the_allowance(name: str) -> None:
    net = Net()
    net.counted_s = 1.0  # permitted is a burst of ten
    assert [one.cause for one in watch(net, {name: 3}).findings] == ["errors_counted"]
    assert [one.cause for one in watch(net, {name: 12}).findings] == ["errors_above_ber"]


@pytest.mark.parametrize(
    ("name", "most"),
    [("SymbolErrorCounter", 0xFFFF), ("LinkDownedCounter", 0xFF), ("PortRcvErrors", 0xFFFF),
     ("LocalLinkIntegrityErrors", 0xF), ("PortXmitDiscards", 0xFFFF)],
)  # fmt: skip
def test_a_counter_that_stays_at_its_maximum_says_at_least(name: str, most: int) -> None:
    (found,) = watch(Net(), {name: most}, {name: most}).findings
    assert (found.cause, found.severity) == ("counter_saturated", "warn")
    assert name in found.text
    assert "at least" in found.text


def test_a_counter_that_reaches_its_maximum_has_no_rate() -> None:
    (found,) = watch(Net(), {"SymbolErrorCounter": 0xFFFF}, {"SymbolErrorCounter": 5}).findings
    assert found.cause == "errors_above_ber"
    assert "by at least 65530" in found.text
    assert "errors per bit;" not in found.text


def test_a_counter_that_fell_has_no_verdict() -> None:
    judgement = watch(Net(), {"SymbolErrorCounter": 900}, {"SymbolErrorCounter": 1000})
    assert judgement.findings == ()
    assert any("1 error counters fell" in note for note in judgement.notes)


def test_a_counter_that_is_gone_in_a_complete_reading_fell() -> None:
    judgement = watch(Net(), {}, {"SymbolErrorCounter": 1000})
    assert any("fell" in note for note in judgement.notes)


def test_errors_of_another_link_name_no_cause() -> None:
    judgement = watch(Net(), {"PortRcvRemotePhysicalErrors": 5000})
    assert [(one.cause, one.severity, one.node) for one in judgement.findings] == [
        ("errors_elsewhere", "warn", None)
    ]
    net = Net()
    bad = net.adapter_key(2, 1)
    net.after = {
        bad: {"SymbolErrorCounter": 9000},
        net.adapter_key(3, 3): {"PortRcvRemotePhysicalErrors": 40},
    }
    judgement = judge(net.reading(), net.expected())
    assert [one.cause for one in judgement.findings] == ["errors_above_ber"]
    assert any("damaged packets" in note for note in judgement.notes)


def test_discards_are_congestion_and_no_bad_cable() -> None:
    (found,) = watch(Net(), {"PortXmitDiscards": 77}).findings
    assert (found.cause, found.severity) == ("packets_discarded", "warn")


def test_waiting_is_a_share_of_the_time_and_no_finding() -> None:
    # NVIDIA, ibdiagnet User Manual v2.13, "Congestion Assessment on InfiniBand Links": a tick is 8 bytes of
    # the port on Quantum, 32 bytes of each lane on Switch-IB.
    seconds = 3600
    for lane, rate, tick_bytes in ((HDR, 200.0, 8), (EDR, 100.0, 32 * 4)):
        half = int(seconds * rate * 1e9 / 8 / tick_bytes / 2)
        net = Net(lane_gbps=lane, rate_gbps=rate)
        net.counted_s = seconds
        judgement = watch(net, {"PortXmitWait": half})
        assert judgement.findings == ()
        assert any("about 50 %" in note for note in judgement.notes), judgement.notes


@pytest.mark.parametrize(
    ("name", "cause"), [("SymbolErrorCounter", "errors_above_ber"), ("LinkDownedCounter", "flapped")]
)
def test_three_links_of_one_switch_name_the_switch(name: str, cause: str) -> None:
    net = Net()
    bad = {net.peer(net.adapter_key(node, 1)): {name: 4000} for node in range(3)}
    net.after = dict(list(bad.items())[:2])
    assert [one.cause for one in judge(net.reading(), net.expected()).findings] == [cause] * 2
    net.after = bad
    (found,) = judge(net.reading(), net.expected()).findings
    assert (found.cause, found.node) == (cause, None)
    assert "leaf0-1" in found.text
    assert "3 of its 8 links" in found.text
    assert "Look at the switch before its cables" in found.next
    assert set(bad) < set(found.ports)


def test_three_of_many_links_are_three_links() -> None:
    net = Net(nodes_each=12)
    net.after = {net.peer(net.adapter_key(node, 1)): {"SymbolErrorCounter": 4000} for node in range(3)}
    assert len(judge(net.reading(), net.expected()).findings) == 3


def test_without_two_readings_there_is_no_verdict() -> None:
    net = Net()
    net.after = {net.adapter_key(0, 0): {"SymbolErrorCounter": 5000}}
    reading = net.reading()
    for counters, words in (((), "not read"), (reading.counters[1:], "read once")):
        judgement = judge(reading._replace(counters=counters), net.expected())
        assert judgement.findings == ()
        assert judgement.coverage.counted_s is None
        assert any(words in note for note in judgement.notes)
    same = (reading.counters[0], reading.counters[1]._replace(taken_at_s=reading.counters[0].taken_at_s))
    assert judge(reading._replace(counters=same), net.expected()).findings == ()


def test_a_port_that_an_incomplete_reading_lacks_has_no_verdict() -> None:
    net = Net()
    errors = {net.adapter_key(0, 0): {"SymbolErrorCounter": 5000}}
    reading = net.reading(counters=(Counters(0.0, {}, False), Counters(3600.0, errors, True)))
    judgement = judge(reading, net.expected())
    assert judgement.findings == ()
    assert any("Not all ports" in note for note in judgement.notes)
