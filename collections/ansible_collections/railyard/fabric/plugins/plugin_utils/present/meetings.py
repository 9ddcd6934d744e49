# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build a matrix of client by server for each rail: the worst outcome of each pair. Pure, linear in verdicts.

Above `NODES_SHOWN` nodes they are folded: by the leaves that the inventory declares, else by their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, NDArray, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Divided, divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import suspects
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Verdict

#: In a matrix with more lines, cells are too small to see.
NODES_SHOWN = 64
#: With fewer nodes the picture of rails shows the same.
NODES_LEAST = 4
#: How many pairs of a rail that no suspect explains are named.
PAIRS_NAMED = 20

#: States of a cell, worst first; the index is the cell's byte, and 0 is a pair that was not tested.
STATES = ("", catalogue.FAIL, catalogue.UNMEASURED, suspects.MET_SUSPECT, catalogue.RECORDED, catalogue.PASS)
_BYTE = {state: number for number, state in enumerate(STATES)}


@dataclass(frozen=True)
class RailMatrix:
    """Outcomes of the tests between nodes, on rails whose matrices are equal.

    Attributes:
        rails: the rails.
        cells: a byte for each pair of lines, row by row: client by server, the worst outcome of their tests.
        suspects: the lines that hold a suspect.
        suspect_nodes: the suspects, folded; empty where there are none.
        counts: state -> number of directed pairs of nodes with it; `""` were not tested.
        apart: the bad pairs that no suspect explains, as `client -> server`.
        apart_left_out: how many more there are.
    """

    rails: tuple[str, ...]
    cells: bytes
    suspects: frozenset[int]
    suspect_nodes: str
    counts: Mapping[str, int]
    apart: tuple[str, ...]
    apart_left_out: int

    @property
    def is_good(self) -> bool:
        """Tell whether nothing is wrong on these rails."""
        return not any(
            self.counts.get(state) for state in (catalogue.FAIL, catalogue.UNMEASURED, suspects.MET_SUSPECT)
        )


@dataclass(frozen=True)
class Meetings:
    """The matrices of a run.

    Attributes:
        lines: the label of each line of a matrix: a node, or several, folded.
        folded_by: `leaf` or `block` where a line is several nodes, else empty.
        matrices: those with the most problems first; none for too few nodes, or without tests between nodes.
    """

    lines: tuple[str, ...] = ()
    folded_by: str = ""
    matrices: tuple[RailMatrix, ...] = ()


def build_matrices(plan: Plan, verdicts: Sequence[Verdict] | Divided, blame: suspects.Blame) -> Meetings:
    """Build the matrices of a run's tests between nodes, over one rail each.

    Args:
        plan: plan.json.
        verdicts: the run's.
        blame: what `suspects.find` returns for them.
    """
    names = [str(name) for name in plan["nodes"]]
    if len(names) < NODES_LEAST:
        return Meetings()
    number = {name: place for place, name in enumerate(names)}
    #: Rail -> the state of each pair.
    met: dict[str, NDArray[np.uint8]] = {}
    single, passes = divide(verdicts)
    for one in single:
        if one["peer"] is None or one["rail"] is None or one["outcome"] == catalogue.NOT_APPLICABLE:
            continue
        node, peer, rail = one["node"], one["peer"], one["rail"]
        pair = number[node], number[peer]
        state = _BYTE.get(one["outcome"], _BYTE[catalogue.UNMEASURED])
        # In any check: a node with a single test in a check cannot be identified by that check alone.
        if state <= _BYTE[catalogue.UNMEASURED] and not blame.suspects.isdisjoint(
            ((node, rail), (peer, rail))
        ):
            state = _BYTE[suspects.MET_SUSPECT]
        of_rail = met.setdefault(rail, np.zeros((len(names), len(names)), dtype=np.uint8))
        of_rail[pair] = min(of_rail[pair] or state, state)
    for group in passes:
        of_rail = met.setdefault(group.first["rail"], np.zeros((len(names), len(names)), dtype=np.uint8))
        line_of = np.array([number[name] for name in group.names])
        pairs = line_of[group.node], line_of[group.peer]
        # A pass is the best state.
        of_rail[pairs] = np.where(of_rail[pairs] == 0, _BYTE[catalogue.PASS], of_rail[pairs])
    groups, folded_by = _groups(plan, names)
    line = np.zeros(len(names), dtype=np.int64)
    for place, members in enumerate(groups):
        line[members] = place
    guilty: dict[str, list[str]] = {}
    for name, rail in blame.suspects:
        guilty.setdefault(rail, []).append(name)
    drawn = [
        _matrix(rail, pairs, names, line, len(groups), sorted(guilty.get(rail, ()), key=number.__getitem__))
        for rail, pairs in met.items()
    ]
    lines = tuple(fold_names([names[node] for node in group]) for group in groups)
    return Meetings(lines, folded_by, _merged(drawn))


def _merged(drawn: Iterable[RailMatrix]) -> tuple[RailMatrix, ...]:
    """Merge the matrices of rails that are equal; those with the most problems first."""
    alike: dict[tuple[Any, ...], list[RailMatrix]] = {}
    for one in drawn:
        key = (one.cells, one.suspect_nodes, one.apart, tuple(sorted(one.counts.items())))
        alike.setdefault(key, []).append(one)
    merged = [
        replace(same[0], rails=tuple(rail for one in same for rail in one.rails)) for same in alike.values()
    ]
    return tuple(
        sorted(
            merged,
            key=lambda one: (not one.suspects, *(-one.counts.get(state, 0) for state in STATES[1:4])),
        )
    )


def _matrix(
    rail: str,
    met: NDArray[np.uint8],
    names: Sequence[str],
    line: Ints,
    size: int,
    guilty: Sequence[str],
) -> RailMatrix:
    places = np.nonzero(met)
    cells = np.full((size, size), len(STATES), dtype=np.uint8)
    np.minimum.at(cells, (line[places[0]], line[places[1]]), met[places])
    cells[cells == len(STATES)] = 0
    counts = np.bincount(met[places], minlength=len(STATES)).tolist()
    bad = (met > 0) & (met <= _BYTE[catalogue.UNMEASURED])
    apart = sorted((met[pair], *pair) for pair in zip(*np.nonzero(bad), strict=True))
    shown = [f"{names[node]} \u2192 {names[peer]}" for _state, node, peer in apart[:PAIRS_NAMED]]
    found = {STATES[state]: count for state, count in enumerate(counts) if count}
    found[""] = len(names) * (len(names) - 1) - len(places[0])
    number = {name: place for place, name in enumerate(names)}
    return RailMatrix(
        (rail,),
        cells.tobytes(),
        frozenset(line[number[name]].item() for name in guilty),
        fold_names(guilty) if guilty else "",
        found,
        tuple(shown),
        len(apart) - len(shown),
    )


def _groups(plan: Plan, names: Sequence[str]) -> tuple[list[list[int]], str]:
    """Return the nodes of each line, and how they were folded: by `leaf`, `block`, or not at all."""
    if len(names) <= NODES_SHOWN:
        return [[node] for node in range(len(names))], ""
    by_leaf: dict[tuple[str, ...], list[int]] = {}
    for node, name in enumerate(names):
        by_leaf.setdefault(
            tuple(str(rail.get("leaf") or "") for rail in plan["nodes"][name]["rails"]), []
        ).append(node)
    if 1 < len(by_leaf) <= NODES_SHOWN and all(all(leaves) for leaves in by_leaf):
        return list(by_leaf.values()), "leaf"
    # Keep the nodes of a leaf together, also where there are more leaves than lines.
    ordered = [node for group in by_leaf.values() for node in group]
    size = -(-len(ordered) // NODES_SHOWN)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)], "block"
