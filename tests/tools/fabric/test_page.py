"""The page in a browser: on a phone and on a desk nothing is wider than the window, and nothing runs."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rank_order import Subnet
from railyard.fabric import documents
from support import chromium
from support.fake_subnets import Net


def build(net: Net, before: Net) -> documents.Report:
    reading, expected = net.reading(), net.expected()
    judgement = judge.judge(reading, expected, before.reading(taken_at_s=net.taken_at_s - 60))
    return documents.build_report("mine", [Subnet(reading, judgement)], expected, ["inventories/mine"])


def test_many_findings_of_a_cause_are_one_click_away() -> None:
    net = Net(units=4, nodes_each=8)
    for node in range(32):
        net.disconnect(net.adapter_key(node, 0))
    report = build(net, Net(units=4, nodes_each=8))
    (group,) = [one for one in report.folded if one.severity == "fail"]
    assert len(group.findings) == 32
    assert "<summary>20 more</summary>" in report.page
    anchors = re.findall(r'<li id="finding-([0-9]+)"', report.page)
    assert len(anchors) == len(set(anchors)) >= 32


def test_nothing_runs_and_nothing_is_loaded() -> None:
    page = build(Net(), Net()).page
    assert "<script" not in page
    assert not re.findall(r'(?:src|href)="(?!#)[^"]', page)
    assert "default-src 'none'" in page


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("units", [1, 6])
def test_the_page_is_no_wider_than_its_window(tmp_path, width: int, units: int) -> None:
    net = Net(units=units, rails=8)
    net.disconnect(net.adapter_key(0, 1))
    net.remove(net.spine(1))
    path = tmp_path / "index.html"
    path.write_text(build(net, Net(units=units, rails=8)).page, encoding="utf-8")
    wide, high, title = chromium.measure(path, width)
    assert wide <= width
    assert high > 1000
    assert title.endswith("Railyard fabric")
