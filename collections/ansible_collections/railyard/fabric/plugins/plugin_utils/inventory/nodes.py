# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check a node's name and where Ansible connects, before anything is planned for it."""

from __future__ import annotations

import difflib
import ipaddress
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import raw_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values as is_
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import literal
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.yaml_errors import RANGE_FIX

# How Ansible connects to an address: nodes behind one address differ in one of these.
WAYS = (
    "ansible_port", "ansible_connection", "ansible_ssh_args", "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
)  # fmt: skip
_SSH = (None, "ssh", "ansible.builtin.ssh", "smart")
# The same for all hosts, unlike other expressions.
_SAME_FOR_ALL = re.compile(r"\{\{\s*(inventory_dir|playbook_dir)\s*\}\}")
_NAME_FIX = "use its hostname, and set its address in ansible_host"
# Names with this similarity are taken for the same.
_ALIKE = 0.88


def check_name(name: str) -> Iterator[Finding]:
    """Yield errors in a node's name in the inventory."""
    wrong = is_.host_name(name)
    if wrong is not None:
        yield Finding("inventory_hostname", wrong, RANGE_FIX if "[" in name else _NAME_FIX, name)


class FileNames:
    """The files of a run folder that are named after nodes."""

    def __init__(self) -> None:
        self._taken: dict[str, str] = {}

    def check(self, name: str) -> Iterator[Finding]:
        """Yield a finding where another node has a file of the same name.

        Host names ignore case, and so do files on a Mac.
        """
        for file in (raw_names.archive_name(name, confirms) for confirms in (False, True)):
            other = self._taken.setdefault(file.lower(), name)
            if other != name:
                message = f"its file {file} in the run folder would be that of {other}"
                if other.lower() == name.lower():
                    message = f"{other} is the same host name: case does not distinguish hosts"
                yield Finding("inventory_hostname", message, f"give {name} another name", name)
                return


def check_connection(name: str, address: Any) -> Iterator[Finding]:
    """Yield errors in a node's `ansible_host`; expressions are left to Ansible."""
    if address is None or any(literal(address)):
        return
    wrong = is_.connection(address)
    if wrong is not None:
        fix = "write only the node's address or name; port and user are ansible_port and ansible_user"
        yield Finding("ansible_host", wrong, fix, name)


def check_port(name: str, variables: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield errors in a node's `ansible_port`, and an `ansible_host` that is set but empty."""
    if "ansible_host" in variables and variables["ansible_host"] is None:
        yield Finding("ansible_host", "it is empty", "write an address or name, or remove the variable", name)
    port = variables.get("ansible_port")
    if port is None or any(literal(port)):
        return
    number = int(port) if isinstance(port, str) and re.fullmatch(r"[0-9]{1,5}", port) else port
    wrong = is_.integer(1, 65535)(number)
    if wrong is not None:
        yield Finding("ansible_port", wrong, "write the port of the node's SSH server, as 22", name)


class Machines:
    """The machines behind the nodes, by where and how Ansible connects."""

    def __init__(self) -> None:
        self._taken: dict[tuple[Any, ...], str] = {}

    def check(self, name: str, address: str | None, ways: Mapping[str, Any]) -> Iterator[Finding]:
        """Yield a finding where another node is the same machine.

        Args:
            name: the node's name.
            address: where Ansible connects; None for an expression.
            ways: its plain variables of `WAYS`.
        """
        # The port may be a number or text, and 22 need not be named.
        values = [str(ways.get(way) or 22) if way == "ansible_port" else ways.get(way) for way in WAYS]
        unknown = any(_is_its_own(value) for value in values)
        if address is None or unknown or ways.get("ansible_connection") not in _SSH:
            return
        other = self._taken.setdefault((_normal(address), *map(repr, values)), name)
        if other != name:
            message = f"{address} is where Ansible connects for {other} as well: both would be one machine"
            fix = "correct one of them (nodes behind one address differ in ansible_port)"
            yield Finding("ansible_host", message, fix, name)


def _is_its_own(value: Any) -> bool:
    """Tell whether a value may differ between hosts although it is written the same way."""
    return any(literal(_SAME_FOR_ALL.sub("", value) if isinstance(value, str) else value))


def _normal(address: str) -> str:
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return address.lower().rstrip(".")


def check_misspelt(name: str, variables: Collection[str], known: Sequence[str]) -> Iterator[Finding]:
    """Yield variables whose names are close to one of Railyard's that the node lacks."""
    for variable in sorted(variables):
        meant = _alike(variable, tuple(known))
        if meant is not None and meant not in variables:
            message = "nothing reads a variable of this name"
            fix = f"did you mean {meant}? If not, rename it"
            yield Finding(variable, message, fix, name, None, meant)


@lru_cache(maxsize=65536)
def _alike(variable: str, known: tuple[str, ...]) -> str | None:
    if variable in known:
        return None
    near = difflib.get_close_matches(variable.lower().replace("-", "_"), known, n=1, cutoff=_ALIKE)
    return near[0] if near else None


def check_groups(
    name: str,
    rivals: Mapping[str, tuple[str, str]],
    shadowed: Mapping[str, tuple[str, str]],
    wanted: Collection[str],
) -> Iterator[Finding]:
    """Yield the wanted variables on which a node's groups do not agree.

    Args:
        name: the node's name.
        rivals: variable → two groups of equal rank that set it differently.
        shadowed: variable → a group that sets it beside its hosts, a wider one whose file wins over it.
        wanted: the variables to check, without those that the node itself sets.
    """
    for variable in sorted(rivals.keys() & wanted):
        one, other = rivals[variable]
        message = f"groups {one} and {other} both set it, and only the order of their names decides"
        fix = "take the node out of one of them, or set the variable on the node itself"
        yield Finding(variable, message, fix, name)
    for variable in sorted(shadowed.keys() & wanted):
        inner, outer = shadowed[variable]
        message = f"group {inner} sets it beside its hosts, and group_vars of the wider group {outer} win"
        yield Finding(variable, message, f"move it into group_vars/{inner}.yml, or remove one", name)
