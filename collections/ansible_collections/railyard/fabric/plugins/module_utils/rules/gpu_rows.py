# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the rules of GPUs read a node's facts: whether they are whole, who tells what, in which words. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.numeric import is_number, is_whole

MOST_NAMED = 4
# Each without being the other's: "Yes" and 1 are what versions say; "Not Active" is what most of them do.
_YES = ("yes", "1", "active")

Row = Mapping[str, Any]


class Node(NamedTuple):
    """What the rules ask of a node beside its facts.

    Attributes:
        name: its name.
        declared: what the inventory says of its GPUs, the variable `expected_gpus`; may be empty.
        usual: `model` and `driver`, where nodes of which the inventory says the same differ in it: the one
            that most of them have (None where none is), and how many have which.
        cards: rail -> PCI address of its network card, None where it has none.
    """

    name: str
    declared: Mapping[str, Any]
    usual: Mapping[str, tuple[str | None, str]]
    cards: Mapping[str, str | None]


def is_whole_facts(seen: object) -> bool:
    """Tell whether facts have the form that `facts.gpus.read` gives them: they come from a node."""
    if not isinstance(seen, Mapping):
        return False
    lists = [seen.get(key) for key in ("rows", "nvlink", "near")]
    return (
        _are_texts(seen.get("pci"))
        and isinstance(seen.get("driver"), (str, type(None)))
        and _is_mapping_of(seen.get("errors"), _is_mapping)
        and all(isinstance(one, list) and all(map(_is_mapping, one)) for one in lists)
        and all(isinstance(row.get("pci"), str) and all(map(_is_plain, row.values())) for row in seen["rows"])
        and all(map(_is_gpu_with_links, seen["nvlink"]))
        and all(map(_is_card, seen["near"]))
        and (seen.get("topology") is None or _is_mapping_of(seen["topology"], _is_mapping))
    )


def _is_mapping(value: object) -> bool:
    return isinstance(value, Mapping)


def _is_mapping_of(value: object, is_one: Callable[[Any], bool]) -> bool:
    return isinstance(value, Mapping) and all(map(is_one, value.values()))


def _are_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str) or is_number(value)


def _is_card(one: Mapping[str, Any]) -> bool:
    return isinstance(one.get("nic"), str) and _is_plain(one.get("by")) and _are_texts(one.get("gpus"))


def _is_gpu_with_links(one: Mapping[str, Any]) -> bool:
    speeds = one.get("speeds_gbytes_per_s")
    errors = one.get("errors")
    return (
        is_whole(one.get("gpu"))
        and is_whole(one.get("active"))
        and isinstance(speeds, list)
        and all(map(is_number, speeds))
        and (errors is None or _is_mapping_of(errors, is_whole))
    )


def of(seen: object) -> Sequence[Row]:
    """Return nvidia-smi's rows of facts that are whole; none of others."""
    return seen["rows"] if isinstance(seen, Mapping) and is_whole_facts(seen) else ()


def why_unknown(node: Node, seen: Row, parts: Sequence[str] | None) -> str | None:
    """Tell why nothing is known of the parts of the facts that a rule rests on, or None; it may need none."""
    if parts is None:
        return None
    if not seen["pci"]:
        return f"{node.name}: no NVIDIA GPU on the PCI bus"
    if seen["driver"] is None:
        return f"{node.name}: NVIDIA's driver is not loaded"
    for part in parts:
        if error := seen["errors"].get(part):
            return f"{node.name}: {error.get('message')}"
    return None if seen["rows"] else f"{node.name}: nvidia-smi lists no GPU"


def each(node: Node, words: Iterable[tuple[str, str]]) -> str:
    """Return what is said of GPUs in one line, each with its address; of many the first."""
    all_words = [f"{address}: {one}" for address, one in words]
    more = f"; and {len(all_words) - MOST_NAMED} more" if len(all_words) > MOST_NAMED else ""
    return f"{node.name} " + "; ".join(all_words[:MOST_NAMED]) + more


def told(rows: Sequence[Row], key: str, is_one: Callable[[Any], bool] = is_number) -> list[tuple[str, Any]]:
    """Return address and value of the GPUs that tell one."""
    return [(row["pci"], row[key]) for row in rows if is_one(row.get(key))]


def is_yes(value: Any) -> bool:
    """Tell whether a value is one of nvidia-smi's words for yes."""
    return str(value).lower() in _YES
