# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read settings out of a file: NCCL's own, an env file, a script, a Dockerfile or YAML.

nccl.conf is read as NCCL does (src/misc/param.cc): the first = splits, nothing is trimmed, no quotes, # is a
comment as the first character alone, a line without = says nothing, and the first line of a name counts.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import (
    dockerfile,
    manifest,
    other_names,
    shell,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import (
    CONF,
    DOCKER,
    ENV,
    HOLE,
    SETS_ONE,
    SHELL,
    YAML,
    Setting,
    Settings,
    Unread,
    own_names,
)

__all__ = ["CONF", "DOCKER", "ENV", "SHELL", "YAML", "Setting", "Settings", "form_of", "read"]

# NCCL's own buffer for a value, its end included.
LONGEST = 1023
_SHELL_LINE = re.compile(r"\s*(#SBATCH|export|setenv|unset|module|source|srun|mpirun|exec)\b|#!")
_SHELL_SUFFIXES = (".sh", ".bash", ".sbatch", ".slurm", ".csh", ".pbs")
_DOCKER_NAME = re.compile(r"(?:.*\.)?(?:Dockerfile|Containerfile)(?:\..*)?\Z", re.IGNORECASE)
_DOCKER_START = re.compile(r"\A(?:\s*#[^\n]*\n|\s*\n|ARG [^\n]*\n)*FROM \S", re.IGNORECASE)
_YAML_START = re.compile(
    r"\A(?:\s*#[^\n]*\n|\s*\n)*(?:---(?:\s|\Z)|(?:apiVersion|kind|metadata|spec|services|env):(?:\s|\Z))"
)
# Variables of launchers in the environment of a job, which repeat their options.
_LAUNCHERS_OWN = re.compile(r"(?:SLURM|SBATCH|SRUN|OMPI|PMIX|PRTE|PMI|HYDI|BASH_FUNC)_|_=")
_OURS = re.compile(r"\s*(?:NCCL|UCX|OFI_NCCL|FI|RDMAV|nccl|ucx)_")


def read(text: str, name: str) -> Settings:
    """Read a file's text; its name tells NCCL's own file from others."""
    form = form_of(text, name)
    if form in _READERS:
        found = _READERS[form](text, read)
        found.own = own_names(text)
        return found
    found = Settings(form, empty="=" not in text)
    for number, line in enumerate(text.split("\n"), 1):
        _take(found, number, line.removesuffix("\r"))
    return found


_READERS = {SHELL: shell.read, DOCKER: dockerfile.read, YAML: manifest.read}


def form_of(text: str, name: str) -> str:
    """Return which form a file has."""
    path = PurePath(name)
    if path.name.endswith("nccl.conf"):
        return CONF
    if path.suffix in (".yaml", ".yml"):
        return YAML
    if _DOCKER_NAME.match(path.name):
        return DOCKER
    if path.suffix in _SHELL_SUFFIXES or text.startswith("#!"):
        return SHELL
    if _YAML_START.match(text):
        return YAML
    if _DOCKER_START.match(text):
        return DOCKER
    if any(_SHELL_LINE.match(line) for line in text.split("\n")):
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
        else:
            _leave(found, number, line)
        return
    if not _OURS.match(bare) or not re.fullmatch(r"\w+", bare):
        _leave(found, number, line)
        return
    shown = value.replace(HOLE, "...")
    setting = Setting(number, bare, None if HOLE in value else _meant(value), shown)
    if name != bare:
        found.odd.append((setting, f"text beside {bare} before the = is part of the name"))
    if name == bare or found.form == ENV:
        found.settings.append(setting)
    if odd := _odd(found.form, value):
        found.odd.append((setting, odd))


def _leave(found: Settings, number: int, line: str) -> None:
    """Note a line that sets nothing to the reader of this form, but mentions a setting."""
    if _LAUNCHERS_OWN.match(line):
        return
    for name in SETS_ONE.findall(line):
        if not other_names.is_of_others(name):
            found.unread.append(Unread(number, f"{name} is in a line that is not NAME=VALUE", name))
            return


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
    """Return a value without the parts that are reported already."""
    value = re.sub(r"\s+#.*", "", value).strip()
    return value[1:-1] if re.match(r"""(["']).*\1$""", value) else value
