"""Check options that are numbers against their ranges; all errors are reported at once."""

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
    """Return the errors in an object's numbers, one attribute per option; None is not set."""
    values = {name: getattr(options, name) for name in bounds}
    return [
        (flag(name), f"{values[name]} is out of range", fix)
        for name, (least, most, fix) in bounds.items()
        # NaN compares false with everything.
        if values[name] is not None and not least <= values[name] <= most
    ]


def refused(wrong: Iterable[Wrong], where: str) -> UserError:
    """Return an error that lists all problems, each with its fix."""
    return UserError(numbered(where, [f"{option}: {what}. Fix: {fix}" for option, what, fix in wrong]))
