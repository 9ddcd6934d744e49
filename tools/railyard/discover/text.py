"""Small words of all sentences: folded node names, the value that most have."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from typing import TypeVar

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names

_T = TypeVar("_T", bound=Hashable)


def folded(names: Iterable[str]) -> str:
    """Return node names as `gpu[001-003]`, independent of their order."""
    return fold_names(sorted(set(names), key=natural))


def most_common(values: Iterable[_T | None]) -> _T | None:
    """Return the most frequent value; of equally frequent ones the largest, None where there is none."""
    counts = Counter(value for value in values if value is not None)
    return max(counts, key=lambda value: (counts[value], _rank(value)), default=None)


def by_text(found: Iterable[tuple[str, str]]) -> list[str]:
    """Return one sentence for each text, behind the folded names of the nodes that it is true of.

    Args:
        found: a node and a text that is true of it, once for each of its texts.
    """
    nodes: dict[str, list[str]] = defaultdict(list)
    for name, text in found:
        nodes[text].append(name)
    return sorted((f"{folded(names)}: {text}" for text, names in nodes.items()), key=natural)


def _rank(value: object) -> tuple[int, float, str]:
    if isinstance(value, (int, float)):
        return (1, float(value), "")
    return (0, 0.0, str(value))
