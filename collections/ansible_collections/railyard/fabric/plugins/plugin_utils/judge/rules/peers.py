# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes may be compared with each other, and which of them differ from their peers? Pure.

A fault changes what a node reports about itself: a GPU that lost its NVLinks is joined to the others by SYS,
a drive that fails loses its model. So peers are chosen by what is declared and by the GPUs' model, and what
most of them report is what a node should report. A node that reports something else is no kind of its own.
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
#: So many nodes that report the same are a kind of their own: no fault changes three nodes in the same way.
LEAST_LIKE = 3


def groups(nodes: Mapping[str, Row], models: Mapping[str, str | None]) -> dict[str, str]:
    """Return node -> what it is declared to be, and its GPUs' model.

    Args:
        nodes: the plan's nodes.
        models: node -> the one model of its GPUs, None where it is not known.
    """
    declared = {name: _declared(node) for name, node in nodes.items()}
    seen: dict[str, Counter[str]] = {}
    for name, kind in declared.items():
        if (model := models.get(name)) is not None:
            seen.setdefault(kind, Counter())[model] += 1
    # A node whose model is not known is taken for what most nodes of the same declaration are.
    usual = {kind: count.most_common(1)[0][0] for kind, count in seen.items()}
    return {name: f"{kind} {models.get(name) or usual.get(kind)}" for name, kind in declared.items()}


def _declared(node: Row) -> str:
    return json.dumps([node.get("node_class"), node.get("gpus")], sort_keys=True)


def find_odd(kinds: Mapping[Key, Kind | None]) -> dict[Key, Kind]:
    """Return who differs from the majority of its peers, and what the majority is.

    Args:
        kinds: who -> what it reports, None where that is not understood.
    """
    counts = Counter(kind for kind in kinds.values() if kind is not None)
    if not counts:
        return {}
    usual, many = counts.most_common(1)[0]
    has_majority = 2 * many > len(kinds)
    return {
        key: usual
        for key, kind in kinds.items()
        if kind is None or (has_majority and kind != usual and counts[kind] < LEAST_LIKE)
    }


def find_behind(
    ways: Sequence[Mapping[Key, float]], few: outliers.Few, own: bool
) -> Iterator[tuple[Key, bool, float, str]]:
    """Yield who is behind its peers, whether it fails for it, the others' median, and why none of them fails.

    Args:
        ways: who -> its number, of each direction. Who is behind in one of them is reported, who is far
            behind in each fails. The median is that of the first.
        few: how they are compared.
        own: nobody else uses them while they are measured; otherwise none fails.
    """
    seen, usual = [outliers.find_behind(way, few) for way in ways], outliers.medians_of_others(ways[0])
    doubt = "" if own else f"others may use these {few.named}, and "
    if len(usual) < few.values:
        doubt = "of two nobody can tell which one is wrong, and "
    for key in ways[0]:
        if any(key in one for one in seen):
            yield key, own and all(one.get(key) for one in seen), usual[key], doubt
