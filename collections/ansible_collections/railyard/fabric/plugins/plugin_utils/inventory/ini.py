# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read an inventory file in INI form, and find the line of errors that Ansible reports without it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from ansible import constants
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files, yaml_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(\"[^\"]*\"|'[^']*'|[^\s#]+)")
# Parts of the file that Ansible's messages quote.
_QUOTED = re.compile(r"got: (.+)$|host definition '(.*)'|(\[[^\]]+\])|'([^']*)'")
_MESSAGE = re.compile(
    r"Failed to parse inventory with '(?P<plugin>\w+)' plugin: (?P<words>.*?)\s*"
    r"(?=Failed to parse inventory with|<<< caused by|Origin: |Completely failed|$)"
)


def ini_error(path: str) -> tuple[int, str, str] | None:
    """Return (line, what is wrong, fix) of the first range or section that Ansible would misread, or None."""
    section, text = "", files.read_text(path)
    if text.startswith("\ufeff["):
        message = "it begins with a byte order mark, which Ansible takes for a part of the section"
        return 1, message, "save it as UTF-8 without one"
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.strip()
        if line.startswith("["):
            if "]" not in line:
                return number, f"section {line} is not closed", "write it as [gpu_nodes]"
            section = line
        elif line == "all" and ":children]" in section:
            message = f"group all is listed in {section}, and would contain itself"
            return number, message, "take it out of the children"
        elif line and line[0] not in "#;" and not re.search(r":(vars|children)\]", section):
            wrong = yaml_errors.range_error(line.split()[0])
            if wrong is not None:
                return number, wrong, yaml_errors.RANGE_FIX
    return None


def settings(path: str) -> Iterator[tuple[str, str, str, str, int]]:
    """Yield (kind, name, variable, value as text, line) of an INI file; none for a file in another form.

    Nor for a file that Ansible does not read in a folder, such as README.md.
    """
    other = (".yml", ".yaml", ".json", ".toml", *constants.INVENTORY_IGNORE_EXTS)
    if path.endswith(other) or yaml_nodes.composed(path) is not None:
        return
    for number, section, line in lines(path):
        if section.endswith(":vars"):
            variable, _equals, value = line.partition("=")
            yield "group", section[: -len(":vars")], variable.strip(), value.strip().strip("\"'"), number
        elif not section.endswith(":children"):
            written = line.split()[0]
            for name in yaml_errors.range_of(written) if "[" in written else (written,):
                for variable, value in _ASSIGNMENT.findall(line):
                    yield "host", name, variable, value.strip("\"'"), number


def extract_message(messages: str, plugin: str) -> str:
    """Return the message of one of Ansible's plugins out of those of all; all where it has none."""
    text = " ".join(messages.split())
    found = {match["plugin"]: match["words"] for match in _MESSAGE.finditer(text)}
    return found.get(plugin, text).removeprefix("Failed to parse inventory: ").rstrip(". ") or text


def line_of(path: str, words: str) -> int | None:
    """Return the line of a file that a message of Ansible quotes, or None."""
    lines = files.read_text(path).splitlines()
    for match in _QUOTED.finditer(words):
        part = next(group for group in match.groups() if group is not None)
        for number, line in enumerate(lines, start=1):
            if part and part in line:
                return number
    return None


@cache
def index(path: str) -> dict[tuple[str, str, str], int]:
    """Return (kind, name, variable) → line of an INI inventory file."""
    found: dict[tuple[str, str, str], int] = {}
    for kind, name, variable, _value, number in settings(path):
        found.setdefault((kind, name, variable), number)
    return found


def lines(path: str) -> Iterator[tuple[int, str, str]]:
    """Yield (number, section, line) of an INI file; of its heads, blank lines and comments nothing."""
    section = ""
    for number, line in enumerate(map(str.strip, files.read_text(path).splitlines()), start=1):
        if line.startswith("["):
            section = line.strip("[]")
        elif line and line[0] not in "#;":
            yield number, section, line
