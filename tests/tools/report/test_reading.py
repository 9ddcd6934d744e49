"""Who reads the page by screen reader, keyboard, phone or on paper; and how each bound came about."""

from __future__ import annotations

import re

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, pages, spread
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement
from support.contrast import contrast
from support.runs.fake_run import RUN
from support.runs.report_page import page_of
from support.runs.run_builder import build_run

STYLE = (pages.Path(pages.__file__).with_name("templates") / "style.css").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = build_run(tmp_path_factory.mktemp("run") / "lab" / RUN, rdma=True)
    write_report(folder)
    return folder


def palettes() -> list[dict[str, str]]:
    """The colours of light, dark and paper."""
    found = [dict(re.findall(r"--([a-z-]+): (#[0-9a-f]+)", block)) for block in STYLE.split(":root {")[1:]]
    assert len(found) == 3
    return found


STATES = ("pass", "fail", "recorded", "not-applicable", "met-suspect")


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(
    ("text", "ground"),
    [(text, ground) for text in ("ink", "faint") for ground in ("paper", "ground")]
    + [("on-state", state) for state in STATES]
    + [("on-unmeasured", "unmeasured")],
)
def test_text_has_enough_contrast(number, text, ground):
    """WCAG AA: 4.5 to 1."""
    palette = palettes()[number]
    assert contrast(palette[text], palette[ground]) >= 4.5


def test_a_screen_reader_gets_captions_headings_and_names(folder):
    text = (folder / "index.html").read_text(encoding="utf-8")
    tables = re.findall(r"<table.*?</table>", text, flags=re.S)
    assert len(tables) > 20
    for table in tables:
        assert re.match(r"<table[^>]*>\s*<caption", table), table[:200]
        assert not re.search(r"<th(?![^>]*scope=)[ >]", table), table[:200]
    for svg in re.findall(r'<svg class="[^>]*>', text):
        assert re.search(r'role="img"[^>]* aria-label="[A-Z]', svg), svg
    for summary in re.findall(r"<details[^>]*>\s*<(\w+)", text):
        assert summary == "summary"


def test_the_keyboard_reaches_what_is_wider_than_the_screen(folder):
    page = page_of(folder)
    wide = [attributes for _tag, attributes in page.tags if attributes.get("class") == "scroll"]
    assert len(wide) > 20
    for attributes in wide:
        assert (attributes["tabindex"], attributes["role"]) == ("0", "region")
        assert attributes["aria-label"]
    ids = {attributes["id"] for _tag, attributes in page.tags if attributes.get("id")}
    links = [attributes["href"] for tag, attributes in page.tags if tag == "a"]
    assert links[0] == "#answer", "the way past the head comes first"
    assert not {link.removeprefix("#") for link in links} - ids
    assert ":focus-visible" in STYLE


def test_paper_cuts_no_table_and_prints_no_folded_one():
    """28 pages of 2 x 2 were the folded ones."""
    paper = STYLE.split("@media print", 1)[1]
    assert "details-content" not in paper
    assert re.search(r"\.scroll \{ overflow: visible", paper)
    assert re.search(r"\.numbers td[^{]*\{[^}]*white-space: normal", paper)


def test_how_each_bound_came_about_is_read_and_not_pointed_at(folder):
    read = model.read(folder)
    table = next(table for table in read.tables if table.check == "tcp_bandwidth")
    [reason] = table.reasons
    assert reason.bounds == (
        ("floor", "bandwidth at least 8 Gbit/s"),
        ("ceiling", "bandwidth at most 10.1 Gbit/s"),
    )
    assert (reason.number, reason.count) == (1, 4)
    assert "ESnet fasterdata" in reason.basis
    assert [table.reason(item) for item in table.shown] == [1] * 4
    exact = next(table for table in read.tables if table.check == "mtu").reasons[0]
    assert exact.bounds == (("exactly", "MTU 9000 bytes"),)
    page, markdown = page_of(folder), (folder / "report.md").read_text(encoding="utf-8")
    assert not [attributes for _tag, attributes in page.tags if "title" in attributes]
    for told in (page.text, markdown):
        # Once for each check, and not once more for each of its lines.
        assert told.count(reason.basis[:60]) == 2
    assert "Basis 1 (4 lines): floor bandwidth at least 8 Gbit/s; ceiling bandwidth at most" in markdown


@pytest.mark.parametrize(
    ("check", "metric", "numbers", "direction", "of_rate", "worst"),
    [
        # Every node has 100 Gbit/s.
        (
            "tcp_bandwidth",
            "rate_gbps",
            {"a1": 81.0, "a2": 94.0, "a3": 95.0},
            "uni",
            "81 / 94 / 95 %",
            "a1 → a9",
        ),
        ("tcp_bandwidth", "rate_gbps", {"a1": 162.0, "a2": 188.0}, "bi", "81 / 88 / 94 %", "a1 → a9"),
        ("tcp_latency", "latency_avg_us", {"a1": 4.0, "a2": 19.0}, "uni", "", "a2 → a9"),
        ("tcp_latency", "latency_avg_us", {"a1": 4.0, "a2": 4.0}, "uni", "", ""),
    ],
)
def test_the_spread_has_the_share_of_the_declared_rate_and_the_worst_pair(
    check, metric, numbers, direction, of_rate, worst
):
    measured = [
        Measurement(check, node, "a9", "rail0", direction, "pass", {metric: value}, {}, {}, "", "", "", node)
        for node, value in numbers.items()
    ]
    rates = {(node, "rail0"): 100.0 for node in (*numbers, "a9")}
    (row,) = spread.measure_spread(measured, ["rail0"], rates)
    assert (row.of_rate, row.worst) == (of_rate, worst)
    (undeclared,) = spread.measure_spread(measured, ["rail0"], {**rates, ("a9", "rail0"): None})
    assert undeclared.of_rate == ""


def test_the_spread_of_each_rail_counts_what_is_measured(tmp_path):
    def silent(row):
        lost = (row["check"], row["node"], row["peer"], row["rail"]) == ("tcp_bandwidth", "a1", "a2", "rail0")
        return None if lost else row

    folder = build_run(tmp_path / "lab" / RUN, nodes=("a1", "a2", "a3"), change_result=silent)
    read = model.read(folder)
    rows = [row for row in read.spreads if row.check == "TCP bandwidth"]
    assert [(row.rail, row.measured, row.planned, row.metric) for row in rows] == [
        ("rail0", 5, 6, "Gbit/s"),
        ("rail1", 6, 6, "Gbit/s"),
    ]
    values = sorted(
        item.value
        for item in read.measurements
        if (item.check, item.rail) == ("tcp_bandwidth", "rail1") and item.value
    )
    assert rows[1].numbers[0] == f"{values[0]:.2f}"
    assert rows[1].numbers[-1] == f"{values[-1]:.2f}"
    assert spread.describe([10, 2, 1, 4, 3]) == (1, 3, 10)
    assert spread.describe([7]) == (7, 7, 7)
