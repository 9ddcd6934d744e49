# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The partition file of opensm: its text, and the P_Key tables that ports have when it is in effect. Pure.

The grammar is that of opensm 3.3.23 (opensm(8), osm_prtn_config.c). Each line written here is a definition
that ends in `;`. Definitions of one P_Key are merged, lines are cut at 4,095 characters, and a line of `;`
alone is a parse error, which costs all partitions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..parsers.subnet.answers import parse_pkeys
from ..records import reader
from ..records.guid import normalize_guid
from ..records.partitions import (
    ALL,
    BOTH,
    DEFAULT_PKEY,
    FULL,
    FULL_BIT,
    LIMITED,
    Partition,
    parse_partitions,
    show_pkey,
)

HEADER = "# Managed by Railyard (role rdma_stack): change the inventory, not this file.\n"
# 100 members are 2,800 characters at most.
_MEMBERS_OF_LINE = 100
# By the number that IBTA gives an MTU of 4096 bytes; without it the broadcast group has 2048.
_MTU_4096 = "mtu=5"
_BOTH_ALLOWED = re.compile(r"^[ \t]*allow_both_pkeys[ \t]+(TRUE|true|1|yes)\b", re.MULTILINE)

#: Node -> rail -> GUID of its port.
Ports = Mapping[str, Mapping[str, str]]


class PartitionsError(Exception):
    """Partitions that cannot be written or did not take effect; the message says why, and what to do."""


class Intent(NamedTuple):
    """What the partitions are to be.

    Attributes:
        partitions: by P_Key, the default one first.
        ports: node -> rail -> GUID of its port, in one form.
        managers: GUIDs of the ports that opensm serves.
    """

    partitions: tuple[Partition, ...]
    ports: Ports
    managers: tuple[str, ...]

    def all_guids(self) -> dict[str, str]:
        """Return GUID -> `node rail` of all ports."""
        return {guid: f"{node} {rail}" for node, rails in self.ports.items() for rail, guid in rails.items()}


def allows_both(opensm_conf: str | None) -> bool:
    """Tell whether opensm's configuration lets a port be a full and a limited member at once."""
    return opensm_conf is not None and _BOTH_ALLOWED.search(opensm_conf) is not None


def read_intent(declared: object, ports: object, managers: Sequence[object], both_allowed: bool) -> Intent:
    """Read the declared partitions, the ports and the managers.

    Args:
        declared: `fabric.partitions`.
        ports: node -> rail -> GUID, as the nodes' facts have it.
        managers: GUIDs of the ports that opensm serves.
        both_allowed: whether opensm lets a port be a full and a limited member of one partition.

    Raises:
        PartitionsError: with all that is wrong.
    """
    found, wrong = parse_partitions(declared)
    problems = refuse(declared)
    known, wrong_ports = _read_ports(ports)
    problems += wrong_ports
    own = [guid for guid in map(normalize_guid, managers) if guid is not None]
    if len(own) != len(managers) or not own:
        problems.append(
            f"{list(managers)!r} are no GUIDs of opensm's ports. Fix: name them as `ibstat -p` does"
        )
    ordered = sorted(found.values(), key=lambda one: (one.pkey != DEFAULT_PKEY, one.pkey))
    if not wrong:
        problems += _missing_ports(ordered, known)
        if not both_allowed and any(BOTH in one.members.values() for one in ordered):
            problems.append(
                "partitions: opensm makes a member of membership both a full one only. Fix: write full, or "
                "`allow_both_pkeys TRUE` in /etc/opensm/opensm.conf"
            )
    if problems:
        raise PartitionsError(" | ".join(problems))
    return Intent(tuple(ordered), known, tuple(own))


def refuse(declared: object) -> list[str]:
    """Return what of partitions opensm cannot be given, whatever the nodes are, a sentence each."""
    found, wrong = parse_partitions(declared)
    problems = [f"{'.'.join(('partitions', *one.path))}: {one.message}. Fix: {one.fix}" for one in wrong]
    if not wrong and DEFAULT_PKEY not in found:
        problems.append(
            f"partitions: the default partition {show_pkey(DEFAULT_PKEY)} is not declared, and opensm would "
            "make all nodes limited members of it, which cannot talk to each other. Fix: declare it, as "
            "`0x7fff: {members: all}`, or with `membership: limited` where that is meant"
        )
    return problems


def _read_ports(ports: object) -> tuple[dict[str, dict[str, str]], list[str]]:
    """Read the nodes' ports, as the nodes reported them."""
    known: dict[str, dict[str, str]] = {}
    owners: dict[str, str] = {}
    problems = []
    try:
        told = reader.read(dict[str, dict[str, Any]], ports)
    except reader.RefusedError as error:
        fix = "Fix: write `{gpu01: {rail0: 0x506b4b0300a1b2c3}}`"
        return {}, [f"rdma_stack_partition_ports: {error}. {fix}"]
    for node, rails in told.items():
        known[node] = {}
        for rail, value in rails.items():
            guid, place = normalize_guid(value), f"{node} {rail}"
            if guid is None:
                problems.append(f"{place}: the node's answer is no GUID. Fix: look at its port with `ibstat`")
            elif owners.setdefault(guid, place) != place:
                problems.append(
                    f"{place}: {guid} is also the port of {owners[guid]}. Fix: look at both nodes"
                )
            else:
                known[node][rail] = guid
    return known, problems


def _missing_ports(partitions: Sequence[Partition], ports: Ports) -> Iterator[str]:
    named = {member for one in partitions for member in one.members if member != ALL}
    missing = sorted(name for name in named if normalize_guid(name) is None and not ports.get(name))
    if missing:
        names = ", ".join(missing[:20]) + (f" and {len(missing) - 20} more" if len(missing) > 20 else "")
        yield (
            f"{names}: the GUIDs of its ports are not known, so opensm would lock it out. Fix: include it in "
            "the run (no --limit), look whether it answers and has its driver, or name its ports in "
            "rdma_stack_partition_ports"
        )


def render(intent: Intent, mtu_4096: bool = False) -> str:
    """Write opensm's partition file."""
    return HEADER + "".join(
        f"{line}\n" for one in intent.partitions for line in _lines(one, intent, mtu_4096)
    )


def _lines(partition: Partition, intent: Intent, mtu_4096: bool) -> Iterator[str]:
    key = show_pkey(partition.pkey)
    head = f"{partition.name}={key}" if partition.name else key
    flags = [", ipoib", f", {_MTU_4096}" if mtu_4096 else ""] if partition.ipoib else []
    # Later definitions go before earlier ones: all, then nodes, then single ports, then opensm's own.
    groups: list[list[tuple[str, str]]] = [
        [("ALL", partition.members[ALL])] if ALL in partition.members else [],
        [
            (guid, membership)
            for member, membership in partition.members.items()
            for guid in intent.ports.get(member, {}).values()
        ],
        [
            (guid, membership)
            for member, membership in partition.members.items()
            if (guid := normalize_guid(member)) is not None
        ],
        [("SELF", FULL)] if partition.pkey == DEFAULT_PKEY else [],
    ]
    for group in groups:
        for start in range(0, len(group), _MEMBERS_OF_LINE):
            members = ", ".join(
                f"{who}={membership}" for who, membership in group[start : start + _MEMBERS_OF_LINE]
            )
            yield f"{head}{''.join(flags)} : {members} ;"
            flags = []


def make_tables(intent: Intent) -> dict[str, frozenset[int]]:
    """Return GUID of each known port -> the entries that its P_Key table is to have, with membership bits."""
    tables = {}
    for node, rails in intent.ports.items():
        for guid in rails.values():
            entries: set[int] = set()
            for one in intent.partitions:
                membership = one.members.get(guid, one.membership_of(node))
                if guid in intent.managers and one.pkey == DEFAULT_PKEY:
                    membership = FULL
                entries |= {one.pkey | FULL_BIT} if membership in (FULL, BOTH) else set()
                entries |= {one.pkey} if membership in (LIMITED, BOTH) else set()
            tables[guid] = frozenset(entries)
    return tables


def read_table(text: str) -> frozenset[int] | None:
    """Return the entries of a P_Key table as `smpquery pkeys` prints it; None where it is not whole."""
    entries, _problems = parse_pkeys(text, "smpquery pkeys")
    return None if entries is None else frozenset(entries)


def show_table(entries: frozenset[int]) -> str:
    """Write the entries of a table: `0x7fff limited, 0x0010 full`."""
    each = sorted(entries, key=lambda entry: (entry & ~FULL_BIT, entry))
    words = [f"{show_pkey(one & ~FULL_BIT)} {FULL if one & FULL_BIT else LIMITED}" for one in each]
    return ", ".join(words) or "none"


def compare(intent: Intent, read: Mapping[str, Any]) -> list[str]:
    """Return what differs between the tables that were read and those that are meant, a sentence each.

    Args:
        intent: what is meant.
        read: GUID -> entries; a port that is missing or None has not answered, and says nothing.
    """
    names = intent.all_guids()
    wanted = make_tables(intent)
    return [
        f"{names[guid]} ({guid}) has {show_table(entries)}, and is to have {show_table(wanted[guid])}"
        for guid, entries in read.items()
        if entries is not None and entries != wanted[guid]
    ]
