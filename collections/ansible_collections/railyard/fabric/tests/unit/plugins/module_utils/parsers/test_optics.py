# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Modules, FEC and bit error ratios, as ethtool and mlxlink print them.

The texts are by hand, to their formats. The parsers name the public outputs that show them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.hca import (
    ethtool_fec,
    ethtool_module,
    mlxlink,
)
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as records
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader

FEC = """FEC parameters for ens1f0np0:
Supported/Configured FEC encodings: Auto RS BaseR
Active FEC encoding: RS
Statistics:
  corrected_blocks: 7105
    Lane 0: 7001
    Lane 1: 104
  uncorrectable_blocks: 3
    Lane 0: 3
    Lane 1: 0
"""
QSFP28 = """\tIdentifier                                : 0x11 (QSFP28)
\tExtended identifier description           : 2.5W max. Power consumption
\tTransceiver type                          : 100G Ethernet: 100G Base-SR4 or 25GBase-SR
\tLength (Copper or Active cable)           : 50m
\tTransmitter technology                    : 0x00 (850 nm VCSEL)
\tVendor name                               : Example
\tVendor PN                                 : EX-100G-SR4
\tModule temperature                        : 41.50 degrees C / 106.70 degrees F
\tModule voltage                            : 3.2450 V
\tAlarm/warning flags implemented           : Yes
\tLaser tx bias current (Channel 1)         : 6.500 mA
\tTransmit avg optical power (Channel 1)    : 1.0000 mW / 0.00 dBm
\tTransmit avg optical power (Channel 2)    : 0.7943 mW / -1.00 dBm
\tRcvr signal avg optical power(Channel 1)  : 0.0316 mW / -15.00 dBm
\tRcvr signal avg optical power(Channel 2)  : 0.0000 mW / -inf dBm
\tLaser bias current low alarm    (Chan 1)  : Off
\tModule temperature high alarm             : Off
\tModule temperature high warning           : On
\tLaser rx power low alarm    (Channel 1)   : On
\tLaser rx power low alarm    (Channel 2)   : Off
\tModule temperature high warning threshold : 40.00 degrees C / 104.00 degrees F
\tLaser rx power low alarm threshold        : 0.0467 mW / -13.31 dBm
"""
SFP = """Identifier                                : 0x03 (SFP)
Laser wavelength                          : 850nm
Vendor name                               : Example
Vendor PN                                 : EX-25G-SR
Laser bias current                        : 7.000 mA
Laser output power                        : 0.0631 mW / -12.00 dBm
Receiver signal average optical power     : 0.5012 mW / -3.00 dBm
Laser output power low alarm              : On
Laser output power low alarm threshold    : 0.1000 mW / -10.00 dBm
"""
COPPER = """Identifier                                : 0x11 (QSFP28)
Transmitter technology                    : 0xa0 (Copper cable unequalized)
Attenuation at 2.5GHz                     : 3db
Vendor name                               : Example
Vendor PN                                 : EX-DAC-1M
"""
SFP_COPPER = """Identifier                                : 0x03 (SFP)
Transceiver type                          : Passive Cable
"""
SFP_ACTIVE_COPPER = """Identifier                                : 0x03 (SFP)
Active Cu cmplnce.                        : 0x04 (SFF-8431 limiting)
"""
# ethtool 6.14 writes the temperature's reading and its limits under one name.
JSON_QSFP = """[ {
  "identifier": 17, "identifier_description": "QSFP28", "vendor_name": "Example", "vendor_pn": "EX-AOC",
  "extended_identifier": {"value": 207, "description": "3.5W", "description": "CDR present"},
  "transmitter_technology_description": "850 nm VCSEL",
  "module_temperature": 56.75, "module_temperature_units": "degrees C",
  "rcvr_signal_avg_optical_power": [ 0.1, 1 ], "transmit_avg_optical_power": [ 0, 1 ],
  "laser_rx_power_low_alarm": [ true, false ], "Module temperature high alarm": true,
  "module_temperature": {"high_alarm_threshold": 55, "units": "degrees C"},
  "laser_rx_power": {"low_alarm_threshold": 0.2, "units": "mW"} } ]"""
JSON_CMIS = """[ {"identifier_description": "OSFP", "module_temperature_measurement": 50.5,
  "rx_power": {"values": [ 1, 0.1 ], "type": "Rcvr signal avg optical power"},
  "module_temperature_high_alarm": false} ]"""
MLXLINK = """
Operational Info
----------------
State                              : Active
Physical state                     : LinkUp
Speed                              : IB-NDR
FEC                                : Standard_RS-FEC - (544,514)
Auto Negotiation                   : ON

Troubleshooting Info
--------------------
Recommendation                     : \x1b[32mNo issue was observed\x1b[0m

Module Info
-----------
Temperature [C]                    : 49 [-10..80]
Voltage [mV]                       : 3189.4 [3100..3500]
Bias Current [mA]                  : 9.210,9.264 [7..11]
Rx Power Current [dBm]             : 1.945,-5.100 [-5.003..3.998]
Tx Power Current [dBm]             : 0.867,1.139 [-3.468..3.998]
Identifier                         : OSFP
Cable Technology                   : 850 nm VCSEL
Cable Type                         : Optical Module (separated)
Vendor Name                        : Example
Vendor Part Number                 : EX-NDR

Physical Counters and BER Info
------------------------------
Time Since Last Clear [Min]        : 348.5
Effective Physical Errors          : 0
Effective Physical BER             : \x1b[32m15E-255\x1b[0m
Raw Physical Errors Per Lane       : 39,51
Raw Physical BER                   : 2E-9
Raw Physical BER Per Lane          : 1E-1,2E-1
"""
# As a passive cable says of itself on ConnectX-7: zeros with limits of zero.
MLXLINK_COPPER = """State                              : Active
Physical state                     : LinkUp
FEC                                : Standard RS-FEC - RS(528,514)
Temperature [C]                    : 0 [0..0]
Rx Power Current [dBm]             : 0,0,0,0 [0..0]
Cable Type                         : Passive copper cable
Vendor Name                        : N/A
Raw Physical BER                   : N/A
"""


def test_fec_counters_of_all_lanes_and_without_statistics() -> None:
    assert ethtool_fec.parse(FEC) == {
        "active": ["RS"], "corrected_blocks": 7105, "uncorrectable_blocks": 3, "corrected_bits": None,
    }  # fmt: skip
    older = "FEC parameters for eth0:\nConfigured FEC encodings: Auto\nActive FEC encodings: None\n"
    assert ethtool_fec.parse(older)["active"] == ["None"]
    assert ethtool_fec.parse(older)["uncorrectable_blocks"] is None


def test_fec_as_json() -> None:
    counts = {"corrected_blocks": {"total": 9, "lanes": [8, 1]}, "uncorrectable_blocks": {"total": 0}}
    text = json.dumps([{"ifname": "eth0", "config": ["Auto"], "active": ["RS"], "statistics": counts}])
    found = ethtool_fec.parse(text)
    assert (found["active"], found["corrected_blocks"], found["uncorrectable_blocks"]) == (["RS"], 9, 0)


def test_a_qsfp_has_power_for_each_lane_and_its_alarms_with_reading_and_limit() -> None:
    found = ethtool_module.parse(QSFP28)
    assert (found["identifier"], found["part_number"], found["medium"]) == (
        "QSFP28", "EX-100G-SR4", "optical",
    )  # fmt: skip
    assert (found["rx_power_dbm"], found["tx_power_dbm"]) == ([-15.0, -40.0], [0.0, -1.0])
    assert found["temperature_c"] == 41.5
    assert found["alarms"] == [
        {"what": "temperature", "side": "high", "level": "warning", "lane": None, "value": 41.5,
         "limit": 40.0, "unit": "C"},
        {"what": "rx power", "side": "low", "level": "alarm", "lane": 1, "value": -15.0, "limit": -13.31,
         "unit": "dBm"},
    ]  # fmt: skip


def test_an_sfp_has_one_lane() -> None:
    found = ethtool_module.parse(SFP)
    assert (found["rx_power_dbm"], found["medium"]) == ([-3.0], "optical")
    [alarm] = found["alarms"]
    assert (alarm["what"], alarm["side"], alarm["lane"], alarm["value"]) == ("tx power", "low", None, -12.0)
    assert alarm["limit"] == -10.0


@pytest.mark.parametrize("text", [COPPER, SFP_COPPER, SFP_ACTIVE_COPPER])
def test_copper_is_what_says_so_of_itself(text: str) -> None:
    found = ethtool_module.parse(text)
    assert (found["medium"], found["rx_power_dbm"], found["reports_alarms"]) == ("copper", None, False)


def test_a_module_that_says_neither_is_neither_copper_nor_optical() -> None:
    found = ethtool_module.parse("Identifier       : 0x1b (reserved or unknown)\nVendor name  : Example\n")
    assert (found["medium"], found["alarms"], found["reports_alarms"]) == (None, [], False)


def test_json_of_both_kinds_of_ethtool() -> None:
    found = ethtool_module.parse(JSON_QSFP)
    assert (found["temperature_c"], found["rx_power_dbm"]) == (56.75, [-10.0, 0.0])
    assert found["tx_power_dbm"] == [-40.0, 0.0]
    assert [(one["what"], one["lane"], one["value"], one["limit"]) for one in found["alarms"]] == [
        ("rx power", 1, -10.0, -6.99), ("temperature", None, 56.75, 55.0),
    ]  # fmt: skip
    found = ethtool_module.parse(JSON_CMIS)
    assert (found["temperature_c"], found["rx_power_dbm"], found["reports_alarms"]) == (
        50.5, [0.0, -10.0], True,
    )  # fmt: skip


def test_mlxlink_has_ratios_readings_and_limits() -> None:
    found = mlxlink.parse(MLXLINK)
    assert (found["raw_ber"], found["effective_ber"], found["counted_min"]) == (2e-9, 0.0, 348.5)
    assert (found["fec"], found["medium"], found["speed"]) == (
        "Standard_RS-FEC - (544,514)", "optical", "IB-NDR",
    )  # fmt: skip
    [alarm] = found["alarms"]
    assert (alarm["what"], alarm["lane"], alarm["value"], alarm["limit"]) == ("rx power", 2, -5.1, -5.003)


def test_zeros_without_limits_are_no_readings_of_a_copper_cable() -> None:
    found = mlxlink.parse(MLXLINK_COPPER)
    assert (found["medium"], found["alarms"], found["reports_alarms"]) == ("copper", [], False)
    assert (found["rx_power_dbm"], found["raw_ber"], found["vendor"]) == (None, None, None)


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        (ethtool_module.parse, "netlink error: Operation not permitted\n", "not permitted"),
        (
            ethtool_module.parse,
            "Cannot get module EEPROM information: Invalid argument\n",
            "Invalid argument",
        ),
        (ethtool_fec.parse, "netlink error: Operation not supported\n", "not supported"),
        (ethtool_fec.parse, "ethtool: bad command line argument(s)\n", "bad command line"),
        (mlxlink.parse, "-E- Failed to open device: 0000:81:00.0\n", "Failed to open device"),
        (mlxlink.parse, QSFP28, "no port of mlxlink"),
        (ethtool_module.parse, "[ {", "no JSON"),
        (ethtool_module.parse, "[ 1 ]", "no list of one object"),
        (ethtool_fec.parse, "[ {} ]", "no FEC parameters"),
        (ethtool_fec.parse, "", "nothing"),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(
    parse: Callable[[str], Any], text: str, words: str
) -> None:
    with pytest.raises(NotThisTool, match=words):
        parse(text)


RECORDS = {
    ethtool_module.parse: records.OpticalModule,
    ethtool_fec.parse: records.Fec,
    mlxlink.parse: records.OpticalLink,
}


@pytest.mark.parametrize("parse", RECORDS)
def test_no_damage_breaks_a_parser_or_makes_an_alarm(parse: Callable[[str], dict[str, Any]]) -> None:
    """What is parsed is a record: one that is none would take all of the node's facts with it."""
    counts = json.dumps([{"active": ["RS"], "statistics": {"corrected_blocks": {"total": 0}}}])
    healthy = [QSFP28.replace(": On", ": Off"), SFP.replace(": On", ": Off"), FEC, COPPER, JSON_CMIS, counts,
               MLXLINK.replace("-5.100", "-4.900")]  # fmt: skip
    parsed = 0
    for text in healthy:
        damaged = [text[:cut] for cut in range(0, len(text), 7)]
        damaged += [text.replace(old, new) for old in ("0", "1", "dBm", ": ", "true", "false")
                    for new in ("", "\0", "[", "inf", "nan", "-7", "0", "9" * 500, " " * 9000)]  # fmt: skip
        for one in damaged:
            try:
                found = parse(one)
            except NotThisTool:
                continue
            parsed += 1
            assert json.dumps(found, allow_nan=False)
            assert reader.refusal(RECORDS[parse], found) is None
            if one in text:
                assert found.get("alarms", []) == []
    assert parsed > 40
