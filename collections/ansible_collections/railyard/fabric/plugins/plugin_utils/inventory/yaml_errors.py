# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find why Ansible cannot read a file or ignores a part of it, with the line, which it often omits."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.inventory import expand_hostname_range
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.layout import VARIABLES
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines.yaml_nodes import yaml

_SECTIONS = ("hosts", "vars", "children")
# Groups with these prefixes only hold YAML anchors.
_ANCHORS = ("x-", ".", "_")
_END = r"[0-9]+|[A-Za-z]"
_RANGE = re.compile(rf"(?P<first>{_END})?:(?P<last>{_END})?(:(?P<step>[0-9]+))?")
HOSTS_MAX = 100000
RANGE_FIX = "write a range as Ansible does, gpu[1:3] or gpu[01:32]"
_VARIABLES_FIX = "move variables into group_vars/all/ beside the hosts' file"


class Wrong(NamedTuple):
    """An error in an inventory file: the keys that lead to it, a message and a fix."""

    steps: tuple[str, ...]
    message: str
    fix: str


def syntax_error(path: str) -> tuple[int | None, str] | None:
    """Return (line if known, Ansible's message) where a file cannot be read as YAML, else None."""
    if yaml is None or files.is_encrypted(path):
        return None
    try:
        with open(path, "rb") as stream:
            raw = stream.read()
    except OSError as error:
        return 1, f"it cannot be opened: {error.strerror or error}"
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        return raw.count(b"\n", 0, error.start) + 1, f"byte 0x{raw[error.start]:02x} is not UTF-8"
    try:
        DataLoader().load_from_file(path, cache="none")
    except AnsibleError as error:
        return getattr(error.obj, "line_num", None), error.message.rstrip(".")
    except RecursionError:
        return None, "it is nested too deeply"
    return _find_alias_loop(yaml.compose(text, Loader=yaml_nodes.loader()))


def _find_alias_loop(root: Any) -> tuple[int, str] | None:
    """Return (line, message) of a node that contains itself, which Ansible would follow forever."""
    waiting = [(root, False)] if root is not None else []
    around: set[int] = set()
    done: set[int] = set()
    while waiting:
        node, left = waiting.pop()
        if left:
            around.discard(id(node))
            done.add(id(node))
        elif id(node) in around:
            return node.start_mark.line + 1, "an alias is inside the value that it names"
        elif id(node) not in done and isinstance(node, yaml.CollectionNode):
            around.add(id(node))
            waiting.append((node, True))
            pairs = isinstance(node, yaml.MappingNode)
            waiting += [(item[1] if pairs else item, False) for item in node.value]
    return None


def no_variables(path: str) -> tuple[int, str] | None:
    """Return (line, error) where a file of variables is valid YAML but not a mapping, else None."""
    if yaml is None or files.is_encrypted(path):
        return None
    root: Any = yaml.compose(files.read_text(path), Loader=yaml_nodes.loader())
    empty = root is None or root.tag == "tag:yaml.org,2002:null"
    if empty or isinstance(root, yaml.MappingNode):
        return None
    what = "a list" if isinstance(root, yaml.SequenceNode) else "text"
    return root.start_mark.line + 1, f"it contains {what}, not a mapping of variables"


def inventory_error(data: Any) -> Wrong | None:
    """Return the first error for which Ansible refuses or ignores a part of a YAML inventory file."""
    if not data:
        return Wrong((), "it is empty", "write group gpu_nodes into it, as inventories/v100-pair/hosts.yml")
    if not isinstance(data, Mapping):
        message = f"it contains {_kind(data)}, not a mapping of groups"
        return Wrong((), message, "begin with `gpu_nodes:`")
    if "plugin" in data:
        return None
    return next((wrong for name, group in data.items() for wrong in _group_errors((), name, group)), None)


def _group_errors(above: Sequence[str], name: Any, group: Any) -> Iterator[Wrong]:
    steps = (*above, str(name))
    if not isinstance(name, str):
        yield Wrong(steps, f"YAML does not read group {name!r} as text", "write its name in quotes")
    elif name.startswith(_ANCHORS) and not above:
        return
    elif group is not None and not isinstance(group, Mapping):
        fix = _VARIABLES_FIX if name in VARIABLES else "write it as `gpu_nodes: {hosts: {gpu1: }}`"
        yield Wrong(steps, f"group {name} is {_kind(group)}, not a mapping", fix)
    else:
        for key, content in (group or {}).items():
            yield from _section_errors(steps, str(name), key, content)


def _section_errors(steps: tuple[str, ...], group: str, key: Any, content: Any) -> Iterator[Wrong]:
    here = (*steps, str(key))
    if key not in _SECTIONS:
        near = difflib.get_close_matches(str(key), _SECTIONS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        fix = _VARIABLES_FIX if group in VARIABLES else "a group has hosts, vars and children"
        yield Wrong(here, f"unknown key {key!r} in group {group}: Ansible ignores it", f"{hint}{fix}")
    elif content is not None and not isinstance(content, (Mapping, str)):
        key_of = {"hosts": "gpu1:", "children": "su1:", "vars": "name: value"}[key]
        fix = f"write each as a key: `{key_of}`"
        yield Wrong(here, f"{key} of group {group} is {_kind(content)}, not a mapping", fix)
    elif isinstance(content, Mapping) and key == "children":
        for name, child in content.items():
            if name in ("all", steps[-1]):
                message = f"group {name} is a child of group {group}, and would contain itself"
                yield Wrong((*here, str(name)), message, "take it out of the children")
            else:
                yield from _group_errors(here, name, child)
    elif isinstance(content, Mapping) and key == "hosts":
        for host, variables in content.items():
            if isinstance(host, str) and (wrong := range_error(host)) is not None:
                yield Wrong((*here, host), wrong, RANGE_FIX)
            elif not isinstance(host, str):
                message = f"YAML does not read host {host!r} as text"
                yield Wrong((*here, str(host)), message, "write its name in quotes")
            elif variables is not None and not isinstance(variables, Mapping):
                message = f"host {host} has {_kind(variables)}, not a mapping of variables"
                yield Wrong((*here, host), message, "write it as `gpu1: {ansible_host: 192.168.0.1}`")


@cache
def range_of(written: str) -> frozenset[str]:
    """Return the hosts of a range as `gpu[001:512]`, as Ansible expands it."""
    try:
        return frozenset(str(name) for name in expand_hostname_range(written))
    except (AnsibleError, ValueError):  # the latter of brackets that are not closed
        return frozenset()


def range_error(written: str) -> str | None:
    """Return the error in the ranges of a host's name, or None."""
    if not {"[", "]"} & set(written) or written.startswith("["):  # [fd00::1]:22 is an address with its port
        return None
    parts = re.split(r"\[([^\[\]]*)\]", written)
    if any({"[", "]"} & set(part) for part in parts):
        return f"{written} has unbalanced brackets"
    hosts = 1
    for part in parts[1::2]:
        found = _RANGE.fullmatch(part)
        if found is None:
            return f"{written} is not a valid range"
        first, last = found["first"], found["last"]
        if first is None or last is None:
            end = "beginning: Ansible would begin with 0" if first is None else "end"
            return f"range {written} has no {end}"
        numbers = first.isdigit() and last.isdigit()
        if first.isdigit() != last.isdigit() or first.isupper() != last.isupper():
            return f"range {written} begins and ends with different kinds of characters"
        if (int(first) > int(last)) if numbers else (first > last):
            return f"range {written} ends before it begins"
        if numbers and first.startswith("0") and len(first) != len(last):
            return f"range {written} begins with a 0, so both ends need the same number of digits"
        if found["step"] is not None and int(found["step"]) == 0:
            return f"range {written} has a step of 0"
        first_place, last_place = (int(first), int(last)) if numbers else (ord(first), ord(last))
        hosts *= (last_place - first_place) // int(found["step"] or 1) + 1
        if hosts > HOSTS_MAX:
            return f"range {written} has {hosts} hosts; the limit is {HOSTS_MAX}"
    return None


def _kind(value: Any) -> str:
    kinds = {list: "a list", dict: "a mapping", str: "text", bool: "true or false", int: "a number"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "something else")
