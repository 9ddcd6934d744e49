# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read variables through Ansible's inventory classes; no other module uses them.

Ansible does not promise a stable Python API, so all uses of it are here. Variables
are merged in the order of Ansible's own VariableManager, without its templating and magic variables.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible import constants
from ansible.errors import AnsibleError, AnsibleParserError
from ansible.inventory.helpers import get_group_vars, sort_groups
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, inventory_loader
from ansible.utils.collection_loader import AnsibleCollectionConfig
from ansible.utils.vars import combine_vars
from ansible.vars.plugins import get_vars_from_inventory_sources
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import files as inventory_files
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import ini, trust, yaml_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import yaml_nodes
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean

# Files beside hosts.yml that are no inventory; ansible.cfg has the same pattern.
_NO_INVENTORY = re.compile(r"^(expected|topology\.ya?ml)$")

# A folder that is a link to somewhere else may have thousands of files that cannot be read to an end.
_MOST_ENDLESS = 20

Failure = tuple[str, str, str]  # file, what is wrong, fix


class HostVariables(NamedTuple):
    """The requested variables of a host.

    Attributes:
        groups: its groups, the weakest first.
        values: variable → raw value.
        names: all variables that it has.
        rivals: variable → two groups of one rank that set it to different values.
        own: variables that the host itself sets.
        shadowed: variable → a group that sets it beside its hosts, and a wider one whose file overrides it.
    """

    groups: tuple[str, ...]
    values: dict[str, Any]
    names: frozenset[str]
    rivals: dict[str, tuple[str, str]]
    own: frozenset[str]
    shadowed: dict[str, tuple[str, str]]


class Reader:
    """Raw variables of hosts and groups, from parsed sources.

    Args:
        manager: Ansible's InventoryManager, its limit applied.
        loader: the loader that may open the variable files.
        sources: inventory sources, whose folders have group_vars and host_vars.
    """

    def __init__(self, manager: Any, loader: Any, sources: Sequence[str]) -> None:
        self._manager = manager
        self._loader = loader
        self._sources = list(sources)
        self._chains: dict[tuple[str, ...], HostVariables] = {}

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

    def unknown_in_limit(self) -> list[str]:
        """Return the patterns of the limit that match no host and no group. Ansible would ignore them."""
        known = self._manager.groups, self._manager.hosts, constants.LOCALHOST
        unknown = []
        for pattern in filter(None, (str(one).lstrip("!&") for one in self._manager._subset or ())):
            name, _subscript = self._manager._split_subscript(pattern)
            if not any(self._manager._match_list(names, name) for names in known):
                unknown.append(pattern)
        return unknown

    def host_names(self) -> frozenset[str]:
        """Return the names of all hosts."""
        return frozenset(str(name) for name in self._manager.hosts)

    def group_names(self) -> frozenset[str]:
        """Return the names of all groups."""
        return frozenset(str(name) for name in self._manager.groups)

    def variables(self, host: Any, names: Sequence[str]) -> HostVariables:
        """Return the requested variables of a host, and where they come from."""
        chain = self._of_groups(host, names)
        merged = chain.values
        own_names: set[str] = set()
        for source in (host.vars, self._from_files(host)):
            own_names.update(map(str, source))
            own = {name: source[name] for name in names if name in source}
            if own:
                merged = combine_vars(merged, own)
        own_set = frozenset(own_names)
        return chain._replace(values=merged, names=chain.names | own_set, own=own_set)

    def everything(self) -> Iterator[tuple[str | None, tuple[str, ...], Mapping[str, Any]]]:
        """Yield (None, (group,), variables) per group and (host, (), variables) per host, unmerged."""
        for group in self._manager.groups.values():
            yield None, (str(group.name),), {**group.vars, **self._from_files(group)}
        for host in self._manager.hosts.values():
            yield str(host.name), (), {**host.vars, **self._from_files(host)}

    def _from_files(self, entity: Any) -> dict[str, Any]:
        # What plugins give at stage "inventory" is in the entity's own variables since parsing.
        return dict(get_vars_from_inventory_sources(self._loader, self._sources, [entity], "task"))

    def _of_groups(self, host: Any, names: Sequence[str]) -> HostVariables:
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
            # Files of variables override variables beside the hosts, for every group.
            in_files = [(group, self._from_files(group)) for group in others]
            in_file = {name for _group, held in in_files for name in held}.union(self._from_files(everyone))
            rivals = _rivals([(group, group.vars) for group in others], set(names) - in_file)
            rivals.update(_rivals(in_files, names))
            with_files = [(everyone, self._from_files(everyone)), *in_files]
            shadowed = _shadowed([(group, group.vars) for group in others], with_files, names)
            known = frozenset(map(str, merged))
            self._chains[key] = HostVariables(("all", *key), wanted, known, rivals, frozenset(), shadowed)
        return self._chains[key]


def _rivals(
    layer: Sequence[tuple[Any, Mapping[str, Any]]], names: Iterable[str]
) -> dict[str, tuple[str, str]]:
    """Return variable → two groups of equal rank that set it differently: only their names decide."""
    found = {}
    for name in names:
        setters = [(group, held[name]) for group, held in layer if name in held]
        if len(setters) < 2:
            continue
        strongest, value = setters[-1]
        for group, other in setters[:-1]:
            if (group.depth, group.priority) == (strongest.depth, strongest.priority) and other != value:
                found[name] = (str(group.name), str(strongest.name))
    return found


def _shadowed(
    beside: Sequence[tuple[Any, Mapping[str, Any]]],
    in_files: Sequence[tuple[Any, Mapping[str, Any]]],
    names: Iterable[str],
) -> dict[str, tuple[str, str]]:
    """Return variable → (narrower group that sets it beside its hosts, wider one whose file wins)."""
    found = {}
    for name in names:
        inner = next(((group, held[name]) for group, held in reversed(beside) if name in held), None)
        outer = next(((group, held[name]) for group, held in reversed(in_files) if name in held), None)
        if inner and outer and inner[0].depth > outer[0].depth and inner[1] != outer[1]:
            found[name] = (str(inner[0].name), str(outer[0].name))
    return found


class Loader(DataLoader):  # type: ignore[misc]
    """Treats fully encrypted files as empty: a plan needs no vault password.

    Attributes:
        met_encrypted: whether there was such a file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.met_encrypted = False
        self.inventories: dict[str, Any] = {}

    def load_from_file(self, file_name: str, *args: Any, **kwargs: Any) -> Any:
        """Load a file of data as Ansible does, except an encrypted one."""
        if inventory_files.is_encrypted(file_name):
            self.met_encrypted = True
            return {}
        if kwargs.get("cache") == "none":
            # Uncached data is not shared: a deep copy of thousands of hosts would protect nothing.
            kwargs["unsafe"] = True
            self.inventories[file_name] = data = super().load_from_file(file_name, *args, **kwargs)
            # Before ranges are expanded: one may have more hosts than there is memory.
            if (wrong := yaml_errors.inventory_error(data)) is not None:
                raise AnsibleParserError(wrong.message)
            return data
        return super().load_from_file(file_name, *args, **kwargs)


class TrustingManager(InventoryManager):  # type: ignore[misc] # Ansible has no types
    """Reads sources only with the plugins that `trust` allows."""

    def _fetch_inventory_plugins(self) -> list[Any]:
        found = [inventory_loader.get(name) for name in trust.enabled_plugins()]
        return [plugin for plugin in found if plugin]


class _Manager(TrustingManager):
    """Records sources that cannot be parsed instead of warning about them (or stopping at the first)."""

    def __init__(self, loader: Loader, sources: list[str]) -> None:
        self.unparsed: list[tuple[str, str]] = []
        self._loaded = loader.inventories
        self._given = list(sources)
        super().__init__(loader, sources=sources)

    def parse_sources(self, cache: bool = False) -> None:
        """Parse all sources; where one fails, print the recorded failures instead of Ansible's warnings."""
        warnings = io.StringIO()
        try:
            with contextlib.redirect_stderr(warnings):
                super().parse_sources(cache=cache)
        except AnsibleError:
            if not self.unparsed:
                raise
        if not self.unparsed:
            sys.stderr.write(clean(warnings.getvalue()))

    def parse_source(self, source: str, cache: bool = False) -> bool:
        """Parse one source, a file in a folder included."""
        if _NO_INVENTORY.match(os.path.basename(source)) and source not in self._given:
            return True
        warnings = io.StringIO()
        if not os.path.isdir(source) and (trust.program_refusal(source) or self.find_ignored(source)):
            self.unparsed.append((source, ""))
            return False
        try:
            with contextlib.redirect_stderr(warnings):
                parsed = bool(super().parse_source(source, cache=cache))
        except AnsibleError as error:
            parsed = False
            warnings.write(str(error))
        if not os.path.isdir(source) and (not parsed or self.find_ignored(source)):
            self.unparsed.append((source, warnings.getvalue()))
        elif warnings.getvalue():
            sys.stderr.write(clean(warnings.getvalue()))
        return parsed

    def find_ignored(self, source: str) -> Failure | None:
        """Return the first error in a source's groups, which Ansible ignores or only warns about."""
        name, data = inventory_files.show_path(source), self._loaded.get(source)
        if refused := trust.program_refusal(source) or trust.plugin_refusal(source, data):
            return (name, *refused)
        named_yaml = source.endswith((".yml", ".yaml", ".json"))
        if source in self._loaded and (named_yaml or isinstance(data, Mapping)):
            wrong = yaml_errors.inventory_error(data)
            line = None if wrong is None else yaml_nodes.line_in(source, wrong.steps)
            return wrong and ((f"{name}:{line}" if line else name), wrong.message, wrong.fix)
        if not named_yaml and source in inventory_files.source_files([source]):
            found = None if inventory_files.is_encrypted(source) else ini.ini_error(source)
            return found and (f"{name}:{found[0]}", found[1], found[2])
        return None


def open_sources(sources: Sequence[str], limit: str | None) -> tuple[Reader | None, list[Failure]]:
    """Parse inventory sources as Ansible does and apply a limit; return a reader unless something failed."""
    failures = [
        (source or "-i", "no such inventory", "name a file or folder, as -i inventories/lab")
        for source in sources
        if not os.path.exists(source) and "," not in source
    ]
    if not sources:
        failures = [("-i", "no inventory is named", "name one, as -i inventories/lab")]
    fix = "replace it by a plain file, or remove it"
    endless = itertools.islice(inventory_files.find_endless(sources), _MOST_ENDLESS)
    failures += [(inventory_files.show_path(path), wrong, fix) for path, wrong in endless]
    if failures:
        return None, failures
    _find_plugins_as_ansible_does()
    loader = Loader()
    try:
        manager = _Manager(loader, list(sources))
        failures = [
            _why_unparsed(path, messages, manager.find_ignored(path)) for path, messages in manager.unparsed
        ]
        if not failures:
            manager.subset(limit)
            manager.get_hosts("all")
    except AnsibleError as error:
        failures = why_unreadable(sources, error)
    return (None, failures) if failures else (Reader(manager, loader, sources), [])


def _find_plugins_as_ansible_does() -> None:
    """Initialize Ansible's plugin loader as its programs do: else no plugin is found by its full name."""
    if AnsibleCollectionConfig.collection_finder is not None:
        return
    init_plugin_loader()
    # Python imported these so far, without the metadata that Ansible's importer needs.
    packages = __name__.split(".")[:3]
    for depth in range(1, len(packages) + 1):
        importlib.reload(sys.modules[".".join(packages[:depth])])


def why_unreadable(sources: Sequence[str], error: Exception) -> list[Failure]:
    """Return why reading variables failed: each invalid variable file, else Ansible's own message.

    Files are checked only after a failure: for thousands of host_vars that takes long.
    """
    failures = []
    for path in inventory_files.all_variable_files(sources):
        if (wrong := yaml_errors.syntax_error(path)) is not None:
            failures.append(_no_yaml(path, wrong))
        elif (wrong := yaml_errors.no_variables(path)) is not None:
            fix = "write `name: value` lines, or remove the file"
            failures.append((f"{inventory_files.show_path(path)}:{wrong[0]}", wrong[1], fix))
    return failures or [(str(sources[0]), " ".join(str(error).split()), "correct the inventory")]


def _no_yaml(path: str, wrong: tuple[int | None, str]) -> Failure:
    name, (line, message) = inventory_files.show_path(path), wrong
    if line is None:
        return name, message, "correct the value, or put it in quotes"
    return f"{name}:{line}", message, "correct the file at that line"


def _why_unparsed(path: str, messages: str, ignored: Failure | None) -> Failure:
    """Return why Ansible could not parse a source: the error with its line, else Ansible's own message."""
    name = inventory_files.show_path(path)
    if inventory_files.is_encrypted(path):
        return name, "the inventory file is fully encrypted", "keep only the secrets in encrypted files"
    named_yaml = path.endswith((".yml", ".yaml", ".json"))
    if named_yaml:
        wrong = yaml_errors.syntax_error(path)
        if wrong is not None:
            return _no_yaml(path, wrong)
    if ignored is not None:
        return ignored
    plugin = "auto" if "Plugin configuration YAML" in messages else "yaml" if named_yaml else "ini"
    program = inventory_files.is_program(path)
    cause = ini.extract_message(messages, "script" if program else plugin)
    line = None if program else ini.line_of(path, cause)
    message = f"Ansible cannot read it as an inventory: {cause or 'no plugin accepts it'}"
    return f"{name}:{line}" if line else name, message, "correct the file"
