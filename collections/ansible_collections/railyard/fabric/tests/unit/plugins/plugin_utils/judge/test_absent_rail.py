# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rail that a node lacks by the inventory: nothing is tested or passes there, and nothing else changes."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds, together
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from support.runs.fake_run import FakeRun

NODES = ("gpu1", "gpu2", "gpu3", "gpu4")


class Lacking(FakeRun):
    """A healthy run of nodes of which gpu3 lacks rail1, though it has the port."""

    cabled = False

    def _node(self, index: int) -> dict[str, Any]:
        node = super()._node(index)
        if self.nodes[index - 1] == "gpu3":
            node["rail_overrides"] = {"rail1": "absent"}
            node["rails"] = [rail for rail in node["rails"] if rail["name"] != "rail1"]
        return node


LACKING = Lacking(transport="roce", nodes=NODES)


def asked_on(run: FakeRun, rail: str) -> set[tuple[str, str]]:
    pairs = [(line["node"], line["peer"]) for line in run.asked if line["rail"] == rail and line["peer"]]
    return {(min(both), max(both)) for both in pairs}


def test_nothing_is_planned_on_a_rail_that_a_node_lacks() -> None:
    assert not [
        line for line in LACKING.asked if "gpu3" in (line["node"], line["peer"]) and line["rail"] == "rail1"
    ]
    assert asked_on(LACKING, "rail1") == {("gpu1", "gpu2"), ("gpu1", "gpu4"), ("gpu2", "gpu4")}
    assert len(asked_on(LACKING, "rail0")) == 6
    assert len({line["id"] for line in LACKING.asked}) == len(LACKING.asked)


def test_what_is_planned_passes_and_the_rail_is_in_no_verdict_of_the_node() -> None:
    verdicts = LACKING.judge()
    assert {one["outcome"] for one in verdicts} <= {"pass", "recorded"}
    assert not [one for one in verdicts if one["node"] == "gpu3" and one["rail"] == "rail1"]
    assert (LACKING.status(), LACKING.incomplete()) == (0, None)


def test_a_sum_of_all_rails_is_not_planned_for_a_pair_with_one() -> None:
    pairs = {
        frozenset((line["node"], line["peer"])) for line in LACKING.asked if line["check"].startswith("aggr")
    }
    assert pairs == {frozenset(both) for both in asked_on(LACKING, "rail1")}


def test_the_run_says_which_rail_is_lacking() -> None:
    (note,) = provenance.rails_absent(LACKING.plan)
    assert note.startswith("rail1: gpu3 lacks this rail, as the inventory says (rail_overrides)")
    assert note in provenance.notes(LACKING.manifest, LACKING.sealed())
    assert provenance.rails_absent(FakeRun().plan) == []


def test_the_report_shows_no_such_rail_and_no_pass() -> None:
    cells = [
        {"node": "gpu1", "rail": "rail1", "shown": "pass"},
        {"node": "gpu3", "rail": "rail0", "shown": "pass"},
    ]
    rails, rows = model._rails(LACKING.plan, {"rails": cells})
    by_node = {row.nodes[0]: dict(zip(rails, row.states, strict=True)) for row in rows}
    assert by_node["gpu3"] == {"rail0": "pass", "rail1": "no such rail"}
    # Of a rail that a node has, silence is something else.
    assert by_node["gpu1"] == {"rail0": "not planned", "rail1": "pass"}


def test_a_missing_row_of_another_node_is_not_excused() -> None:
    run = Lacking(transport="roce", nodes=NODES)
    run.results = [row for row in run.results if not (row["rail"] == "rail1" and row["host"] == "gpu4")]
    unmeasured = {
        one["check"] for one in run.judge() if one["outcome"] == "unmeasured" and one["rail"] == "rail1"
    }
    assert "rdma_bandwidth" in unmeasured
    assert run.status() == 3


def test_a_rail_of_one_node_alone_makes_the_run_incomplete() -> None:
    run = Lacking(transport="roce", nodes=("gpu1", "gpu3"))
    assert "nothing is measured over gpu1 rail1: no second node of this run has that rail" in str(
        run.incomplete()
    )
    assert run.status() == 3


def test_an_order_that_forgets_a_rail_of_the_plan_leaves_it_without_a_test() -> None:
    run = FakeRun(transport="roce", nodes=NODES, beacon=False)
    run.order["roster"][2] |= {"rail_overrides": {"rail1": "absent"}, "fabric": 1}
    run.order["fabrics"].append(run.order["fabrics"][0])
    lines = requests.asked_lines(run.plan, run.order)
    assert requests.alone(lines) == (
        "nothing is measured over gpu3 rail1: no second node of this run has that rail"
    )


def test_nodes_that_share_a_place_in_the_order_have_the_same_rails() -> None:
    assert [entry["fabric"] for entry in LACKING.order["roster"]] == [0, 0, 1, 0]
    assert LACKING.order["fabrics"][0] == LACKING.order["fabrics"][1]
    names = rounds.RailNames(LACKING.order)
    assert [names.list_rails(node) for node in NODES] == [["rail0", "rail1"]] * 2 + [
        ["rail0"],
        ["rail0", "rail1"],
    ]
    assert names.most() == 2
    # A test of all nodes together runs over what all of them have.
    assert together.rails_of_all(LACKING.order) == ["rail0"]


def test_a_node_that_lacks_a_rail_is_at_the_leaves_of_those_with_which_it_shares_the_others() -> None:
    first = [{"name": "rail0", "leaf": "leaf0"}, {"name": "rail1", "leaf": "leaf1"}]
    second = [{"name": "rail0", "leaf": "leaf2"}, {"name": "rail1", "leaf": "leaf3"}]
    found = pattern._declared({"gpu1": first[:1], "gpu2": first, "gpu3": second, "gpu4": second[1:]})
    assert found["gpu1"] == found["gpu2"] == ("leaf0", "leaf1")
    assert found["gpu3"] == found["gpu4"] == ("leaf2", "leaf3")
    assert pattern._declared({"gpu1": [{"name": "rail0"}]}) == {"gpu1": ()}
