# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The matrix of a rail: a suspect's cells apart from a pair's own, folded by leaf, alike rails drawn once."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import permutations

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import heatmap, meetings, suspects

SLOW, PAIR = "n2", {"n0", "n1"}


def matrices(nodes: int, leaves: int = 0) -> meetings.Meetings:
    """Return those of a run: n2 is slow on rail1, n0 and n1 with each other on rail0; the rest is good."""
    names = [f"n{number}" for number in range(nodes)]
    plan = {"nodes": {}}
    for number, name in enumerate(names):
        leaf = f"leaf{number % leaves}" if leaves else None
        plan["nodes"][name] = {"rails": [{"name": f"rail{rail}", "leaf": leaf} for rail in range(4)]}
    verdicts = []
    for rail in ("rail0", "rail1", "rail2", "rail3"):
        for node, peer in permutations(names, 2):
            ends = {node, peer}
            is_bad = (rail == "rail0" and ends == PAIR) or (rail == "rail1" and SLOW in ends)
            outcome = "fail" if is_bad else "pass"
            verdicts.append(
                {"check": "ping_rtt", "node": node, "peer": peer, "rail": rail, "outcome": outcome}
            )
    return meetings.build_matrices(plan, verdicts, suspects.find(verdicts))


def cell(of: meetings.Meetings, matrix: meetings.RailMatrix, row: int, column: int) -> str:
    return meetings.STATES[matrix.cells[row * len(of.lines) + column]]


def test_a_suspects_cells_are_apart_from_a_pairs_own():
    of = matrices(5)
    slow, pair, good = of.matrices
    assert [one.rails for one in of.matrices] == [("rail1",), ("rail0",), ("rail2", "rail3")]
    assert (slow.suspect_nodes, slow.suspects, slow.apart) == ("n2", {2}, ())
    assert slow.counts["met_suspect"] == 8
    assert {cell(of, slow, 2, 0), cell(of, slow, 0, 2)} == {"met_suspect"}
    assert cell(of, slow, 0, 1) == "pass"
    assert cell(of, slow, 2, 2) == ""
    assert (pair.suspect_nodes, pair.apart) == ("", ("n0 \u2192 n1", "n1 \u2192 n0"))
    assert cell(of, pair, 0, 1) == cell(of, pair, 1, 0) == "fail"
    assert good.is_good


def test_many_nodes_are_folded_by_leaf_else_by_blocks():
    nodes = meetings.NODES_SHOWN + 2
    by_leaf, by_block = matrices(nodes, leaves=3), matrices(nodes)
    assert (by_leaf.folded_by, len(by_leaf.lines)) == ("leaf", 3)
    assert by_block.folded_by == "block"
    assert len(by_block.lines) <= meetings.NODES_SHOWN
    for of in (by_leaf, by_block):
        slow, pair, _good = of.matrices
        # Its leaf's other pairs are good, and the cell says that one met a suspect, not that its leaf failed.
        assert set(slow.cells) <= {0, *map(meetings.STATES.index, ("met_suspect", "pass"))}
        assert slow.suspect_nodes == SLOW
        assert "fail" in {meetings.STATES[one] for one in pair.cells}


def test_too_few_nodes_have_no_matrix():
    assert not matrices(meetings.NODES_LEAST - 1).matrices


def test_the_drawing_covers_each_cell_once_and_names_the_suspect():
    of = matrices(5)
    drawing = heatmap.draw(of, of.matrices[0])
    assert ">\u2717 n2<" in drawing
    cells = [
        (int(x) // 10 + away, int(y) // 10)
        for x, y, wide in re.findall(r"M(\d+) (\d+)h(\d+)v10", drawing)
        for away in range(int(wide) // 10)
    ]
    assert sorted(cells) == sorted((x, y) for x in range(5) for y in range(5) if x != y)


def test_no_name_is_markup_in_the_drawing():
    of = matrices(5)
    name = "<b>\"'&"
    slow = replace(of.matrices[0], rails=(name,))
    drawing = heatmap.draw(replace(of, lines=(name,) * 5), slow)
    assert drawing.count("&lt;b&gt;&quot;&#x27;&amp;") == 6
    assert "<b>" not in drawing
