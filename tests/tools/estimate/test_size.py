"""`railyard size`: switches and cables of a rail-optimised fabric, and its drawing."""

from __future__ import annotations

import functools
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from railyard.base.errors import UserError
from railyard.size.fabric import Fabric, Wanted, size

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def called(call: Any) -> Any:
    return functools.partial(call, "size")


def parts(fabric: Fabric) -> tuple[int, int, int, int]:
    return fabric.leaves, fabric.spines, fabric.node_cables, fabric.spine_cables


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        # NVIDIA's table of larger SuperPODs of DGX B200, with 64-port switches (docs.nvidia.com, reference
        # architecture, "DGX SuperPOD Architecture"): leaves, spines, node-leaf and leaf-spine cables.
        (512, (16, 8, 512, 512)),
        (1024, (32, 16, 1024, 1024)),
        (2048, (64, 32, 2048, 2048)),
        # The course's exercise: 16 nodes are one leaf a rail, 8 x 16 uplinks fill two switches.
        (128, (8, 2, 128, 128)),
        # 24 leaves with 32 uplinks fill 12 switches, but 32 cables do not go evenly to 12 nor 13 to 15.
        (768, (24, 16, 768, 768)),
        # 13 nodes: 13 uplinks would go evenly to 1 or 13 spines alone, and 1 has no 104 ports; 14 go to 2.
        (104, (8, 2, 104, 112)),
    ],
)
def test_eight_rails_of_64_ports(gpus: int, expected: tuple[int, ...]) -> None:
    fabric = size(Wanted(gpus, 8, 64))
    assert parts(fabric) == expected
    assert fabric.oversubscription <= 1


def test_json_of_the_exercise(called: Any) -> None:
    argv = ("--gpus", "128", "--rails", "8", "--radix", "64")
    status, out, _err = called(*argv, "--json")
    assert status == 0
    expected = {"nodes": 16, "leaves": 8, "spines": 2, "cables": 256, "oversubscription": 1}
    found = json.loads(out)
    assert {key: found[key] for key in expected} == expected
    _status, out, _err = called(*argv)
    for words in ("16 nodes", "8 links from each leaf to each", "128 between nodes and leaves", "not over"):
        assert words in out


def test_more_nodes_than_half_of_the_ports_take_are_oversubscribed() -> None:
    # 4 ports, 2 rails: a spine takes 4 leaves, 2 a rail. 6 nodes are 3 on a leaf, which leaves it one uplink.
    fabric = size(Wanted(12, 2, 4))
    assert parts(fabric) == (4, 1, 12, 4)
    assert fabric.oversubscription == 3
    # A seventh node would take the last uplink.
    with pytest.raises(UserError, match="7 nodes are more than two tiers of 4-port switches join: 6 nodes"):
        size(Wanted(14, 2, 4))


def test_one_leaf_that_joins_all_needs_no_spine() -> None:
    fabric = size(Wanted(64, 1, 64))
    assert (parts(fabric), fabric.oversubscription) == ((1, 0, 64, 0), 1)
    assert size(Wanted(65, 1, 64)).spines > 0


def test_gpus_that_share_rails() -> None:
    # 16 nodes of 8 GPUs with 4 rails: half the leaves and cables of 8 rails.
    assert parts(size(Wanted(128, 4, 64, 8))) == (4, 1, 64, 64)


@pytest.mark.parametrize("radix", [2, 3, 5, 32, 64])
@pytest.mark.parametrize("rails", [1, 2, 8])
def test_no_switch_has_more_cables_than_ports(rails: int, radix: int) -> None:
    joined = 0
    for nodes in range(1, 300):
        try:
            fabric = size(Wanted(nodes * rails, rails, radix))
        except UserError:
            continue
        joined += 1
        sizes = fabric.group_sizes()
        assert (sum(sizes), len(sizes), max(sizes)) == (nodes, fabric.groups, fabric.nodes_per_leaf)
        assert min(sizes) >= max(sizes) - 1
        assert fabric.nodes_per_leaf + fabric.uplinks <= radix
        if fabric.spines:
            # As many links from each leaf to each spine.
            assert fabric.uplinks % fabric.spines == 0
            assert fabric.leaves * (fabric.uplinks // fabric.spines) <= radix
    # All that fits beneath spines of so many ports, or on the single leaf.
    most = radix // rails * (radix - 1)
    assert joined == min(299, max(most, radix if rails == 1 else 0))


@pytest.mark.parametrize(
    ("argv", "option"),
    [
        (("0", "8", "64"), "--gpus"),
        (("-8", "8", "64"), "--gpus"),
        (("8", "0", "64"), "--rails"),
        (("8", "8", "1"), "--radix"),
        (("8", "8", "4096"), "--radix"),
        (("100", "8", "64"), "--gpus: 100 GPUs are no whole number of nodes"),
        (("16", "16", "8"), "--gpus: 1 nodes are more"),
    ],
)
def test_bad_input_is_named_with_its_fix(called: Any, argv: tuple[str, str, str], option: str) -> None:
    gpus, rails, radix = argv
    status, out, err = called("--gpus", gpus, "--rails", rails, "--radix", radix)
    assert (status, out) == (2, "")
    assert option in err
    assert "fix: " in err.lower()


def drawn(called: Any, *argv: str) -> tuple[list[str | None], str]:
    status, out, err = called(*argv, "--svg", "-")
    assert status == 0, err
    root = ET.fromstring(out)
    return [one.text for one in root.iter(f"{SVG}text")], str(root.findtext(f"{SVG}desc"))


def test_spines_are_above_the_leaves_in_the_drawing(called: Any) -> None:
    said, described = drawn(called, "--gpus", "128", "--rails", "8", "--radix", "64")
    spines = "2 spines, each with 8 links to each of 8 leaves"
    assert said.index(spines) < said.index("rail0-leaf0") < said.index("gpu[001-016]: 16 nodes")
    assert said.count("16 links down") == said.count("16 links up") == said.count("not oversubscribed") == 8
    assert f"Above: {spines}." in described
    assert "Leaf rail7-leaf0: 16 links down, 16 links up, not oversubscribed." in described


def test_a_leaf_alone_has_nothing_above_it_in_the_drawing(called: Any) -> None:
    said, described = drawn(called, "--gpus", "8", "--rails", "1", "--radix", "64")
    assert "rail0-leaf0" in said
    assert "spine" not in " ".join(filter(None, said)) + described


def test_a_drawing_and_json_go_to_different_places(called: Any, tmp_path: Path) -> None:
    argv = ("--gpus", "12", "--rails", "2", "--radix", "4", "--json", "--svg")
    status, out, err = called(*argv, "-")
    assert (status, out) == (2, "")
    assert "both want standard output" in err
    file = tmp_path / "fabric.svg"
    status, out, _err = called(*argv, str(file))
    assert (status, json.loads(out)["oversubscription"]) == (0, 3)
    assert "oversubscribed 3:1" in file.read_text(encoding="utf-8")
