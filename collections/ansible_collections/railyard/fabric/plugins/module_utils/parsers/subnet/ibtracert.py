# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path between two ports, as the switches' forwarding tables have it: `ibtracert`, with `-n` or without.

Each line of a hop names the port by which the device before it sends, and the port at which the next device
receives. The GUID there is that of the port, in the first and the last line it is that of the device.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...records.subnet import PortKey
from ...records.subnet_capture import Command
from . import statements

FILE = re.compile(r"ibtracert-([0-9]{1,5})-([0-9]{1,5})\.txt\Z")
_GUID = r"\{0x([0-9a-fA-F]{1,16})\}"
_END = re.compile(
    rf"(From|To)(?: [a-z ?]{{1,12}})? {_GUID}(?:\[([0-9]{{1,3}})\]\s*\Z| portnum ([0-9]{{1,3}}) )"
)
_HOP = re.compile(
    rf"\[([0-9]{{1,3}})\] -> (?:[a-z ?]{{1,12}} port )?{_GUID}\[([0-9]{{1,3}})\](?:\s*\Z| lid [0-9])"
)
# What the tool prints to standard output before it gives up.
_FAILED = re.compile(r"\S*ibtracert: iberror: failed: ")
_WARNING = re.compile(r"ibwarn: \[[0-9]+\] (?:find_route|get_route): (.+)")
# ibtracert.c: MAXHOPS.
_MOST_HOPS = 63


class Hop(NamedTuple):
    """A link that the path takes: the port that sends, and the GUID and number of the port that receives."""

    out: int
    port_guid: str
    number: int


class Trace(NamedTuple):
    """What was traced between two LIDs.

    Attributes:
        source_lid: the LID that sends.
        target_lid: the LID that receives.
        start: the port that sends; None where the tool did not come so far.
        hops: the links, as far as they were printed.
        end: the port at which the path ended; None where it did not come so far.
        problem: why the path is not known to its end; None where it is.
    """

    source_lid: int
    target_lid: int
    start: PortKey | None
    hops: tuple[Hop, ...]
    end: PortKey | None
    problem: str | None


def parse(command: Command) -> Trace | None:
    """Read the output of one trace; None where the command is another one."""
    file = FILE.match(command.file)
    if file is None:
        return None
    start = end = problem = None
    hops: list[Hop] = []
    for number, line in statements.numbered_lines(command.stdout):
        if _FAILED.match(line):
            break
        ends, hop = _END.match(line), _HOP.match(line)
        key = _read_key(ends.group(2), ends.group(3) or ends.group(4)) if ends else None
        step = _read_hop(hop) if hop else None
        if key and ends and ends.group(1) == "From" and start is None:
            start = key
        elif key and ends and ends.group(1) == "To" and start is not None and end is None:
            end = key
        elif step and start is not None and end is None and len(hops) < _MOST_HOPS:
            hops.append(step)
        else:
            problem = f"line {number} is not understood: {statements.quote(line)}"
            break
    problem = problem or _find_problem(command, end)
    return Trace(int(file.group(1)), int(file.group(2)), start, tuple(hops), end, problem)


def _read_key(guid: str, number: str) -> PortKey | None:
    found, port = statements.guid(guid), statements.port_number(number)
    return PortKey(found, port) if found is not None and port is not None else None


def _read_hop(match: re.Match[str]) -> Hop | None:
    out, key = statements.port_number(match.group(1)), _read_key(match.group(2), match.group(3))
    return Hop(out, key.guid, key.number) if out is not None and key is not None else None


def _find_problem(command: Command, end: PortKey | None) -> str | None:
    """Return why there is no complete path: the tool's own reason where it gave one."""
    if command.timed_out:
        if not command.seconds:
            return "there was no time left for it"
        return f"ibtracert did not end in {command.seconds:.0f} s"
    if end is not None and not command.rc:
        return None
    reasons = _WARNING.findall(command.stderr)[:1] or command.stderr.strip().splitlines()[:1]
    if reasons:
        return f"ibtracert: {statements.quote(reasons[0])}"
    return f"ibtracert ended with exit status {command.rc}" if command.rc else "the output is cut"
