# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One verdict per planned test. Those of tests that clearly pass stay columns until they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, overload

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, Ints, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import Ids
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.rows_by_test import RowsByTest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules.passing_tests import PassingTests
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row, Verdict


class Answers(NamedTuple):
    """The answers that verdicts are made of.

    Attributes:
        lines: the planned tests that do not clearly pass.
        found: their answers, in the same order.
        places: their places among all planned tests.
        passing: the tests that clearly pass.
        rows: id -> its rows.
        read_complete: returns a row as it is in the folder.
    """

    lines: Sequence[AskedLine]
    found: list[Answer]
    places: Sequence[int]
    passing: PassingTests
    rows: RowsByTest
    read_complete: Callable[[Row], Row]


@dataclass(frozen=True)
class Passes:
    """Verdicts on tests that clearly pass, and differ only in id, nodes and observed values.

    Attributes:
        source: all verdicts.
        places: their places among these.
        first: the first of them.
        names: the nodes of the run.
        node, peer: for each the places of its nodes in `names`.
        observed: name -> for each the observed value, NaN where it has none.
    """

    source: Sequence[Verdict]
    places: Ints
    first: Verdict
    names: Sequence[str]
    node: Ints
    peer: Ints
    observed: Mapping[str, Floats]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.places)

    def ends(self) -> Iterator[tuple[str, str]]:
        """Yield node and peer of some of them, so that each node and each peer is among these."""
        firsts = (np.unique(end, return_index=True)[1] for end in (self.node, self.peer))
        for index in np.union1d(*firsts).tolist():
            yield self.names[self.node[index]], self.names[self.peer[index]]


class Divided(NamedTuple):
    """The verdicts of a run: those that are read one by one, and groups of passes.

    Small runs have no groups.
    """

    single: Sequence[Verdict]
    passes: Sequence[Passes] = ()

    @property
    def examples(self) -> Iterator[Verdict]:
        """All single verdicts, and one of each group."""
        yield from self.single
        yield from (group.first for group in self.passes)

    def each_pair(self) -> Iterator[Row]:
        """Yield all single verdicts, and node and peer of each pair of nodes with passes."""
        yield from self.single
        if self.passes:
            names = self.passes[0].names
            keys = [np.unique(group.node.astype(np.int64) * len(names) + group.peer) for group in self.passes]
            for key in np.unique(np.concatenate(keys)).tolist():
                node, peer = divmod(key, len(names))
                yield {"node": names[node], "peer": names[peer]}


def divide(verdicts: Sequence[Verdict] | Divided) -> Divided:
    """Return the verdicts of a run divided into single ones and groups of passes."""
    if isinstance(verdicts, Divided):
        return verdicts
    return verdicts.divided if isinstance(verdicts, Verdicts) else Divided(verdicts)


class Verdicts(Sequence[Verdict]):
    """Verdicts in the order of the planned tests.

    Args:
        answers: the answers, which are freed one by one.
    """

    def __init__(self, answers: Answers) -> None:
        self._passing, self._rows = answers.passing, answers.rows
        self._read_complete = answers.read_complete
        found = answers.found
        found.reverse()
        self._rest = [found.pop().to_verdict(line, answers.rows) for line in answers.lines]
        self._places = answers.places
        tests = self._passing.places
        at = self._passing.asked.at[tests]
        #: For each verdict its place among the rest, or (negative) its test's place minus the number of
        #: tests.
        self._where = np.empty(len(self._rest) + len(tests), dtype=np.int32)
        self._where[np.array(self._places, dtype=np.int64)] = np.arange(len(self._rest))
        self._where[at] = tests - len(self._passing.asked.number)

    @property
    def placed(self) -> Iterator[tuple[int, Verdict]]:
        """All verdicts on tests that do not clearly pass, with their places."""
        return zip(self._places, map(expand_rows, self._rest), strict=True)

    @cached_property
    def divided(self) -> Divided:
        """The verdicts on tests that do not clearly pass, and groups of the others."""
        asked, names = self._passing.asked, list(self._passing.asked.nodes)
        groups = []
        for tests, shown in self._passing.group_equal():
            places, ends = asked.at[tests], (asked.node[tests], asked.peer[tests])
            groups.append(Passes(self, places, self[int(places[0])], names, *ends, shown))
        return Divided(self._rest, groups)

    def read_rows(self, identities: Iterable[str]) -> Iterator[Row]:
        """Yield the complete rows of some tests.

        Raises:
            RunFolderError: they cannot be read, or have changed.
        """
        for identity in identities:
            yield from map(self._read_complete, self._rows.get(identity, ()))

    @property
    def rest(self) -> Sequence[Verdict]:
        """All verdicts on tests that do not clearly pass; their `rows` may be `Ids`."""
        return self._rest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # equality compares with any sequence

    def __len__(self) -> int:
        return len(self._where)

    def __iter__(self) -> Iterator[Verdict]:
        return map(self._at, self._where.tolist())

    @overload
    def __getitem__(self, at: int) -> Verdict: ...

    @overload
    def __getitem__(self, at: slice) -> list[Verdict]: ...

    def __getitem__(self, at: int | slice) -> Verdict | list[Verdict]:
        found = self._where[at].tolist()
        return list(map(self._at, found)) if isinstance(at, slice) else self._at(found)

    def _at(self, where: int) -> Verdict:
        if where >= 0:
            return expand_rows(self._rest[where])
        place = where + len(self._passing.asked.number)
        return self._passing.answer(place).to_verdict(self._passing.asked.line(place), self._rows)


def expand_rows(one: Verdict) -> Verdict:
    """Return a verdict as it is written."""
    return {**one, "rows": list(one["rows"])} if isinstance(one["rows"], Ids) else dict(one)
