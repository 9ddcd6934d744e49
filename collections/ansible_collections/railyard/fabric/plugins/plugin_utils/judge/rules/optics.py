# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide what a rail's module, and its bit error ratio before FEC, say against the rail. Pure.

The module's alarms are judged by its own limits. Flags of SFF-8636 and CMIS are latched, so an alarm counts
where its reading is beyond its limit as well; one that is over is a remark, as are warnings. A lane without
any light cannot carry a link that is up: it is another port's, of a module with two, or not in use.

What was not read is a remark, and changes no outcome.
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

#: The most that each FEC has to correct, by its name in mlxlink. RS(544,514): less than 2.4e-4, with a frame
#: loss ratio below 1.7e-12 (IEEE 802.3 138.1.1, as changed by 802.3cm). RS(528,514): at 5e-5 it loses as many
#: frames as a bit error ratio of 1e-12, which is asked of 100 Gbit/s Ethernet; test_optics computes both.
LIMITS = (("544,514", 2.4e-4), ("528,514", 5e-5))
#: No Reed-Solomon code of Ethernet or InfiniBand is specified for more.
MOST = 2.4e-4
#: What the line carries for each bit that the port's speed counts, at most: 544/514 by 257/256.
_LINE_BITS = 1.0625
#: How far the moments of the first and the last reading may be beside the times in the rows.
_AROUND_S = 10.0
_LEAST_S = 1.0
#: A ratio that was counted for a shorter time tells of the link's training.
_LEAST_MIN = 1.0
_DARK = {"rx power": -39.0, "tx power": -39.0, "bias current": 0.1}
_NO_FEC = re.compile(r"\b(?:no fec|none|off)\b", re.I)
_UNREAD: Optics = {"module": None, "fec": None, "link": None, "unread": {}}
_SOURCES = (("module", "the module"), ("link", "bit error ratios"))


@dataclass
class CorrectedBits:
    """How many bits FEC corrected from a rail's first row to its last."""

    names = ("ethtool.rx_corrected_bits_phy", "ethtool.rx_corrected_bits")
    _first: tuple[datetime.datetime, int] | None = None
    _last: tuple[datetime.datetime, int] | None = None

    def add(self, row: Row, spans: Mapping[str, Any]) -> None:
        """Take what a row read before its test."""
        value = next((span[0] for name in self.names if is_pair(span := spans.get(name))), None)
        at = None if value is None else _moment(row.get("started"))
        if at is None or value is None:
            return
        self._first = self._first or (at, value)
        self._last = (at, value)

    def ratio(self, gbps: float | None) -> float | None:
        """Return the least that the bit error ratio before FEC was, of a port with such a speed."""
        if self._first is None or self._last is None or not gbps:
            return None
        elapsed_s = (self._last[0] - self._first[0]).total_seconds()
        bits = self._last[1] - self._first[1]
        if elapsed_s < _LEAST_S or bits < 0:
            return None
        return float(f"{bits / ((elapsed_s + _AROUND_S) * gbps * 1e9 * _LINE_BITS):.2g}")


@dataclass
class Findings:
    """What speaks against a rail's module and link.

    Attributes:
        cause: of the first fault; None without one.
        detail: the faults, in words.
        remarks: what does not change the outcome.
        observed: readings.
    """

    cause: str | None = None
    detail: str = ""
    remarks: list[str] = field(default_factory=list)
    observed: dict[str, Any] = field(default_factory=dict)


def find(bound: Bound, corrected: CorrectedBits) -> Findings:
    """Return what a rail's facts and rows tell of its optics.

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
    faults = _alarms(optics, parts, found)
    high = _ratios(optics, corrected.ratio(bound.rate_gbps), found)
    if faults:
        found.cause, found.detail = "module_alarm", "; ".join([*faults, *high])
    elif high:
        found.cause, found.detail = "ber_high", "; ".join(high)
    return found


def _alarms(optics: Optics, parts: Sequence[OpticalModule], found: Findings) -> list[str]:
    """Return the alarms that are there now, in words; what is none becomes a remark."""
    telling = next((part for part in parts if part["reports_alarms"]), None)
    if telling is None:
        if any(part["medium"] == "copper" for part in parts):
            found.remarks.append("a copper cable, as it says itself: it has no optical power")
        elif parts:
            found.remarks.append("the module reports no alarms")
        for name, what in _SOURCES:
            # Why mlxlink is not there says nothing where ethtool read the module.
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
            remarks.setdefault("a lane of the module has no light: it is not this link's")
        elif not _is_now(alarm):
            remarks.setdefault(f"the module has had an alarm or warning that is over: {name}")
        elif alarm["level"] == "alarm":
            faults.append(_in_words(alarm))
        else:
            remarks.setdefault(f"the module warns: {name}")
    found.remarks += remarks or ([] if faults else ["the module has no alarm"])
    return faults


def _is_dark(alarm: ModuleAlarm) -> bool:
    value, most = alarm["value"], _DARK.get(alarm["what"])
    return most is not None and alarm["side"] == "low" and value is not None and value <= most


def _is_now(alarm: ModuleAlarm) -> bool:
    """Tell whether the reading is beyond the limit; an alarm without a reading counts as it is."""
    value, limit = alarm["value"], alarm["limit"]
    if value is None or limit is None:
        return True
    return value <= limit if alarm["side"] == "low" else value >= limit


def _in_words(alarm: ModuleAlarm) -> str:
    lane = f" of lane {alarm['lane']}" if alarm["lane"] is not None else ""
    words = f"alarm of the module: {alarm['what']}{lane} is too {alarm['side']}"
    if alarm["value"] is not None and alarm["limit"] is not None:
        words += f", {alarm['value']:g} {alarm['unit']} with a limit of {alarm['limit']:g} {alarm['unit']}"
    return words


def _ratios(optics: Optics, counted: float | None, found: Findings) -> list[str]:
    """Return the bit error ratios that are above the limit of the link's FEC, in words."""
    link, fec = optics["link"], _fec(optics)
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
            words = f"bit error ratio before FEC {ratio:.1e} ({how})"
            high.append(f"{words}, the limit of {fec or 'FEC'} is {limit:.1e}")
    return high


def _fec(optics: Optics) -> str | None:
    """Return the link's FEC by the name that tells most."""
    if optics["link"] is not None and optics["link"]["fec"] is not None:
        return optics["link"]["fec"]
    return " ".join(optics["fec"]["active"]) or None if optics["fec"] is not None else None


def _moment(text: object) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
