# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: each port is in the partitions that the inventory declares, as the member that it declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.records.partitions import (
    DEFAULT_PKEY,
    FULL,
    FULL_BIT,
    LIMITED,
    Partition,
    show_pkey,
)
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of

_SAYS = {
    "pkey_limited": "limited member, declared full",
    "pkey_full": "full member, declared limited",
    "pkey_missing": "not a member, declared {}",
    "pkey_extra": "a member, declared is none",
}


def check_partitions(view: View) -> tuple[list[Finding], list[str]]:
    """Return ports whose P_Key tables are not as declared, and what has no verdict."""
    declared, tables = view.expected.partitions, view.reading.pkeys
    if declared is None:
        if tables is None:
            return [], ["Partitions are neither declared nor read."]
        return list(_find_odd(view, tables)), ["The inventory declares no partitions."]
    if tables is None:
        text = "the inventory declares partitions, and no P_Key table was read"
        return [build_finding("subnet_unread", "unmeasured", text)], []
    ports = {
        place_of(one): key
        for one in view.expected.ports
        if not one.absent and (key := view.port_of(place_of(one))) is not None
    }
    read = {place: key for place, key in ports.items() if key in tables}
    findings = list(_report_unread(view, ports, read))
    default = _find_default(view, declared, read, tables)
    if default is not None:
        return [default, *findings], []
    found: dict[tuple[str, int, str], list[Place]] = {}
    for place, key in read.items():
        for cause, pkey, wanted in _compare(view, declared, place, key, tables[key]):
            found.setdefault((cause, pkey, wanted), []).append(place)
    for (cause, pkey, wanted), places in found.items():
        findings += _report(cause, pkey, wanted, places, declared.get(pkey), read)
    return findings, []


def _compare(
    view: View, declared: Mapping[int, Partition], place: Place, key: PortKey, table: tuple[int, ...]
) -> Iterator[tuple[str, int, str]]:
    """Yield the cause, the P_Key and the declared membership of each difference."""
    port = view.port(key)
    guids = (port.port_guid if port else None, key.guid)
    has: dict[int, set[bool]] = {}
    for entry in table:
        has.setdefault(entry & DEFAULT_PKEY, set()).add(bool(entry & FULL_BIT))
    for pkey, partition in declared.items():
        wanted = _find_membership(partition, place[0], guids)
        seen = has.pop(pkey, set())
        is_limited, is_full = False in seen, True in seen
        if wanted is None:
            if seen:
                yield "pkey_extra", pkey, "none"
        elif not seen:
            yield "pkey_missing", pkey, wanted
        elif wanted != LIMITED and not is_full:
            yield "pkey_limited", pkey, wanted
        elif wanted != FULL and not is_limited:
            yield "pkey_full", pkey, wanted
    for pkey in has:
        # The default partition is every port's: the subnet manager is reached through it.
        if pkey != DEFAULT_PKEY:
            yield "pkey_extra", pkey, "none"


def _find_membership(partition: Partition, node: str, guids: tuple[str | None, ...]) -> str | None:
    """Return what a port is declared to be: by its GUID, its node, or all."""
    own = next((partition.members[guid] for guid in guids if guid in partition.members), None)
    return own or partition.membership_of(node)


def _report(
    cause: str,
    pkey: int,
    wanted: str,
    places: list[Place],
    partition: Partition | None,
    read: Mapping[Place, PortKey],
) -> Iterator[Finding]:
    """Yield a finding for each node, or one finding if it holds for all ports."""
    name = f" ({partition.name})" if partition is not None and partition.name else ""
    what = f"partition {show_pkey(pkey)}{name}: {_SAYS[cause].format(wanted)}"
    severity: Severity = "warn" if cause == "pkey_extra" and partition is None else "fail"
    by_node: dict[str, list[Place]] = {}
    for place in places:
        by_node.setdefault(place[0], []).append(place)
    if len(by_node) > 1 and len(places) == len(read):
        text = f"all {len(places)} ports of {fold_names(list(by_node))} in {what}"
        ports = [read[place] for place in places]
        yield build_finding(cause, severity, text, ports=ports)
        return
    for node, same in by_node.items():
        rail = same[0][1] if len(same) == 1 else None
        guids = named([f"{place[1]} ({read[place].guid})" for place in same], most=8)
        ports = [read[place] for place in same]
        yield build_finding(cause, severity, f"{node} {guids}, {what}", node=node, rail=rail, ports=ports)


def _find_default(
    view: View,
    declared: Mapping[int, Partition],
    read: Mapping[Place, PortKey],
    tables: Mapping[PortKey, tuple[int, ...]],
) -> Finding | None:
    """Return the finding for a subnet that is open to all, although the inventory declares otherwise.

    opensm that cannot parse its partitions falls back to that, and says so in its log alone.
    """
    if not read or any(set(tables[key]) != {DEFAULT_PKEY | FULL_BIT} for key in read.values()):
        return None
    wanted = {
        (pkey, _find_membership(partition, place[0], (key.guid,)))
        for place, key in read.items()
        for pkey, partition in declared.items()
    }
    if wanted <= {(DEFAULT_PKEY, FULL), *((pkey, None) for pkey in declared)}:
        return None
    names = ", ".join(show_pkey(pkey) for pkey in declared)
    text = (
        f"all {len(read)} ports are full members of the default partition and in no other one, although the "
        f"inventory declares {names}"
    )
    return build_finding("partitions_default", "fail", text, ports=read.values())


def _report_unread(
    view: View, ports: Mapping[Place, PortKey], read: Mapping[Place, PortKey]
) -> Iterator[Finding]:
    missing = [key for place, key in ports.items() if place not in read]
    if missing:
        where = named([view.show_port(key) for key in missing])
        text = f"the P_Key tables of {len(missing)} ports were not read: {where}"
        yield build_finding("subnet_unread", "unmeasured", text, ports=missing)


def _find_odd(view: View, tables: Mapping[PortKey, tuple[int, ...]]) -> Iterator[Finding]:
    """Yield ports that are full members nowhere, where most ports are: without a declaration, a hint."""
    own = [key for key in tables if key in view.owners.of_port]
    limited = [key for key in own if not any(entry & FULL_BIT for entry in tables[key])]
    if limited and 2 * len(limited) < len(own):
        where = named([view.show_port(key) for key in limited])
        owners = {view.owners.of_port[key].node for key in limited}
        node = owners.pop() if len(owners) == 1 else None
        text = f"limited members of every partition, where most ports are full ones: {where}"
        yield build_finding("pkey_limited", "warn", text, inferred=True, node=node, ports=limited)
