# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: each leaf has the uplinks that it should have, and every two leaves a switch above them in common."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.cabling import PlannedLeaf
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.missing import sum_rates
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, LeafState, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of

_TOLERANCE = 0.01
#: So many comparable leaves are needed before most of them tell anything.
_FEWEST = 3


def list_leaves(view: View, planned: dict[Place, PlannedLeaf]) -> list[LeafState]:
    """Return the switches of level 0 with their bandwidth to adapters and to switches above, by name."""
    rates: dict[str, float | None] = {}
    for one in view.expected.ports:
        plan = planned.get(place_of(one))
        if plan is not None and plan.guid is not None:
            known = rates.get(plan.guid, 0.0)
            rates[plan.guid] = None if known is None or one.rate_gbps is None else known + one.rate_gbps
    declared = {match.guid: view.expected.leaves.get(name) for name, match in view.leaves.items()}
    at = _links_to_adapters(view)
    before_at = _links_to_adapters(view.before) if view.before else {}
    leaves = []
    for guid, level in view.tiers.levels.items():
        if level:
            continue
        leaf = declared.get(guid)
        declared_gbps = leaf.uplink_gbps if leaf else None
        uplinks, hosts = view.uplinks_of(guid), at.get(guid, [])
        hosts_gbps, now_gbps = sum_rates(hosts), sum_rates(uplinks)
        cabled_hosts_gbps = cabled_gbps = None
        if view.before is not None:
            cabled_hosts_gbps = sum_rates(_unite(hosts, before_at.get(guid, [])))
            cabled_gbps = sum_rates(_unite(uplinks, view.before.uplinks_of(guid)))
        spines: dict[str, float] = {}
        for link in uplinks:
            far = link.far_end(guid).guid
            spines[far] = spines.get(far, 0.0) + (link.rate_gbps or 0.0)
        leaves.append(
            LeafState(
                guid=guid,
                name=view.names[guid],
                hosts=len(hosts),
                hosts_gbps=hosts_gbps,
                hosts_gbps_cabled=cabled_hosts_gbps,
                uplinks_gbps_now=now_gbps,
                uplinks_gbps_cabled=cabled_gbps,
                uplinks_gbps_declared=declared_gbps,
                ratio_now=_divide(hosts_gbps, now_gbps),
                ratio_cabled=_divide(cabled_hosts_gbps, cabled_gbps),
                ratio_declared=_divide(rates.get(guid), declared_gbps),
                spines=spines,
            )
        )
    return sorted(leaves, key=lambda leaf: (leaf.name, leaf.guid))


def _links_to_adapters(view: View) -> dict[str, list[Link]]:
    at: dict[str, list[Link]] = {}
    for link in view.links:
        for end, far in (link.ends, link.ends[::-1]):
            if far in view.owners.of_port:
                at.setdefault(end.guid, []).append(link)
    return at


def _unite(now: Iterable[Link], before: Iterable[Link]) -> list[Link]:
    """Return links that are or were there; the rate of one that was narrower once or is now is the larger."""
    found: dict[tuple[PortKey, PortKey], Link] = {}
    taken: set[PortKey] = set()
    for link in now:
        found[link.ends] = link
        taken |= set(link.ends)
    for link in before:
        same = found.get(link.ends)
        if same is not None:
            if (link.rate_gbps or 0.0) > (same.rate_gbps or 0.0):
                found[link.ends] = link
        elif not taken & set(link.ends):
            found[link.ends] = link
    return list(found.values())


def _divide(one: float | None, other: float | None) -> float | None:
    return one / other if one is not None and other else None


def check_uplinks(
    view: View, leaves: list[LeafState], concerned: Collection[str], *, is_complete: bool
) -> list[Finding]:
    """Return leaves with too few or unequal uplinks, and pairs of leaves without a path.

    Args:
        view: the reading.
        leaves: the leaves.
        concerned: switches whose uplinks another finding is about.
        is_complete: whether all devices answered.
    """
    findings = list(_report_oversubscribed(view, leaves, concerned))
    reported = {key.guid for one in findings for key in one.ports} | set(concerned)
    findings += _report_unequal(view, [leaf for leaf in leaves if leaf.guid not in reported])
    findings += _report_apart(view, leaves, is_complete)
    findings += _report_shape(view)
    return findings


def _ports_up(view: View, guid: str) -> list[PortKey]:
    links = view.uplinks_of(guid)
    return [end for link in links for end in link.ends if end.guid == guid] or [PortKey(guid, 0)]


def _report_oversubscribed(
    view: View, leaves: list[LeafState], concerned: Collection[str]
) -> Iterator[Finding]:
    groups: dict[tuple[float, float], list[LeafState]] = {}
    for leaf in leaves:
        declared_gbps = leaf.uplinks_gbps_declared
        if declared_gbps is None or leaf.guid in concerned:
            continue
        if leaf.uplinks_gbps_now < declared_gbps * (1 - _TOLERANCE):
            groups.setdefault((declared_gbps, leaf.uplinks_gbps_now), []).append(leaf)
    for (declared_gbps, now_gbps), same in groups.items():
        which = named([view.show_switch(leaf.guid) for leaf in same])
        ratio = same[0].ratio_now
        text = f"{which}: {now_gbps:g} Gbit/s of uplinks, declared are {declared_gbps:g}"
        text += f"; oversubscribed {ratio:.2f}:1" if ratio is not None else ""
        yield build_finding("oversubscribed", "warn", text, ports=[PortKey(leaf.guid, 0) for leaf in same])


def _report_unequal(view: View, leaves: list[LeafState]) -> Iterator[Finding]:
    """Yield leaves whose bandwidth to the spines is unequal, or is not that of most comparable leaves."""
    nodes_at = Counter(
        peer.guid for key, owner in view.owners.of_port.items() if owner.node and (peer := view.peer_of(key))
    )
    profiles = {leaf.guid: tuple(sorted(leaf.spines.values())) for leaf in leaves}
    comparable = [leaf for leaf in leaves if nodes_at[leaf.guid]]
    counted = Counter(profiles[leaf.guid] for leaf in comparable)
    usual = None
    for profile, count in counted.most_common(1):
        if counted.total() >= _FEWEST and 2 * count > counted.total():
            usual = profile
    alike: dict[tuple[float, ...], list[LeafState]] = {}
    for leaf in leaves:
        profile = profiles[leaf.guid]
        differs = usual is not None and profile != usual and leaf in comparable
        # A leaf with fewer adapters may have fewer uplinks on purpose, if they are equal.
        if (
            differs
            and usual is not None
            and _is_equal(profile)
            and _has_fewer_hosts(leaf, comparable, nodes_at)
        ):
            differs = False
        if differs or not _is_even(view, leaf):
            alike.setdefault(profile, []).append(leaf)
    for profile, same in alike.items():
        which = named([view.show_switch(leaf.guid) for leaf in same])
        shown = named([f"{rate:g}" for rate in profile], most=8)
        text = f"{which}: {shown or 'no'} Gbit/s to the spines"
        is_odd = usual is not None and profile != usual
        if is_odd and usual is not None:
            text += f", where most leaves have {named([f'{rate:g}' for rate in usual], most=8)}"
        ports = [key for leaf in same for key in _ports_up(view, leaf.guid)]
        yield build_finding("spines_unequal", "warn", text, inferred=is_odd, ports=ports)


def _has_fewer_hosts(leaf: LeafState, leaves: list[LeafState], nodes_at: Counter[str]) -> bool:
    most = Counter(nodes_at[one.guid] for one in leaves).most_common(1)[0][0]
    return nodes_at[leaf.guid] * 2 <= most


def _is_equal(profile: tuple[float, ...]) -> bool:
    return not profile or profile[-1] - profile[0] <= _TOLERANCE * profile[-1]


def _is_even(view: View, leaf: LeafState) -> bool:
    """Tell whether a leaf's uplinks are spread over the spines as evenly as their number permits."""
    counted = Counter(link.far_end(leaf.guid).guid for link in view.uplinks_of(leaf.guid))
    if not counted:
        return True
    if len({link.rate_gbps for link in view.uplinks_of(leaf.guid)}) > 1:
        return _is_equal(tuple(sorted(leaf.spines.values())))
    spread = max(counted.values()) - min(counted.values())
    return spread == 0 or (spread == 1 and counted.total() % len(counted) != 0)


def _report_apart(view: View, leaves: list[LeafState], is_complete: bool) -> Iterator[Finding]:
    """Yield leaves that share no switch above them with others: the one with the most such others first."""
    above = {leaf.guid: _find_above(view, leaf.guid) for leaf in leaves if leaf.hosts}
    beside = {tuple(sorted((link.one.guid, link.other.guid))) for link in view.tiers.level_links}
    apart: dict[str, set[str]] = {}
    guids = sorted(above)
    for index, one in enumerate(guids):
        for other in guids[index + 1 :]:
            if not above[one] & above[other] and (one, other) not in beside:
                apart.setdefault(one, set()).add(other)
                apart.setdefault(other, set()).add(one)
    severity: Severity = "fail" if is_complete else "unmeasured"
    while apart:
        guid = min(apart, key=lambda one: (-len(apart[one]), one))
        others = apart.pop(guid)
        for other in others:
            apart[other].discard(guid)
            if not apart[other]:
                del apart[other]
        names = named([view.show_switch(other) for other in sorted(others)])
        text = f"{view.show_switch(guid)} has no spine in common with {names}"
        yield build_finding("no_common_spine", severity, text, ports=[PortKey(guid, 0)])


def _find_above(view: View, guid: str) -> set[str]:
    found: set[str] = set()
    edge = {guid}
    while edge:
        edge = {link.far_end(one).guid for one in edge for link in view.uplinks_of(one)} - found
        found |= edge
    return found


def _report_shape(view: View) -> Iterator[Finding]:
    """Yield what is no tree."""
    flat = view.tiers.level_links
    if flat:
        shown = named([f"{view.show_port(link.one)} to {view.show_port(link.other)}" for link in flat])
        text = f"{len(flat)} links join switches of one level: {shown}"
        ports = [end for link in flat for end in link.ends]
        sources = [source for link in flat[:8] for source in link.sources]
        yield build_finding("same_level_link", "warn", text, ports=ports, sources=sources)
    planned = {match.guid for match in view.leaves.values()}
    for guid in view.tiers.mixed:
        keys = [
            key
            for key, owner in view.owners.of_port.items()
            if owner.node and (peer := view.peer_of(key)) and peer.guid == guid
        ]
        leaf_of = {place_of(one): one.leaf for one in view.expected.ports}
        owners = [view.owners.of_port[key] for key in keys]
        # A rail with a declared leaf is reported as cabled wrongly.
        if planned and all(leaf_of.get((own.node or "", own.rail or "")) in view.leaves for own in owners):
            continue
        shown = named([view.show_port(key) for key in keys])
        text = f"{view.show_switch(guid)} has switches below it, and also {shown}"
        yield build_finding("mixed_switch", "warn", text, ports=keys)
