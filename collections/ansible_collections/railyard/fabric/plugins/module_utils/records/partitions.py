# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The partitions of an InfiniBand subnet as an inventory declares them (`fabric.partitions`), as types.

A P_Key is 15 bits that name a partition, and the bit 0x8000 of a port's table entry that tells a full member.
Two limited members of a partition cannot talk to each other in it (InfiniBand Architecture Specification,
volume 1, 10.9.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, NamedTuple, Optional

from . import reader
from .guid import normalize_guid
from .reader import Matches

MEMBERSHIPS = FULL, LIMITED, BOTH = ("full", "limited", "both")
#: The member that stands for every port of the subnet.
ALL = "all"
#: The partition that every subnet has.
DEFAULT_PKEY = 0x7FFF
FULL_BIT = 0x8000
KEYS = ("name", "members", "membership", "ipoib")

# opensm keeps 31 characters of a name, which must hold none of its delimiters (`=`, `,`, `:`, `;`, `#`).
_Name = Annotated[str, Matches("[A-Za-z_][A-Za-z0-9_.-]{0,30}")]
_MOST_SHOWN = 80
# JSON makes a text of a key that is a number, so that decimal digits are one as well.
_Number = Annotated[str, Matches("0[xX][0-9A-Fa-f]{1,8}|[1-9][0-9]{0,7}")]
# What YAML may have in a mapping; keys may be numbers.
_Mapping = dict[Any, Any]


class Partition(NamedTuple):
    """A partition.

    Attributes:
        pkey: its P_Key without the membership bit.
        name: what it is called in logs; None without a name.
        members: node, GUID of a port (`0x…`), or `all` -> full, limited or both.
        ipoib: whether IPoIB may run in it: the subnet manager makes its broadcast group.
    """

    pkey: int
    name: Optional[str]
    members: dict[str, str]
    ipoib: bool = True

    def membership_of(self, node: str) -> Optional[str]:
        """Return a node's membership: its own, else that of all; None where it is no member."""
        return self.members.get(node, self.members.get(ALL))


class PartitionProblem(NamedTuple):
    """What is wrong with a declaration: keys that lead there from `partitions`, the message, and the fix."""

    path: tuple[str, ...]
    message: str
    fix: str


def _show(value: object) -> str:
    """Write a value for a message, without printing a page."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


def show_pkey(pkey: int) -> str:
    """Write a P_Key as tools and people do: `0x7fff`."""
    return f"0x{pkey:04x}"


def show_key(key: object) -> str:
    """Write the key of a partition, which YAML may have read as a number, and JSON made a text of that."""
    number = _read_number(key)
    return str(key) if number is None or number < 0 else show_pkey(number)


def _read_number(value: object) -> Optional[int]:
    text = reader.read_if(_Number, value)
    return int(text, 0) if text is not None else reader.read_if(int, value)


def read_pkey(value: object) -> tuple[Optional[int], str]:
    """Return a P_Key without membership bit, or None and what is wrong with the value."""
    number = _read_number(value)
    if number is None:
        return None, f"{_show(value)} is no P_Key"
    if FULL_BIT < number <= 0xFFFF:
        bare = show_pkey(number & ~FULL_BIT)
        return None, f"{show_pkey(number)} has the membership bit (0x8000) set; the partition is {bare}"
    if not 1 <= number <= DEFAULT_PKEY:
        return None, f"{number:#x} is not between 0x0001 and 0x7fff"
    return number, ""


def parse_partitions(declared: object) -> tuple[dict[int, Partition], list[PartitionProblem]]:
    """Read `fabric.partitions`: P_Key -> partition, and all that is wrong with the rest.

    Every port is at least a limited member of the default partition (opensm(8), osm_prtn.c).
    """
    found: dict[int, Partition] = {}
    problems: list[PartitionProblem] = []
    if declared is None:
        return found, problems
    partitions = reader.read_if(_Mapping, declared)
    if not partitions:
        fix = "map P_Keys to partitions, as `partitions: {0x7fff: {members: all}}`"
        return found, [PartitionProblem((), "it is no mapping of P_Keys to partitions", fix)]
    for key, written in partitions.items():
        value = reader.read_if(_Mapping, written)
        path = (show_key(key),)
        pkey, wrong = read_pkey(key)
        if pkey is None:
            fix = "write the 15 bits of the P_Key, 0x0001 to 0x7fff; `members` says who is a full member"
            problems.append(PartitionProblem(path, wrong, fix))
        elif pkey in found:
            message = f"{show_pkey(pkey)} is there twice, as a number and as text"
            problems.append(PartitionProblem(path, message, "keep one of the two"))
        elif value is None:
            message = f"it is {_show(written)}, not a mapping"
            problems.append(PartitionProblem(path, message, "write `{members: all}`, or name the members"))
        else:
            own = list(_wrong_keys(value))
            members, wrong_members = _read_members(value.get("members"), value.get("membership"))
            own += wrong_members
            problems += [problem._replace(path=(*path, *problem.path)) for problem in own]
            if not own:
                if pkey == DEFAULT_PKEY:
                    members.setdefault(ALL, LIMITED)
                ipoib = value.get("ipoib")
                found[pkey] = Partition(pkey, value.get("name"), members, ipoib is None or ipoib)
    return found, problems


def _wrong_keys(value: Mapping[Any, Any]) -> Iterator[PartitionProblem]:
    for key in value:
        if key not in KEYS:
            fix = "known keys: {}".format(", ".join(KEYS))
            yield PartitionProblem((str(key),), f"unknown key {_show(key)}", fix)
    name, membership, ipoib = (value.get(key) for key in ("name", "membership", "ipoib"))
    if name is not None and reader.read_if(_Name, name) is None:
        fix = "write a letter, then letters, digits, `_`, `-`, `.`, 31 characters at most"
        yield PartitionProblem(("name",), f"{_show(name)} is no name of a partition", fix)
    if membership is not None and membership not in MEMBERSHIPS:
        yield _no_membership(("membership",), membership)
    if ipoib is not None and reader.read_if(bool, ipoib) is None:
        message = f"{_show(ipoib)} is neither true nor false"
        yield PartitionProblem(("ipoib",), message, "write true or false")


def _no_membership(path: tuple[str, ...], value: object) -> PartitionProblem:
    return PartitionProblem(path, f"{_show(value)} is no membership", "write full, limited or both")


def _read_members(declared: object, membership: object) -> tuple[dict[str, str], list[PartitionProblem]]:
    """Read who is in a partition: `all`, a list of members, or a mapping of members to memberships."""
    default = str(membership) if membership in MEMBERSHIPS else FULL
    pairs: Iterable[tuple[object, object]]
    if declared == ALL:
        pairs = [(ALL, None)]
    elif mapping := reader.read_if(_Mapping, declared):
        pairs = mapping.items()
    elif listed := reader.read_if(list[Any], declared):
        pairs = [(one, None) for one in listed]
    else:
        fix = "write `members: all`, a list of nodes, or `members: {gpu01: full, gpu02: limited}`"
        return {}, [PartitionProblem(("members",), "it names no member", fix)]
    members: dict[str, str] = {}
    problems = []
    for written, own in pairs:
        path = ("members", str(written))
        member = normalize_guid(written) or reader.read_if(str, written)
        if member is None:
            message = f"{_show(written)} is neither a node nor a port's GUID"
            problems.append(PartitionProblem(path, message, "name a node of the inventory, a GUID, or all"))
        elif member in members:
            problems.append(PartitionProblem(path, f"{member} is there twice", "keep one of the two"))
        elif own is not None and own not in MEMBERSHIPS:
            problems.append(_no_membership(path, own))
        else:
            members[member] = default if own is None else str(own)
    return members, problems
