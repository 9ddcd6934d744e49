# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read `ethtool -m NETDEV`: the description, readings and alarms of a module or cable.

SFF-8472 (SFP), SFF-8636 (QSFP) and CMIS (QSFP-DD, OSFP), as text and as the JSON of ethtool 6.14 and newer.
Sources: ethtool's qsfp.c, cmis.c, sfpdiag.c and module-common.c. Public outputs that were tried: QSFP28 SR4
and QSFP+ (text index 19454086016), QSFP28 CWDM4 without a link and with one (21333426086), QSFP-DD 400G XDR4
(19234460706), copper QSFP28 (45671528790), SFP+ without light (45398745301), passive SFP+ cable
(56102607159); JSON of QSFP28 (11718860503) and QSFP-DD (38523665571).

Flags of SFF-8636 and CMIS are latched: one may have been set when the fiber was plugged in. So each has its
reading and its limit, for the judge to compare.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .. import common
from ..common import to_float
from . import module_words

_PARENTHESES = re.compile(r"^\S+ \((.*)\)$")
_LANE = re.compile(r"^(.*?)\s*\((?:Channel|Chan) ([1-9][0-9]?)\)$")
_FLAG = re.compile(
    r"^(?:Laser|Module) (bias current|tx power|output power|rx power|temperature|voltage) "
    r"(high|low) (alarm|warning)( threshold)?$"
)
_READINGS = {
    "bias current": r"Laser (?:tx )?bias current",
    "tx power": r"Transmit avg optical power|Laser output power|Laser tx power",
    "rx power": r"(?:Laser r|R)x power|(?:Rcvr|Receiver) signal (?:avg|average|OMA|oma)(?: optical power)?",
    "temperature": r"Module temperature(?: measurement)?",
    "voltage": r"Module voltage(?: measurement)?",
}
_UNITS = {"bias current": "mA", "tx power": "dBm", "rx power": "dBm", "temperature": "C", "voltage": "V"}
_NUMBER = re.compile(r"(-?(?:inf|[0-9]{1,9}(?:\.[0-9]{1,9})?)) (mA|dBm|degrees C|V)\b")
_ON = {"On": True, "Off": False}
_MOST_LANES = 16
_JSON_TEXTS = {
    "Identifier description": "Identifier",
    "Vendor name": "Vendor name",
    "Vendor pn": "Vendor PN",
    "Transmitter technology description": "Transmitter technology",
    "Transceiver type": "Transceiver type",
}


class _Module:
    """One module while it is read."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}
        self.readings: dict[tuple[str, int | None], float] = {}
        self.limits: dict[tuple[str, str, str], float] = {}
        self.flags: dict[tuple[str, str, str, int | None], bool] = {}

    def output(self) -> dict[str, Any]:
        """Return what is known; an alarm for each flag that is on."""
        words = " ".join((*self.texts.get("Transmitter technology", []), *self._cables()))
        alarms = []
        for (what, side, level, lane), on in self.flags.items():
            if on:
                value = self.readings.get((what, lane), self.readings.get((what, None)))
                limit = self.limits.get((what, side, level))
                alarms.append(module_words.alarm(what, side, level, lane, value, limit, _UNITS[what]))
        return {
            "identifier": self._text("Identifier"),
            "vendor": self._text("Vendor name"),
            "part_number": self._text("Vendor PN"),
            "medium": module_words.medium(words),
            "temperature_c": self.readings.get(("temperature", None)),
            "rx_power_dbm": self._lanes("rx power"),
            "tx_power_dbm": self._lanes("tx power"),
            "reports_alarms": bool(self.flags),
            "alarms": alarms,
        }

    def _text(self, key: str) -> str | None:
        found = self.texts.get(key, [""])[0]
        inner = _PARENTHESES.match(found)
        return (inner.group(1) if inner else found)[:80] or None

    def _cables(self) -> Iterator[str]:
        """Yield the cable types of an SFP, which has no transmitter technology."""
        for one in self.texts.get("Transceiver type", []):
            if "Passive Cable" in one or "Copper Passive" in one:
                yield module_words.COPPER
        if "Passive Cu cmplnce." in self.texts or "Active Cu cmplnce." in self.texts:
            yield module_words.COPPER
        yield from self.texts.get("Laser wavelength", [])

    def _lanes(self, what: str) -> list[float] | None:
        found = [value for (name, _lane), value in self.readings.items() if name == what]
        return found or None


def parse(text: str) -> dict[str, Any]:
    """Parse what ethtool printed of one netdev's module.

    Returns:
        `identifier` (QSFP28 ...), `vendor`, `part_number`; `medium`, `copper` or `optical` as the module
        reports it, or None; `temperature_c`; `rx_power_dbm` and `tx_power_dbm`, one number per lane, None
        where there are none; `reports_alarms`, whether the module has alarms at all; `alarms`, those that are
        set, in the format of `module_words.alarm`.

    Raises:
        NotThisTool: it is something else, with ethtool's message where there is one.
    """
    module = _Module()
    if text.lstrip().startswith("["):
        _read_json(module, module_words.json_object(text))
        lines: list[str] = []
    else:
        lines = common.split_lines(text)
        for line in lines:
            if pair := module_words.pair(line):
                _read(module, *pair)
    if "Identifier" not in module.texts:
        raise module_words.refusal("no module of ethtool", lines)
    return module.output()


def _read(module: _Module, key: str, value: str) -> None:
    lane: int | None = None
    if numbered := _LANE.match(key):
        key, lane = numbered.group(1), int(numbered.group(2))
    if flag := _FLAG.match(key):
        what = flag.group(1).replace("output", "tx")
        side, level = flag.group(2), flag.group(3)
        if not flag.group(4) and value in _ON:
            module.flags[what, side, level, lane] = _ON[value]
        elif flag.group(4) and (number := _number(value, _UNITS[what])) is not None:
            module.limits[what, side, level] = number
        return
    if measured := _measured(key):
        if (number := _number(value, _UNITS[measured])) is not None:
            module.readings[measured, lane] = number
        return
    module.texts.setdefault(key, []).append(value)


def _measured(key: str) -> str | None:
    """Return the quantity that a line or a key of the JSON is about."""
    return next((what for what, names in _READINGS.items() if re.fullmatch(names, key)), None)


def _number(value: str, unit: str) -> float | None:
    """Return the number before a unit, of a power that before dBm."""
    for number, name in _NUMBER.findall(value):
        if name == unit or (name, unit) == ("degrees C", "C"):
            return module_words.NO_LIGHT_DBM if "inf" in number else to_float(number)
    return None


def _read_json(module: _Module, found: dict[str, Any]) -> None:
    for raw, value in found.items():
        # The names of the text in lower case with underscores; thresholds are below the quantity.
        key = raw.replace("_", " ").capitalize()
        if key in _JSON_TEXTS:
            module.texts[_JSON_TEXTS[key]] = [str(value)]
        elif what := _measured(key):
            for name, one in value.items() if isinstance(value, dict) else ():
                side, _bar, level = name.removesuffix("_threshold").partition("_")
                if (number := _json_number(what, one)) is not None:
                    module.limits[what, side, level] = number
            for lane, one in _json_lanes(value):
                if (number := _json_number(what, one)) is not None:
                    module.readings[what, lane] = number
        elif flag := _FLAG.match(key):
            for lane, one in _json_lanes(value):
                if isinstance(one, bool):
                    what = flag.group(1).replace("output", "tx")
                    module.flags[what, flag.group(2), flag.group(3), lane] = one


def _json_lanes(value: object) -> Iterator[tuple[int | None, object]]:
    if isinstance(value, dict):
        value = value.get("values")
    if isinstance(value, list):
        yield from enumerate(value[:_MOST_LANES], 1)
    else:
        yield None, value


def _json_number(what: str, value: object) -> float | None:
    number = to_float(value) if not isinstance(value, str) else None
    return module_words.dbm(number) if _UNITS[what] == "dBm" else number
