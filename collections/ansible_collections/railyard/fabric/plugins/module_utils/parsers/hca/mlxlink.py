# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read `mlxlink -d DEVICE -m -c` of NVIDIA's MFT, and `mstlink` of mstflint, which prints the same.

Bit error ratios are cumulative since the counters were cleared. Source: Mellanox/mstflint
mlxlink_commander.cpp. Public outputs that were tried: BlueField-3 over a copper cable (text index
55597941938), ConnectX-7 NDR over a copper cable (58013036263), ConnectX-7 with an OSFP module (62891054780),
ConnectX-6 HDR (60859828466), counters of a 400G link in colour (62689428639).
"""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import to_float
from . import module_words

_COLOUR = re.compile(r"\x1b\[[0-9;]{0,10}m")
#: `1.945,1.892,2.167,2.025 [-5.003..3.998]`: readings of the lanes, and the module's own limits.
_READINGS = re.compile(r"^([-0-9.,]+)(?: *\[(-?[0-9.]+?)\.\.(-?[0-9.]+)\])?$")
_BER = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)[eE]-([0-9]{1,3})\Z")
#: What mlxlink prints where no error was seen, 15E-255, is no ratio: no counter is that long.
_NONE_SEEN = 40
_MODULE = (
    ("temperature", "Temperature [C]", "C"),
    ("voltage", "Voltage [mV]", "mV"),
    ("bias current", "Bias Current [mA]", "mA"),
    ("rx power", "Rx Power Current [dBm]", "dBm"),
    ("tx power", "Tx Power Current [dBm]", "dBm"),
)


def parse(text: str) -> dict[str, Any]:
    """Parse what mlxlink printed of one port.

    Returns:
        `state`, `speed` and `fec` as mlxlink prints them; for the module the keys of `ethtool_module.parse`;
        `raw_ber` (before FEC) and `effective_ber` (after it), 0 where no error was seen,
        `effective_errors`, and `counted_min`, the minutes since the counters were cleared. Each is None where
        mlxlink does not print it.

    Raises:
        NotThisTool: it is something else, with the tool's message where there is one.
    """
    lines = common.split_lines(_COLOUR.sub("", text))
    reported = dict(filter(None, map(module_words.pair, lines)))
    if "Physical state" not in reported or "FEC" not in reported:
        raise module_words.refusal("no port of mlxlink", lines)
    readings: dict[str, list[float]] = {}
    alarms: list[dict[str, Any]] = []
    has_limits = False
    for what, key, unit in _MODULE:
        values, low, high = _readings(reported.get(key, ""))
        readings[what] = values
        # A copper cable has 0 [0..0].
        if low is None or high is None or low >= high:
            continue
        has_limits = has_limits or bool(values)
        for lane, value in enumerate(values, 1):
            number = lane if len(values) > 1 else None
            for side, limit, beyond in (("low", low, value < low), ("high", high, value > high)):
                if beyond:
                    alarms.append(module_words.alarm(what, side, "alarm", number, value, limit, unit))
    minutes = to_float(reported.get("Time Since Last Clear [Min]"))
    kind = f"{reported.get('Cable Type', '')} {reported.get('Cable Technology', '')}"
    return {
        "state": _known(reported.get("State")),
        "speed": _known(reported.get("Speed")),
        "fec": _known(reported.get("FEC")),
        "identifier": _known(reported.get("Identifier")),
        "vendor": _known(reported.get("Vendor Name")),
        "part_number": _known(reported.get("Vendor Part Number")),
        "medium": module_words.medium(kind),
        "temperature_c": next(iter(readings["temperature"]), None) if has_limits else None,
        "rx_power_dbm": (readings["rx power"] or None) if has_limits else None,
        "tx_power_dbm": (readings["tx power"] or None) if has_limits else None,
        "reports_alarms": has_limits,
        "alarms": alarms,
        "raw_ber": _ratio(reported.get("Raw Physical BER")),
        "effective_ber": _ratio(reported.get("Effective Physical BER")),
        "effective_errors": module_words.count(reported.get("Effective Physical Errors")),
        "counted_min": minutes if minutes is not None and minutes >= 0 else None,
    }


def _known(word: str | None) -> str | None:
    return word[:80] if word and word != "N/A" else None


def _ratio(word: str | None) -> float | None:
    """Return a bit error ratio, 0 where none was seen."""
    found = _BER.match(word or "")
    if found is None:
        return None
    if int(found.group(2)) > _NONE_SEEN:
        return 0.0
    return to_float(word)


def _readings(word: str) -> tuple[list[float], float | None, float | None]:
    found = _READINGS.match(word)
    if found is None:
        return [], None, None
    values = [to_float(one) for one in found.group(1).split(",")]
    if None in values:
        return [], None, None
    return [one for one in values if one is not None], to_float(found.group(2)), to_float(found.group(3))
