# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node's GPUs from its facts, and compare nodes with the same declaration. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.records.facts import Gpus
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu
from ansible_collections.railyard.fabric.plugins.module_utils.rules.gpu_rows import Node
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Row

#: Declaration as JSON -> key -> the usual value, and which values how many nodes have; see
#: `rules.gpu_rows.Node`.
Usual = Mapping[str, Mapping[str, tuple[str | None, str]]]
_READERS: dict[str, Callable[[Gpus], str | None]] = {
    "model": gpu.model_of,
    "driver": gpu.driver_of,
    "nvlinks": gpu.nvlinks_of,
}
_MOST_KINDS = 4


def find_usual(plan: Plan, fleet: BoundFacts) -> Usual:
    """Return the values that differ between nodes with the same declared GPUs."""
    seen: dict[str, dict[str, Counter[str]]] = {}
    for name, node in plan["nodes"].items():
        if node.get("gpus") is None or name not in fleet.gpus:
            continue
        counts = seen.setdefault(_serialize(node["gpus"]), {key: Counter() for key in _READERS})
        for key, read in _READERS.items():
            if (value := read(fleet.gpus[name])) is not None:
                counts[key][value] += 1
    return {
        kind: {key: _find_majority(count) for key, count in counts.items() if len(count) > 1}
        for kind, counts in seen.items()
    }


def list_notes(plan: Plan, facts: Iterable[Row]) -> list[str]:
    """Return a note on nodes whose GPUs are not declared in the inventory, and so are not checked."""
    nodes = plan["nodes"]
    left = [
        str(row.get("node"))
        for row in facts
        if isinstance(row.get("gpus"), Mapping) and row["gpus"].get("pci")
        and str(row.get("node")) in nodes and nodes[str(row["node"])].get("gpus") is None
    ]  # fmt: skip
    if not left:
        return []
    return [f"GPUs are not checked on {named(left)}: the inventory declares no expected_gpus for them"]


def _serialize(declared: Mapping[str, Any]) -> str:
    return json.dumps(declared, sort_keys=True)


def _find_majority(count: Counter[str]) -> tuple[str | None, str]:
    value, nodes = count.most_common(1)[0]
    text = ", ".join(f"{one} on {many}" for one, many in count.most_common(_MOST_KINDS))
    return (value if 2 * nodes > count.total() else None), text


def judge(asked: AskedLine, declared: Mapping[str, Any], fleet: BoundFacts, others: Usual) -> Answer:
    """Judge a GPU check.

    Args:
        asked: the planned test: one node, no rail.
        declared: the plan's `gpus` of the node.
        fleet: all facts.
        others: from `find_usual`.
    """
    name, check = str(asked["node"]), str(asked["check"])
    if nothing := fleet.unknown(name):
        return nothing
    if name in fleet.gpus_garbled:
        return Answer.unmeasured("gpu_unknown", f"{name}: its facts: {fleet.gpus_garbled[name]}")
    cards = {rail: (one.hca or {}).get("pci") or (one.netdev or {}).get("pci")
             for rail, one in fleet.bound[name].items()}  # fmt: skip
    node = Node(name, declared, others.get(_serialize(declared), {}), cards)
    return Answer.from_ruling(gpu.rule(check, node, fleet.gpus[name]))
