# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe what a run was measured on: the nodes' versions, equal nodes folded, differences first. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import minimum_versions
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan, Row

# Names of netdevs may differ; speed, MTU and driver class have checks.
_OWN_TO_EACH = ("netdevs", "facts")
# Versions below the minimum are reported; no check fails by them.
_BELOW = f"versions below their minimum (table of {minimum_versions.READ})"
# How many values of one property are shown.
_VALUES_SHOWN = 12


@dataclass(frozen=True)
class Property:
    """A property of the nodes, such as the kernel.

    Attributes:
        name: its name, for people.
        values: (value, folded names of the nodes that have it), the most frequent first.
        left_out: number of further values.
    """

    name: str
    values: tuple[tuple[str, str], ...]
    left_out: int = 0

    @property
    def differs(self) -> bool:
        """Tell whether the nodes differ in it."""
        return len(self.values) > 1


def describe_nodes(plan: Plan, facts: Iterable[Row]) -> tuple[Property, ...]:
    """Describe the nodes, one property each; those in which the nodes differ come first.

    Args:
        plan: plan.json.
        facts: the run's facts rows.
    """
    by_node = {str(row.get("node")): row for row in facts}
    nodes = [str(name) for name in plan.get("nodes") or {}]
    described = {name: _described(by_node[name]) for name in nodes if name in by_node}
    silent = [name for name in nodes if name not in by_node]
    names = dict.fromkeys(name for mine in described.values() for name in mine)
    found = [_property(name, described, "all others" if silent else "all nodes") for name in names]
    nothing = [Property("facts", (("the node did not answer", _nodes(silent)),))] if silent else []
    return (*nothing, *_below_minimum(by_node, described), *sorted(found, key=lambda one: not one.differs))


def findings(nodes: Iterable[Property]) -> list[str]:
    """Return differences between nodes that should be equal, and versions below their minimum.

    These are not failures, but the first place to look after one.
    """
    found = []
    for one in nodes:
        values = "; ".join(f"{value} on {names}" for value, names in one.values)
        if one.name == _BELOW:
            found.append(f"{one.name}: {values}")
        elif one.differs and one.name not in _OWN_TO_EACH:
            found.append(f"the nodes differ in {one.name}: {values}")
    return found


def describe_run(manifest: Manifest, plan: Plan) -> tuple[tuple[str, str], ...]:
    """Return inventory, command line and options of the run, as name and value for people."""
    rows = [
        ("inventory", wording.quantity_text(manifest.get("inventory"))),
        ("command", " ".join(str(word) for word in _list(manifest.get("argv"))) or "unknown"),
        ("transport", wording.quantity_text(plan.get("transport"))),
        ("kind of nodes", wording.quantity_text(plan.get("node_class"))),
        ("cabling", wording.quantity_text(plan.get("cabling"))),
    ]
    if limit := _list(manifest.get("limit")):
        rows.append(("limited to", fold_names([str(name) for name in limit])))
    return (*rows, *((f"version of {name}", text) for name, text in pairs(record(manifest.get("versions")))))


def pairs(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return a mapping's items as text, sorted by key."""
    return tuple(
        (str(key), wording.number(value) if is_number(value) else wording.quantity_text(value))
        for key, value in sorted(values.items())
    )


def _property(name: str, described: Mapping[str, Mapping[str, str]], all_nodes: str) -> Property:
    alike: dict[str, list[str]] = defaultdict(list)
    for node, mine in described.items():
        alike[mine.get(name, "unknown")].append(node)
    ranked = sorted(alike, key=lambda text: -len(alike[text]))
    shown = ranked if len(ranked) <= _VALUES_SHOWN else ranked[:_VALUES_SHOWN]
    values = tuple((text, all_nodes if len(alike) == 1 else _nodes(alike[text])) for text in shown)
    return Property(name, values, len(ranked) - len(shown))


def _below_minimum(by_node: Mapping[str, Row], names: Iterable[str]) -> tuple[Property, ...]:
    compared = {name: minimum_versions.compare_facts(by_node[name]) for name in names}
    below = minimum_versions.fold(compared, minimum_versions.BELOW)
    shown = below[:_VALUES_SHOWN]
    values = tuple((one.text, folded) for one, folded in shown)
    return (Property(_BELOW, values, len(below) - len(shown)),) if below else ()


def _nodes(names: list[str]) -> str:
    return fold_names(names) + (f" ({len(names)} nodes)" if len(names) > 1 else "")


def _described(row: Row) -> dict[str, str]:
    """Return property -> its value on a node; malformed facts are judged elsewhere."""
    system = record(row.get("os"))
    described = {
        "system": f"{system.get('id') or ''} {system.get('version') or ''}".strip() or "unknown",
        "kernel": str(row.get("kernel") or "unknown"),
        "Python": str(row.get("python") or "unknown"),
    }
    for name, version in sorted(record(row.get("tools")).items()):
        described[str(name)] = str(version or "not installed")
    drivers: dict[str, list[str]] = defaultdict(list)
    for device in map(record, _list(row.get("netdevs"))):
        kind = f"{device.get('driver') or 'no driver'}, MTU {device.get('mtu_bytes')} bytes"
        drivers[kind].append(str(device.get("netdev")))
    described["netdevs"] = _grouped(drivers)
    hcas: dict[str, list[str]] = defaultdict(list)
    for hca in map(record, _list(row.get("hcas"))):
        board = " ".join(str(hca[key]) for key in ("hca_type", "board_id") if hca.get(key))
        firmware = f"{board or 'unknown board'}, firmware {hca.get('firmware') or 'unknown'}"
        hcas[f"{firmware}, driver {hca.get('driver') or 'unknown'}"].append(str(hca.get("hca")))
    if hcas:
        described["HCAs"] = _grouped(hcas)
    governors = sorted({str(name) for name in record(record(row.get("cpu")).get("governors"))})
    if governors:
        described["CPU governors"] = ", ".join(governors)
    gpus = record(row.get("gpus"))
    if there := _list(gpus.get("pci")):
        names = Counter(str(record(one).get("name")) for one in _list(gpus.get("rows")))
        known = (
            ", ".join(f"{count} {name}" for name, count in sorted(names.items())) or f"{len(there)} unknown"
        )
        described["GPUs"] = f"{known}, driver {gpus.get('driver') or 'not loaded'}"
    return described


def _grouped(names: Mapping[str, list[str]]) -> str:
    return "; ".join(f"{', '.join(mine)}: {kind}" for kind, mine in names.items()) or "none"


def record(value: object) -> Mapping[str, Any]:
    """Return a value that is a mapping, of anything else an empty one."""
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
