# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule is: something that holds of a good test, in words, and what it means where it does not. Pure.

A rule is applied to one row or pair of rows (`evidence/views`), or to the columns of many
(`evidence/columns/views`), which have the same attributes: it stands once. It says what holds, never what is
broken: a number that is missing is NaN, which compares as false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

Problem = tuple[str, str]
"""Id in the cause table, and what was seen."""
View = Any
"""A row or pair of rows, or the columns of many: what a rule reads of it is the same."""
Holds = Any
"""Whether it holds: of one row True or False, of columns an array."""


class Rule(NamedTuple):
    """What holds of the numbers of a good test.

    Attributes:
        what: what holds, for people.
        holds: tells it of one or of many.
        why: returns what is wrong with one of which it does not hold.
        of: the metric, counter, key or end that it holds of, where it is asked of several.
    """

    what: str
    holds: Callable[[View], Holds]
    why: Callable[[View], Problem]
    of: str = ""

    def problems(self, one: View) -> Iterator[Problem]:
        """Yield what is wrong with one, or nothing."""
        if not self.holds(one):
            yield self.why(one)


class Lookup(NamedTuple):
    """What holds of all that the rows of one frame share: of many it is looked up in one row of each frame.

    Attributes:
        what: what holds, for people.
        problems: yields what is wrong with one, or nothing.
        of: the end that it holds of, where it is asked of both.
    """

    what: str
    problems: Callable[[View], Iterator[Problem]]
    of: str = ""


Rules = Iterable[Rule | Lookup]


def broken(rules: Rules, one: View) -> Iterator[Problem]:
    """Yield what is wrong with one row or pair, in the order of the rules; the first is its cause."""
    for rule in rules:
        yield from rule.problems(one)


def hold(rules: Rules, many: View, good: Holds) -> Holds:
    """Return of which of many, good so far, all rules on numbers hold."""
    for rule in rules:
        if isinstance(rule, Rule):
            good = good & rule.holds(many)
    return good
