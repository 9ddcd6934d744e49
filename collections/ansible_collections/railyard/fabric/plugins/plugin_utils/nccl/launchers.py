# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the environment that a command's words give to the programs it starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import HOLE

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
ASSIGNED = re.compile(rf"({_NAME})=(.*)", re.DOTALL)
# What Slurm passes on by name: beside ALL it is a name in capitals, since a value's rest seldom is.
_BY_NAME = re.compile(r"[A-Z_][A-Z0-9_]*\Z")
_MPI, _SLURM, _CONTAINER, _LISTS, _BARE, _SHELL, _JOB, _REMOTE = range(8)
_FAMILIES = {
    **dict.fromkeys(("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "prun", "oshrun"), _MPI),
    **dict.fromkeys(("srun", "sbatch", "salloc"), _SLURM),
    **dict.fromkeys(
        ("docker", "podman", "nerdctl", "nvidia-docker", "kubectl", "flux", "jsrun", "aprun"), _CONTAINER
    ),
    **dict.fromkeys(("singularity", "apptainer", "qsub", "bsub"), _LISTS),
    **dict.fromkeys(
        ("env", "sudo", "nohup", "time", "timeout", "nice", "ionice", "numactl", "taskset"), _BARE
    ),
    **dict.fromkeys(("stdbuf", "setsid", "nsys", "ncu", "xargs", "enroot", "catchsegv"), _BARE),
    **dict.fromkeys(("bash", "sh", "zsh", "dash", "ksh", "su"), _SHELL),
    **dict.fromkeys(("torchrun", "deepspeed", "accelerate", "horovodrun", "composer"), _JOB),
    **dict.fromkeys(("ssh", "pdsh", "clush", "parallel-ssh", "pssh", "watch", "parallel"), _REMOTE),
}
#: These start the programs of a job, whose environment counts then.
_STARTS_JOBS = (_MPI, _SLURM, _JOB)
# One word NAME=VALUE, or a name alone, follows.
_ONE = {
    _MPI: ("-x", "--x"),
    _CONTAINER: ("-e", "--env", "-E", "--env_var"),
}
_GLUED = re.compile(rf"(?:-[xeE]|--env=|--export-env=)(?={_NAME}(?:=|\Z))")
_SCRIPT_OPTION = re.compile(r"-[a-z]*c\Z")


class Field(NamedTuple):
    """A word of a command, as the shell passes it on."""

    text: str
    line: int
    raw: str = ""


class Given(NamedTuple):
    """A variable that a command's words set."""

    name: str
    value: str
    field: Field
    listed: bool = False


@dataclass
class Launch:
    """What a command's words say of the environment.

    Attributes:
        given: variables that are set.
        cleared: whether nothing else is passed on.
        scripts: text that a shell runs.
        starts: whether it starts programs of a job.
        rest: words that nothing here reads.
        outside: words before the program that the file alone does not tell.
    """

    given: list[Given] = field(default_factory=list)
    cleared: bool = False
    scripts: list[Field] = field(default_factory=list)
    starts: bool = False
    rest: list[Field] = field(default_factory=list)
    outside: list[Field] = field(default_factory=list)


def is_launcher(word: str) -> bool:
    """Tell whether the options of a program are known here."""
    return _base(word) in _FAMILIES


def read(words: Sequence[Field]) -> Launch:
    """Return what a command's words say; the first is its name."""
    reader = _Reader(words)
    reader.read()
    return reader.found


def slurm_list(text: str) -> tuple[bool, list[tuple[str, str, bool]]]:
    """Split Slurm's --export list; return whether all else is passed on, and name, value, quotes of the rest.

    Slurm takes quotes inside the list into account. A value ends at the first comma outside of them; what is
    cut off there is returned as part of the value, since it is what the writer meant.
    """
    parts = re.findall(r"((?:'[^']*'|\"[^\"]*\"|[^,'\"])+)", text)
    everything, found = False, []
    for part in parts:
        assigned = ASSIGNED.fullmatch(part)
        if assigned:
            value = re.sub(r"\A(['\"])(.*)\1\Z", r"\2", assigned[2], flags=re.DOTALL)
            found.append((assigned[1], value, value != assigned[2]))
        elif part == "ALL":
            everything = True
        elif found and not _BY_NAME.match(part):
            found[-1] = (found[-1][0], f"{found[-1][1]},{part}", False)
    return everything, found


def _base(word: str) -> str:
    return PurePath(word).name


class _Reader:
    def __init__(self, words: Sequence[Field]) -> None:
        self._words, self.found = words, Launch()
        self._at = 0
        self._family: int | None = None
        self._command = ""
        self._program = False

    def read(self) -> None:
        while self._at < len(self._words):
            word = self._words[self._at]
            self._at += 1
            if self._family != _JOB and _base(word.text) in _FAMILIES:
                self._command = _base(word.text)
                self._family = _FAMILIES[self._command]
                self.found.starts = self.found.starts or self._family in _STARTS_JOBS
                if self._family == _REMOTE:
                    self._remote()
            elif not self._take(word):
                self.found.rest.append(word)
                self._outside(word)

    def _outside(self, word: Field) -> None:
        """Keep a word before the program that may hold options which the file does not tell."""
        before = self._words[self._at - 2].text if self._at > 1 else "-"
        if self._program or self._family not in (_MPI, _SLURM, _CONTAINER) or before[:1] == "-":
            return
        if word.text == HOLE and word.raw[:1] == "$" and self._at < len(self._words):
            self.found.outside.append(word)
        elif word.text[:1] != "-":
            self._program = True

    def _next(self) -> Field | None:
        if self._at < len(self._words):
            self._at += 1
            return self._words[self._at - 1]
        return None

    def _take(self, word: Field) -> bool:
        """Take an option that sets something, with what belongs to it; return whether it was one."""
        text, family = word.text, self._family
        if family == _MPI and text.lstrip("-") in ("env", "genv") and text[:1] == "-":
            return self._pair()
        if family == _MPI and text.lstrip("-") in ("mca", "gmca", "pmca") and text[:1] == "-":
            return self._mca()
        if family == _SLURM and (text == "--export" or text.startswith("--export=")):
            return self._slurm(word)
        if family == _LISTS and (text in ("--env", "-v", "-env", "-V") or text.startswith("--env=")):
            return self._list(word)
        if family in _ONE and text in _ONE[family]:
            following = self._next()
            return following is None or self._given(following, following.text) or following.text[:1] != "-"
        if family in _ONE and (glued := _GLUED.match(text)):
            return self._given(word, text[glued.end() :]) or "=" not in text[glued.end() :]
        if family in (_BARE, _CONTAINER) and ASSIGNED.fullmatch(text):
            return family == _BARE and self._given(word, text)
        if self._command == "env" and text in ("-i", "-", "--ignore-environment"):
            self.found.cleared = True
            return True
        if family == _SHELL and _SCRIPT_OPTION.match(text):
            script = self._next()
            self.found.scripts += [script] if script else []
            return True
        return False

    def _given(self, word: Field, text: str, listed: bool = False) -> bool:
        assigned = ASSIGNED.fullmatch(text)
        if assigned:
            self.found.given.append(Given(assigned[1], assigned[2], word, listed))
        return bool(assigned)

    def _pair(self) -> bool:
        name = self._next()
        if name is None or self._given(name, name.text):
            return True
        value = self._next()
        if value is not None:
            self.found.given.append(Given(name.text, value.text, value))
        return True

    def _mca(self) -> bool:
        name, value = self._next(), self._next()
        if name and value and name.text == "mca_base_env_list":
            for part in value.text.split(";"):
                self._given(value, part.strip())
        return True

    def _slurm(self, word: Field) -> bool:
        place, text = self._value_of(word)
        if place is None:
            return True
        everything, given = slurm_list(text)
        self.found.cleared = not everything
        for name, value, quoted in given:
            self.found.given.append(Given(name, value, place, listed=not quoted))
        return True

    def _list(self, word: Field) -> bool:
        place, text = self._value_of(word)
        if place is not None:
            for name, value, _quoted in slurm_list(text.replace(", ", ","))[1]:
                self.found.given.append(Given(name, value, place))
        return True

    def _value_of(self, option: Field) -> tuple[Field | None, str]:
        """Return where the value of `--option=VALUE` or `--option VALUE` is, and the value."""
        if "=" in option.text:
            return option, option.text.partition("=")[2]
        following = self._next()
        return following, "" if following is None else following.text

    def _remote(self) -> None:
        """Read what another machine's shell is given: all words behind the host, as one line."""
        rest = [*self._words[self._at :]]
        self._at = len(self._words)
        start = next((place for place, word in enumerate(rest) if _is_script(word.text)), None)
        if start is None:
            self.found.rest += rest
            return
        self.found.rest += rest[:start]
        line = " ".join(word.text for word in rest[start:])
        self.found.scripts.append(Field(line, rest[start].line, line))


def _is_script(text: str) -> bool:
    return bool(ASSIGNED.fullmatch(text)) or " " in text.strip() or is_launcher(text)
