"""Case 15 of the design: what a device calls itself changes neither a terminal, nor a page, nor a path."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from railyard.lab.subnet.faults import DeviceLost, LinkDown
from railyard.lab.subnet.net import End
from support import simulated
from support.net_faults import describe
from support.simulated import Cluster

CLUSTER = Cluster(nodes=4, rails=2)
HOSTILE = {
    "gpu002 mlx5_0": "\x1b[2J\x1b[31m<img src=x onerror=alert(1)>",
    "gpu003 mlx5_0": "../../../../tmp/evil <script>x</script>",
    "gpu003 mlx5_1": "gpu003 mlx5_1\x07\x9b31m",
    "su1-leaf2": "MF0;<b onclick='x'>leaf</b>;$(id) `id`",
    "spine1": "]]> --> </svg><script>alert(1)</script>",
}


class Tags(HTMLParser):
    """The names of a page's elements, and their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of a subnet with hostile names, and faults so that they are printed."""
    place = tmp_path_factory.mktemp("hostile")
    net = CLUSTER.net()
    for device, description in HOSTILE.items():
        net = describe(net, device, description)
    with simulated.simulate(net, place / "sim") as subnet:
        subnet.make(LinkDown(End("su1-leaf2", 5)), DeviceLost("spine2"))
        captures.write(simulated.read(subnet), place / "capture")
    (place / "hosts.yml").write_text(CLUSTER.text())
    return place


def test_hostile_descriptions_stay_text(folder: Path, tmp_path: Path) -> None:
    svg = tmp_path / "fabric.svg"
    words = ("--from", str(folder / "capture"), "--svg", str(svg))
    done = simulated.run_fabric(folder / "hosts.yml", tmp_path / "reports", *words)
    assert done.returncode == 1, done.stdout + done.stderr
    text = done.stdout + done.stderr
    assert not any(letter in text for letter in "\x1b\x07\x9b")
    # The descriptions did arrive.
    assert "onerror=alert(1)" in text

    pages = sorted((tmp_path / "reports").rglob("index.html"))
    assert len(pages) == 1
    page = pages[0].read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(page)
    assert not any(tag == "img" or "onclick" in attrs or "onerror" in attrs for tag, attrs in tags.seen)
    assert "alert(1)</script>" not in page
    assert "onerror=alert(1)" in page
    assert not any(letter in page for letter in "\x1b\x07\x9b")

    drawing = svg.read_text(encoding="utf-8")
    elements = {one.tag.rpartition("}")[2] for one in ET.fromstring(drawing).iter()}
    assert "script" not in elements
    assert "img" not in elements

    named = [one.name for one in (*tmp_path.rglob("*"), *folder.rglob("*"))]
    assert not any("evil" in name or "<" in name for name in named)


def test_hostile_descriptions_are_valid_json(folder: Path, tmp_path: Path) -> None:
    words = ("--from", str(folder / "capture"), "--json")
    done = simulated.run_fabric(folder / "hosts.yml", tmp_path / "reports", *words)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)
    assert "\x1b" not in done.stdout
