# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of verdicts.jsonl: a verdict each, but of a large run passing tests between nodes as counts.

Half a kilobyte for each of a million tests that all say "pass" is what nobody reads. Whatever is not a plain
pass keeps its line, and `railyard export --verdicts` writes them all. Pure.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number, is_whole
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Verdicts
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

#: A run of so many verdicts has a line for each: 16 nodes with 8 rails and every test have 21,216.
MOST_LINES = 50_000
#: No run asks as much: all pairs of 1,024 nodes with 8 rails are a twentieth. A file may have been edited.
MOST_VERDICTS = 10**8
_ALIKE = ("check", "tool", "rail", "direction", "outcome", "proof", "floor", "ceiling", "basis")


def lines(verdicts: Sequence[Row], most: int = MOST_LINES) -> Iterator[Row]:
    """Yield what is written of verdicts.

    Args:
        verdicts: one for each asked line.
        most: of so many each has its line.

    Yields:
        verdicts (docs/schema/verdict.schema.json), after them counts of those that are not among them
        (docs/schema/verdict_count.schema.json).
    """
    if len(verdicts) <= most:
        yield from verdicts
        return
    found = verdicts if isinstance(verdicts, Verdicts) else None
    classes: dict[tuple[str, ...], _Class] = {}
    for place, one in enumerate(verdicts) if found is None else found.placed:
        if _is_plain(one):
            _class_of(classes, place, one).add(1, one["observed"])
        else:
            yield one
    for place, one, number, shown in () if found is None else found.alike():
        _class_of(classes, place, one).add(number, shown)
    yield from (one.line() for one in sorted(classes.values(), key=operator.attrgetter("first")))


def _class_of(classes: dict[tuple[str, ...], _Class], place: int, one: Row) -> _Class:
    # Not JSON, which costs as much as the line.
    key = tuple(repr(one[name]) for name in _ALIKE)
    found = classes.setdefault(key, _Class(one))
    found.first = min(found.first, place)
    return found


def count(line: Row) -> int:
    """Return for how many verdicts a line of verdicts.jsonl stands."""
    told = line.get("count")
    return told if is_whole(told) and 0 < told <= MOST_VERDICTS else 1


def middle(line: Row) -> Row:
    """Return a line of verdicts.jsonl as one verdict: of those behind a count it has observed the medians."""
    observed = line.get("observed")
    if "count" not in line or not isinstance(observed, Mapping):
        return line
    medians = {name: one.get("median") for name, one in observed.items() if isinstance(one, Mapping)}
    return {**line, "observed": medians}


def _is_plain(one: Row) -> bool:
    return (
        one["outcome"] == "pass" and one["peer"] is not None and one["attempts"] == 1 and "subject" not in one
    )


class _Class:
    """Passing tests that differ in their nodes and numbers alone.

    Attributes:
        first: the place of the first of them.
    """

    def __init__(self, one: Row) -> None:
        self.first, self._one, self._count = sys.maxsize, one, 0
        self._observed: dict[str, list[Any]] = {}

    def add(self, count: int, observed: Mapping[str, Any]) -> None:
        """Take more of them, which show a number each, or a column of numbers."""
        self._count += count
        for name, value in observed.items():
            if isinstance(value, np.ndarray) or is_number(value):
                self._observed.setdefault(name, []).append(value)

    def line(self) -> dict[str, Any]:
        """Return how many there are, and between what their numbers lie."""
        alike = {name: self._one[name] for name in _ALIKE}
        observed = {name: _spread(np.hstack(values)) for name, values in self._observed.items()}
        return {"schema": self._one["schema"], "count": self._count, **alike, "observed": observed}


def _spread(values: NDArray[np.float64]) -> dict[str, float]:
    ordered = np.sort(values[~np.isnan(values)].astype(np.float64))
    middle = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
    return {"min": float(ordered[0]), "median": float(sum(middle) / 2), "max": float(ordered[-1])}
