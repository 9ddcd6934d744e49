# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find variables that two places set differently for one host or group.

Ansible silently takes the last in its order: files by name, inventories as given, host_vars over hosts.yml.
Files of variables are read only where another file names the same host or group.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files, ini, layout, yaml_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Problem

_VARIABLES = (*layout.VARIABLES, "ansible_host")
_KINDS = (("host", "host_vars"), ("group", "group_vars"))


class _Setting(NamedTuple):
    """One setting: its value in a comparable form, and its file and line."""

    value: Any
    where: str


def check(sources: Sequence[str]) -> Iterator[Problem]:
    """Yield each variable that a second place sets differently for the same host or group."""
    settings: dict[tuple[str, str, str], list[_Setting]] = {}
    for path in dict.fromkeys(map(os.path.realpath, files.source_files(sources))):
        for kind, name, variable, one in _in_source(path):
            settings.setdefault((kind, name, variable), []).append(one)
    known = {(kind, name) for kind, name, _variable in settings}
    folders = list(dict.fromkeys(map(os.path.realpath, files.source_folders(sources))))
    for folder in folders:
        for kind, below in _KINDS:
            for name, paths in layout.entries(os.path.join(folder, below)).items():
                if len(folders) > 1 or (kind, name) in known:
                    for variable, one in _in_variables(paths[0]):
                        settings.setdefault((kind, name, variable), []).append(one)
    for (kind, name, variable), places in settings.items():
        other = next((one for one in places[1:] if _differ(one.value, places[0].value)), None)
        if other is not None:
            message = (
                f"{variable}: {places[0].where} sets another value for {kind} {name}; Ansible uses only one"
            )
            host = name if kind == "host" else None
            yield Problem(other.where, host, None, message, "keep one of the two")


def _differ(one: Any, other: Any) -> bool:
    """Tell whether two values differ; text from INI is compared with text only."""
    return one != other and isinstance(one, str) == isinstance(other, str)


def _in_source(path: str) -> Iterator[tuple[str, str, str, _Setting]]:
    """Yield (kind, name, variable, setting) of an inventory file."""
    if files.is_encrypted(path):
        return
    where = files.show_path(path)
    for (kind, written), mappings in yaml_nodes.source_index(path).items():
        for node in mappings:
            found = [
                (key.value, _Setting(_frozen(value), f"{where}:{key.start_mark.line + 1}"))
                for key, value in _pairs(node)
                if key.value in _VARIABLES
            ]
            is_range = found and kind == "host" and "[" in written
            for name in yaml_errors.range_of(written) if is_range else (written,):
                for variable, one in found:
                    yield kind, name, variable, one
    for kind, name, variable, value, line in ini.settings(path):
        if variable in _VARIABLES:
            yield kind, name, variable, _Setting(value, f"{where}:{line}")


def _in_variables(path: str) -> Iterator[tuple[str, _Setting]]:
    """Yield (variable, setting) of a file, or a folder of files, of one host or group."""
    for file in layout.files_of(path):
        if layout.find_variables(file):
            for key, value in _pairs(yaml_nodes.composed(file)):
                if key.value in _VARIABLES:
                    yield (
                        key.value,
                        _Setting(_frozen(value), f"{files.show_path(file)}:{key.start_mark.line + 1}"),
                    )


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    value = getattr(node, "value", None)
    return [pair for pair in value if isinstance(pair, tuple)] if isinstance(value, list) else []


def _frozen(node: Any) -> Any:
    """Return the content of a YAML node in a comparable form: scalars as their text."""
    pairs = _pairs(node)
    if pairs:
        return frozenset((str(_frozen(key)), _frozen(value)) for key, value in pairs)
    if isinstance(node.value, list):
        return tuple(_frozen(item) for item in node.value)
    return node.value
