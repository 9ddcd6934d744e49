"""`railyard plan --svg`: what is in the drawing, folded, in its place, and the same bytes every time."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET

import pytest
from railyard.base import paths
from railyard.base.errors import UserError
from railyard.new_inventory import command
from railyard.new_inventory.wanted import Wanted
from railyard.plan import svg, svg_model, svg_parts, view
from support.contrast import contrast
from support.programs import railyard

PAIR = paths.repo_root() / "inventories" / "v100-pair"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def folder(tmp_path):
    def make(nodes="gpu[001-032]", rails=8, transport="roce", **more):
        place = tmp_path / "mine"
        command.run(Wanted(nodes, rails, transport, **{"netdev": "ens{rail}np0", **more}), place)
        return place

    return make


def drawn(place):
    file = place.parent / "plan.svg"
    assert view.run([str(place)], False, svg=str(file)) == 0
    return ET.fromstring(file.read_text(encoding="utf-8"))


def texts(root):
    """Return the visible text of the drawing."""
    return [element.text if not len(element) else element[0].tail for element in root.iter(f"{SVG}text")]


def shapes(root, css):
    return [element for element in root.iter() if css in (element.get("class") or "").split()]


def description(root):
    return root.findtext(f"{SVG}desc")


def plan_with(nodes):
    """Make a plan from {node: {rail: changes}}."""
    rail = dict.fromkeys(("netdev", "mac", "pci", "hca", "address", "address6", "subnet", "subnet6", "mtu"))
    rail |= dict.fromkeys(("gateway", "gateway6", "vlan", "rate_gbps", "leaf"))
    return {
        "cluster": "made",
        "transport": "roce",
        "cabling": "switched",
        "nodes": {
            name: {
                "scalable_unit": None,
                "rails": [{**rail, "name": key, **more} for key, more in rails.items()],
            }
            for name, rails in nodes.items()
        },
    }


def test_thirty_two_nodes_are_one_box_with_eight_rails(folder):
    root = drawn(folder(rate_gbps=400.0, netdev="ens{rail}np0"))
    said = texts(root)
    assert len(shapes(root, "node")) == 1
    assert len(shapes(root, "line")) == 8
    assert "gpu[001-032]: 32 nodes" in said
    assert said.count("400 Gbit/s") == 8
    for rail in range(8):
        # Rail k has the k-th /24, and 32 nodes are .1 to .32 of it.
        assert {f"rail{rail}", f"ens{rail}np0", f"10.224.{rail}.0/24"} <= set(said)
        assert f"10.224.{rail}.1 \u2013 .32" in said
    assert "leaves" not in said
    assert "oversubscribed" not in description(root)


def test_two_nodes_back_to_back_are_at_both_ends_of_their_cables(tmp_path):
    file = tmp_path / "plan.svg"
    assert view.run([str(PAIR)], False, svg=str(file)) == 0
    root = ET.fromstring(file.read_text(encoding="utf-8"))
    said = texts(root)
    assert len(shapes(root, "node")) == 2
    assert said.index("gpuserver1") < said.index("10.0.1.0/24") < said.index("gpuserver2")
    for text in ("ens6", "10.0.1.1", "10.0.1.2", "ens6d1", "10.0.0.1", "40 Gbit/s", "rail1"):
        assert text in said
    assert "back to back" in description(root)


def test_equal_units_are_one_stack_and_few_are_drawn_apart(folder, tmp_path):
    many = {
        "nodes_per_unit": 32,
        "rate_gbps": 400.0,
        "leaf": "leaf-{unit}-r{rail}",
        "leaf_uplink_gbps": 6400.0,
    }
    root = drawn(folder("gpu[001-512]", **many))
    said = texts(root)
    assert "16 alike: scalable units su[1-16]" in said
    assert "gpu[001-512]: 16 \u00d7 32 nodes" in said
    assert {"leaf-su[1-16]-r0", "leaf-su[1-16]-r7", "10.224.0.0/24", "… 10.224.15.0/24"} <= set(said)
    # 32 ports of 400 Gbit/s to each leaf, 6.4 Tbit/s up.
    assert (
        said.count("12.8 Tbit/s down") == said.count("6.4 Tbit/s up") == said.count("oversubscribed 2:1") == 8
    )
    command.run(Wanted("gpu[001-064]", 8, "roce", netdev="ens{rail}np0", **many), tmp_path / "small")
    root = drawn(tmp_path / "small")
    assert [text for text in texts(root) if text.startswith("scalable unit")] == [
        "scalable unit su1",
        "scalable unit su2",
    ]
    assert len(shapes(root, "leaf")) == 16


@pytest.mark.parametrize(
    ("up_gbps", "words"), [(320, "not oversubscribed"), (100, "oversubscribed 3.2:1"), (None, None)]
)
def test_oversubscription_is_shown_where_both_sides_are_known(folder, up_gbps, words):
    # 4 nodes with 2 rails of 40 Gbit/s into one switch: 320.
    root = drawn(folder("gpu[1-4]", 2, leaf="sw1", rate_gbps=40.0, leaf_uplink_gbps=up_gbps))
    assert [text for text in texts(root) if "oversubscribed" in text] == ([words] if words else [])
    assert texts(root).count("sw1") == 1
    assert len(shapes(root, "leaf")) == 1


def test_an_unknown_rate_is_not_guessed(folder):
    root = drawn(folder("gpu[1-4]", 2, leaf="sw1", leaf_uplink_gbps=100.0))
    assert "sw1" in texts(root)
    assert "oversubscribed" not in ET.tostring(root, encoding="unicode")


def test_one_unknown_rate_makes_the_sum_unknown():
    nodes = {"n1": {"rail0": {"leaf": "a"}}, "n2": {"rail0": {"leaf": "a", "rate_gbps": 100}}}
    assert svg_model.arrange(plan_with(nodes), {"a": 100}).leaves["a"].oversubscription is None


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        (["gpu001", "gpu002"], "gpu[001-002]"),
        (["sw1", "sw1"], "sw1"),
        (["a&b"], "a&b"),  # to ClusterShell: what is in both, so nothing
        (["a!b", "c"], "a!b, c"),
        (["@racks", "x"], "@racks, x"),
    ],
)
def test_names_are_folded_and_never_calculated_with(names, folded):
    assert svg_model.folded(names) == folded


def test_nodes_that_differ_have_boxes_of_their_own_up_to_a_few():
    one = {"rail0": {"netdev": "ens1", "leaf": "a"}, "rail1": {"netdev": "ens2", "leaf": "b"}}
    other = {"rail0": {"netdev": "eth1", "leaf": "a"}}
    drawing = svg_model.arrange(plan_with({"n1": one, "n2": other, "n3": one}), {})
    [band] = drawing.bands
    assert [box.label for box in band.boxes] == ["n[1,3]", "n2"]
    assert band.boxes[1].ports[1] is None
    many = {f"n{number}": {"rail0": {"netdev": f"ens{number}", "leaf": "a"}} for number in range(100)}
    root = ET.fromstring(svg.draw(plan_with(many), {}))
    assert len(shapes(root, "node")) == 8
    assert "n[7-99]: 93 nodes of 93 kinds, ports of n7" in texts(root)


def test_a_leaf_of_several_subnets_is_counted_once():
    nodes = {
        f"n{number}": {"rail0": {"leaf": "a", "rate_gbps": 100, "subnet": f"10.0.{number}.0/24"}}
        for number in range(2)
    }
    root = ET.fromstring(svg.draw(plan_with(nodes), {"a": 100}))
    assert texts(root).count("a (shared)") == 2
    assert texts(root).count("oversubscribed 2:1") == 2
    assert description(root).count("Leaf a: 200 Gbit/s down") == 1


def test_many_sets_that_differ_are_cut_and_it_says_so():
    nodes = {
        f"n{number:02}": {"rail0": {"leaf": f"l{number}", "rate_gbps": number}} for number in range(1, 21)
    }
    root = ET.fromstring(svg.draw(plan_with(nodes), {}))
    assert len(shapes(root, "node")) == 12
    assert "and 8 nodes on other leaves: n[13-20]" in texts(root)


def test_the_description_says_what_the_drawing_shows(folder):
    root = drawn(
        folder("gpu[1-4]", 2, leaf="sw{rail}", rate_gbps=40.0, gateway="last", leaf_uplink_gbps=40.0)
    )
    assert root.get("role") == "img"
    ids = root.get("aria-labelledby").split()
    assert [root.find(f"*[@id='{one}']").tag for one in ids] == [f"{SVG}title", f"{SVG}desc"]
    said = description(root)
    for part in (
        "4 nodes",
        "gpu[1-4]",
        "rail1",
        "ens1np0",
        "10.224.1.0/24",
        "gateway 10.224.1.254",
        "leaf sw1",
    ):
        assert part in said
    assert "Leaf sw0: 160 Gbit/s down, 40 Gbit/s up, oversubscribed 4:1." in said


HOSTILE = "<script>alert(1)</script>&\"'\x1b[31m\u202e]]>"


def test_names_are_text_and_nothing_else():
    nodes = {f"n{number}{HOSTILE}": {HOSTILE: {"leaf": HOSTILE, "netdev": HOSTILE}} for number in range(2)}
    text = svg.draw({**plan_with(nodes), "cluster": HOSTILE}, {})
    root = ET.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    assert not re.search("[\x1b\u202e]", text)
    assert any("<script>" in (said or "") for said in texts(root)), "shown as what it is"


def test_a_name_is_cut_to_its_room_and_kept_in_full_beside_it():
    name = "leaf-in-row-seventeen-rack-twenty-three"
    root = ET.fromstring(
        svg.draw(plan_with({"n1": {f"rail{n}": {"leaf": f"{name}{n}"} for n in range(8)}}), {})
    )
    cut = [element for element in root.iter(f"{SVG}text") if len(element) and name in element[0].text]
    assert len(cut) == 8
    assert all(element[0].tail.endswith("…") for element in cut)


@pytest.mark.parametrize("nodes", ["gpu[1-2]", "gpu[001-032]", "gpu[001-512]"])
def test_everything_is_inside_the_sheet_and_no_text_on_another(folder, nodes):
    root = drawn(
        folder(nodes, 2 if nodes == "gpu[1-2]" else 8, leaf="l{rail}", rate_gbps=400.0, gateway="first")
    )
    width, height = map(float, root.get("viewBox").split()[2:])
    for rect in root.iter(f"{SVG}rect"):
        x, y = float(rect.get("x", 0)), float(rect.get("y", 0))
        assert x >= 0
        assert y >= 0
        assert x + float(rect.get("width")) <= width
        assert y + float(rect.get("height")) <= height
    places = []
    for element in root.iter(f"{SVG}text"):
        said = element[0].tail if len(element) else element.text
        wide = len(said) * (12 if "title" in element.get("class", "") else 7)
        x = float(element.get("x")) - (wide / 2 if element.get("text-anchor") == "middle" else 0)
        places.append((x, x + wide, float(element.get("y")), said))
    for one in places:
        assert one[1] <= width, one
        for other in places:
            apart = one is other or abs(one[2] - other[2]) >= 14 or one[1] <= other[0] or other[1] <= one[0]
            assert apart, (one, other)


def test_light_and_dark_colours_have_enough_contrast(folder):
    """WCAG 2.2: contrast of 4.5 for text, 3 for lines that mean something."""
    style = drawn(folder()).findtext(f"{SVG}style")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for sheet in (light, dark):
        ground = colour(sheet, r"\.ground\{fill:")
        faint = colour(sheet, r"\.faint\{fill:")
        ink = colour(sheet, r"text\{(?:font:[^;]*;)?fill:")
        for box in (ground, *(colour(sheet, rf"\.{css}\{{fill:") for css in ("node", "leaf", "net"))):
            assert contrast(ink, box) >= 4.5
            assert contrast(faint, box) >= 4.5
        assert len(re.findall(r"\.r\d\{", sheet)) == 8
        for rail in range(8):
            assert contrast(colour(sheet, rf"\.r{rail}\{{stroke:"), ground) >= 3


def colour(sheet, before):
    return re.search(before + "#([0-9a-f]{6}|[0-9a-f]{3})\\b", sheet)[1]


def test_the_same_inventory_is_the_same_bytes(folder):
    place = folder("gpu[01-40]", 4, nodes_per_unit=4, leaf="l-{unit}", rate_gbps=100.0)
    first, second = (railyard("plan", "-i", place, "--svg", "-", PYTHONHASHSEED=seed) for seed in ("1", "2"))
    assert first.stdout.startswith("<svg ")
    assert first.stdout == second.stdout


def test_bad_input_draws_nothing(folder, tmp_path):
    place = folder("gpu[1-2]", 2)
    file = tmp_path / "plan.svg"
    variables = place / "group_vars" / "all" / "fabric.yml"
    variables.write_text(variables.read_text().replace("roce", "iwarp"))
    done = railyard("plan", "-i", place, "--svg", file)
    assert (done.returncode, done.stdout) == (2, "")
    assert "fabric.transport" in done.stderr
    assert not file.exists()
    done = railyard("plan", "-i", PAIR, "--json", "--svg", "-")
    assert (done.returncode, done.stdout) == (2, "")
    done = railyard("plan", "-i", PAIR, "--svg", tmp_path / "no" / "folder.svg")
    assert done.returncode == 2
    assert "folder.svg cannot be written" in done.stderr


def test_a_drawing_is_replaced_atomically(tmp_path, monkeypatch):
    file = tmp_path / "plan.svg"
    file.write_text("before")

    def full(*_names):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        with pytest.raises(UserError, match="No space left"):
            svg_parts.write("<svg/>", str(file))
    assert file.read_text() == "before"
    assert list(tmp_path.iterdir()) == [file]
    svg_parts.write("<svg/>", str(file))
    assert file.read_text() == "<svg/>"


def test_links_of_a_network_each_are_one_leaf_and_one_subnet():
    place = paths.repo_root() / "inventories" / "rail-p2p-31"
    plan, problems = view.plan_or_problems([str(place)], None)
    assert problems == []
    drawing = svg_model.arrange(plan, {})
    (band,) = drawing.bands
    assert [box.label for box in band.boxes] == ["gpu[01-33]"]
    assert {leaf.sets for leaf in drawing.leaves.values()} == {1}
    root = ET.fromstring(svg.draw(plan, {}))
    assert texts(root).count("a /31 for each node") == 8
    assert "10.43.0.0/16" in texts(root)
    assert "subnet 10.40.0.0/16 a /31 for each node" in description(root)


def test_a_node_that_lacks_a_rail_has_no_port_there():
    port = {"netdev": "ens1", "leaf": "leaf0"}
    plan = plan_with(
        {"gpu1": {"r0": port, "r1": port}, "gpu2": {"r0": port, "r1": port}, "gpu3": {"r0": port}}
    )
    root = ET.fromstring(svg.draw(plan, {}))
    assert texts(root).count("no such rail") == 1
    assert "gpu3: r0 ens1 leaf leaf0; r1 no such rail." in description(root)
    # A dot is a port that is there: two of the first box, one of the second.
    assert len(root.findall(f".//{SVG}circle")) == 3
