# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read the fabric's variables from an inventory, raw, and validate them.

Ansible's own inventory classes read the files, so that `railyard plan` and a playbook see the same data;
nothing is templated. The work is linear in nodes: the variables of a combination of groups are merged once,
and nodes with the same fabric share one object.
"""

from __future__ import annotations

import datetime
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import (
    addresses,
    cross_checks,
    layout,
    monitoring_names,
    nodes,
    plaintext_secrets,
    qos_notes,
    role_names,
    twice,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import reader as inventory_source
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.lines import places
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import (
    Inventory,
    Located,
    Monitor,
    Node,
    Origin,
    Problem,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import Finding, near_key
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Vaulted, literal
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names

GROUP, MONITORING = "gpu_nodes", "monitoring"
VARIABLES = (*layout.VARIABLES, "ansible_host")
_NODE_VARIABLES = (
    *VARIABLES, *nodes.WAYS, *qos_notes.VARIABLES, *monitoring_names.OF_NODES, role_names.OWN,
)  # fmt: skip


def load(sources: Sequence[str], limit: str | None = None) -> Inventory:
    """Read an inventory as `ansible-playbook -i SOURCE [-i SOURCE] [--limit LIMIT]` would, without a vault.

    A file that is encrypted as a whole counts as empty, an encrypted value is left alone.

    Returns:
        The inventory; what could not be read is in its `problems`, which `validate` returns first.
    """
    sources = [os.path.abspath(source) if os.path.exists(source) else source for source in sources]
    inventory = Inventory(cluster_name(sources), list(sources))
    reader, failures = inventory_source.open_sources(sources, limit)
    if reader is not None:
        try:
            _read(inventory, reader)
        except (AnsibleError, RecursionError) as error:  # the latter of an alias inside what it names
            failures = inventory_source.why_unreadable(sources, error)
    inventory.problems = [Problem(file, None, None, message, fix) for file, message, fix in failures]
    return inventory


def from_play(manager: Any, loader: Any) -> Inventory:
    """Read the inventory of a running play from its own inventory manager, its limit included."""
    sources = [str(source) for source in manager._sources]
    inventory = Inventory(cluster_name(sources), sources)
    _read(inventory, inventory_source.Reader(manager, loader, sources))
    return inventory


def cluster_name(sources: Sequence[str]) -> str:
    """Return the name of the folder that holds the (first) inventory."""
    if not sources or not os.path.exists(sources[0]):
        return "unnamed"
    path = os.path.abspath(sources[0])
    return os.path.basename(path if os.path.isdir(path) else os.path.dirname(path)) or "unnamed"


def validate(inventory: Inventory) -> list[Problem]:
    """Return all problems of an inventory, each once, those of the fabric first.

    Equal problems of several nodes are one problem, with the nodes' names folded.
    """
    if inventory.problems:
        return inventory.problems
    if addresses.IPNetwork is None:
        message = f"{sys.executable} has no Python package netaddr, which network calculations need"
        fix = "install it there (python3-netaddr), or use the ansible-playbook that `make setup` installs"
        return [Problem("netaddr", None, None, message, fix)]
    groups_of = {node.name: node.groups for node in inventory.nodes}
    # A key that is missing only because its name is misspelt is not reported twice.
    meant = {(finding.host, finding.meant) for finding, _origin in inventory.findings}
    found = [*inventory.findings, *cross_checks.check(inventory.nodes), *_check_policy(inventory)]
    folded: dict[tuple[str, str, str, str | None], list[tuple[str | None, Origin]]] = {}
    for finding, origin in found:
        if (finding.host, finding.variable) in meant:
            continue
        key = (finding.variable, finding.message, finding.fix, finding.rail)
        folded.setdefault(key, []).append((finding.host, origin))
    problems = list(inventory.misplaced)
    for (variable, message, fix, rail), concerned in folded.items():
        host, origin = concerned[0]
        # A password is also searched by its bare name, for example beside a range of hosts.
        find = places.find_plain_text if fix == plaintext_secrets.FIX else places.find_variable
        groups = groups_of.get(host or "", origin.groups)
        file = find(inventory.sources, variable, host or origin.node, groups)
        if variable == "fabric" and message == cross_checks.UNDEFINED:
            if any(problem.message.startswith("fabric: it is set for") for problem in problems):
                continue  # it is set for an unknown group or host, which is why it is missing here
            if file is not None and places.is_unread(file):
                message = "it is in a file whose ending Ansible does not read"
                fix = "rename the file to end in .yml"
        if file is None and variable == GROUP:
            file = places.find_hosts_file(inventory.sources)
        if file is None and variable == "fabric":
            file = places.find_encrypted(inventory.sources, host, groups)
            if file is not None:
                message = "it is not defined in a readable file, and this file is fully encrypted"
                fix = "define it in group_vars/all/fabric.yml in plain text; encrypt only secrets"
        if file is None and host is not None and not variable.startswith("fabric"):
            # A variable that is not set has no line; name the line of the host.
            file = places.find_host(inventory.sources, host)
        hosts = fold([name for name, _origin in concerned if name is not None])
        # Where no file sets the variable, its name replaces the file's.
        text = f"{variable}: {message}" if file else message
        problems.append(Problem(file or variable, hosts, rail, text, fix))
    return problems


def fold(names: list[str]) -> str | None:
    """Fold host names to one text (`gpu[001-004]`), or None if there is none."""
    names = list(dict.fromkeys(names))
    if len(names) <= 1:
        return names[0] if names else None
    return fold_names(names, ",")


def _read(inventory: Inventory, reader: inventory_source.Reader) -> None:
    """Fill an inventory from what Ansible has parsed."""
    hosts = reader.hosts(GROUP)
    if not hosts:
        near = near_key(GROUP, [name.lower().replace("-", "_") for name in reader.group_names() - {GROUP}])
        called = next((one for one in reader.group_names() if one.lower().replace("-", "_") == near), None)
        hint = f"rename group {called}, or " if called else ""
        fix = f"{hint}put the nodes into a group {GROUP} in the inventory's hosts.yml"
        missing = "has no host" if reader.has_group(GROUP) else "does not exist"
        message = f"group {GROUP} {missing}: there is no node"
        inventory.findings.append((Finding(GROUP, message, fix), Origin()))
    shared = _Shared()
    machines, file_names = nodes.Machines(), nodes.FileNames()
    for host in hosts:
        name = str(host.name)
        known = reader.variables(host, _NODE_VARIABLES)
        groups, variables = known.groups, known.values
        findings = [*nodes.check_name(name), *file_names.check(name)]
        inventory.findings += [(finding, Origin(groups, name)) for finding in findings]
        if findings:
            continue  # it is not a valid node, so do not check it further
        address = plain(variables.get("ansible_host"))
        ways = {way: plain(variables[way]) for way in ("ansible_host", *nodes.WAYS) if way in variables}
        findings = [*nodes.check_connection(name, address), *nodes.check_port(name, ways)]
        address = None if findings else _literal_host(name if address is None else address)
        findings += machines.check(name, address, ways)
        findings += nodes.check_misspelt(name, known.names, VARIABLES)
        findings += role_names.check(name, known.names, variables.get(role_names.OWN))
        findings += nodes.check_groups(name, known.rivals, known.shadowed, set(VARIABLES) - known.own)
        inventory.findings += [(finding, Origin(groups, name)) for finding in findings]
        policy_here = shared.plain(variables.get("fabric_policy"))
        if not inventory.nodes:
            inventory.policy = policy_here
        elif policy_here != inventory.policy:
            other = _other_policy(name, inventory.nodes[0].name)
            inventory.findings.append((other, Origin(groups, name)))
        inventory.nodes.append(
            Node(
                name=name,
                fabric=shared.plain(variables.get("fabric")),
                ansible_host=address,
                groups=groups,
                **{variable: plain(variables.get(variable)) for variable in layout.OF_NODES},
                qos={name: plain(variables[name]) for name in qos_notes.VARIABLES if name in variables},
                metrics={
                    name: plain(variables[name]) for name in monitoring_names.OF_NODES if name in variables
                },
            )
        )
    _read_monitors(inventory, reader)
    inventory.selected = frozenset(reader.selected(GROUP))
    unknown = reader.unknown_in_limit()
    for name in unknown:
        near = near_key(name, sorted(reader.host_names() | reader.group_names()))
        fix = f"did you mean {near}? If not, remove it from --limit" if near else "remove it from --limit"
        finding = Finding("--limit", f"{name} matches no node and no group", fix)
        inventory.findings.append((finding, Origin()))
    # Playbooks may be limited to the monitoring host.
    if hosts and not unknown and not inventory.selected and not reader.selected(MONITORING):
        fix = f"name hosts of group {GROUP} in --limit"
        inventory.findings.append((Finding("--limit", f"it leaves no host of group {GROUP}", fix), Origin()))
    names = reader.host_names(), reader.group_names()
    inventory.misplaced += layout.check(inventory.sources, *names)
    inventory.misplaced += twice.check(inventory.sources)
    for host_name, own_groups, own in reader.everything():
        for path in plaintext_secrets.passwords(own):
            if places.find_plain_text(inventory.sources, path, host_name, own_groups):
                message = "a password in plain text"
                finding = Finding(path, message, plaintext_secrets.FIX, host_name)
                inventory.findings.append((finding, Origin(own_groups, host_name)))


def _read_monitors(inventory: Inventory, reader: inventory_source.Reader) -> None:
    """Read the hosts of group monitoring: they have no rails, and need no variables of nodes."""
    are_nodes = {str(host.name) for host in reader.hosts(GROUP)}
    for host in reader.hosts(MONITORING):
        name = str(host.name)
        known = reader.variables(host, (*monitoring_names.OF_MONITORS, "ansible_host", role_names.OWN))
        if name not in are_nodes:
            found = [
                *nodes.check_name(name),
                *role_names.check(name, known.names, known.values.get(role_names.OWN)),
            ]
            inventory.findings += [(finding, Origin(known.groups, name)) for finding in found]
        inventory.monitors.append(
            Monitor(
                name,
                _literal_host(plain(known.values.get("ansible_host"))),
                known.groups,
                {
                    one: plain(known.values[one])
                    for one in monitoring_names.OF_MONITORS
                    if one in known.values
                },
            )
        )


def _literal_host(address: Any) -> str | None:
    """Return the address that Ansible connects to; None for an expression, which only Ansible resolves."""
    return None if not isinstance(address, str) or any(literal(address)) else address


def _other_policy(host: str, first: str) -> Finding:
    message = f"it differs from that of {first}, but a run uses one policy"
    return Finding("fabric_policy", message, "set it once, in group_vars/all", host)


class _Shared:
    """Makes equal values one object, so that thousands of nodes with one fabric hold it once."""

    def __init__(self) -> None:
        self._by_identity: dict[int, tuple[Any, Any]] = {}
        self._by_text: dict[str, Any] = {}

    def plain(self, raw: Any) -> Any:
        """Return the plain form of a raw value, the same object for equal values."""
        if raw is None:
            return None
        known = self._by_identity.get(id(raw))
        if known is None:
            value = plain(raw)
            value = self._by_text.setdefault(_text_of(value), value)
            # The raw value is kept, or else its identity could be given to another.
            known = self._by_identity[id(raw)] = (raw, value)
        return known[1]


def _text_of(value: Any) -> str:
    """Return a text that differs where values differ."""
    try:
        return repr(value)
    except ValueError:  # Python refuses to write a number of thousands of digits; it will be refused
        return str(id(value))


def plain(value: Any) -> Any:
    """Return a value without Ansible's tags; encrypted values become `Vaulted` and stay unopened."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return "".join((value,))
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, bytes):
        return bytes(value)
    if isinstance(value, datetime.datetime):
        return datetime.datetime.fromisoformat(value.isoformat())
    if isinstance(value, datetime.date):
        return datetime.date.fromisoformat(value.isoformat())
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    # Ansible's type for `!vault` is not public; it is the only value here that is not a YAML type.
    return value if type(value).__module__ in ("datetime", "builtins") else Vaulted()


def _check_policy(inventory: Inventory) -> list[Located]:
    node = inventory.nodes[0] if inventory.nodes else None
    origin = Origin(node.groups, node.name) if node else Origin()
    try:
        policy.merge(inventory.policy)
    except policy.PolicyError as error:
        return [(_policy_finding(problem), origin) for problem in error.problems]
    return []


def _policy_finding(problem: str) -> Finding:
    """Convert a sentence that begins with the path of its key to a finding."""
    variable, _blank, message = problem.partition(" ")
    known = not message.startswith("is not known")
    near = None if known else near_key(variable.rpartition(".")[2], policy.DEFAULT)
    hint = f"did you mean {near}? If not, " if near else ""
    if near:
        message = message.partition(";")[0]  # without the list of all keys
    return Finding(variable, message, f"{hint}correct fabric_policy, or remove the key to get the default")
