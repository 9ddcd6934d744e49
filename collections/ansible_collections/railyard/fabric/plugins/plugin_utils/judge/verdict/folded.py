# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the lines of verdicts.jsonl: one per verdict; in large runs passes between nodes become counts.

A million equal passes would take half a gigabyte. Everything except a clear pass keeps its own line, and
`railyard export --verdicts` writes all lines. Pure.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Runs with at most so many verdicts have a line for each: 16 nodes with 8 rails and every test have 21,216.
MOST_LINES = 50_000
#: Limit of a count, since files may be edited: all pairs of 1,024 nodes with 8 rails are a twentieth of it.
MOST_VERDICTS = 10**8
_ALIKE = ("check", "tool", "rail", "direction", "outcome", "proof", "floor", "ceiling", "basis")


def fold_verdicts(verdicts: Sequence[Row], most: int = MOST_LINES) -> Iterator[Row]:
    """Yield the lines of verdicts.jsonl.

    Args:
        verdicts: one for each planned test.
        most: number of verdicts up to which each has its own line.

    Yields:
        verdicts (docs/schema/verdict.schema.json), then counts of the other verdicts
        (docs/schema/verdict_count.schema.json).
    """
    if len(verdicts) <= most:
        yield from verdicts
        return
    found = verdicts if isinstance(verdicts, Verdicts) else None
    classes: dict[tuple[str, ...], _Class] = {}
    for place, one in enumerate(verdicts) if found is None else found.placed:
        if _is_foldable(one):
            _find_class(classes, place, one).add(1, one["observed"])
        else:
            yield one
    for group in () if found is None else found.divided.passes:
        _find_class(classes, int(group.places[0]), group.first).add(group.count, group.observed)
    yield from (one.line() for one in sorted(classes.values(), key=operator.attrgetter("first")))


def _find_class(classes: dict[tuple[str, ...], _Class], place: int, one: Row) -> _Class:
    # JSON would take as long as writing the line.
    key = tuple(repr(one[name]) for name in _ALIKE)
    found = classes.setdefault(key, _Class(one))
    found.first = min(found.first, place)
    return found


def read_count(line: Row) -> int:
    """Return the number of verdicts that a line of verdicts.jsonl represents."""
    number = line.get("count")
    return number if is_whole(number) and 0 < number <= MOST_VERDICTS else 1


def take_medians(line: Row) -> Row:
    """Return a line of verdicts.jsonl as one verdict; a count has the medians of the observed values."""
    observed = line.get("observed")
    if "count" not in line or not isinstance(observed, Mapping):
        return line
    medians = {name: one.get("median") for name, one in observed.items() if isinstance(one, Mapping)}
    return {**line, "observed": medians}


def _is_foldable(one: Row) -> bool:
    return (
        one["outcome"] == "pass" and one["peer"] is not None and one["attempts"] == 1 and "subject" not in one
    )


class _Class:
    """Passing tests that only differ in their nodes and numbers.

    Attributes:
        first: the place of the first test.
    """

    def __init__(self, one: Row) -> None:
        self.first, self._one, self._count = sys.maxsize, one, 0
        self._observed: list[Mapping[str, Any]] = []

    def add(self, count: int, observed: Mapping[str, Any]) -> None:
        """Add tests with their observed values: numbers, or columns of numbers."""
        self._count += count
        self._observed.append(observed)

    def line(self) -> dict[str, Any]:
        """Return their number, and minimum, median and maximum of their observed values."""
        alike = {name: self._one[name] for name in _ALIKE}
        observed = {}
        for key in dict.fromkeys(name for one in self._observed for name in one):
            values = [one[key] for one in self._observed if key in one]
            if numbers := [one for one in values if isinstance(one, np.ndarray) or is_number(one)]:
                observed[key] = _summarize(np.hstack(numbers))
        return {"schema": self._one["schema"], "count": self._count, **alike, "observed": observed}


def _summarize(values: Floats) -> dict[str, float]:
    ordered = np.sort(values[~np.isnan(values)].astype(np.float64))
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return {"min": float(ordered[0]), "median": float(sum(middle) / 2), "max": float(ordered[-1])}
