# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One variable of one host or group, set differently in two places: which one holds, nobody sees.

Ansible takes the last by an order of its own: files by name, inventories as given, host_vars over hosts.yml.
Files of variables are read only where something else speaks of the same host or group.
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


class _Said(NamedTuple):
    """One setting: its value in a form that can be compared, and where it stands."""

    value: Any
    where: str


def check(sources: Sequence[str]) -> Iterator[Problem]:
    """Yield each variable that a second place sets otherwise for the same host or group."""
    said: dict[tuple[str, str, str], list[_Said]] = {}
    for path in dict.fromkeys(map(os.path.realpath, files.source_files(sources))):
        for kind, name, variable, one in _in_source(path):
            said.setdefault((kind, name, variable), []).append(one)
    spoken_of = {(kind, name) for kind, name, _variable in said}
    folders = list(dict.fromkeys(map(os.path.realpath, files.source_folders(sources))))
    for folder in folders:
        for kind, below in _KINDS:
            for name, paths in layout.entries(os.path.join(folder, below)).items():
                if len(folders) > 1 or (kind, name) in spoken_of:
                    for variable, one in _in_variables(paths[0]):
                        said.setdefault((kind, name, variable), []).append(one)
    for (kind, name, variable), places in said.items():
        other = next((one for one in places[1:] if _differ(one.value, places[0].value)), None)
        if other is not None:
            message = (
                f"{variable}: {places[0].where} sets it otherwise for {kind} {name}, and Ansible takes one"
            )
            host = name if kind == "host" else None
            yield Problem(other.where, host, None, message, "keep one of the two")


def _differ(one: Any, other: Any) -> bool:
    """Tell whether two values differ; what INI writes as text is held against text alone."""
    return one != other and isinstance(one, str) == isinstance(other, str)


def _in_source(path: str) -> Iterator[tuple[str, str, str, _Said]]:
    """Yield (kind, name, variable, what is said) of an inventory file."""
    if files.is_encrypted(path):
        return
    where = files.shown(path)
    for (kind, written), mappings in yaml_nodes.source_index(path).items():
        for node in mappings:
            found = [
                (key.value, _Said(_frozen(value), f"{where}:{key.start_mark.line + 1}"))
                for key, value in _pairs(node)
                if key.value in _VARIABLES
            ]
            is_range = found and kind == "host" and "[" in written
            for name in yaml_errors.range_of(written) if is_range else (written,):
                for variable, one in found:
                    yield kind, name, variable, one
    for kind, name, variable, value, line in ini.settings(path):
        if variable in _VARIABLES:
            yield kind, name, variable, _Said(value, f"{where}:{line}")


def _in_variables(path: str) -> Iterator[tuple[str, _Said]]:
    """Yield (variable, what is said) of a file, or a folder of files, of one host or group."""
    for file in layout.files_of(path):
        if layout.set_in(file):
            for key, value in _pairs(yaml_nodes.composed(file)):
                if key.value in _VARIABLES:
                    yield key.value, _Said(_frozen(value), f"{files.shown(file)}:{key.start_mark.line + 1}")


def _pairs(node: Any) -> list[tuple[Any, Any]]:
    value = getattr(node, "value", None)
    return [pair for pair in value if isinstance(pair, tuple)] if isinstance(value, list) else []


def _frozen(node: Any) -> Any:
    """Return what a YAML node says, as something that can be compared: scalars as their text."""
    pairs = _pairs(node)
    if pairs:
        return frozenset((str(_frozen(key)), _frozen(value)) for key, value in pairs)
    if isinstance(node.value, list):
        return tuple(_frozen(item) for item in node.value)
    return node.value
