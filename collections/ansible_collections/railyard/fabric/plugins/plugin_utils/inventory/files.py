# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the files of an inventory, tell which of them Ansible reads, and read their text."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

_VAULT_HEADER = b"$ANSIBLE_VAULT"
YAML_ENDINGS = ("", ".yml", ".yaml", ".json")
# 100,000 hosts with own variables take a quarter of the first, 256 rails a tenth of the second.
_BYTES_MAX = 64 * 2**20
_VARIABLES_BYTES_MAX = 2 * 2**20


def show_path(path: str) -> str:
    """Return a path relative to the current folder where it is inside it."""
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def is_encrypted(path: str) -> bool:
    """Tell whether a whole file is an Ansible vault."""
    try:
        with open(path, "rb") as stream:
            return stream.read(len(_VAULT_HEADER)) == _VAULT_HEADER
    except OSError:
        return False


def find_endless(sources: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield (path, what is wrong) of files that Ansible could not read to an end: pipes, devices, huge files.

    Links to folders are followed, as Ansible does, each folder once.
    """
    variables = [
        os.path.join(at, kind) for at in source_folders(sources) for kind in ("group_vars", "host_vars")
    ]
    seen: set[tuple[int, int]] = set()
    for top in dict.fromkeys([*variables, *filter(os.path.exists, sources)]):
        most = _VARIABLES_BYTES_MAX if top in variables else _BYTES_MAX
        if (wrong := check_readable(top, most)) is not None:
            yield top, wrong
        for parent, folders, files in os.walk(top, followlinks=True):
            state = os.stat(parent)
            if (state.st_dev, state.st_ino) in seen:
                folders[:] = []
                continue
            seen.add((state.st_dev, state.st_ino))
            for path in (os.path.join(parent, name) for name in sorted(files)):
                if (wrong := check_readable(path, most)) is not None:
                    yield path, wrong


def check_readable(path: str, most_bytes: int = _VARIABLES_BYTES_MAX) -> str | None:
    """Return why a path cannot be read to an end, or None where it can, or where nothing is there."""
    try:
        state = os.stat(path)
    except OSError:
        return None  # it cannot be opened, which is reported where it is read
    if stat.S_ISDIR(state.st_mode):
        return None
    if not stat.S_ISREG(state.st_mode):
        return "it is a pipe, a socket or a device, not a file"
    if state.st_size > most_bytes:
        return f"it has {state.st_size} bytes; at most {most_bytes} are read"
    return None


def variable_files(folder: str, kind: str, name: str) -> Iterator[str]:
    """Yield the files that hold the variables of one group or host, in Ansible's order."""
    for ending in YAML_ENDINGS:
        path = os.path.join(folder, kind, name + ending)
        if os.path.exists(path):
            yield from files_below(path) if os.path.isdir(path) else [path]
            return  # Ansible takes the first that exists


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
    """Tell whether Ansible would run a file; on some filesystems every text file is executable."""
    if not os.access(path, os.X_OK):
        return False
    try:
        with open(path, "rb") as stream:
            return stream.read(4).startswith((b"#!", b"\x7fELF"))
    except OSError:
        return True


def read_text(path: str) -> str:
    """Return a file's text; a file that cannot be read is reported where Ansible fails on it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""
