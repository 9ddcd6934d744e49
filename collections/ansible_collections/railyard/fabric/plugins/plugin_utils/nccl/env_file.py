# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings read out of a file: NCCL's own, an env file, or a shell's or sbatch's script.

nccl.conf is read as NCCL does (src/misc/param.cc): the first = splits, nothing is trimmed, no quotes, # is a
comment as the first character alone, a line without = says nothing, and the first line of a name counts. What
is for a shell is read by shell_words.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import PurePath

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import shell_words

CONF, ENV, SHELL = "nccl.conf", "env file", "script"
# NCCL's own buffer for a value, its end included.
LONGEST = 1023
_SHELL_LINE = re.compile(r"\s*(#SBATCH|export|setenv|unset|module|source|srun|mpirun|exec|ENV)\b|#!")
_SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".csh", ".pbs")
_OURS = re.compile(r"\s*(?:NCCL|UCX|OFI_NCCL|FI|RDMAV|nccl|ucx)_")


@dataclass(frozen=True)
class Setting:
    """A variable set.

    Attributes:
        line: from 1.
        name: as it stands.
        value: None where the file alone does not tell it, since a program's output makes it.
        text: the value as written.
        listed: whether it stands in a list of Slurm's --export, which ends at a comma.
        exported: whether programs see it; a script's own variables they do not.
    """

    line: int
    name: str
    value: str | None
    text: str
    listed: bool = False
    exported: bool = True


@dataclass
class Settings:
    """What a file says.

    Attributes:
        form: CONF, ENV or SHELL.
        settings: of NCCL, UCX and plugins, in the file's order; what is unset later is left out.
        odd: a setting that the reader of this form takes otherwise than it was meant, and how.
        lost: lines that say nothing to that reader.
        empty: whether no line sets anything, be it NCCL's or not.
    """

    form: str
    settings: list[Setting] = field(default_factory=list)
    odd: list[tuple[Setting, str]] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)
    empty: bool = False

    def counting(self) -> dict[str, Setting]:
        """Return the setting of each name that counts: NCCL's own file the first, all else the last."""
        found: dict[str, Setting] = {}
        for one in self.settings:
            if one.exported and (self.form != CONF or one.name not in found):
                found[one.name] = one
        return found


def read(text: str, name: str) -> Settings:
    """Read a file's text; its name tells NCCL's own file from others."""
    form = form_of(text, name)
    if form == SHELL:
        return Settings(form, [Setting(*one) for one in shell_words.assignments(text)])
    found = Settings(form, empty="=" not in text)
    for number, line in enumerate(text.split("\n"), 1):
        _take(found, number, line.removesuffix("\r"))
    return found


def form_of(text: str, name: str) -> str:
    """Return which of the three forms a file has."""
    path = PurePath(name)
    if path.name.endswith("nccl.conf"):
        return CONF
    if path.suffix in _SHELL_SUFFIXES or any(_SHELL_LINE.match(line) for line in text.split("\n")):
        return SHELL
    return ENV


def _take(found: Settings, number: int, line: str) -> None:
    if (
        line.startswith("#")
        or not line.strip()
        or (found.form == ENV and line.lstrip().startswith(("#", ";")))
    ):
        return
    name, equals, value = line.partition("=")
    bare = name.strip().removeprefix("export ").strip()
    if not equals:
        # A name alone is docker's way to pass on what it has itself.
        if found.form == CONF or _OURS.match(bare.partition(" ")[0] if " " in bare else ""):
            found.lost.append(number)
        return
    if not _OURS.match(bare):
        return
    setting = Setting(number, bare, _meant(value), value)
    if name != bare:
        found.odd.append((setting, f"what stands beside {bare} before the = is part of the name"))
    if name == bare or found.form == ENV:
        found.settings.append(setting)
    if odd := _odd(found.form, value):
        found.odd.append((setting, odd))


def _odd(form: str, value: str) -> str | None:
    """Say why a value may not be taken as it was meant."""
    if len(value.encode()) > LONGEST:
        return f"it is longer than the {LONGEST} bytes that NCCL reads of a value in a file"
    if re.search(r"\s#", value):
        return "the comment behind it is part of the value"
    if value.strip() != value:
        return "the blanks around its value are part of it"
    if re.match(r"""(["']).*\1$""", value):
        return "its quotes are part of the value" + (
            "" if form == CONF else " to docker and in nccl.conf; systemd takes them away"
        )
    return None


def _meant(value: str) -> str:
    """Return a value without what was told of it already."""
    value = re.sub(r"\s+#.*", "", value).strip()
    return value[1:-1] if re.match(r"""(["']).*\1$""", value) else value
