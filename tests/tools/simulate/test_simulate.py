"""`railyard simulate`: its JSON, its words, what it refuses, and which faults it says can be seen."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import slow_components
from railyard.base.errors import UserError
from railyard.simulate import cluster as clusters
from railyard.simulate import command
from railyard.simulate.faults import Shares, parse_all


@pytest.fixture
def simulated(call: Any) -> Any:
    return functools.partial(call, "simulate", "--nodes", "16", "--rails", "4", "--seed", "3")


def parts(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    return {tuple(one[key] for key in ("kind", "node", "rail", "peer")) for one in found}


def test_json_names_what_was_injected(simulated: Any) -> None:
    faults = ("--fault", "node:gpu003@0.6", "--fault", "pair:gpu009,gpu001/rail2@0.7")
    status, out, _ = simulated(*faults, "--json")
    result = json.loads(out)
    assert status == 0
    assert {"tests", "rounds", "suspects", "injected"} <= result.keys()
    assert parts(result["suspects"]) == {
        ("node", "gpu003", None, None), ("pair", "gpu001", "rail2", "gpu009"),
    }  # fmt: skip
    assert parts(result["injected"]) == parts(result["suspects"])
    # 120 pairs, 4 rails, both directions; then what is low or missing once more.
    assert result["tests"] > 960
    assert result["rounds"] > 15


def test_each_line_says_that_it_is_simulated_or_injected(simulated: Any) -> None:
    _, out, _ = simulated("--fault", "leaf:rail1-leaf0", "--leaves", "2")
    assert "simulated: leaf rail1-leaf0 (rail1): no number was measured" in out
    assert all("simulated" in line or line.startswith("  injected: ") for line in out.splitlines())


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("switch:x", "no kind of fault is 'switch'"),
        ("node:gpu017", "no node 'gpu017'"),
        ("node:gpu001@1", "'1' is no share"),
        ("node:gpu001@", "'' is no share"),
        ("node:gpu001/rail0", "node:gpu017@0.6"),
        ("node_rail:gpu001", "node_rail:gpu017/rail3@0.5"),
        ("node_rail:gpu001/rail4", "no rail 'rail4'"),
        ("rail:rail9", "no rail 'rail9'"),
        ("leaf:leaf1", "no leaf 'leaf1'"),
        ("pair:gpu001/rail0", "pair:gpu001,gpu009/rail2@0.5"),
        ("pair:gpu001,gpu001/rail0", "pair:gpu001,gpu009/rail2@0.5"),
    ],
)
def test_a_bad_fault_is_named_with_its_fix(simulated: Any, fault: str, said: str) -> None:
    status, out, err = simulated("--fault", fault)
    assert (status, out) == (2, "")
    assert repr(fault) in err
    assert said in err
    assert "fix: " in err


def test_one_part_has_one_share() -> None:
    with pytest.raises(UserError, match="has a fault already"):
        command.simulate(4, 1, 1, fault=["pair:gpu001,gpu002/rail0", "pair:gpu002,gpu001/rail0@0.5"])


@pytest.mark.parametrize(("nodes", "rails", "leaves"), [(1, 1, None), (2, 0, None), (4, 1, 5), (4, 1, 0)])
def test_a_cluster_that_cannot_be_is_refused(nodes: int, rails: int, leaves: int | None) -> None:
    with pytest.raises(UserError):
        command.simulate(nodes, rails, 1, leaves=leaves)


def test_a_test_carries_the_product_of_all_on_its_way_and_each_leaf_once() -> None:
    cluster = clusters.make(4, 1, 2, "all_pairs")
    mix = ["node:gpu001@0.5", "rail:rail0@0.5", "leaf:rail0-leaf0@0.5", "leaf:rail0-leaf1@0.2"]
    shares = Shares(cluster, parse_all([*mix, "pair:gpu002,gpu003/rail0@0.5"], cluster))
    carried = shares.share_between(np.array([0, 0, 1, 2]), np.array([1, 2, 2, 3]), 0)
    assert carried.tolist() == pytest.approx([0.125, 0.025, 0.025, 0.1])


@pytest.mark.parametrize(
    ("faults", "seen"),
    [
        (["node_rail:gpu001/rail0@0.5", "node_rail:gpu001/rail1@0.5"], ["node", "node"]),
        (["node_rail:gpu001/rail0@0.5", "node_rail:gpu001/rail1@0.3"], ["node", "node_rail"]),
        (["node:gpu001", "node_rail:gpu001/rail1@0.5"], ["node", None]),
        (["leaf:rail0-leaf0@0.5", "leaf:rail0-leaf1@0.5"], ["rail", "rail"]),
        (["rail:rail0", "node:gpu001@0.5"], ["rail", "node_rail"]),
        (["rail:rail0@0.012", "node:gpu001", "node:gpu002@0.5"], ["rail", "node", "node"]),
        (["rail:rail0", "pair:gpu001,gpu002/rail0@0.5"], ["rail", None]),
    ],
)
def test_an_entry_that_covers_another_is_reported_and_found(
    faults: list[str], seen: list[str | None]
) -> None:
    result, _ = command.simulate(12, 3 if len(faults) > 2 else 2, 1, leaves=2, fault=faults)
    assert [one["seen_as"] and one["seen_as"]["kind"] for one in result["injected"]] == seen
    assert parts(result["suspects"]) == parts(
        [one["seen_as"] for one in result["injected"] if one["seen_as"]]
    )


def test_isolation_is_given_numbers_and_wiring_alone(monkeypatch: Any) -> None:
    given: list[tuple[Any, ...]] = []
    plain = slow_components.find_components

    def watched(*arguments: Any) -> slow_components.Findings:
        given.append(arguments)
        return plain(*arguments)

    monkeypatch.setattr(slow_components, "find_components", watched)
    command.simulate(8, 2, 1, fault=["node:gpu003@0.6"])
    healthy = len(given)
    command.simulate(8, 2, 1)
    tests, wiring = given[0]
    assert {type(one).__module__.rpartition(".")[2] for one in (tests, wiring)} == {"matrix"}
    assert given[healthy][1].nodes == wiring.nodes
    assert (given[healthy][0].meeting == tests.meeting).all()


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    fault = ["node:gpu005@0.6"]
    one, again, other = (command.simulate(64, 8, seed, "auto", fault=fault)[0] for seed in (5, 5, 6))
    assert one == again
    assert one["pairs"] < one["of_pairs"]
    assert {**one, "seed": 6} != other
