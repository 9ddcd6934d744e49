# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What else differs between two runs: versions, drivers, firmware, kernel, policy, cabling. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.runs import Run
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import environment, wording

_OF_PLAN = ("transport", "cabling", "node_class")
_OF_NODE = ("kernel", "python", "memlock_bytes")
#: Of what is declared for a rail, what its numbers depend on.
_OF_RAIL = ("rate_gbps", "mtu", "leaf", "vlan", "gateway")
_OF_NETDEV = ("driver", "mtu_bytes", "speed_mbps", "pci", "numa_node")
_OF_HCA = ("driver", "firmware", "board_id", "rate_gbps", "width", "active_mtu_bytes")


class Difference(NamedTuple):
    """One thing that differs: what it is, in both runs, and where; no nodes where it is of the whole run."""

    what: str
    a: str
    b: str
    nodes: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()


def differences(a: Run, b: Run) -> list[Difference]:
    """Return what else differs, first what is of the whole run."""
    found = [Difference(what, *values) for what, values in _pairs(_of_run(a), _of_run(b))]
    places: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for node in [name for name in a.plan["nodes"] if name in b.plan["nodes"]]:
        read = node in a.nodes and node in b.nodes
        for (what, rail), (before, after) in _pairs(_of_node(a, node, read), _of_node(b, node, read)):
            rails = places.setdefault((what, before, after), {}).setdefault(node, [])
            rails += [rail] if rail else []
    # What differs on the same rails of several nodes is one line.
    for (what, before, after), nodes in places.items():
        alike: dict[tuple[str, ...], list[str]] = {}
        for node, rails in nodes.items():
            alike.setdefault(tuple(rails), []).append(node)
        found += [Difference(what, before, after, tuple(of), rails) for rails, of in alike.items()]
    return found


def _pairs(one: Mapping[Any, str], other: Mapping[Any, str]) -> Iterator[tuple[Any, tuple[str, str]]]:
    for key in dict.fromkeys([*one, *other]):
        before, after = (said.get(key, "unknown") for said in (one, other))
        if before != after:
            yield key, (before, after)


def _of_run(run: Run) -> dict[str, str]:
    said = {name.replace("_", " "): wording.number(run.plan.get(name)) for name in _OF_PLAN}
    versions, policy = (environment.record(run.manifest.get(key)) for key in ("versions", "policy"))
    said |= {f"version of {name}": wording.number(version) for name, version in versions.items()}
    said |= {f"fabric_policy.{name}": wording.number(value) for name, value in policy.items()}
    nodes = run.plan["nodes"]
    rails = dict.fromkeys(str(rail["name"]) for node in nodes.values() for rail in node["rails"])
    return said | {"nodes": fold_names(list(nodes)), "rails": fold_names(list(rails))}


def _of_node(run: Run, node: str, read: bool) -> dict[tuple[str, str], str]:
    """Return (what, rail) -> its value in words; the rail is empty where it is of the node.

    Args:
        run: the run.
        node: a node of its plan.
        read: both runs have its facts; else nothing of them is told but that.
    """
    facts, bound = run.nodes.get(node), run.fleet.bound.get(node, {})
    said = {("facts", ""): "none" if facts is None else "read"}
    if read and facts is not None:
        said |= {(name.replace("_", " "), ""): wording.number(facts.get(name)) for name in _OF_NODE}
        system, cpu = environment.record(facts.get("os")), environment.record(facts.get("cpu"))
        said["system", ""] = f"{wording.number(system.get('id'))} {wording.number(system.get('version'))}"
        governors = environment.record(cpu.get("governors"))
        said["CPU governor", ""] = ", ".join(sorted({wording.number(one) for one in governors})) or "none"
        for name, version in environment.record(facts.get("tools")).items():
            said[f"version of {name}", ""] = wording.number(version)
    for rail in run.plan["nodes"][node]["rails"]:
        name = str(rail["name"])
        said |= {(f"declared {key}", name): wording.number(rail.get(key)) for key in _OF_RAIL}
        if read and name in bound:
            for kind, device, keys in (
                ("netdev", bound[name].netdev, _OF_NETDEV),
                ("HCA", bound[name].hca, _OF_HCA),
            ):
                said |= {(f"{kind} {key}", name): wording.number((device or {}).get(key)) for key in keys}
    return said
