# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file, and which line of it, says what: asked only when there is something to complain about.

Each file is read once, so the work is linear in the inventory however many problems there are.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.inventory import expand_hostname_range

try:
    import yaml
except ImportError:  # sanity's environment has none; ansible-core itself always brings it
    yaml = None  # type: ignore[assignment]

TAGS = ("!vault", "!vault-encrypted", "!unsafe")
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


def find(sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]) -> str | None:
    """Return `file:line` of the strongest place that sets a variable, or None where no readable file does.

    Args:
        sources: the inventory sources, as paths.
        variable: dotted path, as `fabric.rails[0].subnet`; its deepest part in the file gives the line.
        host: the node that is concerned, or None for groups alone.
        groups: its groups, the strongest last (`all` first).
    """
    steps = steps_of(variable)
    folders = list(reversed(source_folders(sources)))
    files = list(reversed(source_files(sources)))
    for kind, names in (("host", [host] if host else []), ("group", groups)):
        beside = [path for folder in folders for path in _files_of(folder, f"{kind}_vars", names)]
        lines = ((path, _line_of(composed(path), steps)) for path in beside)
        inside = (
            (path, _line_in_source(path, kind, name, steps)) for name in reversed(names) for path in files
        )
        for path, line in itertools.chain(lines, inside):
            if line is not None:
                return f"{shown(path)}:{line}"
    return None


def steps_of(variable: str) -> list[str]:
    """Return the keys of a dotted path, as `fabric.rails[0].subnet`."""
    return re.findall(r"[^.\[\]]+", variable)


def plain_data(path: str) -> Any:
    """Return what a YAML file holds, without Ansible's tags.

    What is encrypted is None.

    Raises:
        ValueError: it cannot be read, and the words say why.
    """

    class Plain(loader()):  # type: ignore[misc]  # the base is known at run time alone
        """A safe loader that knows Ansible's own tags."""

    for tag in TAGS:
        Plain.add_constructor(tag, lambda _loader, _node: None)
    try:
        return yaml.load(text_of(path), Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(getattr(error, "problem", None) or error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply, or an alias leads back to itself") from error


def find_encrypted(sources: Sequence[str], host: str | None, groups: Sequence[str]) -> str | None:
    """Return a file that is encrypted as a whole among those of a host and its groups, or None."""
    kinds = (("host_vars", [host] if host else []), ("group_vars", groups))
    for folder in source_folders(sources):
        for path in (path for kind, names in kinds for path in _files_of(folder, kind, names)):
            if is_encrypted(path):
                return shown(path)
    return None


def find_host(sources: Sequence[str], host: str) -> str | None:
    """Return `file:line` where a YAML or INI inventory lists a host, by name or in a range."""
    for path in reversed(source_files(sources)):
        for written, line in _listed(path):
            if written == host or ("[" in written and host in range_of(written)):
                return f"{shown(path)}:{line}"
    return None


def find_hosts(sources: Sequence[str]) -> str | None:
    """Return the first inventory file that lists any host, or the source that has none."""
    listing = (path for path in source_files(sources) if _listed(path))
    found = next(listing, next((path for path in sources if os.path.exists(path)), None))
    return None if found is None else shown(found)


def is_unread(place: str) -> bool:
    """Tell whether a `file:line` below group_vars or host_vars has an ending that Ansible passes over."""
    path = place.rpartition(":")[0] or place
    parts = os.path.normpath(path).split(os.sep)
    return {"group_vars", "host_vars"} & set(parts) != set() and os.path.splitext(path)[1] not in YAML_ENDINGS


def find_plain_text(
    sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]
) -> str | None:
    """Return `file:line` where a readable file sets a variable, looking for its bare name if need be.

    An encrypted file and a script are no readable files: a secret from there is where it should be.
    """
    exact = find(sources, variable, host, groups)
    if exact is not None:
        return exact
    name = steps_of(variable)[-1]
    for path in source_files(sources):
        line = _assignments(path).get(name)
        if line is not None:
            return f"{shown(path)}:{line}"
    return None


def _files_of(folder: str, kind: str, names: Sequence[str]) -> list[str]:
    return [path for name in reversed(names) for path in reversed(list(variable_files(folder, kind, name)))]


def text_of(path: str) -> str:
    """Return a file's text; what is no text, or cannot be opened, is told where Ansible fails over it."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def loader() -> Any:
    """Return the fastest of YAML's safe loaders."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def composed(path: str) -> Any:
    """Return the YAML nodes of a file, which know their lines, or None where there is no readable mapping."""
    if yaml is None or is_encrypted(path):
        return None
    try:
        node = yaml.compose(text_of(path), Loader=loader())
    except (yaml.YAMLError, OSError):
        return None
    return node if isinstance(node, yaml.MappingNode) else None


@cache
def _listed(path: str) -> list[tuple[str, int]]:
    """Return (host or range as written, line) of an inventory file."""
    if is_encrypted(path):
        return []
    if composed(path) is None:
        # An INI file may have any name or none of these endings.
        unread = os.path.splitext(path)[1] in (*YAML_ENDINGS[1:], ".md", ".txt", ".rst")
        lines = () if unread else enumerate(text_of(path).splitlines(), start=1)
        return [(line.split()[0], number) for number, line in lines if line.strip() and line[0] not in "[#;"]
    found = []
    for _group, part, content in _sections(path):
        if part.value == "hosts" and isinstance(content, yaml.MappingNode):
            found += [(key.value, key.start_mark.line + 1) for key, _value in content.value]
        elif part.value == "hosts" and isinstance(content, yaml.ScalarNode):
            found.append((content.value, part.start_mark.line + 1))
    return found


def _sections(path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (group, key, content) of what a YAML inventory file says of each of its groups."""
    waiting = list(getattr(composed(path), "value", []))
    while waiting:
        name, group = waiting.pop(0)
        for part, content in group.value if isinstance(group, yaml.MappingNode) else []:
            yield name.value, part, content
            if part.value == "children" and isinstance(content, yaml.MappingNode):
                waiting += content.value


@cache
def range_of(written: str) -> frozenset[str]:
    """Return the hosts of a range as `gpu[001:512]`, as Ansible expands it."""
    try:
        return frozenset(str(name) for name in expand_hostname_range(written))
    except AnsibleError:
        return frozenset()


@cache
def _assignments(path: str) -> dict[str, int]:
    """Return name → line of whatever looks like `name=` or `name:` in a file of any kind."""
    found: dict[str, int] = {}
    if is_encrypted(path):
        return found
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        for match in re.finditer(r"([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*[=:]", line.split(" #", 1)[0]):
            found.setdefault(match.group(1), number)
    return found


def scalars_of(path: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield (name, scalar node) for all scalars that stand, at any depth, under a key of one of the names."""
    waiting: list[tuple[str | None, Any]] = [(None, composed(path))]
    seen: set[tuple[str | None, int]] = set()
    while waiting:
        name, node = waiting.pop()
        if (name, id(node)) in seen:
            continue
        seen.add((name, id(node)))
        if isinstance(node, yaml.ScalarNode) and name is not None:
            yield name, node
        elif isinstance(node, yaml.SequenceNode):
            waiting += [(name, item) for item in node.value]
        elif isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = name or (key.value if key.value in names else None)
                waiting += [(inner, value), (inner if name else None, key)]


def _child(node: Any, step: str) -> tuple[Any, Any] | None:
    """Return (key node, value node) of one step into a mapping or list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)], node.value[int(step)]
    return None


def line_in(path: str, steps: Sequence[str]) -> int | None:
    """Return the line of the deepest of the keys that lead somewhere in a YAML file, or None."""
    return _line_of(composed(path), steps)


def _line_of(node: Any, steps: Sequence[str]) -> int | None:
    line = None
    for position, step in enumerate(steps):
        # A key may have dots of its own.
        pair = _child(node, step) or _child(node, ".".join(steps[position:]))
        if pair is None:
            break
        line, node = pair[0].start_mark.line + 1, pair[1]
    return line


@cache
def source_index(path: str) -> dict[tuple[str, str], list[Any]]:
    """Return the mappings that a YAML inventory file gives each host and group, by (kind, name)."""
    index: dict[tuple[str, str], list[Any]] = {}
    for group, part, content in _sections(path):
        if part.value == "vars" and isinstance(content, yaml.MappingNode):
            index.setdefault(("group", group), []).append(content)
        elif part.value == "hosts" and isinstance(content, yaml.MappingNode):
            for host, variables in content.value:
                index.setdefault(("host", host.value), []).append(variables)
    return index


def _line_in_source(path: str, kind: str, name: str, steps: Sequence[str]) -> int | None:
    if composed(path) is not None:
        for node in source_index(path).get((kind, name), []):
            if line := _line_of(node, steps):
                return line
        return None
    return _ini_index(path).get((kind, name, steps[0]))


@cache
def _ini_index(path: str) -> dict[tuple[str, str, str], int]:
    """Return (kind, name, variable) → line of an INI inventory file."""
    index: dict[tuple[str, str, str], int] = {}
    if is_encrypted(path) or path.endswith((".yml", ".yaml", ".json")):
        return index
    for number, section, line in ini_lines(path):
        if section.endswith(":vars"):
            index.setdefault(("group", section[:-5], line.split("=", 1)[0].strip()), number)
        elif not section.endswith(":children"):
            for variable in re.findall(r"([A-Za-z_][A-Za-z0-9_]*)=", line):
                index.setdefault(("host", line.split()[0], variable), number)
    return index


def ini_lines(path: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number, section, line) of an INI file; of its heads, blank lines and comments nothing."""
    section = ""
    for number, line in enumerate(map(str.strip, text_of(path).splitlines()), start=1):
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] not in "#;":
            yield number, section, line
