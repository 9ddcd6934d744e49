"""The drawing of a subnet: what is in it, its size, and that the same input gives the same bytes."""

from __future__ import annotations

import random
import re
import time
import xml.etree.ElementTree as ET
from collections.abc import Sequence

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import (
    LinkRecord,
    PathRecord,
    PortRecord,
    WayRecord,
)
from railyard.fabric import drawing
from support.contrast import contrast
from support.fake_subnet_faults import FAULTS, PARTITIONS, Fault, Places
from support.fake_subnets import Net

SVG = "{http://www.w3.org/2000/svg}"
MOST_BYTES, MOST_S = 1 << 20, 5.0


def draw(net: Net, before: Net | None = None, page: str = "", paths: Sequence[PathRecord] = ()) -> str:
    expected = net.expected()
    previous = before.reading(taken_at_s=net.taken_at_s - 3600) if before else None
    reading = net.reading()
    judgement = judge.judge(reading, expected, previous)
    numbered = list(enumerate(judgement.findings, 1))
    return drawing.draw("mine", "headline", reading, judgement, numbered, page, paths)


def texts(svg: str) -> list[str]:
    return ["".join(one.itertext()) for one in ET.fromstring(svg).iter(f"{SVG}text")]


def faults(svg: str) -> list[str]:
    """Return the classes of the colored lines and edges."""
    found = [
        one.get("class", "") for one in ET.fromstring(svg).iter() if one.tag in (f"{SVG}path", f"{SVG}rect")
    ]
    return [one.removeprefix("fault ") for one in found if one.startswith("fault ")]


def test_a_healthy_subnet_has_no_colored_line() -> None:
    svg = draw(Net())
    assert faults(svg) == []
    assert "<a " not in svg
    shown = texts(svg)
    assert {"spine0", "spine1", "leaf0-0", "leaf1-3"} <= set(shown)
    assert "su1: gpu[001-004]" in shown
    assert shown.count("4 hosts") == 2
    # A line for each leaf and spine, and one from each leaf to its hosts.
    lines = "".join(one.get("d", "") for one in ET.fromstring(svg).iter(f"{SVG}path"))
    assert (lines.count("L"), lines.count("V")) == (8 * 2, 8)


def test_the_same_input_gives_the_same_bytes() -> None:
    net = Net()
    net.disconnect(net.adapter_key(0, 0))
    assert draw(net, Net()) == draw(net.copy(), Net())


def test_a_lost_rail_is_red_with_its_port_and_its_finding() -> None:
    net = Net()
    net.disconnect(net.adapter_key(2, 1))
    svg = draw(net, Net(), "index.html")
    assert faults(svg) == ["fail"]
    assert "port 3" in texts(svg)
    assert "gpu003 rail1: leaf0-1 port 3" in texts(svg)
    assert set(re.findall('href="([^"]+)"', svg)) == {"index.html#finding-1"}


def test_a_lost_uplink_is_a_line_with_the_ports_of_both_ends() -> None:
    net = Net()
    far = net.disconnect(PortKey(net.leaf(1, 2), 7))
    svg = draw(net, Net())
    assert faults(svg) == ["warn"]
    assert {"port 7", f"port {far.number}"} <= set(texts(svg))


def test_a_spine_that_is_gone_marks_the_ports_of_its_leaves() -> None:
    net = Net()
    net.remove(net.spine(1))
    svg = draw(net, Net())
    assert set(faults(svg)) == {"fail"}
    assert texts(svg).count("ports 9, 10") == 8


def path_of(*keys: PortKey) -> PathRecord:
    """Return a path by the ports that it passes, each link's out and into."""
    ends: list[PortRecord] = [{"name": "x", "port": key.number, "guid": key.guid} for key in keys]
    links: list[LinkRecord] = [
        {"out": out, "into": into, "rate_gbps": 100.0, "grown": []}
        for out, into in zip(ends[::2], ends[1::2], strict=True)
    ]
    way: WayRecord = {"sender": "a", "receiver": "b", "links": links, "unknown": None}
    return {"node": "a", "peer": "b", "rail": "rail0", "checks": [], "ways": [way]}


@pytest.mark.parametrize(("units", "lines"), [(2, (2, 2)), (3, (0, 2))])
def test_the_links_of_a_slow_pairs_path_are_broad_lines(units: int, lines: tuple[int, int]) -> None:
    """With several rows of units, as lost uplinks too, only below the leaves."""
    net = Net(units=units, rails=4 if units == 2 else 8)
    start, end = net.adapter_key(0, 0), net.adapter_key(4, 0)
    up = next(
        PortKey(net.leaf(0, 0), number)
        for number, port in net.devices[net.leaf(0, 0)].ports.items()
        if port.peer and port.peer.guid == net.spine(1)
    )
    down = next(key for key in map(net.peer, ports_of(net, net.spine(1))) if key.guid == net.leaf(1, 0))
    keys = (start, net.peer(start), up, net.peer(up), net.peer(down), down, net.peer(end), end)
    svg = draw(net, paths=[path_of(*keys)])
    (way,) = [one.get("d", "") for one in ET.fromstring(svg).iter(f"{SVG}path") if one.get("class") == "way"]
    assert (way.count("L"), way.count("V")) == lines
    # The same path back is the same lines, and what is not in the subnet is not drawn.
    back = path_of(*keys[::-1])
    assert draw(net, paths=[path_of(*keys), back]) == svg
    assert 'class="way"' not in draw(net, paths=[path_of(PortKey("0x1", 1), PortKey("0x2", 1))])


def ports_of(net: Net, guid: str) -> list[PortKey]:
    return [PortKey(guid, number) for number, port in net.devices[guid].ports.items() if port.peer]


def test_with_several_rows_of_units_the_ends_are_marked_in_place_of_lines() -> None:
    net = Net(units=3, rails=8)
    far = net.disconnect(PortKey(net.leaf(2, 2), 7))
    svg = draw(net, Net(units=3, rails=8))
    assert faults(svg) == ["warn", "warn"]
    assert f"leaf2-2 port 7 to spine0 port {far.number}" in texts(svg)
    assert any("only links with findings are drawn" in text for text in texts(svg))


@pytest.mark.parametrize("units", [2, 4])
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_finding_with_ports_is_drawn(fault: Fault, units: int) -> None:
    net = Net(units=units, nodes_each=4, rails=4, spines=3)
    net.pkeys = {
        net.adapter_key(node, rail): (0xFFFF, 0x8001) for node in range(4 * units) for rail in range(4)
    }
    before = net.copy()
    fault(net, Places(net, random.Random(7)))
    reading = net.reading()
    expected = net.expected(partitions=PARTITIONS)
    judgement = judge.judge(reading, expected, before.reading(taken_at_s=net.taken_at_s - 3600))
    svg = drawing.draw("mine", "x", reading, judgement, list(enumerate(judgement.findings, 1)))
    with_ports = {number for number, one in enumerate(judgement.findings, 1) if one.ports}
    assert {int(number) for number in re.findall('href="#finding-([0-9]+)"', svg)} == with_ports
    ET.fromstring(svg)


def test_names_are_text() -> None:
    net = Net()
    net.devices[net.spine(0)].description = '\x1b[2J<script>"&\u202e'
    svg = draw(net)
    assert '<script>"&' in texts(svg)
    assert "\x1b" not in svg
    assert "\u202e" not in svg


def test_no_switch_and_no_unit_is_still_a_drawing() -> None:
    net = Net(units=1, nodes_each=1, rails=1, spines=0)
    assert "su1: gpu001" in texts(draw(net))
    net.remove(net.leaf(0, 0))
    ET.fromstring(draw(net))


@pytest.mark.parametrize("lost", [0, 600])
def test_4096_adapters_are_drawn_in_5_s_and_1_mb(lost: int) -> None:
    net = Net(units=16, nodes_each=32, rails=8, spines=32, links_each=1)
    whole = net.copy()
    for index in range(lost):
        net.disconnect(net.adapter_key(index % 512, index // 512))
    reading = net.reading()
    judgement = judge.judge(reading, net.expected(), whole.reading(taken_at_s=net.taken_at_s - 60))
    began = time.monotonic()
    svg = drawing.draw("mine", "x", reading, judgement, list(enumerate(judgement.findings, 1)), "index.html")
    assert time.monotonic() - began < MOST_S
    assert len(svg.encode()) <= MOST_BYTES
    assert len(judgement.findings) >= lost / 8
    assert any("not drawn" in text for text in texts(svg)) is (len(judgement.findings) > 400)


def test_light_and_dark_colours_have_enough_contrast() -> None:
    """WCAG 2.2: contrast of 4.5 for text, 3 for lines that mean something."""
    style = ET.fromstring(draw(Net())).findtext(f"{SVG}style") or ""
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for sheet in (light, dark):
        grounds = [color(sheet, rf"\.{css}\{{fill:") for css in ("ground", "node", "leaf", "net")]
        for css in ("tfail", "twarn"):
            assert all(contrast(color(sheet, rf"\.{css}\{{fill:"), ground) >= 4.5 for ground in grounds)
        for css in ("fail", "warn"):
            assert contrast(color(sheet, rf"\.{css}\{{stroke:"), grounds[0]) >= 3


def color(sheet: str, before: str) -> str:
    found = re.search(before + "#([0-9a-f]{6}|[0-9a-f]{3})\\b", sheet)
    assert found, before
    return found[1]
