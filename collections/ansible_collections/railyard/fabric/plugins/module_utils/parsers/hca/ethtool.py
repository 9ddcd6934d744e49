# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ethtool IF and ethtool -i IF, one or both, of one netdev or several."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_int
from . import state

_SETTINGS = re.compile(r"^\s*Settings for (\S{1,80}):\s*$")
_BEGIN = re.compile(r"Settings for \S{1,80}:\s*$|driver: ")
_PAIR = re.compile(r"^\s*([A-Za-z][A-Za-z -]{1,40}):\s*(.*?)\s*$")
_SPEED = re.compile(r"([0-9]{1,9})Mb/s\Z")
_KEYS = ("driver", "version", "firmware", "bus", "speed_mbps", "link_detected")
_INFO = {"driver": "driver", "version": "version", "firmware-version": "firmware", "bus-info": "bus"}
_TROUBLE = (
    ("no_device", re.compile(r"No such device|No such file or directory|bad command line argument", re.I)),
    ("not_supported", re.compile(r"Operation not supported|No data available", re.I)),
    ("permission", re.compile(r"Operation not permitted", re.I)),
)
_OWN_MESSAGE = re.compile(r"^(?:netlink error|Cannot get |ethtool: )", re.I)


class _Netdev:
    """One netdev while it is read."""

    def __init__(self) -> None:
        self.output: dict[str, Any] = dict.fromkeys(_KEYS)
        self.has_settings = self.has_info = False
        self.settings_end = self.info_end = False
        # A repeated field belongs to another netdev, after a truncation.
        self.has_twice = False

    def is_complete(self) -> bool:
        """Return whether the last lines, which ethtool always prints, are present."""
        return (
            not self.has_twice and self.settings_end >= self.has_settings and self.info_end >= self.has_info
        )

    def read(self, key: str, value: str) -> None:
        out = self.output
        field = _INFO.get(key, {"Speed": "speed_mbps", "Link detected": "link_detected"}.get(key, ""))
        self.has_twice = self.has_twice or out.get(field) is not None
        if key in _INFO:
            self.has_info = True
            out[_INFO[key]] = value if value and value != "N/A" else None
        elif key.startswith("supports-"):
            self.info_end = self.info_end or (key == "supports-priv-flags" and value in ("yes", "no"))
        elif key == "Speed":
            speed = _SPEED.match(value)
            out["speed_mbps"] = to_int(speed.group(1)) if speed else None
        elif key == "Link detected":
            word = value.split(" ")[0]
            out["link_detected"] = {"yes": True, "no": False}.get(word)
            self.settings_end = out["link_detected"] is not None


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ethtool with no option or with -i.

    Args:
        text: What ethtool printed, one call or several.

    Returns:
        The common object; one output per netdev, an unknown speed is None.

    Raises:
        NotThisTool: There are neither settings, nor driver information, nor a message of ethtool.
    """
    lines = common.split_lines(text)
    found: list[_Netdev] = []
    problem: dict[str, str] | None = None
    ours = False
    for line in lines:
        pair = _PAIR.match(line)
        problem = problem or state.glued(line, _BEGIN)
        starts_info = pair is not None and pair.group(1) == "driver" and not line.startswith((" ", "\t"))
        starts_settings = bool(_SETTINGS.match(line))
        if starts_info or starts_settings:
            last = found[-1] if found else None
            if last is None or (last.has_info if starts_info else last.has_settings):
                found.append(_Netdev())
            found[-1].has_settings |= starts_settings
        reported = common.trouble(_TROUBLE, line[:200], line)
        if reported or _OWN_MESSAGE.match(line):
            ours = ours or bool(_OWN_MESSAGE.match(line))
            problem = problem or reported or error("tool_error", line)
        elif found and pair:
            found[-1].read(pair.group(1), pair.group(2))
    if not found and not ours:
        raise common.refusal("no settings or driver of ethtool", lines)
    if problem is None and not all(one.is_complete() for one in found):
        problem = error("truncated", "the lines that end ethtool's output are missing")
    warnings: list[str] = []
    if problem and problem["class"] == "permission" and found and all(one.is_complete() for one in found):
        # Only Wake-on-LAN needs root; everything else is complete.
        warnings, problem = [problem["message"]], None
    return common.result("ethtool", [one.output for one in found], problem, warnings)
