# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibqueryerrors (infiniband-diags): error counters of all ports, by the GUID of the port."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...records.subnet import Problem
from . import statements
from .statements import Problems

_HEAD = re.compile(r'\s*Errors for (?:0x[0-9a-fA-F]{1,16} )?"')
_ROW = re.compile(r"\s*GUID 0x([0-9a-fA-F]{1,16}) port ([0-9]+|ALL):((?:\s*\[\w+ == [0-9]+[^\]]*\])+)\s*\Z")
_COUNTER = re.compile(r"\[(\w+) == ([0-9]{1,20})(?: \([^)\]]*\))?\]")
_CHECKED = re.compile(
    r"##\s+(?:Summary: )?([0-9]+) (nodes|ports) checked, ([0-9]+) (?:bad nodes found|ports have errors)"
)
_THRESHOLDS = re.compile(r"## (?:Thresholds:|\(null\))(.*)\Z")
_SKIPPED = re.compile(r"##\s+(?:Suppressed:|[0-9]+ PMA query failures)|\s*Link info:|##\s*\Z")
_PMA = re.compile(r"##\s+([0-9]+) PMA query failures")
# Traffic, which `--data` adds.
_DATA = re.compile(r"Port(?:Unicast|Multicast)?(?:Xmit|Rcv)(?:Data|Pkts)\Z|Data Counters for")


class Errors(NamedTuple):
    """What ibqueryerrors printed.

    Attributes:
        counters: GUID of the port and number of the port -> name -> value.
        lines: where each is in the text.
        complete: all ports were read, and all counters above 0 were printed.
        problems: what was not understood.
    """

    counters: dict[tuple[str, int], dict[str, int]]
    lines: dict[tuple[str, int], int]
    complete: bool
    problems: list[Problem]


def parse(text: str, file: str) -> Errors:
    """Read the counters of each port; the sums over a device (`port ALL`) are dropped.

    By default the tool prints only what is above the thresholds of a file of its own, and then a port that it
    does not name says nothing: the reading is not complete.
    """
    problems = Problems(file)
    counters: dict[tuple[str, int], dict[str, int]] = {}
    lines: dict[tuple[str, int], int] = {}
    ends: dict[str, int] = {}
    complete = True
    in_data = False
    for number, line in statements.numbered_lines(text):
        found = _CHECKED.match(line)
        if found:
            ends[found.group(2)] = int(found.group(3)[:9])
        elif _HEAD.match(line) or line.startswith("Data Counters for "):
            in_data = not _HEAD.match(line)
        elif _THRESHOLDS.match(line) or _SKIPPED.match(line):
            complete = complete and not _hides(line)
        elif not in_data:
            key, read = _row(line)
            if read is None:
                problems.add_line(number, line)
                complete = False
            elif key is not None:
                counters.setdefault(key, {}).update(read)
                lines.setdefault(key, number)
    if "ports" not in ends:
        complete = False
        problems.add("damaged", f"{file}: the summary at the end is missing, so the output is cut", 0)
    return Errors(counters, lines, complete, problems.close())


def _hides(line: str) -> bool:
    thresholds, failures = _THRESHOLDS.match(line), _PMA.match(line)
    if failures:
        return int(failures.group(1)[:9]) > 0
    if thresholds:
        return re.search(r"= ?0*[1-9]", thresholds.group(1)) is not None
    return line.startswith("## Suppressed:") and bool(line.partition(":")[2].strip())


def _row(line: str) -> tuple[tuple[str, int] | None, dict[str, int] | None]:
    """Return the port and its counters; no port for a sum; no counters for what is not understood."""
    found = _ROW.match(line)
    if found is None:
        return None, None
    guid, rest = statements.guid(found.group(1)), found.group(3)
    read = {name: int(value) for name, value in _COUNTER.findall(rest) if not _DATA.match(name)}
    if guid is None or _COUNTER.sub("", rest).strip():
        return None, None
    if found.group(2) == "ALL":
        return None, read
    number = statements.port_number(found.group(2))
    return ((guid, number), read) if number is not None else (None, None)
