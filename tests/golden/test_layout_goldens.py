"""Each layout of inventories/: its plan against its golden file, and both against a second calculation."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import jsonschema
import pytest
from netaddr import IPNetwork
from railyard.base import paths
from railyard.plan import view
from support import expected_plan

INVENTORIES = paths.repo_root() / "inventories"
SCHEMA = json.loads((paths.repo_root() / "docs" / "schema" / "plan.schema.json").read_text())
# Layout: how many nodes and rails it has, and the nodes whose plans stand in expected/.
LAYOUTS = {
    "v100-pair": (2, 2, ["gpuserver1", "gpuserver2"]),
    "v100-pair-switched": (2, 2, ["gpuserver1", "gpuserver2"]),
    "hgx-h100-roce": (64, 8, ["gpu001", "gpu032", "gpu033", "gpu064"]),
    "dgx-h100-infiniband": (32, 8, ["dgx01", "dgx32"]),
    "hgx-a100-hdr": (16, 4, ["a100-01", "a100-16"]),
    "dual-port": (4, 2, ["node1", "node4"]),
    "three-networks": (4, 2, ["gpu1", "gpu4"]),
    "computed-512": (512, 8, ["gpu001", "gpu256", "gpu512"]),
    "dgx-spark-pair": (2, 2, ["spark1", "spark2"]),
    "dgx-spark-switched": (4, 2, ["spark1", "spark4"]),
    "mi300x-thor2": (16, 8, ["mi01", "mi16"]),
    "gb200-nvl72-tray": (36, 4, ["r1-tray01", "r1-tray18", "r2-tray19", "r2-tray36"]),
    "rail-p2p-31": (33, 8, ["gpu01", "gpu32", "gpu33"]),
}
# Samples worked out with pencil and paper: neither the rule nor its second calculation had a hand in them.
BY_HAND = {
    # 10.1<rail>.<unit>.0/24; the leaf is .254; the other unit lies behind it.
    ("hgx-h100-roce", "gpu032", 7): ("10.17.1.32/24", "10.17.1.254", [("10.17.2.0/24", "10.17.1.254")]),
    ("hgx-h100-roce", "gpu033", 0): ("10.10.2.33/24", "10.10.2.254", [("10.10.1.0/24", "10.10.2.254")]),
    # A /22 is four /24: rail 7 begins at 28; 512 is two times 256; the last address ends in 31.254.
    ("computed-512", "gpu512", 7): ("10.64.30.0/22", "10.64.31.254", [("10.65.28.0/22", "10.64.31.254")]),
    ("computed-512", "gpu256", 0): ("10.64.1.0/22", "10.64.3.254", [("10.65.0.0/22", "10.64.3.254")]),
    ("three-networks", "gpu4", 1): ("10.40.1.14/24", None, []),
    ("hgx-a100-hdr", "a100-16", 3): ("10.20.3.16/24", None, []),
    ("dgx-h100-infiniband", "dgx32", 7): (None, None, []),
    ("dual-port", "node4", 1): ("10.30.1.4/24", None, []),
    ("dgx-spark-pair", "spark2", 1): ("10.50.1.2/24", None, []),
    ("dgx-spark-switched", "spark4", 0): ("10.50.0.4/24", None, []),
    ("mi300x-thor2", "mi16", 7): ("10.60.7.16/24", None, []),
    ("gb200-nvl72-tray", "r2-tray36", 3): (None, None, []),
    # Twice 32 is 64: the leaf has .64, the node .65 of its /31.
    ("rail-p2p-31", "gpu32", 7): ("10.47.0.65/31", "10.47.0.64", [("10.47.0.0/16", "10.47.0.64")]),
    ("rail-p2p-31", "gpu33", 3): ("10.43.255.1/31", "10.43.255.0", [("10.43.0.0/16", "10.43.255.0")]),
}


def plan_of(folder: Path, nodes: list[str] | None = None) -> dict:
    plan, problems = view.plan_or_problems([str(folder)], ",".join(nodes) if nodes else None)
    assert problems == []
    return plan


def golden(layout: str) -> dict:
    return json.loads((INVENTORIES / layout / "expected" / "plan.json").read_text(encoding="utf-8"))


def test_every_layout_is_tested():
    folders = {path.parent.parent.parent.name for path in INVENTORIES.glob("*/group_vars/all/fabric.yml")}
    assert folders == {*LAYOUTS, "lab", "lab-infiniband"}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_plan_is_the_golden(layout):
    plan = plan_of(INVENTORIES / layout, LAYOUTS[layout][2])
    jsonschema.validate(plan, SCHEMA)
    assert plan == golden(layout)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_golden_agrees_with_a_second_calculation(layout):
    nodes = golden(layout)["nodes"]
    assert list(nodes) == LAYOUTS[layout][2]
    for name, node in nodes.items():
        assert node == expected_plan.node_of(INVENTORIES / layout, name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_whole_plan_is_as_large_as_the_cluster_and_no_address_is_there_twice(layout):
    count, rails, _nodes = LAYOUTS[layout]
    plan = plan_of(INVENTORIES / layout)["nodes"]
    assert list(plan) == list(expected_plan.hosts_of(INVENTORIES / layout))
    assert (len(plan), {len(node["rails"]) for node in plan.values()}) == (count, {rails})
    everything = [rail for node in plan.values() for rail in node["rails"]]
    for key in ("address", "address6"):
        addresses = [rail[key] for rail in everything if rail[key] is not None]
        assert len(addresses) == len(set(addresses))
    for rail in everything:
        for route in rail["routes"]:
            # The gateway is on the rail itself, and what lies behind it is not.
            assert IPNetwork(route["via"] + "/32") in IPNetwork(rail["address"]).cidr
            assert IPNetwork(rail["address"]).cidr != IPNetwork(route["to"])


@pytest.mark.parametrize(("layout", "node", "place"), BY_HAND)
def test_samples_by_hand(layout, node, place):
    rail = golden(layout)["nodes"][node]["rails"][place]
    routes = [(route["to"], route["via"]) for route in rail["routes"]]
    assert (rail["address"], rail["gateway"], routes) == BY_HAND[layout, node, place]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_readme_says_how_and_holds_no_credential(layout):
    text = (INVENTORIES / layout / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {layout}\n")
    assert f"railyard plan -i inventories/{layout}" in text
    assert "## expected/" in text
    for path in (INVENTORIES / layout).rglob("*"):
        if path.is_file():
            assert re.search(r"password\s*:", path.read_text(encoding="utf-8"), re.IGNORECASE) is None


def copied(layout: str, tmp_path: Path) -> Path:
    return Path(shutil.copytree(INVENTORIES / layout, tmp_path / layout))


def test_the_switched_pair_differs_in_the_cabling_alone():
    joined, switched = (golden(layout) for layout in ("v100-pair", "v100-pair-switched"))
    for node in switched["nodes"].values():
        for rail in node["rails"]:
            assert rail["leaf"] == "sw40-1"
            rail["leaf"] = None
    assert (joined["cabling"], switched["cabling"]) == ("back_to_back", "switched")
    assert joined["nodes"] == switched["nodes"]


@pytest.mark.parametrize(
    ("layout", "count"), [("dgx-h100-infiniband", 8), ("hgx-a100-hdr", 8), ("dual-port", 2)]
)
def test_what_a_readme_offers_instead_plans_cleanly(layout, count, tmp_path):
    """The YAML blocks of a README that begin with `fabric:` are whole fabrics, to be pasted."""
    text = (INVENTORIES / layout / "README.md").read_text(encoding="utf-8")
    blocks = [
        block for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if block.startswith("fabric:")
    ]
    assert blocks
    for number, block in enumerate(blocks):
        folder = copied(layout, tmp_path / str(number))
        (folder / "group_vars" / "all" / "fabric.yml").write_text(block, encoding="utf-8")
        plan = plan_of(folder)
        assert {len(node["rails"]) for node in plan["nodes"].values()} == {count}
