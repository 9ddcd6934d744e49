# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: one master subnet manager, where it is declared to be."""

from __future__ import annotations

from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey, SubnetManager
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View

MASTER, STANDBY = "MASTER", "STANDBY"
SWITCH = "switch"
#: Of findings that are no failures.
_SEVERITIES: dict[str, Severity] = {"no_answer": "unmeasured", "manager_unexpected": "warn"}


class _Seen(NamedTuple):
    """A subnet manager, and where it runs: a node of the inventory, `switch`, or None."""

    manager: SubnetManager
    key: PortKey | None
    at: str | None


def check_managers(view: View) -> tuple[list[Finding], list[str]]:
    """Return what is wrong with the subnet managers, and which of them are in order."""
    managers = view.reading.managers
    if managers is None:
        text = (
            "subnet managers were not read (saquery -s and sminfo): whether there is one master is not known"
        )
        return [build_finding("subnet_unread", "unmeasured", text)], []
    seen = list(_locate(view, managers).values())
    findings: list[Finding] = []
    masters = [one for one in seen if one.manager.state == MASTER]
    silent = [one for one in seen if one.manager.state is None]
    if len(masters) > 1:
        text = f"{len(masters)} subnet managers are master: {named([_show(view, one) for one in masters])}"
        findings.append(_report("two_masters", text, masters))
    elif not masters and silent:
        text = f"no master is known, and {named([_show(view, one) for one in silent])} did not answer"
        findings.append(_report("no_answer", text, silent))
    elif not masters:
        states = named([_show(view, one) for one in seen])
        text = f"no subnet manager is master{f': {states}' if states else ''}"
        findings.append(_report("no_master", text, seen))
    elif silent:
        text = f"{named([_show(view, one) for one in silent])} did not answer: it may be a second master"
        findings.append(_report("no_answer", text, silent))
    findings += _compare_declared(view, seen)
    shown = [_show(view, one) for one in seen if one.manager.state is not None]
    return findings, [f"Subnet managers: {named(shown, most=8)}."] if shown else []


def _locate(view: View, managers: tuple[SubnetManager, ...]) -> dict[object, _Seen]:
    """Return the managers, each port once, with where they run."""
    by_guid: dict[str, PortKey] = {}
    by_lid: dict[int, PortKey] = {}
    for device in view.reading.devices.values():
        by_guid.setdefault(device.guid, PortKey(device.guid, 0))
        for port in device.ports.values():
            if port.port_guid:
                by_guid[port.port_guid] = port.key
            if port.lid:
                by_lid.setdefault(port.lid, port.key)
    seen: dict[object, _Seen] = {}
    for one in managers:
        key = by_guid.get(one.port_guid or "") or by_lid.get(one.lid or 0)
        owner = view.owners.of_port.get(key) if key else None
        if owner is None and key is not None and not view.is_switch(key.guid):
            # A device's GUID alone: any port of it tells whose it is.
            owner = next((own for at, own in view.owners.of_port.items() if at.guid == key.guid), None)
        at = SWITCH if key and view.is_switch(key.guid) else (owner.node if owner else None)
        where = key or one.port_guid or one.lid
        known = seen.get(where)
        if known is None or known.manager.state is None or one.state == MASTER:
            seen[where] = _Seen(one, key, at)
    return seen


def _compare_declared(view: View, seen: list[_Seen]) -> list[Finding]:
    declared = view.expected.managers
    if declared is None:
        return []
    findings = []
    # One that is about to be a second master is reported as such already.
    others = [one for one in seen if one.at not in declared and one.manager.state in (MASTER, STANDBY)]
    if others:
        where = named([_show(view, one) for one in others])
        findings.append(_report("manager_unexpected", f"not declared in subnet_managers: {where}", others))
    running = {one.at for one in seen if one.manager.state in (MASTER, STANDBY, None)}
    for name in dict.fromkeys(declared):
        if name not in running and seen:
            node = None if name == SWITCH else name
            who = "no switch runs a" if name == SWITCH else f"{name} runs no"
            text = f"{who} subnet manager, and subnet_managers declares it"
            findings.append(build_finding("manager_missing", "warn", text, node=node))
    return findings


def _report(cause: str, text: str, seen: list[_Seen]) -> Finding:
    node = seen[0].at if len(seen) == 1 and seen[0].at != SWITCH else None
    ports, sources = [one.key for one in seen if one.key], [one.manager.source for one in seen]
    return build_finding(cause, _SEVERITIES.get(cause, "fail"), text, node=node, ports=ports, sources=sources)


def _show(view: View, one: _Seen) -> str:
    where = (
        view.show_port(one.key) if one.key else f"{one.manager.port_guid or 'LID'} {one.manager.lid or ''}"
    )
    if one.key and one.key.number == 0:
        where = view.show_switch(one.key.guid) if one.at == SWITCH else where
    priority = f", priority {one.manager.priority}" if one.manager.priority is not None else ""
    return f"{where} ({one.manager.state or 'no answer'}{priority})"
