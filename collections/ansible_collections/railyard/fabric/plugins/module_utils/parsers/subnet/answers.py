# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Short answers about single ports (infiniband-diags): sminfo, `saquery -s`, `smpquery pkeys` and ibaddr."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from ...records.subnet import Problem, Source, SubnetManager
from . import statements
from .statements import Problems

_SMINFO = re.compile(
    r"\s*sminfo: sm lid ([0-9]{1,6}) sm guid 0x([0-9a-fA-F]{1,16}), activity count ([0-9]{1,12})"
    r" priority ([0-9]{1,2}) state ([0-9]{1,2}) (?:SMINFO_)?(\w+)\s*\Z"
)
_STATES = ("NOTACT", "DISCOVER", "STANDBY", "MASTER")
_RECORD = "PortInfoRecord dump:"
_FIELD = re.compile(r"\s*(\w+)\.+(\S+)\s*\Z")
_IS_SM = 1 << 1
# A unicast LID.
_MOST_LID = 0xBFFF
_PKEYS = re.compile(r"\s*([0-9]{1,5}):((?: 0x[0-9a-fA-F]{4}){8})\s*\Z")
_CAPACITY = re.compile(r"\s*([0-9]{1,5}) pkeys capacity for this port\s*\Z")
# What the tools print, some of them to standard output, before they give up: there is no answer.
_FAILED = re.compile(r"\s*\w+: iberror: failed: ")
_IBADDR = re.compile(r"\s*GID ([0-9a-fA-F:]{2,39})(?:\s|\Z)")


def parse_sminfo(text: str, file: str) -> tuple[SubnetManager | None, list[Problem]]:
    """Read what one subnet manager answered; None where there is no answer in the text."""
    problems = Problems(file)
    manager: SubnetManager | None = None
    for number, line in statements.numbered_lines(text):
        if _FAILED.match(line):
            continue
        found = _SMINFO.match(line)
        state = found.group(6) if found else None
        # The number and the word say the same: where they differ the line is damaged.
        if found is None or state not in _STATES or _STATES.index(state) != int(found.group(5)):
            problems.add_line(number, line)
            continue
        manager = SubnetManager(
            statements.guid(found.group(2)),
            statements.lid(found.group(1)),
            state,
            int(found.group(4)),
            int(found.group(3)),
            Source(file, number),
        )
    return manager, problems.close()


class ManagerPorts(NamedTuple):
    """The LIDs of the ports that have a subnet manager, as `saquery -s` lists them."""

    lids: tuple[int, ...]
    complete: bool
    problems: list[Problem]


def parse_saquery(text: str, file: str) -> ManagerPorts:
    """Read `saquery -s`.

    An answer that was cut on its way has a last record of arbitrary bytes, and the tool ends well: a record
    without the bit of a subnet manager, or whose LID is none, is damaged.
    """
    problems = Problems(file)
    lids: list[int] = []
    record: dict[str, str] | None = None
    in_section = complete = False

    def end_record(line: int) -> None:
        if record is None or not in_section:
            return
        lid = statements.lid(record.get("EndPortLid"))
        if lid is None or lid > _MOST_LID or not _is_manager(record):
            text = f"{file}: the record before line {line} is not one of a subnet manager"
            problems.add("damaged", text, line)
        elif lid not in lids:
            lids.append(lid)

    number = 0
    for number, line in statements.numbered_lines(text):
        heading, field = line.strip(), _FIELD.match(line)
        if heading in ("IsSM ports", "IsSMdisabled ports", _RECORD):
            end_record(number)
            record = {} if heading == _RECORD else None
            in_section = heading == "IsSM ports" or (in_section and heading == _RECORD)
            complete = complete or heading == "IsSMdisabled ports"
        elif field and record is not None:
            record[field.group(1)] = field.group(2)
        else:
            problems.add_line(number, line)
    end_record(number)
    if text.strip() and not complete:
        cut = f"{file}: the second list, `IsSMdisabled ports`, is missing, so the output is cut"
        problems.add("damaged", cut, 0)
    found = problems.close()
    return ManagerPorts(tuple(lids), complete and not found, found)


def _is_manager(record: dict[str, str]) -> bool:
    mask = re.match(r"0x([0-9a-fA-F]{1,8})\Z", record.get("capability_mask", ""))
    return mask is not None and bool(int(mask.group(1), 16) & _IS_SM)


def parse_pkeys(text: str, file: str) -> tuple[tuple[int, ...] | None, list[Problem]]:
    """Read a port's table of P_Keys without its zeros; None where the table is not whole."""
    problems = Problems(file)
    keys: list[int] = []
    capacity: int | None = None
    expected = 0
    for number, line in statements.numbered_lines(text):
        if _FAILED.match(line):
            return None, problems.close()
        row, end = _PKEYS.match(line), _CAPACITY.match(line)
        if row and int(row.group(1)) == expected and capacity is None:
            keys += [int(one, 16) for one in row.group(2).split()]
            expected += 8
        elif end and capacity is None:
            capacity = int(end.group(1))
        else:
            problems.add_line(number, line)
    if text.strip() and not problems.found and (capacity is None or len(keys) < capacity):
        shown = "no end" if capacity is None else f"{len(keys)} of {capacity} entries"
        problems.add("damaged", f"{file}: the table of P_Keys has {shown}", 0)
    found = problems.close()
    whole = capacity is not None and not found
    return (tuple(key for key in keys if key) if whole else None), found


class Address(NamedTuple):
    """The GID of the port that was read from, in its halves."""

    prefix: str
    port_guid: str


def parse_ibaddr(text: str) -> Address | None:
    """Read what ibaddr printed of the port that it was started on; None where it is not understood."""
    found = _IBADDR.match(text)
    try:
        value = int(ipaddress.IPv6Address(found.group(1))) if found else 0
    except ValueError:
        return None
    guid = statements.guid(f"{value & (2**64 - 1):x}")
    return Address(f"0x{value >> 64:016x}", guid) if guid and value >> 64 else None
