"""Options that are numbers, held against what makes sense; all that is wrong is told at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from railyard.base.errors import UserError, numbered

#: option's name -> least, most, and what to write.
Bounds = Mapping[str, tuple[float, float, str]]
#: The option as it is typed, what is wrong with it, and what to do.
Wrong = tuple[str, str, str]


def flag(name: str) -> str:
    """Return an option as it is typed."""
    return f"--{name.replace('_', '-')}"


def out_of_range(options: object, bounds: Bounds) -> list[Wrong]:
    """Return what is wrong with an object's numbers, one attribute an option; None was not said."""
    values = {name: getattr(options, name) for name in bounds}
    return [
        (flag(name), f"{values[name]} is out of range", fix)
        for name, (least, most, fix) in bounds.items()
        # Not-a-number is smaller and larger than nothing.
        if values[name] is not None and not least <= values[name] <= most
    ]


def refused(wrong: Iterable[Wrong], where: str) -> UserError:
    """Return the error that tells all that is wrong, each with its fix."""
    return UserError(numbered(where, [f"{option}: {what}. Fix: {fix}" for option, what, fix in wrong]))
