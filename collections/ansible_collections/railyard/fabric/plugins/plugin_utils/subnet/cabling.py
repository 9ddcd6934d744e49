# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: every rail is connected to its leaf.

A leaf that the inventory names counts. Without one, most ports of the same rail (and scalable unit) tell, and
a tie tells nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import ExpectedPort, Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of, show_place

#: So many ports are needed before most of them tell anything.
_FEWEST = 3
_T = TypeVar("_T")


class PlannedLeaf(NamedTuple):
    """The leaf that a rail belongs to; `guid` is None where it is only known that it is another one."""

    guid: str | None
    inferred: bool


class _Misplaced(NamedTuple):
    """A rail at another leaf than planned."""

    place: Place
    key: PortKey
    actual: PortKey
    planned: PlannedLeaf


def plan_leaves(view: View) -> dict[Place, PlannedLeaf]:
    """Tell which leaf each rail of each node belongs to, where that is declared or can be inferred."""
    found: dict[Place, PlannedLeaf] = {}
    undeclared: list[ExpectedPort] = []
    for one in view.expected.ports:
        if one.absent:
            continue
        match = view.leaves.get(one.leaf) if one.leaf else None
        if match is not None:
            found[place_of(one)] = PlannedLeaf(match.guid, match.by == "majority")
        elif one.leaf is None:
            undeclared.append(one)
    return found | _infer(view, undeclared)


def _infer(view: View, ports: list[ExpectedPort]) -> dict[Place, PlannedLeaf]:
    seen = {place_of(one): peer.guid for one in ports if (peer := view.switch_of(place_of(one)))}
    with_unit = [one for one in ports if one.unit is not None]
    without = [one for one in ports if one.unit is None]
    return _infer_by_unit(with_unit, seen) | _infer_by_rail(without, seen)


def _infer_by_unit(ports: list[ExpectedPort], seen: dict[Place, str]) -> dict[Place, PlannedLeaf]:
    groups: dict[tuple[str | None, str], list[ExpectedPort]] = {}
    for one in ports:
        groups.setdefault((one.unit, one.rail), []).append(one)
    found: dict[Place, PlannedLeaf] = {}
    for members in groups.values():
        guid = _most(Counter(seen[place_of(one)] for one in members if place_of(one) in seen))
        if guid is not None:
            found |= {place_of(one): PlannedLeaf(guid, True) for one in members}
    return found


def _infer_by_rail(ports: list[ExpectedPort], seen: dict[Place, str]) -> dict[Place, PlannedLeaf]:
    """Infer by the rail that most ports of a leaf belong to, then by the leaves of the node's other rails."""
    at: dict[str, Counter[str]] = {}
    for one in ports:
        if place_of(one) in seen:
            at.setdefault(seen[place_of(one)], Counter())[one.rail] += 1
    rail_of = {guid: rail for guid, counted in at.items() if (rail := _most(counted)) is not None}
    of_rail: dict[str, list[str]] = {}
    for guid, rail in rail_of.items():
        of_rail.setdefault(rail, []).append(guid)
    right = {place: guid for place, guid in seen.items() if rail_of.get(guid) == place[1]}
    leaves_of: dict[str, set[str]] = {}
    for (node, _rail), guid in right.items():
        leaves_of.setdefault(node, set()).add(guid)
    # leaf -> leaves of other rails that its nodes have
    beside: dict[str, Counter[str]] = {}
    for (node, _rail), guid in right.items():
        beside.setdefault(guid, Counter()).update(leaves_of[node] - {guid})
    found: dict[Place, PlannedLeaf] = {}
    for one in ports:
        place = place_of(one)
        if place in right:
            found[place] = PlannedLeaf(right[place], True)
            continue
        choices = of_rail.get(one.rail, [])
        scores = Counter(
            {
                guid: sum(beside.get(guid, Counter())[leaf] for leaf in leaves_of.get(one.node, ())) + 1
                for guid in choices
            }
        )
        best = scores.most_common(2)
        only = best[0][0] if best and (len(best) == 1 or best[0][1] > best[1][1]) else None
        known = place not in seen or seen[place] in rail_of
        if known and choices:
            found[place] = PlannedLeaf(only, True)
    return found


def _most(counted: Counter[str]) -> str | None:
    """Return what more than half are, of at least three; None for a tie."""
    for name, count in counted.most_common(1):
        if counted.total() >= _FEWEST and 2 * count > counted.total():
            return name
    return None


def check_cabling(
    view: View, planned: dict[Place, PlannedLeaf], doubtful: Collection[Place] = ()
) -> list[Finding]:
    """Return rails at other leaves than planned; cables that were exchanged are one finding.

    Args:
        view: the reading.
        planned: the leaf of each rail, where known.
        doubtful: rails of which it is not known which adapter they are.
    """
    wrong: dict[Place, _Misplaced] = {}
    for one in view.expected.ports:
        place = place_of(one)
        plan, actual, key = planned.get(place), view.switch_of(place), view.port_of(place)
        if plan is None or actual is None or key is None:
            continue
        if place in view.owners.twice or place in doubtful:
            continue
        if plan.guid != actual.guid:
            wrong[place] = _Misplaced(place, key, actual, plan)
    findings = list(_find_exchanged_leaves(view, planned, wrong))
    findings += _find_moved_hosts(view, planned, wrong)
    findings += _find_cycles(view, wrong)
    findings += _find_pairs(view, wrong)
    for left in wrong.values():
        where = view.show_switch(left.planned.guid) if left.planned.guid else f"a leaf of {left.place[1]}"
        text = (
            f"{show_place(left.place)} is connected to {view.show_port(left.actual)}; it belongs to {where}"
        )
        findings.append(_report(view, [left], text, left.place[0], left.place[1]))
    return findings


def _report(view: View, ports: list[_Misplaced], text: str, node: str | None, rail: str | None) -> Finding:
    return build_finding(
        "wrong_leaf",
        "fail",
        text,
        inferred=any(one.planned.inferred for one in ports),
        node=node,
        rail=rail,
        ports=[key for one in ports for key in (one.key, one.actual)],
        sources=[source for one in ports for source in view.link_at[one.key].sources],
    )


def _find_exchanged_leaves(
    view: View, planned: dict[Place, PlannedLeaf], wrong: dict[Place, _Misplaced]
) -> Iterator[Finding]:
    """Yield pairs of leaves that have all rails of each other: their names are exchanged, not cables."""
    linked = Counter(plan.guid for place, plan in planned.items() if view.switch_of(place) is not None)
    at: dict[tuple[str, str], list[_Misplaced]] = {}
    for one in wrong.values():
        if one.planned.guid is not None:
            at.setdefault((one.planned.guid, one.actual.guid), []).append(one)
    for (first, second), ports in at.items():
        back = at.get((second, first), [])
        whole = len(ports) == linked[first] and len(back) == linked[second]
        if first > second or not whole or min(len(ports), len(back)) < _FEWEST:
            continue
        for one in [*ports, *back]:
            del wrong[one.place]
        text = (
            f"{view.show_switch(first)} and {view.show_switch(second)} are exchanged: each has all rails of "
            "the other one; rather their names or GUIDs than their cables"
        )
        yield _report(view, [*ports, *back], text, None, None)


def _find_moved_hosts(
    view: View, planned: dict[Place, PlannedLeaf], wrong: dict[Place, _Misplaced]
) -> Iterator[Finding]:
    """Yield nodes whose rails are all at another unit's leaves; two that are exchanged are one finding."""
    rails_at: dict[str, set[str]] = {}
    for (_node, rail), plan in planned.items():
        if plan.guid is not None:
            rails_at.setdefault(plan.guid, set()).add(rail)
    linked: Counter[str] = Counter(
        place_of(one)[0] for one in view.expected.ports if view.switch_of(place_of(one)) is not None
    )
    moved: dict[str, dict[str, _Misplaced]] = {}
    for place, one in wrong.items():
        if place[1] in rails_at.get(one.actual.guid, ()) and one.planned.guid is not None:
            moved.setdefault(place[0], {})[place[1]] = one
    moved = {node: rails for node, rails in moved.items() if len(rails) == linked[node] > 1}
    pairs = _pair(
        list(moved),
        lambda one, other: _are_exchanged(moved[one], moved[other]),
        lambda one, other: _took_place(view, moved[one].values(), moved[other].values()),
    )
    for node, other in [*pairs, *((node, None) for node in moved if not any(node in pair for pair in pairs))]:
        rails = moved[node]
        ports = [*rails.values(), *(moved[other].values() if other else ())]
        here = ", ".join(view.show_port(one.actual) for one in rails.values())
        if other is not None:
            text = f"{node} and {other} are exchanged: {node} is connected to {here}, where {other} belongs"
        else:
            leaves = ", ".join(view.show_switch(str(one.planned.guid)) for one in rails.values())
            text = f"{node} is connected to another unit: {here}; it belongs to {leaves}"
        for one in ports:
            wrong.pop(one.place, None)
        yield _report(view, ports, text, node, None)


def _are_exchanged(one: dict[str, _Misplaced], other: dict[str, _Misplaced]) -> bool:
    return set(one) == set(other) and all(_is_exchanged(one[rail], other[rail]) for rail in one)


def _is_exchanged(one: _Misplaced, other: _Misplaced) -> bool:
    return one.actual.guid == other.planned.guid and other.actual.guid == one.planned.guid


def _took_place(view: View, ports: Iterable[_Misplaced], others: Iterable[_Misplaced]) -> bool:
    """Tell whether some ports are where others were in the previous reading."""
    if view.before is None:
        return False
    last = {view.before.switch_of(other.place) for other in others}
    return any(one.actual in last for one in ports)


def _pair(
    items: Sequence[_T], fit: Callable[[_T, _T], bool], is_likely: Callable[[_T, _T], bool]
) -> list[tuple[_T, _T]]:
    """Return pairs that fit; those that the previous reading makes likely are found first."""
    pairs: list[tuple[_T, _T]] = []
    left = list(items)
    for must_be_likely in (True, False):
        for one in list(left):
            other = next(
                (
                    two
                    for two in left
                    if one in left
                    and two != one
                    and fit(one, two)
                    and (not must_be_likely or is_likely(one, two) or is_likely(two, one))
                ),
                None,
            )
            if other is not None:
                left = [two for two in left if two not in (one, other)]
                pairs.append((one, other))
    return pairs


def _find_cycles(view: View, wrong: dict[Place, _Misplaced]) -> Iterator[Finding]:
    """Yield rails of one node that are at each other's leaves."""
    by_node: dict[str, dict[str, _Misplaced]] = {}
    for place, one in wrong.items():
        if one.planned.guid is not None:
            by_node.setdefault(place[0], {})[one.planned.guid] = one
    for node, belongs in by_node.items():
        left = dict(belongs)
        while left:
            start = min(left)
            one = left[start]
            cycle, at = [one], one.actual.guid
            while at != start and at in left and left[at] not in cycle:
                cycle.append(left[at])
                at = left[at].actual.guid
            del left[start]
            if at != start:
                continue
            for one in cycle:
                left.pop(str(one.planned.guid), None)
                wrong.pop(one.place, None)
            rails = " and ".join(one.place[1] for one in cycle)
            move = ", ".join(
                f"{one.place[1]} from {view.show_port(one.actual)} "
                f"to {view.show_switch(str(one.planned.guid))}"
                for one in cycle
            )
            yield _report(
                view, cycle, f"{node}: the cables of {rails} are exchanged; move {move}", node, None
            )


def _find_pairs(view: View, wrong: dict[Place, _Misplaced]) -> Iterator[Finding]:
    """Yield pairs of nodes of which each has a rail at the other's leaf."""
    between: dict[frozenset[str], list[_Misplaced]] = {}
    for one in wrong.values():
        if one.planned.guid is not None:
            between.setdefault(frozenset((one.planned.guid, one.actual.guid)), []).append(one)
    pairs = [
        pair
        for same in between.values()
        for pair in _pair(
            same,
            lambda one, other: one.place[0] != other.place[0] and _is_exchanged(one, other),
            lambda one, other: _took_place(view, [one], [other]),
        )
    ]
    for one, other in pairs:
        del wrong[one.place], wrong[other.place]
        text = (
            f"{show_place(one.place)} and {show_place(other.place)} are exchanged; move the cable in "
            f"{view.show_port(one.actual)} to {view.show_switch(other.actual.guid)}, and that in "
            f"{view.show_port(other.actual)} to {view.show_switch(one.actual.guid)}"
        )
        rail = one.place[1] if one.place[1] == other.place[1] else None
        yield _report(view, [one, other], text, None, rail)
