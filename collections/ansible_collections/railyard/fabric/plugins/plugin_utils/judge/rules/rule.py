# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Types of rules: a condition of a good test, its text for people, and the problem if it does not hold. Pure.

A rule is applied to one row or pair of rows (`evidence/views`), or to the columns of many
(`evidence/columns/views`), which have the same attributes. It tests for the good case, never for the bad one:
a missing number is NaN, which compares as false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

Problem = tuple[str, str]
"""Id in the cause table, and details."""
View = Any
"""A row or pair of rows, or the columns of many, with the same attributes."""
Holds = Any
"""A boolean for one row, an array of booleans for columns."""


class Rule(NamedTuple):
    """A condition on the numbers of a good test.

    Attributes:
        what: the condition as text.
        holds: tells whether it holds, for one or for many.
        why: returns the problem of one for which it does not hold.
        of: the metric, counter, key or end that it applies to, if there are several.
    """

    what: str
    holds: Callable[[View], Holds]
    why: Callable[[View], Problem]
    of: str = ""

    def problems(self, one: View) -> Iterator[Problem]:
        """Yield the problem of one, or nothing."""
        if not self.holds(one):
            yield self.why(one)


class Lookup(NamedTuple):
    """A condition on values that the rows of a frame have in common, so that one row per frame is checked.

    Attributes:
        what: the condition as text.
        problems: yields the problem of one, or nothing.
        of: the end that it applies to, if it is checked for both.
    """

    what: str
    problems: Callable[[View], Iterator[Problem]]
    of: str = ""


Rules = Iterable[Rule | Lookup]


def find_broken(rules: Rules, one: View) -> Iterator[Problem]:
    """Yield the problems of one row or pair, in the order of the rules; the first is its cause."""
    for rule in rules:
        yield from rule.problems(one)


def apply_to_many(rules: Rules, many: View, good: Holds) -> Holds:
    """Return which of many, good so far, keep to all rules on numbers."""
    for rule in rules:
        if isinstance(rule, Rule):
            good = good & rule.holds(many)
    return good
