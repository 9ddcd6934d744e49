# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Define what the readers of a file return: settings, environments of its programs, and what was not read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

CONF, ENV, SHELL, DOCKER, YAML = "nccl.conf", "env file", "script", "Dockerfile", "YAML"
#: Placeholder in a value for the part that only the running program knows; a private character of Unicode.
HOLE = "\ue000"
#: Names that this linter has a catalogue of.
IS_OURS = re.compile(r"(?:NCCL|UCX|OFI_NCCL|FI|RDMAV)_[A-Za-z0-9_]*\Z")
_NAME = r"(?:OFI_)?NCCL_[A-Z0-9_]+"
#: Text that sets such a name, in any notation: NAME=, "NAME": and name: NAME.
SETS_ONE = re.compile(
    r"(?<![\w${])(?:(?<=name: )|(?<=name: [\"'])"
    rf"|(?={_NAME}(?:[\"']?\]?[ \t]*[=:]|[\"']?,[ \t]*[\"'])))({_NAME})"
)
_READS = re.compile(r"(?:(\w+)=[\"'\\]*)?\$\{?((?:NCCL|nccl)_\w+)(?!\w)(?!:?[-=+])")
# More combinations of branches than these are not checked together.
_MOST_VARIANTS = 256

#: Which arm of which branch is taken: pairs of a branch's number and an arm's.
When = frozenset[tuple[int, int]]
ALWAYS: When = frozenset()


@dataclass(frozen=True)
class Setting:
    """A variable set.

    Attributes:
        line: from 1.
        name: as written.
        value: None where the file alone does not tell it.
        text: the value as written.
        listed: whether it is in a list of Slurm's --export, which ends at a comma.
        exported: whether programs see it; a script's own variables they do not.
    """

    line: int
    name: str
    value: str | None
    text: str
    listed: bool = False
    exported: bool = True


@dataclass(frozen=True)
class Unread:
    """A place that was not read although it may set something.

    Attributes:
        line: from 1.
        why: a sentence.
        name: the variable there; may be empty.
        harmless: whether nothing there mentions NCCL, so that it is a note.
    """

    line: int
    why: str
    name: str = ""
    harmless: bool = False


@dataclass(frozen=True)
class Choice:
    """A value that a variable has in some of the branches; None means that it is not set there."""

    setting: Setting | None
    when: When = ALWAYS


@dataclass(frozen=True)
class Environment:
    """What one program of a file sees.

    Attributes:
        choices: for each name the values that it may have.
        when: in which branches the program runs.
    """

    choices: Mapping[str, tuple[Choice, ...]]
    when: When = ALWAYS

    def variants(self) -> list[dict[str, Setting]] | None:
        """Return the environment in each combination of branches; None where those are too many to check."""
        arms: dict[int, set[int]] = {}
        for branch, arm in (pair for found in self.choices.values() for one in found for pair in one.when):
            arms.setdefault(branch, set()).add(arm)
        for branch, arm in self.when:
            arms[branch] = {arm}
        count = 1
        for taken in arms.values():
            count *= len(taken)
            if count > _MOST_VARIANTS:
                return None
        found: dict[tuple[tuple[str, Setting], ...], dict[str, Setting]] = {}
        for combination in product(*(sorted(taken) for taken in arms.values())):
            variant = self._in(frozenset(zip(arms, combination, strict=True)))
            found[tuple(variant.items())] = variant
        return list(found.values())

    def _in(self, variant: When) -> dict[str, Setting]:
        found = {}
        for name, choices in self.choices.items():
            for choice in choices:
                if choice.when <= variant:
                    if choice.setting:
                        found[name] = choice.setting
                    break
        return found


@dataclass
class Settings:
    """What a file says.

    Attributes:
        form: CONF, ENV, SHELL, DOCKER or YAML.
        settings: of NCCL, UCX and plugins, in the order of the lines, with those of the files that it writes.
        odd: a setting that the reader of this form takes otherwise than it was meant, and how.
        lost: lines that say nothing to that reader.
        empty: whether no line sets anything, be it NCCL's or not.
        environments: what each program of a script sees; empty of a file that is one environment.
        unread: what was not read.
        files: settings files that a script writes.
        own: names that the file itself reads, for a use of its own.
    """

    form: str
    settings: list[Setting] = field(default_factory=list)
    odd: list[tuple[Setting, str]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    empty: bool = False
    environments: list[Environment] = field(default_factory=list)
    unread: list[Unread] = field(default_factory=list)
    files: list[Settings] = field(default_factory=list)
    own: frozenset[str] = frozenset()

    def counting(self) -> dict[str, Setting]:
        """Return the setting of each name that counts: NCCL's own file the first, all else the last."""
        found: dict[str, Setting] = {}
        for one in self.settings:
            if one.exported and (self.form != CONF or one.name not in found):
                found[one.name] = one
        return found

    def moved(self, lines: list[int]) -> Settings:
        """Return the same as part of another file; `lines` has that file's line for each of these."""

        def line(number: int) -> int:
            return lines[min(number, len(lines)) - 1] if lines else number

        def move(one: Setting) -> Setting:
            return replace(one, line=line(one.line))

        def moved(environment: Environment) -> Environment:
            choices = {
                name: tuple(replace(one, setting=one.setting and move(one.setting)) for one in found)
                for name, found in environment.choices.items()
            }
            return replace(environment, choices=choices)

        return Settings(
            self.form,
            [move(one) for one in self.settings],
            [(move(one), why) for one, why in self.odd],
            [line(one) for one in self.lost],
            self.empty,
            [moved(one) for one in self.environments],
            [replace(one, line=line(one.line)) for one in self.unread],
            [one.moved(lines) for one in self.files],
            self.own,
        )


def own_names(text: str) -> frozenset[str]:
    """Return the names that a text reads for itself: not to hand them on, and not for their own default."""
    return frozenset(found[2] for found in _READS.finditer(text) if found[1] != found[2])


class UnreadableError(ValueError):
    """A file is not of the form that its name tells.

    Args:
        line: where it is not.
        why: a sentence.
    """

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why
