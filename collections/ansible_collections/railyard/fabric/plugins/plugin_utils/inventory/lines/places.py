# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the file and line of a variable or host, for error messages.

Each file is read once, so the work is linear in the inventory for any number of problems.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from functools import cache

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files, ini, yaml_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines.yaml_nodes import yaml


def find_variable(
    sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]
) -> str | None:
    """Return `file:line` of the strongest place that sets a variable, or None where no readable file does.

    Args:
        sources: the inventory sources, as paths.
        variable: dotted path, as `fabric.rails[0].subnet`; its deepest part in the file gives the line.
        host: the node that is concerned, or None for groups alone.
        groups: its groups, the strongest last (`all` first).
    """
    steps = yaml_nodes.steps_of(variable)
    folders = list(reversed(files.source_folders(sources)))
    listings = list(reversed(files.source_files(sources)))
    for kind, names in (("host", [host] if host else []), ("group", groups)):
        beside = [path for folder in folders for path in _files_of(folder, f"{kind}_vars", names)]
        lines = ((path, yaml_nodes.line_of(yaml_nodes.composed(path), steps)) for path in beside)
        inside = (
            (path, _line_in_source(path, kind, name, steps)) for name in reversed(names) for path in listings
        )
        for path, line in itertools.chain(lines, inside):
            if line is not None:
                return f"{files.show_path(path)}:{line}"
    return None


def find_encrypted(sources: Sequence[str], host: str | None, groups: Sequence[str]) -> str | None:
    """Return a file that is encrypted as a whole among those of a host and its groups, or None."""
    kinds = (("host_vars", [host] if host else []), ("group_vars", groups))
    for folder in files.source_folders(sources):
        for path in (path for kind, names in kinds for path in _files_of(folder, kind, names)):
            if files.is_encrypted(path):
                return files.show_path(path)
    return None


def find_host(sources: Sequence[str], host: str) -> str | None:
    """Return `file:line` where a YAML or INI inventory lists a host, by name or in a range."""
    for path in reversed(files.source_files(sources)):
        for written, line in _listed(path):
            if written == host or ("[" in written and host in yaml_errors.range_of(written)):
                return f"{files.show_path(path)}:{line}"
    return None


def find_hosts_file(sources: Sequence[str]) -> str | None:
    """Return the first inventory file that lists any host, or the source that has none."""
    listing = (path for path in files.source_files(sources) if _listed(path))
    found = next(listing, next((path for path in sources if os.path.exists(path)), None))
    return None if found is None else files.show_path(found)


def is_unread(place: str) -> bool:
    """Tell whether a `file:line` below group_vars or host_vars has an ending that Ansible ignores."""
    path = place.rpartition(":")[0] or place
    parts = os.path.normpath(path).split(os.sep)
    beside = not {"group_vars", "host_vars"}.isdisjoint(parts)
    return beside and os.path.splitext(path)[1] not in files.YAML_ENDINGS


def find_plain_text(
    sources: Sequence[str], variable: str, host: str | None, groups: Sequence[str]
) -> str | None:
    """Return `file:line` where a readable file sets a variable, searching for its bare name if necessary.

    Encrypted files and scripts are skipped: a secret may be there.
    """
    exact = find_variable(sources, variable, host, groups)
    if exact is not None:
        return exact
    name = yaml_nodes.steps_of(variable)[-1]
    for path in files.source_files(sources):
        line = _assignments(path).get(name)
        if line is not None:
            return f"{files.show_path(path)}:{line}"
    return None


def _files_of(folder: str, kind: str, names: Sequence[str]) -> list[str]:
    each = (list(files.variable_files(folder, kind, name)) for name in reversed(names))
    return [path for found in each for path in reversed(found)]


@cache
def _listed(path: str) -> list[tuple[str, int]]:
    """Return (host or range as written, line) of an inventory file."""
    if files.is_encrypted(path):
        return []
    if yaml_nodes.composed(path) is None:
        # An INI file may have any name or none of these endings.
        unread = os.path.splitext(path)[1] in (*files.YAML_ENDINGS[1:], ".md", ".txt", ".rst")
        lines = () if unread else enumerate(files.read_text(path).splitlines(), start=1)
        return [(line.split()[0], number) for number, line in lines if line.strip() and line[0] not in "[#;"]
    found = []
    for _group, part, content in yaml_nodes.sections(path):
        if part.value == "hosts" and isinstance(content, yaml.MappingNode):
            found += [(key.value, key.start_mark.line + 1) for key, _value in content.value]
        elif part.value == "hosts" and isinstance(content, yaml.ScalarNode):
            found.append((content.value, part.start_mark.line + 1))
    return found


@cache
def _assignments(path: str) -> dict[str, int]:
    """Return name → line of everything like `name=` or `name:` in a file of any kind."""
    found: dict[str, int] = {}
    if files.is_encrypted(path):
        return found
    for number, line in enumerate(files.read_text(path).splitlines(), start=1):
        for match in re.finditer(r"([A-Za-z_][A-Za-z0-9_]*)[\"']?\s*[=:]", line.split(" #", 1)[0]):
            found.setdefault(match.group(1), number)
    return found


def _line_in_source(path: str, kind: str, name: str, steps: Sequence[str]) -> int | None:
    if yaml_nodes.composed(path) is not None:
        for node in yaml_nodes.source_index(path).get((kind, name), []):
            if line := yaml_nodes.line_of(node, steps):
                return line
        return None
    return ini.index(path).get((kind, name, steps[0]))
