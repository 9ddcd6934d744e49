# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the GPUs of a node are built in: what nvidia-smi reports, and what it should report. Pure.

Links are compared with those of the same kind, and `nvidia-smi topo -m` names the kind. But a GPU that lost
its NVLinks is named otherwise. So the kind of a link is the one that most peers of the node report, and
within one node the one that the other GPUs have among themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import peers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

_MOST_WORDS = 60
_NVLINK = "NV"


class Shape(NamedTuple):
    """What the kinds of a node's links rest on.

    Attributes:
        slots: of each GPU the generation and the lanes that it and its slot can do.
        joined: how each two GPUs are joined.
    """

    slots: tuple[tuple[str, str], ...]
    joined: tuple[tuple[str, ...], ...]


class Built(NamedTuple):
    """How a node's GPUs are built in.

    Attributes:
        models: of its GPUs.
        shape: what the kinds of its links are taken from.
        differs: in what its own report differs from that, empty where it does not.
    """

    models: tuple[str, ...]
    shape: Shape
    differs: str


def find(accounts: Mapping[str, Row], groups: Mapping[str, str]) -> dict[str, Built]:
    """Return node -> how its GPUs are built in.

    Args:
        accounts: node -> what its trusted row says of its GPUs: `gpus` and `joined`.
        groups: node -> its peers' group, from `peers.groups`.
    """
    models = {
        node: tuple(str(gpu["name"])[:_MOST_WORDS] for gpu in one["gpus"]) for node, one in accounts.items()
    }
    shapes = {node: _shape(one) for node, one in accounts.items()}
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
            if node not in odd and common[own] < peers.LEAST_LIKE:
                usual = _without_odd_gpu(own, models[node])
            whose = (
                f"{common[usual]} of {len(members)} like nodes" if node in odd else "the node's other GPUs"
            )
            found[node] = Built(models[node], usual, _difference(own, usual, whose))
    for numbers in counts.values():
        for node, usual_count in peers.find_odd(numbers).items():
            said = f"it has {numbers[node]} GPUs, most of its peers have {usual_count}"
            found[node] = found[node]._replace(differs=said)
    return found


def _shape(account: Row) -> Shape:
    slots = tuple((str(gpu["pcie_generation"]), str(gpu["pcie_lanes"])) for gpu in account["gpus"])
    joined = tuple(tuple(str(cell)[:_MOST_WORDS] for cell in cells) for cells in account["joined"])
    return Shape(slots, joined)


def _without_odd_gpu(shape: Shape, models: tuple[str, ...]) -> Shape:
    """Return a node's shape as if the one GPU that is joined otherwise than all others were joined alike."""
    every = range(len(models))
    for odd in every:
        others = [gpu for gpu in every if gpu != odd]
        if len(others) < peers.LEAST_LIKE or len(set(models)) > 1:
            continue
        among = [shape.joined[one][two] for one in others for two in others if one != two]
        mine = [shape.joined[odd][other] for other in others]
        usual = Counter(word for word in among if word.startswith(_NVLINK)).most_common(1)
        if not usual or not _stands_apart(shape, odd, others, mine, among):
            continue
        joined = [list(cells) for cells in shape.joined]
        for other in others:
            joined[odd][other] = joined[other][odd] = usual[0][0]
        return shape._replace(joined=tuple(map(tuple, joined)))
    return shape


def _stands_apart(shape: Shape, odd: int, others: list[int], mine: list[str], among: list[str]) -> bool:
    """Tell whether a GPU has no NVLink where each other has one, or none of the kind that all others have."""
    if not any(word.startswith(_NVLINK) for word in mine):
        return all(
            any(shape.joined[one][two].startswith(_NVLINK) for two in others if two != one) for one in others
        )
    return len(set(among)) == 1 and among[0] not in mine


def _difference(own: Shape, usual: Shape, whose: str) -> str:
    for gpu, (mine, its) in enumerate(zip(own.slots, usual.slots, strict=True)):
        if mine != its:
            return (
                f"GPU {gpu} and its slot can do PCIe generation {mine[0]} with {mine[1]} lanes, on {whose} "
                f"{its[0]} with {its[1]}"
            )
    for one, (cells, usual_cells) in enumerate(zip(own.joined, usual.joined, strict=True)):
        for two, (word, usual_word) in enumerate(zip(cells, usual_cells, strict=True)):
            if word != usual_word:
                return f"GPU {one} and GPU {two} are joined by {word}, on {whose} by {usual_word}"
    return ""
