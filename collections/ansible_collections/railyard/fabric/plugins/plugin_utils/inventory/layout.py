# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find what Ansible ignores silently: files that it never reads, a variable set twice, octal numbers.

Only variables that Railyard reads are checked. Files are searched as text first: for thousands of host_vars a
second parse would take long.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files, plaintext_secrets
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Problem

# Variables of one node, beside the fabric that it shares with others.
OF_NODES = (
    "node_index", "scalable_unit", "rail_overrides", "network_addresses", "bmc_address", "management_address",
    "expected_gpus", "nvlink_domain",
)  # fmt: skip
VARIABLES = ("fabric", "fabric_policy", *OF_NODES)
# At the left margin, as in a file of variables.
_SET = re.compile(rf"^[\"']?({'|'.join(VARIABLES)})[\"']?[ \t]*:", re.MULTILINE)
_TAGGED = re.compile(
    r"^[^#\n]*:\s+!vault(-encrypted)?[ \t]*([|>][-+0-9]*[ \t]*\n[ \t]*)?"
    r"[\"']?(?!\$ANSIBLE_VAULT)[^\s\"'|>$]",
    re.MULTILINE,
)
_BASE_8 = re.compile(r"[-+]?0[0-7_]+")
_BASE_8_SOMEWHERE = re.compile(rf"(?<![\w.:/-]){_BASE_8.pattern}(?![\w.:/-])")


def check(sources: Sequence[str], hosts: Collection[str], groups: Collection[str]) -> Iterator[Problem]:
    """Yield errors in the files of an inventory, as opposed to the data that Ansible reads from them.

    Args:
        sources: the inventory sources, as paths.
        hosts: names of all hosts.
        groups: names of all groups.
    """
    for folder in files.source_folders(sources):
        # Beside a single file there may be variables for the hosts of another inventory.
        is_source = folder in sources
        for kind, known in (("group_vars", groups), ("host_vars", hosts)):
            for name, paths in entries(os.path.join(folder, kind)).items():
                if name in known:
                    yield from _check_entity(kind, name, paths)
                elif is_source:
                    yield from _check_unknown(kind, name, paths, known)
    for path in [*files.all_variable_files(sources), *files.source_files(sources)]:
        yield from _check_numbers(path)
        yield from _check_tags(path)


def entries(folder: str) -> dict[str, list[str]]:
    """Return group or host → its files and folders, in Ansible's order."""
    found: dict[str, list[tuple[int, str]]] = {}
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return {}
    for name in names:
        path = os.path.join(folder, name)
        stem, ending = os.path.splitext(name)
        if os.path.isdir(path) or ending not in files.YAML_ENDINGS:
            stem, ending = name, ""
        if not name.startswith(".") and not name.endswith("~"):
            found.setdefault(stem, []).append((files.YAML_ENDINGS.index(ending), path))
    return {stem: [path for _rank, path in sorted(paths)] for stem, paths in found.items()}


def _check_entity(kind: str, name: str, paths: Sequence[str]) -> Iterator[Problem]:
    """Check that all files of a host or group are read, and that no variable is set twice."""
    host = name if kind == "host_vars" else None
    for path in paths[1:]:
        message = f"Ansible reads {files.show_path(paths[0])} instead of this file"
        yield Problem(files.show_path(path), host, None, message, "move its variables there, and remove it")
    if not os.path.isdir(paths[0]):
        return
    first: dict[str, str] = {}
    for path in files_of(paths[0]):
        for variable, line in find_variables(path).items():
            where = f"{files.show_path(path)}:{line}"
            if first.setdefault(variable, where) != where:
                message = f"{variable}: it is set in {first[variable]} as well, and the file's name decides"
                yield Problem(where, host, None, message, "keep one of the two")


def _check_unknown(kind: str, name: str, paths: Sequence[str], known: Collection[str]) -> Iterator[Problem]:
    """Check that files of unknown hosts and groups set none of Railyard's variables."""
    what = "host" if kind == "host_vars" else "group"
    for path in (file for one in paths for file in files_of(one)):
        yield from _check_secrets(path)
        variables = find_variables(path)
        variable = next(iter(variables), None)
        if variable is not None:
            near = difflib.get_close_matches(name, [str(one) for one in known], n=1)
            hint = f"did you mean {what} {near[0]}? If not, " if near else f"name it as its {what}, or "
            message = f"{variable}: it is set for {what} {name}, which the inventory does not have"
            where = f"{files.show_path(path)}:{variables[variable]}"
            yield Problem(where, None, None, message, f"{hint}remove the file")


def _check_tags(path: str) -> Iterator[Problem]:
    """Check that values tagged as encrypted are: Ansible fails only when it uses them."""
    for match in _TAGGED.finditer("" if files.is_encrypted(path) else files.read_text(path)):
        line = files.read_text(path).count("\n", 0, match.start()) + 1
        message = "a value is tagged !vault, but is not encrypted"
        yield Problem(f"{files.show_path(path)}:{line}", None, None, message, plaintext_secrets.FIX)


def _check_secrets(path: str) -> Iterator[Problem]:
    """Check a file that Ansible does not read for passwords: anyone with the inventory can read them."""
    try:
        held = None if files.is_encrypted(path) else yaml_nodes.plain_data(path)
    except ValueError:
        return
    for variable in plaintext_secrets.passwords(held) if isinstance(held, Mapping) else ():
        line = yaml_nodes.line_in(path, yaml_nodes.steps_of(variable)) or 1
        message = f"{variable}: a password in plain text"
        yield Problem(f"{files.show_path(path)}:{line}", None, None, message, plaintext_secrets.FIX)


def files_of(path: str) -> list[str]:
    """Return a file, or the files of variables in a folder, in Ansible's order."""
    if not os.path.isdir(path):
        return [path]
    return [file for file in files.files_below(path) if os.path.splitext(file)[1] in files.YAML_ENDINGS]


def find_variables(path: str) -> dict[str, int]:
    """Return the variables of Railyard that a file sets → the line of each."""
    if files.is_encrypted(path):
        return {}
    text = files.read_text(path)
    found: dict[str, int] = {}
    for match in _SET.finditer(text):
        found.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
    return found


def _check_numbers(path: str) -> Iterator[Problem]:
    """Check for integers that begin with 0: YAML reads 010 as 8."""
    if files.is_encrypted(path) or not _BASE_8_SOMEWHERE.search(files.read_text(path)):
        return
    for variable, node in yaml_nodes.scalars_of(path, VARIABLES):
        if node.tag == "tag:yaml.org,2002:int" and _BASE_8.fullmatch(node.value):
            meant, read = int(node.value), int(node.value.replace("_", ""), 8)
            if meant == read:
                continue
            message = f"{variable}: YAML reads {node.value} as octal, which is {read}"
            fix = f"write {meant}, without a leading 0 (in quotes if it is a name)"
            yield Problem(f"{files.show_path(path)}:{node.start_mark.line + 1}", None, None, message, fix)
