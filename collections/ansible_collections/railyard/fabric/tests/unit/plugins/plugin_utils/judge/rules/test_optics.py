# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module's own alarms and too many errors before FEC fail link_errors.

What was not read changes nothing.
"""

from __future__ import annotations

from math import comb
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import optics as judge_optics
from support.runs.fake_run import NODES, FakeRun

CARD = FakeRun(transport="roce", driver_class="hardware")
SOFT = FakeRun(transport="roce")
MODULE: dict[str, Any] = {
    "identifier": "QSFP28", "vendor": "Example", "part_number": "EX", "medium": "optical",
    "temperature_c": 40.0, "rx_power_dbm": [0.5, -1.0], "tx_power_dbm": [0.0, 0.0], "reports_alarms": True,
    "alarms": [],
}  # fmt: skip
LINK = {
    **MODULE, "state": "Active", "speed": "100G", "fec": "Standard RS-FEC - RS(528,514)", "raw_ber": 1e-8,
    "effective_ber": 0.0, "effective_errors": 0, "counted_min": 100.0,
}  # fmt: skip
RX_LOW = {"what": "rx power", "side": "low", "level": "alarm", "lane": 2, "value": -15.0, "limit": -13.3,
          "unit": "dBm"}  # fmt: skip
CORRECTED = "ethtool.rx_corrected_bits_phy"


def optics(**over: Any) -> dict[str, Any]:
    return {"module": MODULE, "fec": None, "link": None, "unread": {}, **over}


def with_alarms(*alarms: Any) -> dict[str, Any]:
    return optics(module={**MODULE, "alarms": list(alarms)})


def judged(found: Any, run: FakeRun = CARD) -> dict[str, Any]:
    """Return the link_errors verdict of the first node's first rail with such optics."""
    run = run.copy()
    netdev = next(one for one in run.facts[0]["netdevs"] if one["netdev"] == "ens6")
    netdev["optics"] = found
    return verdict(run)


def verdict(run: FakeRun) -> dict[str, Any]:
    return run.verdict(run.ids("link_errors", node=NODES[0], rail="rail0")[0])


def test_a_module_without_an_alarm_passes_and_shows_its_weakest_lane() -> None:
    one = judged(optics())
    assert (one["outcome"], one["observed"]["rx_power_min_dbm"]) == ("pass", -1.0)
    assert "the module has no alarm" in one["basis"]


def test_a_dark_lane_is_not_the_weakest_one() -> None:
    one = judged(optics(module={**MODULE, "rx_power_dbm": [0.5, -40.0, -2.0]}))
    assert one["observed"]["rx_power_min_dbm"] == -2.0


@pytest.mark.parametrize("value", [-15.0, None])
def test_an_alarm_of_the_module_fails(value: float | None) -> None:
    one = judged(with_alarms({**RX_LOW, "value": value}))
    assert (one["outcome"], one["cause_class"]) == ("fail", "module_alarm")
    assert "gpuserver1 rail0 (ens6)" in one["cause"]
    assert "rx power of lane 2 is too low" in one["cause"]
    assert "Clean" in one["next"] or "clean" in one["next"]


def test_an_alarm_of_mlxlink_fails_where_ethtool_read_none() -> None:
    link = {**LINK, "alarms": [RX_LOW]}
    assert judged(optics(module=None, link=link))["cause_class"] == "module_alarm"
    silent = {**MODULE, "reports_alarms": False}
    assert judged(optics(module=silent, link=link))["cause_class"] == "module_alarm"


@pytest.mark.parametrize(
    ("alarm", "words"),
    [
        ({"value": -5.0}, "that is over: rx power low"),
        ({"level": "warning"}, "the module warns: rx power low"),
        ({"value": -40.0}, "does not belong to this link"),
        ({"what": "bias current", "value": 0.0, "limit": 2.0, "unit": "mA"}, "does not belong to this link"),
        ({"what": "temperature", "side": "high", "value": 40.0, "limit": 75.0, "lane": None}, "that is over"),
    ],
)
def test_what_is_no_alarm_of_this_link_now_is_a_remark(alarm: dict[str, Any], words: str) -> None:
    one = judged(with_alarms({**RX_LOW, **alarm}))
    assert one["outcome"] == "pass"
    assert words in one["basis"]
    assert "no alarm" not in one["basis"]


def test_why_mlxlink_was_not_read_is_left_out_where_ethtool_read_the_module() -> None:
    found = optics(
        module={**MODULE, "medium": "copper", "reports_alarms": False}, unread={"link": "not found"}
    )
    assert "not found" not in judged(found)["basis"]


def test_an_alarm_and_a_high_ratio_are_reported_together() -> None:
    one = judged({**with_alarms(RX_LOW), "link": {**LINK, "raw_ber": 3e-4}})
    assert one["cause_class"] == "module_alarm"
    assert "rx power of lane 2" in one["cause"]
    assert "before FEC 3.0e-04" in one["cause"]


def test_a_module_that_is_too_hot_fails() -> None:
    hot = {**RX_LOW, "what": "temperature", "side": "high", "value": 80.5, "limit": 75.0, "lane": None,
           "unit": "C"}  # fmt: skip
    one = judged(with_alarms(hot))
    assert "temperature is too high, 80.5 C with a limit of 75 C" in one["cause"]


@pytest.mark.parametrize(
    ("fec", "ratio", "outcome"),
    [
        ("Standard RS-FEC - RS(528,514)", 6e-5, "fail"),
        ("Standard RS-FEC - RS(528,514)", 5e-5, "pass"),
        ("Standard_RS-FEC - (544,514)", 6e-5, "pass"),
        ("Standard_RS-FEC - (544,514)", 3e-4, "fail"),
        ("Ethernet_Consortium_LL_50G_RS_FEC_PLR -(272,257+1)", 3e-4, "fail"),
        (None, 3e-4, "fail"),
        ("No FEC", 3e-4, "pass"),
    ],
)
def test_a_bit_error_ratio_before_fec_is_bounded_by_its_code(fec: Any, ratio: float, outcome: str) -> None:
    one = judged(optics(link={**LINK, "fec": fec, "raw_ber": ratio}))
    assert one["outcome"] == outcome
    if outcome == "fail":
        assert one["cause_class"] == "ber_high"
        assert one["observed"]["raw_ber"] == ratio


def test_a_ratio_of_the_first_minute_is_not_judged() -> None:
    assert judged(optics(link={**LINK, "raw_ber": 1e-3, "counted_min": 0.4}))["outcome"] == "pass"


def test_errors_behind_fec_since_the_counters_were_cleared_are_a_remark() -> None:
    one = judged(optics(link={**LINK, "effective_ber": 1e-11}))
    assert (one["outcome"], one["observed"]["effective_ber"]) == ("pass", 1e-11)
    assert "FEC has not corrected all errors" in one["basis"]


@pytest.mark.parametrize(
    ("bits", "gbps", "outcome"),
    [(30_000_000_000, 100, "fail"), (1_000_000, 100, "pass"), (10**10, 800, "pass")],
)
def test_bits_that_fec_corrected_during_the_run_are_compared_with_all_bits(
    bits: int, gbps: int, outcome: str
) -> None:
    run = CARD.copy()
    next(one for one in run.facts[0]["netdevs"] if one["netdev"] == "ens6")["speed_mbps"] = gbps * 1000
    rows = [row for row in run.results if row["host"] == NODES[0] and row["rail"] == "rail0"]
    for place, row in enumerate(rows):
        at = 50 * place // (len(rows) - 1)
        row["sequence"], row["started"] = place + 1, f"2026-11-21T10:15:{at:02d}.000Z"
        now = 7 + bits * place // (len(rows) - 1)
        row["link_errors"] = {**row["link_errors"], CORRECTED: [now, now]}
    one = verdict(run)
    # 3e10 bits in 50 s, and 10 s for what the times do not tell, of 106.25 Gbit/s.
    assert (one["outcome"], one["cause_class"]) == (outcome, "ber_high" if outcome == "fail" else None)
    assert one["observed"]["raw_ber"] == pytest.approx(bits / (60 * gbps * 1.0625e9), rel=0.05)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "the module was not read"),
        (optics(module=None, unread={"module": "ethtool: Operation not permitted"}), "not permitted"),
        (optics(module=None, unread={"link": "mlxlink or mstlink: not found"}), "mstlink: not found"),
        (optics(module={**MODULE, "medium": "copper", "reports_alarms": False}), "copper cable"),
        (optics(module={**MODULE, "medium": None, "reports_alarms": False}), "reports no alarms"),
    ],
)
def test_what_was_not_read_changes_no_outcome(found: Any, words: str) -> None:
    one = judged(found)
    assert (one["outcome"], one["proof"]) == ("pass", "proven")
    assert words in one["basis"]


@pytest.mark.parametrize("found", [5, optics(module={}), optics(unread=[]), with_alarms(5)])
def test_garbled_optics_are_garbled_facts(found: Any) -> None:
    one = judged(found)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "facts_garbled")


def test_facts_of_earlier_versions_are_judged_as_before() -> None:
    one = verdict(CARD.copy())
    assert one["outcome"] == "pass"
    assert "the module was not read" in one["basis"]


def test_a_software_link_has_no_module_to_speak_of() -> None:
    assert "module" not in verdict(SOFT.copy())["basis"]
    assert judged(with_alarms(RX_LOW), SOFT)["outcome"] == "pass"


def test_errors_of_the_cable_are_named_first_and_the_alarm_beside_them() -> None:
    run = CARD.copy()
    next(one for one in run.facts[0]["netdevs"] if one["netdev"] == "ens6")["optics"] = with_alarms(RX_LOW)
    run.rows(run.ids("tcp_bandwidth", node=NODES[0], rail="rail0")[0], "client")[0]["link_errors"] = {
        "netdev.rx_crc_errors": [2, 5],
    }  # fmt: skip
    one = verdict(run)
    assert one["cause_class"] == "link_errors"
    assert "rx power of lane 2 is too low" in one["cause"]


def test_a_port_without_a_netdev_is_judged_by_its_own() -> None:
    port = {"driver_class": "hardware", "optics": optics(module=None, link={**LINK, "raw_ber": 3e-4})}
    found = judge_optics.find_optical_faults(Bound({"name": "rail0"}, hca=port), judge_optics.CorrectedBits())
    assert found.cause == "ber_high"


@pytest.mark.parametrize(
    ("rows", "gbps"),
    [
        ([("10:15:00", 5)], 100),
        ([("10:15:00", 5), ("10:15:00", 10**13)], 100),
        ([("10:15:00", 10**13), ("10:16:00", 5)], 100),
        ([("10:16:00", 5), ("10:15:00", 10**13)], 100),
        ([("10:15:00", 5), ("10:16:00", None)], 100),
        ([("10:15:00", 5), ("soon", 10**13)], 100),
        ([("10:15:00", 5), ("10:16:00", 10**13)], None),
    ],
)
def test_without_two_readings_a_time_and_a_speed_there_is_no_ratio(
    rows: list[tuple[str, int | None]], gbps: float | None
) -> None:
    corrected = judge_optics.CorrectedBits()
    for moment, bits in rows:
        corrected.add({"started": f"2026-11-21T{moment}.000Z"}, {CORRECTED: [bits, bits]})
    assert corrected.ratio(gbps) is None


def _frame_loss(symbols: int, corrected: int, ber: float) -> float:
    """Return how many frames of 64 bytes are lost where the bits of 10-bit symbols err at random."""
    wrong = 1 - (1 - ber) ** 10
    codeword = sum(
        comb(symbols, count) * wrong**count * (1 - wrong) ** (symbols - count)
        for count in range(corrected + 1, symbols + 1)
    )
    # A frame with its gap may be in two codewords.
    return codeword * (1 + 672 / (10 * symbols))


@pytest.mark.parametrize(
    ("fec", "symbols", "corrected", "most"),
    [
        # IEEE 802.3 138.1.1, as changed by 802.3cm.
        ("544,514", 544, 15, 1.7e-12),
        # What a bit error ratio of 1e-12 loses of 512-bit frames: P. Anslow, 802.3 reflector, 2012-11-23.
        ("528,514", 528, 7, 5.12e-10),
    ],
)
def test_each_limit_is_the_most_that_its_code_corrects(
    fec: str, symbols: int, corrected: int, most: float
) -> None:
    limit = dict(judge_optics.LIMITS)[fec]
    assert _frame_loss(symbols, corrected, limit) < most < _frame_loss(symbols, corrected, 1.1 * limit)
