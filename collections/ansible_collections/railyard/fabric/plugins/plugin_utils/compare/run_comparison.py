# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare two runs rail by rail: only comparable results of the same node, peer and rail. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.significance import NOT_COMPARABLE
from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.runs import (
    CONDITIONS,
    Number,
    Place,
    Run,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison

#: (check, rail) -> places.
ByRail = Mapping[tuple[str, "str | None"], Sequence[Place]]


class Side(NamedTuple):
    """One run's values of a row, in the unit of the metric: median, minimum, maximum, count."""

    value: float
    least: float
    greatest: float
    values: int


@dataclass(frozen=True)
class Row:
    """A check on one rail, on several rails together, or of one sender on one rail.

    Attributes:
        check: its name.
        metric: the compared metric.
        rails: the rails; empty for a sum of all rails.
        node, peer: the two ends, if the row is of one pair only; else empty.
        a, b: each run's values; None if it has none.
        ratio: B's median divided by A's; None if nothing may be compared.
        chance: p of the rank test, adjusted for all rows; None if there were too few values.
        finding: one of the four of `significance`.
    """

    check: str
    metric: str
    rails: tuple[str, ...]
    a: Side | None
    b: Side | None
    ratio: float | None = None
    chance: float | None = None
    finding: str = NOT_COMPARABLE
    node: str = ""
    peer: str = ""


class NotComparable(NamedTuple):
    """Results of both runs under different conditions: the tool, the differences, and how many."""

    tool: str
    differs: tuple[tuple[str, str, str], ...]
    rows: int


class WithoutNumber(NamedTuple):
    """Places without a result in one run (`a`, `b`) or in `both`, with their outcomes."""

    check: str
    run: str
    outcomes: tuple[str, ...]
    places: tuple[Place, ...]


class ChangedVerdict(NamedTuple):
    """Verdicts that changed: check, outcome before and after (or `not asked`), where."""

    check: str
    a: str
    b: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison.

    Attributes:
        a, b: the runs.
        rows: in the order of the checks; of several rails the row of all of them first.
        places: single senders that changed while their rail's row did not; largest change first.
        refused: results that may not be compared.
        lacking: places without a proven result.
        changed: verdicts that differ.
    """

    a: Run
    b: Run
    rows: tuple[Row, ...]
    places: tuple[Row, ...]
    refused: tuple[NotComparable, ...]
    lacking: tuple[WithoutNumber, ...]
    changed: tuple[ChangedVerdict, ...]

    @property
    def is_compared(self) -> bool:
        """Tell whether any row could be compared."""
        return any(row.finding != NOT_COMPARABLE for row in self.rows)


def compare_runs(a: Run, b: Run) -> Comparison:
    """Compare run B with the earlier run A."""
    pairs, refused = _pair_places(a, b)
    rails, comparable, all_a, all_b = _list_rails(a, b), *map(_group_by_rail, (pairs, a.numbers, b.numbers))
    rows: list[Row] = []
    singles: list[Row] = []
    for check in CHECKS:
        there = [rail for rail in rails if (check, rail) in all_a or (check, rail) in all_b]
        groups: list[tuple[str, ...]] = [tuple(there)] if len(there) > 1 else []
        groups += [(rail,) for rail in there]
        groups += [()] if (check, None) in all_a or (check, None) in all_b else []
        for group in groups:
            row = _build_row(check, group, a, b, comparable)
            if row.ratio is None:
                row = replace(row, a=_summarize_side(row, a, all_a), b=_summarize_side(row, b, all_b))
            rows.append(row)
            if len(group) < 2:
                singles += _find_outlying_senders(row, a, b, comparable)
    chances = [row.chance for row in rows if row.chance is not None]
    adjusted = iter(significance.adjust_for_number(chances))
    classified = [
        _classify(row if row.chance is None else replace(row, chance=next(adjusted)), a, b, comparable)
        for row in rows
    ]
    findings = {(row.check, row.rails): row.finding for row in classified}
    new = [one for one in singles if findings[one.check, one.rails] != one.finding]
    return Comparison(
        a,
        b,
        tuple(classified),
        tuple(sorted(new, key=lambda one: -significance.relative_change(one.ratio or 1.0, 1.0))),
        tuple(refused),
        tuple(_fold_without_number(a, b)),
        tuple(_fold_changed_verdicts(a, b)),
    )


def _pair_places(a: Run, b: Run) -> tuple[list[Place], list[NotComparable]]:
    """Return the places with comparable results, and how the others differ, most frequent first."""
    comparable: list[Place] = []
    counts: dict[tuple[str, tuple[tuple[str, str, str], ...]], int] = {}
    for place, number in a.numbers.items():
        other = b.numbers.get(place)
        if other is not None:
            differs = _differing_conditions(number, other)
            if not differs:
                comparable.append(place)
                continue
            tool = place.check if differs[0][0] == "tool" else _condition(number, "tool")
        else:
            turned = place._replace(node=place.peer, peer=place.node)
            if turned not in b.numbers or turned in a.numbers:
                continue
            tool, differs = _condition(number, "tool"), (("direction", "one way", "the other way"),)
        counts[tool, differs] = counts.get((tool, differs), 0) + 1
    refused = [NotComparable(tool, differs, count) for (tool, differs), count in counts.items()]
    return comparable, sorted(refused, key=lambda one: -one.rows)


def _differing_conditions(one: Number, other: Number) -> tuple[tuple[str, str, str], ...]:
    keys = [key for key in CONDITIONS if one.conditions.get(key) != other.conditions.get(key)]
    return tuple((key, _condition(one, key), _condition(other, key)) for key in keys)


def _condition(number: Number, key: str) -> str:
    return ", ".join(number.conditions.get(key, ())) or "unknown"


def _list_rails(a: Run, b: Run) -> list[str]:
    """Return all rails in the order of the plans."""
    names = [rail["name"] for run in (a, b) for node in run.plan["nodes"].values() for rail in node["rails"]]
    return list(dict.fromkeys(str(name) for name in names))


def _build_row(check: str, rails: tuple[str, ...], a: Run, b: Run, comparable: ByRail) -> Row:
    """Return a row without its finding, with the unadjusted p."""
    mine = _select_places(check, rails, comparable)
    if not mine:
        return Row(check, str(comparison.metric(check)), rails, None, None)
    before, after = ([run.numbers[place].value for place in mine] for run in (a, b))
    ratio = statistics.median(after) / statistics.median(before)
    chance = significance.rank_chance(before, after)
    return Row(
        check, str(comparison.metric(check)), rails, _summarize(before), _summarize(after), ratio, chance
    )


def _summarize_side(row: Row, run: Run, places: ByRail) -> Side | None:
    """Summarize all values of one run, for a row in which nothing can be compared."""
    return _summarize([run.numbers[place].value for place in _select_places(row.check, row.rails, places)])


def _group_by_rail(places: Iterable[Place]) -> ByRail:
    found: dict[tuple[str, str | None], list[Place]] = {}
    for place in places:
        found.setdefault((place.check, place.rail), []).append(place)
    return found


def _select_places(check: str, rails: tuple[str, ...], places: ByRail) -> list[Place]:
    return [place for rail in rails or (None,) for place in places.get((check, rail), ())]


def _summarize(values: Sequence[float]) -> Side | None:
    return Side(statistics.median(values), min(values), max(values), len(values)) if values else None


def _classify(row: Row, a: Run, b: Run, comparable: ByRail) -> Row:
    if row.ratio is None:
        return row
    before, after = (
        [run.numbers[one].value for one in _select_places(row.check, row.rails, comparable)] for run in (a, b)
    )
    margin = _find_margin(row.check, a, b)
    finding = significance.classify_change(before, after, row.metric, margin, row.chance)
    return replace(row, finding=finding)


def _find_margin(check: str, a: Run, b: Run) -> significance.Margin:
    return significance.find_margin(check, a.is_steady(check) and b.is_steady(check))


def _find_outlying_senders(row: Row, a: Run, b: Run, comparable: ByRail) -> list[Row]:
    """Return a row's single senders that changed beyond noise and, if there are many, unlike the others."""
    mine = _select_places(row.check, row.rails, comparable)
    margin = _find_margin(row.check, a, b)
    ratios = {place: b.numbers[place].value / a.numbers[place].value for place in mine}
    if len(mine) < 2:
        return []
    apart = outliers.find_beyond_spread(ratios, outliers.CHANGE)
    found = []
    for place, ratio in ratios.items():
        before, after = a.numbers[place].value, b.numbers[place].value
        finding = significance.classify_change([before], [after], row.metric, margin, None)
        if finding != significance.NO_DIFFERENCE and (place in apart or len(mine) < outliers.CHANGE.values):
            sender = replace(row, node=place.node, peer=place.peer, ratio=ratio, chance=None, finding=finding)
            found.append(replace(sender, a=_summarize([before]), b=_summarize([after])))
    return found


def _fold_without_number(a: Run, b: Run) -> list[WithoutNumber]:
    """Group the planned places without a result in one run or in both."""
    found: dict[tuple[str, str], dict[Place, str]] = {}
    for place in dict.fromkeys([*a.outcomes, *b.outcomes]):
        runs = [name for name, run in (("a", a), ("b", b)) if place not in run.numbers]
        outcomes = {run.outcomes.get(place, "not asked") for run in (a, b)}
        if comparison.metric(place.check) is None or not runs or outcomes <= {"not asked", "not_applicable"}:
            continue
        which = "both" if len(runs) == 2 else runs[0]
        why = [run.outcomes.get(place, "not asked") for run in {"a": [a], "b": [b]}.get(which, [a, b])]
        found.setdefault((place.check, which), {})[place] = " and ".join(dict.fromkeys(why))
    return [
        WithoutNumber(check, which, tuple(sorted(set(places.values()))), tuple(places))
        for (check, which), places in found.items()
    ]


def _fold_changed_verdicts(a: Run, b: Run) -> list[ChangedVerdict]:
    """Group the verdicts that changed, failures of B first."""
    found: dict[tuple[str, str, str], list[Place]] = {}
    for place in dict.fromkeys([*a.outcomes, *b.outcomes]):
        before, after = (run.outcomes.get(place, "not asked") for run in (a, b))
        if before != after:
            found.setdefault((place.check, before, after), []).append(place)
    order = ("fail", "unmeasured")
    rank = {name: place for place, name in enumerate(order)}
    return [
        ChangedVerdict(check, before, after, tuple(places))
        for (check, before, after), places in sorted(
            found.items(), key=lambda one: (rank.get(one[0][2], 9), rank.get(one[0][1], 9))
        )
    ]
