# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Shared by the parsers of optical modules and FEC: lines, messages, limits and alarms."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from .. import common

COPPER, OPTICAL = "copper", "optical"
#: The value of a lane without light: SFF-8636 and CMIS count in steps of 0.1 uW, and ethtool prints 0 as
#: `-inf dBm`.
NO_LIGHT_DBM = -40.0
_LONGEST_NAME = 60

_MESSAGE = re.compile(r"netlink error|Cannot get |^ethtool: |-E-|not found|not supported|not permitted", re.I)
_OPTICAL = re.compile(r"\b[0-9]+(?:\.[0-9]+)? ?nm\b|\boptical\b|\bVCSEL\b", re.I)


def refusal(expected: str, lines: list[str]) -> common.NotThisTool:
    """Return the error of a text without the expected content, with the tool's message if there is one."""
    reported = [" ".join(line.split()) for line in lines if _MESSAGE.search(line[:400])]
    if reported:
        return common.NotThisTool("; ".join(dict.fromkeys(reported))[:200])
    return common.refusal(expected, lines)


def pair(line: str) -> tuple[str, str] | None:
    """Return name and value of a line like `Vendor name    : FS`; None for any other line."""
    key, colon, value = line.partition(":")
    key = " ".join(key.split())
    return (key, value.strip()) if colon and key[:1].isalpha() and len(key) <= _LONGEST_NAME else None


def json_object(text: str) -> dict[str, Any]:
    """Return the one object of ethtool's JSON.

    ethtool 6.14 and 6.15 write `module_temperature` and `module_voltage` twice in one object, first the
    reading, then the limits: both are kept, the first under its later name with `_measurement`.

    Raises:
        NotThisTool: it is no list of one object.
    """

    def join(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found and not isinstance(found[key], dict) and isinstance(value, dict):
                found[f"{key}_measurement"] = found[key]
            found[key] = value
        return found

    try:
        found = json.loads(text, object_pairs_hook=join)
    except (ValueError, RecursionError) as error:
        raise common.NotThisTool(f"no JSON: {str(error)[:80]}") from error
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        raise common.NotThisTool("no list of one object")
    return dict(found[0])


def count(value: object) -> int | None:
    """Read a count; one below zero is none."""
    number = common.to_int(value)
    return number if number is not None and number >= 0 else None


def medium(words: str) -> str | None:
    """Return whether a module reports `copper` or `optical`; None for neither."""
    if "copper" in words.lower():
        return COPPER
    return OPTICAL if _OPTICAL.search(words) else None


def dbm(milliwatts: float | None) -> float | None:
    """Return a power in dBm; none at all is `NO_LIGHT_DBM`."""
    if milliwatts is None or milliwatts < 0:
        return None
    return round(10 * math.log10(milliwatts), 2) if milliwatts > 0 else NO_LIGHT_DBM


def alarm(
    what: str, side: str, level: str, lane: int | None, value: float | None, limit: float | None, unit: str
) -> dict[str, Any]:
    """Return one alarm or warning of a module.

    Args:
        what: `rx power`, `tx power`, `bias current`, `temperature` or `voltage`.
        side: `high` or `low`.
        level: `alarm` or `warning`.
        lane: the lane, from 1; None for a value of the whole module.
        value: the reading.
        limit: the module's limit.
        unit: the unit of both.
    """
    return {
        "what": what,
        "side": side,
        "level": level,
        "lane": lane,
        "value": value,
        "limit": limit,
        "unit": unit,
    }
