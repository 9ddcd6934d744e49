# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an inventory: which there are, which of them Ansible reads, and what they hold as text."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

_VAULT_HEADER = b"$ANSIBLE_VAULT"
YAML_ENDINGS = ("", ".yml", ".yaml", ".json")
# A hundred thousand hosts with variables of their own take a quarter of it, 256 rails a tenth of the other.
_BYTES_MAX = 64 * 2**20
_VARIABLES_BYTES_MAX = 2 * 2**20


def shown(path: str) -> str:
    """Write a path as a person in the current folder would."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def is_encrypted(path: str) -> bool:
    """Tell whether a whole file is an Ansible vault."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_VAULT_HEADER)) == _VAULT_HEADER
    except OSError:
        return False


def endless(sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, what is wrong) for what Ansible would open and never have read: pipes, devices, too much.

    Links to folders are followed, as Ansible does, each folder once.
    """
    variables = [
        os.path.join(at, kind) for at in source_folders(sources) for kind in ("group_vars", "host_vars")
    ]
    seen: set[tuple[int, int]] = set()
    for top in dict.fromkeys([*variables, *filter(os.path.exists, sources)]):
        most = _VARIABLES_BYTES_MAX if top in variables else _BYTES_MAX
        if (wrong := endless_file(top, most)) is not None:
            yield top, wrong
        for parent, folders, files in os.walk(top, followlinks=True):
            state = os.stat(parent)
            if (state.st_dev, state.st_ino) in seen:
                folders[:] = []
                continue
            seen.add((state.st_dev, state.st_ino))
            for path in (os.path.join(parent, name) for name in sorted(files)):
                if (wrong := endless_file(path, most)) is not None:
                    yield path, wrong


def endless_file(path: str, most_bytes: int = _VARIABLES_BYTES_MAX) -> str | None:
    """Return why a path cannot be read to an end, or None where it can, or where nothing is there."""
    try:
        state = os.stat(path)
    except OSError:
        return None  # nobody can open it, and that is said where it is tried
    if stat.S_ISDIR(state.st_mode):
        return None
    if not stat.S_ISREG(state.st_mode):
        return "it is no file but a pipe, a socket or a device, which need not have an end"
    if state.st_size > most_bytes:
        return f"it has {state.st_size} bytes, and more than {most_bytes} are not read"
    return None


def variable_files(folder: str, kind: str, name: str) -> Iterator[str]:
    """Yield the files that hold the variables of one group or host, in Ansible's order."""
    for ending in YAML_ENDINGS:
        path = os.path.join(folder, kind, name + ending)
        if os.path.exists(path):
            yield from files_below(path) if os.path.isdir(path) else [path]
            return  # Ansible takes the first that there is


def files_below(path: str) -> Iterator[str]:
    """Yield the files in a folder and the folders in it, except hidden ones and backups, by name."""
    for parent, folders, files in os.walk(path):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        for file in sorted(files):
            if not file.startswith(".") and not file.endswith("~"):
                yield os.path.join(parent, file)


def all_variable_files(sources: Sequence[str]) -> Iterator[str]:
    """Yield every file under the group_vars and host_vars that belong to these inventory sources."""
    for folder in source_folders(sources):
        for kind in ("group_vars", "host_vars"):
            for path in files_below(os.path.join(folder, kind)):
                if os.path.splitext(path)[1] in YAML_ENDINGS:
                    yield path


def source_folders(sources: Sequence[str]) -> list[str]:
    """Return the folders beside which group_vars and host_vars are looked for, each once."""
    folders = (
        path if os.path.isdir(path) else os.path.dirname(path) for path in sources if os.path.exists(path)
    )
    return list(dict.fromkeys(folders))


def source_files(sources: Sequence[str]) -> list[str]:
    """Return the plain files among the sources, and those directly in a folder that is one."""
    files: list[str] = []
    for path in sources:
        if os.path.isdir(path):
            files += [
                os.path.join(path, name) for name in sorted(os.listdir(path)) if not name.startswith(".")
            ]
        else:
            files.append(path)
    return [path for path in files if os.path.isfile(path) and not is_program(path)]


def is_program(path: str) -> bool:
    """Tell whether a file is run rather than read: on some filesystems every text is executable."""
    if not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return True


def text_of(path: str) -> str:
    """Return a file's text; what is no text, or cannot be opened, is told where Ansible fails over it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
