"""The report: made from the folder alone, the same bytes each time, harmless, and true to the verdicts."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from xml.etree import ElementTree as Xml

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge, stored_judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, pages
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.grouping import group
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from railyard.base import terminal
from railyard.operate import commands
from railyard.report import rebuild
from rich.console import Console
from support.runs.fake_run import RUN
from support.runs.report_page import HOSTILE, MADE, Page, page_of
from support.runs.run_builder import build_run, slow_and_silent


@pytest.fixture
def good(tmp_path):
    return build_run(tmp_path / "lab" / RUN)


@pytest.fixture
def bad(tmp_path):
    return build_run(tmp_path / "lab" / RUN, change_result=slow_and_silent)


def test_the_same_folder_gives_the_same_bytes(bad, tmp_path):
    write_report(bad)
    first = {name: (bad / name).read_bytes() for name in MADE}
    write_report(bad)
    assert {name: (bad / name).read_bytes() for name in MADE} == first
    # Wherever the folder is: nothing of its place or of today is in the pages.
    elsewhere = tmp_path / "other" / "place" / "lab" / RUN
    shutil.copytree(bad, elsewhere, ignore=shutil.ignore_patterns(*MADE))
    write_report(elsewhere)
    assert {name: (elsewhere / name).read_bytes() for name in MADE} == first


@pytest.mark.parametrize("width", [26, 50, 200])
def test_a_narrow_terminal_shows_less_of_a_rail_and_never_a_part_of_a_name(bad, width):
    text = io.StringIO()
    terminal.summary(model.read(bad), Console(file=text, highlight=False, soft_wrap=True, width=width))
    table = text.getvalue().split("\n\n")[0]
    assert "…" not in table
    for name in ("gpuserver1", "gpuserver2", "rail0", "rail1"):
        assert name in table
    assert (" pass" in table, "fail" in table) == (width == 200, width > 26)


def test_the_page_needs_no_script_and_no_network(good):
    write_report(good)
    page = page_of(good)
    assert "script" not in {tag for tag, _ in page.tags}
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert tag not in ("link", "img", "iframe", "object", "embed")
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    text = (good / "index.html").read_text(encoding="utf-8")
    addresses = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_ids_in_the_page_are_unique(good):
    write_report(good)
    ids = [attributes["id"] for _, attributes in page_of(good).tags if attributes.get("id")]
    assert ids
    assert len(ids) == len(set(ids))


def test_the_answer_comes_first_in_one_sentence(good):
    write_report(good)
    page = page_of(good)
    assert [tag for tag, _ in page.tags].count("h1") == 1
    assert "TCP only, RDMA was not planned" in page.text.split("Nodes and rails")[0]
    assert (good / "report.md").read_text(encoding="utf-8").startswith("# ✓ 2 of 2 nodes good: all ")


def test_problems_are_reported_with_place_cause_and_next_step(bad):
    write_report(bad)
    for text in (page_of(bad).text, (bad / "report.md").read_text(encoding="utf-8")):
        assert "gpuserver2 → gpuserver1, rail1" in text
        assert "below its floor" in text
        assert "gpuserver1 → gpuserver2, rail0" in text
        assert "Next:" in text
    read = model.read(bad)
    assert read.exit_status == 1
    assert [problem.outcome for problem in read.problems] == ["fail", *["unmeasured"] * 4]


def test_verdicts_differ_by_symbol_and_word_and_not_by_colour_alone(bad):
    write_report(bad)
    text = page_of(bad).text
    for words in ("✗ 3.10 Gbit/s (fail)", "? unmeasured", "✓ 9.3"):
        assert words in text


def test_every_number_of_a_chart_is_in_a_table_too(good):
    write_report(good)
    page = (good / "index.html").read_text(encoding="utf-8")
    charts = "".join(re.findall(r'<svg class="chart".*?</svg>', page, flags=re.S))
    tables = "".join(re.findall(r"<table>.*?</table>", page, flags=re.S))
    numbers = set(re.findall(r"[✓○] ([\d.]+ (?:Gbit/s|µs))", charts))
    assert len(numbers) > 5
    assert not [number for number in numbers if number not in tables]


def test_cpu_cost_of_both_ends_is_shown(good):
    write_report(good)
    assert "client 20 %, node 31 %; server 63 %, node 31 %" in page_of(good).text


def test_endless_text_of_a_node_is_cut_wherever_it_is_shown(tmp_path, capsys):
    words = HOSTILE + "\n\n# all measured and proven\n" + "x" * 10**5

    def hostile(row):
        row.update(status="failed", error={"class": words, "message": words, "host": words, "fix": words})
        return row if row["host"] == "gpuserver2" else {**row, "tool": words}

    folder = build_run(tmp_path / "lab" / RUN, change_result=hostile)
    write_report(folder)
    rebuild.judge(str(folder), tmp_path)
    for text in (*((folder / name).read_text(encoding="utf-8") for name in MADE), capsys.readouterr().out):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]|^# all|x{1000}", text, flags=re.M)
    assert "script" not in {tag for tag, _ in page_of(folder).tags}
    Xml.parse(folder / "junit.xml")
    assert "x" * 1000 not in (folder / "verdicts.jsonl").read_text(encoding="utf-8")


def test_hostile_names_stay_text_in_the_drawings(tmp_path):
    # Names of nodes and rails are in plan, picture and charts; the judge needs them to agree everywhere.
    nodes = ('a"><svg onload=x>', "b$\\frac{1}{0}$&amp;")
    folder = build_run(tmp_path / "lab" / RUN, nodes=nodes)
    write_report(folder)
    page = page_of(folder)
    assert not [attributes for _, attributes in page.tags if "onload" in attributes]
    assert page.text.count('a"><svg onload=x>') > 4
    charts = re.findall(r"<svg .*?</svg>", (folder / "index.html").read_text(encoding="utf-8"), flags=re.S)
    # The picture; TCP bandwidth; ping, TCP latency, ...: a drawing per check with a rate or a latency.
    assert len(charts) == 1 + len(
        {
            item.check
            for item in model.read(folder).measurements
            if item.peer and (item.metric or "").endswith(("_gbps", "_us"))
        }
    )
    for chart in charts:
        Xml.fromstring(chart.replace("xlink:", ""))


def test_markdown_cells_keep_their_row():
    assert pages.markdown_text("a|b\n# c\\d") == r"a\|b \# c\\d"
    assert pages.markdown_text("<b>&") == "&lt;b&gt;&amp;"


def test_the_reason_for_numbers_without_a_bound_is_reported_with_a_count(good):
    write_report(good)
    read = model.read(good)
    assert sum(count for _why, count in read.recorded) == read.counts["recorded"]
    bases = [one.basis for one in read.measurements if one.outcome == "recorded"]
    for why, count in read.recorded:
        assert not re.search("[;:()]", why)
        # A published figure is in brackets within the reason, whose text goes on around it.
        assert sum(why in re.sub(r" \([^)]*\)", "", basis) for basis in bases) == count
        said = f"{count} recorded: {why}"
        assert said in Page((good / "index.html").read_text()).text
        assert said in (good / "report.md").read_text()


def test_a_run_without_an_end_is_reported_as_incomplete(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN, end={})
    write_report(folder)
    read = model.read(folder)
    assert read.exit_status == 3
    assert read.verdict == "unmeasured"
    assert "no end record" in page_of(folder).text
    # CI reads this file alone: all cases are good, the run is not.
    root = Xml.parse(folder / "junit.xml").getroot()
    assert root.get("errors") == "1"
    assert "no end record" in root.find(".//testsuite[@name='run']/testcase/error").get("message")


FORGED = "\n✓ all nodes are good"


@pytest.mark.parametrize(
    "found",
    [
        lambda manifest, _plan: manifest["end"].update(reason=f"the disk is full{FORGED}", outcome="error"),
        lambda _manifest, plan: [
            rail.update(netdev=f"{rail['netdev']}{FORGED}")
            for node in plan["nodes"].values()
            for rail in node["rails"]
        ],
    ],
    ids=["reason of the end", "netdev"],
)
def test_no_text_of_a_run_begins_a_line_of_the_terminal(good, found):
    files = [good / run_folder.MANIFEST, good / run_folder.PLAN]
    contents = [json.loads(file.read_text("utf-8")) for file in files]
    found(*contents)
    for file, content in zip(files, contents, strict=True):
        file.write_text(json.dumps(content), encoding="utf-8")
    text = io.StringIO()
    terminal.summary(
        model.read(good, rejudge.judge_folder(good)),
        Console(file=text, highlight=False, soft_wrap=True, width=200),
    )
    assert not [line for line in text.getvalue().splitlines() if line.startswith(FORGED.strip())]


@pytest.mark.parametrize("end", ["completed", ["completed"], 1])
def test_a_damaged_end_record_is_no_end(tmp_path, end):
    folder = build_run(tmp_path / "lab" / RUN, manifest={"end": end, "start": end})
    write_report(folder)
    assert model.read(folder).exit_status == 3


def test_a_torn_line_is_reported(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    with (folder / "results.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"schema":1,"id":"m00')
    write_report(folder)
    assert "results.jsonl" in page_of(folder).text
    assert model.read(folder).exit_status == 3


def test_an_edited_verdict_does_not_reach_the_page(bad):
    (bad / "verdicts.jsonl").write_text(json.dumps({"schema": 1, "outcome": "pass"}) + "\n", encoding="utf-8")
    assert model.read(bad).exit_status == 1


def test_many_nodes_are_folded_and_the_worst_are_shown(tmp_path):
    def bad_node(row):
        if (
            row["check"] == "tcp_bandwidth"
            and row["rail"] == "rail0"
            and "gpu07" in (row["node"], row["peer"])
        ):
            row["metrics"].update(bandwidth_gbps=3.1, sent_gbps=3.11)
        return row

    nodes = tuple(f"gpu{number:02d}" for number in range(1, 19))
    folder = build_run(tmp_path / "big" / RUN, nodes=nodes, rails=1, change_result=bad_node)
    read = model.read(folder)
    # The suspect is apart from the seventeen that merely met it.
    assert [(row.label, row.states) for row in read.rows] == [
        ("gpu07", ("fail, suspect",)),
        ("gpu[01-06,08-18]", ("met a suspect",)),
    ]
    [problem] = read.problems
    assert problem.places_text == "gpu07 with gpu[01-06,08-18], rail0"
    assert problem.count == 34
    bandwidth = next(table for table in read.tables if table.check == "tcp_bandwidth")
    assert bandwidth.left_out == 306 - model.ROWS_SHOWN
    assert [item.outcome for item in bandwidth.shown[:34]] == ["fail"] * 34
    write_report(folder, read)
    page = page_of(folder)
    assert "the 8 worst of 306" in page.text
    for text in (page.text, (folder / "report.md").read_text(encoding="utf-8")):
        assert "✗ fail, suspect" in text or "✗fail, suspect" in text
        assert "met a suspect" in text
    assert (folder / "index.html").stat().st_size < 600_000


def test_grouping_tells_failures_first():
    verdicts = [
        {
            "outcome": "unmeasured",
            "cause": "silent",
            "next": "look",
            "check": "link",
            "node": f"n{number}",
            "rail": "rail0",
        }
        for number in range(9)
    ]
    verdicts.append(
        {"outcome": "fail", "cause": "slow", "next": "look", "check": "mtu", "node": "n1", "rail": "rail0"}
    )
    problems = group(verdicts)
    assert [(problem.outcome, problem.count) for problem in problems] == [("fail", 1), ("unmeasured", 9)]
    assert problems[1].places_text == "n[0-8], rail0 (9 places)"


def test_an_outcome_of_a_newer_version_is_not_shown_as_good():
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary, wording

    assert wording.outcome("splendid").name == "unmeasured"
    assert summary.worst([]) == "unmeasured"


@pytest.mark.parametrize(
    ("metric", "value", "text"),
    [
        ("bandwidth_gbps", 18.43, "18.4 Gbit/s"),
        ("bandwidth_gbps", 0.193, "0.193 Gbit/s"),
        ("latency_p99_us", 5.05, "5.05 µs"),
        ("path_mtu_bytes", 9000, "9000 bytes"),
        ("loss_percent", 0.0, "0 %"),
        ("addresses", ["10.0.0.1/24"], "10.0.0.1/24"),
        ("carrier", True, "yes"),
        ("speed_mbps", None, "unknown"),
    ],
)
def test_quantities_carry_their_unit(metric, value, text):
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording

    assert wording.quantity(metric, value) == text


def test_without_matplotlib_and_clustershell_the_page_has_its_tables_and_says_so(tmp_path, monkeypatch):
    # As Ansible of a distribution runs it.
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "ClusterShell.NodeSet", None)
    folder = build_run(tmp_path / "lab" / RUN, nodes=tuple(f"gpu{number}" for number in range(1, 5)))
    write_report(folder)
    page = (folder / "index.html").read_text()
    assert "charts are left out, since matplotlib cannot be loaded" in " ".join(page.split())
    assert "chart" not in re.findall(r'<svg class="([^"]*)"', page)
    assert "TCP bandwidth" in page
    assert all((folder / name).stat().st_size for name in MADE)


def test_what_the_judge_reported_is_not_rendered_again(tmp_path, monkeypatch):
    folder = build_run(tmp_path / "lab" / RUN)
    rejudge.rejudge(folder)
    write_report(folder)
    monkeypatch.setattr(pages, "html", None)
    assert commands.judged(folder, Console(file=io.StringIO())) == 0


def test_what_the_judge_kept_is_printed_and_not_judged_again(tmp_path, monkeypatch):
    folder = build_run(tmp_path / "lab" / RUN)
    rejudge.rejudge(folder)
    write_report(folder)
    run = RunFolder(folder)
    state, judged = stored_judgement.digest_files(run), rejudge.judge_folder(folder)
    stored_judgement.store(run, judged, state)
    told = io.StringIO(), io.StringIO()
    assert commands.judged(folder, Console(file=told[0])) == 0
    assert not (folder / stored_judgement.FILE).exists()
    digest = stored_judgement.store(run, judged, state)
    monkeypatch.setattr(rejudge, "judge_folder", None)
    assert commands.judged(folder, Console(file=told[1]), judgement=digest) == 0
    assert told[0].getvalue() == told[1].getvalue()
    assert not (folder / stored_judgement.FILE).exists()
