# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check JSON against the types of a record once, so that later code need not check types again.

A record is a `TypedDict`: a value that was checked stays the dict that it was, and its type tells mypy and
the reader which keys it has. Standard library alone.
"""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Optional, TypeVar, Union

from ..numeric import is_number, is_whole

_T = TypeVar("_T")
_Check = Callable[[Any], None]
_MOST_WORDS = 60
_NONE = type(None)
_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", _NONE: "null"}


class RefusedError(ValueError):
    """A value is not what its record says; the text names the place and what is there."""

    def __init__(self, problem: str, place: str = "") -> None:
        """Keep the problem, and where it is."""
        super().__init__(f"{place} {problem}".lstrip())
        self.problem, self.place = problem, place

    def below(self, part: str) -> RefusedError:
        """Return the same with one more part before its place."""
        join = "." if self.place and not self.place.startswith("[") else ""
        return RefusedError(self.problem, f"{part}{join}{self.place}")


class AtLeast(NamedTuple):
    """A number's least value: `Annotated[int, AtLeast(0)]`."""

    least: float

    def __call__(self, value: Any) -> bool:
        """Tell whether a number is as large."""
        return bool(value >= self.least)

    def __str__(self) -> str:
        """Return the rule as text."""
        return f"at least {self.least:g}"


class Long(NamedTuple):
    """How many values a list has: `Annotated[list[float], Long(2)]`."""

    values: int

    def __call__(self, value: Any) -> bool:
        """Tell whether a list has so many."""
        return len(value) == self.values

    def __str__(self) -> str:
        """Return the rule as text."""
        return f"of {self.values} values"


@functools.cache  # the patterns are as many as the code has
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


class Matches(NamedTuple):
    """The form that a text has from its first to its last character: `Annotated[str, Matches("[0-9]+")]`."""

    pattern: str

    def __call__(self, value: Any) -> bool:
        """Tell whether a text has the form."""
        return _compiled(self.pattern).fullmatch(value) is not None

    def __str__(self) -> str:
        """Return the rule as text."""
        return f"of the form {self.pattern}"


class _Same:
    """A limit without a number: any two are equal, so that `_check_of` caches a type that has one."""

    def __hash__(self) -> int:
        """Treat all of one class as equal."""
        return hash(type(self))

    def __eq__(self, other: object) -> bool:
        """Treat all of one class as equal."""
        return type(self) is type(other)


class AboveZero(_Same):
    """A number above 0: `Annotated[float, AboveZero()]`."""

    def __call__(self, value: Any) -> bool:
        """Tell whether a number is above 0."""
        return bool(value > 0)

    def __str__(self) -> str:
        """Return the rule as text."""
        return "above 0"


class NotEmpty(_Same):
    """A list that is not empty: `Annotated[list[str], NotEmpty()]`."""

    def __call__(self, value: Any) -> bool:
        """Tell whether a list has a value."""
        return bool(value)

    def __str__(self) -> str:
        """Return the rule as text."""
        return "a list with at least one value"


class NotTwice(_Same):
    """A list names nothing twice: `Annotated[list[str], NotTwice()]`."""

    def __call__(self, value: Any) -> bool:
        """Tell whether all values differ."""
        return len(set(value)) == len(value)

    def __str__(self) -> str:
        """Return the rule as text."""
        return "without duplicates"


def read(kind: Callable[..., _T], value: object, place: str = "") -> _T:
    """Return a value, now known to be what its type says.

    Args:
        kind: a TypedDict, or any type that one's keys may have: text, number, list, dict, Literal, Optional,
            Union, and Annotated with a limit: AtLeast, AboveZero, Long, NotEmpty, NotTwice or Matches.
        value: what JSON, or a module, gave.
        place: what the value is called in an error.

    Raises:
        RefusedError: it is something else: a key is unknown or missing, or a value is of another type. True
            is not a number; NaN, infinity and what no float holds are none; 1.0 is no whole number.
    """
    try:
        _check_of(kind)(value)
    except RefusedError as refused:
        raise (refused.below(place) if place else refused) from None
    return typing.cast("_T", value)


def refusal(kind: Any, value: object, place: str = "") -> str | None:
    """Return why a value is not what its type says, None where it is; see `read`."""
    try:
        read(kind, value, place)
    except RefusedError as refused:
        return str(refused)
    return None


def read_if(kind: Callable[..., _T], value: object) -> Optional[_T]:
    """Return a value that is what its type says, None where it is not; see `read`."""
    try:
        return read(kind, value)
    except RefusedError:
        return None


@functools.cache  # a record's types are as many as the code has
def _check_of(kind: Any) -> _Check:
    if hasattr(kind, "__required_keys__"):
        return _record(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return lambda value: None
    if hasattr(kind, "__metadata__"):
        return _annotated(_check_of(kind.__origin__), kind.__metadata__)
    if origin is Literal:
        return _plain(lambda value: any(value.__class__ is one.__class__ and value == one for one in inner),
                      "one of " + ", ".join(map(str, inner)))  # fmt: skip
    if origin is Union or origin.__class__.__name__ == "UnionType" or kind.__class__.__name__ == "UnionType":
        return _union(inner)
    if origin is list:
        return _list(_check_of(inner[0]))
    if origin is dict:
        return _mapping(_check_of(inner[0]), _check_of(inner[1]))
    return _scalar(kind)


def _scalar(kind: Any) -> _Check:
    if kind is int:
        return _plain(is_whole, "a whole number")
    if kind is float:
        return _plain(is_number, "a number")
    if kind is str:
        return _text
    if kind not in (bool, _NONE):
        raise TypeError(f"no record has a value of {kind!r}")
    return _plain(lambda value: isinstance(value, kind), _NAMES[kind])


def _text(value: Any) -> None:
    # Most values are of this very type; Ansible's texts are of types derived from it.
    if value.__class__ is not str and not isinstance(value, str):
        raise RefusedError(f"is {_shown(value)}, not {_NAMES[str]}")


def _plain(holds: Callable[[Any], bool], wanted: str) -> _Check:
    def check(value: Any) -> None:
        if not holds(value):
            raise RefusedError(f"is {_shown(value)}, not {wanted}")

    return check


def _shown(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= _MOST_WORDS else f"{text[:_MOST_WORDS]}..."


def _annotated(inner: _Check, limits: tuple[Callable[[Any], bool], ...]) -> _Check:
    def check(value: Any) -> None:
        inner(value)
        for holds in limits:
            if not holds(value):
                raise RefusedError(f"is {_shown(value)}, not {holds}")

    return check


def _union(kinds: tuple[Any, ...]) -> _Check:
    checks = [_check_of(kind) for kind in kinds if kind is not _NONE]
    may_be_none = _NONE in kinds
    if may_be_none and len(checks) == 1:
        return _optional(checks[0])

    def check(value: Any) -> None:
        if value is None and may_be_none:
            return
        problems = []
        for one in checks:
            try:
                one(value)
            except RefusedError as refused:
                problems.append(refused)
            else:
                return
        # typing takes unions of the same types for one, in whatever order they name them.
        wanted = sorted(one.problem.rpartition(", not ")[2] for one in problems)
        raise RefusedError(f"is {_shown(value)}, not {' or '.join(wanted)}")

    return check


def _optional(inner: _Check) -> _Check:
    def check(value: Any) -> None:
        if value is not None:
            inner(value)

    return check


def _list(inner: _Check) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, list):
            raise RefusedError(f"is {_shown(value)}, not a list")
        for at, one in enumerate(value):
            try:
                inner(one)
            except RefusedError as refused:
                raise refused.below(f"[{at}]") from None

    return check


def _mapping(key: _Check, inner: _Check) -> _Check:
    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise RefusedError(f"is {_shown(value)}, not an object")
        for name, one in value.items():
            key(name)
            try:
                inner(one)
            except RefusedError as refused:
                raise refused.below(str(name)) from None

    return check


def _record(kind: Any) -> _Check:
    hints: Mapping[str, Any] = typing.get_type_hints(kind, include_extras=True)
    checks = {name: _check_of(hint) for name, hint in hints.items()}
    required = kind.__required_keys__

    def check(value: Any) -> None:
        if not isinstance(value, dict):
            raise RefusedError(f"is {_shown(value)}, not an object")
        for name, one in value.items():
            inner = checks.get(name)
            if inner is None:
                raise RefusedError("is not known", _shown(name).strip("'"))
            try:
                inner(one)
            except RefusedError as refused:
                raise refused.below(name) from None
        if missing := required - value.keys():
            raise RefusedError("is missing", min(missing))

    return check
