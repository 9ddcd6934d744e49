# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find faults of a rail's transceiver module, and a high bit error ratio before FEC. Pure.

The module's alarms are judged by its own limits. Flags of SFF-8636 and CMIS are latched, so an alarm only
counts if its reading is beyond its limit too; past alarms and warnings are remarks. A lane without any light
cannot belong to a link that is up: it is another port's, of a module with two, or unused.

Values that were not read are a remark, and change no outcome.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import (
    ModuleAlarm,
    OpticalModule,
    Optics,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_pair
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Maximum bit error ratio that each FEC corrects, by its name in mlxlink. RS(544,514): less than 2.4e-4, with
#: a frame loss ratio below 1.7e-12 (IEEE 802.3 138.1.1, as changed by 802.3cm). RS(528,514): at 5e-5 it loses
#: as many frames as a bit error ratio of 1e-12, the requirement of 100 Gbit/s Ethernet; test_optics computes
#: both.
LIMITS = (("544,514", 2.4e-4), ("528,514", 5e-5))
#: No Reed-Solomon code of Ethernet or InfiniBand is specified for more.
MOST = 2.4e-4
#: Maximum line bits per bit of the port's speed: 544/514 times 257/256.
_LINE_BITS = 1.0625
#: Tolerance between the times of the readings and the times in the rows.
_AROUND_S = 10.0
_LEAST_S = 1.0
#: A ratio that was counted for a shorter time includes the link's training.
_LEAST_MIN = 1.0
_DARK = {"rx power": -39.0, "tx power": -39.0, "bias current": 0.1}
_NO_FEC = re.compile(r"\b(?:no fec|none|off)\b", re.I)
_UNREAD: Optics = {"module": None, "fec": None, "link": None, "unread": {}}
_SOURCES = (("module", "the module"), ("link", "bit error ratios"))


@dataclass
class CorrectedBits:
    """The number of bits that FEC corrected from a rail's first row to its last."""

    names = ("ethtool.rx_corrected_bits_phy", "ethtool.rx_corrected_bits")
    _first: tuple[datetime.datetime, int] | None = None
    _last: tuple[datetime.datetime, int] | None = None

    def add(self, row: Row, spans: Mapping[str, Any]) -> None:
        """Add the counter that a row read before its test."""
        value = next((span[0] for name in self.names if is_pair(span := spans.get(name))), None)
        at = None if value is None else _parse_time(row.get("started"))
        if at is None or value is None:
            return
        self._first = self._first or (at, value)
        self._last = (at, value)

    def ratio(self, gbps: float | None) -> float | None:
        """Return the minimum bit error ratio before FEC, for a port's speed."""
        if self._first is None or self._last is None or not gbps:
            return None
        elapsed_s = (self._last[0] - self._first[0]).total_seconds()
        bits = self._last[1] - self._first[1]
        if elapsed_s < _LEAST_S or bits < 0:
            return None
        return float(f"{bits / ((elapsed_s + _AROUND_S) * gbps * 1e9 * _LINE_BITS):.2g}")


@dataclass
class Findings:
    """Faults of a rail's module and link.

    Attributes:
        cause: the cause of the first fault, or None.
        detail: the faults as text.
        remarks: texts that do not change the outcome.
        observed: readings.
    """

    cause: str | None = None
    detail: str = ""
    remarks: list[str] = field(default_factory=list)
    observed: dict[str, Any] = field(default_factory=dict)


def find_optical_faults(bound: Bound, corrected: CorrectedBits) -> Findings:
    """Return the optical faults in a rail's facts and rows.

    Args:
        bound: the rail, bound to the node's facts.
        corrected: the bits that FEC corrected during the run.
    """
    port: Row = bound.netdev or bound.hca or {}
    found = Findings()
    if port.get("driver_class") != "hardware":
        return found
    optics: Optics = port.get("optics") or _UNREAD
    if optics is _UNREAD:
        found.remarks.append("the module was not read")
    parts: list[OpticalModule] = [part for part in (optics["module"], optics["link"]) if part is not None]
    faults = _list_alarms(optics, parts, found)
    high = _list_high_ratios(optics, corrected.ratio(bound.rate_gbps), found)
    if faults:
        found.cause, found.detail = "module_alarm", "; ".join([*faults, *high])
    elif high:
        found.cause, found.detail = "ber_high", "; ".join(high)
    return found


def _list_alarms(optics: Optics, parts: Sequence[OpticalModule], found: Findings) -> list[str]:
    """Return the current alarms as text; other flags become remarks."""
    telling = next((part for part in parts if part["reports_alarms"]), None)
    if telling is None:
        if any(part["medium"] == "copper" for part in parts):
            found.remarks.append("the module reports a copper cable, which has no optical power")
        elif parts:
            found.remarks.append("the module reports no alarms")
        for name, what in _SOURCES:
            # A missing mlxlink does not matter if ethtool read the module.
            if name in optics["unread"] and not (name == "link" and parts):
                found.remarks.append(f"{what} not read: {optics['unread'][name]}")
        return []
    if lit := [power for power in telling["rx_power_dbm"] or () if power > _DARK["rx power"]]:
        found.observed["rx_power_min_dbm"] = min(lit)
    faults: list[str] = []
    remarks: dict[str, None] = {}
    for alarm in telling["alarms"]:
        name = f"{alarm['what']} {alarm['side']}"
        if _is_dark(alarm):
            remarks.setdefault("a lane of the module has no light: it does not belong to this link")
        elif not _is_current(alarm):
            remarks.setdefault(f"the module has had an alarm or warning that is over: {name}")
        elif alarm["level"] == "alarm":
            faults.append(_format_alarm(alarm))
        else:
            remarks.setdefault(f"the module warns: {name}")
    found.remarks += remarks or ([] if faults else ["the module has no alarm"])
    return faults


def _is_dark(alarm: ModuleAlarm) -> bool:
    value, most = alarm["value"], _DARK.get(alarm["what"])
    return most is not None and alarm["side"] == "low" and value is not None and value <= most


def _is_current(alarm: ModuleAlarm) -> bool:
    """Tell whether the reading is beyond the limit; an alarm without a reading counts."""
    value, limit = alarm["value"], alarm["limit"]
    if value is None or limit is None:
        return True
    return value <= limit if alarm["side"] == "low" else value >= limit


def _format_alarm(alarm: ModuleAlarm) -> str:
    lane = f" of lane {alarm['lane']}" if alarm["lane"] is not None else ""
    text = f"alarm of the module: {alarm['what']}{lane} is too {alarm['side']}"
    if alarm["value"] is not None and alarm["limit"] is not None:
        text += f", {alarm['value']:g} {alarm['unit']} with a limit of {alarm['limit']:g} {alarm['unit']}"
    return text


def _list_high_ratios(optics: Optics, counted: float | None, found: Findings) -> list[str]:
    """Return the bit error ratios above the limit of the link's FEC as text."""
    link, fec = optics["link"], _find_fec(optics)
    if fec is not None and _NO_FEC.search(fec):
        found.remarks.append("the link has no FEC")
        return []
    limit = next((most for name, most in LIMITS if name in (fec or "").replace(" ", "")), MOST)
    ratios = [(counted, "counted in this run")]
    if link is not None:
        is_young = link["counted_min"] is not None and link["counted_min"] < _LEAST_MIN
        ratios.append((None if is_young else link["raw_ber"], "mlxlink, since the counters were cleared"))
        if link["effective_ber"]:
            found.observed["effective_ber"] = link["effective_ber"]
            found.remarks.append("FEC has not corrected all errors since the counters were cleared")
    high = []
    for ratio, how in ratios:
        if ratio is None:
            continue
        found.observed["raw_ber"] = max(ratio, found.observed.get("raw_ber", 0.0))
        if ratio > limit:
            text = f"bit error ratio before FEC {ratio:.1e} ({how})"
            high.append(f"{text}, the limit of {fec or 'FEC'} is {limit:.1e}")
    return high


def _find_fec(optics: Optics) -> str | None:
    """Return the most specific name of the link's FEC."""
    if optics["link"] is not None and optics["link"]["fec"] is not None:
        return optics["link"]["fec"]
    return " ".join(optics["fec"]["active"]) or None if optics["fec"] is not None else None


def _parse_time(text: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
