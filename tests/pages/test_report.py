"""The report page in a browser, on a desk, on a phone and printed: nothing is cut off at any size."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import documents, model
from railyard.base.paths import repo_root
from support import chromium

sys.path[:0] = [str(repo_root() / "benchmarks" / name) for name in ("report", "judge")]
import measure  # noqa: E402 - found there

#: Nodes x rails, as benchmarks/report names them: sound ones, and some with one slow rail.
SIZES = ("2x2:all_pairs", "3x2:all_pairs:slow", "16x8:auto", "32x8:auto:slow", "1024x8:auto:stand-in:slow")


class Page(NamedTuple):
    path: Path
    nodes: int


@pytest.fixture(scope="module", params=SIZES)
def page(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Page:
    folder = tmp_path_factory.mktemp("reports") / "hall" / measure.sound_run.RUN
    judged = measure.build(folder, request.param)
    documents.write_report(folder, model.read(folder, judged))
    return Page(folder / "index.html", int(request.param.partition("x")[0]))


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_the_window_and_no_text_of_a_drawing_is_cut(page: Page, width: int) -> None:
    wide, high, title = chromium.measure(page.path, width)
    assert wide <= width
    assert high > 900
    assert title.endswith("Railyard report")
    assert chromium.find_cut_texts(page.path, width) == []


def test_from_eight_nodes_on_the_page_lists_its_sections(page: Page) -> None:
    text = page.path.read_text(encoding="utf-8")
    contents = text.partition('<nav class="contents"')[2].partition("</nav>")[0]
    anchors = re.findall(r'<h2 id="([a-z-]+)">', text)
    assert re.findall(r'href="#([a-z-]+)"', contents) == (anchors if page.nodes >= 8 else [])
    assert len(anchors) == len(set(anchors)) > 6


def test_it_prints_on_a_few_sheets(page: Page, tmp_path: Path) -> None:
    assert 2 < chromium.print_pages(page.path, tmp_path / "page.pdf") < 20
