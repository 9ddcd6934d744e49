# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one place that touches Ansible's inventory classes.

They are Ansible's Python API without a promise of stability, so everything used of them is here. Variables
are put together in the order of Ansible's own VariableManager, without its templating and magic variables.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible import constants
from ansible.errors import AnsibleError
from ansible.inventory.helpers import get_group_vars, sort_groups
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.railyard.fabric.plugins.plugin_utils import inventory_files

# Files that live beside hosts.yml and are no inventory; ansible.cfg tells ansible-playbook the same.
_NO_INVENTORY = re.compile(r"^(expected|topology\.ya?ml)$")

Failure = tuple[str, str, str]  # file, what is wrong, fix


class Reader:
    """Raw variables of hosts and groups, from parsed sources.

    Args:
        manager: Ansible's InventoryManager, its limit applied.
        loader: the loader that may open the variable files.
        sources: inventory sources beside which group_vars and host_vars stand.
    """

    def __init__(self, manager: Any, loader: Any, sources: Sequence[str]) -> None:
        self._manager = manager
        self._loader = loader
        self._sources = list(sources)
        self._chains: dict[tuple[str, ...], tuple[tuple[str, ...], dict[str, Any]]] = {}

    def has_group(self, name: str) -> bool:
        """Tell whether the inventory has a group of this name."""
        return name in self._manager.groups

    def hosts(self, group: str) -> list[Any]:
        """Return all hosts of a group in inventory order, whatever the limit."""
        if not self.has_group(group):
            return []
        return list(self._manager.get_hosts(group, ignore_limits=True, ignore_restrictions=True))

    def selected(self, group: str) -> list[str]:
        """Return the names of a group's hosts that the limit leaves."""
        if not self.has_group(group):
            return []
        return [str(host.name) for host in self._manager.get_hosts(group, ignore_restrictions=True)]

    def variables(self, host: Any, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Return a host's groups (weakest first) and those of its variables that are asked for."""
        groups, merged = self._of_groups(host, names)
        for source in (host.vars, self._from_files(host)):
            own = {name: source[name] for name in names if name in source}
            if own:
                merged = combine_vars(merged, own)
        return groups, merged

    def everything(self) -> Iterator[tuple[str | None, tuple[str, ...], Mapping[str, Any]]]:
        """Yield (None, (group,), variables) per group and (host, (), variables) per host, unmerged."""
        for group in self._manager.groups.values():
            yield None, (str(group.name),), {**group.vars, **self._from_files(group)}
        for host in self._manager.hosts.values():
            yield str(host.name), (), {**host.vars, **self._from_files(host)}

    def _from_files(self, entity: Any) -> dict[str, Any]:
        # What plugins give at stage "inventory" is in the entity's own variables since parsing.
        return dict(get_vars_from_inventory_sources(self._loader, self._sources, [entity], "task"))

    def _of_groups(self, host: Any, names: Sequence[str]) -> tuple[tuple[str, ...], dict[str, Any]]:
        """Merge the variables of a host's groups, once for each combination of groups."""
        others = sort_groups([group for group in host.get_groups() if group.name != "all"])
        key = tuple(str(group.name) for group in others)
        if key not in self._chains:
            everyone = self._manager.groups["all"]

            def files(groups: list[Any]) -> dict[str, Any]:
                return dict(get_vars_from_inventory_sources(self._loader, self._sources, groups, "task"))

            parts = {
                "all_inventory": everyone.get_vars,
                "groups_inventory": lambda: get_group_vars(others),
                "all_plugins_inventory": lambda: files([everyone]),
                "groups_plugins_inventory": lambda: files(others),
            }
            merged: dict[str, Any] = {}
            for part in constants.VARIABLE_PRECEDENCE:
                if part in parts:
                    more: dict[str, Any] = parts[part]()
                    merged = combine_vars(merged, more)
            wanted = {name: merged[name] for name in names if name in merged}
            self._chains[key] = (("all", *key), wanted)
        return self._chains[key]


class _Loader(DataLoader):  # type: ignore[misc]
    """Takes a file that is encrypted as a whole for an empty one: a plan needs no vault password."""

    def load_from_file(self, file_name: str, *args: Any, **kwargs: Any) -> Any:
        """Load a file of data as Ansible does, except an encrypted one."""
        if inventory_files.is_encrypted(file_name):
            return {}
        if kwargs.get("cache") == "none":
            # Nobody else has what is not cached: the deep copy of thousands of hosts would protect nothing.
            kwargs["unsafe"] = True
        return super().load_from_file(file_name, *args, **kwargs)


class _Manager(InventoryManager):  # type: ignore[misc]
    """Notes what cannot be parsed in place of warning of it (or stopping at the first)."""

    def __init__(self, loader: DataLoader, sources: list[str]) -> None:
        self.unparsed: list[tuple[str, str]] = []
        super().__init__(loader, sources=sources)

    def parse_sources(self, cache: bool = False) -> None:
        """Parse all sources; where one cannot be parsed, our failures say what Ansible says besides."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            super().parse_sources(cache=cache)
        if not self.unparsed:
            sys.stderr.write(said.getvalue())

    def parse_source(self, source: str, cache: bool = False) -> bool:
        """Parse one source, a file in a folder included."""
        if _NO_INVENTORY.match(os.path.basename(source)):
            return True
        said = io.StringIO()
        try:
            with contextlib.redirect_stderr(said):
                parsed = bool(super().parse_source(source, cache=cache))
        except AnsibleError as error:
            parsed = False
            said.write(str(error))
        if not parsed and not os.path.isdir(source):
            self.unparsed.append((source, said.getvalue()))
        elif said.getvalue():
            sys.stderr.write(said.getvalue())
        return parsed


@dataclass
class Opened:
    """What came of opening sources: a reader, or the failures that there were."""

    failures: list[Failure] = field(default_factory=list)
    maybe_reader: Reader | None = None

    @property
    def reader(self) -> Reader:
        """Return the reader; there is one where there are no failures."""
        if self.maybe_reader is None:
            raise ValueError("the sources could not be opened")
        return self.maybe_reader


def open_sources(sources: Sequence[str], limit: str | None) -> Opened:
    """Parse inventory sources as Ansible does and apply a limit; failures name file and line."""
    failures = [
        (source, "no such inventory", "name a file or folder, as -i inventories/lab")
        for source in sources
        if not os.path.exists(source) and "," not in source
    ]
    if not sources:
        failures = [("-i", "no inventory is named", "name one, as -i inventories/lab")]
    if failures:
        return Opened(failures)
    loader = _Loader()
    try:
        manager = _Manager(loader, list(sources))
        failures = [_why_unparsed(path, said) for path, said in manager.unparsed]
        if not failures:
            manager.subset(limit)
            manager.get_hosts("all")
    except AnsibleError as error:
        failures = why_unreadable(sources, error)
    return Opened(failures, None if failures else Reader(manager, loader, sources))


def why_unreadable(sources: Sequence[str], error: Exception) -> list[Failure]:
    """Say why reading variables failed: each variable file that is no YAML, else Ansible's own words.

    All files are looked at only now, after a failure: for thousands of host_vars that takes its time.
    """
    failures = [
        (f"{inventory_files.shown(path)}:{wrong[0]}", f"no YAML: {wrong[1]}", "correct the file at that line")
        for path in inventory_files.all_variable_files(sources)
        if (wrong := inventory_files.syntax_error(path)) is not None
    ]
    return failures or [(str(sources[0]), " ".join(str(error).split()), "correct the inventory")]


def _why_unparsed(path: str, said: str) -> Failure:
    """Say why Ansible could not parse a source: the YAML error with its line, else Ansible's own words."""
    name = inventory_files.shown(path)
    if inventory_files.is_encrypted(path):
        return name, "the inventory file is encrypted as a whole", "keep only the secrets in encrypted files"
    if path.endswith((".yml", ".yaml", ".json")):
        wrong = inventory_files.syntax_error(path)
        if wrong is not None:
            return f"{name}:{wrong[0]}", f"no YAML: {wrong[1]}", "correct the file at that line"
    words = " ".join(line for line in said.splitlines() if line.strip())
    return (
        name,
        f"Ansible cannot read it as an inventory: {words or 'no plugin accepts it'}",
        "correct the file",
    )
