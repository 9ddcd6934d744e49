# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: every link has its rate. A declared rate counts; else the most frequent one of comparable links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link, lane_rate_gbps
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import (
    NOBODY,
    View,
    place_of,
    report_link,
)

#: Rates that inventories and tools round differently (FDR is 56 or 56.25) are one.
_TOLERANCE = 0.02
#: Links have at most so many lanes unless the subnet shows more.
_USUAL_WIDTH = 4
#: Fewer comparable links say nothing about what is usual.
_FEWEST = 3


class _Usual(NamedTuple):
    """What most comparable links are like."""

    width: int
    lane_gbps: float


def check_rates(view: View) -> tuple[list[Finding], list[str]]:
    """Return links that are narrower or slower than they should be, and why some have no verdict."""
    findings: list[Finding] = []
    groups: dict[str, list[Link]] = {}
    declared = {place_of(one): one.rate_gbps for one in view.expected.ports}
    widest = max([_USUAL_WIDTH, *(link.width or 0 for link in view.links)])
    for link in view.links:
        owner = view.owner_of(link)
        if owner is not NOBODY:
            rate_gbps = declared.get((owner.node or "", owner.rail or ""))
            if rate_gbps is not None:
                findings += _compare_declared(view, link, rate_gbps, widest)
            elif owner.node is not None:
                groups.setdefault(f"the links to {owner.rail or 'nodes'}", []).append(link)
            continue
        levels = [view.tiers.levels.get(end.guid) for end in link.ends]
        if None not in levels:
            low, high = sorted(level for level in levels if level is not None)
            groups.setdefault(f"the links between switches of levels {low} and {high}", []).append(link)
    notes: list[str] = []
    for what, links in sorted(groups.items()):
        usual = _find_usual(links)
        if usual is None:
            reason = "fewer than three" if len(links) < _FEWEST else "no rate is the most frequent one"
            notes.append(f"No verdict on the rate of {what}: none is declared, and {reason}.")
            continue
        findings += [one for link in links for one in _compare_usual(view, link, usual, what)]
    return findings, notes


def _compare_declared(view: View, link: Link, declared_gbps: float, widest: int) -> Iterator[Finding]:
    if link.rate_gbps is None or link.width is None or link.lane_gbps is None:
        return
    if link.rate_gbps >= declared_gbps * (1 - _TOLERANCE):
        return
    can_be_gbps = widest * lane_rate_gbps(link.lane_gbps)
    cause = "link_narrow" if can_be_gbps >= declared_gbps * (1 - _TOLERANCE) else "link_lanes_slow"
    yield _report(view, link, cause, f"declared are {declared_gbps:g} Gbit/s", inferred=False)


def _compare_usual(view: View, link: Link, usual: _Usual, what: str) -> Iterator[Finding]:
    if link.width is None or link.lane_gbps is None:
        return
    usual_gbps = usual.width * lane_rate_gbps(usual.lane_gbps)
    if link.rate_gbps is None or link.rate_gbps >= usual_gbps * (1 - _TOLERANCE):
        return
    cause = "link_lanes_slow" if link.lane_gbps < usual.lane_gbps else "link_narrow"
    yield _report(view, link, cause, f"most of {what} have {usual_gbps:g} Gbit/s", inferred=True)


def _report(view: View, link: Link, cause: str, wanted: str, *, inferred: bool) -> Finding:
    lane_gbps = link.lane_gbps or 0.0
    lanes = "1 lane" if link.width == 1 else f"{link.width} lanes"
    text = (
        f"{view.show_port(link.one)} to {view.show_port(link.other)} has {lanes} of "
        f"{lane_gbps:.10g} Gbit/s, {link.rate_gbps:g} Gbit/s; {wanted}"
    )
    return report_link(view, link, cause, "fail", text, inferred=inferred)


def _find_usual(links: list[Link]) -> _Usual | None:
    """Return what most links are like; None for fewer than three, or where two rates are as frequent."""
    rates: Counter[float] = Counter()
    shapes: dict[float, Counter[_Usual]] = {}
    for link in links:
        if link.rate_gbps is not None and link.width is not None and link.lane_gbps is not None:
            rates[link.rate_gbps] += 1
            shapes.setdefault(link.rate_gbps, Counter())[_Usual(link.width, link.lane_gbps)] += 1
    first = rates.most_common(2)
    if rates.total() < _FEWEST or (len(first) > 1 and first[0][1] == first[1][1]):
        return None
    return shapes[first[0][0]].most_common(1)[0][0]
