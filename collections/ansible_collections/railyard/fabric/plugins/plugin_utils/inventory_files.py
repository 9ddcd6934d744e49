# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which file, and which line of it, says what: asked only when there is something to complain about.

Each file is read once, so the work is linear in the inventory however many problems there are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.inventory import expand_hostname_range

try:
    import yaml
except ImportError:  # sanity's environment has none; ansible-core itself always brings it
    yaml = None  # type: ignore[assignment]

_VAULT_HEADER = b"$ANSIBLE_VAULT"
_YAML_ENDINGS = ("", ".yml", ".yaml", ".json")


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


def syntax_error(path: str) -> tuple[int, str] | None:
    """Return (line, what is wrong) where a file is no YAML, or a key stands twice in a mapping, else None."""
    if yaml is None or is_encrypted(path):
        return None
    try:
        return _repeated_key(yaml.compose(_read(path), Loader=_loader()))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        return (mark.line + 1 if mark else 1), " ".join(filter(None, (error.context, error.problem)))
    except yaml.YAMLError as error:
        return 1, str(error)


def _repeated_key(root: Any) -> tuple[int, str] | None:
    """Return (line, what is wrong) for the first key that its mapping has already, which YAML forbids."""
    waiting = [root]
    found = []
    seen_nodes: set[int] = set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen_nodes:
            continue
        # An alias leads to the same node again, and may lead back to where it stands.
        seen_nodes.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting += node.value
        if not isinstance(node, yaml.MappingNode):
            continue
        first: dict[tuple[str, str], int] = {}
        for key, value in node.value:
            waiting.append(value)
            line = key.start_mark.line + 1
            if isinstance(key, yaml.ScalarNode) and first.setdefault((key.tag, key.value), line) != line:
                found.append((line, f"key {key.value!r} stands in line {first[key.tag, key.value]} already"))
    return min(found, default=None)


def variable_files(folder: str, kind: str, name: str) -> Iterator[str]:
    """Yield the files that hold the variables of one group or host, in Ansible's order."""
    for ending in _YAML_ENDINGS:
        path = os.path.join(folder, kind, name + ending)
        if os.path.isdir(path):
            for parent, folders, files in os.walk(path):
                folders.sort()
                for file in sorted(files):
                    if not file.startswith(".") and not file.endswith("~"):
                        yield os.path.join(parent, file)
        elif os.path.isfile(path):
            yield path


def all_variable_files(sources: Sequence[str]) -> Iterator[str]:
    """Yield every file under the group_vars and host_vars that belong to these inventory sources."""
    for folder in source_folders(sources):
        for kind in ("group_vars", "host_vars"):
            for parent, _folders, files in sorted(os.walk(os.path.join(folder, kind))):
                for file in sorted(files):
                    if os.path.splitext(file)[1] in _YAML_ENDINGS:
                        yield os.path.join(parent, file)


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
    return [path for path in files if os.path.isfile(path) and not os.access(path, os.X_OK)]


def find(sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]) -> str | None:
    """Return `file:line` of the strongest place that sets a variable, or None where no readable file does.

    Args:
        sources: the inventory sources, as paths.
        variable: dotted path, as `fabric.rails[0].subnet`; its deepest part in the file gives the line.
        host: the node that is concerned, or None for groups alone.
        groups: its groups, the strongest last (`all` first).
    """
    steps = re.findall(r"[^.\[\]]+", variable)
    folders = list(reversed(source_folders(sources)))
    files = list(reversed(source_files(sources)))
    for path in [
        path for folder in folders for path in _files_of(folder, "host_vars", [host] if host else [])
    ]:
        if line := _line_of(_composed(path), steps):
            return f"{shown(path)}:{line}"
    entities = [("host", host)] if host else []
    for path in files:
        for kind, name in entities:
            if line := _line_in_source(path, kind, name, steps):
                return f"{shown(path)}:{line}"
    for path in [path for folder in folders for path in _files_of(folder, "group_vars", groups)]:
        if line := _line_of(_composed(path), steps):
            return f"{shown(path)}:{line}"
    for group in reversed(groups):
        for path in files:
            if line := _line_in_source(path, "group", group, steps):
                return f"{shown(path)}:{line}"
    return None


def find_host(sources: Sequence[str], host: str) -> str | None:
    """Return `file:line` where a YAML or INI inventory lists a host, by name or in a range."""
    for path in reversed(source_files(sources)):
        for written, line in _listed(path):
            if written == host or ("[" in written and host in _range_of(written)):
                return f"{shown(path)}:{line}"
    return None


def find_plain_text(
    sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]
) -> str | None:
    """Return `file:line` where a readable file sets a variable, looking for its bare name if need be.

    An encrypted file and a script are no readable files: a secret from there is where it should be.
    """
    exact = find(sources, variable, host, groups)
    if exact is not None:
        return exact
    name = re.findall(r"[^.\[\]]+", variable)[-1]
    for path in source_files(sources):
        line = _assignments(path).get(name)
        if line is not None:
            return f"{shown(path)}:{line}"
    return None


def _files_of(folder: str, kind: str, names: Sequence[str]) -> list[str]:
    return [path for name in reversed(names) for path in reversed(list(variable_files(folder, kind, name)))]


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def _loader() -> Any:
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def _composed(path: str) -> Any:
    """Return the YAML nodes of a file, which know their lines, or None where there is no readable mapping."""
    if yaml is None or is_encrypted(path):
        return None
    try:
        node = yaml.compose(_read(path), Loader=_loader())
    except (yaml.YAMLError, OSError):
        return None
    return node if isinstance(node, yaml.MappingNode) else None


@cache
def _listed(path: str) -> list[tuple[str, int]]:
    """Return (host or range as written, line) of an inventory file."""
    if is_encrypted(path):
        return []
    if _composed(path) is None:
        lines = (
            enumerate(_read(path).splitlines(), start=1) if path.endswith((".ini", ".cfg", "hosts")) else ()
        )
        return [(line.split()[0], number) for number, line in lines if line.strip() and line[0] not in "[#;"]
    found = []
    waiting = list(_composed(path).value)
    while waiting:
        _name, group = waiting.pop()
        for part, content in group.value if isinstance(group, yaml.MappingNode) else []:
            if part.value == "hosts" and isinstance(content, yaml.MappingNode):
                found += [(key.value, key.start_mark.line + 1) for key, _value in content.value]
            elif part.value == "children" and isinstance(content, yaml.MappingNode):
                waiting += content.value
    return found


@cache
def _range_of(written: str) -> frozenset[str]:
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
    for number, line in enumerate(_read(path).splitlines(), start=1):
        for match in re.finditer(r"([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*[=:]", line.split(" #", 1)[0]):
            found.setdefault(match.group(1), number)
    return found


def _child(node: Any, step: str) -> tuple[Any, Any] | None:
    """Return (key node, value node) of one step into a mapping or list."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == step:
                return key, value
    elif isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
        return node.value[int(step)], node.value[int(step)]
    return None


def _line_of(node: Any, steps: Sequence[str]) -> int | None:
    line = None
    for step in steps:
        pair = _child(node, step)
        if pair is None:
            break
        line, node = pair[0].start_mark.line + 1, pair[1]
    return line


@cache
def _source_index(path: str) -> dict[tuple[str, str], list[Any]]:
    """Return the mappings that a YAML inventory file gives each host and group, by (kind, name)."""
    index: dict[tuple[str, str], list[Any]] = {}
    waiting = list(getattr(_composed(path), "value", []))
    while waiting:
        key, group = waiting.pop()
        for part, content in getattr(group, "value", []) if isinstance(group, yaml.MappingNode) else []:
            if not isinstance(content, yaml.MappingNode):
                continue
            if part.value == "vars":
                index.setdefault(("group", key.value), []).append(content)
            elif part.value == "hosts":
                for host, variables in content.value:
                    index.setdefault(("host", host.value), []).append(variables)
            elif part.value == "children":
                waiting += content.value
    return index


def _line_in_source(path: str, kind: str, name: str, steps: Sequence[str]) -> int | None:
    if _composed(path) is not None:
        for node in _source_index(path).get((kind, name), []):
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
    section = ""
    for number, line in enumerate(_read(path).splitlines(), start=1):
        line = line.strip()
        if line.startswith("["):
            section = line.strip("[]")
        elif section.endswith(":vars"):
            index.setdefault(("group", section[:-5], line.split("=", 1)[0].strip()), number)
        elif line and line[0] not in "#;" and not section.endswith(":children"):
            host = line.split()[0]
            for variable in re.findall(r"([A-Za-z_][A-Za-z0-9_]*)=", line):
                index.setdefault(("host", host, variable), number)
    return index
