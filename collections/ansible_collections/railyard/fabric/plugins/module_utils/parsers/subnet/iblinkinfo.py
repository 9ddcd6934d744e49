# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iblinkinfo (infiniband-diags), with `-l` (a line for each port) and without (a block for each device).

With `-l` both ports have their GUID. In blocks the peer has its LID only, and an adapter's GUID is in the
lines of its ports. Formats: infiniband-diags/iblinkinfo.c of rdma-core 44 to 60.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from . import statements
from .statements import End, Found, Problems, Statement

_GUID = re.compile(r'\s*0x([0-9a-fA-F]{1,16})\s(")?')
_NUMBERS = r"\s+([0-9]+)\s+([0-9]+)\[.{0,4}?\] ==\("
_AFTER_NAME = re.compile('"' + _NUMBERS)
_PORT = re.compile(_NUMBERS)
_ARROW = ")==>"
_LINK = re.compile(
    r"\s*(?:([0-9]+X|undefined \([0-9]+\))\s+(.+?)\s+)?([A-Za-z?()0-9]+)/\s*([A-Za-z?()0-9]+)\s*\Z"
)
_PEER = re.compile(
    r'\s*(?:0x([0-9a-fA-F]{1,16})\s+)?([0-9]+)\s+([0-9]+)\[.{0,4}?\]\s+"(.*)"\s+\(([^"]*)\)\s*\Z'
)
_NO_PEER = re.compile(r'\s*(?:\[\s*\]\s+""\s+\(\s*\)|"Port not available")\s*\Z')
_SWITCH = re.compile(r"Switch:?\s+0x([0-9a-fA-F]{1,16})\s+(.*):\s*\Z")
_ADAPTER = re.compile(r"(CA|Router|\?\?): (.*):\s*\Z")


class _Block(NamedTuple):
    kind: str | None
    guid: str | None
    name: str


def parse(text: str, file: str) -> Found:
    """Read what iblinkinfo printed, in either form."""
    problems = Problems(file)
    read: list[Statement] = []
    block: _Block | None = None
    for number, line in statements.numbered_lines(text):
        head = _head(line)
        if head is not None:
            block = head
            continue
        statement = _port(line, number, block, problems)
        if statement is None:
            problems.add_line(number, line)
            # Of a head that is damaged the ports are not given to the device before it.
            block = block if "==(" in line else None
        else:
            read.append(statement)
    return Found(file, read, [], problems.close())


def _head(line: str) -> _Block | None:
    switch, adapter = _SWITCH.match(line), _ADAPTER.match(line)
    if switch:
        guid = statements.guid(switch.group(1))
        return _Block("switch", guid, switch.group(2)) if guid else None
    if adapter:
        return _Block(statements.kind_of(adapter.group(1), adapter.group(2)), None, adapter.group(2))
    return None


def _port(line: str, number: int, block: _Block | None, problems: Problems) -> Statement | None:
    found = _GUID.match(line)
    if found is not None and found.group(2):
        return _whole_line(line, number, found, problems)
    numbers = _PORT.match(line, found.end() - 1) if found else _PORT.match(line)
    if block is None or numbers is None or (found is None) == (block.guid is None):
        return None
    own = statements.guid(found.group(1)) if found else block.guid
    return _statement(line, numbers, number, (block.kind, own, block.name), problems)


def _whole_line(line: str, number: int, found: re.Match[str], problems: Problems) -> Statement | None:
    """Read a line of `-l`: the description ends where the numbers of the port begin.

    A description may look like that itself. A line that can be split in two ways is not read.
    """
    splits = list(_AFTER_NAME.finditer(line, found.end()))
    read = []
    for split in splits[:3]:
        name = line[found.end() : split.start()].strip()
        one = _statement(line, split, number, (None, statements.guid(found.group(1)), name), problems)
        if one is not None:
            read.append(one)
    return read[0] if len(read) == 1 else None


def _statement(
    line: str,
    numbers: re.Match[str],
    number: int,
    owner: tuple[str | None, str | None, str],
    problems: Problems,
) -> Statement | None:
    kind, guid, name = owner
    link_text, arrow, rest = line[numbers.end() :].partition(_ARROW)
    # `--switches-only` and others add settings in parentheses before the arrow.
    link = _LINK.match(re.sub(r"\) \(HOQ:[0-9]+ VL_Stall:[0-9]+\Z", "", link_text))
    port = statements.port_number(numbers.group(2))
    if not arrow or link is None or guid is None or port is None:
        return None
    peer: End | None = None
    could_be: tuple[str, ...] = ()
    if _NO_PEER.match(rest) is None:
        peer, could_be = _peer(rest)
        if peer is None:
            return None
    width, speed, state, physical = link.groups()
    lane = statements.lane_of_number(speed) if speed else None
    if speed and lane is None and "undefined" not in speed and "Extended" not in speed:
        problems.add_line(number, line, f"has the speed {speed[:20]!a}, which is not known")
    end = End(kind, port, None, guid, statements.lid(numbers.group(1)), name)
    return Statement(
        end,
        number,
        peer,
        width=statements.width(width),
        lane_gbps=lane,
        state=state,
        physical=physical,
        could_be=could_be,
    )


def _peer(rest: str) -> tuple[End | None, tuple[str, ...]]:
    found = _PEER.match(rest)
    number = statements.port_number(found.group(3)) if found else None
    if found is None or number is None:
        return None, ()
    guid, lid = statements.guid(found.group(1)), statements.lid(found.group(2))
    if guid is None and (lid is None or found.group(1)):
        return None, ()
    could_be = tuple(one.strip() for one in found.group(5).split("Could be ") if one.strip())
    return End(None, number, None, guid, lid, found.group(4)), could_be
