# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Collect what the programs of a script see, what the script writes into files, and what was not read."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import other_names, shell_values
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import (
    ALWAYS,
    HOLE,
    SETS_ONE,
    Choice,
    Environment,
    Setting,
    Settings,
    Unread,
    When,
)

_MOST_STEPS = 100_000
_MOST_ENVIRONMENTS = 200
# Files that hold settings, scripts or manifests; and those that nothing reads settings from.
_HOLDS_SETTINGS = re.compile(
    r"(?:\.conf|\.env|[._]env|environment|profile|/profile\.d/[^/]+|rc|\.c?sh|\.sbatch|\.slurm|\.ya?ml|Dockerfile)\Z"
)
_HOLDS_OUTPUT = re.compile(r"\A&?\d+\Z|/dev/|\.(?:log|txt|out|err|csv|json|md)\Z|log|output", re.IGNORECASE)


class TooLongError(Exception):
    """The script takes too many steps to read."""


def find_names_set(text: str) -> list[str]:
    """Return the names that a text seems to set and that may be meant for NCCL."""
    return [name for name in SETS_ONE.findall(text) if not other_names.is_of_others(name)]


class Record:
    """What was read of one file, shared by all texts inside it.

    Args:
        read_file: reads the text of a file that the script writes, by its name.
    """

    def __init__(self, read_file: Callable[[str, str], Settings]) -> None:
        self._read_file = read_file
        self._numbers = itertools.count()
        self._steps = 0
        self._stopped = False
        self._environments: dict[tuple[object, ...], Environment] = {}
        self._group: list[Environment] | None = None
        self._unread: dict[Unread, None] = {}
        self._written: dict[tuple[str, When], list[tuple[int, str]]] = {}
        self._private: dict[str, list[shell_values.Option]] = {}
        self._pending: dict[str, tuple[int, str]] = {}
        self._used: set[str] = set()
        self.called: set[str] = set()

    def step(self, weight: int = 1) -> None:
        """Count a step.

        Raises:
            TooLongError: there were too many.
        """
        self._steps += weight
        if self._steps > _MOST_STEPS:
            raise TooLongError

    def stop(self, line: int, why: str) -> None:
        """Note, once, that the rest of the file was not read."""
        if not self._stopped:
            self.report_unread(line, why)
        self._stopped = True

    def branch(self) -> int:
        """Return the number of a new branch."""
        return next(self._numbers)

    def mark_used(self, name: str) -> None:
        """Note that the script reads a variable."""
        self._used.add(name)
        self._pending.pop(name, None)

    def keep_private(self, name: str, option: shell_values.Option) -> None:
        """Note a setting that the script does not export where it is."""
        self._private.setdefault(name, []).append(option)

    def mark_exported(self, name: str) -> None:
        """Note that the script exports a name."""
        self._private.pop(name, None)

    def track_text(self, name: str, text: str, line: int) -> None:
        """Note that a variable's text would set something, so that it has to be used somewhere."""
        self.step(len(text) // 256)
        if found := find_names_set(text):
            self._pending[name] = (line, found[0])

    def record_program(self, scope: shell_values.Variables, when: When = ALWAYS) -> None:
        """Keep what a program sees that is started here."""
        found = scope.environment(when)
        self.step(len(found.choices))
        if self._group is None:
            self._keep(found)
        else:
            self._group.append(found)

    def merge_programs(self, path: When, runs: Sequence[tuple[When, Callable[[], None]]]) -> None:
        """Take what is run in each of several combinations of branches as one program.

        What is found in one combination alone must not count as certain.
        """
        outer, found = self._group, []
        for when, run in runs:
            self._group = []
            run()
            found.append((when, self._group))
        self._group = outer
        empty = Environment({})
        for place in range(max(len(programs) for _when, programs in found)):
            row = [(when, programs[place] if place < len(programs) else empty) for when, programs in found]
            choices = {
                name: tuple(
                    replace(choice, when=both)
                    for when, program in row
                    for choice in program.choices.get(name, (Choice(None),))
                    if (both := shell_values.combine_conditions(choice.when, when)) is not None
                )
                for name in dict.fromkeys(name for _when, program in row for name in program.choices)
            }
            if outer is None:
                self._keep(Environment(choices, path))
            else:
                outer.append(Environment(choices, path))

    def _keep(self, found: Environment) -> None:
        if not found.choices:
            return
        key = (found.when, *sorted(found.choices.items(), key=lambda item: item[0]))
        if key not in self._environments and len(self._environments) >= _MOST_ENVIRONMENTS:
            raise TooLongError
        self._environments.setdefault(key, found)

    def report_unread(self, line: int, why: str, name: str = "", harmless: bool = False) -> None:
        """Note what was not read."""
        self._unread.setdefault(Unread(line, why, name, harmless), None)

    def report_unread_text(self, text: str, line: int, why: str) -> bool:
        """Note a text as not read if it sets something; return whether it does."""
        found = find_names_set(text)
        if found:
            self.report_unread(line, why.replace("{name}", found[0]), found[0])
        return bool(found)

    def write(self, target: str, lines: list[tuple[int, str]], path: When) -> None:
        """Take text that the script writes to a file."""
        text = "\n".join(line for _number, line in lines)
        if _HOLDS_SETTINGS.search(target.strip(HOLE)):
            if "NCCL" in text or "nccl" in target or text.startswith("#!"):
                self._written.setdefault((target, path), []).extend(lines)
        elif find_names_set(text) and not _HOLDS_OUTPUT.search(target):
            shown = target.replace(HOLE, "...") or "another program"
            why = f"{{name}} is written to {shown}, and whether that sets it is not known"
            self.report_unread_text(text, lines[0][0], why)

    def read_text(self, name: str, lines: list[tuple[int, str]]) -> Settings:
        """Read the text of a file that the script writes or hands to a program."""
        found = self._read_file("\n".join(line for _number, line in lines) + "\n", name)
        moved = found.moved([number for number, _line in lines])
        for one in moved.unread:
            self._unread.setdefault(one, None)
        moved.unread = []
        return moved

    def result(self, form: str, files: Sequence[Settings] = ()) -> Settings:
        """Return all of it, with files that were read already."""
        found = Settings(form, files=[*files])
        for (target, _path), lines in self._written.items():
            found.files.append(self.read_text(target.rpartition(HOLE)[2], lines))
        for name, (line, set_name) in self._pending.items():
            why = f"{set_name} is in the text of {name}, and no use of it is read in this file"
            self.report_unread(line, why, set_name)
        found.environments = list(self._environments.values())
        found.settings = sorted(self._settings(found.files), key=lambda one: one.line)
        found.unread = list(self._unread)
        return found

    def _settings(self, files: list[Settings]) -> list[Setting]:
        found: dict[Setting, None] = {one: None for file in files for one in file.settings}
        for environment in self._environments.values():
            for choices in environment.choices.values():
                found.update(dict.fromkeys(one.setting for one in choices if one.setting))
        for setting in self._find_unused():
            found.setdefault(setting, None)
        return list(found)

    def _find_unused(self) -> Iterator[Setting]:
        """Yield settings that no program sees: neither exported, nor read by the script for another use."""
        for name, options in self._private.items():
            if name not in self._used:
                yield shell_values.as_setting(name, options[-1]._replace(exported=False))
