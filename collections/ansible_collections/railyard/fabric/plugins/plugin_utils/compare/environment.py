# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find other differences between two runs: versions, drivers, firmware, kernel, policy, cabling. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.compare.runs import Run
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import environment, wording

_PLAN_KEYS = ("transport", "cabling", "node_class")
_NODE_KEYS = ("kernel", "python", "memlock_bytes")
#: Declared keys of a rail that affect its results.
_RAIL_KEYS = ("rate_gbps", "mtu", "leaf", "vlan", "gateway")
_NETDEV_KEYS = ("driver", "mtu_bytes", "speed_mbps", "pci", "numa_node")
_HCA_KEYS = ("driver", "firmware", "board_id", "rate_gbps", "width", "active_mtu_bytes")


class Difference(NamedTuple):
    """A setting that differs: its name, its values in both runs, and where; no nodes if it is run-wide."""

    what: str
    a: str
    b: str
    nodes: tuple[str, ...] = ()
    rails: tuple[str, ...] = ()


def find_differences(a: Run, b: Run) -> list[Difference]:
    """Return the differing settings, run-wide ones first."""
    found = [Difference(what, *values) for what, values in _compare_settings(_read_run(a), _read_run(b))]
    places: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for node in [name for name in a.plan["nodes"] if name in b.plan["nodes"]]:
        read = node in a.nodes and node in b.nodes
        for (what, rail), (before, after) in _compare_settings(
            _read_node(a, node, read), _read_node(b, node, read)
        ):
            rails = places.setdefault((what, before, after), {}).setdefault(node, [])
            rails += [rail] if rail else []
    # A difference on the same rails of several nodes is one line.
    for (what, before, after), nodes in places.items():
        by_rails: dict[tuple[str, ...], list[str]] = {}
        for node, rails in nodes.items():
            by_rails.setdefault(tuple(rails), []).append(node)
        found += [Difference(what, before, after, tuple(names), rails) for rails, names in by_rails.items()]
    return found


def _compare_settings(
    one: Mapping[Any, str], other: Mapping[Any, str]
) -> Iterator[tuple[Any, tuple[str, str]]]:
    for key in dict.fromkeys([*one, *other]):
        before, after = (settings.get(key, "unknown") for settings in (one, other))
        if before != after:
            yield key, (before, after)


def _read_run(run: Run) -> dict[str, str]:
    settings = {name.replace("_", " "): wording.number(run.plan.get(name)) for name in _PLAN_KEYS}
    versions, policy = (environment.record(run.manifest.get(key)) for key in ("versions", "policy"))
    settings |= {f"version of {name}": wording.number(version) for name, version in versions.items()}
    settings |= {f"fabric_policy.{name}": wording.number(value) for name, value in policy.items()}
    nodes = run.plan["nodes"]
    rails = dict.fromkeys(str(rail["name"]) for node in nodes.values() for rail in node["rails"])
    return settings | {"nodes": fold_names(list(nodes)), "rails": fold_names(list(rails))}


def _read_node(run: Run, node: str, read: bool) -> dict[tuple[str, str], str]:
    """Return (setting, rail) -> its value as text; the rail is empty for a setting of the node.

    Args:
        run: the run.
        node: a node of its plan.
        read: both runs have its facts; else only their absence is compared.
    """
    facts, bound = run.nodes.get(node), run.fleet.bound.get(node, {})
    settings = {("facts", ""): "none" if facts is None else "read"}
    if read and facts is not None:
        settings |= {(name.replace("_", " "), ""): wording.number(facts.get(name)) for name in _NODE_KEYS}
        system, cpu = environment.record(facts.get("os")), environment.record(facts.get("cpu"))
        settings["system", ""] = f"{wording.number(system.get('id'))} {wording.number(system.get('version'))}"
        governors = environment.record(cpu.get("governors"))
        settings["CPU governor", ""] = ", ".join(sorted({wording.number(one) for one in governors})) or "none"
        for name, version in environment.record(facts.get("tools")).items():
            settings[f"version of {name}", ""] = wording.number(version)
    for rail in run.plan["nodes"][node]["rails"]:
        name = str(rail["name"])
        settings |= {(f"declared {key}", name): wording.number(rail.get(key)) for key in _RAIL_KEYS}
        if read and name in bound:
            for kind, device, keys in (
                ("netdev", bound[name].netdev, _NETDEV_KEYS),
                ("HCA", bound[name].hca, _HCA_KEYS),
            ):
                settings |= {(f"{kind} {key}", name): wording.number((device or {}).get(key)) for key in keys}
    return settings
