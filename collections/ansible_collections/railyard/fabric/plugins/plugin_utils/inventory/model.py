# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Data types of an inventory that was read, before validation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line


class Origin(NamedTuple):
    """Where to look for the file that sets a variable.

    Attributes:
        groups: groups whose variables may set it, the strongest last.
        node: the node whose variables may set it, or None. It need not be a finding's host: a fabric that
            is set for one node can be wrong in itself.
    """

    groups: tuple[str, ...] = ()
    node: str | None = None


Located = tuple[Finding, Origin]


@dataclass(frozen=True)
class Problem:
    """One error in the inventory, ready to be shown.

    Attributes:
        file: `path:line` of the error, or the variable's name where the file is unknown.
        host: the node, several folded into one name (`gpu[001-004]`), or None.
        rail: the rail, or None.
        message: what is wrong, the variable first.
        fix: what to write instead.
    """

    file: str
    host: str | None
    rail: str | None
    message: str
    fix: str

    def text(self) -> str:
        """Return the problem as one line."""
        where = [self.file]
        where += [f"host {self.host}"] if self.host else []
        where += [f"rail {self.rail}"] if self.rail else []
        # Names of files and hosts may contain terminal control characters.
        return clean_line(f"{', '.join(where)}: {self.message}. Fix: {self.fix}")


@dataclass(frozen=True)
class Node:
    """A node of the inventory: raw values, None where a variable is not set.

    `qos` and `metrics` hold variables of roles, which may be expressions, by name: of RoCE QoS for what
    `railyard plan` reports, and of monitoring for the targets of Prometheus.
    """

    name: str
    fabric: Any
    node_index: Any
    scalable_unit: Any
    rail_overrides: Any
    ansible_host: str | None
    groups: tuple[str, ...]
    network_addresses: Any = None
    bmc_address: Any = None
    management_address: Any = None
    expected_gpus: Any = None
    nvlink_domain: Any = None
    qos: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Monitor:
    """A host of group monitoring, which need not be a node; its variables raw, those that are set."""

    name: str
    ansible_host: str | None
    groups: tuple[str, ...]
    variables: Mapping[str, Any]


@dataclass
class Inventory:
    """An inventory's nodes, in its order, and findings made while reading.

    Attributes:
        cluster: name of the inventory's folder.
        sources: the inventory sources, as paths.
        nodes: all hosts of group gpu_nodes, whatever the limit: an address must be free among all of them.
        selected: names of the nodes within the limit.
        monitors: all hosts of group monitoring, whatever the limit.
        policy: raw `fabric_policy`, or None.
        problems: errors that kept the inventory from being read; nothing else is checked then.
        misplaced: errors in files: never read, set twice, octal numbers.
        findings: errors found while reading (passwords, names, where Ansible connects).
    """

    cluster: str
    sources: list[str]
    nodes: list[Node] = field(default_factory=list)
    selected: frozenset[str] = frozenset()
    monitors: list[Monitor] = field(default_factory=list)
    policy: Any = None
    problems: list[Problem] = field(default_factory=list)
    misplaced: list[Problem] = field(default_factory=list)
    findings: list[Located] = field(default_factory=list)

    def selected_nodes(self) -> list[Node]:
        """Return the nodes within the limit, in inventory order."""
        return [node for node in self.nodes if node.name in self.selected]
