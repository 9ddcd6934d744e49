# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict for each asked line. Those of tests that plainly pass stay columns until somebody reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import Ids
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.by_column import Plain
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]


class Answers(NamedTuple):
    """What verdicts are made of.

    Attributes:
        lines: the asked lines of all tests that do not plainly pass.
        found: their answers, in the same order.
        places: where they stand among all asked lines.
        plain: the tests that plainly pass.
        rows: id -> its rows.
    """

    lines: Sequence[AskedLine]
    found: list[Answer]
    places: Sequence[int]
    plain: Plain
    rows: RowsByTest


class Verdicts(Sequence[dict[str, Any]]):
    """Verdicts in the order of the asked lines.

    Args:
        answers: what they are made of; an answer goes when its verdict is there.
    """

    def __init__(self, answers: Answers) -> None:
        self._plain, self._rows = answers.plain, answers.rows
        found = answers.found
        found.reverse()
        self._rest = [found.pop().to_verdict(line, answers.rows) for line in answers.lines]
        self._places = answers.places
        tests = self._plain.places
        at = self._plain.asked.at[tests]
        #: Of each verdict its place among the rest, or where its test is among those asked, less the count.
        self._where = np.empty(len(self._rest) + len(tests), dtype=np.int64)
        self._where[np.array(self._places, dtype=np.int64)] = np.arange(len(self._rest))
        self._where[at] = tests - len(self._plain.asked.number)

    @property
    def placed(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """All that are not of tests that plainly pass, and their places."""
        return zip(self._places, map(_as_written, self._rest), strict=True)

    def alike(self) -> Iterator[tuple[int, dict[str, Any], int, dict[str, Any]]]:
        """Yield those of tests that plainly pass, all at once that differ in nodes and numbers alone.

        Yields:
            the place of the first of them, itself, how many they are, and what they show as columns.
        """
        for test, count, shown in self._plain.alike():
            place = int(self._plain.asked.at[test])
            yield place, self[place], count, shown

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """All that are not of tests that plainly pass; their `rows` may be `Ids`."""
        return self._rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equal ones have nothing else in common

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._at, self._where.tolist())

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...

    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        found = self._where[at].tolist()
        return list(map(self._at, found)) if isinstance(at, slice) else self._at(found)

    def _at(self, where: int) -> dict[str, Any]:
        if where >= 0:
            return _as_written(self._rest[where])
        place = where + len(self._plain.asked.number)
        return self._plain.answer(place).to_verdict(self._plain.asked.line(place), self._rows)


def _as_written(one: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict as it is written."""
    return {**one, "rows": list(one["rows"])} if isinstance(one["rows"], Ids) else one
