# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tools of infiniband-diags print to standard error: who did not answer, duplicates, refusals."""

from __future__ import annotations

import re
from typing import NamedTuple

from ...records.subnet import Problem
from . import statements
from .statements import Problems

_ROUTE = r"\(DR path slid [0-9]+; dlid [0-9]+; ([0-9]+(?:,[0-9]+)*)"
_UMAD = re.compile(rf"umad {_ROUTE}\s+Attr (0x[0-9a-fA-F]+):[0-9]+\) bad status [0-9]+")
_MAD = re.compile(rf"\bmad {_ROUTE}\s+Attr (0x[0-9a-fA-F]+):[0-9]+\) bad status (0x[0-9a-fA-F]+)")
_LID = re.compile(r"query failed on .*, Lid ([0-9]+) port ([0-9]+)\s*\Z")
_RPC = re.compile(
    r"_do_madrpc failed; dport \((?:Lid ([0-9]+)|DR path slid [0-9]+; dlid [0-9]+; ([0-9,]+))\)"
)
_DUPLICATE = re.compile(r"Duplicate (Port|Node): (?:Port|Node) with guid 0x([0-9a-fA-F]{1,16})")
_DENIED = re.compile(
    r"[Pp]ermission denied|[Cc]an't open UMAD port|Failed to open (?:'|port)|umad_init|SA_ERR_REQ_INVALID"
)
_NO_ADMINISTRATOR = re.compile(r"Query SA failed")
# What follows from another line.
_FOLLOWS = re.compile(r"Error Occurred when trying\s+to insert")
# The vendor's extension that many devices do not have.
_OPTIONAL = "0xff90"


class Silent(NamedTuple):
    """A request that was not answered: the ports of a direct route, or a LID and perhaps a port of it."""

    route: tuple[int, ...]
    lid: int | None
    port: int | None
    text: str
    line: int


class Messages(NamedTuple):
    """What was printed to standard error.

    Attributes:
        silent: requests without an answer.
        duplicates: GUIDs that two ports have, with the line's text and number.
        problems: the rest; `denied` where the tool may not do what was requested.
    """

    silent: list[Silent]
    duplicates: list[tuple[str, str, int]]
    problems: list[Problem]


def parse(text: str, file: str) -> Messages:
    """Read what a tool printed to standard error."""
    problems = Problems(file)
    silent: list[Silent] = []
    duplicates: list[tuple[str, str, int]] = []
    refused = False
    for number, line in statements.numbered_lines(text):
        duplicate = _DUPLICATE.search(line)
        guid = statements.guid(duplicate.group(2)) if duplicate else None
        unanswered = _unanswered(line, number)
        optional = _MAD.search(line) or _UMAD.search(line)
        if guid is not None:
            duplicates.append((guid, line.strip(), number))
        elif _FOLLOWS.search(line) or (optional and optional.group(2).lower() == _OPTIONAL):
            continue
        elif unanswered is not None:
            silent.append(unanswered)
        elif _NO_ADMINISTRATOR.search(line):
            text = f"{file}: the subnet administrator, which is part of the subnet manager, did not answer"
            problems.add("command", text, number)
        elif _DENIED.search(line):
            if not refused:
                problems.add("denied", _denial(file, line), number)
            refused = True
        elif not refused:
            problems.add_line(number, line, "was printed to standard error")
    return Messages(silent, duplicates, problems.close())


def _denial(file: str, line: str) -> str:
    return (
        f"{file}: the tool was refused: {statements.quote(line)}. It needs root or access to"
        " /dev/infiniband/umad*, and a port that is active"
    )


def _unanswered(line: str, number: int) -> Silent | None:
    umad, query, rpc = _UMAD.search(line), _LID.search(line), _RPC.search(line)
    text = line.strip()
    if umad or (rpc and rpc.group(2)):
        route = umad.group(1) if umad else rpc.group(2) if rpc else ""
        ports = [statements.port_number(one) for one in route.split(",")]
        return Silent(tuple(port for port in ports if port is not None), None, None, text, number)
    if query:
        port = statements.port_number(query.group(2))
        return Silent((), statements.lid(query.group(1)), port, text, number)
    if rpc:
        return Silent((), statements.lid(rpc.group(1)), None, text, number)
    return None
