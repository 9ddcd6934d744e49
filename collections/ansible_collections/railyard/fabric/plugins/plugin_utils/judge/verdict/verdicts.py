# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict per planned test. Those of tests that clearly pass stay columns until they are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, overload

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import Ids
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.passing_tests import PassingTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer


class Answers(NamedTuple):
    """The answers that verdicts are made of.

    Attributes:
        lines: the planned tests that do not clearly pass.
        found: their answers, in the same order.
        places: their places among all planned tests.
        passing: the tests that clearly pass.
        rows: id -> its rows.
    """

    lines: Sequence[AskedLine]
    found: list[Answer]
    places: Sequence[int]
    passing: PassingTests
    rows: RowsByTest


class Verdicts(Sequence[dict[str, Any]]):
    """Verdicts in the order of the planned tests.

    Args:
        answers: the answers, which are freed one by one.
    """

    def __init__(self, answers: Answers) -> None:
        self._passing, self._rows = answers.passing, answers.rows
        found = answers.found
        found.reverse()
        self._rest = [found.pop().to_verdict(line, answers.rows) for line in answers.lines]
        self._places = answers.places
        tests = self._passing.places
        at = self._passing.asked.at[tests]
        #: For each verdict its place among the rest, or (negative) its test's place minus the number of
        #: tests.
        self._where = np.empty(len(self._rest) + len(tests), dtype=np.int64)
        self._where[np.array(self._places, dtype=np.int64)] = np.arange(len(self._rest))
        self._where[at] = tests - len(self._passing.asked.number)

    @property
    def placed(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """All verdicts on tests that do not clearly pass, with their places."""
        return zip(self._places, map(_expand_rows, self._rest), strict=True)

    def group_equal(self) -> Iterator[tuple[int, dict[str, Any], int, dict[str, Any]]]:
        """Yield groups of verdicts on tests that clearly pass, which only differ in nodes and numbers.

        Yields:
            the place of the first verdict, the verdict, their number, and observed values as columns.
        """
        for test, count, shown in self._passing.group_equal():
            place = int(self._passing.asked.at[test])
            yield place, self[place], count, shown

    @property
    def rest(self) -> Sequence[dict[str, Any]]:
        """All verdicts on tests that do not clearly pass; their `rows` may be `Ids`."""
        return self._rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equality compares with any sequence

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
            return _expand_rows(self._rest[where])
        place = where + len(self._passing.asked.number)
        return self._passing.answer(place).to_verdict(self._passing.asked.line(place), self._rows)


def _expand_rows(one: dict[str, Any]) -> dict[str, Any]:
    """Return a verdict as it is written."""
    return {**one, "rows": list(one["rows"])} if isinstance(one["rows"], Ids) else one
