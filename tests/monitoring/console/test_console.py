# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The console page of Prometheus: what it says of a cluster with one fault of each kind, and how it looks."""

from __future__ import annotations

import html.parser
import re
import urllib.parse
from pathlib import Path

import pytest
from support import chromium
from support.monitoring.server import CONSOLES, Prometheus

PAGE = CONSOLES / "railyard.html"
#: From the worst: silent, then a critical alert or a wrong rail, then warnings and errors.
SILENT, CRITICAL = ["gpu0010"], ["gpu0002", "gpu0003", "gpu0004", "gpu0005", "gpu0006", "gpu0013", "gpu0014"]
WARNED = ["gpu0007", "gpu0008", "gpu0009", "gpu0011", "gpu0012", "gpu0015"]


class Text(html.parser.HTMLParser):
    """The text of a page, its tags, and the text of each element with a class."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.by_class: dict[str, list[str]] = {}
        self._open: list[tuple[str, list[str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "img", "br", "link"):
            self._open.append((dict(attrs).get("class") or tag, []))

    def handle_endtag(self, tag: str) -> None:
        name, texts = self._open.pop()
        for word in name.split():
            self.by_class.setdefault(word, []).append(" ".join(" ".join(texts).split()).replace(" ,", ","))
        if self._open:
            self._open[-1][1].extend(texts)

    def handle_data(self, data: str) -> None:
        if self._open:
            self._open[-1][1].append(data)


def fetch(prometheus: Prometheus, **parameters: str) -> str:
    return prometheus.page(f"?{urllib.parse.urlencode(parameters)}").decode("utf-8")


def section(page: str, title: str) -> Text:
    """Return what is between a headline and the next one."""
    return Text(re.split(r"<h2[^>]*>|</body>", page.partition(f"{title}</h2>")[2])[0])


def test_the_headline_counts_what_is_wrong(watched: Prometheus) -> None:
    """Two of 16 nodes give no metrics of rails: one is silent, one has no metrics of Railyard."""
    (headline,) = Text(fetch(watched, cluster="fake")).by_class["h1"]
    assert headline == "16 nodes, 112 rails: 5 rails are wrong, 5 have errors, 1 node does not answer"


def test_nodes_that_are_not_good_are_listed_worst_first_and_good_ones_do_not(watched: Prometheus) -> None:
    found = section(fetch(watched, cluster="fake"), "Nodes that are not good")
    assert found.by_class["name"] == SILENT + CRITICAL + WARNED
    by_name = dict(zip(found.by_class["name"], found.by_class["what"], strict=True))
    assert by_name["gpu0010"].startswith("does not answer")
    assert "no data of its rails" in by_name["gpu0012"]
    assert by_name["gpu0002"].startswith("rail0 ✕ rail1 rail2 rail3 rail4 ✕ rail5 rail6 rail7")
    assert "RailDown" in by_name["gpu0002"]
    assert by_name["gpu0007"].startswith("! rail0 ! rail1 ! rail2 rail3 ! rail4 rail5")


def test_alerts_name_node_and_rail_critical_ones_first(watched: Prometheus) -> None:
    found = section(fetch(watched, cluster="fake"), "Alerts")
    severities = found.by_class["tag"]
    assert severities == sorted(severities, key=["critical", "warning", "info"].index)
    assert found.by_class["name"][:3] == [
        "critical GpuEccUncorrected",
        "critical GpuMissing",
        "critical GpuNvlinkDown",
    ]
    alerts = dict(zip(found.by_class["name"], found.by_class["what"], strict=True))
    assert alerts["critical RailDown"].startswith("2: gpu0002 rail1, gpu0002 rail5 for ")
    assert alerts["critical GpuXidFatal"].startswith("gpu0013 0000:4b:00.0 XID 79 for ")
    assert alerts["critical ValidationFailed"].startswith("fake")


def test_a_unit_shows_all_of_its_nodes(watched: Prometheus) -> None:
    page = fetch(watched, cluster="fake", unit="su01")
    assert section(page, "Scalable units").by_class["n"][5:] == ["16", "1", "112", "5", "5"]
    nodes = section(page, "Nodes of su01").by_class["name"]
    assert nodes == [f"gpu{number:04d}" for number in range(1, 17)]


def test_a_good_cluster_is_all_good_and_an_unknown_one_is_not(watched: Prometheus) -> None:
    good = Text(fetch(watched, cluster="folded"))
    assert good.by_class["h1"] == ["2 nodes, 16 rails: all good"]
    assert "No alert is firing." in good.by_class["p"]
    unknown = Text(fetch(watched, cluster="nobody"))
    assert unknown.by_class["h1"] == ["No node is scraped of cluster nobody"]
    assert "Nothing is known of any node." in unknown.by_class["p"]


def test_one_is_a_node_and_two_are_nodes(watched: Prometheus) -> None:
    tiles = Text(fetch(watched, cluster="fake")).by_class["tile"]
    assert tiles[:3] == ["1 silent node", "5 wrong rails", "5 rails with errors"]
    assert re.fullmatch("[0-9]{2} alerts", tiles[3])
    one = Text(fetch(watched, cluster="single"))
    assert one.by_class["h1"] == ["1 node, 8 rails: all good"]
    assert one.by_class["tile"][:4] == ["0 silent nodes", "0 wrong rails", "0 rails with errors", "0 alerts"]


@pytest.mark.parametrize("name", ["cluster", "unit"])
def test_a_parameter_of_the_address_is_a_text_and_no_query(watched: Prometheus, name: str) -> None:
    hostile = '"} or vector(1) or up{x="<script>alert(1)</script>\\'
    page = fetch(watched, **{"cluster": "fake", name: hostile})
    assert "script" not in Text(page).tags
    told = Text(page).by_class["h1"] if name == "cluster" else Text(page).by_class["p"]
    wanted = (
        f"No node is scraped of cluster {hostile}"
        if name == "cluster"
        else "No node of this unit is scraped."
    )
    assert wanted in told


def test_the_name_of_a_node_is_shown_as_it_is_and_does_nothing(watched: Prometheus, tmp_path: Path) -> None:
    page = fetch(watched)
    assert not {"img", "script", "iframe"} & set(Text(page).tags)
    names = {
        (one["metric"]["cluster"], one["metric"]["node"]) for one in watched.query('up{job="railyard-node"}')
    }
    ((cluster, node),) = [one for one in names if "<" in one[1]]
    assert f"{node} {cluster}" in section(page, "Nodes that are not good").by_class["name"]
    page = fetch(watched, cluster=cluster, unit="su01")
    assert node in section(page, "Nodes of su01").by_class["name"]
    assert node in section(page, "Nodes that are not good").by_class["name"]
    assert not {"img", "script", "iframe"} & set(Text(page).tags)
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    width, _height, title = chromium.measure(tmp_path / "page.html", 390)
    assert title.startswith("Railyard: ")
    assert width <= 390


def test_the_page_needs_no_script_and_nothing_from_elsewhere(watched: Prometheus) -> None:
    page = fetch(watched, cluster="fake", unit="su01")
    found = Text(page)
    assert not {"script", "img", "link", "iframe", "object"} & set(found.tags)
    assert not [name for name, _value in found.attributes if name.startswith(("on", "src", "style"))]
    assert {str(value)[0] for name, value in found.attributes if name == "href"} == {"?", "/"}
    assert not re.search(r"https?://|url\(|@import", page)


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_width_of_a_phone_and_of_a_desk(
    watched: Prometheus, tmp_path: Path, width: int
) -> None:
    page = tmp_path / "page.html"
    page.write_text(fetch(watched, cluster="fake", unit="su01"), encoding="utf-8")
    wide, high, _title = chromium.measure(page, width)
    assert wide <= width
    assert high > 900
