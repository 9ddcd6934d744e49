# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the expected GPU topology of a node, and how the reported one differs from it. Pure.

Links are compared with those of the same kind, which `nvidia-smi topo -m` reports. But a GPU that lost its
NVLinks has another kind. So the expected kind of a link is the one that most peers of the node report, and
within one node the one that the other GPUs have among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import peers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

_MOST_CHARACTERS = 60
_NVLINK = "NV"


class Shape(NamedTuple):
    """What determines the kinds of a node's links.

    Attributes:
        slots: for each GPU, the maximum generation and lanes of GPU and slot.
        joined: the connection type of each two GPUs.
    """

    slots: tuple[tuple[str, str], ...]
    joined: tuple[tuple[str, ...], ...]


class Built(NamedTuple):
    """The GPU topology of a node.

    Attributes:
        models: the models of its GPUs.
        shape: the expected topology.
        differs: how the reported topology differs from it, empty if it does not.
    """

    models: tuple[str, ...]
    shape: Shape
    differs: str


def find_shapes(accounts: Mapping[str, Row], groups: Mapping[str, str]) -> dict[str, Built]:
    """Return node -> its GPU topology.

    Args:
        accounts: node -> `gpus` and `joined` from its trusted row.
        groups: node -> its peers' group, from `peers.group_peers`.
    """
    models = {
        node: tuple(str(gpu["name"])[:_MOST_CHARACTERS] for gpu in one["gpus"])
        for node, one in accounts.items()
    }
    shapes = {node: _read_shape(one) for node, one in accounts.items()}
    alike: dict[tuple[object, ...], dict[str, Shape]] = {}
    counts: dict[tuple[object, ...], dict[str, int]] = {}
    for node, names in models.items():
        alike.setdefault((groups.get(node), names), {})[node] = shapes[node]
        counts.setdefault((groups.get(node), frozenset(names)), {})[node] = len(names)
    found = {}
    for members in alike.values():
        odd = peers.find_odd(members)
        common = Counter(members.values())
        for node, own in members.items():
            usual = odd.get(node, own)
            if node not in odd and common[own] < peers.LEAST_EQUAL:
                usual = _replace_odd_gpu(own, models[node])
            whose = (
                f"{common[usual]} of {len(members)} peer nodes" if node in odd else "the node's other GPUs"
            )
            found[node] = Built(models[node], usual, _describe_difference(own, usual, whose))
    for numbers in counts.values():
        for node, usual_count in peers.find_odd(numbers).items():
            differs = f"it has {numbers[node]} GPUs, most of its peers have {usual_count}"
            found[node] = found[node]._replace(differs=differs)
    return found


def _read_shape(account: Row) -> Shape:
    slots = tuple((str(gpu["pcie_generation"]), str(gpu["pcie_lanes"])) for gpu in account["gpus"])
    joined = tuple(tuple(str(cell)[:_MOST_CHARACTERS] for cell in cells) for cells in account["joined"])
    return Shape(slots, joined)


def _replace_odd_gpu(shape: Shape, models: tuple[str, ...]) -> Shape:
    """Return a node's topology with the connections of a single odd GPU replaced by those of the others."""
    every = range(len(models))
    for odd in every:
        others = [gpu for gpu in every if gpu != odd]
        if len(others) < peers.LEAST_EQUAL or len(set(models)) > 1:
            continue
        among = [shape.joined[one][two] for one in others for two in others if one != two]
        mine = [shape.joined[odd][other] for other in others]
        usual = Counter(word for word in among if word.startswith(_NVLINK)).most_common(1)
        if not usual or not _is_odd(shape, odd, others, mine, among):
            continue
        joined = [list(cells) for cells in shape.joined]
        for other in others:
            joined[odd][other] = joined[other][odd] = usual[0][0]
        return shape._replace(joined=tuple(map(tuple, joined)))
    return shape


def _is_odd(shape: Shape, odd: int, others: list[int], mine: list[str], among: list[str]) -> bool:
    """Tell whether only this GPU has no NVLink, or not the connection type that all others have."""
    if not any(word.startswith(_NVLINK) for word in mine):
        return all(
            any(shape.joined[one][two].startswith(_NVLINK) for two in others if two != one) for one in others
        )
    return len(set(among)) == 1 and among[0] not in mine


def _describe_difference(own: Shape, usual: Shape, whose: str) -> str:
    for gpu, (mine, its) in enumerate(zip(own.slots, usual.slots, strict=True)):
        if mine != its:
            return (
                f"GPU {gpu} and its slot support PCIe generation {mine[0]} with {mine[1]} lanes, on {whose} "
                f"{its[0]} with {its[1]}"
            )
    for one, (cells, usual_cells) in enumerate(zip(own.joined, usual.joined, strict=True)):
        for two, (word, usual_word) in enumerate(zip(cells, usual_cells, strict=True)):
            if word != usual_word:
                return f"GPU {one} and GPU {two} are connected by {word}, on {whose} by {usual_word}"
    return ""
