# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the lines of keys in a YAML file, by its nodes. Each file is read once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files

try:
    # The only import of yaml in this package; the alias marks it as re-exported.
    import yaml as yaml  # pylint: disable=useless-import-alias
except ImportError:  # sanity's environment has none; ansible-core itself always brings it
    yaml = None  # type: ignore[assignment]

_TAGS = ("!vault", "!vault-encrypted", "!unsafe")


def steps_of(variable: str) -> list[str]:
    """Return the keys of a dotted path, as `fabric.rails[0].subnet`."""
    return re.findall(r"[^.\[\]]+", variable)


def plain_data(path: str) -> Any:
    """Load a YAML file without Ansible's tags.

    Encrypted values are None.

    Raises:
        ValueError: it cannot be read; the message says why.
    """

    class Plain(loader()):  # type: ignore[misc]  # the base is known at run time alone
        """A safe loader that knows Ansible's own tags."""

    for tag in _TAGS:
        Plain.add_constructor(tag, lambda _loader, _node: None)
    try:
        return yaml.load(files.read_text(path), Loader=Plain)
    except yaml.YAMLError as error:
        raise ValueError(str(getattr(error, "problem", None) or error)) from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply, or an alias leads back to itself") from error


def loader() -> Any:
    """Return the fastest of YAML's safe loaders."""
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@cache
def composed(path: str) -> Any:
    """Return the YAML nodes of a file, which know their lines, or None where there is no readable mapping."""
    if yaml is None or files.is_encrypted(path):
        return None
    try:
        node = yaml.compose(files.read_text(path), Loader=loader())
    except (yaml.YAMLError, OSError):
        return None
    return node if isinstance(node, yaml.MappingNode) else None


def sections(path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield (group, key, content) for each key of each group in a YAML inventory file."""
    waiting = list(getattr(composed(path), "value", []))
    while waiting:
        name, group = waiting.pop(0)
        for part, content in group.value if isinstance(group, yaml.MappingNode) else []:
            yield name.value, part, content
            if part.value == "children" and isinstance(content, yaml.MappingNode):
                waiting += content.value


def scalars_of(path: str, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield (name, scalar node) for all scalars at any depth below a key with one of the names."""
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
    return line_of(composed(path), steps)


def line_of(node: Any, steps: Sequence[str]) -> int | None:
    """Return the line of the deepest of the keys that lead somewhere below a node, or None."""
    line = None
    for position, step in enumerate(steps):
        # A key may contain dots.
        pair = _child(node, step) or _child(node, ".".join(steps[position:]))
        if pair is None:
            break
        line, node = pair[0].start_mark.line + 1, pair[1]
    return line


@cache
def source_index(path: str) -> dict[tuple[str, str], list[Any]]:
    """Return (kind, name) → the variable mappings of each host and group in a YAML inventory file."""
    index: dict[tuple[str, str], list[Any]] = {}
    for group, part, content in sections(path):
        if part.value == "vars" and isinstance(content, yaml.MappingNode):
            index.setdefault(("group", group), []).append(content)
        elif part.value == "hosts" and isinstance(content, yaml.MappingNode):
            for host, variables in content.value:
                index.setdefault(("host", host.value), []).append(variables)
    return index
