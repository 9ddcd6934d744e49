# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves let through is reported for a round in which all of them send, beside what is known."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import oversubscription
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording

CHECK = "rdma_bandwidth_concurrent"
A, B, C, D = "gpu1", "gpu2", "gpu3", "gpu4"
LEAVES = {A: "east", B: "east", C: "west", D: "west"}
RATE_GBPS = 50.0
Pair = tuple[int, str, str, float | None]
#: Round, node, peer and what came of it: a round of each leaf's own pairs, and two that cross.
INSIDE: list[Pair] = [(0, A, B, 40.0), (0, C, D, 20.0)]
ACROSS: list[Pair] = [(1, A, C, 10.0), (1, B, D, 5.0)]
BETTER: list[Pair] = [(2, A, D, 20.0), (2, B, C, 20.0)]


def crossed(pairs: list[Pair], leaves: dict[str, str] | None = None) -> list[oversubscription.Crossed]:
    declared = LEAVES if leaves is None else leaves
    plan = {
        "nodes": {
            name: {"rails": [{"name": "rail0", "leaf": declared.get(name), "rate_gbps": RATE_GBPS}]}
            for name in (A, B, C, D)
        }
    }
    asked: list[dict[str, Any]] = []
    verdicts: list[dict[str, Any]] = []
    for number, node, peer, gbps in pairs:
        for one, other in ((node, peer), (peer, node)):
            asked.append({"check": CHECK, "node": one, "peer": other, "rail": "rail0", "round": number})
            verdicts.append({"observed": None if gbps is None else {"bandwidth_gbps": gbps}})
    return oversubscription.find_oversubscription(plan, asked, verdicts, CHECK)


@pytest.mark.parametrize(
    ("pairs", "share", "number", "declared"),
    [
        # Two pairs, each of an end that carries 20 within its leaf: 15 of 40.
        ([*INSIDE, *ACROSS, *BETTER], 0.375, 1, False),
        # No pair met within a leaf: 15 of two rates of 50.
        ([*ACROSS, *BETTER], 0.15, 1, True),
        # Of a pair that gave no number nothing is expected.
        ([*INSIDE, *BETTER, (3, A, C, None), (3, B, D, 20.0)], 1.0, 2, False),
    ],
)
def test_the_worst_round_is_reported_beside_what_its_ends_carry_alone(
    pairs: list[Pair], share: float, number: int, declared: bool
) -> None:
    assert crossed(pairs) == [oversubscription.Crossed("rail0", pytest.approx(share), number, 2, 2, declared)]


@pytest.mark.parametrize(
    ("pairs", "leaves"),
    [
        (INSIDE, LEAVES),
        ([*INSIDE, (1, A, C, 10.0), (1, B, D, 5.0)], dict.fromkeys(LEAVES, "east")),
        # One pair stayed within its leaf, or the leaf is unknown.
        ([(1, A, C, 10.0), (1, B, D, 5.0)], {A: "east", C: "west", B: "south", D: "south"}),
        ([(1, A, C, 10.0), (1, B, D, 5.0)], {A: "east", C: "west", B: "east"}),
        # A leaf sent nothing.
        ([(1, A, C, 10.0)], {**LEAVES, B: "south"}),
    ],
)
def test_of_other_rounds_nothing_is_reported(pairs: list[Pair], leaves: dict[str, str]) -> None:
    assert crossed(pairs, leaves) == []


def test_it_is_recorded_with_its_basis() -> None:
    told = [wording.across_leaves(crossed(pairs)[0]) for pairs in ([*INSIDE, *ACROSS], ACROSS)]
    assert "38 % of what the same ends carry within their leaves in round 2" in told[0]
    assert "15 % of the planned rates" in told[1]
    assert all(line.startswith("recorded: rail0 ") and "no source gives a threshold" in line for line in told)
