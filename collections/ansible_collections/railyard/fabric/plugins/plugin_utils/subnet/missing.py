# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: every declared rail has a link, and every link of the previous reading is still there.

A switch that is gone is one finding; what is connected to it is not listed one by one. A node without any
link is one finding as well.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.cabling import PlannedLeaf
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.unread import Unread
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of, show_place


@dataclass
class Missing:
    """What is missing.

    Attributes:
        findings: what is reported.
        notes: what is no finding.
        switches: switches that had links to these are concerned: GUIDs of the previous reading.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    switches: set[str] = field(default_factory=set)


def show_date(time_s: float) -> str:
    """Return a time as people read it."""
    moment = datetime.datetime.fromtimestamp(time_s, datetime.UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


def check_missing(
    view: View, planned: dict[Place, PlannedLeaf], unread: Unread, unidentified: set[Place]
) -> Missing:
    """Return rails, switches and links that are missing.

    Args:
        view: the reading.
        planned: the leaf of each rail, where known.
        unread: what could not be read, which explains some.
        unidentified: rails that are among adapters without a known name.
    """
    found = Missing()
    below = _report_switches(view, unread, found)
    lost = [
        place_of(one) for one in view.expected.ports if not one.absent and view.port_of(place_of(one)) is None
    ]
    lost = [place for place in lost if place not in unread.explained | below | unidentified]
    whole = _find_whole_nodes(view, lost)
    for node, places in whole.items():
        found.findings.append(_report_node(view, node, places))
    for place in lost:
        if place[0] not in whole:
            found.findings.append(_report_rail(view, planned, place))
    if view.before is None:
        found.notes.append(
            "No previous reading: links that were lost before this one are not reported as such."
        )
    else:
        _report_links(view, view.before, unread, found)
    for one in view.expected.ports:
        place = place_of(one)
        if one.absent and (key := view.port_of(place)) is not None:
            text = f"{show_place(place)} has a link, and the inventory says that the node lacks this rail"
            finding = build_finding(
                "adapter_unknown", "warn", text, node=one.node, rail=one.rail, ports=[key]
            )
            found.findings.append(finding)
    return found


def _report_switches(view: View, unread: Unread, found: Missing) -> set[Place]:
    """Report switches that are gone; returns the rails that are connected to them."""
    below: set[Place] = set()
    before = view.before
    gone: set[str] = set()
    if before is not None:
        gone = {
            guid
            for guid, device in before.reading.devices.items()
            if device.kind == "switch" and guid not in view.reading.devices
        }
        for one in view.expected.ports:
            last = before.switch_of(place_of(one))
            if last is not None and last.guid in gone:
                below.add(place_of(one))
        for guid in sorted(gone - unread.devices):
            found.findings.append(_report_switch(view, before, guid))
    found.switches |= gone
    known = {name for name, match in before.leaves.items() if match.guid in gone} if before else set()
    wanted: dict[str, list[Place]] = {name: [] for name in view.expected.leaves}
    for one in view.expected.ports:
        if one.leaf and not one.absent:
            wanted.setdefault(one.leaf, []).append(place_of(one))
    for name, places in wanted.items():
        if name in view.leaves:
            continue
        if any(view.port_of(place) is not None for place in places):
            found.notes.append(f"No switch could be matched with leaf {name}: its cables have no verdict.")
            continue
        below |= set(places)
        if name not in known | unread.devices:
            hosts = f"; {len(places)} rails belong to it" if places else ""
            text = f"leaf {name} is not in the subnet{hosts}"
            found.findings.append(build_finding("switch_missing", "fail", text))
    return below


def _report_switch(view: View, before: View, guid: str) -> Finding:
    at = [link for link in before.links if guid in (link.one.guid, link.other.guid)]
    ports = [link.far_end(guid) for link in at]
    leaves = sorted({key.guid for key in ports if view.tiers.levels.get(key.guid) == 0})
    since = show_date(before.reading.taken_at_s)
    text = f"{before.show_switch(guid)} is gone since {since}, with {len(at)} links"
    shares = [share for leaf in leaves if (share := _uplink_share(view, before, leaf)) is not None]
    if shares:
        text += f"; the leaves below it keep {100 * min(shares):.0f} % of their uplink bandwidth"
    sources = [source for link in at for source in link.sources[:1]]
    return build_finding("switch_missing", "fail", text, ports=ports, sources=sources[:8])


def sum_rates(links: list[Link]) -> float:
    """Return the rate of links together."""
    return sum(link.rate_gbps or 0.0 for link in links)


def _uplink_share(view: View, before: View, leaf: str) -> float | None:
    cabled_gbps = sum_rates(before.uplinks_of(leaf))
    return sum_rates(view.uplinks_of(leaf)) / cabled_gbps if cabled_gbps else None


def _find_whole_nodes(view: View, lost: list[Place]) -> dict[str, list[Place]]:
    """Return nodes with two rails or more, none of which has a link."""
    having: dict[str, list[Place]] = {}
    for one in view.expected.ports:
        if not one.absent:
            having.setdefault(one.node, []).append(place_of(one))
    missing = set(lost)
    linked = {owner.node for key, owner in view.owners.of_port.items() if key in view.link_at}
    return {
        node: places
        for node, places in having.items()
        if len(places) > 1 and missing.issuperset(places) and node not in linked
    }


def _report_node(view: View, node: str, places: list[Place]) -> Finding:
    before = view.before
    last = [peer for place in places if before and (peer := before.switch_of(place))]
    text = f"none of the {len(places)} rails of {node} has a link"
    if last and before:
        where = named([view.show_port(key) for key in last])
        text += f"; on {show_date(before.reading.taken_at_s)} they were connected to {where}"
    return build_finding("adapter_missing", "fail", text, node=node, ports=last)


def _report_rail(view: View, planned: dict[Place, PlannedLeaf], place: Place) -> Finding:
    node, rail = place
    key, before = view.owners.places.get(place), view.before
    last = before.switch_of(place) if before else None
    if last is not None and before is not None:
        text = (
            f"{show_place(place)} lost its link to {view.show_port(last)} "
            f"since {show_date(before.reading.taken_at_s)}"
        )
        own = before.port_of(place)
        ports = [last, *([own] if own else [])]
        sources = before.link_at[last].sources
        return build_finding("link_lost", "fail", text, node=node, rail=rail, ports=ports, sources=sources)
    plan = planned.get(place)
    where = f"; it belongs to {view.show_switch(plan.guid)}" if plan and plan.guid else ""
    text = f"{show_place(place)} has no link{where}"
    ports = [key] if key is not None else []
    return build_finding("adapter_missing", "fail", text, node=node, rail=rail, ports=ports)


def _report_links(view: View, before: View, unread: Unread, found: Missing) -> None:
    """Report links of the previous reading that are gone, but those of declared rails and lost switches."""
    since = show_date(before.reading.taken_at_s)
    groups: dict[tuple[str, str], list[Link]] = {}
    moved = 0
    places = {place_of(one): one for one in view.expected.ports}
    for link in before.links:
        now = view.link_at.get(link.one) or view.link_at.get(link.other)
        if now is not None:
            moved += now.ends != link.ends
            continue
        owners = [before.owners.of_port[end] for end in link.ends if end in before.owners.of_port]
        if any((owner.node or "", owner.rail or "") in places for owner in owners):
            continue
        gone = [end for end in link.ends if end.guid not in view.reading.devices]
        if any(before.is_switch(end.guid) for end in gone) or unread.ports & set(link.ends):
            continue
        groups.setdefault((link.one.guid, link.other.guid), []).append(link)
    for links in groups.values():
        found.findings.append(_report_lost_links(view, before, links, since))
    if moved:
        found.notes.append(
            f"{moved} links of the previous reading ({since}) are connected to other ports now."
        )


def _report_lost_links(view: View, before: View, links: list[Link], since: str) -> Finding:
    which = named([f"{before.show_port(link.one)} to {before.show_port(link.other)}" for link in links])
    text = f"{which}: lost since {since}"
    for guid in _lower_switches(view, links):
        share = _uplink_share(view, before, guid)
        if share is not None:
            now_gbps = sum_rates(view.uplinks_of(guid))
            text += f"; {view.show_switch(guid)} keeps {now_gbps:g} Gbit/s of uplinks ({100 * share:.0f} %)"
    ports = [end for link in links for end in link.ends]
    sources = [source for link in links for source in link.sources]
    node = before.owner_of(links[0]).node
    return build_finding("link_lost", "warn", text, node=node, ports=ports, sources=sources)


def _lower_switches(view: View, links: list[Link]) -> Iterator[str]:
    ends = sorted({end.guid for end in links[0].ends}, key=lambda guid: view.tiers.levels.get(guid, 99))
    if len(ends) > 1 and view.tiers.levels.get(ends[0], 99) < view.tiers.levels.get(ends[1], 99):
        yield ends[0]
