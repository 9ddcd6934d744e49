# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a reading of a subnet: pure, from the reading, the previous one and the inventory to findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey, Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import (
    cabling,
    counters,
    managers,
    missing,
    partitions,
    rates,
    units,
    unknown,
    unread,
    uplinks,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Coverage,
    Expected,
    Finding,
    Judgement,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, build_view, place_of

#: A capture may be so much older than the inventory.
_OLD_S = 24 * 3600
_ORDER = {"fail": 0, "unmeasured": 1, "warn": 2}
#: Findings about a switch's uplinks: what follows from them is not reported once more.
_ABOUT_UPLINKS = (
    "link_lost", "link_narrow", "link_lanes_slow", "no_answer", "port_no_peer", "guid_duplicate",
    "switch_missing",
)  # fmt: skip


def judge(reading: Reading, expected: Expected, previous: Reading | None = None) -> Judgement:
    """Judge a reading of one subnet.

    Args:
        reading: the reading.
        expected: what the inventory says of this subnet (see `divide` where there are several).
        previous: an earlier reading of the same subnet.
    """
    notes: list[str] = []
    if previous is not None:
        why = _why_not_comparable(reading, previous)
        if why:
            notes.append(f"The previous reading is not compared: {why}.")
            previous = None
    view = build_view(reading, expected, previous)
    planned = cabling.plan_leaves(view)
    blind = unread.check_unread(view, planned)
    named, unidentified = unknown.check_names(view, planned, blind.explained)
    gone = missing.check_missing(view, planned, blind, unidentified)
    slow, rate_notes = rates.check_rates(view)
    grown, counter_notes, counted_s = counters.check_counters(view)
    served, manager_notes = managers.check_managers(view)
    members, partition_notes = partitions.check_partitions(view)
    findings = [
        *blind.findings, *gone.findings, *slow, *cabling.check_cabling(view, planned, blind.doubtful),
        *named, *grown, *served, *members, *_check_age(reading, expected),
    ]  # fmt: skip
    leaves = uplinks.list_leaves(view, planned)
    adapters = set(view.owners.of_port) | (set(view.before.owners.of_port) if view.before else set())
    concerned = {
        key.guid
        for one in findings
        if one.cause in _ABOUT_UPLINKS and not _is_about_adapter(one, adapters)
        for key in one.ports
    }
    is_complete = not (blind.ports or reading.silent or reading.problems)
    findings += uplinks.check_uplinks(view, leaves, concerned, is_complete=is_complete)
    findings.sort(key=lambda one: _ORDER[one.severity])
    notes += [*gone.notes, *rate_notes, *counter_notes, *manager_notes, *partition_notes]
    if not any(port.state for device in reading.devices.values() for port in device.ports.values()):
        notes.append(
            "Port states were not read (iblinkinfo -l): ports that are up without a neighbor are not seen."
        )
    notes += _note_replaced(view)
    return Judgement(
        findings=tuple(findings),
        tiers=view.tiers.levels,
        is_tree=not view.tiers.level_links and not view.tiers.mixed,
        leaves=tuple(leaves),
        units=units.find_units(view),
        owners=view.owners.of_port,
        switch_names=view.names,
        notes=tuple(clean_line(note) for note in notes),
        coverage=_measure_coverage(view, counted_s),
        status=_find_status(findings),
    )


def divide(readings: Sequence[Reading], expected: Expected) -> tuple[Expected, ...]:
    """Divide what is expected among the subnets that were read: each rail goes where most of its ports are.

    A rail that is in none of them is expected in the first. Leaves go with their rails; LIDs play no part, so
    that two subnets with equal LIDs stay apart.
    """
    if len(readings) < 2:
        return tuple(expected for _reading in readings)
    counts: dict[str, list[int]] = {}
    for index, reading in enumerate(readings):
        view = build_view(reading, expected, None)
        for one in expected.ports:
            counted = counts.setdefault(one.rail, [0] * len(readings))
            counted[index] += view.port_of(place_of(one)) is not None
    home = {rail: counted.index(max(counted)) for rail, counted in counts.items()}
    leaf_home = {one.leaf: home[one.rail] for one in expected.ports if one.leaf}
    return tuple(
        expected._replace(
            ports=tuple(one for one in expected.ports if home[one.rail] == index),
            leaves={name: leaf for name, leaf in expected.leaves.items() if leaf_home.get(name, 0) == index},
        )
        for index in range(len(readings))
    )


def _why_not_comparable(reading: Reading, previous: Reading) -> str | None:
    if reading.prefix and previous.prefix and reading.prefix != previous.prefix:
        return f"its subnet prefix is {clean_line(previous.prefix)}, not {clean_line(reading.prefix)}"
    if previous.taken_at_s > reading.taken_at_s:
        return "it is the later one"
    if previous.devices and reading.devices and not set(previous.devices) & set(reading.devices):
        return "the two have no device in common"
    return None


def _is_about_adapter(finding: Finding, adapters: Collection[PortKey]) -> bool:
    """Tell whether a finding is about the link of an adapter, which is no uplink."""
    return finding.cause != "switch_missing" and (
        finding.node is not None or any(key in adapters for key in finding.ports)
    )


def _check_age(reading: Reading, expected: Expected) -> list[Finding]:
    if expected.changed_at_s is None or reading.taken_at_s >= expected.changed_at_s - _OLD_S:
        return []
    read, changed = missing.show_date(reading.taken_at_s), missing.show_date(expected.changed_at_s)
    return [build_finding("capture_old", "warn", f"it was taken on {read}, the inventory is of {changed}")]


def _note_replaced(view: View) -> list[str]:
    keys = view.owners.replaced
    shown = [view.show_port(key) for key in keys[:4]]
    if not keys:
        return []
    return [
        f"{len(keys)} adapter ports have other GUIDs than the facts: {', '.join(shown)}. Collect facts again."
    ]


def _find_status(findings: Sequence[Finding]) -> Literal[0, 1, 3]:
    severities = {one.severity for one in findings}
    if "fail" in severities:
        return 1
    return 3 if "unmeasured" in severities else 0


def _measure_coverage(view: View, counted_s: float | None) -> Coverage:
    kinds = [device.kind for device in view.reading.devices.values()]
    wanted = [place_of(one) for one in view.expected.ports if not one.absent]
    read = view.reading
    answered = None if read.managers is None else sum(one.state is not None for one in read.managers)
    return Coverage(
        switches=kinds.count("switch"),
        adapters=kinds.count("adapter"),
        aggregation_nodes=kinds.count("aggregation"),
        links=len(view.links),
        ports=sum(len(device.ports) for device in read.devices.values()),
        expected_ports=len(wanted),
        found_ports=sum(view.port_of(place) is not None for place in wanted),
        counted_s=counted_s,
        pkey_tables=None if read.pkeys is None else len(read.pkeys),
        managers=answered,
    )
