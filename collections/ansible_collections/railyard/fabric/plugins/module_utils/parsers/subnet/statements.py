# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the parsers of one tool's output share: statements about ports, and words for rates and names.

The tools name a port by the GUID of the port (`ibnetdiscover -p`, `iblinkinfo`), by the GUID of its device
(the topology file, `ibdiagnet2.db_csv`), or by its LID. A statement keeps whatever was printed; `merge.py`
finds out what is the same port.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ...records.subnet import LANE_GBPS, WIDTHS, Problem, Source
from ..common import whole_lines

# No tool prints longer lines: a description has 64 bytes, and a line has two of them at most.
_LONGEST_LINE = 2048
_LONGEST_QUOTE = 80
# After so many lines that are not understood it is another tool's text.
MOST_PROBLEMS = 50
_MOST_LID = 0xFFFF
_MOST_PORT = 254
_NEAR = 0.005
_SHARP = "Aggregation Node"


class End(NamedTuple):
    """A port as one line names it; None for what the line does not tell."""

    kind: str | None
    number: int
    device_guid: str | None = None
    port_guid: str | None = None
    lid: int | None = None
    name: str | None = None


class Statement(NamedTuple):
    """What one line says of a port; no peer where the line says that there is none."""

    end: End
    line: int
    peer: End | None = None
    width: int | None = None
    lane_gbps: float | None = None
    state: str | None = None
    physical: str | None = None
    could_be: tuple[str, ...] = ()


class DeviceLine(NamedTuple):
    """What one block says of a device."""

    guid: str
    kind: str
    name: str | None
    line: int
    port_guid: str | None = None
    system_guid: str | None = None
    lid: int | None = None


class Found(NamedTuple):
    """What one text says.

    Attributes:
        file: the text's name.
        statements: about ports, in the order of the text.
        devices: about devices.
        problems: what was not understood.
        names_all_links: a port of one of `devices` that has no statement has no link.
        names_both_ends: a port that is named as a peer has a line of its own, unless the text is cut.
        start: the device and port GUID of the node that was read from.
    """

    file: str
    statements: list[Statement]
    devices: list[DeviceLine]
    problems: list[Problem]
    names_all_links: bool = False
    names_both_ends: bool = False
    start: tuple[str, str] | None = None


class Problems:
    """Collects what is not understood in one text; of very many lines only the first are named."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._more = 0
        self.found: list[Problem] = []

    def add(self, kind: str, text: str, line: int) -> None:
        """Add one."""
        if len(self.found) < MOST_PROBLEMS:
            self.found.append(Problem(kind, text, Source(self._file, line)))
        else:
            self._more += 1

    def add_line(self, line: int, text: str, why: str = "is not understood") -> None:
        """Add a line that is not understood."""
        self.add("line", f"{self._file}, line {line}: {quote(text)} {why}", line)

    def close(self) -> list[Problem]:
        """Return them all."""
        if self._more:
            more = Problem("line", f"{self._file}: {self._more} further problems", Source(self._file, 0))
            self.found.append(more)
            self._more = 0
        return self.found


def quote(text: str) -> str:
    """Return a text of a device or tool as visible characters, and no longer than a message may be."""
    shown = text.strip()
    return ascii(shown[:_LONGEST_QUOTE] + ("..." if len(shown) > _LONGEST_QUOTE else ""))


def numbered_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each line that is not blank, with its number from 1."""
    for number, line in enumerate(whole_lines(text), 1):
        if line and not line.isspace():
            yield number, line[:_LONGEST_LINE]


def guid(digits: str | None) -> str | None:
    """Return a GUID of hexadecimal digits with or without `0x` in the one form; None for 0 or none."""
    if not digits:
        return None
    bare = digits[2:] if digits[:2] in ("0x", "0X") else digits
    try:
        value = int(bare, 16) if len(bare) <= 16 else 0
    except ValueError:
        return None
    return f"0x{value:016x}" if value > 0 else None


def lid(digits: str | None) -> int | None:
    """Return a LID; None for 0, which no subnet manager gives, and for what cannot be one."""
    value = int(digits) if digits and len(digits) <= 6 else 0
    return value if 0 < value <= _MOST_LID else None


def port_number(digits: str | None) -> int | None:
    """Return a port's number; None for what cannot be one."""
    value = int(digits) if digits and len(digits) <= 4 else -1
    return value if 0 <= value <= _MOST_PORT else None


def width(digits: str | None) -> int | None:
    """Return the lanes of `4x`; None for `??` and for what no link has."""
    bare = (digits or "").rstrip("xX")
    value = int(bare) if bare.isdigit() and len(bare) <= 2 else 0
    return value if value in WIDTHS else None


def lane_of_word(word: str | None) -> float | None:
    """Return the signalling rate of `EDR` in Gbit/s; None for `???` and unknown words."""
    return LANE_GBPS.get(word or "")


def lane_of_number(text: str) -> float | None:
    """Return the signalling rate of `25.78125 Gbps` or `10.0 Gbps (FDR10)`; None for anything else.

    Older tools round it: `25.78 Gbps` and `14.0625 Gbps` are both found.
    """
    if "FDR10" in text:
        return LANE_GBPS["FDR10"]
    found = re.match(r"\s*([0-9]{1,4}(?:\.[0-9]{1,6})?) Gbps\s*\Z", text)
    if found is None:
        return None
    value = float(found.group(1))
    nearest = min(LANE_GBPS.values(), key=lambda one: abs(one - value))
    return nearest if abs(nearest - value) <= nearest * _NEAR else None


def kind_of(word: str | None, name: str | None = None, device_id: int | None = None) -> str | None:
    """Return the kind of a device by the tool's word for it (`SW`, `Ca`, `S`); None where it has none.

    A SHARP aggregation node reports itself as an adapter; its description or its device ID tells.
    """
    kind = _KINDS.get((word or "").lower())
    if kind == "adapter" and (device_id == _SHARP_DEVICE or _SHARP in (name or "")):
        return "aggregation"
    return kind


# 53001 is "Aggregation Node" in NVIDIA's list of device IDs (MFT).
_SHARP_DEVICE = 53001
_KINDS = {
    "sw": "switch",
    "switch": "switch",
    "s": "switch",
    "ca": "adapter",
    "hca": "adapter",
    "h": "adapter",
    "rt": "router",
    "router": "router",
    "r": "router",
}
