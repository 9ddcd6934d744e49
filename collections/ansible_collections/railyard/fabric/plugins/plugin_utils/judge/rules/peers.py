# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group comparable nodes, and find nodes that differ from their peers. Pure.

A fault changes what a node reports: a GPU that lost its NVLinks is connected to the others by SYS, and a
failing drive loses its model. So peers are chosen by their declaration and the GPUs' model, and most of them
define what a node should report. A node that reports something else does not become a separate kind.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

Key = TypeVar("Key", bound=Hashable)
Kind = TypeVar("Kind", bound=Hashable)
#: So many nodes with equal reports are a separate kind: no fault changes three nodes in the same way.
LEAST_EQUAL = 3


def group_peers(nodes: Mapping[str, Row], models: Mapping[str, str | None]) -> dict[str, str]:
    """Return node -> its group: its declaration and its GPUs' model.

    Args:
        nodes: the plan's nodes.
        models: node -> the model of its GPUs, None if unknown.
    """
    declared = {name: _serialize_declaration(node) for name, node in nodes.items()}
    seen: dict[str, Counter[str]] = {}
    for name, kind in declared.items():
        if (model := models.get(name)) is not None:
            seen.setdefault(kind, Counter())[model] += 1
    # A node with an unknown model gets that of most nodes with the same declaration.
    usual = {kind: count.most_common(1)[0][0] for kind, count in seen.items()}
    return {name: f"{kind} {models.get(name) or usual.get(kind)}" for name, kind in declared.items()}


def _serialize_declaration(node: Row) -> str:
    return json.dumps([node.get("node_class"), node.get("gpus")], sort_keys=True)


def find_odd(kinds: Mapping[Key, Kind | None]) -> dict[Key, Kind]:
    """Return member -> the majority's kind, for members that differ from it.

    Args:
        kinds: member -> its kind, None if its report is not understood.
    """
    counts = Counter(kind for kind in kinds.values() if kind is not None)
    if not counts:
        return {}
    usual, many = counts.most_common(1)[0]
    has_majority = 2 * many > len(kinds)
    return {
        key: usual
        for key, kind in kinds.items()
        if kind is None or (has_majority and kind != usual and counts[kind] < LEAST_EQUAL)
    }


def find_behind(
    ways: Sequence[Mapping[Key, float]], few: outliers.Few, own: bool
) -> Iterator[tuple[Key, bool, float, str]]:
    """Yield each member that is behind its peers, whether it fails, the others' median, and a reservation.

    Args:
        ways: for each direction, member -> its result. A member that is behind in one direction is reported,
            one that is far behind in each fails. The median is that of the first direction.
        few: how they are compared.
        own: the members are used by the test alone while it runs; otherwise none fails.
    """
    seen, usual = [outliers.find_behind(way, few) for way in ways], outliers.medians_of_others(ways[0])
    doubt = "" if own else f"others may use these {few.named}, and "
    if len(usual) < few.values:
        doubt = "either of the two may be wrong, and "
    for key in ways[0]:
        if any(key in one for one in seen):
            yield key, own and all(one.get(key) for one in seen), usual[key], doubt
