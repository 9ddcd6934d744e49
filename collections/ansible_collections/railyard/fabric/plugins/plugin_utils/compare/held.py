# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two runs held against each other, rail by rail: only like numbers of the same places. Pure."""

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
    """One run's values of a row, in the unit of the metric: median, least, greatest, how many."""

    value: float
    least: float
    greatest: float
    values: int


@dataclass(frozen=True)
class Row:
    """A check over one rail, or over several together; or of one sender over one rail.

    Attributes:
        check: its name.
        metric: what is compared.
        rails: the rails; empty for a sum of all rails.
        node, peer: the two ends, where the row is of one place alone; else empty.
        a, b: each run's values; None where it has none.
        ratio: B's median by A's; None where nothing may be compared.
        chance: p of the rank test, adjusted for all rows; None where there were too few values.
        word: one of the four of `significance`.
    """

    check: str
    metric: str
    rails: tuple[str, ...]
    a: Side | None
    b: Side | None
    ratio: float | None = None
    chance: float | None = None
    word: str = NOT_COMPARABLE
    node: str = ""
    peer: str = ""


class Refused(NamedTuple):
    """Numbers of both runs that are not alike: the tool, in what they differ, and how many."""

    tool: str
    differs: tuple[tuple[str, str, str], ...]
    rows: int


class Lacking(NamedTuple):
    """Places without a number in one run (`a`, `b`) or in `both`; the outcomes there say why."""

    check: str
    run: str
    outcomes: tuple[str, ...]
    places: tuple[Place, ...]


class Changed(NamedTuple):
    """Verdicts that came out otherwise: check, what it was, what it is (`not asked` too), where."""

    check: str
    a: str
    b: str
    places: tuple[Place, ...]


@dataclass(frozen=True)
class Held:
    """What the comparison found.

    Attributes:
        a, b: the runs.
        rows: in the order of the checks; of several rails first the one of all of them.
        places: single senders that changed, where their rail's row does not say it; most first.
        refused: what may not be compared.
        lacking: what has no proven number.
        changed: verdicts that differ.
    """

    a: Run
    b: Run
    rows: tuple[Row, ...]
    places: tuple[Row, ...]
    refused: tuple[Refused, ...]
    lacking: tuple[Lacking, ...]
    changed: tuple[Changed, ...]

    @property
    def is_compared(self) -> bool:
        """Tell whether anything could be compared at all."""
        return any(row.word != NOT_COMPARABLE for row in self.rows)


def hold(a: Run, b: Run) -> Held:
    """Compare run B with run A, which came before it."""
    pairs, refused = _paired(a, b)
    rails, alike, all_a, all_b = _rails(a, b), *map(_by_rail, (pairs, a.numbers, b.numbers))
    rows: list[Row] = []
    singles: list[Row] = []
    for check in CHECKS:
        there = [rail for rail in rails if (check, rail) in all_a or (check, rail) in all_b]
        groups: list[tuple[str, ...]] = [tuple(there)] if len(there) > 1 else []
        groups += [(rail,) for rail in there]
        groups += [()] if (check, None) in all_a or (check, None) in all_b else []
        for group in groups:
            row = _row(check, group, a, b, alike)
            if row.ratio is None:
                row = replace(row, a=_all(row, a, all_a), b=_all(row, b, all_b))
            rows.append(row)
            if len(group) < 2:
                singles += _stand_out(row, a, b, alike)
    chances = [row.chance for row in rows if row.chance is not None]
    adjusted = iter(significance.adjusted(chances))
    said = [
        _said(row if row.chance is None else replace(row, chance=next(adjusted)), a, b, alike) for row in rows
    ]
    words = {(row.check, row.rails): row.word for row in said}
    new = [one for one in singles if words[one.check, one.rails] != one.word]
    return Held(
        a,
        b,
        tuple(said),
        tuple(sorted(new, key=lambda one: -significance.change(one.ratio or 1.0, 1.0))),
        tuple(refused),
        tuple(_lacking(a, b)),
        tuple(_changed(a, b)),
    )


def _paired(a: Run, b: Run) -> tuple[list[Place], list[Refused]]:
    """Return the places whose two numbers are alike, and in what the others differ, most frequent first."""
    alike: list[Place] = []
    counts: dict[tuple[str, tuple[tuple[str, str, str], ...]], int] = {}
    for place, number in a.numbers.items():
        other = b.numbers.get(place)
        if other is not None:
            differs = _unlike(number, other)
            if not differs:
                alike.append(place)
                continue
            tool = place.check if differs[0][0] == "tool" else _condition(number, "tool")
        else:
            turned = place._replace(node=place.peer, peer=place.node)
            if turned not in b.numbers or turned in a.numbers:
                continue
            tool, differs = _condition(number, "tool"), (("direction", "one way", "the other way"),)
        counts[tool, differs] = counts.get((tool, differs), 0) + 1
    refused = [Refused(tool, differs, count) for (tool, differs), count in counts.items()]
    return alike, sorted(refused, key=lambda one: -one.rows)


def _unlike(one: Number, other: Number) -> tuple[tuple[str, str, str], ...]:
    keys = [key for key in CONDITIONS if one.conditions.get(key) != other.conditions.get(key)]
    return tuple((key, _condition(one, key), _condition(other, key)) for key in keys)


def _condition(number: Number, key: str) -> str:
    return ", ".join(number.conditions.get(key, ())) or "unknown"


def _rails(a: Run, b: Run) -> list[str]:
    """Return all rails in the order of the plans."""
    names = [rail["name"] for run in (a, b) for node in run.plan["nodes"].values() for rail in node["rails"]]
    return list(dict.fromkeys(str(name) for name in names))


def _row(check: str, rails: tuple[str, ...], a: Run, b: Run, alike: ByRail) -> Row:
    """Return a row without its word, with p as the test gives it."""
    mine = _of(check, rails, alike)
    if not mine:
        return Row(check, str(comparison.metric(check)), rails, None, None)
    before, after = ([run.numbers[place].value for place in mine] for run in (a, b))
    ratio = statistics.median(after) / statistics.median(before)
    chance = significance.rank_chance(before, after)
    return Row(check, str(comparison.metric(check)), rails, _side(before), _side(after), ratio, chance)


def _all(row: Row, run: Run, places: ByRail) -> Side | None:
    """Return all values of one run, where no two may be compared."""
    return _side([run.numbers[place].value for place in _of(row.check, row.rails, places)])


def _by_rail(places: Iterable[Place]) -> ByRail:
    found: dict[tuple[str, str | None], list[Place]] = {}
    for place in places:
        found.setdefault((place.check, place.rail), []).append(place)
    return found


def _of(check: str, rails: tuple[str, ...], places: ByRail) -> list[Place]:
    return [place for rail in rails or (None,) for place in places.get((check, rail), ())]


def _side(values: Sequence[float]) -> Side | None:
    return Side(statistics.median(values), min(values), max(values), len(values)) if values else None


def _said(row: Row, a: Run, b: Run, alike: ByRail) -> Row:
    if row.ratio is None:
        return row
    before, after = ([run.numbers[one].value for one in _of(row.check, row.rails, alike)] for run in (a, b))
    word = significance.word(before, after, row.metric, _margin(row.check, a, b), row.chance)
    return replace(row, word=word)


def _margin(check: str, a: Run, b: Run) -> significance.Margin:
    return significance.margin(check, a.is_steady(check) and b.is_steady(check))


def _stand_out(row: Row, a: Run, b: Run, alike: ByRail) -> list[Row]:
    """Return the single senders of a row that changed beyond noise; of many, also unlike the others."""
    mine = _of(row.check, row.rails, alike)
    margin = _margin(row.check, a, b)
    ratios = {place: b.numbers[place].value / a.numbers[place].value for place in mine}
    if len(mine) < 2:
        return []
    apart = outliers.find_beyond_spread(ratios, outliers.CHANGE)
    found = []
    for place, ratio in ratios.items():
        before, after = a.numbers[place].value, b.numbers[place].value
        word = significance.word([before], [after], row.metric, margin, None)
        if word != significance.NO_DIFFERENCE and (place in apart or len(mine) < outliers.CHANGE.values):
            of_place = replace(row, node=place.node, peer=place.peer, ratio=ratio, chance=None, word=word)
            found.append(replace(of_place, a=_side([before]), b=_side([after])))
    return found


def _lacking(a: Run, b: Run) -> list[Lacking]:
    """Fold the places that one run or both asked and that have no number in one of them or in both."""
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
        Lacking(check, which, tuple(sorted(set(places.values()))), tuple(places))
        for (check, which), places in found.items()
    ]


def _changed(a: Run, b: Run) -> list[Changed]:
    """Fold the verdicts that came out otherwise, failures of B first."""
    found: dict[tuple[str, str, str], list[Place]] = {}
    for place in dict.fromkeys([*a.outcomes, *b.outcomes]):
        before, after = (run.outcomes.get(place, "not asked") for run in (a, b))
        if before != after:
            found.setdefault((place.check, before, after), []).append(place)
    order = ("fail", "unmeasured")
    rank = {name: place for place, name in enumerate(order)}
    return [
        Changed(check, before, after, tuple(places))
        for (check, before, after), places in sorted(
            found.items(), key=lambda one: (rank.get(one[0][2], 9), rank.get(one[0][1], 9))
        )
    ]
