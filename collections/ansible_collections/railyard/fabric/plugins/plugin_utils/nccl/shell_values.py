# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold the values that a shell's variables may have, by the branches that a script may take.

A value is text in which private characters of Unicode mark what the shell does later: where an unquoted value
is split into words, where quotes were, where an array's items begin, and what only the run knows (HOLE).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import settings

SPLIT, QUOTED, ITEM = "\ue001", "\ue002", "\ue003"
# Beyond these, a value is not known.
_MOST_OPTIONS = 32
_LONGEST = 1 << 14

#: The texts that a word may be, each with the branches in which it is.
Texts = list[tuple[settings.When, str]]


class Option(NamedTuple):
    """One value that a variable may have.

    Attributes:
        text: None where it is not set.
        exported: whether programs see it.
        when: in which branches.
        line: where it was set; 0 where the file sets nothing.
        raw: as written.
        at: how many programs had been started before.
        listed: see `Setting`.
        local: whether it is a function's.
    """

    text: str | None
    exported: bool = False
    when: settings.When = settings.ALWAYS
    line: int = 0
    raw: str = ""
    at: int = 0
    listed: bool = False
    local: bool = False


#: What the file has not set: the environment may have it.
NEVER = Option(None)


class TooManyValuesError(Exception):
    """A word that sets something has too many values, or too long ones, to be followed."""


def combine_conditions(one: settings.When, other: settings.When) -> settings.When | None:
    """Return both conditions as one, or None where they exclude each other."""
    if not one or not other:
        return one or other
    both = one | other
    return both if len({branch for branch, _arm in both}) == len(both) else None


def join_texts(parts: Iterable[Texts]) -> Texts:
    """Join adjacent texts, for each combination of branches."""
    found: Texts = [(settings.ALWAYS, "")]
    for part in parts:
        if len(part) == 1 and not part[0][0]:
            found = [(when, text + part[0][1]) for when, text in found]
        else:
            found = [
                (both, text + more)
                for when, text in found
                for other, more in part
                if (both := combine_conditions(when, other)) is not None
            ]
        if len(found) > _MOST_OPTIONS or any(len(text) > _LONGEST for _when, text in found):
            if any(settings.SETS_ONE.search(text) for _when, text in found):
                raise TooManyValuesError
            return [(settings.ALWAYS, settings.HOLE)]
    return found


def split_fields(text: str) -> list[str]:
    """Return the words that the shell makes of an evaluated word."""
    found = []
    for part in text.split(SPLIT):
        bare = part.replace(QUOTED, "").replace(ITEM, " ")
        if bare or QUOTED in part:
            found.append(bare)
    return found


def as_value(text: str) -> str:
    """Return an evaluated word as the value of an assignment, where nothing is split."""
    return text.replace(QUOTED, "").replace(SPLIT, " ")


class Variables:
    """A shell's variables at one place of a script."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[Option, ...]] = {}
        self.functions: dict[str, Any] = {}
        #: The branches that lead here.
        self.path: settings.When = settings.ALWAYS
        #: Whether the function or the script ended before; whether the script did.
        self.ended = self.exited = False
        self.exports_all = False
        #: How many programs were started; how many had been when what they see was kept last.
        self.started = self.kept = 0
        #: Whether it is for one program alone, so that nothing that others saw is lost when it changes.
        self.is_programs = False

    def __len__(self) -> int:
        return len(self._found)

    def copy(self, branch: tuple[int, int] | None = None) -> Variables:
        """Return a copy, in an arm of a branch."""
        other = Variables()
        other._found = dict(self._found)
        other.functions = dict(self.functions)
        other.path = self.path | {branch} if branch else self.path
        other.ended, other.exited = self.ended, self.exited
        other.exports_all, other.started, other.kept = self.exports_all, self.started, self.kept
        return other

    def take_over(self, inner: Variables) -> None:
        """Count the programs that a subshell started."""
        self.started, self.kept = max(self.started, inner.started), max(self.kept, inner.kept)

    def get(self, name: str) -> tuple[Option, ...]:
        """Return what a variable may be."""
        return self._found.get(name, (NEVER,))

    def put(self, name: str, options: Sequence[Option]) -> None:
        """Set a variable."""
        if len(options) > _MOST_OPTIONS:
            last = options[-1]
            exported = any(one.exported for one in options)
            options = [Option(settings.HOLE, exported, line=last.line, raw=last.raw, at=last.at)]
        self._found[name] = tuple(options)

    def forget_arguments(self) -> None:
        """Let the arguments of the function that is read be unknown."""
        for name in self._found:
            if name.isdigit() or name in ("@", "*"):
                self._found[name] = (Option(settings.HOLE, line=self._found[name][-1].line, raw=f"${name}"),)

    def has_news(self) -> bool:
        """Tell whether something was exported since what programs see was kept last."""
        return any(
            one.exported and one.text is not None and one.at >= self.kept
            for name, options in self._found.items()
            if settings.IS_OURS.match(name)
            for one in options
        )

    def was_seen(self, name: str) -> bool:
        """Tell whether a program was started since a variable was set and exported."""
        return any(one.exported and one.text is not None and one.at < self.started for one in self.get(name))

    def is_exported(self, name: str) -> bool:
        """Tell whether a variable that is set now is exported."""
        return self.exports_all or any(one.exported for one in self.get(name))

    def names(self) -> list[str]:
        """Return the names of all variables."""
        return list(self._found)

    def merge(self, arms: Sequence[Variables], branch: int) -> None:
        """Take over what the arms of a branch leave behind."""
        alive = [(number, arm) for number, arm in enumerate(arms) if not arm.ended]
        self.started = max(arm.started for arm in arms)
        self.kept = min(arm.kept for arm in arms)
        for _number, arm in alive or list(enumerate(arms)):
            self.functions.update(arm.functions)
            self.exports_all = self.exports_all or arm.exports_all
        if not alive:
            self.ended, self.exited = True, all(arm.exited for arm in arms)
            alive = list(enumerate(arms))
        if len(alive) == 1:
            self._found = alive[0][1]._found
            return
        merged = dict(alive[0][1]._found)
        names = {name for _number, arm in alive for name in arm._found}
        for name in names:
            values = [arm.get(name) for _number, arm in alive]
            if all(value is values[0] or value == values[0] for value in values):
                continue
            options = [
                # What a program of this arm saw is no news behind it.
                one._replace(when=when, at=-1 if one.at < arm.kept else one.at)
                for (number, arm), value in zip(alive, values, strict=True)
                for one in value
                if (when := combine_conditions(one.when, frozenset({(branch, number)}))) is not None
            ]
            merged[name] = values[0]
            self._found = merged
            self.put(name, options)
        self._found = merged

    def environment(self, when: settings.When = settings.ALWAYS) -> settings.Environment:
        """Return what a program that is started here sees of NCCL's variables."""
        choices: dict[str, tuple[settings.Choice, ...]] = {}
        for name, options in self._found.items():
            if settings.IS_OURS.match(name) and any(one.exported and one.text is not None for one in options):
                choices[name] = tuple(
                    settings.Choice(
                        as_setting(name, one) if one.exported and one.text is not None else None, one.when
                    )
                    for one in options
                )
        return settings.Environment(choices, combine_conditions(self.path, when) or self.path)


def as_setting(name: str, option: Option) -> settings.Setting:
    """Return a variable's value as a setting, exported or not."""
    text = as_value(option.text or "")
    if text.startswith(ITEM):
        text = settings.HOLE  # an array is not exported
    value, shown = (None, option.raw) if settings.HOLE in text else (text, text)
    return settings.Setting(option.line, name, value, shown, option.listed, option.exported)
